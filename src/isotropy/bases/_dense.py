"""Any representation: a decomposition of all constraints at once, or matrix-free (thesis 2.5.2).

The first is the plainest solver and the slow twin of every other, O(size³); the second finds a
Krylov null space.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy._run import amount, require_memory
from isotropy.bases._constraints import Constraint, constraints
from isotropy.bases._null_space import Array, Gram, null_space, require_clear
from isotropy.bases._orthonormal_basis import Basis
from isotropy.reps import Rep

TOLERANCE = 1e-9
# conjugate gradients leave null vectors within 1e-9 of zero, and of what a Gram matrix takes for
# zero by rounding, most is above 1e-8
_NULL = 1e-7
_UNCLEAR = (1e-8, 1e-6)


class DenseBasis(Basis):
    """A basis kept as the matrix Q, shape (size, rank)."""

    def __init__(self, rep: Rep, q: Tensor, method: str = "dense") -> None:
        self.rep = rep
        self.method = method
        self.q = q
        self.rank = q.shape[1]

    def _matrix(self, x: Tensor) -> Tensor:
        dtype = torch.promote_types(x.dtype, torch.complex32) if self.q.is_complex() else x.dtype
        return self.q.to(x.device, dtype)

    def _combine(self, beta: Tensor) -> Tensor:
        q = self._matrix(beta)
        return beta.to(q.dtype) @ q.mT

    def _coordinates(self, v: Tensor) -> Tensor:
        q = self._matrix(v)
        return v.to(q.dtype) @ q.conj()


def solve_dense(rep: Rep, tolerance: float = TOLERANCE) -> DenseBasis:
    """The basis of any representation, real or complex.

    Each constraint is scaled to unit norm, so that the scale of a generator does not matter,
    and the rank is decided relative to the largest singular value.

    Raises:
        ValueError: If the constraint matrix would not fit in memory.
    """
    size = rep.size()
    dtype = torch.complex128 if rep.is_complex else torch.float64
    require_memory(
        dtype.itemsize * 6 * size**2,
        f"solving {rep} by a dense decomposition ({amount(size)} × {amount(size)})",
        "use method='krylov', which never forms the matrix",
    )
    triangle = torch.zeros(0, size, dtype=dtype)
    for constraint in constraints(rep):
        matrix = constraint.dense().to(dtype)
        norm = float(matrix.norm())
        if not constraint.is_rounding(norm / size**0.5):
            # [R; C] and its triangle have the same singular values and right vectors
            triangle = torch.linalg.qr(torch.cat([triangle, matrix / norm]), mode="r").R
    if not len(triangle):
        return DenseBasis(rep, torch.eye(size, dtype=dtype))
    singular, vh = _right_vectors(triangle)
    require_clear((singular / singular[0]).numpy())
    rank = size - int((singular > tolerance * singular[0]).sum())
    return DenseBasis(rep, vh[size - rank :].mH.contiguous())


def _right_vectors(triangle: Tensor) -> tuple[Tensor, Tensor]:
    """Singular values and right vectors; by the slower driver where the faster one gives up."""
    try:
        _, singular, vh = torch.linalg.svd(triangle, full_matrices=True)
    except RuntimeError:  # LinAlgError: it did not converge
        from scipy.linalg import svd

        _, s, v = svd(triangle.numpy(), lapack_driver="gesvd")
        return torch.from_numpy(s), torch.from_numpy(v)
    return singular, vh


def solve_krylov(rep: Rep) -> DenseBasis:
    """The basis of any representation from products with ρ and dρ alone."""
    size = rep.size()
    require_memory(
        16 * 8 * 16 * size,
        f"the iteration for {rep} ({amount(size)} dimensions)",
        "use rep.rho(g).apply(v), which needs one vector",
    )
    dtype = np.complex128 if rep.is_complex else np.float64
    q = torch.from_numpy(np.ascontiguousarray(null_space(constraint_gram(rep), size, dtype)))
    return DenseBasis(rep, _really_null(rep, q), "krylov")


def _really_null(rep: Rep, q: Tensor) -> Tensor:
    """The part of the columns that the constraints themselves send to zero.

    Directions with a singular value below the root of the rounding error are zero to the Gram
    matrix and not to the constraints.
    """
    triangle = torch.zeros(0, q.shape[1], dtype=q.dtype)
    for constraint, typical in _effective(rep):
        moved = constraint.apply(q.mT).mT / typical
        triangle = torch.linalg.qr(torch.cat([triangle, moved]), mode="r").R
    if not len(triangle):
        return q
    _, singular, vh = torch.linalg.svd(triangle, full_matrices=True)
    require_clear(singular.numpy(), _UNCLEAR)
    left = int((singular > _NULL).sum())
    kept: Tensor = q @ vh[left:].mH
    return kept.contiguous()


def _effective(rep: Rep) -> list[tuple[Constraint, float]]:
    """The constraints that are not zero but for rounding, and their sizes."""
    dtype = torch.complex128 if rep.is_complex else torch.float64
    probe = torch.randn(4, rep.size(), dtype=dtype, generator=torch.Generator().manual_seed(0))
    sized = [(c, float(c.apply(probe).norm() / probe.norm())) for c in constraints(rep)]
    return [(c, typical) for c, typical in sized if not c.is_rounding(typical)]


def constraint_gram(rep: Rep) -> Gram:
    """X ↦ Σ Cᵢ†Cᵢ X, each constraint scaled to a root-mean-square singular value of one."""
    terms = [(c, c.map.transpose(), typical**-2) for c, typical in _effective(rep)]

    def gram(x: Array) -> Array:
        rows = torch.from_numpy(np.ascontiguousarray(x.T))
        total = torch.zeros_like(rows)
        for constraint, transpose, weight in terms:
            moved = constraint.apply(rows).conj()
            back = transpose.apply(moved).conj()
            total += weight * (back - moved.conj() if constraint.discrete else back)
        products: Array = total.numpy().T
        return products

    return gram
