"""Figure 5 of Yeh et al. 2022: learned sharing of 10 to 100 Gaussian means."""

from __future__ import annotations

from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._shared_means import (
    BRUTE_FORCE,
    EVIDENCE_NOTE,
    METHODS,
    NOTES,
    RUNS,
    Case,
    case_cells,
)
from isotropy_papers._sharing_cells import draw_error_and_distance

_DIMENSIONS = tuple(range(10, 110, 10))
_QUICK = (10, 30, 50, 100)
_QUICK_RUNS = 10


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of many means that are all equal.

    Args:
        settings: Quick makes 10 runs at four numbers of means, full 200 at ten; ``sizes`` gives
            other numbers of means.
        progress: Called before each part.

    Returns:
        MSE and partition distance of each method. Nothing was published as numbers.
    """
    sizes = settings.or_else(sizes=_DIMENSIONS if settings.full else _QUICK)["sizes"]
    cases = {f"K={dimensions}": Case(dimensions) for dimensions in sizes}
    methods = [method for method in METHODS if method != BRUTE_FORCE]
    runs = RUNS if settings.full else _QUICK_RUNS
    cells, seconds = case_cells(settings, progress, cases, methods, runs)
    made = settings.or_else(seeds=runs)["seeds"]
    notes = (*NOTES, EVIDENCE_NOTE, f"{made} runs; the paper makes {RUNS}")
    return Result("yeh2022/figure5", cells, seconds, notes)


def plot(result: Result, path: Path) -> Path:
    """Draw MSE and partition distance against the number of means.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    return draw_error_and_distance(result, path, "MSE", "dimensions", "K=")


EXPERIMENT = Experiment(
    "yeh2022/figure5", "Learned sharing of Gaussian means: many dimensions", run, plot
)
