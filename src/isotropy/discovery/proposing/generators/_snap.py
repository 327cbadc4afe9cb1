"""From a noisy space of matrices, or of affine maps, to the nearest exact Lie algebra, named."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import (
    Array,
    closed_near,
    closure_error,
    largest_sine,
    may_be_closed,
    nearest_conjugate,
    null_space,
    rows_of,
)
from isotropy.discovery.proposing.generators._describe import (
    catalogue_algebra,
    group_title,
    identity_of,
    in_standard_position,
    nicest,
    rounded_at_once,
    simple_forms,
    superscript,
    title_and_detail,
)
from isotropy.discovery.proposing.generators._exact_near import affine_near, exact_near
from isotropy.discovery.proposing.generators._simple_numbers import simplest_basis
from isotropy.groups import orthonormal_span

# floating point: sines between equal spaces, and singular values of what is dependent
_ROUNDING, _DEPENDENT = 1e-9, 1e-7


@dataclass(frozen=True, eq=False)
class SnappedAlgebra:
    """An exact Lie algebra of matrices, and how it lies beside the estimate that it came from.

    Attributes:
        generators: A basis in the user's coordinates, of shape (D, d, d), of 0, ±1 and other simple
            numbers where the algebra has such a basis; (D, d+1, d+1) for affine actions.
        expression: The catalogue's string of a group with this algebra, or None.
        change: P: the generators span P · algebra of ``expression`` · P⁻¹. The identity without an
            expression.
        title: The group in prose.
        detail: How it acts: the signs of an invariant metric, weights, "in a hidden basis"; empty
            in the standard position.
        symmetric_forms: A basis of the symmetric M with Aᵀ M + M A = 0, of shape (k, d, d).
        antisymmetric_forms: The same for antisymmetric M.
        closure: How far the estimate was from closed under brackets: the root mean square of the
            part of [X_i, X_j] outside it, for an orthonormal basis X_i.
        angle: Sine of the largest principal angle between the estimate and the algebra, in the
            coordinates of the estimate.
        translations: A basis of the pure translations of an affine action, of shape (k, d).
        centre: The point about which the rest of an affine action acts, (d,), or None.
    """

    generators: Array
    expression: str | None
    change: Array
    title: str
    detail: str
    symmetric_forms: Array
    antisymmetric_forms: Array
    closure: float
    angle: float
    translations: Array | None = None
    centre: Array | None = None

    @property
    def is_named(self) -> bool:
        """Whether the group has a name, and not only a description."""
        return "a Lie group" not in self.title


def snap(
    basis: ArrayLike, *, error: float, scale: ArrayLike | None = None
) -> SnappedAlgebra | None:
    """The exact Lie algebra that an estimated space of matrices stands for.

    In order: the nearest space of zeros, ones and halves, if it is closed under brackets; the
    nearest reductive algebra, with simple weights on its centre; the nearest algebra. What is
    found is rounded to simple numbers in the user's coordinates where its kind allows.

    Args:
        basis: Independent matrices that act on z, of shape (D, d, d).
        error: Sine of the largest principal angle that the estimate may have with the truth.
        scale: The user's coordinates are x = scale · z, shape (d,); ones unless given.

    Returns:
        The algebra, or None if there is none within about the error.

    Raises:
        ValueError: If the matrices are not square, finite and independent, or the error or the
            scale is out of range.

    Example:
        >>> estimate = [[[0.01, -1.02], [0.98, 0.02]]]  # a rotation, but for noise
        >>> found = snap(estimate, error=0.05)
        >>> found.title, found.expression, found.generators.tolist()
        ('SO(2)', 'SO(2)', [[[0.0, -1.0], [1.0, 0.0]]])
        >>> boost = snap([[[0.0, 4.0], [1.001, 0.0]]], error=1e-3)
        >>> boost.title, boost.detail
        ('SO⁺(1,1)', 'metric diag(1, −4)')
    """
    matrices = checked_basis(basis, affine=False)
    sizes = checked_scale(scale, matrices.shape[1])
    allowed = checked_error(error)
    target = independent(matrices)
    found = exact_near(target, np.diag(sizes), allowed)
    if found is None:
        return None
    return snapped(found[0], target, np.diag(sizes), found[1])


def snapped(algebra: Array, target: Array, frame: Array, is_simple: bool) -> SnappedAlgebra:
    """The record of an exact algebra near an estimate, both in the estimate's coordinates."""
    d = algebra.shape[1]
    moved = frame @ algebra @ np.linalg.inv(frame)
    generators = _oriented(simplest_basis(rows_of(moved)).reshape(moved.shape))
    if not len(generators):
        expression: str | None = f"Trivial({d})"
        change: Array = np.eye(d)
        title, detail = "the trivial group", ""
    else:
        identity = identity_of(generators)
        change = identity.change.dense().numpy()
        if identity.group is None:
            # units that differ by much hide the kind of an algebra from a proof to rounding
            scaled = identity_of(algebra)
            if scaled.group is not None or "Lie algebra" not in scaled.name:
                identity, change = scaled, frame @ scaled.change.dense().numpy()
        expression = None if identity.group is None else str(identity.group)
        title, detail = title_and_detail(generators, identity, is_simple)
        if expression is not None and in_standard_position(generators, expression):
            generators, change = catalogue_algebra(expression), np.eye(d)
    return SnappedAlgebra(
        generators=generators,
        expression=expression,
        change=change,
        title=title,
        detail=detail,
        symmetric_forms=simple_forms(generators, 1),
        antisymmetric_forms=simple_forms(generators, -1),
        closure=closure_error(target),
        angle=largest_sine(target, algebra),
    )


def _oriented(generators: Array) -> Array:
    """Signs such that the first entry on or below the diagonal, else above it, is positive."""
    d = generators.shape[1]
    order = np.argsort(np.triu(np.ones((d, d)), 1).ravel(), kind="stable")
    rows = rows_of(generators)[:, order]
    first = rows[np.arange(len(rows)), (np.abs(rows) > 1e-9).argmax(1)] if len(rows) else rows[:, 0]
    oriented: Array = generators * np.where(first < 0, -1.0, 1.0)[:, None, None]
    return oriented + 0.0  # no negative zeros


def checked_basis(basis: ArrayLike, *, affine: bool) -> Array:
    """The matrices as float64, of shape (D, d, d), or (D, d, d+1) for affine ones.

    Raises:
        ValueError: If they are not finite matrices of that shape.
    """
    shape = "(D, d, d+1)" if affine else "(D, d, d)"
    try:
        matrices = np.asarray(basis, dtype=np.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"expected matrices of shape {shape}, got {basis!r:.80}") from problem
    fits = matrices.ndim == 3 and matrices.shape[1] >= 1
    if not fits or matrices.shape[2] != matrices.shape[1] + affine:
        raise ValueError(f"expected matrices of shape {shape}, got shape {matrices.shape}")
    if not np.isfinite(matrices).all():
        raise ValueError("expected finite matrices, got NaN or infinity")
    return matrices


def checked_scale(scale: ArrayLike | None, d: int) -> Array:
    """The scale as a vector of positive numbers.

    Raises:
        ValueError: If it is not.
    """
    sizes = np.ones(d) if scale is None else np.asarray(scale, dtype=np.float64)
    if sizes.shape != (d,) or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError(f"expected a scale of {d} positive numbers, got {scale!r:.80}")
    return sizes


def checked_error(error: float) -> float:
    """The greatest sine of an angle that is accepted.

    Raises:
        ValueError: If the error is not a number from 0 to 1.
    """
    if not 0.0 <= error < 1.0:
        raise ValueError(f"expected an error of at least 0 and less than 1, got {error!r:.80}")
    return ProposingThresholds.now().snap_slack * float(error) + _ROUNDING


def independent(matrices: Array) -> Array:
    """An orthonormal basis of the span of matrices that are independent.

    Raises:
        ValueError: If they are not.
    """
    norms = np.linalg.norm(matrices, axis=(1, 2), keepdims=True)
    span = orthonormal_span(matrices / np.where(norms > 0, norms, 1.0), _DEPENDENT)
    if len(span) < len(matrices) or not norms.all():
        raise ValueError(
            f"expected independent matrices, got {len(matrices)} that span "
            f"{len(span) if norms.any() else 0} dimensions"
        )
    return span


def snap_affine(
    basis: ArrayLike,
    *,
    error: float,
    scale: ArrayLike | None = None,
    centre: ArrayLike | None = None,
) -> SnappedAlgebra | None:
    """The exact Lie algebra that an estimated space of affine maps z ↦ Az + b stands for.

    Args:
        basis: Independent matrices [A | b] that act on z, of shape (D, d, d+1).
        error: Sine of the largest principal angle that the estimate may have with the truth.
        scale: The user's coordinates are x = centre + scale · z, shape (d,); ones unless given.
        centre: Shape (d,); zeros unless given.

    Returns:
        The algebra, with generators [[A, b], [0, 0]] in homogeneous user's coordinates, the
        translations in it and the point that all else fixes; None if there is none within about
        the error.

    Raises:
        ValueError: If the matrices are not finite, independent and of one shape, or the error, the
            scale or the centre is out of range.

    Example:
        >>> turn = [[0.0, -1.01, 0.0], [0.99, 0.02, 0.01]]
        >>> right, up = [[0.0, 0.01, 1.0], [0.0, 0.0, 0.02]], [[0.0, 0.0, 0.0], [0.01, 0.0, 1.0]]
        >>> found = snap_affine([turn, right, up], error=0.05)
        >>> found.expression, found.title, found.translations.tolist()
        ('SE(2)', 'SO(2) ⋉ R²', [[1.0, 0.0], [0.0, 1.0]])
    """
    given = checked_basis(basis, affine=True)
    d = given.shape[1]
    sizes = checked_scale(scale, d)
    middle = np.zeros(d) if centre is None else np.asarray(centre, dtype=np.float64)
    if middle.shape != (d,) or not np.isfinite(middle).all():
        raise ValueError(f"expected a centre of {d} finite numbers, got {centre!r:.80}")
    allowed = checked_error(error)
    target = independent(np.pad(given, ((0, 0), (0, 1), (0, 0))))
    frame = np.eye(d + 1)
    frame[:d, :d] = np.diag(sizes)
    frame[:d, d] = middle
    found = _exact_affine(target, frame, allowed)
    if found is None:
        return None
    algebra, is_simple, is_split = found
    result = snapped(algebra, target, frame, is_simple)
    if is_split:
        return _described(result, is_simple)
    return replace(result, translations=_translations(result.generators))


def _exact_affine(target: Array, frame: Array, error: float) -> tuple[Array, bool, bool] | None:
    """An exact algebra, whether it is of simple numbers, and whether its translations are plain.

    An algebra that was only closed under brackets may have elements that are almost translations.
    """
    count, size, _ = target.shape
    if count in (0, size * (size - 1)):
        return target, True, True
    if not may_be_closed(target, error):
        return None
    found = rounded_at_once(target, frame, error)
    if found is not None:
        return found, True, True
    structured = affine_near(target, frame, error, exact_near)
    if structured is not None:
        if structured.is_simple:
            return structured.algebra, True, True
        return *nicest(structured.algebra, target, frame, error), True
    closed = closed_near(target, affine=True)
    if closed is None:
        return None
    found = nearest_conjugate(closed, target, affine=True)
    if largest_sine(target, found) > error:
        return None
    algebra, is_simple = nicest(found, target, frame, error)
    return algebra, is_simple, is_simple


def _described(found: SnappedAlgebra, is_simple: bool) -> SnappedAlgebra:
    """With the translations and the centre, and a title that tells them from linear parts."""
    generators = found.generators
    d = generators.shape[1] - 1
    translations = _translations(generators)
    linear = generators[:, :d, :d]
    moving = orthonormal_span(linear, 1e-9) if len(translations) < len(generators) else linear[:0]
    centre = _common_centre(generators, translations)
    title, detail = _titled(moving, translations, is_simple)
    if (
        found.expression is not None
        and re.fullmatch(r"SE\(\d+\)", found.expression)
        and len(moving)
    ):
        title, detail = group_title(found.expression), found.detail
    elif centre is None and len(moving):
        title = "screw motions" if title == "SO(2)" else f"{title}, joined to translations"
    if centre is not None and np.abs(centre).max() > 1e-9:
        about = f"about ({', '.join(f'{value:.4g}' for value in centre)})".replace("-", "−")
        detail = f"{detail}, {about}" if detail else about
    return replace(found, title=title, detail=detail, translations=translations, centre=centre)


def _translations(generators: Array) -> Array:
    """A basis of the shifts of all combinations of generators without a linear part."""
    d = generators.shape[1] - 1
    if not len(generators):
        return np.zeros((0, d))
    combinations = null_space(rows_of(generators[:, :d, :d]).T, 1e-9, size=1.0)
    return simplest_basis(combinations @ generators[:, :d, d])


def _common_centre(generators: Array, translations: Array) -> Array | None:
    """The point nearest to the origin with A c + b a translation for all generators, if any."""
    d = generators.shape[1] - 1
    if not len(generators) or len(translations) == len(generators):
        return None
    rows = orthonormal_span(translations, 0.0)
    off = np.eye(d) - rows.T @ rows
    equations = (off @ generators[:, :d, :d]).reshape(-1, d)
    wanted = -(generators[:, :d, d] @ off).ravel()
    point = np.linalg.lstsq(equations, wanted, rcond=1e-9)[0]
    if np.abs(equations @ point - wanted).max() > 1e-9:
        return None
    return np.where(np.abs(point) < 1e-12, 0.0, point)


def _titled(moving: Array, translations: Array, is_simple: bool) -> tuple[str, str]:
    count, d = translations.shape
    along = f"R{superscript(count)}" if count > 1 else "R"
    if not len(moving):
        if not count:
            return "the trivial group", ""
        return ("translations", "" if count == d else _directions(translations))
    title, detail = title_and_detail(
        simplest_basis(rows_of(moving)).reshape(moving.shape), identity_of(moving), is_simple
    )
    if not count:
        return title, detail
    if np.abs(moving @ translations.T).max() > 1e-9:
        return f"({title}) ⋉ {along}" if " " in title else f"{title} ⋉ {along}", detail
    words = f"translations {_directions(translations)}"
    return f"{title} × translations", f"{detail}, {words}" if detail else words


def _directions(translations: Array) -> str:
    vectors = [f"({', '.join(f'{value:.4g}' for value in row)})" for row in translations]
    return f"along {' and '.join(vectors)}".replace("-", "−")
