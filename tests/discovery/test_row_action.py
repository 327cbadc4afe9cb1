"""A finding moves rows as they were given, and the true function goes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isotropy.discovery import Finding, discover
from isotropy.groups import Z
from isotropy.reps import Scalar, Symmetry, V

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Rows of a shape, a function of them, and the group that is to be found."""

    shape: tuple[int, ...]
    f: Callable[[Array], Array]
    group: str
    noise: float = 0.0

    def rows(self, seed: int = 0) -> Array:
        return np.random.default_rng(seed).normal(size=self.shape)


def circular(x: Array) -> Array:
    """Each step says what its neighbours sum to, in two channels."""
    ahead, behind = np.roll(x, -1, axis=1), np.roll(x, 1, axis=1)
    return np.stack([2 * x[..., 0] + ahead[..., 1], behind[..., 0] - x[..., 1]], 2)


def off_centre(x: Array) -> Array:
    return np.exp(-((x[:, 0] - 0.4) ** 2) - (x[:, 1] + 0.3) ** 2)


def torque(x: Array) -> Array:
    return np.cross(x[:, :3], x[:, 3:])


def apart(x: Array) -> Array:
    return np.square(x[:, :2] - x[:, 2:]).sum(1)


CASES = {
    "columns": Case((400, 4), lambda x: np.log1p(np.abs(x)).sum(1), "S(4)", 0.02),
    "steps and channels": Case((400, 6, 2), circular, "Z(6)", 0.02),
    "about a point": Case((500, 2), off_centre, "SO(2)"),
    "vectors to a vector": Case((500, 6), torque, "SO(3)"),
    "with translations": Case((500, 4), apart, "SE(2)"),
}


@pytest.fixture(scope="module", params=CASES)
def found(request: pytest.FixtureRequest) -> tuple[Case, Finding]:
    case = CASES[request.param]
    x = case.rows()
    y = case.f(x)
    y = y + case.noise * y.std() * np.random.default_rng(1).normal(size=y.shape)
    (finding,) = (one for one in discover(x, y, fit_models=False) if one.group == case.group)
    return case, finding


def test_the_true_function_moves_along(found: tuple[Case, Finding]) -> None:
    case, finding = found
    x = case.rows(2)[:50]
    for seed in range(5):
        moved, ahead = finding.move(x, case.f(x), seed=seed)
        assert moved.shape == x.shape
        np.testing.assert_allclose(case.f(moved), ahead, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(finding.move(x, seed=seed), moved)
    assert any(np.abs(finding.move(x, seed=seed) - x).max() > 0.1 for seed in range(5))


def test_generators_are_derivatives_and_elements_are_maps(found: tuple[Case, Finding]) -> None:
    case, finding = found
    x = case.rows(3)[:50]
    flat = x.reshape(len(x), -1)
    action = finding.matrices()
    assert len(action.generators) == (finding.dimension or 0)
    for k, generator in enumerate(action.generators):
        step = 1e-5 * (flat @ generator[:, :-1].T + generator[:, -1]).reshape(x.shape)
        slope = (case.f(x + step) - case.f(x - step)) / 2e-5
        along = np.zeros_like(slope)
        if action.output_generators is not None:
            b = action.output_generators[k]
            along = (case.f(x).reshape(len(x), -1) @ b[:, :-1].T + b[:, -1]).reshape(slope.shape)
        np.testing.assert_allclose(slope, along, atol=1e-6)
    for k, element in enumerate(action.elements):
        affine = element.matrix
        by_hand = (flat @ affine[:, :-1].T + affine[:, -1]).reshape(x.shape)
        np.testing.assert_allclose(element(x), by_hand, atol=1e-12)
        outputs = action.output_elements
        if outputs is None or outputs:
            y = case.f(x)
            ahead = y if outputs is None else outputs[k](y)
            np.testing.assert_allclose(case.f(element(x)), ahead, rtol=1e-6, atol=1e-6)


def test_it_comes_back_from_a_file(found: tuple[Case, Finding], tmp_path: Any) -> None:
    case, finding = found
    again = Finding.load(finding.save(tmp_path))
    x = case.rows(4)[:5]
    np.testing.assert_allclose(again.move(x, seed=3), finding.move(x, seed=3), atol=1e-12)


def test_pixels_move_as_images_were_given() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6, 6, 3)) * 0.1
    kind = rng.integers(2, size=300)
    for row, upright in zip(x, kind, strict=True):
        i, j = rng.integers(6, size=2)
        row[(i + np.arange(3)) % 6 if upright else i, j if upright else (j + np.arange(3)) % 6] += 1
    (shifts, *_) = discover(x, kind, methods="layers", fit_models=False)
    assert shifts.group == "Z(6)*Z(6)"
    moved = shifts.move(x[:20], seed=1)
    ways = [(a, b) for a in range(6) for b in range(6)]
    same = [np.array_equal(np.roll(x[:20], way, (1, 2)), moved) for way in ways]
    assert sum(same) == 1
    elements = shifts.matrices().elements
    assert len(elements) == 2
    assert all(one.sign is not None and (one.sign == 1).all() for one in elements)


def test_rows_of_another_shape_are_refused() -> None:
    shift = Finding.of("shift", "Z(3)", symmetry=Symmetry(Z(3), V, Scalar))
    with pytest.raises(ValueError, match=r"expected rows of 3 numbers, got an array of shape"):
        shift.move(np.zeros((2, 4)))
    with pytest.raises(ValueError, match=r"expected a symmetry that moves rows, got 'layers'"):
        Finding.of("layers", "Z(4)*Z(4)", layers=[{"layer": "layer 0"}]).matrices()


def test_turns_go_all_around_wherever_their_centre_is() -> None:
    centre = np.array([100.0, 0.0])
    x = np.random.default_rng(0).normal(size=(500, 2)) + centre
    found = discover(x, np.exp(-np.square(x - centre).sum(1) / 2), fit_models=False).best
    assert found is not None
    assert np.abs(found.matrices().generators[0, :, :2]).max() == pytest.approx(1.0)
    moved = [found.move(x[:1], seed=seed)[0] - centre for seed in range(20)]
    angles = np.arctan2(*np.array(moved).T)
    assert np.ptp(angles) > np.pi


def test_columns_of_a_table_are_taken_by_name() -> None:
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(np.random.default_rng(0).normal(size=(400, 3)), columns=["a", "b", "c"])
    found = discover(x, x["a"] * x["b"] + x["c"]).best
    assert found is not None
    other = x[["c", "b", "a"]]
    np.testing.assert_array_equal(found.predict(other), found.predict(x))
    np.testing.assert_array_equal(found.move(other), found.move(x))
    with pytest.raises(ValueError, match="expected a column 'c', got a table without it"):
        found.predict(x[["a", "b"]])
