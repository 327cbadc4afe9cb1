"""Coordinates of an action: what it does to rows, against doing it in those coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from discovery.pieces import (
    Chart,
    chart_of_columns,
    chart_of_combinations,
    combination_text,
    simple_subspace,
)

Array = NDArray[np.float64]
NAMES = ("a", "b", "c")


def inputs(sizes: list[float], seed: int = 0) -> Array:
    rng = np.random.default_rng(seed)
    return np.asarray(rng.normal(size=(50, len(sizes))) * sizes + rng.normal(size=len(sizes)))


@pytest.mark.parametrize(
    "sizes",
    [[1.0] * 7, [2.0, 5.0, 1.0, 2.0, 5.0, 1.0, 3.0], [1.0, 400.0, 0.02] * 2 + [9.0]],
    ids=["alike", "nearly", "apart"],
)
def test_rows_are_the_action_on_each_block_in_the_users_units(sizes: list[float]) -> None:
    x = inputs(sizes)
    columns = ((0, 1, 2), (3, 4, 5))
    chart = chart_of_columns(x, columns, NAMES, "")
    small = np.random.default_rng(1).normal(size=(2, 3, 4))
    for action, rows in zip(small, chart.rows(small), strict=True):
        expected = np.zeros_like(x)
        for block in columns:
            expected[:, block] = x[:, block] @ action[:, :3].T + action[:, 3]
        assert np.allclose(x @ rows[:, :7].T + rows[:, 7], expected, rtol=1e-12)


@pytest.mark.parametrize("factor", [9.0, 11.0])
def test_columns_alike_share_a_scale(factor: float) -> None:
    x = np.random.default_rng(0).choice([-1.0, 1.0], size=(64, 4)) * [1.0, factor, 1.0, factor]
    x = np.concatenate([x, -x])  # standard deviations 1 and factor, and no means
    chart = chart_of_columns(x, ((0, 1), (2, 3)), ("a", "b"), "")
    shared = np.sqrt((1 + factor**2) / 2)
    assert chart.scale == pytest.approx([shared] * 2 if factor < 10 else [1.0, factor])


def test_blocks_share_a_shift_and_a_scale() -> None:
    x = inputs([1.0, 300.0, 1.0, 300.0, 1.0])
    x[:, 2] += 9.0
    chart = chart_of_columns(x, ((0, 1), (2, 3)), ("a", "b"), "")
    means = x.mean(0)
    assert chart.shift[[0, 2]] == pytest.approx((means[0] + means[2]) / 2)
    assert chart.shift[4] == 0.0
    points = chart.points(x, centred=True)
    assert points.shape == (50, 4)
    pooled = points.reshape(50, 2, 2)
    assert (pooled**2).mean((0, 1)) == pytest.approx([1.0, 1.0])
    assert pooled.mean((0, 1)) == pytest.approx([0.0, 0.0], abs=1e-12)
    plain = chart.points(x, centred=False) * np.tile(chart.scale, 2)
    assert np.allclose(plain, x[:, :4])


def check_lift(chart: Chart) -> None:
    r = len(chart.reading)
    assert np.allclose(chart.reading @ chart.lift, np.eye(r), atol=1e-12)


def test_a_lift_moves_what_is_read_and_nothing_else() -> None:
    x = inputs([1.0, 50.0, 1.0, 50.0, 7.0])
    chart = chart_of_columns(x, ((3, 0), (1, 2)), ("a", "b"), "")
    check_lift(chart)
    assert not np.abs(chart.lift[4]).any()
    assert np.allclose(chart.points(x, centred=False)[:, 0] * chart.scale[0], x[:, 3])


@pytest.mark.parametrize("sizes", [[1.0] * 4, [1.0, 1.0, 300.0, 300.0]], ids=["alike", "apart"])
def test_rows_of_combinations_move_the_combinations(sizes: list[float]) -> None:
    x = inputs(sizes)
    combinations = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 1.0]])
    chart = chart_of_combinations(x, combinations, ("a − b", "2c + d"))
    check_lift(chart)
    small = np.random.default_rng(2).normal(size=(3, 2, 3))
    for action, rows in zip(small, chart.rows(small), strict=True):
        change = x @ rows[:, :4].T + rows[:, 4]
        expected = (x @ combinations.T) @ action[:, :2].T + action[:, 2]
        assert np.allclose(change @ combinations.T, expected, rtol=1e-10)
        # the least motion of x that does so, columns measured by their spread
        unit = change / x.std(0)
        least = np.linalg.lstsq(combinations * x.std(0), (change @ combinations.T).T, rcond=None)[0]
        assert np.allclose(unit, least.T, atol=1e-9 * np.abs(unit).max())


@pytest.mark.parametrize("seed", range(4))
def test_a_space_of_simple_numbers_is_found_again(seed: int) -> None:
    rng = np.random.default_rng(seed)
    simple = np.array([[1.0, 0.0, 1.0, 0.0], [0.0, 0.5, 0.0, -1.0]])
    scale = np.array([1.0, 3.0, 0.5, 2.0])
    frame = np.linalg.qr((simple / scale).T)[0].T
    mixed = np.linalg.qr(rng.normal(size=(2, 2)))[0] @ frame
    noisy = np.linalg.qr((mixed + 1e-4 * rng.normal(size=mixed.shape)).T)[0].T
    assert np.allclose(simple_subspace(noisy, 1e-3, scale), simple, atol=1e-9)
    exact = simple_subspace(noisy, 1e-9, scale)  # no room for rounding
    assert not np.allclose(exact, simple, atol=1e-6)
    turned = np.linalg.qr((exact / scale).T)[0].T
    assert np.allclose(turned.T @ turned, noisy.T @ noisy, atol=1e-9)


def test_combinations_in_words() -> None:
    assert combination_text(np.array([0.0, -1.0, 2.0]), NAMES) == "−b + 2·c"
    assert combination_text(np.array([0.25, 1e-12, -1.0]), NAMES) == "0.25·a − c"
    assert combination_text(np.zeros(3), NAMES) == "0"
