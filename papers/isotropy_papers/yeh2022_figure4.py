"""Figure 4 of Yeh et al. 2022: learned sharing of Gaussian means against how many differ."""

from __future__ import annotations

from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._shared_means import EVIDENCE_NOTE, METHODS, NOTES, Case, case_cells
from isotropy_papers._sharing_cells import draw_error_and_distance

_DIMENSIONS = 5


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of five means, one to five of them different.

    Args:
        settings: ``seeds`` is the number of runs, 200 as published, quick and full alike;
            ``sizes`` gives other ranks.
        progress: Called before each part.

    Returns:
        MSE and partition distance of each method. Nothing was published as numbers.
    """
    ranks = settings.or_else(sizes=tuple(range(1, _DIMENSIONS + 1)))["sizes"]
    cases = {f"rank {rank}": Case(_DIMENSIONS, rank) for rank in ranks}
    cells, seconds = case_cells(settings, progress, cases, METHODS)
    return Result("yeh2022/figure4", cells, seconds, (*NOTES, EVIDENCE_NOTE))


def plot(result: Result, path: Path) -> Path:
    """Draw MSE and partition distance against the number of different means.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    return draw_error_and_distance(result, path, "MSE", "rank", "rank ")


EXPERIMENT = Experiment(
    "yeh2022/figure4", "Learned sharing of Gaussian means: how many differ", run, plot
)
