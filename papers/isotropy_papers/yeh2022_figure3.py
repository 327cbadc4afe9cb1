"""Figure 3 of Yeh et al. 2022: learned sharing against the share of training rows, rank 1."""

from __future__ import annotations

from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._shared_means import EVIDENCE_NOTE, METHODS, NOTES, Case, case_cells
from isotropy_papers._sharing_cells import draw_error_and_distance

DIMENSIONS = 5
_PERCENT = tuple(range(10, 100, 10))


def run_splits(
    id: str,
    rank: int,
    settings: Settings,
    progress: ProgressCallback,
    percent: tuple[int, ...] = _PERCENT,
) -> Result:
    """Learn the sharing of five means from every split of 100 rows.

    Args:
        id: The experiment.
        rank: How many of the means differ.
        settings: ``seeds`` is the number of runs, 200 as published, quick and full alike;
            ``sizes`` gives other numbers of training rows, out of 100.
        progress: Called before each part.
        percent: Training rows where the settings do not say.

    Returns:
        MSE and partition distance of each method. Nothing was published as numbers.
    """
    sizes = settings.or_else(sizes=percent)["sizes"]
    cases = {f"{train} % training": Case(DIMENSIONS, rank, train) for train in sizes}
    cells, seconds = case_cells(settings, progress, cases, METHODS)
    notes = (
        *NOTES,
        EVIDENCE_NOTE,
        f"K = {DIMENSIONS}, which the paper does not state; No sharing, Oracle and evidence use "
        "all rows and have no split",
    )
    return Result(id, cells, seconds, notes)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of five equal means from every split.

    Args:
        settings: As for ``run_splits``.
        progress: Called before each part.
    """
    return run_splits("yeh2022/figure3", 1, settings, progress)


def plot(result: Result, path: Path) -> Path:
    """Draw MSE and partition distance against the share of training rows.

    Args:
        result: What ``run_splits`` gave.
        path: The PNG file.
    """
    return draw_error_and_distance(result, path, "MSE", "% of training rows", "")


EXPERIMENT = Experiment(
    "yeh2022/figure3", "Learned sharing of Gaussian means: the split, rank 1", run, plot
)
