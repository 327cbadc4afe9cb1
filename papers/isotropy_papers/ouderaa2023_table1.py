"""Table 1 of van der Ouderaa et al. 2023: symmetry that the task has, or has not."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._layerwise_runs import (
    QUADRANTS,
    Job,
    Net,
    held_back_plan,
    mean_cell,
    quick_plan,
    studied,
)

_NETS = {
    "MAP FC": Net(("fc",)),
    "MAP CONV": Net(("conv",)),
    "MAP F-FC+CONV": Net(("factored", "conv")),
    "evidence FC": Net(("fc",)),
    "evidence CONV": Net(("conv",)),
    "evidence F-FC+CONV": Net(("factored", "conv")),
}
_QUICK = ("MAP CONV", "evidence CONV", "evidence F-FC+CONV")
_TASKS = ("digit", "digit, quadrant")
_PUBLISHED = {
    "MAP FC": (95.73, 95.10),
    "MAP CONV": (99.38, 24.68),
    "evidence FC": (97.04, 95.46),
    "evidence CONV": (99.23, 24.50),
    "evidence F-FC+CONV": (98.86, 99.00),
}
_MILLIONS = {"FC": 112.7, "CONV": 0.4, "F-FC+CONV": 1.8}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Classify digits in a quadrant, and digits together with their quadrant.

    Args:
        settings: ``models`` are columns; a quick run leaves out FC and takes α = 2 (``channels``).
            Full: 60 epochs (published: 1000), or ``epochs``, of all training images.
        progress: Called for each epoch.

    Returns:
        Test accuracy in percent, and the number of parameters at α = 10.
    """
    columns = settings.chosen(list(_NETS))
    if settings.models is None and not settings.full:
        columns = list(_QUICK)
    alpha = settings.or_else(channels=10 if settings.full else 2)["channels"]
    jobs = {
        f"{column}, {task}": Job(
            task, Net(_NETS[column].paths, alpha), column.startswith("evidence")
        )
        for column in columns
        for task in _TASKS
    }
    study = studied(
        "ouderaa2023/table1",
        jobs,
        settings,
        progress,
        quick=quick_plan(12),
        full=held_back_plan(60),
        rows=2000,
    )
    cells = []
    for number, task in enumerate(_TASKS):
        for column in columns:
            theirs = _PUBLISHED[column][number] if column in _PUBLISHED else None
            values = [row.accuracy for row in study.rows[f"{column}, {task}"]]
            cells += mean_cell(task, column, values, theirs)
    for column in columns:
        ours = _NETS[column].parameters(*QUADRANTS) / 1e6
        kind = column.split()[-1]
        cells.append(Cell("million parameters", column, ours, _MILLIONS[kind]))
    notes = (
        f"test accuracy in percent, α = {alpha}; parameters of the second task at α = 10",
        *study.notes,
    )
    return Result("ouderaa2023/table1", cells, study.seconds, notes)


EXPERIMENT = Experiment(
    "ouderaa2023/table1", "Digits, and digits with their quadrant, by layer-wise symmetry", run
)
