"""Classical Lie algebras in any coordinates, known by their dimension and an invariant form.

so(p,q) is all of {A : Aᵀ M + M A = 0} for a symmetric M of signature (p,q), sp(2n,R) the same for
an antisymmetric M, u(n) for a positive Hermitian one. An algebra of that dimension that leaves
such a form invariant is therefore the whole of it, and a frame P that brings the form to its
standard shape brings the algebra to its standard position, P⁻¹ A P.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import sqrtm

from isotropy.groups._balanced_frame import hermitian_basis
from isotropy.groups._intertwiners import (
    Array,
    aligned,
    flattened,
    gaussian,
    intertwiner_gram,
    intertwiners,
    orthonormal_span,
    orthonormalised,
)
from isotropy.groups._standard_algebras import StandardAlgebra

Found = tuple[StandardAlgebra, Array]  # the algebra, and the frame that puts it in place


def classical(algebra: Array, tolerance: float) -> Found | None:
    """The classical algebra that an orthonormal basis spans, and its frame, or None."""
    if not len(algebra):
        return StandardAlgebra("Trivial", algebra.shape[1:2]), np.eye(algebra.shape[1])
    if np.iscomplexobj(algebra):
        return _unitary(algebra, tolerance) or _with_real_structure(algebra, tolerance)
    return (
        _general_linear(algebra, tolerance)
        or _orthogonal(algebra, tolerance)
        or _symplectic(algebra, tolerance)
        or _euclidean(algebra, tolerance)
    )


def _general_linear(algebra: Array, tolerance: float) -> Found | None:
    count, d, _ = algebra.shape
    if count == d * d:
        return StandardAlgebra("Scaling" if d == 1 else "GL", (d,)), np.eye(d)
    traceless = np.abs(np.trace(algebra, axis1=1, axis2=2)).max() <= tolerance
    if count == d * d - 1 and traceless:
        return StandardAlgebra("SL", (d,)), np.eye(d)
    return None


def _orthogonal(algebra: Array, tolerance: float) -> Found | None:
    count, d, _ = algebra.shape
    if d < 2 or count != d * (d - 1) // 2:
        return None
    found = _normalised_form(algebra, hermitian_basis(d, False), _orthogonal_frame, tolerance)
    if found is None:
        return None
    frame, metric = found
    positive = round((d + np.trace(metric)) / 2)
    if positive == d:
        return StandardAlgebra("SO", (d,)), frame
    return StandardAlgebra("SOpq", (positive, d - positive)), frame


def _symplectic(algebra: Array, tolerance: float) -> Found | None:
    count, d, _ = algebra.shape
    if d % 2 or count != d * (d + 1) // 2:
        return None
    i, j = np.triu_indices(d, 1)
    antisymmetric = np.zeros((len(i), d, d))
    antisymmetric[range(len(i)), i, j] = np.sqrt(0.5)
    antisymmetric[range(len(i)), j, i] = -np.sqrt(0.5)
    found = _normalised_form(algebra, antisymmetric, _symplectic_frame, tolerance)
    return None if found is None else (StandardAlgebra("Sp", (d // 2,)), found[0])


def _unitary(algebra: Array, tolerance: float) -> Found | None:
    count, d, _ = algebra.shape
    if count not in (d * d, d * d - 1):
        return None
    found = _normalised_form(algebra, hermitian_basis(d, True), _orthogonal_frame, tolerance)
    if found is None or not np.allclose(found[1], np.eye(d)):
        return None
    if count == d * d:
        return StandardAlgebra("U", (d,)), found[0]
    traceless = np.abs(np.trace(algebra, axis1=1, axis2=2)).max() <= tolerance
    return (StandardAlgebra("SU", (d,)), found[0]) if traceless else None


# --- forms --------------------------------------------------------------------------------------


def _normalised_form(
    algebra: Array,
    candidates: Array,
    frame_of: Callable[[Array], tuple[Array, Array] | None],
    tolerance: float,
) -> tuple[Array, Array] | None:
    """A frame in which the invariant form is in standard shape, and that shape.

    The form is found again in the coordinates that it makes good, which takes away the error
    that bad coordinates brought in.
    """
    d = algebra.shape[1]
    frame: Array = np.eye(d, dtype=algebra.dtype)
    rows = candidates.reshape(len(candidates), -1)
    moved, form = algebra, frame
    for _ in range(3):
        gram = intertwiner_gram(-moved.conj().transpose(0, 2, 1), moved)
        _, vectors = np.linalg.eigh((rows.conj() @ gram @ rows.T).real)
        shaped = frame_of(np.tensordot(vectors[:, 0], candidates, 1))
        if shaped is None:
            return None
        frame, form = frame @ shaped[0], shaped[1]
        moved = orthonormal_span(np.linalg.inv(frame) @ algebra @ frame, 0.0)
    defect = np.abs(moved.conj().transpose(0, 2, 1) @ form + form @ moved).max()
    return (frame, form) if defect <= tolerance else None


def _scaled(form: Array) -> tuple[Array, Array] | None:
    """R = |M|^-½ up to a factor, of determinant one, and R M R = M |M|^-1."""
    values, vectors = np.linalg.eigh(form.conj().T @ form)
    if values[0] <= 1e-12 * values[-1]:  # squares of the singular values of M
        return None
    unit = np.exp(np.log(values).mean())
    root = (vectors * (values / unit) ** -0.25) @ vectors.conj().T
    return root, root @ form @ root / np.sqrt(unit)


def _orthogonal_frame(form: Array) -> tuple[Array, Array] | None:
    """P with P† M P = ±diag(1, …, 1, -1, …, -1), no more ones than minus ones unless all are."""
    scaled = _scaled(form)
    if scaled is None:
        return None
    root, unit = scaled
    values, vectors = np.linalg.eigh(unit)
    negative = int((values < 0).sum())
    if negative in (0, len(values)):
        return root, np.eye(len(values))
    if 2 * negative < len(values) or (2 * negative == len(values) and unit[0, 0] < 0):
        negative, vectors = len(values) - negative, vectors[:, ::-1]
    signs = np.ones(len(values))
    signs[len(values) - negative :] = -1.0
    parts = [aligned(vectors[:, negative:]), aligned(vectors[:, :negative])]
    return root @ np.hstack(parts), np.diag(signs)


def _symplectic_frame(form: Array) -> tuple[Array, Array] | None:
    """P with Pᵀ M P = [[0, 1], [-1, 0]]: pairs x, y = Jᵀx for the unit form J, one by one."""
    scaled = _scaled(form if np.triu(form).sum() > 0 else -form)
    if scaled is None:
        return None
    root, unit = scaled
    d = len(unit)
    first: list[Array] = []
    second: list[Array] = []
    rest: Array = np.eye(d)  # the projection to what is orthogonal to all pairs so far
    while len(first) < d // 2:
        x = rest[:, np.argmax(np.diag(rest) > 0.999 * np.diag(rest).max())]
        x = x / np.linalg.norm(x)
        y = unit.T @ x
        first.append(x)
        second.append(y)
        rest = rest - np.outer(x, x) - np.outer(y, y)
    standard = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(d // 2))
    return root @ np.array(first + second).T, standard


# --- rigid motions ------------------------------------------------------------------------------


def _euclidean(algebra: Array, tolerance: float) -> Found | None:
    """se(n): rotations of the kernel of a covector that all of it annihilates, and translations.

    Any point off that kernel can be the origin, as the translations reach every other.
    """
    count, d, _ = algebra.shape
    if d < 2 or count != d * (d - 1) // 2:
        return None
    _, values, rows = np.linalg.svd(algebra.transpose(0, 2, 1).reshape(-1, d), full_matrices=False)
    if values[-1] > tolerance * values[0] or (d > 2 and values[-2] <= 1e-4 * values[0]):
        return None
    origin = aligned(rows[-1:].T)
    plane = orthonormalised(rows[:-1].T)
    rotations = orthonormal_span(plane.T @ algebra @ plane, 1e-6) if d > 2 else algebra[:0]
    if len(rotations) != (d - 1) * (d - 2) // 2:
        return None
    if d > 2:
        inner = _orthogonal(rotations, tolerance)
        if inner is None or inner[0].kind != "SO":
            return None
        plane = plane @ inner[1]
    return StandardAlgebra("SE", (d - 1,)), np.hstack([plane, origin])


# --- real algebras in complex coordinates -------------------------------------------------------


def _with_real_structure(algebra: Array, tolerance: float) -> Found | None:
    """A classical real algebra, after a change to the basis of a space of real vectors.

    The vectors with K conj(v) = v are a real space that the algebra keeps, if A K = K conj(A) for
    all of it and K conj(K) = 1. A symmetric K is chosen where there is one: it is unitary, up to
    the commutant, where the algebra is balanced.
    """
    candidates = intertwiners(algebra, algebra.conj(), tolerance)
    if not len(candidates):
        return None
    d = algebra.shape[1]
    draw = gaussian(np.random.default_rng(0), (d, d), algebra)
    weights = candidates.conj().reshape(len(candidates), -1) @ (draw + draw.T).ravel()
    k = np.tensordot(weights, candidates, 1)
    square = k @ k.conj()  # in the commutant, and so is its root
    values = np.linalg.eigvals(square)
    if (values.real <= 1e-6 * np.abs(values).max()).any():
        return None
    k = np.linalg.solve(sqrtm(square), k)
    # v = x + iy is real for K = S + iT where [[S, T], [T, -S]] (x, y) = (x, y)
    conjugation = np.block([[k.real, k.imag], [k.imag, -k.real]])
    vectors, _, _ = np.linalg.svd(conjugation + np.eye(2 * d))
    fixed = aligned(vectors[:, :d])
    frame = fixed[:d] + 1j * fixed[d:]
    moved = np.linalg.inv(frame) @ algebra @ frame
    if np.abs(moved.imag).max() > tolerance:
        return None
    span = orthonormal_span(moved.real, tolerance)
    found = classical(span, tolerance) if len(span) == len(flattened(algebra)) else None
    return None if found is None else (found[0], frame @ found[1])
