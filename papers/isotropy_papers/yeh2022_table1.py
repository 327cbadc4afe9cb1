"""Table 1 of Yeh et al. 2022: what each penalty does for learned sharing of Gaussian means."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._shared_means import (
    BRUTE_FORCE,
    EVIDENCE,
    EVIDENCE_NOTE,
    NOTES,
    PENALTIES,
    TABLE1,
    Case,
    case_cells,
)

_DIMENSIONS = (2, 4, 6)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of 2, 4 and 6 means with each set of penalties.

    Args:
        settings: ``seeds`` is the number of runs, 200 as published, quick and full alike;
            ``sizes`` gives other numbers of means.
        progress: Called before each part.

    Returns:
        MSE and partition distance. Beside the published rows: the nuclear norm as the paper
        writes it, brute force, and evidence.
    """
    sizes = settings.or_else(sizes=_DIMENSIONS)["sizes"]
    cases = {f"K={dimensions}": Case(dimensions) for dimensions in sizes}
    methods = [*PENALTIES, BRUTE_FORCE, EVIDENCE]
    cells, seconds = case_cells(settings, progress, cases, methods)
    published = (
        f"{penalties} K={k}: {mse_half:.3f} and {pd_half:.3f}"
        for (k, penalties), (_, mse_half, _, pd_half) in TABLE1.items()
    )
    notes = (
        *NOTES,
        EVIDENCE_NOTE,
        "the paper writes the nuclear norm and its numbers come from the sum of column norms; "
        "the row of the true one does not reproduce them",
        f"half-widths of the published intervals, MSE and PD: {'; '.join(published)}",
    )
    return Result("yeh2022/table1", cells, seconds, notes)


EXPERIMENT = Experiment(
    "yeh2022/table1", "Learned sharing of Gaussian means, with and without its penalties", run
)
