"""Any representation, by a singular value decomposition of all constraints at once.

The plainest solver and the slow twin of every other: O(size³).
"""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy._run import amount, require_memory
from isotropy.bases._constraints import constraints
from isotropy.bases._null_space import require_clear
from isotropy.bases._orthonormal_basis import Basis
from isotropy.reps import Rep

TOLERANCE = 1e-9


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
