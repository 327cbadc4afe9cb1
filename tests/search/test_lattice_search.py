from __future__ import annotations

import numpy as np
import pytest

from isotropy.search import ChildProposal, LatticeSearch, SearchSpace, State, strategy_of
from isotropy.search._lattice_surrogate import predict, weights
from isotropy_papers.replay import replay
from isotropy_papers.score_table import ScoreTable

GROUPS = (
    *("rotation", "horizontal flip", "vertical flip", "horizontal translation"),
    *("horizontal scramble", "vertical scramble", "left vertical scramble"),
    *("right vertical scramble", "top horizontal scramble"),
)
SPACE = SearchSpace((1, 8, 8), GROUPS, ((4,),))
NETWORKS = tuple(sorted({SPACE.network(state) for state in SPACE.states()}))
GOOD = {"vertical flip": 2.0, "horizontal scramble": 1.5, "left vertical scramble": 1.0}


def made_up(seeds=6, noise=0.4):
    """Good groups gain, others lose, few weights lose; noise as of a thousand validation rows."""
    random = np.random.default_rng(1)
    gains = np.array([sum(GOOD.get(name, -1.2) for name in one.groups) for one in NETWORKS])
    sizes = np.array([weights(SPACE, one) for one in NETWORKS])
    mean = 85 + gains + 0.8 * np.log(sizes / sizes.max())
    grown = mean[:, None, None] - np.array([6.0, 2.0, 0.0])
    counts = np.round(10 * (grown + noise * random.normal(size=(len(NETWORKS), seeds, 3))))
    counts = np.clip(counts, 0, 1000).astype(int)
    return ScoreTable("made up", SPACE, NETWORKS, counts, counts, 1000, 1000, sizes)


def test_it_finds_the_best_network_with_far_fewer_children_than_chance():
    table = made_up()
    best = [table.best(seed) for seed in range(4)]
    lattice = replay(table, LatticeSearch, seeds=4, children=40)
    chance = replay(
        table,
        lambda space, seed: strategy_of("random", space, seed=seed),
        seeds=4,
        children=300,
        by_network=False,
    )
    assert 3 * lattice.needed(best).median < chance.needed(best).median


def test_halving_spends_less_than_it_proposes():
    halved = replay(
        made_up(), lambda space, seed: LatticeSearch(space, seed, rungs=(1,)), seeds=2, children=40
    )
    for one in halved.searches:
        assert one.cost[-1] < 0.75 * len(one.proposals)
        seen = set()
        for proposal in one.proposals[1:]:
            assert (proposal.epochs is None) == (proposal.start == proposal.state)
            assert proposal.epochs == 1 or ChildProposal(proposal.state, 1) in seen
            seen.add(proposal)


@pytest.mark.parametrize("rungs", [(), (1,), (1, 2)])
def test_all_networks_are_trained_in_full_in_the_end(rungs):
    groups = ("rotation", "horizontal flip", "vertical flip", "vertical scramble")
    space = SearchSpace((1, 8, 8), groups, ((4,), (6,)))
    search = LatticeSearch(space, 0, beam=2, rungs=rungs)
    scores: dict[ChildProposal, float] = {}
    while (proposal := search.propose(scores, ())) is not None:
        assert proposal not in scores
        scores[proposal] = 0.8 - 0.05 * len(proposal.state.groups)
    full = [one.state for one in scores if one.epochs is None]
    assert sorted(full) == sorted({space.network(state) for state in space.states()})


def test_warm_children_start_from_a_trained_neighbour():
    search = LatticeSearch(SPACE, 0, warm=True)
    scores = {search.propose({}, ()): 0.8}
    for k in range(20):
        proposal = search.propose(scores, ())
        assert proposal.start in {one.state for one in scores}
        near = {SPACE.network(state) for state in SPACE.neighbours(proposal.start)}
        assert proposal.state in near
        scores[proposal] = 0.8 + 0.01 * (k % 3)
    assert search.keeps_weights
    assert not LatticeSearch(SPACE, 0).keeps_weights


def test_first_joins_are_short_trainings_where_there_are_rungs():
    search = LatticeSearch(SPACE, 0, rungs=(1, 2))
    bottom, scores = search.propose({}, ()), {}
    while (proposal := search.propose(scores, [bottom])) is not None:
        assert (proposal.epochs, proposal.start) == (1, None)
        assert proposal not in scores
        scores[proposal] = 0.5
    near = {SPACE.network(state) for state in SPACE.neighbours(State())}
    assert {one.state for one in scores} == near
    going_on = search.propose({bottom: 0.6, **scores}, ())
    assert (going_on.epochs, going_on.start) == (2, going_on.state)


def test_weights_are_orbits_counted_by_burnside():
    # Turns and flips of 8 by 8 and 4 by 4 cells have no fixed cell but on diagonals.
    assert weights(SPACE, State()) == 64 * 16
    assert weights(SPACE, State(("rotation",))) == 64 * 16 // 4
    square = SPACE.network(State(("rotation", "vertical flip")))
    assert weights(SPACE, square) == (64 * 16 + 2 * 8 * 4) // 8


def test_predictions_follow_scores_and_are_surer_near_them():
    known = {one: 0.9 - 0.002 * k for k, one in enumerate(NETWORKS[:12])}
    means, deviations = predict(SPACE, known, list(known))
    assert np.corrcoef(means, list(known.values()))[0, 1] > 0.9
    assert (deviations < 0.5).all()  # less than the noise of one score
    _, far = predict(SPACE, known, [NETWORKS[-1]])
    assert far[0] > deviations.max()


def test_predictions_find_added_effects_of_groups_never_seen_together():
    effects = {name: k - 4 for k, name in enumerate(SPACE.groups)}
    singles = [one for one in NETWORKS if len(one.groups) <= 1]
    joint = [one for one in NETWORKS if len(one.groups) == 2]
    known = {one: 0.8 + 0.003 * sum(effects[n] for n in one.groups) for one in singles}
    means, _ = predict(SPACE, known, joint)
    truth = [sum(effects[n] for n in one.groups) for one in joint]
    assert np.corrcoef(means, truth)[0, 1] > 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "expected a beam of at least 1, got 0"),
        ({"rungs": (2, 1)}, "expected growing numbers of epochs from 1 on"),
        ({"share": 0.0}, "expected a share above 0 and up to 1, got 0.0"),
        ({"optimism": -1.0}, "expected no negative optimism, got -1.0"),
    ],
)
def test_options_out_of_range_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LatticeSearch(SPACE, 0, **options)
