"""Table 3.3 of the thesis: rollouts of transition models learnt from an agent's memory."""

from __future__ import annotations

from typing import Any

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._statistics import mean_interval
from isotropy_papers._transition_trials import MODELS, RolloutPlan, rollout_trials

_PUBLISHED = {
    "Swimmer-v5": {"MLP": (0.51, 1.6, 3.9, 46), "RPP": (0.40, 1.26, 2.75, 19)},
    "Hopper-v5": {"MLP": (1.1, 3.8, 9.8, 98), "RPP": (0.9, 3.1, 7.0, 32)},
    "Ant-v5": {"MLP": (4.2, 11.3, 16.0, 36), "RPP": (5.2, 13.9, 20.0, 31)},
}
# Hopper's mirror, the published one, does not hold in the simulator
_EXACT = ("Swimmer-v5", "Ant-v5")
ROWS = ("10 steps", "30 steps", "100 steps", "equivariance error")


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train transition models on stretches of 10 steps, and follow held-out ones for 100.

    Args:
        settings: ``sizes`` is one number, the steps an agent is trained for before its memory is
            used, 10⁶ as published; ``channels`` the width of the two hidden layers,
            ``test_rows`` the number of held-out trajectories. Transitions that were saved
            earlier are found in ``data`` or the cache (``transitions/<name>.npz``).
        progress: Called before each part.

    Returns:
        Relative errors in percent, and how far the models are from commuting with the group.

    Raises:
        ValueError: If more than one number of agent steps is asked for.
    """
    if settings.sizes is not None and len(settings.sizes) != 1:
        raise ValueError(f"expected one number of agent steps, got {list(settings.sizes)}")
    chosen = settings.or_else(
        seeds=3 if settings.full else 1,
        sizes=(1_000_000,) if settings.full else (0,),
        epochs=500 if settings.full else 12,
        channels=256 if settings.full else 64,
        test_rows=50,
    )
    plan = RolloutPlan(
        seeds=tuple(range(settings.seed, settings.seed + chosen["seeds"])),
        agent_steps=chosen["sizes"][0],
        chunks=5000 if settings.full else 2000,
        epochs=chosen["epochs"],
        width=chosen["channels"],
        trajectories=chosen["test_rows"],
        learning_rate=1e-3 if settings.full else 3e-3,
    )
    depends: dict[str, Any] = {**chosen, "seed": settings.seed, "full": settings.full}
    parts = Finished("finzi2023/table3.3", depends, settings, progress)
    models = settings.chosen(list(MODELS))
    wanted = {
        f"{id}; {model}": (id, model)
        for id in _PUBLISHED
        for model in models
        if id in _EXACT or not MODELS[model][1]
    }

    def compute(asked: list[str]) -> list[list[list[float]]]:
        return [rollout_trials(*wanted[name], plan, settings) for name in asked]

    found = parts.get(list(wanted), compute)
    cells = []
    for name, (id, model) in wanted.items():
        theirs = _PUBLISHED[id].get(model, (None,) * len(ROWS))
        for row, values, published in zip(
            ROWS, zip(*found[name], strict=True), theirs, strict=True
        ):
            mean, interval = mean_interval([100 * value for value in values])
            cells.append(Cell(row, f"{id} {model}", mean, published, interval))
    source = (
        f"replay buffers of agents trained for {plan.agent_steps} steps"
        if plan.agent_steps
        else "random actions; published are the replay buffers of trained agents"
    )
    notes = (
        "percent; geometric mean over trajectories and steps, then mean over seeds, interval one "
        "standard deviation",
        f"data: {plan.chunks} stretches of 10 transitions from {source}",
        "RPP: group and representation of the published code, and the equivariance error of MLPs "
        "is with respect to it; exact: the mirror of Swimmer, all of D(4) of Ant; Hopper has none",
        "environments are of version 5, published ones of version 2",
    )
    return Result("finzi2023/table3.3", cells, parts.close(), notes)


EXPERIMENT = Experiment(
    "finzi2023/table3.3",
    "Rollouts of transition models from an agent's replay buffer",
    run,
)
