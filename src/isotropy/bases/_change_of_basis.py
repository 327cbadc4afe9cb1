"""Other coordinates: solve in the good ones and carry the answer over.

Inv(P₁ρ₁P₁⁻¹ ⊗ …) = (P₁ ⊗ …) Inv(ρ₁ ⊗ …). Solving in the given coordinates would square the
condition of P into every rank decision.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from isotropy.bases._dense import DenseBasis, constraint_gram
from isotropy.bases._null_space import project_on_null_space
from isotropy.bases._orthonormal_basis import Basis
from isotropy.groups import Dense, Group, LinearMap, Monomial, orthonormal_span
from isotropy.groups._balanced_frame import balanced_frame
from isotropy.groups._compound import Kron
from isotropy.groups._placements import Conjugate
from isotropy.groups._products import in_span
from isotropy.reps import Product, Rep
from isotropy.reps._leaves import Determinant, Vector
from isotropy.reps._placed import Rebased

LARGEST_MATRIX = 10**7
LARGEST_FRAME = 12  # dimensions: the search for coordinates costs d⁶


class RebasedBasis(Basis):
    """A basis in other coordinates: Q = (P₁ ⊗ … ⊗ P_k) Q₀ R⁻¹.

    Args:
        rep: The representation in the given coordinates.
        change: P₁ ⊗ … ⊗ P_k.
        inner: Q₀, the basis in the good coordinates.
    """

    def __init__(self, rep: Rep, change: LinearMap, inner: Basis) -> None:
        self.rep = rep
        self.change = change
        self.inner = inner
        self.rank = inner.rank
        self.method = inner.method
        self.triangle = torch.linalg.qr(self.carried(), mode="r").R

    def carried(self) -> Tensor:
        """(P₁ ⊗ … ⊗ P_k) Q₀ as a matrix, shape (size, rank)."""
        return self.change.apply(self.inner.combine(torch.eye(self.rank, dtype=self.dtype))).mT

    def _combine(self, beta: Tensor) -> Tensor:
        inverse = torch.linalg.inv(self.triangle).to(beta.device, self._dtype(beta))
        return self.change.apply(self.inner.combine(beta.to(inverse.dtype) @ inverse.mT))

    def _coordinates(self, v: Tensor) -> Tensor:
        inverse = torch.linalg.inv(self.triangle).to(v.device, self._dtype(v))
        back = self.change.transpose().apply(v.to(inverse.dtype).conj()).conj()
        beta: Tensor = self.inner.coordinates(back) @ inverse.conj()
        return beta

    def _dtype(self, x: Tensor) -> torch.dtype:
        return torch.promote_types(x.dtype, torch.complex32) if self.dtype.is_complex else x.dtype


def in_good_coordinates(rep: Rep) -> tuple[Rep, LinearMap] | None:
    """A representation in the coordinates of its group, and the way back; None if it is so."""
    replaced = {g: better for g in rep.groups if (better := balanced(g)) is not None}
    rep = rep._rebind(replaced) if replaced else rep
    factors = rep.factors if isinstance(rep, Product) else (rep,)
    pairs = [_undone(factor) for factor in factors]
    if all(inner is factor for (inner, _), factor in zip(pairs, factors, strict=True)):
        return None
    inner = Product.of([part for part, _ in pairs])
    if any(isinstance(group, Conjugate) for group in inner.groups):
        return None  # a leaf that cannot be carried over
    return inner, Kron(tuple(change for _, change in pairs))


@lru_cache(maxsize=64)
def balanced(group: Group) -> Conjugate | None:
    """The same Lie group as a conjugate of one whose algebra is closed under adjoints.

    Its eigenbases are then unitary, and the coordinates that it was given in cost no accuracy.
    None where it is closed already, or where there are no such coordinates.
    """
    if not group.algebra or not group.by_value or group.d > LARGEST_FRAME:
        return None
    if isinstance(group, Conjugate) or is_closed_under_adjoint(group):
        return None
    matrices = np.stack([a.dense().numpy() for a in group.algebra])
    norms = np.linalg.norm(matrices, axis=(1, 2), keepdims=True)
    frame = torch.from_numpy(balanced_frame(orthonormal_span(matrices / norms, 1e-9)))
    back = torch.linalg.inv(frame)
    inner = Group(
        [back @ h.dense().to(frame.dtype) @ frame for h in group.discrete],
        [back @ (a.dense() / a.dense().norm()).to(frame.dtype) @ frame for a in group.algebra],
    )
    return Conjugate(inner, frame) if is_closed_under_adjoint(inner) else None


def is_closed_under_adjoint(group: Group) -> bool:
    """Whether A† is in the Lie algebra for every A in it."""
    return all(in_span(Dense(a.dense().mH), group.algebra) for a in group.algebra)


def solve_rebased(rep: Rep, inner: Rep, change: LinearMap, solve: Callable[[Rep], Basis]) -> Basis:
    """The basis of ``rep`` from that of ``inner``, the same in good coordinates.

    Small ones are kept as a matrix, whose columns are orthonormal however bad the change.
    """
    basis = RebasedBasis(rep, change, solve(inner))
    if basis.size * basis.rank > LARGEST_MATRIX:
        return basis
    q = torch.linalg.qr(basis.carried()).Q
    if basis.rank and any(balanced(group) is not None for group in rep.groups):
        q = _polished(rep, q)
    return DenseBasis(rep, q, basis.method)


def _polished(rep: Rep, q: Tensor) -> Tensor:
    """The columns projected once more in the given coordinates.

    A frame is known to rounding error times its condition, and so is what it carries over.
    """
    gram = constraint_gram(rep)
    columns = q.numpy()
    probe = np.random.default_rng(0).normal(size=(len(q), 1)).astype(columns.dtype)
    try:
        projected = project_on_null_space(gram, columns, against=float(np.linalg.norm(gram(probe))))
    except ValueError:
        return q  # no better than it was
    orthonormal: Tensor = torch.linalg.qr(torch.from_numpy(projected)).Q
    return orthonormal


def _undone(factor: Rep) -> tuple[Rep, LinearMap]:
    """A factor in good coordinates, and the change from them to the given ones."""
    if isinstance(factor, Rebased) and factor.change.by_value:
        inner, change = _undone(factor.inner)
        return inner, Dense(factor.change.dense()) @ change
    group = factor.groups[0] if len(factor.groups) == 1 else None
    if isinstance(group, Conjugate) and isinstance(factor, Determinant):
        return Determinant(group.inner, dual=factor.dual), Monomial.identity(1)
    if isinstance(group, Conjugate) and isinstance(factor, Vector):
        change = group.change.inverse().transpose() if factor.dual else group.change
        return Vector(group.inner, dual=factor.dual), change
    return factor, Monomial.identity(factor.size())
