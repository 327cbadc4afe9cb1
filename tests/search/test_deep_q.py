from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
import pytest
import torch

from isotropy.search import (
    ByNetwork,
    ChildProposal,
    DeepQ,
    DeepQOptions,
    SearchSpace,
    State,
    strategy_of,
)
from isotropy.search._deep_q import CODE_EPSILON, NETWORK_EPSILON, PAPER_EPSILON, QNetwork

GROUPS = (
    *("rotation", "horizontal flip", "vertical flip", "horizontal scramble", "vertical scramble"),
    *("left vertical scramble", "top horizontal scramble"),
)
SPACE = SearchSpace((1, 8, 8), GROUPS, ((4,),))
WEIGHTS = dict(zip(GROUPS, (0.01, -0.016, 0.02, -0.008, 0.014, -0.012, 0.006), strict=True))


def accuracy(state):
    return 0.5 + sum(WEIGHTS[name] for name in state.groups)


def searched(strategy, children):
    scores = {}
    while len(scores) < children and (proposal := strategy.propose(scores, ())) is not None:
        assert proposal not in scores
        scores[proposal] = accuracy(proposal.state)
    return scores


def small(space, seed, epsilon=CODE_EPSILON, **options):
    sizes = DeepQOptions(hidden=(32, 32), batch=32, **options)
    return DeepQ(space, seed, epsilon=epsilon, options=sizes)


@pytest.mark.parametrize("hidden", [((4,),), ((4,), (6,), (10,))])
def test_replay_rebuilt_from_scores_is_that_of_an_agent_never_stopped(hidden):
    space = SearchSpace((1, 8, 8), GROUPS[:4], hidden)
    agent, scores = small(space, 0), {}
    for k in range(14):
        proposal = agent.propose(scores, ())
        scores[proposal] = 0.5 + 0.01 * k
    agent.propose(scores, ())
    restarted = small(space, 1)
    restarted.propose(scores, ())
    states = [one.state for one in scores]
    expected = {
        (a, action, b)
        for a in states
        for action, b in enumerate(space.neighbours(a))
        if b in states
    }
    assert agent.transitions() == restarted.transitions() == expected


def test_by_network_memory_and_schedule_follow_from_scores_alone():
    agent = small(SPACE, 0, epsilon=((0, 1.0), (9, 0.4)))
    search, scores = ByNetwork(agent, SPACE.network), {}
    for k in range(12):
        scores[search.propose(scores, ())] = 0.5 + 0.01 * (k % 5)
    search.propose(scores, ())
    restarted = small(SPACE, 0)
    ByNetwork(restarted, SPACE.network).propose(scores, ())
    known = [state for state in SPACE.states() if ChildProposal(SPACE.network(state)) in scores]
    assert len(known) > len(scores) == len({SPACE.network(state) for state in known})
    expected = {
        (a, k, b) for a in known for k, b in enumerate(SPACE.neighbours(a)) if b in set(known)
    }
    assert agent.transitions() == restarted.transitions() == expected
    assert agent._memory._moves == restarted._memory._moves  # batches are drawn from this order
    assert agent._memory._rewards == restarted._memory._rewards
    assert agent._models == restarted._models == 12


def test_a_schedule_counts_networks_and_not_their_states():
    shares = []

    class Noted(DeepQ):
        def share_of_random_actions(self, models):
            shares.append(models)
            return super().share_of_random_actions(models)

    search, scores = (
        ByNetwork(Noted(SPACE, 0, options=DeepQOptions(hidden=(8,))), SPACE.network),
        {},
    )
    for _ in range(15):
        shares.clear()
        proposal = search.propose(scores, ())
        assert set(shares) <= {len(scores)}
        scores[proposal] = accuracy(proposal.state)
    assert set(shares) == {14}


def test_it_finds_the_best_state_where_chance_does_not():
    best = max(map(accuracy, SPACE.states()))
    quick = {"epsilon": ((0, 1.0), (20, 0.2)), "updates": 20, "scale": 1.0, "rate": 1e-2}
    seeds = range(8)
    learned = [list(searched(small(SPACE, seed, **quick), 50).values()) for seed in seeds]
    chance = [
        list(searched(strategy_of("random", SPACE, seed=seed), 50).values()) for seed in seeds
    ]
    # By chance 50 of 128 states hold the best one in 39 % of searches.
    assert sum(max(one) > best - 1e-9 for one in learned) >= 7
    assert np.mean([one[20:] for one in learned]) > np.mean([one[20:] for one in chance]) + 0.008


def test_it_starts_without_groups_and_ends_when_all_states_are_known():
    scores = searched(small(SPACE, 2, epsilon=((0, 0.0),), patience=5), 1000)
    assert next(iter(scores)) == ChildProposal(State())
    assert len(scores) == 2 ** len(GROUPS)


def test_consecutive_proposals_of_a_young_agent_are_one_action_apart():
    states = [one.state for one in searched(small(SPACE, 4), 6)]
    apart = [len(set(a.groups) ^ set(b.groups)) for a, b in pairwise(states)]
    # A walk goes on from what it proposed; longer steps lead over states known already.
    assert apart.count(1) >= 4


@pytest.mark.parametrize("lost", [0.9, 0.0])
def test_the_published_reward_is_survived(lost):
    agent = DeepQ(
        SPACE,
        0,
        reward=lambda points: points * np.exp(abs(points)),
        options=DeepQOptions(hidden=(16,), batch=8),
    )
    scores = {}
    for _ in range(30):
        proposal = agent.propose(scores, ())
        scores[proposal] = 1.0 if proposal.state == State() else 1 - lost
    assert len(scores) == 30
    assert torch.isfinite(agent._net.values(torch.zeros(1, len(GROUPS)))).all()


def test_published_agent_has_the_published_sizes():
    space = SearchSpace((1, 28, 28))
    agent = DeepQ.published(space, seed=0)
    shapes = [tuple(p.shape) for p in agent._net._net.parameters() if p.ndim == 2]
    assert shapes == [(400, 12), (400, 400), (400, 400), (12, 400)]


def test_schedules_are_those_of_the_code_and_of_the_paper():
    code, paper = (DeepQ(SPACE, 0, epsilon=one) for one in (CODE_EPSILON, PAPER_EPSILON))
    models = (0, 199, 200, 799, 849, 850, 900, 949, 950, 999, 1000, 1200)
    assert [code.share_of_random_actions(n) for n in models] == [
        *(1.0, 1.0, 0.9, 0.4, 0.3, 0.3, 0.2, 0.2, 0.1, 0.1, 0.05, 0.01)
    ]
    assert [paper.share_of_random_actions(n) for n in models] == [
        *(1.0, 1.0, 0.9, 0.4, 0.3, 0.2, 0.1, 0.1, 0.05, 0.05, 0.01, 0.01)
    ]


def test_the_schedule_of_networks_falls_before_all_148_are_trained():
    agent = DeepQ(SPACE, 0, epsilon=NETWORK_EPSILON)
    found = [agent.share_of_random_actions(n) for n in (0, 19, 20, 50, 95, 120)]
    assert found == [1.0, 1.0, 0.9, 0.6, 0.1, 0.01]


def test_published_search_is_the_one_that_results_were_made_with():
    states = [one.key for one in searched(DeepQ.published(SPACE, seed=3), 60)]
    digest = hashlib.sha256("|".join(states).encode()).hexdigest()
    assert digest[:12] == "9b13aa40dad3"


def test_q_values_reach_the_fixed_point_of_a_chain():
    # Two states, action 0 stays and action 1 goes to the other; only being in state 1 pays.
    net = QNetwork(2, 2, (32,), 0.5, 1e-2, torch.Generator().manual_seed(0))
    bits = torch.eye(2)
    states = torch.tensor([0, 0, 1, 1])
    actions = torch.tensor([0, 1, 0, 1])
    following = torch.tensor([0, 1, 1, 0])
    for _ in range(600):
        net.learn(bits[states], actions, following.float(), bits[following])
        net.follow()
    # Q(1, stay) = 1 / (1 - γ) = 2; Q(0, go) = 2; Q(0, stay) = Q(1, go) = γ 2 = 1.
    torch.testing.assert_close(
        net.values(bits), torch.tensor([[1.0, 2.0], [2.0, 1.0]]), atol=0.05, rtol=0
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeepQOptions(batch=0), "expected batch of at least 1, got 0"),
        (
            lambda: DeepQ(SPACE, 0, epsilon=((5, 1.0),)),
            "expected growing numbers of models from 0 on",
        ),
        (
            lambda: DeepQ(SPACE, 0, epsilon=((0, 1.5),)),
            "expected shares of random actions from 0 to 1",
        ),
    ],
)
def test_numbers_out_of_range_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_keywords_that_became_options_work_and_warn():
    with pytest.warns(DeprecationWarning, match=r"DeepQ\(batch=…\) is now DeepQ\(options="):
        old = DeepQ(SPACE, 3, batch=32)  # type: ignore[call-arg]
    new = DeepQ(SPACE, 3, options=DeepQOptions(batch=32))
    assert list(searched(old, 40)) == list(searched(new, 40))
