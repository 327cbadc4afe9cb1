"""Convolutions over a finite group whose filters are smooth functions through a few anchors."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal

import torch
from torch import Tensor, nn

from isotropy.groups import Group
from isotropy.nn import RadialBasis
from isotropy.run import moved_keywords
from isotropy_papers.group_linear import OnGroup, added, by_number, note_bias, rows_of_elements
from isotropy_papers.group_table import convolved, correlations, seen_by_each


@dataclass(frozen=True, eq=False)
class AnchorOptions:
    """Where elements of a group lie, and whether anchors may move.

    Args:
        points: Points for the elements in their order, shape (|G|, d); by default those of
            ``GroupTable.points``.
        learn_anchors: Whether anchors are parameters, too; by default they stay.

    Example:
        >>> layer = SparseGroupLinear(2, 3, "Z(6)", options=AnchorOptions(learn_anchors=True))
        >>> "basis.anchors" in dict(layer.named_parameters())
        True
    """

    points: Tensor | None = None
    learn_anchors: bool = False


class SparseGroupLinear(OnGroup):
    r"""S-CONV on any finite group: filters that are smooth on it, from values at a few anchors.

        y(c', h) = b(c') + Σ_c Σ_g θ(c', c, g⁻¹h) x(c, g)
        θ(c', c, k) = Σ_m u(c', c, m) Φ(m, k)                         (paper Eq. 6, appendix A)

    where Φ are the functions of a ``RadialBasis`` on points that stand for the elements k, those
    of ``GroupTable.points`` unless others are given: elements that differ by a generator are near,
    the nearest one unit apart. The layer commutes with the group at every ω; as ω → 0 its filters
    become constant and so its outputs.

    For S-FC on the group give the same points to ``SparseLinear``.

    To ``isotropy.evidence`` u, the bias and ω are parameters that it can integrate out, ω by its
    exact curvature. To learn ω up the evidence instead, name ``"basis.omega"`` in
    ``hyperparameters=``; anchors that are learned have to be named there (``"basis.anchors"``).

    Args:
        in_channels: The channels C of the input.
        out_channels: The channels C' of the output.
        group: A finite group of at most 2048 elements, or its name.
        anchors: The anchor points, shape (m, d); how many, or how many for each element, drawn
            among them; None for half as many as elements, rounded upwards.
        omega: What ω starts at, in units of 1/distance.
        basis: The kind of ``RadialBasis``.
        options: Points of your own for the elements, and anchors that are learned.
        bias: Whether there is a b; it starts at zero.
        device: Where the parameters live.
        dtype: Their precision.

    Attributes:
        table: The elements and their products; ``table.move(x, k)`` moves maps by element k.
        u: The values at the anchors, shape (C', C, m).
        basis: Φ.

    Raises:
        TypeError: If the group is none.
        ValueError: If the group is infinite or too large, anchors or points are no such points, or
            a number is out of range.

    Example:
        >>> layer = SparseGroupLinear(2, 3, "D(4)")
        >>> layer(torch.randn(5, 2, 8)).shape
        torch.Size([5, 3, 8])
        >>> {name: tuple(p.shape) for name, p in layer.named_parameters()}
        {'u': (3, 2, 4), 'bias': (3,), 'basis.omega': ()}
    """

    sources: Tensor
    quotients: Tensor

    @moved_keywords(options=AnchorOptions)
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        group: Group | str,
        *,
        anchors: Tensor | float | None = None,
        omega: float = 1.0,
        basis: Literal["normalised", "interpolating", "plain"] = "interpolating",
        options: AnchorOptions | None = None,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(in_channels, out_channels, group)
        options = options or AnchorOptions()
        at = self.table.points() if options.points is None else options.points
        order = self.table.order
        if len(at) != order:
            raise ValueError(
                f"expected points of shape ({order}, d), one for each element of {self.group}, "
                f"got {tuple(at.shape)}"
            )
        self.basis = RadialBasis(
            at,
            anchors,
            among=True,
            omega=omega,
            kind=basis,
            learn_anchors=options.learn_anchors,
            device=device,
            dtype=dtype,
        )
        number = self.basis.anchors.shape[0]

        def empty(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(shape, device=device, dtype=dtype))

        self.u = empty(out_channels, in_channels, number)
        self.bias = empty(out_channels) if bias else None
        self._keep("sources", self.table.sources(torch.arange(order)))
        self._keep("quotients", self.table.quotients)
        self._apply(lambda t: t.to(self.u.device))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Draw u for filters that suit rectified inputs (He et al. 2015); Φ stays."""
        if self.bias is not None:
            self.bias.zero_()
        if not self.u.is_meta:
            bound = sqrt(6 / (self.in_channels * self.table.order))
            self.u.copy_(self.basis.draw(*self.u.shape[:2], bound=bound))

    @property
    def weight(self) -> Tensor:
        """The filters θ, shape (C', C, |G|)."""
        filters: Tensor = self.u @ self.basis()
        return filters

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, C, |G|) to (n, C', |G|)."""
        self._require_maps(x, self.u.dtype)
        basis = self.basis()
        y = added(convolved(x, self.u @ basis, self.quotients), self.bias)
        if self._recording:
            self._note_all(x, y, basis)
        return y

    def _note_all(self, x: Tensor, y: Tensor, basis: Tensor) -> None:
        # the closures outlive a call with other parameters, so they hold those of this one
        u, slope = self.u, self.basis.slope_later()
        sources, quotients = self.sources, self.quotients

        def project(x: Tensor) -> Tensor:
            seen = seen_by_each(x, sources) @ basis.mT.to(x.dtype)
            return seen.transpose(1, 2).flatten(2)

        def gram(x: Tensor) -> Tensor:
            into = basis.to(x.dtype)
            whole = correlations(x, sources)
            return torch.einsum("mk,ckdl,nl->cmdn", into, whole, into).flatten(2).flatten(0, 1)

        def tangent(x: Tensor) -> Tensor:
            return by_number(convolved(x, (u @ slope()).to(x.dtype), quotients))

        axes = {"axes": ("group",)}
        self.note("u", x, y, spread=project, gather=rows_of_elements, gram=gram, **axes)
        self.note("basis.omega", x, y, spread=tangent, gather=by_number, exact=True, **axes)
        if self.bias is not None:
            note_bias(self, y)

    def extra_repr(self) -> str:
        """The arguments, for ``print``."""
        return (
            f"{self.in_channels}, {self.out_channels}, {self.group}, bias={self.bias is not None}"
        )
