from __future__ import annotations

import numpy as np
import pytest

from isotropy.search import ChildProposal, SearchSpace, strategy_of
from isotropy_papers.replay import replay
from isotropy_papers.score_table import ScoreTable

SPACE = SearchSpace((1, 8, 8), ("rotation", "horizontal flip", "vertical flip"), ((4,),))
NETWORKS = tuple(sorted({SPACE.network(state) for state in SPACE.states()}))


def random_search(space, seed):
    return strategy_of("random", space, seed=seed)


def table(seeds=2):
    validation = np.arange(len(NETWORKS) * seeds * 2).reshape(len(NETWORKS), seeds, 2)
    sizes = np.ones(len(NETWORKS), int)
    return ScoreTable("counted", SPACE, NETWORKS, validation, validation[::-1], 100, 100, sizes)


class Listed:
    """Proposes a list."""

    def __init__(self, *proposals):
        self.proposals = proposals

    def propose(self, scores, taken):
        return next((one for one in self.proposals if one not in scores), None)


def test_curves_costs_and_the_selected_test_accuracy_by_hand():
    a, b, c = NETWORKS[1], NETWORKS[3], NETWORKS[2]
    listed = Listed(
        ChildProposal(a, 1), ChildProposal(a, None, a), ChildProposal(b), ChildProposal(c)
    )
    found = replay(table(), lambda space, seed: listed, seeds=[1], children=10).searches[0]
    np.testing.assert_allclose(found.best, [np.nan, 0.07, 0.15, 0.15])
    np.testing.assert_allclose(found.cost, [0.5, 1, 2, 3])
    assert found.training_seed == 1
    assert found.test == table().test[3, 1, -1] / 100
    assert (found.needed(0.07), found.needed_cost(0.07)) == (2, 1)
    assert found.needed(0.16) == float("inf")


def test_children_are_networks_or_states():
    networks = replay(table(), random_search, seeds=3, children=100)
    states = replay(table(), random_search, seeds=3, children=100, by_network=False)
    assert [len(one.proposals) for one in networks.searches] == [len(NETWORKS)] * 3
    assert [len(one.proposals) for one in states.searches] == [8] * 3
    assert [one.training_seed for one in states.searches] == [0, 1, 0]
    np.testing.assert_array_equal(networks.final, [table().best(seed % 2) for seed in range(3)])


def test_curves_keep_what_a_search_ended_with():
    curves = replay(table(), random_search, seeds=2, children=3).curves(5)
    assert curves.shape == (2, 5)
    np.testing.assert_array_equal(curves[:, 2:], curves[:, [2, 2, 2]])
    assert (np.diff(curves) >= 0).all()


def test_needed_children_of_a_random_search_are_what_draws_without_return_need():
    # The last of 6 networks, of 8 states: the best has one state of 3 or its own alone.
    found = replay(table(), random_search, seeds=400, children=8, by_network=False)
    needed = found.needed([table().best(seed % 2) for seed in range(400)])
    aliases = sum(SPACE.network(state) == NETWORKS[-1] for state in SPACE.states())
    # The first of k marked places among n has the mean (n + 1) / (k + 1).
    expected = (8 + 1) / (aliases + 1)
    assert np.mean(needed.each) == pytest.approx(expected, abs=5 * 2.3 / 400**0.5)
    assert needed.low <= needed.median <= needed.high


def test_another_replay_is_a_goal_seed_by_seed():
    short = replay(table(), random_search, seeds=5, children=2)
    long = replay(table(), random_search, seeds=5, children=6)
    needed = long.needed(short)
    assert max(needed.each) <= 2
    assert needed.each == tuple(
        one.needed(goal) for one, goal in zip(long.searches, short.final, strict=True)
    )


def test_a_search_ends_at_its_goal_and_is_the_same_up_to_it():
    whole = replay(table(), random_search, seeds=3, children=8)
    short = replay(table(), random_search, seeds=3, children=8, goal=0.12)
    for one, other in zip(whole.searches, short.searches, strict=True):
        count = int(one.needed(0.12))
        assert other.proposals == one.proposals[:count]
        assert other.best[-1] >= 0.12


def test_goals_never_reached_are_infinite():
    needed = replay(table(), random_search, seeds=3, children=2).needed(1.0)
    assert needed.each == (float("inf"),) * 3
    assert str(needed) == "inf (inf to inf)"


def test_bad_requests_are_refused():
    with pytest.raises(ValueError, match="expected at least one seed and one child, got 0 and 3"):
        replay(table(), random_search, seeds=0, children=3)
    found = replay(table(), random_search, seeds=3, children=3)
    with pytest.raises(ValueError, match="expected one accuracy, or 3"):
        found.needed([0.1, 0.2])
    twice = ChildProposal(NETWORKS[0])

    class Twice:
        def propose(self, scores, taken):
            return twice

    with pytest.raises(ValueError, match="expected a new child"):
        replay(table(), lambda space, seed: Twice(), seeds=1, children=3, by_network=False)
