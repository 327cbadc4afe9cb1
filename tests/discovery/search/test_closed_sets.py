from __future__ import annotations

import random

import pytest

from isotropy.discovery.search import SearchSpace, State
from isotropy.discovery.search._closed_sets import ClosedSets

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
        assert sorted(closed.alike(one)) == sorted(expected)
        assert closed.alike(one)[-1] == one
    assert len(asked) == len(set(asked)) < len(networks) / 3


def test_all_networks_follow_from_the_rules(networks):
    top = State(SPACE.groups, 1)
    rules = ClosedSets(networks.__getitem__).rules(top)
    assert all(networks[few] == many != few for few, many in rules.items())
    for state in (one for one in networks if one.hidden == 1):
        held = set(state.groups)
        for _ in GROUPS:
            for few, many in rules.items():
                held |= set(many.groups) if held.issuperset(few.groups) else set()
        assert held == set(networks[state].groups)
