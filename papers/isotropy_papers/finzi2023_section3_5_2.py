"""Section 3.5.2 of the thesis: how equivariant a deep ensemble is, through training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from isotropy.groups import O
from isotropy.reps import Symmetry
from isotropy.run import ProgressCallback, generator
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._residual_trials import ResidualTrials, inertia_task
from isotropy_papers.finzi2023_figure3_2 import plan_of

LEVELS = ("exact", "approximate")
# the same prior for both: what differs in the end is what the data say
_MODEL = "RPP 0.1"
_MARKS = 10
_ROWS = 200


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train two deep ensembles, and measure their members' equivariance on the way.

    Args:
        settings: Full: ten members, 384 channels, 500 epochs. Quick: two members, 96 channels,
            20 epochs.
        progress: Called before each ensemble.

    Returns:
        The median over members of the equivariance error of Eq. 3.3, least and most as the
        interval; nothing was published as numbers.
    """
    plan = plan_of("inertia", settings)
    parts = Finished(
        "finzi2023/section3.5.2", {"full": settings.full, "plan": plan.identity}, settings, progress
    )

    def compute(levels: list[str]) -> list[dict[str, list[float]]]:
        return [
            _through_training(ResidualTrials("inertia", level, plan, one_data_set=True))
            for level in levels
        ]

    found = parts.get(settings.chosen(list(LEVELS)), compute)
    cells = [
        Cell(level, column, float(np.median(v)), None, (min(v), max(v)))
        for level, by_column in found.items()
        for column, v in by_column.items()
    ]
    notes = (
        f"{len(plan.seeds)} members, trained on the same data; mean over test rows and random "
        "elements of O(3) of ‖a − b‖/(‖a‖ + ‖b‖), a = ρ(g) f(x), b = f(ρ(g) x): median over "
        "members, least and most",
        f"the same prior in both ensembles: λ = {_MODEL.removeprefix('RPP ')}",
        "target: the same of the function that is to be learned",
    )
    return Result("finzi2023/section3.5.2", cells, parts.close(), notes)


def _through_training(trials: ResidualTrials) -> dict[str, list[float]]:
    training = trials.training(_MODEL)
    epochs = trials.plan.recipe.epochs
    looks = [round(epochs * k / _MARKS) for k in range(_MARKS + 1)]
    marks = {training.steps // epochs * epoch: epoch for epoch in looks}
    x, y = (values[:, :_ROWS] for values in trials.rows["test"])
    copies = len(trials.plan.seeds)
    elements = O(3).sample(x.shape[1], generator=generator(0))
    symmetry = Symmetry(O(3), *trials.spaces)
    moved_x = symmetry.apply(elements, x.double().cpu()).to(x)

    def error(outputs: Tensor, moved: Tensor) -> list[float]:
        turned = symmetry.apply_out(elements, outputs.double().cpu())
        moved = moved.double().cpu()
        sizes = turned.norm(dim=-1) + moved.norm(dim=-1)
        each: Tensor = ((turned - moved).norm(dim=-1) / sizes).mean(1)
        found: list[float] = each.tolist()
        return found

    found = {}
    for done in range(training.steps + 1):
        if done in marks:
            predict = training.ensemble.predict
            found[f"epoch {marks[done]}"] = error(predict(x), predict(moved_x))
        if done < training.steps:
            training.advance()
    # the scalings are those of the data: the target is known in their units
    true = [_target(trials, k, moved_x[k]) for k in range(copies)]
    found["target"] = error(y, torch.stack(true))
    return found


def _target(trials: ResidualTrials, k: int, x: Tensor) -> Tensor:
    """What the task asks for at scaled inputs, in scaled units."""
    scaling = trials.scalings[k]
    x = x.double().cpu() * scaling.input_scale + scaling.input_offset
    y: Tensor = scaling.outputs(inertia_task(trials.level).target(x))
    return y


def plot(result: Result, path: Path) -> Path:
    """Draw the equivariance error through training.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._picture import draw_curves

    curves: dict[str, list[tuple[float, Cell]]] = {}
    for cell in result.cells:
        if cell.column.startswith("epoch "):
            place = float(cell.column.removeprefix("epoch "))
            curves.setdefault(cell.row, []).append((place, cell))
    return draw_curves({"inertia": curves}, path, "epoch", "equivariance error", logarithmic=False)


EXPERIMENT = Experiment(
    "finzi2023/section3.5.2",
    "How equivariant the members of a deep ensemble become, where the symmetry is exact or broken",
    run,
    plot,
)
