"""Symmetries of logged transitions, by themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from isotropy._run import Patience, ProgressCallback, one_thread
from isotropy.data import Transitions
from isotropy.discovery._discover_options import Criteria
from isotropy.discovery._stages import searched
from isotropy.discovery.proposing._transition_proposer import TransitionProposer
from isotropy.discovery.reading._read_problem import Problem
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.telling._findings import Findings


def discover_transitions(
    transitions: Transitions,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    margin: float = 0.05,
    level: float = 0.05,
    fit_models: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Findings:
    """Find signed permutations of observations and actions that transitions commute with.

    s′ = f(s, a)   ⟹   P_s s′ = f(P_s s, P_a a)

    Rows are split in three, episodes kept whole. On the first part elements are proposed that keep
    the coefficients of a quadratic fit of s′ − s, and hold for a network. To the second a predictor
    free of symmetry is fitted. On the third the group is tested,
    with one generator, with two and so on: averaging over it must cost less
    than ``margin`` of what can be learned, and less than half of that of what is at stake for each
    element and each column (``group_test``), where the log has rows on both sides.

    Raises:
        ValueError: If rows are too few to split, observations never change, or there are not as
            many names as entries.

    Example:
        >>> import torch
        >>> rng = torch.Generator().manual_seed(0)
        >>> s, a = torch.randn(600, 2, generator=rng), torch.randn(600, 1, generator=rng)
        >>> angle, rate = s.T
        >>> ahead = s + 0.1 * torch.stack([rate, a[:, 0] - angle**3 + angle * rate**2], 1)
        >>> found = discover_transitions(Transitions(s, a, ahead), fit_models=False)
        >>> found[0].name, found[0].action
        ('Z(2), signs of observations and actions', '−o0, −o1, −a0')
    """
    started = time.perf_counter()
    data = TransitionData.of(transitions, observation_names, action_names)
    problem = Problem.of(data, "transitions", seed=seed, methods=("transitions",))
    criteria = Criteria(margin, 0.0, level, fit_models, seed)
    with one_thread():
        found = searched(problem, [TransitionProposer()], criteria, Patience(), progress)
    return replace(found, seconds=time.perf_counter() - started)
