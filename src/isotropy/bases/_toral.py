"""A diagonalisable element of a Lie algebra, and everything else in its eigenbasis.

For an algebra that is closed under the conjugate transpose (all classical ones in their usual
coordinates) the element is a normal matrix, so the eigenbasis is unitary; it is taken from a
Cartan subalgebra that the discrete generators keep, so that they permute the eigenvectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from isotropy.bases._null_space import Array
from isotropy.groups import Group
from isotropy.reps import Rep
from isotropy.reps._elements import parts_of_algebra, parts_of_element
from isotropy.reps._leaves import Determinant, Vector

WORST_CONDITION = 1e6
_ZERO = 1e-10


@dataclass(frozen=True)
class Torus:
    """A diagonalisable element A of a Lie algebra and the root vectors of A.

    Attributes:
        element: Coefficients of A in the algebra's basis, shape (D,).
        roots: Eigenvalues of ad_A, shape (m,).
        root_vectors: Coefficients of the eigenvectors E of ad_A, shape (m, D): [A, E] = αE.
        is_normal: Whether A is a normal matrix and the algebra closed under †.
    """

    element: Array
    roots: Array
    root_vectors: Array
    is_normal: bool


@dataclass(frozen=True)
class Eigenbasis:
    """One factor of a representation in the eigenbasis of dρ(A).

    Attributes:
        weights: Eigenvalues of dρ(A), shape (n,).
        vectors: Eigenvectors as columns, shape (n, n).
        roots: dρ(E) of each root vector in this basis, shape (m, n, n).
        discrete: ρ(h) of each discrete generator in this basis, shape (M, n, n).
        is_unitary: Whether the eigenvectors are orthonormal.
        keeps_adjoints: Whether dρ(A†) = dρ(A)† for all A.
    """

    weights: Array
    vectors: Array
    roots: Array
    discrete: Array
    is_unitary: bool
    keeps_adjoints: bool

    @cached_property
    def conjugates(self) -> Array:
        """For a real representation, the number of each eigenvector's complex conjugate."""
        overlap = np.abs(np.linalg.solve(self.vectors, self.vectors.conj()))
        return np.asarray(overlap.argmax(0))


@lru_cache(maxsize=64)
def torus_of(group: Group) -> Torus | None:
    """A diagonalisable element of the group's Lie algebra, or None if none was found.

    The same on every run.
    """
    basis = np.stack([a.dense().numpy().astype(np.complex128) for a in group.algebra])
    norms = np.linalg.norm(basis, axis=(1, 2))
    if not np.all(norms > 0):
        return None
    basis = basis / norms[:, None, None]
    discrete = [h.dense().numpy().astype(np.complex128) for h in group.discrete]
    element = _normal_element(basis, discrete)
    is_normal = element is not None and _is_closed_under_adjoint(basis)
    if element is None:
        element = np.random.default_rng(0).normal(size=len(basis))
    matrix = np.tensordot(element, basis, 1)
    if not is_normal and np.linalg.cond(np.linalg.eig(matrix)[1]) > WORST_CONDITION:
        return None
    roots, vectors = _root_vectors(matrix, basis)
    return Torus(element / norms, roots, vectors / norms, is_normal)


@lru_cache(maxsize=256)
def eigenbasis_of(factor: Rep, group: Group) -> Eigenbasis | None:
    """A factor of a representation in the eigenbasis of A; None if it has none."""
    torus = torus_of(group)
    if torus is None:
        return None
    # the factor may belong to one factor of the group only
    algebra = np.stack(
        [factor._drho(parts_of_algebra(group, a)).dense().numpy() for a in group.algebra]
    )
    toral = np.tensordot(torus.element, algebra, 1)
    found = _diagonalise(toral, real=not factor.is_complex)
    if found is None:
        return None
    weights, vectors = found
    inverse = np.linalg.inv(vectors)
    roots = inverse @ np.tensordot(torus.root_vectors, algebra, 1) @ vectors
    moves = [factor._rho(parts_of_element(group, h)).dense().numpy() for h in group.discrete]
    discrete = np.array([inverse @ h @ vectors for h in moves]).reshape(-1, *toral.shape)
    # a representation of your own may be anything; of skew matrices by skew ones is safe
    skew = group.is_unitary and np.abs(algebra + algebra.conj().transpose(0, 2, 1)).max() < _ZERO
    keeps = isinstance(factor, Vector | Determinant) or bool(skew)
    cleaned = _cleaned(roots), _cleaned(discrete)
    return Eigenbasis(weights, vectors, *cleaned, is_unitary(vectors), keeps)


def is_unitary(vectors: Array) -> bool:
    """Whether columns are orthonormal to rounding."""
    return bool(np.abs(vectors.conj().T @ vectors - np.eye(len(vectors))).max() < 1e-12)


def _diagonalise(matrix: Array, *, real: bool) -> tuple[Array, Array] | None:
    """Eigenvalues and eigenvectors, orthonormal for normal matrices, in conjugate pairs if real."""
    from scipy.linalg import schur

    commutator = matrix @ matrix.conj().T - matrix.conj().T @ matrix
    is_normal = np.abs(commutator).max() <= 1e-13 * np.linalg.norm(matrix) ** 2
    if is_normal and real:
        return _diagonalise_real_normal(matrix.real)
    if is_normal:
        triangle, vectors = schur(matrix, output="complex")
        return np.diagonal(triangle).copy(), vectors
    weights, vectors = np.linalg.eig(matrix.real if real else matrix)
    if np.linalg.cond(vectors) > WORST_CONDITION:
        return None
    return weights.astype(np.complex128), vectors.astype(np.complex128)


def _diagonalise_real_normal(matrix: Array) -> tuple[Array, Array]:
    """From the real Schur form: its 2 × 2 blocks [[a, b], [-b, a]] have eigenvalues a ± ib."""
    from scipy.linalg import schur

    blocks, vectors = schur(matrix, output="real")
    n, scale = len(matrix), max(float(np.linalg.norm(matrix)), 1e-300)
    weights, columns, at = np.zeros(n, np.complex128), np.zeros((n, n), np.complex128), 0
    while at < n:
        first = vectors[:, at]
        if at + 1 < n and abs(blocks[at + 1, at]) > _ZERO * scale:
            second = vectors[:, at + 1]
            turn = (blocks[at, at + 1] - blocks[at + 1, at]) / 2
            weights[at : at + 2] = blocks[at, at] + 1j * turn * np.array([1, -1])
            columns[:, at] = (first + 1j * second) / np.sqrt(2)
            columns[:, at + 1] = (first - 1j * second) / np.sqrt(2)
            at += 2
        else:
            weights[at], columns[:, at] = blocks[at, at], first
            at += 1
    return weights, columns


def _normal_element(basis: Array, discrete: list[Array]) -> Array | None:
    """Coefficients of a normal matrix in the span, as generic as can be; None if there is none.

    A generic K, skew and fixed by the discrete generators, has a centraliser that they keep;
    where that is abelian its generic element will do. Else take a generic skew K of the
    centraliser and add a generic Hermitian element that commutes with it.
    """
    rng = np.random.default_rng(0)
    adjoint = basis.conj().transpose(0, 2, 1)
    skew = _kernel(basis + adjoint)
    fixed = _kernel(basis + adjoint, *(h @ basis @ np.linalg.inv(h) - basis for h in discrete))
    start = fixed if fixed.shape[1] else skew
    k = start @ rng.normal(size=start.shape[1])
    centraliser = _kernel(_brackets(k, basis))
    inside = np.tensordot(centraliser.T, basis, 1)
    turned = inside.conj().transpose(0, 2, 1)
    skew_part, hermitian_part = _kernel(inside + turned), _kernel(inside - turned)
    brackets = np.einsum("iab,jbc->ijac", inside, inside)
    is_abelian = np.abs(brackets - brackets.transpose(1, 0, 2, 3)).max(initial=0.0) < _ZERO
    if is_abelian and skew_part.shape[1] + hermitian_part.shape[1] == centraliser.shape[1]:
        element = centraliser @ rng.normal(size=centraliser.shape[1])
    else:
        element = centraliser @ skew_part @ rng.normal(size=skew_part.shape[1])
        commuting = _kernel(_brackets(element, basis), basis - adjoint)
        element = element + commuting @ rng.normal(size=commuting.shape[1])
    matrix = np.tensordot(element, basis, 1)
    return element if np.linalg.norm(matrix) > _ZERO else None


def _kernel(*images: Array) -> Array:
    """Real coefficients c with Σ cᵢ image[i] = 0 for every family of images, as columns."""
    count = len(images[0])
    rows = [image.reshape(count, -1) for image in images]
    stacked = np.concatenate([part for row in rows for part in (row.real, row.imag)], axis=1).T
    _, singular, vh = np.linalg.svd(stacked, full_matrices=True)
    rank = int((singular > _ZERO * max(float(singular[0]), 1.0)).sum()) if len(singular) else 0
    return np.asarray(vh[rank:].T)


def _brackets(coefficients: Array, basis: Array) -> Array:
    element = np.tensordot(coefficients, basis, 1)
    return np.asarray(element @ basis - basis @ element)


def _is_closed_under_adjoint(basis: Array) -> bool:
    flat = basis.reshape(len(basis), -1)
    columns = np.concatenate([flat.real, flat.imag], axis=1)
    turned = basis.conj().transpose(0, 2, 1).reshape(len(basis), -1)
    wanted = np.concatenate([turned.real, turned.imag], axis=1)
    solution = np.linalg.lstsq(columns.T, wanted.T, rcond=None)[0]
    return bool(np.abs(columns.T @ solution - wanted.T).max() < _ZERO)


def _root_vectors(element: Array, basis: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of ad_A on the span; the basis itself if it is not closed."""
    flat = basis.reshape(len(basis), -1).T
    brackets = (element @ basis - basis @ element).reshape(len(basis), -1).T
    ad, *_ = np.linalg.lstsq(flat, brackets, rcond=None)
    if np.abs(flat @ ad - brackets).max() > 1e-9:
        return np.zeros(len(basis), np.complex128), np.eye(len(basis), dtype=np.complex128)
    found = _diagonalise(ad, real=False)
    if found is None:
        return np.zeros(len(basis), np.complex128), np.eye(len(basis), dtype=np.complex128)
    roots, vectors = found
    return roots, vectors.T


def _cleaned(matrices: Array) -> Array:
    """The same with entries that are rounding error set to zero."""
    scale = np.abs(matrices).max(axis=(1, 2), keepdims=True) if matrices.size else 1.0
    return np.where(np.abs(matrices) > 1e-12 * scale, matrices, 0.0)
