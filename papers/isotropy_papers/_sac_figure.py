"""Curves of soft actor-critic by method and environment, as cells of a figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.report import save_figure
from isotropy.rl import environment_symmetry
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._sac_curves import AgentPlan, SacTask, learning_curves
from isotropy_papers._statistics import mean_interval

LOCOMOTION = ("Walker2d-v5", "Hopper-v5", "HalfCheetah-v5", "Swimmer-v5", "Ant-v5", "Humanoid-v5")
CLASSIC = "Pendulum-v1"
# thesis Table A.9: target critics of networks with a prior follow more slowly there
_SLOWER = ("Walker2d-v5", "Swimmer-v5")
LATE, BEST = "last quarter", "best"
_JUDGEMENTS = {True: 20, False: 10}


def sac_task(id: str) -> SacTask:
    """An environment with its symmetry.

    Example:
        >>> sac_task("Ant-v5").symmetry.name
        'D(4)'
    """
    speeds = (0.005, 0.004 if id in _SLOWER else 0.005)
    return SacTask(id, environment_symmetry(id), speeds)


def sac_figure(
    id: str, methods: Sequence[str], settings: Settings, progress: ProgressCallback
) -> Result:
    """Train agents of all methods in all environments, and show their returns.

    Args:
        id: The figure.
        methods: Names of methods.
        settings: ``models`` chooses environments, ``sizes`` is one number, the steps of every
            agent; ``seeds`` the agents of each method, ``test_rows`` the episodes of a judgement.
        progress: Called at each judgement.

    Raises:
        ValueError: If more than one number of steps is asked for.
    """
    if settings.sizes is not None and len(settings.sizes) != 1:
        raise ValueError(f"expected one number of steps, got {list(settings.sizes)}")
    environments = settings.chosen(list(LOCOMOTION) if settings.full else [CLASSIC])
    chosen = settings.or_else(
        seeds=4 if settings.full else 3,
        sizes=(1_000_000,) if settings.full else (1000,),
        channels=256 if settings.full else 64,
        test_rows=10 if settings.full else 3,
    )
    steps = chosen["sizes"][0]
    depends: dict[str, Any] = {
        **chosen,
        "seed": settings.seed,
        "methods": list(methods),
        "full": settings.full,
    }
    parts = Finished(id, depends, settings, progress)

    def compute(names: list[str]) -> list[dict[str, Any]]:
        return [_trained(name, methods, steps, chosen, settings, progress) for name in names]

    found = parts.get(environments, compute)
    cells = []
    for name, curves in found.items():
        for method, returns in curves["returns"].items():
            cells += _cells(f"{name}: {method}", curves["steps"], np.array(returns))
    notes = (
        f"mean return of {chosen['test_rows']} episodes with the mean action; over "
        f"{chosen['seeds']} seeds the mean, and one standard deviation to either side",
        f"{LATE!r}: of the last quarter of judgements; {BEST!r}: of each agent the best of all "
        "judgements, which is what the thesis draws; it hides what is lost again",
        "the thesis draws curves of 1,000,000 steps, for environments of version 2, and prints no "
        "numbers" + ("" if settings.full else f"; this is {CLASSIC}, which a CPU can finish"),
        "RPP, equivariant: Adam with β₁ = .5, target critics as in Table A.9",
        "symmetries: D(4) for Ant (published Z4), the mirror for Swimmer (Z2 x Z2) and Humanoid "
        "(SO(2)), the published ones for the others",
        "networks have SiLU and no gradient clipping, the target entropy is −1 for each entry of "
        "an action; the published code has ReLU in free networks, clips at .5 and aims at −.5",
        "all methods share one stream of random numbers: one curve changes with those beside it",
    )
    return Result(id, cells, parts.close(), notes)


def _cells(row: str, steps: list[int], returns: NDArray[np.float64]) -> list[Cell]:
    """The curve of one method, and two summaries of it."""
    late = returns[-max(1, len(returns) // 4) :].mean(0)
    columns = [*(f"{step} steps" for step in steps), LATE, BEST]
    found = []
    for column, values in zip(columns, [*returns, late, returns.max(0)], strict=True):
        mean, interval = mean_interval(values.tolist())
        found.append(Cell(row, column, mean, None, interval))
    return found


def _trained(
    name: str,
    methods: Sequence[str],
    steps: int,
    chosen: dict[str, Any],
    settings: Settings,
    progress: ProgressCallback,
) -> dict[str, Any]:
    plan = AgentPlan(
        seeds=range(settings.seed, settings.seed + chosen["seeds"]),
        steps=steps,
        judge_every=max(1, steps // _JUDGEMENTS[settings.full]),
        episodes=chosen["test_rows"],
        widths=(chosen["channels"], chosen["channels"]),
        random_steps=min(10_000, steps // 10),
        learning_rate=3e-4 if settings.full else 1e-3,
        processes=settings.full,
        device=settings.device,
    )
    curves = learning_curves(sac_task(name), methods, plan, progress=progress)
    returns = {method: values.tolist() for method, values in curves.returns.items()}
    return {"steps": curves.steps, "returns": returns}


def draw_curves(result: Result, path: Path) -> Path:
    """Draw returns along training, one panel for each environment.

    Args:
        result: What ``sac_figure`` gave.
        path: The PNG file.
    """
    from matplotlib.figure import Figure

    panels: dict[str, dict[str, list[Cell]]] = {}
    for cell in (cell for cell in result.cells if cell.column not in (LATE, BEST)):
        environment, method = cell.row.split(": ")
        panels.setdefault(environment, {}).setdefault(method, []).append(cell)
    figure = Figure(figsize=(4.2 * len(panels), 3.4), layout="constrained")
    for place, (environment, methods) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), place + 1)
        for method, cells in methods.items():
            x = [int(cell.column.split()[0]) for cell in cells]
            (line,) = axes.plot(x, [cell.ours for cell in cells], label=method)
            low, high = zip(*(cell.interval or (cell.ours,) * 2 for cell in cells), strict=True)
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
        axes.set(title=environment, xlabel="steps", ylabel="return")
    figure.axes[0].legend(frameon=False, fontsize="small")
    return save_figure(figure, path)
