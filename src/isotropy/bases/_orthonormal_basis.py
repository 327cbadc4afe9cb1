"""The contract of every basis of an equivariant subspace."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Self

import torch
from torch import Tensor

from isotropy._run import amount, require_memory
from isotropy.bases._constraints import constraints
from isotropy.reps import Rep

if TYPE_CHECKING:
    from isotropy.bases._orbits import OrbitBasis

_PROBES = 2


class Basis(ABC):
    """An orthonormal basis Q of the vectors that a group leaves as they are.

    The columns of Q (size × rank) span {v : dρ(Aᵢ) v = 0 and ρ(h_k) v = v} (thesis Eq. 2.6).
    Q itself is formed only by ``dense``.

    Attributes:
        rep: The representation ρ.
        method: The name of the solver that found it.
        rank: The number of basis vectors.
    """

    rep: Rep
    method: str
    rank: int

    @property
    def size(self) -> int:
        """The dimension of the space that the basis vectors live in."""
        return self.rep.size()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of Q: float64, or complex128 for complex groups."""
        return torch.complex128 if self.rep.is_complex else torch.float64

    @abstractmethod
    def _combine(self, beta: Tensor) -> Tensor:
        """Q β along the last axis."""

    @abstractmethod
    def _coordinates(self, v: Tensor) -> Tensor:
        """Q† v along the last axis."""

    def combine(self, beta: Tensor) -> Tensor:
        """The symmetric vector with coordinates ``beta``: Q β, shape (*, rank) to (*, size)."""
        return self._combine(self._checked(beta, self.rank, "coordinates"))

    def coordinates(self, v: Tensor) -> Tensor:
        """The coordinates of the nearest symmetric vector: Q† v, shape (*, size) to (*, rank)."""
        return self._coordinates(self._checked(v, self.size, "a vector"))

    def project(self, v: Tensor) -> Tensor:
        """The nearest symmetric vector: Q Q† v."""
        return self.combine(self.coordinates(v))

    def dense(self) -> Tensor:
        """The matrix Q, shape (size, rank).

        Raises:
            ValueError: If it would not fit in memory.
        """
        require_memory(
            (16 if self.rep.is_complex else 8) * self.size * self.rank,
            f"the dense basis of {self.rep} ({amount(self.size)} × {amount(self.rank)})",
            "use .combine(beta), .coordinates(v) or .project(v), which never form it",
        )
        return self.combine(torch.eye(self.rank, dtype=self.dtype)).mT

    def residual(self) -> float:
        """How far the basis is from symmetric, relative to how far any vector is.

        The largest ‖C_i Qβ‖/‖Qβ‖ over random β and all constraints C_i (dρ(A) or ρ(h) − 1),
        divided by ‖C_i x‖/‖x‖ for random x. Zero for a basis of rank 0.
        """
        if self.rank == 0:
            return 0.0
        rng = torch.Generator().manual_seed(0)
        beta = torch.randn(_PROBES, self.rank, dtype=self.dtype, generator=rng)
        x = torch.randn(_PROBES, self.size, dtype=self.dtype, generator=rng)
        v = self.combine(beta)
        worst = 0.0
        for constraint in constraints(self.rep):
            error = float(constraint.apply(v).norm() / v.norm())
            typical = float(constraint.apply(x).norm() / x.norm())
            if not constraint.is_rounding(typical):
                worst = max(worst, error / typical)
        return worst

    def orbits(self) -> OrbitBasis | None:
        """The same basis as one label array, where it is made of orbits; else None."""
        return None

    def of(self, rep: Rep) -> Self:
        """The same basis for a representation with the same action, written differently."""
        if rep is self.rep:
            return self
        renamed = copy.copy(self)
        renamed.rep = rep
        return renamed

    def _checked(self, x: Tensor, width: int, what: str) -> Tensor:
        x = torch.as_tensor(x)
        if x.ndim == 0 or x.shape[-1] != width:
            raise ValueError(
                f"expected {what} of width {width} for the basis of {self.rep}, "
                f"got shape {tuple(x.shape)}"
            )
        return x if x.is_floating_point() or x.is_complex() else x.double()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.rep}, rank={self.rank}, method={self.method!r})"
