"""A factored linear map between maps whose factors are smooth functions of the position."""

from __future__ import annotations

from math import sqrt
from typing import Unpack

import torch
from torch import Tensor, nn

from isotropy.nn._constants import Factory
from isotropy.nn._map_linear import MapLayer, MapSize
from isotropy.nn._radial_basis import Anchors, BasisKind, RadialBasis, exact_points, grid_points


class SparseLinear(MapLayer):
    r"""S-FC: a ``FactoredLinear`` whose factors have few parameters (Ouderaa et al. 2023).

        x₁(c', c) = Σ_p θ₂(c', c, p) x(c, p) + b(c')
        y(c', p') = Σ_c θ₁(c', c, p') x₁(c', c)                              (paper Eq. 7)
        θ₂(c', c, p) = Σ_m u₂(c', c, m) Φ₂(m, p),   θ₁(c', c, p') = Σ_m u₁(c', c, m) Φ₁(m, p')

    where each Φ is a ``RadialBasis`` on the positions, with an ω of its own and anchor points that
    all channels share. With ω → 0 in Φ₁ the output is the same at all positions, with ω → 0 in Φ₂
    it depends on the mean of the input over positions alone: both together commute with every
    permutation of them, shifts included.

    Positions may be those of a grid, one unit apart, or any points: the elements of a finite group
    (appendix A) as the rows of a faithful representation, say. Anchors are drawn over the grid, or
    among the points.

    To ``isotropy.evidence`` u₁, u₂, the bias and both ω are parameters that it can integrate out,
    each ω by its exact curvature. To learn an ω up the evidence instead, name it
    (``"inner_basis.omega"``, ``"outer_basis.omega"``) in ``hyperparameters=``; anchors that are
    learned have to be named there.

    Args:
        in_channels: The channels C of the input.
        out_channels: The channels C' of the output.
        size_in: The axes of positions of the input: (H, W), one number n for a square (n, n), (n,)
            for a single axis, or any other tuple; or the coordinates of n positions along a single
            axis, shape (n, d).
        size_out: Those of the output; as ``size_in`` where None.
        anchors_in: The anchor points of Φ₂, shape (m, d); how many, or how many for each position;
            None for half as many as positions, rounded upwards.
        anchors_out: Those of Φ₁.
        omega: What both ω start at, in units of 1/distance.
        basis: The kind of ``RadialBasis``. Normalised ones do not vanish as ω grows, so that an
            evidence that asks for a simpler map has to let ω fall; the published code has
            interpolating ones.
        learn_anchors: Whether anchors are parameters, too.
        bias: Whether there is a b; it starts at zero.
        **factory: ``device``, where the parameters live, and ``dtype``, their precision.

    Attributes:
        inner: u₂, shape (C', C, anchors of the input).
        outer: u₁, shape (C', C, anchors of the output).
        inner_bias: b, shape (C',), or None.
        inner_basis: Φ₂.
        outer_basis: Φ₁.

    Raises:
        ValueError: If a size is not positive, anchors or coordinates are no such points, or the
            basis is unknown.

    Example:
        >>> layer = SparseLinear(3, 4, size_in=(8, 6), size_out=(4, 3))
        >>> layer(torch.randn(7, 3, 8, 6)).shape
        torch.Size([7, 4, 4, 3])
        >>> layer.inner.shape, layer.outer.shape
        (torch.Size([4, 3, 24]), torch.Size([4, 3, 6]))
        >>> angles = torch.arange(8) * torch.pi / 4
        >>> cyclic = torch.stack([angles.cos(), angles.sin()], 1)  # Z(8), on a circle
        >>> SparseLinear(3, 4, cyclic)(torch.randn(7, 3, 8)).shape
        torch.Size([7, 4, 8])
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        size_in: MapSize | Tensor,
        size_out: MapSize | Tensor | None = None,
        *,
        anchors_in: Anchors = None,
        anchors_out: Anchors = None,
        omega: float = 1.0,
        basis: BasisKind = "normalised",
        learn_anchors: bool = False,
        bias: bool = True,
        **factory: Unpack[Factory],
    ) -> None:
        coordinates_in = _coordinates(size_in)
        coordinates_out = coordinates_in if size_out is None else _coordinates(size_out)
        super().__init__(
            in_channels,
            out_channels,
            size_in if not isinstance(size_in, Tensor) else size_in.shape[:1],
            size_out if not isinstance(size_out, Tensor) else size_out.shape[:1],
        )

        def basis_on(
            coordinates: Tensor | None, size: tuple[int, ...], anchors: Anchors
        ) -> RadialBasis:
            return RadialBasis(
                grid_points(size) if coordinates is None else coordinates,
                anchors,
                among=coordinates is not None,
                omega=omega,
                kind=basis,
                learn_anchors=learn_anchors,
                **factory,
            )

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, **factory))

        self.inner_basis = basis_on(coordinates_in, self.size_in, anchors_in)
        self.outer_basis = basis_on(coordinates_out, self.size_out, anchors_out)
        self.inner = empty(out_channels, in_channels, self.inner_basis.anchors.shape[0])
        self.outer = empty(out_channels, in_channels, self.outer_basis.anchors.shape[0])
        self.inner_bias = empty(out_channels) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw u₁ and u₂ for factors as those of ``FactoredLinear``; Φ₁ and Φ₂ stay."""
        if self.inner_bias is not None:
            self.inner_bias.zero_()
        if self.inner.is_meta:
            return
        positions = self.inner_basis.targets.shape[0]
        for u, basis, summands in (
            (self.inner, self.inner_basis, positions),
            (self.outer, self.outer_basis, self.in_channels),
        ):
            u.copy_(basis.draw(*u.shape[:2], bound=sqrt(3 / summands)))

    @property
    def weight(self) -> Tensor:
        """The map θ₁ θ₂ written out, without the bias, shape (C', P', C, P)."""
        inner, outer = self.inner @ self.inner_basis(), self.outer @ self.outer_basis()
        return torch.einsum("dcq,dcp->dqcp", outer, inner)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, *size_in) to (n, C', *size_out)."""
        self._require_maps(x)
        rows = x.flatten(2)
        inner_basis, outer_basis = self.inner_basis(), self.outer_basis()
        middle = _inward(rows, self.inner @ inner_basis)
        if self.inner_bias is not None:
            middle = middle + self.inner_bias
        y = _outward(middle, self.outer @ outer_basis)
        if self._recording:
            self._note_all(rows, middle, y, inner_basis, outer_basis)
        maps: Tensor = y.unflatten(2, self.size_out)
        return maps

    def _note_all(
        self, rows: Tensor, middle: Tensor, y: Tensor, inner_basis: Tensor, outer_basis: Tensor
    ) -> None:
        # the closures outlive a call with other parameters, so they hold those of this one
        inner, outer = self.inner, self.outer
        inner_slope, outer_slope = self.inner_basis.slope_later(), self.outer_basis.slope_later()

        def project(rows: Tensor) -> Tensor:
            return rows @ inner_basis.mT.to(rows.dtype)

        def project_gradient(gradient: Tensor) -> Tensor:
            return gradient @ outer_basis.mT.to(gradient.dtype)

        def inner_tangent(rows: Tensor) -> Tensor:
            return _by_number(_inward(rows, (inner @ inner_slope()).to(rows.dtype)))

        def outer_tangent(middle: Tensor) -> Tensor:
            return _by_number(_outward(middle, (outer @ outer_slope()).to(middle.dtype)))

        self.note(
            "inner",
            rows,
            middle,
            spread=project,
            entries=_places(inner).transpose(0, 1),
            blocks=True,
        )
        self.note(
            "outer",
            middle,
            y,
            spread=_by_output,
            gather=project_gradient,
            entries=_places(outer).mT,
            blocks=True,
        )
        single = {"axes": ("position",), "gather": _by_number, "exact": True}
        self.note("inner_basis.omega", rows, middle, spread=inner_tangent, **single)
        self.note("outer_basis.omega", middle, y, spread=outer_tangent, **single)
        if self.inner_bias is not None:
            self.note_bias("inner_bias", middle, axes=("position",))

    def extra_repr(self) -> str:
        """Channels, sizes and whether there is a bias, as ``print(layer)`` shows them."""
        return f"{super().extra_repr()}, bias={self.inner_bias is not None}"


def _coordinates(size: MapSize | Tensor | None) -> Tensor | None:
    return exact_points(size, "coordinates") if isinstance(size, Tensor) else None


def _inward(rows: Tensor, factor: Tensor) -> Tensor:
    """(n, C, P) to (n, C, C')."""
    return torch.einsum("ncp,dcp->ncd", rows, factor)


def _outward(middle: Tensor, factor: Tensor) -> Tensor:
    """(n, C, C') to (n, C', P')."""
    return torch.einsum("ncd,dcq->ndq", middle, factor)


def _by_output(middle: Tensor) -> Tensor:
    return middle.mT


def _by_number(gradient: Tensor) -> Tensor:
    return gradient.flatten(1).unsqueeze(-1)


def _places(parameter: Tensor) -> Tensor:
    return torch.arange(parameter.numel(), device=parameter.device).view(parameter.shape)
