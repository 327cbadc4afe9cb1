from __future__ import annotations

import random

import pytest

from isotropy.search import SearchSpace
from isotropy.search._closed_sets import ClosedSets

GROUPS = (
    *("rotation", "horizontal flip", "vertical flip", "horizontal translation"),
    *("horizontal scramble", "vertical scramble", "left vertical scramble"),
    *("right vertical scramble", "top horizontal scramble"),
)
SPACE = SearchSpace((1, 8, 8), GROUPS, ((4,), (6,)))


@pytest.fixture(scope="module")
def networks():
    """The network of every state, each found from its weights."""
    return {state: SPACE.network(state) for state in SPACE.states()}


@pytest.mark.parametrize("seed", range(3))
def test_states_alike_are_those_whose_weights_are_equal(networks, seed):
    asked = []

    def network(state):
        asked.append(state)
        return networks[state]

    order = sorted(set(networks.values()))
    random.Random(seed).shuffle(order)
    closed = ClosedSets(network)
    for one in order:
        expected = [state for state in networks if networks[state] == one]
        assert sorted(closed.states_of(one)) == sorted(expected)
        assert closed.states_of(one)[-1] == one
    assert len(asked) == len(set(asked)) < len(networks) / 3
