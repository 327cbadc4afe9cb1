"""What swaps cost a predictor, against closed forms; groups that are read off them."""

import numpy as np
import pytest

from discovery.given_claims import proposed
from discovery.pieces import Screening, TaskData
from isotropy.data import load
from isotropy.discovery.proposing.permutations._colours import swap_symmetries


def task(target, rows=1500, n=6, seed=0):
    x = np.random.default_rng(seed).normal(size=(rows, n))
    return TaskData.of(load((x, target(x))))


def test_swaps_of_a_linear_map():
    weights = np.array([1.0, 1.0, 2.0, -1.0, 0.5])
    search = Screening(task(lambda x: x @ weights, n=5), 0.05, 0)
    got = search.swap_costs(outputs=False)
    # d = (w_i − w_j)(x_i − x_j)/2 against 2 w_i² + 2 w_j²
    squares = weights[:, None] ** 2 + weights**2
    expected = (weights[:, None] - weights) ** 2 / (4 * squares)
    np.testing.assert_allclose(got, expected, atol=0.04, rtol=0.2)


def test_two_kinds_of_columns_are_told_apart():
    data = task(lambda x: np.sin(x[:, :3]).sum(1) * np.cos(x[:, 3:]).sum(1), rows=1200, n=6)
    search = Screening(data, 0.05, 0)
    groups = list(swap_symmetries(search.swap_costs, data.arrangement))
    assert [g.order for g in groups] == [36] * len(groups)
    assert groups[0].orbits()[0].tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("blocks", [True, False])
def test_points_in_one_row_are_permuted_as_a_whole(blocks):
    def target(x):
        points = x.reshape(-1, 4, 2)
        weights = np.ones(4) if blocks else np.array([1.0, 2.0, -1.0, 0.3])
        return np.tanh(points[..., 0] * points[..., 1] + points[..., 0]) @ weights

    orders = [claim.group.order for claim in proposed(task(target, rows=800, n=8))]
    assert (24 in orders) == blocks
    assert blocks or not orders


def test_positions_that_say_the_same_are_not_all_ignored():
    rng = np.random.default_rng(0)
    label = rng.integers(2, size=900)
    x = (2 * label - 1)[:, None] + 0.8 * rng.normal(size=(900, 12))  # each tells the class
    x[:, 3] = rng.normal(size=900)  # but one
    ignored = Screening(TaskData.of(load((x, label))), 0.05, 0).ignored()
    assert len(ignored) < 8


@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_what_other_columns_are_measured_in_does_not_matter(unit):
    rng = np.random.default_rng(0)
    sensors, hour = rng.normal(20, 5, size=(900, 4)), rng.uniform(0, 24, size=(900, 1))
    hot = (1 / (1 + np.exp(-(sensors - 20) / 2.5))).sum(1)
    x = np.concatenate([sensors, unit * hour], 1)
    data = TaskData.of(load((x, hot**2 + np.sin(hour[:, 0] / 4))))
    found = [claim.group for claim in proposed(data)]
    assert any(g.order == 24 and g.orbits()[0].tolist() == [0, 0, 0, 0, 1] for g in found)
