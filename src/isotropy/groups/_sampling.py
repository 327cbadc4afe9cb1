"""Random group elements: Haar measure where the group is compact."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from isotropy.groups._compound import BlockDiagonal, Kron, KronSum
from isotropy.groups._maps import Dense, LinearMap, Monomial, Zero
from isotropy.groups._operators import Operator

if TYPE_CHECKING:
    from isotropy.groups._group import Group

ROUNDS = 32
LONGEST_WORD = 10
_LARGEST_ANGLE = 2.0**10  # more would only lose digits of the phases


def haar_orthogonal(n: int, d: int, rng: torch.Generator, *, special: bool) -> Dense:
    """``n`` matrices from Haar measure on O(d), or on SO(d).

    QR of a Gaussian matrix with the signs of R's diagonal moved into Q (Mezzadri 2007).
    """
    gaussian = torch.randn(n, d, d, dtype=torch.float64, generator=rng)
    q, r = torch.linalg.qr(gaussian)
    q = q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
    if special:
        q[..., 0] *= torch.linalg.det(q).sign().unsqueeze(-1)
    return Dense(q)


def haar_unitary(n: int, d: int, rng: torch.Generator, *, special: bool) -> Dense:
    """``n`` matrices from Haar measure on U(d), or on SU(d)."""
    gaussian = torch.randn(n, d, d, dtype=torch.complex128, generator=rng)
    q, r = torch.linalg.qr(gaussian)
    diagonal = r.diagonal(dim1=-2, dim2=-1)
    q = q * (diagonal / diagonal.abs()).unsqueeze(-2)
    if special:
        q[..., 0] /= torch.linalg.det(q).unsqueeze(-1)
    return Dense(q)


def sample_any(group: Group, n: int, rng: torch.Generator) -> LinearMap:
    """``n`` elements of any group, by the best way its generators allow."""
    from isotropy.groups._finite import listed, sample_monomial

    if not group.discrete and not group.algebra:
        return Monomial(torch.arange(group.d).repeat(n, 1))
    if group.is_monomial:
        return sample_monomial(group, n, rng)
    if any(isinstance(g, Operator) for g in (*group.discrete, *group.algebra)):
        raise ValueError(
            f"cannot sample {group}: its generators are opaque operators; "
            "expected matrices or permutations"
        )
    if group.is_discrete:
        table = listed(group)
        if table is not None:
            return table.maps.select(torch.randint(len(table), (n,), generator=rng))
    if group.is_unitary:
        return Dense(_alternating_averages(group, n, rng))
    return Dense(_exponential_and_word(group, n, rng))


def _alternating_averages(group: Group, n: int, rng: torch.Generator) -> Tensor:
    """Products of Haar draws from the closed subgroups that single generators generate.

    Averaging over such a subgroup is an orthogonal projection; alternating projections
    converge to the projection on what all of them fix, which is the average over the group.
    """
    dtype = torch.complex128 if group.is_complex else torch.float64
    g = torch.eye(group.d, dtype=dtype).repeat(n, 1, 1)
    turns = [_unitary_spectrum(h.dense()) for h in group.discrete]
    basis = [a.dense() / a.dense().norm() for a in group.algebra]
    for _ in range(ROUNDS):
        draws = []
        if basis:
            weights = torch.randn(len(basis), dtype=torch.float64, generator=rng)
            element = sum(w * a for w, a in zip(weights, basis, strict=True))
            frequencies, vectors = torch.linalg.eigh(1j * element)
            angle = torch.rand(n, 1, dtype=torch.float64, generator=rng) * _LARGEST_ANGLE
            draws.append((torch.exp(-1j * angle * frequencies), vectors))
        for phases, vectors in turns:
            power = torch.randint(int(_LARGEST_ANGLE), (n, 1), generator=rng)
            draws.append((torch.exp(1j * power * phases), vectors))
        for eigenvalues, vectors in draws:
            step = (vectors * eigenvalues.unsqueeze(-2)) @ vectors.mH
            g = (step if group.is_complex else step.real) @ g
    return g


def _unitary_spectrum(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Phases and orthonormal eigenvectors of a unitary matrix (Schur: robust to repeats)."""
    from scipy.linalg import schur

    triangular, vectors = schur(matrix.numpy(), output="complex")
    phases = torch.from_numpy(triangular).diagonal().angle()
    return phases, torch.from_numpy(vectors)


def _exponential_and_word(group: Group, n: int, rng: torch.Generator) -> Tensor:
    """exp(Σ αᵢ Aᵢ/‖Aᵢ‖), α ~ N(0, 1/D), times a random word in the discrete generators."""
    dtype = torch.complex128 if group.is_complex else torch.float64
    g = torch.eye(group.d, dtype=dtype).repeat(n, 1, 1)
    if group.discrete:
        letters = [h.dense() for h in group.discrete]
        inverses = [h.inverse().dense() for h in group.discrete]
        alphabet = torch.stack([torch.eye(group.d), *letters, *inverses]).to(dtype)
        for _ in range(LONGEST_WORD):
            g = alphabet[torch.randint(len(alphabet), (n,), generator=rng)] @ g
    if group.algebra:
        basis = torch.stack([a.dense() / a.dense().norm() for a in group.algebra]).to(dtype)
        weights = torch.randn(n, len(basis), dtype=torch.float64, generator=rng)
        weights = (weights / len(basis) ** 0.5).to(dtype)
        g = torch.linalg.matrix_exp(torch.einsum("ni,iab->nab", weights, basis)) @ g
    return g


def is_unitary(h: LinearMap) -> bool:
    """Whether h†h = 1 to rounding."""
    if h.is_monomial:
        return True
    if isinstance(h, Operator):
        return h.is_orthogonal
    if isinstance(h, Kron | BlockDiagonal) and all(map(is_unitary, h.parts)):
        return True
    matrix = h.dense()
    eye = torch.eye(h.size, dtype=matrix.dtype)
    return bool((matrix.mH @ matrix - eye).abs().max() < 1e-10)


def is_skew_hermitian(a: LinearMap) -> bool:
    """Whether A† = -A to rounding."""
    if isinstance(a, Operator):
        x = torch.randn(a.size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        return bool((a.apply(x) + a.transpose().apply(x)).abs().max() < 1e-9 * x.norm())
    if isinstance(a, Zero):
        return True
    if isinstance(a, KronSum | BlockDiagonal) and all(map(is_skew_hermitian, a.parts)):
        return True
    matrix = a.dense()
    return bool((matrix + matrix.mH).abs().max() <= 1e-12 * matrix.abs().max())
