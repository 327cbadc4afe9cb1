"""The equations that a symmetric vector satisfies, one for each generator (thesis Eq. 2.6)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.groups import LinearMap
from isotropy.reps import Rep

_ROUNDING = 1e-12


@dataclass(frozen=True)
class Constraint:
    """C v = 0, where C is dρ(A) for a Lie algebra element or ρ(h) − 1 for a discrete one.

    Attributes:
        map: dρ(A) or ρ(h).
        discrete: Whether it comes from a discrete generator.
        scale: The size of the generator itself, against which rounding error is judged.
    """

    map: LinearMap
    discrete: bool
    scale: float

    def apply(self, v: Tensor) -> Tensor:
        """C v along the last axis, matrix-free."""
        moved = self.map.apply(v)
        return moved - v if self.discrete else moved

    def dense(self) -> Tensor:
        """The matrix of C."""
        matrix = self.map.dense()
        return matrix - torch.eye(len(matrix), dtype=matrix.dtype) if self.discrete else matrix

    def is_rounding(self, typical: float) -> bool:
        """Whether C, of this root-mean-square singular value, is zero but for rounding."""
        return typical <= _ROUNDING * self.scale


def constraints(rep: Rep) -> list[Constraint]:
    """All constraints of a bound representation."""
    group = rep.group
    if group is None:
        return []
    algebra, discrete = rep.generators()
    return [
        *(Constraint(m, False, _size(a)) for m, a in zip(algebra, group.algebra, strict=True)),
        *(Constraint(m, True, max(1.0, _size(m))) for m in discrete),
    ]


def _size(m: LinearMap) -> float:
    """The root-mean-square singular value of a map, from one random vector."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(m.size, dtype=torch.float64, generator=rng)
    return float(m.apply(x).norm() / x.norm())
