"""Figure 2 of Yeh et al. 2022: learned sharing of Gaussian means against their number."""

from __future__ import annotations

from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._shared_means import EVIDENCE_NOTE, METHODS, NOTES, Case, case_cells
from isotropy_papers._sharing_cells import draw_error_and_distance

_DIMENSIONS = (2, 3, 4, 5, 6)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of 2 to 6 means that are all equal.

    Args:
        settings: ``seeds`` is the number of runs, 200 as published, quick and full alike;
            ``sizes`` gives other numbers of means.
        progress: Called before each part.

    Returns:
        MSE and partition distance of each method; published for the relaxation where Table 1
        has the number.
    """
    sizes = settings.or_else(sizes=_DIMENSIONS)["sizes"]
    cases = {f"K={dimensions}": Case(dimensions) for dimensions in sizes}
    cells, seconds = case_cells(settings, progress, cases, METHODS)
    notes = (*NOTES, EVIDENCE_NOTE, "theirs: Table 1, the figure has no numbers")
    return Result("yeh2022/figure2", cells, seconds, notes)


def plot(result: Result, path: Path) -> Path:
    """Draw MSE and partition distance against the number of means.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    return draw_error_and_distance(result, path, "MSE", "dimensions", "K=")


EXPERIMENT = Experiment(
    "yeh2022/figure2", "Learned sharing of Gaussian means: number of dimensions", run, plot
)
