"""Any linear map between maps: the layer without a symmetry, of which all others are cases."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotropy.nn._recorder import RecordedModule

MapSize: TypeAlias = int | Sequence[int]


class MapLayer(RecordedModule):
    """A layer from maps of one fixed size to maps of another.

    Raises:
        ValueError: If a number is not a positive whole one.
    """

    def __init__(
        self, in_channels: int, out_channels: int, size_in: MapSize, size_out: MapSize | None
    ) -> None:
        super().__init__()
        for name, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if not _is_positive(channels):
                raise ValueError(f"expected a positive whole number of {name}, got {channels!r}")
        self.in_channels, self.out_channels = in_channels, out_channels
        self.size_in = _axes(size_in, "size_in")
        self.size_out = self.size_in if size_out is None else _axes(size_out, "size_out")

    def _require_maps(self, x: Tensor) -> None:
        expected = (self.in_channels, *self.size_in)
        if x.shape[1:] != expected:
            shape = ", ".join(map(str, expected))
            raise ValueError(f"expected maps of shape (n, {shape}), got {tuple(x.shape)}")

    def extra_repr(self) -> str:
        """Channels and sizes, as ``print(layer)`` shows them."""
        return (
            f"{self.in_channels}, {self.out_channels}, size_in={self.size_in}, "
            f"size_out={self.size_out}"
        )


class MapLinear(MapLayer):
    """FC: every place of the output sees every place of the input.

        y(c', p') = Σ_{c,p} θ(c', p', c, p) x(c, p) + b(c', p')        (paper Eq. 1 and 4)

    Positions p are all axes after the channels: (H, W) for images, the elements of a finite
    group for maps on it (appendix A).

    Args:
        in_channels: The channels C of the input.
        out_channels: The channels C' of the output.
        size_in: The axes of positions of the input: (H, W), one number n for a square (n, n),
            (n,) for a single axis, or any other tuple.
        size_out: Those of the output; as ``size_in`` where None.
        bias: Whether there is a b; it starts at zero.
        start: What the usual starting weights are multiplied by.
        device: Where the parameters live.
        dtype: Their precision.

    Attributes:
        weight: θ as a matrix, shape (C'H'W', CHW).
        bias: b, shape (C'H'W',), or None.

    Raises:
        ValueError: If a number is not a positive whole one.

    Example:
        >>> layer = MapLinear(3, 4, size_in=(8, 6), size_out=(4, 3))
        >>> layer(torch.randn(7, 3, 8, 6)).shape
        torch.Size([7, 4, 4, 3])
        >>> layer.weight.shape
        torch.Size([48, 144])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size_in: MapSize,
        size_out: MapSize | None = None,
        *,
        bias: bool = True,
        start: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, size_in, size_out)
        self.start = start
        into, out = in_channels * prod(self.size_in), out_channels * prod(self.size_out)
        self.weight = nn.Parameter(torch.empty(out, into, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as ``torch.nn.Linear`` does; the bias starts at zero."""
        nn.init.kaiming_uniform_(self.weight, a=sqrt(5))
        with torch.no_grad():
            self.weight.mul_(self.start)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, *size_in) to (n, C', *size_out)."""
        self._require_maps(x)
        rows = x.flatten(1)
        y = F.linear(rows, self.weight, self.bias)
        if self._recording:
            self.note("weight", rows, y)
            if self.bias is not None:
                self.note_bias("bias", y)
        maps: Tensor = y.unflatten(1, (self.out_channels, *self.size_out))
        return maps

    def extra_repr(self) -> str:
        """Channels, sizes and whether there is a bias, as ``print(layer)`` shows them."""
        return f"{super().extra_repr()}, bias={self.bias is not None}"


def _axes(size: MapSize, name: str) -> tuple[int, ...]:
    axes = (size, size) if isinstance(size, int) else size
    if not isinstance(axes, Sequence) or not axes or not all(map(_is_positive, axes)):
        raise ValueError(f"expected one or more positive whole numbers as {name}, got {size!r}")
    return tuple(axes)


def _is_positive(number: object) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and number > 0
