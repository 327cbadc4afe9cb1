"""What sharing costs maps at random, against closed forms."""

import numpy as np
import pytest
from scipy.special import betainc

from discovery.pieces import PairGroup, chance_of_cost, orbits_of_pairs


@pytest.mark.parametrize(("size", "blocks"), [(4, 1), (6, 2), (9, 3)])
def test_white_inputs_give_the_beta_law(size, blocks):
    labels = (np.arange(size) % blocks)[None]
    for cost in (0.1, 0.3, 0.6):
        exact = betainc((size - blocks) / 2, blocks / 2, cost)
        got = chance_of_cost(labels, np.eye(size), cost, draws=4000)
        assert got == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 4000) + 1e-3)


def test_correlated_inputs_make_small_costs_common():
    labels = np.zeros((1, 6), dtype=np.int64)
    together = np.full((6, 6), 0.98) + 0.02 * np.eye(6)
    assert chance_of_cost(labels, np.eye(6), 0.05) < 0.01
    assert chance_of_cost(labels, together, 0.05) > 0.4


def test_entries_that_are_zero_do_not_count():
    labels = np.array([[0, 0, -1, -1]])
    small = chance_of_cost(labels, np.eye(4), 0.2, draws=4000)
    assert small == pytest.approx(betainc(0.5, 0.5, 0.2), abs=0.03)
    assert chance_of_cost(np.full((2, 3), -1), np.eye(3), 0.1) == 1.0


def test_inputs_that_do_not_vary_say_nothing():
    assert chance_of_cost(np.zeros((1, 4), dtype=np.int64), np.zeros((4, 4)), 0.05) == 1.0


def test_orbits_of_pairs_against_all_elements():
    turn, flip = np.roll(np.arange(5), -1), np.arange(5)[::-1].copy()
    group = PairGroup(((turn, turn), (flip, flip)), 5, 5)
    orbits = orbits_of_pairs(group)
    distance = np.abs(np.arange(5)[:, None] - np.arange(5))
    ring = np.minimum(distance, 5 - distance)
    assert len(np.unique(orbits)) == 3
    for label in range(3):
        assert len(np.unique(ring[orbits == label])) == 1


@pytest.mark.parametrize(("size", "blocks"), [(8, 1), (10, 2), (12, 3)])
def test_rare_costs_are_bounded_from_above_and_not_far_off(size, blocks):
    labels = (np.arange(size) % blocks)[None]
    exact = betainc((size - blocks) / 2, blocks / 2, 0.01)
    assert exact < chance_of_cost(labels, np.eye(size), 0.01) < 30 * exact + 1e-12
