"""Table 7 of van der Ouderaa et al. 2023: forms of group convolutions, on rotated images."""

from __future__ import annotations

from dataclasses import replace

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._layerwise_runs import (
    CIFAR,
    Job,
    Net,
    held_back_plan,
    mean_cell,
    quick_plan,
    studied,
)

_NETS = {
    "full α=10": Net(("group_conv",), 10, "full"),
    "separable α=10": Net(("group_conv",), 10, "separable"),
    "depthwise α=10": Net(("group_conv",), 10, "depthwise"),
    "full α=6": Net(("group_conv",), 6, "full"),
    "separable α=13": Net(("group_conv",), 13, "separable"),
    "depthwise α=16": Net(("group_conv",), 16, "depthwise"),
    "pointwise α=10": Net(("group_conv",), 10, "pointwise"),
    "CNN α=10": Net(("conv",), 10),
}
_PUBLISHED = {
    "full α=10": (1025380, 73.70),
    "separable α=10": (214550, 61.31),
    "depthwise α=10": (139735, 51.63),
    "full α=6": (371200, 69.89),
    "separable α=13": (358463, 59.99),
    "depthwise α=16": (346215, 49.77),
    "pointwise α=10": (338770, 66.77),
    "CNN α=10": (338770, 57.89),
}
_QUICK = ("full α=10", "separable α=10", "depthwise α=10", "pointwise α=10", "CNN α=10")


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Count the parameters of every form, and train them on rotated images.

    Args:
        settings: ``models`` are the rows that are trained; a quick run trains those of equal
            channels, at α = 2 (``channels``). Full: 60 epochs (published: 4000), or ``epochs``,
            with shifts and flips.
        progress: Called for each epoch.

    Returns:
        Parameters for CIFAR-10 as published, of every row, and test accuracy in percent.
    """
    rows = settings.chosen(list(_NETS))
    if settings.models is None and not settings.full:
        rows = list(_QUICK)
    alpha = settings.or_else(channels=None if settings.full else 2)["channels"]
    jobs = {
        row: Job(
            "Rotated CIFAR-10",
            _NETS[row] if alpha is None else replace(_NETS[row], alpha=alpha),
            False,
        )
        for row in rows
    }
    study = studied(
        "ouderaa2023/table7",
        jobs,
        settings,
        progress,
        quick=quick_plan(6),
        full=held_back_plan(60, augmented=True),
    )
    cells = []
    for name, net in _NETS.items():
        size, accuracy = _PUBLISHED[name]
        cells.append(Cell(name, "parameters", float(net.parameters(*CIFAR)), float(size)))
        if name in rows:
            found = [row.accuracy for row in study.rows[name]]
            cells += mean_cell(name, "accuracy", found, accuracy)
    notes = (
        "parameters for CIFAR-10 at the α of the row; test accuracy in percent on Rotated CIFAR-10"
        + ("" if alpha is None else f", trained at α = {alpha}"),
        "slices stay in the frame of the image and share one phase where maps are halved, so that "
        "networks are exactly invariant to shifts and quarter turns; the published ones were to "
        "turns alone",
        *(note for note in study.notes if not note.startswith("evidence")),
    )
    return Result("ouderaa2023/table7", cells, study.seconds, notes)


EXPERIMENT = Experiment(
    "ouderaa2023/table7", "Forms of group convolutions: parameters and accuracy", run
)
