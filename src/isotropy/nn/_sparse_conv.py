"""Convolution with filters that are smooth functions through a few anchor points."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._patches import circular_gram, padded
from isotropy.nn._radial_basis import Anchors, BasisKind, RadialBasis, grid_points
from isotropy.nn._recorder import RecordedModule


class SparseConv2d(RecordedModule):
    r"""A circular convolution whose filters have few parameters: S-CONV (Ouderaa et al. 2023).

        y(c', p) = b(c') + Σ_c Σ_k θ(c', c, k) x(c, p + k)
        θ(c', c, k) = Σ_m u(c', c, m) Φ(m, k)                                (paper Eq. 6)

    where Φ are the functions of a ``RadialBasis`` on the places k of the kernel, one pixel apart,
    around anchor points that all filters share. The layer commutes with circular shifts;
    with ω → 0 its filters become constant.

    To ``isotropy.evidence`` u, the bias and ω are parameters that it can integrate out, ω by its
    exact curvature. To learn ω up the evidence instead, name ``"basis.omega"`` in
    ``hyperparameters=``; anchors that are learned have to be named there (``"basis.anchors"``).

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: The size of the filters, for both axes or (vertical, horizontal).
        anchors: The anchor points, shape (m, 2), in pixels from the middle of the kernel; how many,
            or how many for each place, drawn uniformly over it; None for half as many as places,
            rounded upwards.
        omega: What ω starts at, in 1/pixels.
        basis: The kind of ``RadialBasis``. Interpolating ones reach any filter with values of its
            size.
        learn_anchors: Whether anchors are parameters, too.
        bias: Whether a bias is added to each channel.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If a size is not positive, the anchors are no such points, or the basis is
            unknown.

    Example:
        >>> layer = SparseConv2d(3, 8)
        >>> {name: tuple(p.shape) for name, p in layer.named_parameters()}
        {'u': (8, 3, 5), 'bias': (8,), 'basis.omega': ()}
        >>> x = torch.randn(2, 3, 6, 6)
        >>> torch.allclose(layer(x.roll(1, -1)), layer(x).roll(1, -1), atol=1e-6)
        True
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | tuple[int, int] = 3,
        *,
        anchors: Anchors = None,
        omega: float = 1.0,
        basis: BasisKind = "interpolating",
        learn_anchors: bool = False,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        size = (kernel_size, kernel_size) if isinstance(kernel_size, int) else tuple(kernel_size)
        if len(size) != 2 or min(in_channels, out_channels, *size) < 1:
            raise ValueError(
                "expected channels and a kernel of positive sizes, got "
                f"{in_channels}, {out_channels} and {kernel_size}"
            )
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, size
        self.basis = RadialBasis(
            grid_points(size),
            anchors,
            omega=omega,
            kind=basis,
            learn_anchors=learn_anchors,
            device=device,
            dtype=dtype,
        )
        number = self.basis.anchors.shape[0]

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.u = empty(out_channels, in_channels, number)
        self.bias = empty(out_channels) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw u for filters that suit rectified inputs (He et al. 2015); Φ stays."""
        if self.bias is not None:
            self.bias.zero_()
        if not self.u.is_meta:
            summands = self.in_channels * math.prod(self.kernel_size)
            drawn = self.basis.draw(*self.u.shape[:2], bound=math.sqrt(6 / summands))
            self.u.copy_(drawn)

    @property
    def weight(self) -> Tensor:
        """The filters θ, shape (out_channels, in_channels, *kernel_size)."""
        return self._filters(self.u, self.basis())

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, in_channels, h, w) to (n, out_channels, h, w)."""
        sides = self._sides()
        least = [max(both) for both in sides]
        if x.ndim != 4 or x.shape[1] != self.in_channels:
            raise ValueError(
                f"expected maps of shape (n, {self.in_channels}, h, w), got {tuple(x.shape)}"
            )
        if any(size < max(reach, 1) for size, reach in zip(x.shape[2:], least, strict=True)):
            raise ValueError(
                f"expected maps of at least {tuple(max(reach, 1) for reach in least)} for a kernel "
                f"of {self.kernel_size}, got {tuple(x.shape[2:])}"
            )
        basis = self.basis()
        wide = padded(x, sides, "circular")
        y = functional.conv2d(wide, self._filters(self.u, basis), self.bias)
        if self._recording:
            self._note_all(x, y, basis)
        return y

    def _filters(self, u: Tensor, basis: Tensor) -> Tensor:
        filters: Tensor = (u @ basis).unflatten(-1, self.kernel_size)
        return filters

    def _sides(self) -> list[tuple[int, int]]:
        return [((places - 1) // 2, places // 2) for places in self.kernel_size]

    def _note_all(self, x: Tensor, y: Tensor, basis: Tensor) -> None:
        # the closures outlive a call with other parameters, so they hold those of this one
        u, slope = self.u, self.basis.slope_later()
        channels, sides = self.in_channels, self._sides()

        def project(x: Tensor) -> Tensor:
            """Patches in the basis, (n, positions, in_channels · anchors), without the patches."""
            kernels = basis.unflatten(-1, self.kernel_size).unsqueeze(1)
            each = padded(x, sides, "circular").flatten(0, 1).unsqueeze(1)
            rows = functional.conv2d(each, kernels.to(each.dtype))
            return rows.reshape(-1, channels * kernels.shape[0], x.shape[2:].numel()).mT

        def gram(x: Tensor) -> Tensor:
            whole = circular_gram(x, self.kernel_size)
            whole = whole.unflatten(1, (channels, -1)).unflatten(0, (channels, -1))
            into = basis.to(whole.dtype)
            whole = torch.einsum("mk,ckdl,nl->cmdn", into, whole, into)
            return whole.flatten(2, 3).flatten(0, 1)

        def tangent(x: Tensor) -> Tensor:
            kernels = self._filters(u, slope()).to(x.dtype)
            return _by_number(functional.conv2d(padded(x, sides, "circular"), kernels))

        places = math.prod(self.kernel_size)
        # as for convolutions of torch: where correlations of channels take less than their patches
        pays = x.shape[0] * places**2 >= 1024 and channels <= x.shape[0] * places
        self.note(
            "u",
            x,
            y,
            axes=("space",),
            spread=project,
            gather=_by_position,
            gram=gram if pays else None,
        )
        self.note(
            "basis.omega", x, y, axes=("space",), spread=tangent, gather=_by_number, exact=True
        )
        if self.bias is not None:
            ones = y.new_ones(()).expand(y.shape[0], y.shape[2:].numel(), 1)
            self.note("bias", ones, y, axes=("space",), gather=_by_position)

    def extra_repr(self) -> str:
        """Channels and the kernel, as ``print(layer)`` shows them."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"bias={self.bias is not None}"
        )


def _by_position(gradient: Tensor) -> Tensor:
    return gradient.flatten(2).mT


def _by_number(gradient: Tensor) -> Tensor:
    return gradient.flatten(1).unsqueeze(-1)
