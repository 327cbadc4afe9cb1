"""Spaces of matrices, what commutes with them, and the invariant pieces that this yields.

A set of matrices is an array of shape (count, d, d). A space of matrices is real, also where its
matrices are complex: su(n) does not contain i times its elements. Null spaces are taken of Gram
matrices, so rank decisions need a well-conditioned set: see `_balanced_frame`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]  # real or complex floating point


def flattened(matrices: Array) -> Array:
    """One real row for each matrix, real parts before imaginary parts."""
    rows: Array = matrices.reshape(len(matrices), int(np.prod(matrices.shape[1:])))
    return np.hstack([rows.real, rows.imag]) if np.iscomplexobj(rows) else rows


def orthonormal_span(matrices: Array, tolerance: float) -> Array:
    """An orthonormal basis of the real span; directions below tolerance · largest are noise."""
    shape = matrices.shape[1:]
    if not len(matrices):
        return matrices
    _, values, rows = np.linalg.svd(flattened(matrices), full_matrices=False)
    rows = rows[values > tolerance * values[0]]
    if np.iscomplexobj(matrices):
        real, imaginary = np.split(rows, 2, axis=1)
        rows = real + 1j * imaginary
    basis: Array = rows.reshape(len(rows), *shape)
    return basis


def outside(matrices: Array, basis: Array) -> Array:
    """How far each matrix is from the real span of an orthonormal basis."""
    rows, span = flattened(matrices), flattened(basis)
    distances: Array = np.linalg.norm(rows - (rows @ span.T) @ span, axis=1)
    return distances


def brackets(left: Array, right: Array) -> Array:
    """All [A_i, B_j], of shape (len(left), len(right), d, d)."""
    a, b = left[:, None], right[None]
    commutators: Array = a @ b - b @ a
    return commutators


def intertwiner_gram(left: Array, right: Array) -> Array:
    """The matrix of vec X ↦ Σ_i |L_i X - X R_i|², rows of X one after the other."""
    n, m = left.shape[1], right.shape[1]
    left_adjoint = left.conj().transpose(0, 2, 1)
    right_transposed = right.transpose(0, 2, 1)
    # Σ_i L_i† ⊗ R_iᵀ, as one matrix product over i
    cross = left_adjoint.reshape(len(left), -1).T @ right_transposed.reshape(len(left), -1)
    cross = cross.reshape(n, n, m, m).transpose(0, 2, 1, 3).reshape(n * m, n * m)
    gram = np.kron((left_adjoint @ left).sum(0), np.eye(m))
    gram = gram + np.kron(np.eye(n), (right.conj() @ right_transposed).sum(0))
    total: Array = gram - cross - cross.conj().T
    return total


def intertwiners(left: Array, right: Array, tolerance: float) -> Array:
    """An orthonormal basis of the X with L_i X = X R_i for all i, over the field of the matrices.

    With L = R it is the commutant; with L = -R† the invariant sesquilinear forms.
    """
    n, m = left.shape[1], right.shape[1]
    values, vectors = np.linalg.eigh(intertwiner_gram(left, right))
    scale = np.linalg.norm(left) ** 2 / n + np.linalg.norm(right) ** 2 / m
    null = values <= tolerance * max(values[-1], scale)
    found: Array = vectors.T[null].reshape(-1, n, m)
    return found


def aligned(frame: Array) -> Array:
    """The orthonormal frame of the same subspace that is nearest to coordinate vectors."""
    turned: Array = frame @ _alignment(frame)
    return turned


def _alignment(frame: Array) -> Array:
    size = frame.shape[1]
    from scipy.linalg import polar, qr

    _, _, pivots = qr(frame.conj().T, pivoting=True, mode="economic")
    rotation: Array = polar(frame[np.sort(pivots[:size])])[0].conj().T
    return rotation


def orthonormalised(vectors: Array) -> Array:
    """An orthonormal frame of the column space, near to coordinate vectors where it can be."""
    frame, _ = np.linalg.qr(vectors)
    return aligned(frame)


def gaussian(rng: np.random.Generator, shape: tuple[int, ...], like: Array) -> Array:
    """A standard normal array, complex where ``like`` is."""
    real = rng.standard_normal(shape)
    return real + 1j * rng.standard_normal(shape) if np.iscomplexobj(like) else real


def split(commutant: Array) -> list[Array]:
    """Frames of indecomposable invariant subspaces that together make up the whole space.

    They are the spectral subspaces of a generic element of the commutant, chosen as Hermitian as
    can be: a balanced commutant that is closed under adjoints has Hermitian elements, whose
    eigenvalues are real and whose eigenspaces are orthogonal and irreducible. Of several draws,
    the one with the most pieces is taken, and of these the one that tells them best apart.
    """
    rng = np.random.default_rng(0)
    best: tuple[int, float, list[Array]] = (0, 0.0, [])
    for draw in range(16):
        pieces, gap = _spectral_subspaces(_generic(commutant, rng, 1.0))
        error = float(np.linalg.cond(np.hstack(pieces))) / gap
        best = min(best, (-len(pieces), error, pieces), key=lambda found: found[:2])
        if draw >= 3 and best[1] < 300.0:
            break
    return [aligned(piece) for piece in best[2]]


def _generic(commutant: Array, rng: np.random.Generator, sign: float) -> Array:
    """The projection to the commutant of a random Hermitian (sign 1) or anti-Hermitian matrix."""
    draw = gaussian(rng, commutant.shape[1:], commutant)
    draw = draw + sign * draw.conj().T
    weights = commutant.conj().reshape(len(commutant), -1) @ draw.ravel()
    element: Array = np.tensordot(weights, commutant, 1)
    return element


def _spectral_subspaces(x: Array) -> tuple[list[Array], float]:
    """Schur frames of the clusters of eigenvalues of almost one real part, and the least gap."""
    from scipy.linalg import schur

    values = np.sort(np.linalg.eigvals(x).real)
    gaps = np.diff(values) / np.linalg.norm(x, 2)
    cuts = np.flatnonzero(gaps > 1e-4) + 1
    limits = [-np.inf, *((values[cuts - 1] + values[cuts]) / 2), np.inf]
    output = "complex" if np.iscomplexobj(x) else "real"
    frames = []
    for low, high in pairwise(limits):

        def inside(value: complex, _: float = 0.0, low: float = low, high: float = high) -> bool:
            return bool(low < value.real < high)

        _, vectors, size = schur(x, output=output, sort=inside)
        frames.append(vectors[:, :size])
    return frames, float(gaps[cuts - 1].min(initial=1.0))


def complex_structure(commutant: Array) -> Array | None:
    """An orthogonal J with J² = -1 in a real commutant that is closed under transposes."""
    x = _generic(commutant, np.random.default_rng(0), -1.0)
    if np.linalg.matrix_rank(x, tol=1e-6) < len(x):
        return None
    from scipy.linalg import polar

    rotation: Array = polar(x - x.T)[0]
    return rotation if outside(rotation[None], commutant)[0] < 1e-6 else None


def families(commutant: Array, pieces: list[Array]) -> list[list[Array]]:
    """Pieces by equivalence, each turned so that the algebra acts the same on all of a family.

    A generic element of the commutant, from piece to piece, is an isomorphism if there is one.
    """
    rng = np.random.default_rng(1)
    x = np.tensordot(gaussian(rng, (len(commutant),), commutant), commutant, 1)
    ends = np.cumsum([piece.shape[1] for piece in pieces])
    coframes = np.split(np.linalg.inv(np.hstack(pieces)), ends[:-1])
    found: list[list[Array]] = []
    for piece, coframe in zip(pieces, coframes, strict=True):
        for family in found:
            if family[0].shape != piece.shape:
                continue
            carried = coframe @ x @ family[0]
            values = np.linalg.svd(carried, compute_uv=False)
            if values[-1] > 1e-6 * max(values[0], np.linalg.norm(x, 2) * 1e-3):
                family.append(piece @ carried / np.exp(np.log(values).mean()))
                break
        else:
            found.append([piece])
    return [_straightened(family) for family in found]


def _straightened(family: list[Array]) -> list[Array]:
    """The copies mixed so that the first vectors of all are near to coordinate vectors."""
    mixing = _alignment(np.stack([copy[:, 0] for copy in family], axis=1))
    mixed = np.tensordot(np.stack(family), mixing, ((0,), (0,)))
    return [mixed[:, :, j] for j in range(len(family))]
