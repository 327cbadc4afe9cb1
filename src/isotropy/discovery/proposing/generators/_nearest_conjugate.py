"""The conjugate of a Lie algebra that is nearest to a given space of matrices."""

from __future__ import annotations

import numpy as np
from scipy.linalg import expm

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import Array, moved_span, rows_of


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
        step = _step(best, target, damping * size, d * d - d if affine else d * d)
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


def _step(algebra: Array, target: Array, damping: float, free: int) -> Array:
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
