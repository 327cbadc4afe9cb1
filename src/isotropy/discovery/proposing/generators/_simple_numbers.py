"""Spaces with a basis of simple numbers: reduced echelon form, rounded to small fractions."""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

import numpy as np
from scipy.linalg import qr

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import Array


def fractions(height: int) -> Array:
    """All ±p/q with p and q at most ``height``, and zero, in order.

    Example:
        >>> fractions(2).tolist()
        [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0]
    """
    whole = range(1, height + 1)
    positive = sorted(p / q for p in whole for q in whole if gcd(p, q) == 1)
    return np.array([-x for x in reversed(positive)] + [0.0] + positive)


def heights(error: float) -> Iterator[int]:
    """Sizes of numerators and denominators worth trying, the simplest first.

    Fractions of a height lie about 1/height² apart: nearer to each other than the error, any number
    is one of them. Zero and ±1 are always tried.
    """
    for height in range(1, ProposingThresholds.now().largest_simple + 1):
        if height == 1 or 2.0 * error * height**2 < 1.0:
            yield height


def echelon(rows: Array, weights: Array | None = None) -> Array:
    """The same row space, with a unit matrix in the columns where that is best conditioned.

    Args:
        rows: Independent rows, of shape (k, n).
        weights: Multiplies the columns where the columns of the unit matrix are chosen, (n,).
    """
    weighted = rows if weights is None else rows * weights
    _, _, pivots = qr(weighted, pivoting=True, mode="economic")
    chosen = np.sort(pivots[: len(rows)])
    reduced: Array = np.linalg.solve(rows[:, chosen], rows)
    reduced[:, chosen] = np.eye(len(rows))
    return reduced


def rounded(values: Array, height: int) -> Array:
    """Each value replaced by the nearest fraction of a height.

    Example:
        >>> rounded(np.array([0.97, -0.02, 0.46]), 2).tolist()
        [1.0, 0.0, 0.5]
    """
    allowed = fractions(height)
    above = np.clip(np.searchsorted(allowed, values), 1, len(allowed) - 1)
    low, high = allowed[above - 1], allowed[above]
    nearest: Array = np.where(values - low < high - values, low, high)
    return nearest + 0.0  # no negative zeros


def simplest_basis(rows: Array) -> Array:
    """A basis of an exact row space, of small fractions if it has one, largest entries one.

    Example:
        >>> simplest_basis(np.array([[0.6, -0.6, 0.0], [0.1, 0.1, 0.4]])).tolist()
        [[0.5, 0.0, 1.0], [0.0, 0.5, 1.0]]
    """
    if not len(rows):
        return rows
    reduced = _leftmost_echelon(rows)
    simple = _as_fractions(reduced)
    if simple is None:
        reduced = echelon(rows)
        simple = _as_fractions(reduced)
    basis = reduced if simple is None else simple
    at = np.abs(basis).argmax(1)
    largest: Array = basis / np.abs(basis[np.arange(len(basis)), at])[:, None]
    return largest


def _as_fractions(values: Array) -> Array | None:
    """The values as fractions that they equal up to rounding, or None."""
    for height in heights(1e-9):
        simple = rounded(values, height)
        if np.abs(simple - values).max() < 1e-9:
            return simple
    return None


def _leftmost_echelon(rows: Array) -> Array:
    """The reduced echelon form: each pivot in the first column that still has one."""
    reduced = np.linalg.svd(rows, full_matrices=False)[2]
    row = 0
    for column in range(reduced.shape[1]):
        if row == len(reduced):
            break
        at = row + int(np.abs(reduced[row:, column]).argmax())
        if abs(reduced[at, column]) < 1e-8:
            continue
        reduced[[row, at]] = reduced[[at, row]]
        reduced[row] /= reduced[row, column]
        others = np.arange(len(reduced)) != row
        reduced[others] -= np.outer(reduced[others, column], reduced[row])
        row += 1
    cleaned: Array = np.where(np.abs(reduced) < 1e-11, 0.0, reduced)
    return cleaned
