"""Trials of transition models: stretches of an agent's memory in, rollout errors out."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from isotropy.data import TransitionChunks, Transitions
from isotropy.rl import EnvironmentSymmetry, TransitionModel, environment_symmetry
from isotropy.run import generator, spawn
from isotropy_papers._experiment import Settings
from isotropy_papers._sac_curves import NetworkKind
from isotropy_papers._transition_sets import agent_transitions, random_transitions
from isotropy_papers.thesis_symmetries import thesis_symmetries
from isotropy_papers.transition_errors import (
    rollout_error,
    rollout_errors,
    transition_equivariance_error,
)
from isotropy_papers.transition_training import TransitionRecipe, fit_transition_model

# kind of network, and whether the symmetry is the simulator's own
MODELS: dict[str, tuple[NetworkKind, bool]] = {
    "MLP": ("mlp", False),
    "RPP": ("rpp", False),
    "RPP exact": ("rpp", True),
    "equivariant exact": ("equivariant", True),
}
HORIZONS = (10, 30, 100)
_LENGTH, _BATCH, _HELD_OUT = 10, 200, 0.1
_RANDOM_ROWS = 6000
# a fallen robot goes on falling about, so that there are 100 steps in a row
_WITHOUT_END = {
    "Hopper-v5": {"terminate_when_unhealthy": False},
    "Ant-v5": {"terminate_when_unhealthy": False},
}


@dataclass(frozen=True)
class RolloutPlan:
    """How trials are run.

    Args:
        seeds: One model for each, with stretches of its own.
        agent_steps: How long the agent whose memory is used was trained; 0 for random actions.
        chunks: Stretches of 10 transitions to train on.
        epochs: Passes through them.
        width: Of both hidden layers.
        trajectories: Of 100 steps, to test on.
        learning_rate: Adam's at the start; the thesis does not give it.
    """

    seeds: tuple[int, ...]
    agent_steps: int
    chunks: int
    epochs: int
    width: int
    trajectories: int
    learning_rate: float

    @property
    def recipe(self) -> TransitionRecipe:
        """ℓ1 of rollouts in the units of the states (thesis A.2.3.4)."""
        steps = self.epochs * max(1, self.chunks // _BATCH)
        return TransitionRecipe(
            steps=steps, batch=_BATCH, learning_rate=self.learning_rate, loss="l1", raw=True
        )


def trial_symmetry(id: str, exact: bool) -> EnvironmentSymmetry:
    """The published symmetry of an environment, or the one that its simulator has.

    Example:
        >>> trial_symmetry("Ant-v5", exact=False).name, trial_symmetry("Ant-v5", exact=True).name
        ('Z(4)', 'D(4)')
    """
    published = {} if exact else thesis_symmetries(id)
    return published["thesis"] if published else environment_symmetry(id)


def rollout_trials(id: str, model: str, plan: RolloutPlan, settings: Settings) -> list[list[float]]:
    """Train one model for each seed, and measure rollouts.

    Args:
        id: The environment.
        model: One of ``MODELS``.
        plan: How.
        settings: Where data are and where to train.

    Returns:
        For each seed the errors over 10, 30 and 100 steps and the equivariance error.
    """
    kind, exact = MODELS[model]
    symmetry = trial_symmetry(id, exact)
    data = (
        agent_transitions(id, plan.agent_steps, 0, settings)
        if plan.agent_steps
        else random_transitions(id, _RANDOM_ROWS, 0, settings, **_WITHOUT_END.get(id, {}))
    )
    train, held_out = split_episodes(data)
    draws = [spawn(generator(seed), 2) for seed in plan.seeds]
    chunks = [train.chunks(plan.chunks, length=_LENGTH, generator=g) for g, _ in draws]
    tests = [held_out.chunks(plan.trajectories, length=HORIZONS[-1], generator=g) for _, g in draws]
    models = [
        TransitionModel(
            symmetry, kind, widths=(plan.width, plan.width), seed=seed, device=settings.device
        )
        for seed in plan.seeds
    ]
    fit_transition_model(models, chunks, plan.recipe, seed=settings.seed)
    return [_measured(one, test) for one, test in zip(models, tests, strict=True)]


def split_episodes(data: Transitions) -> tuple[Transitions, Transitions]:
    """Nine tenths of the data to train on, and one to test on, in long stretches.

    What an agent does changes as it learns, so that both parts have something of all times: of
    every hundredth of the data, but of 2000 rows at least, the last tenth is held out.

    Args:
        data: Transitions in time order.

    Example:
        >>> rows = torch.arange(4000.0).unsqueeze(1)
        >>> steps = Transitions(rows, rows, rows + 1, episodes=torch.zeros(4000))
        >>> [len(part) for part in split_episodes(steps)]
        [3600, 400]
    """
    rows = len(data)
    period = max(2000, -(-rows // 100))
    held_out = torch.arange(rows) % period >= (1 - _HELD_OUT) * period
    given = data.episodes if data.episodes is not None else torch.arange(rows)
    # a stretch ends where its episode does, and where it leaves its part
    changes = (given[1:] != given[:-1]) | (held_out[1:] != held_out[:-1])
    episodes = torch.cat([torch.zeros(1, dtype=torch.int64), changes.long().cumsum(0)])
    parts = []
    for chosen in (~held_out, held_out):
        part = data.rows(chosen)
        parts.append(
            Transitions(
                part.observations,
                part.actions,
                part.next_observations,
                part.rewards,
                episodes[chosen],
            )
        )
    return parts[0], parts[1]


def _measured(model: TransitionModel, test: TransitionChunks) -> list[float]:
    errors = rollout_errors(model, test)
    return [
        *(rollout_error(errors, steps) for steps in HORIZONS),
        transition_equivariance_error(model, test),
    ]
