"""The exact Lie algebra nearest to an estimate: several hypotheses, the simplest first.

Lie algebras of affine maps x ↦ Ax + b: translations, linear parts, a common centre.

In homogeneous coordinates such an algebra consists of [[A, b], [0, 0]]. Its translations, A = 0,
are an ideal, a subspace that the linear parts keep. Where these are reductive they have a common
fixed point c modulo translations, b = -A c, but for screws: shifts along vectors that they fix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import schur

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import (
    ROUNDED,
    Array,
    closed_near,
    closure_error,
    commutant,
    largest_sine,
    may_be_closed,
    moved_span,
    nearest_conjugate,
    null_space,
    rows_of,
)
from isotropy.discovery.proposing.generators._describe import (
    catalogue_algebra,
    identity_of,
    nicest,
    rounded_at_once,
)
from isotropy.discovery.proposing.generators._simple_numbers import echelon, heights, rounded
from isotropy.discovery.proposing.generators._toral_algebras import reductive_near
from isotropy.groups import orthonormal_span

LinearSnap = Callable[[Array, Array, float], tuple[Array, bool] | None]


@dataclass(frozen=True)
class AffineAlgebra:
    """An exact algebra of affine maps.

    Attributes:
        algebra: An orthonormal basis in homogeneous coordinates, of shape (D, d+1, d+1).
        translations: Orthonormal rows, of shape (k, d).
        is_simple: Whether linear parts, translations and centre are of simple numbers.
    """

    algebra: Array
    translations: Array
    is_simple: bool


def affine_near(
    target: Array, frame: Array, error: float, linear: LinearSnap
) -> AffineAlgebra | None:
    """An exact algebra of affine maps near an estimate.

    Args:
        target: An orthonormal basis of the estimate, with zeros in the last rows, (D, d+1, d+1).
        frame: F, such that A in the user's coordinates is F A F⁻¹, with last row (0, …, 0, 1).
        error: The greatest sine of a principal angle from the estimate.
        linear: Finds the exact algebra near an estimate of linear parts.
    """
    limits = ProposingThresholds.now()
    count, size, _ = target.shape
    d = size - 1
    parts = rows_of(target[:, :d, :d])
    mixing, values, _ = np.linalg.svd(parts, full_matrices=True)
    values = np.pad(values, (0, max(0, count - len(values))))
    turned = np.tensordot(mixing.T, target, 1)
    for shifts in range(min(d, count), -1, -1):
        moving = count - shifts
        if shifts and values[moving] > limits.motion_slack * error:
            continue  # not all of these are translations
        if moving and values[moving - 1] <= error:
            continue  # what the estimate cannot tell from a translation is one
        least = values[moving - 1] if moving else 1.0
        span = orthonormal_span(turned[:moving, :d, :d], 0.0)
        allowed = min(limits.hopeless_sine, limits.linear_slack * error / least)
        found = linear(span, frame[:d, :d], allowed) if moving else (span, True)
        if found is None:
            continue
        allowed = limits.motion_slack * error
        translations = _invariant_span(turned[moving:, :d, d], found[0], frame[:d, :d], allowed)
        if translations is None:
            continue
        whole = _with_centre(turned, found[0], translations, frame, error)
        if whole is not None:
            return AffineAlgebra(whole[0], translations, found[1] and whole[1])
    return None


def _invariant_span(shifts: Array, linear: Array, frame: Array, error: float) -> Array | None:
    """Orthonormal rows that span a subspace near the shifts, kept by the linear parts."""
    count, d = shifts.shape
    if count in (0, d):
        return np.eye(d)[:count]
    given = orthonormal_span(shifts, 0.0)
    for candidate in _subspaces(given, linear, frame, error):
        images = rows_of(np.swapaxes(linear @ candidate.T, 1, 2).reshape(-1, d))
        left = images - (images @ candidate.T) @ candidate
        if np.abs(left).max(initial=0.0) < ROUNDED and largest_sine(given, candidate) <= error:
            return candidate
    return None


def _subspaces(given: Array, linear: Array, frame: Array, error: float) -> Iterator[Array]:
    moved = echelon(given @ frame.T)
    for height in heights(error):
        yield orthonormal_span(rounded(moved, height) @ np.linalg.inv(frame).T, 0.0)
    if not len(linear):
        yield given
        return
    # the projection to the shifts, made to commute with the linear parts, has values near 0 and 1
    basis = rows_of(commutant(linear))
    near = (basis.T @ (basis @ (given.T @ given).ravel())).reshape(given.shape[1], -1)
    _, vectors, size = schur(near, output="real", sort=lambda real, _: bool(real > 0.5))
    if size == len(given):
        yield np.ascontiguousarray(vectors[:, :size].T)


def _with_centre(
    turned: Array, linear: Array, translations: Array, frame: Array, error: float
) -> tuple[Array, bool] | None:
    """The algebra about the simplest centre within the error, and whether that is simple."""
    d = frame.shape[0] - 1
    shifts = np.zeros((len(translations), d + 1, d + 1))
    shifts[:, :d, d] = translations
    target = orthonormal_span(turned, 0.0)
    for offsets, is_simple in _offsets(turned[: len(linear)], linear, translations, frame):
        parts = np.zeros((len(linear), d + 1, d + 1))
        parts[:, :d, :d] = linear
        parts[:, :d, d] = offsets
        whole = orthonormal_span(np.concatenate([parts, shifts]), 0.0)
        if not is_simple:
            whole = nearest_conjugate(whole, target, affine=True)
        if largest_sine(target, whole) <= error and closure_error(whole) < ROUNDED:
            return whole, is_simple
    return None


def _offsets(
    moving: Array, linear: Array, translations: Array, frame: Array
) -> Iterator[tuple[Array, bool]]:
    """The b = -A c of each linear part, and whether they are simple.

    For c the user's origin, then points of few decimals in the user's coordinates, then any; last
    with what is left along the vectors that all linear parts fix: screws.
    """
    d = frame.shape[0] - 1
    origin = -np.linalg.solve(frame[:d, :d], frame[:d, d])
    yield -linear @ origin, True
    if not len(linear):
        return
    parts, wanted_parts = rows_of(moving[:, :d, :d]), rows_of(linear)
    coefficients = np.linalg.lstsq(parts.T, wanted_parts.T, rcond=None)[0].T
    shifts = coefficients @ moving[:, :d, d]
    off = np.eye(d) - translations.T @ translations
    equations = (off @ linear).reshape(-1, d)
    wanted = -((shifts + linear @ origin) @ off).ravel()
    step = np.linalg.lstsq(equations, wanted, rcond=1e-6)[0]
    users = frame[:d, :d] @ step
    for decimals in ProposingThresholds.now().centre_decimals:
        nearby = origin + np.linalg.solve(frame[:d, :d], users.round(decimals))
        yield -linear @ nearby, True
    centred = -linear @ (origin + step)
    yield centred, False
    fixed = null_space(equations, 1e-9)
    yield centred + (shifts - centred) @ off @ fixed.T @ fixed, False


# floating point: sines from a named algebra that is the given one, and from motions that fit
_NAMED, _ROUNDING = 1e-12, 1e-8


def exact_near(target: Array, frame: Array, error: float) -> tuple[Array, bool] | None:
    """An exact algebra near an estimate, and whether it is of simple numbers.

    Args:
        target: An orthonormal basis of the estimate, of shape (D, d, d).
        frame: F, such that A in the user's coordinates is F A F⁻¹.
        error: The greatest sine of a principal angle from the estimate.

    Returns:
        An orthonormal basis in the coordinates of the estimate; None if nothing is near enough.
    """
    count, d, _ = target.shape
    if count in (0, d * d):
        return target, True
    if not may_be_closed(target, error):
        return None
    found = rounded_at_once(target, frame, error)
    if found is not None:
        return found, True
    if count > ProposingThresholds.now().structured_elements:
        return None  # a group so large would have been simple, and the search takes very long
    found = _structured_near(target, error)
    return None if found is None else nicest(_as_named(found), target, frame, error)


def _structured_near(target: Array, error: float) -> Array | None:
    """Motions, else an algebra with a centre, else any: the first within the error.

    Motions are limits of other algebras, which can only be nearer, but not by much if motions are
    the truth: the error given may be too large.
    """
    found = _motions_near(target, error)
    if found is not None:
        reach = largest_sine(target, found)
        if reach < _ROUNDING:
            return found
        error = ProposingThresholds.now().much_nearer * reach
    other = reductive_near(target, error)
    if other is None:
        other = _closed_near(target, error)
    return found if other is None else other


def _closed_near(target: Array, error: float) -> Array | None:
    closed = closed_near(target)
    if closed is None:
        return None
    found = nearest_conjugate(closed, target)
    return found if largest_sine(target, found) <= error else None


def _motions_near(target: Array, error: float) -> Array | None:
    """Translations and what acts on them, in homogeneous coordinates.

    They are limits of rotations with an ever longer last axis, and would be found as such.
    """
    limits, (count, d, _) = ProposingThresholds.now(), target.shape
    if d < 2:
        return None
    stacked = target.transpose(0, 2, 1).reshape(-1, d)
    _, values, covectors = np.linalg.svd(stacked)
    if values[-1] > limits.motion_slack * np.sqrt(count) * error:
        return None
    turn = covectors.T  # the covector that all annihilate becomes the last coordinate
    moved = turn.T @ target @ turn
    moved[:, -1] = 0.0
    if np.linalg.svd(rows_of(moved), compute_uv=False)[-1] < limits.motions_left:
        return None
    allowed = limits.motion_slack * error
    found = affine_near(orthonormal_span(moved, 0.0), np.eye(d), allowed, exact_near)
    if found is None or not len(found.translations):
        return None
    fitted = nearest_conjugate(turn @ found.algebra @ turn.T, target)
    return fitted if largest_sine(target, fitted) <= error else None


def _as_named(algebra: Array) -> Array:
    """The catalogue's algebra in the frame of the given one, where that is not it but for rounding.

    Names are proven to 1e-8 only, and algebras of one kind have limits of another kind.
    """
    identity = identity_of(algebra)
    if identity.group is None:
        return algebra
    named = moved_span(identity.change.dense().numpy(), catalogue_algebra(str(identity.group)))
    return algebra if largest_sine(named, algebra) < _NAMED else named
