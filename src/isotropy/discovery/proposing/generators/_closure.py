"""The nearest space of matrices that is closed under brackets.

For an orthonormal basis X_i the residual is R_ij, the part of [X_i, X_j] outside the span. Moved by
Y_i orthogonal to the span, it changes by

    P⊥([Y_i, X_j] + [X_i, Y_j]) - Σ_k c_ij^k Y_k,    [X_i, X_j] = Σ_k c_ij^k X_k + R_ij,

the coboundary of a 1-cochain of the algebra in gl(d) modulo the algebra. Its second cohomology
vanishes for semisimple algebras, so that least squares steps converge quadratically, and nearby
algebras are conjugate (Nijenhuis and Richardson 1967). Damping by the size of the residual keeps
steps short along the directions that only conjugate.

Spaces of matrices: orthonormal bases, angles between them, what commutes with one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import expm

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.groups import orthonormal_span

Array = NDArray[Any]  # real or complex floating point

# floating point: closure errors of exact algebras, and sines between equal ones, are smaller
ROUNDED = 1e-10
_CLOSED = 1e-13  # floating point: residual that is rounding error
# |[A, B]| ≤ √2 |A| |B|: what a turn of the basis by a small angle adds to a bracket at most
_BRACKET_OF_ERROR = 3.0 * math.sqrt(2.0)


def rows_of(matrices: Array) -> Array:
    """One row for each matrix."""
    rows: Array = matrices.reshape(len(matrices), int(np.prod(matrices.shape[1:])))
    return rows


def largest_sine(first: Array, second: Array) -> float:
    """The sine of the largest principal angle between the spans of two orthonormal bases.

    Example:
        >>> x, y = np.eye(2).reshape(2, 1, 1, 2)
        >>> round(largest_sine(x, (x + y) / np.sqrt(2)), 6)
        0.707107
    """
    if len(first) != len(second):
        return 1.0
    if not len(first):
        return 0.0
    a, b = rows_of(first), rows_of(second)
    return float(np.linalg.norm(b - (b @ a.T) @ a, 2))


def moved_span(frame: Array, matrices: Array) -> Array:
    """An orthonormal basis of the span of P A P⁻¹."""
    return orthonormal_span(frame @ matrices @ np.linalg.inv(frame), 0.0)


def null_space(rows: Array, tolerance: float, *, size: float | None = None) -> Array:
    """Orthonormal rows that span {v : rows v = 0}.

    Args:
        rows: Of shape (m, n).
        tolerance: Singular values up to tolerance · size are zero.
        size: The largest singular value, unless given.
    """
    width = rows.shape[1]
    if len(rows) > width:
        rows = np.linalg.qr(rows)[1]
    _, values, vectors = np.linalg.svd(rows)
    largest = values.max(initial=0.0) if size is None else size
    rank = int((values > tolerance * largest).sum())
    null: Array = vectors[rank:]
    return null


def commutant(matrices: Array, tolerance: float = 1e-9) -> Array:
    """An orthonormal basis of the X with A X = X A for all the matrices.

    Example:
        >>> len(commutant(np.array([[[0.0, -1.0], [1.0, 0.0]]])))
        2
    """
    d = matrices.shape[1]
    one = np.eye(d)
    if not len(matrices):
        return np.eye(d * d).reshape(-1, d, d)
    equations = np.vstack([np.kron(a, one) - np.kron(one, a.T) for a in matrices])
    return null_space(equations, tolerance).reshape(-1, d, d)


def invariant_forms(matrices: Array, sign: int, tolerance: float = 1e-9) -> Array:
    """A basis of the M = sign · Mᵀ with Aᵀ M + M A = 0 for all the matrices.

    Args:
        matrices: Of shape (D, d, d).
        sign: 1 for symmetric forms, -1 for antisymmetric ones.
        tolerance: Relative size of a singular value that counts as zero.

    Example:
        >>> rotation = np.array([[[0.0, -1.0], [1.0, 0.0]]])
        >>> len(invariant_forms(rotation, 1)), len(invariant_forms(rotation, -1))
        (1, 1)
    """
    d = matrices.shape[1]
    units = np.eye(d * d).reshape(d, d, d, d)
    i, j = np.triu_indices(d, 0 if sign > 0 else 1)
    candidates = units[i, j] + sign * units[j, i]
    candidates /= np.linalg.norm(candidates, axis=(1, 2), keepdims=True)
    if not len(candidates):
        return np.zeros((0, d, d))
    scaled = matrices / np.maximum(np.linalg.norm(matrices, axis=(1, 2), keepdims=True), 1e-300)
    images = [rows_of(a.T @ candidates + candidates @ a) for a in scaled]
    if not images:
        return candidates
    null = null_space(np.hstack(images).T, tolerance)
    forms: Array = np.tensordot(null, candidates, 1)
    return forms


def closure_error(basis: Array) -> float:
    """Root mean square of the part of [X_i, X_j] outside the span, for X_i orthonormal, i ≠ j.

    It does not depend on the choice of the orthonormal basis.

    Example:
        >>> shears = np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])
        >>> round(closure_error(shears), 6)  # the bracket is diag(1, -1)
        1.414214
    """
    count = len(basis)
    if count < 2:
        return 0.0
    if count > ProposingThresholds.now().all_brackets:
        return _sampled_closure_error(basis)
    residual, _ = _residual(basis)
    return float(np.linalg.norm(residual) / np.sqrt(count * (count - 1)))


def _sampled_closure_error(basis: Array) -> float:
    """The same for brackets of random pairs: of many elements they all would take long."""
    rng = np.random.default_rng(0)
    i, j = rng.integers(len(basis), size=(2, ProposingThresholds.now().bracket_pairs))
    i, j = i[i != j], j[i != j]
    brackets = basis[i] @ basis[j] - basis[j] @ basis[i]
    rows = rows_of(basis)
    flat = rows_of(brackets)
    outside = flat - (flat @ rows.T) @ rows
    return float(np.linalg.norm(outside) / np.sqrt(len(i)))


def may_be_closed(basis: Array, error: float) -> bool:
    """Whether brackets leave the span by no more than those of a Lie algebra within the error.

    Example:
        >>> shears = np.array([[[0.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]])
        >>> may_be_closed(shears, 0.1)
        False
    """
    return closure_error(basis) <= _BRACKET_OF_ERROR * error * (1.0 + error)


def closed_near(basis: Array, *, affine: bool = False) -> Array | None:
    """An orthonormal basis of a Lie algebra near a span, by damped Gauss-Newton steps.

    Args:
        basis: An orthonormal basis, of shape (D, d, d).
        affine: Whether the last rows are zero and stay so: affine maps in homogeneous coordinates.

    Returns:
        A basis of the same shape, closed to rounding error, or None where the steps stall.
    """
    limits = ProposingThresholds.now()
    residual, constants = _residual(basis)
    size = float(np.linalg.norm(residual))
    sizes = [size]
    damping, patience = 1.0, limits.closure_patience
    free = np.ones(basis.shape[1:])
    free[-1] = 0.0 if affine else 1.0
    for _ in range(limits.closure_steps):
        if size <= _CLOSED * len(basis):
            return basis
        step = _step(basis, residual, constants, damping * size**2, free)
        trial = orthonormal_span(basis + step, 0.0)
        new_residual, new_constants = _residual(trial)
        new_size = float(np.linalg.norm(new_residual))
        if new_size < size:
            basis, residual, constants, size = trial, new_residual, new_constants, new_size
            damping = max(damping / 4.0, 1e-3)
        else:
            damping *= 8.0
        sizes.append(size)
        if len(sizes) > patience and size > 0.5 * sizes[-1 - patience]:
            break
    return basis if size <= 100 * _CLOSED * len(basis) else None


def _brackets(left: Array, right: Array) -> Array:
    commutators: Array = left[:, None] @ right[None] - right[None] @ left[:, None]
    return commutators


def _residual(basis: Array) -> tuple[Array, Array]:
    """R_ij and the structure constants c_ij^k."""
    commutators = _brackets(basis, basis)
    constants = np.tensordot(commutators, basis, ((2, 3), (1, 2)))
    return commutators - np.tensordot(constants, basis, 1), constants


def _step(basis: Array, residual: Array, constants: Array, damping: float, free: Array) -> Array:
    """The Y that solves (JᵀJ + damping) Y = -Jᵀ R, by conjugate gradients."""
    rows = rows_of(basis)
    transposed = basis.transpose(0, 2, 1)

    def outside(y: Array) -> Array:
        flat = y.reshape(-1, rows.shape[1])
        kept: Array = (flat - (flat @ rows.T) @ rows).reshape(y.shape)
        return kept

    def forward(y: Array) -> Array:
        moved = _brackets(y, basis)
        change: Array = outside(moved - moved.swapaxes(0, 1)) - np.tensordot(constants, y, 1)
        return change

    def adjoint(w: Array) -> Array:
        w = outside(w)
        pulled = 2.0 * (w @ transposed[None] - transposed[None] @ w).sum(1)
        change = outside(pulled - np.tensordot(constants, w, ((0, 1), (0, 1))))
        return free * change

    y = np.zeros_like(basis)
    rest = -adjoint(residual)
    direction, square = rest, float((rest**2).sum())
    target = square * min(1e-2, float(np.linalg.norm(residual))) ** 2
    for _ in range(ProposingThresholds.now().closure_inner_steps):
        if square <= target or square == 0.0:
            break
        image = adjoint(forward(direction)) + damping * direction
        length = square / float((direction * image).sum())
        y = y + length * direction
        rest = rest - length * image
        previous, square = square, float((rest**2).sum())
        direction = rest + square / previous * direction
    return y


def nearest_conjugate(algebra: Array, target: Array, *, affine: bool = False) -> Array:
    """An orthonormal basis of P h P⁻¹, with P near 1 such that it is nearest to a span.

    Gauss-Newton steps P ← exp(H) P for the sum of squared sines: [H, A_i] is how A_i moves, and
    what of it lies outside the target is fitted to what of A_i does. Steps are damped by the size
    of what is left, as directions that hardly move the algebra are set by noise alone.

    Args:
        algebra: An orthonormal basis of h, of shape (D, d, d).
        target: An orthonormal basis of the given space, of the same shape.
        affine: Whether P keeps the last coordinate, as affine maps in homogeneous coordinates do.
    """
    d = algebra.shape[1]
    best, size = algebra, _squared_sines(algebra, target)
    damping = 1.0
    for _ in range(ProposingThresholds.now().conjugate_steps):
        step = _conjugation(best, target, damping * size, d * d - d if affine else d * d)
        length = np.linalg.norm(step, 2)
        trial = moved_span(expm(step / max(1.0, 2.0 * length)), best)
        new_size = _squared_sines(trial, target)
        if new_size < size:
            done = new_size > (1.0 - 1e-4) * size
            best, size = trial, new_size
            damping /= 4.0
            if done or size < 1e-28 * d:
                break
        else:
            damping *= 16.0
            if damping > 1e7:
                break
    return best


def _squared_sines(algebra: Array, target: Array) -> float:
    a, b = rows_of(target), rows_of(algebra)
    return float(np.linalg.norm(b - (b @ a.T) @ a) ** 2)


def _conjugation(algebra: Array, target: Array, damping: float, free: int) -> Array:
    """H with its first ``free`` entries, row by row, chosen and the others zero."""
    d = algebra.shape[1]
    units = np.eye(d * d)[:free].reshape(-1, 1, d, d)
    moves = rows_of((units @ algebra[None] - algebra[None] @ units).reshape(-1, d, d))
    for span in (rows_of(algebra), rows_of(target)):
        moves = moves - (moves @ span.T) @ span
    jacobian = moves.reshape(free, -1)
    span, rows = rows_of(target), rows_of(algebra)
    residual = (rows - (rows @ span.T) @ span).ravel()
    curvatures, axes = np.linalg.eigh(jacobian @ jacobian.T)
    moving = curvatures > 1e-12 * max(curvatures[-1], 1e-300)
    slopes = axes.T @ (jacobian @ residual)
    along = np.where(moving, -slopes / np.where(moving, curvatures + damping, 1.0), 0.0)
    step: Array = np.pad(axes @ along, (0, d * d - free)).reshape(d, d)
    return step
