"""A nearby algebra of the same kind with simple numbers in the user's coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import (
    ROUNDED,
    Array,
    closure_error,
    invariant_forms,
    largest_sine,
    moved_span,
    rows_of,
)
from isotropy.discovery.proposing.generators._simple_numbers import echelon, heights, rounded
from isotropy.discovery.proposing.generators._toral_algebras import has_simple_weights
from isotropy.groups import Group, Identity, identify, orthonormal_span


def identity_of(algebra: Array) -> Identity:
    """What an exact, nonempty algebra is."""
    return identify(Group(algebra=list(algebra)))


def rounded_at_once(target: Array, frame: Array, error: float) -> Array | None:
    """The simplest algebra of small fractions within the error of an estimate.

    Brackets make closure hard to meet by accident, but commuting matrices close whatever they are:
    of those the weights must be simple as well.

    Args:
        target: An orthonormal basis of the estimate, of shape (D, d, d).
        frame: F, such that A in the user's coordinates is F A F⁻¹.
        error: The greatest sine of a principal angle.

    Returns:
        An orthonormal basis in the coordinates of the estimate, or None.
    """
    highest = ProposingThresholds.now().rounded_at_once
    for height in heights(error):
        if height > highest:
            return None
        found = _rounded(target, target, frame, height, error)
        if found is not None and has_simple_weights(_centre(found)):
            return found
    return None


def nicest(algebra: Array, target: Array, frame: Array, error: float) -> tuple[Array, bool]:
    """The simplest algebra of the same kind within the error, and whether its numbers are simple.

    Args:
        algebra: An orthonormal basis of an exact algebra near the estimate.
        target: An orthonormal basis of the estimate.
        frame: F, such that A in the user's coordinates is F A F⁻¹.
        error: The greatest sine of a principal angle from the estimate.
    """
    kind = identity_of(algebra).name
    for height in heights(error):
        found = _rounded(algebra, target, frame, height, error)
        if found is not None and identity_of(found).name == kind:
            return found, True
    found = _with_diagonal_metric(algebra, frame)
    if found is None or largest_sine(target, found) > error:
        return algebra, False
    return (found if identity_of(found).name == kind else algebra), False


def _rounded(
    algebra: Array, target: Array, frame: Array, height: int, error: float
) -> Array | None:
    back = np.linalg.inv(frame)
    rows = rows_of(frame @ algebra @ back)
    sizes = np.abs(np.diag(frame))
    simple = rounded(echelon(rows, (sizes[None] / sizes[:, None]).ravel()), height)
    found = orthonormal_span(back @ simple.reshape(algebra.shape) @ frame, 0.0)
    near = largest_sine(target, found) <= error
    return found if near and closure_error(found) < ROUNDED else None


def _centre(algebra: Array) -> Array:
    """A basis of what commutes with all of the algebra, possibly empty."""
    commutators = algebra[:, None] @ algebra[None] - algebra[None] @ algebra[:, None]
    values, vectors = np.linalg.eigh(rows_of(commutators) @ rows_of(commutators).T)
    centre: Array = np.tensordot(vectors.T[values < 1e-12], algebra, 1)
    return centre


def _with_diagonal_metric(algebra: Array, frame: Array) -> Array | None:
    """so(p,q) of the diagonal of the invariant metric in the user's coordinates."""
    count, d, _ = algebra.shape
    if d < 2 or count != d * (d - 1) // 2:
        return None
    forms = invariant_forms(moved_span(frame, algebra), 1)
    if len(forms) != 1 or (np.diag(forms[0]) == 0.0).any():
        return None
    generators = metric_rotations(np.diag(forms[0]))
    back = np.linalg.inv(frame)
    return orthonormal_span(back @ generators @ frame, 0.0)


def metric_rotations(metric: Iterable[float]) -> Array:
    """A basis of the A with Aᵀ M + M A = 0 for M = diag(metric)."""
    sizes = list(metric)
    matrices = []
    for i, j in combinations(range(len(sizes)), 2):
        matrix = np.zeros((len(sizes), len(sizes)))
        matrix[j, i], matrix[i, j] = sizes[i], -sizes[j]
        matrices.append(matrix / max(abs(sizes[i]), abs(sizes[j])))
    return np.array(matrices)
