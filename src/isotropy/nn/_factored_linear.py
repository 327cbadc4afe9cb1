"""A linear map between maps, factored into what goes in and what comes out."""

from __future__ import annotations

from math import prod, sqrt

import torch
from torch import Tensor, nn

from isotropy.nn._map_linear import MapLayer, MapSize


class FactoredLinear(MapLayer):
    """F-FC: every place of the output sees every place of the input, through one number.

    The map θ(c', p', c, p) = θ₁(c', c, p') θ₂(c', c, p) has a rank of one in the positions for
    each pair of channels. It is never written out: with x₁ in between,

        x₁(c', c) = Σ_p θ₂(c', c, p) x(c, p) + b₂(c')
        y(c', p') = Σ_c θ₁(c', c, p') x₁(c', c) + b₁(p')                     (paper Eq. 5)

    Positions p are all axes after the channels: (H, W) for images, the elements of a finite
    group for maps on it (appendix A).

    Curvature sees two operations (appendix C.1): θ₂ has a factor of size P × P for each c and
    θ₁ one of size C × C for each c', never those of all channels together.

    Args:
        in_channels: The channels C of the input.
        out_channels: The channels C' of the output.
        size_in: The axes of positions of the input, P of them in all: (H, W), one number n for
            a square (n, n), (n,) for a single axis, or any other tuple.
        size_out: Those of the output, P' in all; as ``size_in`` where None.
        bias: Whether there are b₁ and b₂; they start at zero.
        device: Where the parameters live.
        dtype: Their precision.

    Attributes:
        inner: θ₂, shape (C', C, P).
        outer: θ₁, shape (C', C, P').
        inner_bias: b₂, shape (C',), or None.
        outer_bias: b₁, shape (P',), or None.

    Raises:
        ValueError: If a number is not a positive whole one.

    Example:
        >>> layer = FactoredLinear(3, 4, size_in=(8, 6), size_out=(4, 3))
        >>> layer(torch.randn(7, 3, 8, 6)).shape
        torch.Size([7, 4, 4, 3])
        >>> on_a_group = FactoredLinear(3, 4, size_in=(24,))
        >>> on_a_group(torch.randn(7, 3, 24)).shape
        torch.Size([7, 4, 24])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size_in: MapSize,
        size_out: MapSize | None = None,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, size_in, size_out)
        before, after = prod(self.size_in), prod(self.size_out)

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.inner = empty(out_channels, in_channels, before)
        self.outer = empty(out_channels, in_channels, after)
        self.inner_bias = empty(out_channels) if bias else None
        self.outer_bias = empty(after) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw both factors so that entries of variance one stay so; biases start at zero."""
        for factor, summands in ((self.inner, self.inner.shape[2]), (self.outer, self.in_channels)):
            bound = sqrt(3 / summands)
            nn.init.uniform_(factor, -bound, bound)
        for bias in (self.inner_bias, self.outer_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    @property
    def weight(self) -> Tensor:
        """The map θ written out, without biases, shape (C', P', C, P)."""
        return torch.einsum("dcq,dcp->dqcp", self.outer, self.inner)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, *size_in) to (n, C', *size_out)."""
        self._require_maps(x)
        rows = x.flatten(2)
        middle = self._inward(rows)
        y = self._outward(middle)
        if self._recording:
            self._note(rows, middle, y)
        maps: Tensor = y.unflatten(2, self.size_out)
        return maps

    def _inward(self, rows: Tensor) -> Tensor:
        """(n, C, P) to x₁, shape (n, C, C'), a product for each channel of the input."""
        # with samples last in memory both products get x₁ without a copy
        bias = None if self.inner_bias is None else self.inner_bias.unsqueeze(1)
        return _products(bias, self.inner.transpose(0, 1), rows.permute(1, 2, 0)).permute(2, 0, 1)

    def _outward(self, middle: Tensor) -> Tensor:
        """x₁ to (n, C', P'), a product for each channel of the output."""
        bias: Tensor | None = self.outer_bias
        if self.outer.shape[2] > self.in_channels:
            return _products(bias, middle.permute(2, 0, 1), self.outer).transpose(0, 1)
        # few positions make thin matrices, which are slow as the right-hand side
        bias = None if bias is None else bias.unsqueeze(1)
        return _products(bias, self.outer.mT, middle.permute(2, 1, 0)).permute(2, 0, 1)

    def _note(self, rows: Tensor, middle: Tensor, y: Tensor) -> None:
        entries = _places(self.inner).transpose(0, 1)
        self.note("inner", rows, middle, entries=entries, blocks=True)
        entries = _places(self.outer).mT
        self.note("outer", middle, y, spread=_by_output, entries=entries, blocks=True)
        if self.inner_bias is not None:
            self.note_bias("inner_bias", middle, axes=("position",))
            self.note_bias("outer_bias", y, axes=("position",))

    def extra_repr(self) -> str:
        """Channels, sizes and whether there are biases, as ``print(layer)`` shows them."""
        return f"{super().extra_repr()}, bias={self.inner_bias is not None}"


def _products(bias: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    return torch.bmm(left, right) if bias is None else torch.baddbmm(bias, left, right)


def _by_output(middle: Tensor) -> Tensor:
    return middle.mT


def _places(parameter: Tensor) -> Tensor:
    return torch.arange(parameter.numel(), device=parameter.device).view(parameter.shape)
