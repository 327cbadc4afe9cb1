"""Any representation, matrix-free: a Krylov null space of all constraints (thesis 2.5.2)."""

from __future__ import annotations

import numpy as np
import torch

from isotropy._run import amount, require_memory
from isotropy.bases._constraints import constraints
from isotropy.bases._dense import DenseBasis
from isotropy.bases._null_space import Array, Gram, null_space
from isotropy.reps import Rep


def solve_krylov(rep: Rep) -> DenseBasis:
    """The basis of any representation from products with ρ and dρ alone.

    Raises:
        ValueError: If the basis would not fit in memory, or the iteration does not converge.
    """
    size = rep.size()
    require_memory(
        16 * 8 * 16 * size,
        f"the iteration for {rep} ({amount(size)} dimensions)",
        "use rep.rho(g).apply(v), which needs one vector",
    )
    dtype = np.complex128 if rep.is_complex else np.float64
    q = null_space(constraint_gram(rep), size, dtype)
    return DenseBasis(rep, torch.from_numpy(np.ascontiguousarray(q)), "krylov")


def constraint_gram(rep: Rep) -> Gram:
    """X ↦ Σ Cᵢ†Cᵢ X, each constraint scaled to a root-mean-square singular value of one."""
    size = rep.size()
    dtype = torch.complex128 if rep.is_complex else torch.float64
    probe = torch.randn(4, size, dtype=dtype, generator=torch.Generator().manual_seed(0))
    terms = []
    for constraint in constraints(rep):
        typical = float(constraint.apply(probe).norm() / probe.norm())
        if not constraint.is_rounding(typical):
            terms.append((constraint, constraint.map.transpose(), typical**-2))

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
