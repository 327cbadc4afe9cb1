"""Figure 6 of Yeh et al. 2022: learned sharing against the share of training rows, rank 4."""

from __future__ import annotations

from dataclasses import replace

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers.yeh2022_figure3 import plot, run_splits

_RANK = 4
_PERCENT = (1, 2, 5, *range(10, 100, 10))


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of five means, four of them different, from every split.

    Args:
        settings: As for ``run_splits``.
        progress: Called before each part.
    """
    result = run_splits("yeh2022/figure6", _RANK, settings, progress, _PERCENT)
    shape = (
        "the bound of Eq. 15 falls with the share of training rows in its term of sharing, "
        "(1 − r)/r times the rank less one, and rises in its term of confidence, 1/(1 − r): "
        "at this rank it has its least value inside, at rank 1 at no training rows; with means "
        "three standard deviations apart the left branch of the errors shows below 5 %"
    )
    return replace(result, notes=(*result.notes, shape))


EXPERIMENT = Experiment(
    "yeh2022/figure6", "Learned sharing of Gaussian means: the split, rank 4", run, plot
)
