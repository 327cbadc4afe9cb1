"""The exact Lie algebra nearest to an estimate: several hypotheses, the simplest first."""

from __future__ import annotations

import numpy as np

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._affine_structure import affine_near
from isotropy.discovery.proposing.generators._closure import (
    Array,
    closed_near,
    largest_sine,
    may_be_closed,
    moved_span,
    rows_of,
)
from isotropy.discovery.proposing.generators._describe import catalogue_algebra
from isotropy.discovery.proposing.generators._nearest_conjugate import nearest_conjugate
from isotropy.discovery.proposing.generators._nice_frame import identity_of, nicest, rounded_at_once
from isotropy.discovery.proposing.generators._toral_algebras import reductive_near
from isotropy.groups import orthonormal_span

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
