from __future__ import annotations

from collections import Counter

import pytest

from isotropy.search import ByNetwork, ChildProposal, SearchSpace, State, strategy_of

SPACE = SearchSpace((1, 8, 8), ("rotation", "horizontal flip", "vertical flip"), ((4,), (6,)))
STRATEGIES = ("lattice", "dqn", "random", "tpe")


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_proposes_each_network_once_and_then_nothing(name):
    strategy = ByNetwork(strategy_of(name, SPACE, seed=3), SPACE.network)
    scores: dict[ChildProposal, float] = {}
    while (proposal := strategy.propose(scores, ())) is not None:
        assert proposal not in scores
        scores[proposal] = 0.5 + 0.01 * len(scores)
    assert {one.state for one in scores} == {SPACE.network(state) for state in SPACE.states()}


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_leaves_alone_what_is_taken(name):
    strategy = strategy_of(name, SPACE, seed=1)
    taken: list[ChildProposal] = []
    while (proposal := strategy.propose({}, taken)) is not None:
        assert proposal not in taken
        taken.append(proposal)
    assert len(taken) == len({one.state for one in taken}) >= 4


@pytest.mark.parametrize("name", ["random", "lattice", "tpe"])
def test_a_restart_goes_on_as_if_nothing_had_happened(name):
    strategy = strategy_of(name, SPACE, seed=5)
    scores: dict[ChildProposal, float] = {}
    for k in range(8):
        proposal = strategy.propose(scores, ())
        assert proposal == strategy_of(name, SPACE, seed=5).propose(scores, ())
        assert proposal is not None
        scores[proposal] = 0.5 + 0.03 * (k % 3)


def test_unseen_states_are_equally_likely():
    flips = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((4,),))
    known = {ChildProposal(State()): 0.5}
    drawn = Counter(
        strategy_of("random", flips, seed=seed).propose(known, ()) for seed in range(900)
    )
    assert len(drawn) == 3
    # 300 each; five deviations of a binomial count are 71.
    assert all(abs(count - 300) < 71 for count in drawn.values())


def test_a_network_that_is_known_is_told_to_the_strategy_and_not_trained_again():
    class Listed:
        """Asks for two states of one network, then notes what it was told."""

        def __init__(self) -> None:
            self.told: list[dict[ChildProposal, float]] = []
            self.left = [
                ChildProposal(State(("rotation", "vertical flip"))),
                ChildProposal(State(("rotation", "horizontal flip"))),
            ]

        def propose(self, scores, taken):
            self.told.append(dict(scores))
            return self.left.pop(0) if self.left else None

    inner = Listed()
    first, second = inner.left
    strategy = ByNetwork(inner, SPACE.network)
    proposal = strategy.propose({}, ())
    assert proposal == ChildProposal(State(SPACE.groups))
    assert strategy.propose({proposal: 0.7}, ()) is None
    assert inner.told[-1] == {first: 0.7, proposal: 0.7, second: 0.7}


@pytest.mark.parametrize("name", ["random", "dqn", "tpe"])
def test_short_trainings_do_not_count_as_seen(name):
    short = {ChildProposal(state, 1): 0.5 for state in SPACE.states()}
    proposal = strategy_of(name, SPACE, seed=0).propose(short, list(short))
    assert proposal is not None
    assert proposal.epochs is None


def test_what_is_taken_is_taken_in_all_its_states():
    told = []

    class Noted:
        def propose(self, scores, taken):
            told.append((dict(scores), set(taken)))

    top = State(SPACE.groups)
    ByNetwork(Noted(), SPACE.network).propose({}, [ChildProposal(top)])
    alike = [one for one in SPACE.states() if SPACE.network(one) == top]
    assert told == [({}, set(map(ChildProposal, alike)))]


def test_going_on_with_a_short_training_is_the_same_for_all_states_of_a_network():
    told = []

    class Noted:
        def propose(self, scores, taken):
            told.append(dict(scores))

    top, few = State(SPACE.groups), State(("rotation", "vertical flip"))
    scores = {ChildProposal(top, 1): 0.4, ChildProposal(top, None, top): 0.6}
    ByNetwork(Noted(), SPACE.network).propose(scores, ())
    assert told[0][ChildProposal(few, 1)] == 0.4
    assert told[0][ChildProposal(few, None, few)] == 0.6


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match=f"expected a strategy among {', '.join(STRATEGIES)}, got"):
        strategy_of("annealing", SPACE, seed=0)
