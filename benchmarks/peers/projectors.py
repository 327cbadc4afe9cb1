"""The Kronecker product projector as published (Lotfi et al. 2022), written anew.

The factors have ⌊√D⌋ × ⌊√d⌋ entries each. What is left of D and d becomes a dense block of its
own, its product is concatenated to that of the factors, and a random permutation of all D entries
follows. Gradients are autograd's.
"""

from __future__ import annotations

from math import isqrt

import torch
from torch import Tensor


class KroneckerWithRemainder:
    """P (D × d) with a Kronecker product in one corner and the rest in the other.

    Args:
        D: The number of parameters.
        d: The dimension of the subspace.
        orthonormal: Whether the factors have orthonormal columns.
    """

    def __init__(self, D: int, d: int, *, orthonormal: bool) -> None:
        rng = torch.Generator().manual_seed(0)
        rows, self.columns = isqrt(D), isqrt(d)
        shapes = [(rows, self.columns)] * 2 + [(D - rows**2, d - self.columns**2)]
        factors = [torch.randn(shape, generator=rng) for shape in shapes]
        if orthonormal:
            factors = [torch.linalg.qr(factor)[0] for factor in factors]
        else:
            factors = [factor / max(1, len(factor)) ** 0.5 for factor in factors]
        self.left, self.right, self.rest = factors
        self.order = torch.randperm(D, generator=rng)

    def __call__(self, w: Tensor) -> Tensor:
        """P w for one vector."""
        square = self.columns**2
        folded = w[:square].view(self.columns, self.columns)
        product = (self.left @ folded @ self.right.mT).flatten()
        return torch.cat([product, self.rest @ w[square:]])[self.order]
