"""Exact algebras of affine maps from noisy ones, against maps written down from their parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isotropy.discovery.generators import snap_affine

Array = NDArray[Any]

TURN = np.array([[[0.0, -1.0], [1.0, 0.0]]])
TURN_ABOUT_Z = np.pad(TURN, ((0, 0), (0, 1), (0, 1)))
LEVI_CIVITA = np.array([np.cross(np.eye(3), axis) for axis in np.eye(3)])
BOOSTS = np.zeros((3, 4, 4))
BOOSTS[range(3), 0, range(1, 4)] = BOOSTS[range(3), range(1, 4), 0] = 1.0
LORENTZ = np.concatenate([BOOSTS, np.pad(LEVI_CIVITA, ((0, 0), (1, 0), (1, 0)))])
NONE2, NONE3 = np.zeros((0, 2, 2)), np.zeros((0, 3, 3))


def affine(linear: Array, translations: Any, centre: Any) -> Array:
    """[A | -A c] and [0 | t], of shape (D, d, d+1)."""
    d = linear.shape[1]
    shifts = np.array(translations, dtype=float).reshape(-1, d)
    moving = np.concatenate([linear, -(linear @ np.array(centre, dtype=float))[:, :, None]], axis=2)
    still = np.concatenate([np.zeros((len(shifts), d, d)), shifts[:, :, None]], axis=2)
    return np.concatenate([moving, still])


# name: linear parts, translations, centre, title, expression
CASES: dict[str, tuple[Array, Any, Any, str, str | None]] = {
    "se(2)": (TURN, np.eye(2), [0, 0], "SO(2) ⋉ R²", "SE(2)"),
    "se(3)": (LEVI_CIVITA, np.eye(3), [0, 0, 0], "SO(3) ⋉ R³", "SE(3)"),
    "poincaré": (LORENTZ, np.eye(4), [0, 0, 0, 0], "SO⁺(1,3) ⋉ R⁴", None),
    "rotations": (LEVI_CIVITA, [], [0, 0, 0], "SO(3)", "SO(3)+Trivial(1)"),
    "rotations about a point": (LEVI_CIVITA, [], [1, -2, 3], "SO(3)", "SO(3)+Trivial(1)"),
    "axis": (TURN_ABOUT_Z, [[0, 0, 1]], [0, 0, 0], "SO(2) × translations", "SO(2)+SE(1)"),
    "plane": (NONE3, [[1, 0, 0], [0, 1, 0]], [0, 0, 0], "translations", None),
    "together": (NONE3, [[1, 1, 1]], [0, 0, 0], "translations", "SE(1)+Trivial(2)"),
    "similarities": (
        np.concatenate([TURN, np.eye(2)[None]]), np.eye(2), [0, 0], "(SO(2) × scalings) ⋉ R²", None,
    ),
    "scalings about a point": (np.eye(2)[None], [], [1, 1], "scalings", "Scaling(2)+Trivial(1)"),
}  # fmt: skip


def homogeneous(matrices: Array) -> Array:
    return np.pad(matrices, ((0, 0), (0, 1), (0, 0)))


def moved(matrices: Array, frame: Array) -> Array:
    whole = frame @ homogeneous(matrices) @ np.linalg.inv(frame)
    return whole[:, :-1]


def random_frame(d: int, condition: float, rng: np.random.Generator) -> Array:
    left, _ = np.linalg.qr(rng.standard_normal((d, d)))
    frame = np.eye(d + 1)
    frame[:d, :d] = left * np.geomspace(1.0, condition, d)
    frame[:d, d] = 0.5 * rng.standard_normal(d)
    return frame


def noisy(matrices: Array, error: float, rng: np.random.Generator) -> Array:
    rows = np.linalg.qr(matrices.reshape(len(matrices), -1).T)[0].T
    noise = rng.standard_normal(rows.shape)
    noise -= noise @ rows.T @ rows
    noise *= np.tan(np.arcsin(error)) / np.linalg.norm(noise, 2)
    return (rows + noise).reshape(matrices.shape)


def sine(first: Array, second: Array) -> float:
    flat = [a.reshape(len(a), -1) for a in (first, second)]
    projections = [np.linalg.pinv(a) @ a for a in flat]
    return float(np.linalg.norm(projections[0] - projections[1], 2))


def bracket_error(generators: Array) -> float:
    rows = generators.reshape(len(generators), -1)
    inside = np.linalg.pinv(rows) @ rows
    commutators = [(a @ b - b @ a).ravel() for a in generators for b in generators]
    return max(float(np.abs(c - c @ inside).max()) for c in commutators)


def found(basis: Array, error: float, **options: Any) -> Any:
    result = snap_affine(basis, error=error, **options)
    assert result is not None
    return result


@pytest.mark.parametrize("error", [1e-9, 1e-3, 3e-2], ids=lambda x: f"{x:g}")
@pytest.mark.parametrize("name", CASES)
def test_simple_coordinates_come_back_exactly(name: str, error: float) -> None:
    linear, translations, centre, title, expression = CASES[name]
    truth = affine(linear, translations, centre)
    result = found(noisy(truth, error, np.random.default_rng(1)), error)
    assert (result.title, result.expression) == (title, expression)
    assert sine(result.generators, homogeneous(truth)) < 1e-12
    assert result.translations is not None
    assert len(result.translations) == len(translations)
    if len(translations):
        assert sine(result.translations, np.array(translations, dtype=float)) < 1e-12
    if len(linear) and not len(translations):
        assert result.centre is not None
        assert np.abs(result.centre - centre).max() < 1e-12
    elif not len(linear):
        assert result.centre is None


@pytest.mark.parametrize(
    ("error", "condition"), [(1e-9, 3.0), (1e-3, 3.0), (3e-2, 1.4)], ids=lambda x: f"{x:g}"
)
@pytest.mark.parametrize("name", CASES)
def test_hidden_coordinates(name: str, error: float, condition: float) -> None:
    linear, translations, centre, title, expression = CASES[name]
    rng = np.random.default_rng(2)
    frame = random_frame(linear.shape[1], condition, rng)
    truth = moved(affine(linear, translations, centre), frame)
    result = found(noisy(truth, error, rng), error)
    assert (result.title, result.expression) == (title, expression)
    assert bracket_error(result.generators) < 1e-10
    assert sine(result.generators, homogeneous(truth)) < 3.0 * error + 1e-12
    assert result.translations is not None
    assert len(result.translations) == len(translations)
    if len(linear) and not len(translations):
        assert result.centre is not None
        point = np.append(result.centre, 1.0)
        np.testing.assert_allclose(result.generators @ point, 0.0, atol=1e-9)


def test_a_screw_fixes_no_point() -> None:
    screw = np.concatenate([TURN_ABOUT_Z, [[[0.0], [0.0], [0.5]]]], axis=2)
    for error in (1e-6, 1e-2):
        rng = np.random.default_rng(3)
        result = found(noisy(screw, error, rng), error)
        assert (result.title, result.centre) == ("screw motions", None)
        assert sine(result.generators, homogeneous(screw)) < 1e-12
        truth = moved(screw, random_frame(3, 1.5, rng))
        hidden = found(noisy(truth, error, rng), error)
        assert (hidden.title, hidden.centre) == ("screw motions", None)
        assert sine(hidden.generators, homogeneous(truth)) < 3.0 * error


def test_shears_with_translations() -> None:
    shear = np.array([[[0.0, 1.0], [0.0, 0.0]]])  # x moves with y: a change to a moving frame
    truth = affine(shear, [[1.0, 0.0]], [0.0, 0.0])
    result = found(noisy(truth, 0.02, np.random.default_rng(4)), 0.02)
    assert sine(result.generators, homogeneous(truth)) < 1e-12
    np.testing.assert_array_equal(result.translations, [[1.0, 0.0]])


def test_units_and_origin_of_the_user() -> None:
    scale, middle = np.array([2.0, 2.0]), np.array([3.7, -1.2])
    frame = np.eye(3)
    frame[:2, :2], frame[:2, 2] = np.diag(scale), middle
    truth = affine(TURN, [], [3.0, -1.0])
    estimate = noisy(moved(truth, np.linalg.inv(frame)), 1e-3, np.random.default_rng(5))
    result = found(estimate, 1e-3, scale=scale, centre=middle)
    assert (result.title, result.detail) == ("SO(2)", "about (3, −1)")
    assert result.centre is not None
    assert np.abs(result.centre - [3.0, -1.0]).max() < 1e-12
    assert sine(result.generators, homogeneous(truth)) < 1e-12


def test_all_and_nothing() -> None:
    everything = found(np.random.default_rng(6).standard_normal((6, 2, 3)), 0.1)
    assert everything.generators.shape == (6, 3, 3)
    assert everything.title == "GL(2,R) ⋉ R²"
    nothing = found(np.zeros((0, 2, 3)), 0.1)
    assert nothing.title == "the trivial group"
    assert nothing.translations is not None
    assert nothing.translations.shape == (0, 2)


@pytest.mark.parametrize("error", [1e-9, 1e-3, 0.05])
def test_random_spaces_are_no_algebra(error: float) -> None:
    for seed in range(3):
        basis = np.random.default_rng(seed).standard_normal((4, 3, 4))
        assert snap_affine(basis, error=error) is None


@pytest.mark.parametrize(
    ("basis", "options", "words"),
    [
        (np.zeros((1, 2, 2)), {}, r"expected matrices of shape \(D, d, d\+1\), got shape \(1, 2"),
        (affine(TURN, [], [0, 0]), {"centre": [0.0]}, r"expected a centre of 2 finite numbers"),
        (affine(TURN, [], [0, 0]), {"centre": [0.0, np.inf]}, r"expected a centre of 2 finite"),
        (affine(TURN, [], [0, 0]), {"scale": [1.0, -1.0]}, r"expected a scale of 2 positive"),
        (affine(TURN, [], [0, 0]), {"error": -0.1}, r"expected an error of at least 0 and less"),
    ],
)  # fmt: skip
def test_bad_input(basis: Array, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        snap_affine(basis, **{"error": 0.1, **options})
