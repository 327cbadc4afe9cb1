"""From a noisy space of affine maps to the nearest exact Lie algebra, named."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from isotropy.discovery.proposing.generators._closure import (
    Array,
    closed_near,
    largest_sine,
    may_be_closed,
    nearest_conjugate,
    null_space,
    rows_of,
)
from isotropy.discovery.proposing.generators._describe import (
    group_title,
    identity_of,
    nicest,
    rounded_at_once,
    superscript,
    title_and_detail,
)
from isotropy.discovery.proposing.generators._exact_near import affine_near, exact_near
from isotropy.discovery.proposing.generators._simple_numbers import simplest_basis
from isotropy.discovery.proposing.generators._snap import (
    SnappedAlgebra,
    checked_basis,
    checked_error,
    checked_scale,
    independent,
    snapped,
)
from isotropy.groups import orthonormal_span


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
