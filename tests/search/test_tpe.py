from __future__ import annotations

import logging

import numpy as np
import pytest

from isotropy.search import ByNetwork, SearchSpace, strategy_of
from isotropy.search._tpe import TPE

optuna = pytest.importorskip("optuna")

GROUPS = (
    *("rotation", "horizontal flip", "vertical flip", "horizontal scramble"),
    *("vertical scramble", "left vertical scramble"),
)
SPACE = SearchSpace((1, 8, 8), GROUPS, ((4,),))
WEIGHTS = dict(zip(GROUPS, (0.05, -0.08, 0.1, -0.04, 0.07, -0.06), strict=True))


def needed(strategy):
    """How many children until the one with all good groups and no other."""
    best = sum(weight for weight in WEIGHTS.values() if weight > 0)
    scores = {}
    while not scores or max(scores.values()) < 0.5 + best - 1e-9:
        proposal = strategy.propose(scores, ())
        assert proposal not in scores
        scores[proposal] = 0.5 + sum(WEIGHTS[name] for name in proposal.state.groups)
    return len(scores)


def test_it_learns_which_groups_are_good():
    tpe = np.mean([needed(TPE(SPACE, seed)) for seed in range(8)])
    random = np.mean([needed(strategy_of("random", SPACE, seed=seed)) for seed in range(8)])
    assert tpe < 0.8 * random


def test_scores_of_another_study_are_not_mixed_in():
    first, second = TPE(SPACE, 0), TPE(SPACE, 0)
    states = list(SPACE.states())[:20]
    first.propose({p: 0.1 * k for k, p in enumerate(map(_proposal, states[:15]))}, ())
    scores = {p: 0.9 - 0.01 * k for k, p in enumerate(map(_proposal, states))}
    assert first.propose(scores, ()) == second.propose(scores, ())


def _proposal(state):
    from isotropy.search import ChildProposal

    return ChildProposal(state)


def test_optuna_says_nothing_and_one_try_is_enough_to_end(monkeypatch):
    said = []
    handler = logging.Handler()
    handler.emit = said.append
    optuna.logging.get_logger("optuna")  # its own handler, for standard error, is set up by now
    monkeypatch.setattr(logging.getLogger("optuna"), "handlers", [handler])
    before = optuna.logging.get_verbosity()  # what is documented may have been tried before
    optuna.logging.set_verbosity(optuna.logging.INFO)
    search, scores = TPE(SPACE, 0, tries=1), {}
    while (proposal := search.propose(scores, ())) is not None:
        assert proposal not in scores
        scores[proposal] = 0.5 + 0.01 * len(proposal.state.groups)
    assert len(scores) == 2 ** len(GROUPS)
    assert said == []
    optuna.create_study()
    optuna.logging.set_verbosity(before)
    assert len(said) == 1


def test_by_network_it_is_told_of_networks_only_and_goes_on_after_a_restart():
    class Noted(TPE):
        def propose(self, scores, taken):
            told.append(set(scores))
            return super().propose(scores, taken)

    told, scores = [], {}
    search = ByNetwork(Noted(SPACE, 2), SPACE.network)
    networks = {SPACE.network(state) for state in SPACE.states()}
    for k in range(len(networks)):
        proposal = search.propose(scores, ())
        if k % 5 == 0:
            again = ByNetwork(TPE(SPACE, 2), SPACE.network)
            assert again.propose(scores, ()) == proposal
        assert told[-1] == set(scores)
        scores[proposal] = 0.5 + 0.02 * (k % 4)
    assert {one.state for one in scores} == networks
    assert len(told) == len(networks)  # asked once for each: all other states count as seen


def test_no_tries_are_refused():
    with pytest.raises(ValueError, match="expected at least one try, got 0"):
        TPE(SPACE, 0, tries=0)
