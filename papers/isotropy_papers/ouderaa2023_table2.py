"""Table 2 of van der Ouderaa et al. 2023: do layers become convolutional on CIFAR-10?"""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._layerwise_runs import (
    CIFAR,
    Job,
    Net,
    fit_cells,
    held_back_plan,
    quick_plan,
    studied,
)

_NETS = {
    "FC": Net(("fc",)),
    "CONV": Net(("conv",)),
    "FC+CONV": Net(("fc", "conv")),
    "F-FC": Net(("factored",)),
    "F-FC+CONV": Net(("factored", "conv")),
    "S-FC (u)": Net(("sparse_fc",)),
    "S-CONV (u)": Net(("sparse_conv",)),
    "S-FC+S-CONV (u)": Net(("sparse_fc", "sparse_conv")),
    "S-FC (ω)": Net(("sparse_fc",), omega=True),
    "S-CONV (ω)": Net(("sparse_conv",), omega=True),
    "S-FC+S-CONV (ω)": Net(("sparse_fc", "sparse_conv"), omega=True),
}
_QUICK = ("CONV", "F-FC", "F-FC+CONV", "S-CONV (ω)")
# million parameters; NLL and accuracy of MAP; NLL, accuracy and −log evidence with evidence
_PUBLISHED = {
    "FC": (133.6, 2.423, 64.42, 1.319, 52.36, 1.896),
    "CONV": (0.3, 1.184, 82.81, 0.464, 84.07, 1.022),
    "FC+CONV": (133.9, 1.713, 76.93, 0.489, 83.32, 1.019),
    "F-FC": (1.5, 4.291, 50.47, 1.307, 53.38, 2.119),
    "F-FC+CONV": (1.8, 1.343, 81.61, 0.468, 83.92, 1.277),
    "S-FC (u)": (0.8, 5.614, 50.21, 1.496, 46.18, 1.926),
    "S-CONV (u)": (0.2, 0.604, 82.53, 0.562, 81.29, 1.037),
    "S-FC+S-CONV (u)": (1.0, 5.485, 58.80, 0.538, 81.55, 0.978),
    "S-FC (ω)": (0.8, 7.783, 49.69, 1.319, 52.22, 1.813),
    "S-CONV (ω)": (0.2, 0.913, 81.84, 0.549, 81.20, 1.055),
    "S-FC+S-CONV (ω)": (1.0, 2.040, 77.97, 0.564, 80.63, 1.067),
}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train networks of every set of paths, by their posterior and with learned priors.

    Args:
        settings: ``models`` are rows; a quick run takes some of them, at α = 2 (``channels``).
            Full: 60 epochs (published: 4000), or ``epochs``, with shifts and
            flips.
        progress: Called for each epoch.

    Returns:
        NLL and accuracy (percent) on test images, −log evidence for each training image, and the
        number of parameters at α = 10.
    """
    rows = settings.chosen(list(_NETS))
    if settings.models is None and not settings.full:
        rows = list(_QUICK)
    alpha = settings.or_else(channels=10 if settings.full else 2)["channels"]
    jobs = {
        f"{row}, {'evidence' if evidence else 'MAP'}": Job(
            "CIFAR-10", Net(_NETS[row].paths, alpha, omega=_NETS[row].omega), evidence
        )
        for row in rows
        for evidence in (False, True)
    }
    study = studied(
        "ouderaa2023/table2",
        jobs,
        settings,
        progress,
        quick=quick_plan(4),
        full=held_back_plan(60, augmented=True),
    )
    cells = []
    for row in rows:
        millions, *published = _PUBLISHED[row]
        cells.append(Cell(row, "million parameters", _NETS[row].parameters(*CIFAR) / 1e6, millions))
        plain, learned = study.rows[f"{row}, MAP"], study.rows[f"{row}, evidence"]
        cells += fit_cells(row, plain, learned, published)
    notes = (
        f"accuracy in percent, −log evidence for each training image, α = {alpha}; parameters for "
        "CIFAR-10 at α = 10, lengthscales not counted",
        "(u): lengthscales stay at 1; (ω): they are parameters under a learned prior of their own, "
        "beside those of u, where the published code trains them without",
        *study.notes,
    )
    return Result("ouderaa2023/table2", cells, study.seconds, notes)


EXPERIMENT = Experiment(
    "ouderaa2023/table2", "Layers that learn to be convolutional on CIFAR-10", run
)
