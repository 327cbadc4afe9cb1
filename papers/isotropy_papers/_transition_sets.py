"""Transitions of simulated robots, kept in files so that simulators are needed once only."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from isotropy.data import Transitions
from isotropy.rl import collect_transitions, make_environment
from isotropy.run import cache_folder
from isotropy_papers._experiment import Settings
from isotropy_papers._sac_curves import AgentPlan, learning_curves
from isotropy_papers._sac_figure import sac_task

_logger = logging.getLogger(__name__)
_FOLDER = "transitions"
_AGENT = 1  # changes with how agents are trained


def random_transitions(
    id: str, rows: int, seed: int, settings: Settings, **options: Any
) -> Transitions:
    """Transitions of an environment under random actions.

    Args:
        id: The environment, as ``make_environment`` knows it.
        rows: How many.
        seed: The seed of environment and actions.
        settings: ``data`` may name a folder that holds them already (``transition_set``).
        options: More of what the environment is made with.

    Raises:
        ImportError: If they are not in a file, and the simulator is missing.
    """
    made_with = [f"{option}={value}" for option, value in options.items()]
    name = "-".join([id, *made_with, "random", str(rows), str(seed)])
    return transition_set(
        name,
        lambda: collect_transitions(make_environment(id, **options), rows, seed=seed),
        settings,
    )


def agent_transitions(id: str, steps: int, seed: int, settings: Settings) -> Transitions:
    """The replay buffer of a soft actor-critic that was trained for so many steps.

    Args:
        id: The environment, as ``make_environment`` knows it.
        steps: How long to train, 10⁶ in the thesis.
        seed: The agent's.
        settings: ``data`` may name a folder that holds them already (``transition_set``).

    Raises:
        ImportError: If they are not in a file, and what they are made with is missing.
    """

    def made() -> Transitions:
        plan = AgentPlan(
            seeds=[seed],
            steps=steps,
            judge_every=steps,
            episodes=1,
            random_steps=min(10_000, steps // 10),
            device=settings.device,
        )
        curves = learning_curves(sac_task(id), ["SAC"], plan, keep=["SAC"])
        return curves.transitions["SAC"]

    return transition_set(f"{id}-sac{_AGENT}-{steps}-{seed}", made, settings)


def transition_set(name: str, make: Callable[[], Transitions], settings: Settings) -> Transitions:
    """Transitions by name: from a file where there is one, or else made, and kept in the cache.

    Args:
        name: The file is ``transitions/<name>.npz``, in ``settings.data`` or in the cache.
        make: Gives them where there is none.
        settings: Where to look first.

    Example:
        >>> import tempfile, torch
        >>> from pathlib import Path
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "transitions" / "still.npz"
        ...     path.parent.mkdir()
        ...     steps = Transitions(torch.ones(3, 2), torch.ones(3, 1), torch.ones(3, 2))
        ...     steps.save(path)
        ...     len(transition_set("still", lambda: steps, Settings(data=Path(folder))))
        3
    """
    cache = cache_folder()
    folders = [folder for folder in (settings.data, cache) if folder is not None]
    for folder in folders:
        path = folder / _FOLDER / f"{name}.npz"
        if path.is_file():
            return Transitions.load(path)
    _logger.info("making the transitions %s", name)
    made = make()
    if cache is not None:
        path = cache / _FOLDER / f"{name}.npz"
        path.parent.mkdir(parents=True, exist_ok=True)
        made.save(path)
    return made
