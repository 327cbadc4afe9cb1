"""Table 3 of van der Ouderaa et al. 2023: which of several groups do layers choose?"""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._layerwise_runs import (
    Job,
    LayerwiseRow,
    Net,
    fit_cells,
    held_back_plan,
    quick_plan,
    studied,
)

_PATHS = {"FC %": "factored", "CONV %": "conv", "GCONV %": "group_conv"}
# NLL and accuracy of MAP; NLL, accuracy and −log evidence with evidence
_PUBLISHED = {
    "MNIST": (0.172, 97.59, 0.023, 99.21, 0.328),
    "Translated MNIST": (0.812, 90.78, 0.053, 98.27, 0.216),
    "Rotated MNIST": (0.819, 91.02, 0.136, 95.55, 0.896),
    "CIFAR-10": (3.540, 68.33, 0.552, 80.94, 0.926),
    "Rotated CIFAR-10": (5.953, 48.30, 1.236, 55.68, 1.630),
}
# mean, least and largest over layers
_SHARES = {
    "MNIST": ((10, 0, 46), (15, 0, 98), (75, 1, 100)),
    "Translated MNIST": ((0, 0, 0), (23, 0, 99), (77, 1, 100)),
    "Rotated MNIST": ((8, 0, 20), (8, 0, 47), (83, 47, 100)),
    "CIFAR-10": ((0, 0, 1), (44, 0, 99), (56, 0, 100)),
    "Rotated CIFAR-10": ((4, 0, 22), (14, 0, 41), (82, 58, 99)),
}
_QUICK = ("MNIST", "Translated MNIST", "Rotated MNIST")


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train networks whose layers may be free, convolutions or group convolutions.

    Args:
        settings: ``models`` are rows; a quick run takes those of MNIST, at α = 1 (``channels``).
            Full, at α = 2: 60 epochs (published: 1000 of MNIST, 4000 of CIFAR-10), or ``epochs``;
            CIFAR-10 with shifts and flips.
        progress: Called for each epoch.

    Returns:
        NLL and accuracy (percent) on test images, −log evidence for each training image, and the
        relative effective number of parameters of each path in percent: the mean over layers, and
        as the interval the least and the largest.
    """
    rows = settings.chosen(list(_PUBLISHED))
    if settings.models is None and not settings.full:
        rows = list(_QUICK)
    alpha = settings.or_else(channels=2 if settings.full else 1)["channels"]
    net = Net(("factored", "conv", "group_conv"), alpha)
    cells, notes, seconds = [], [], 0.0
    for set_name, full in (
        ("MNIST", held_back_plan(60, strict_start=True)),
        ("CIFAR-10", held_back_plan(60, augmented=True, strict_start=True)),
    ):
        chosen = [row for row in rows if row.endswith(set_name)]
        if not chosen:
            continue
        jobs = {
            f"{row}, {'evidence' if evidence else 'MAP'}": Job(row, net, evidence)
            for row in chosen
            for evidence in (False, True)
        }
        study = studied(
            "ouderaa2023/table3",
            jobs,
            settings,
            progress,
            quick=quick_plan(10, batch=32),
            full=full,
            rows=1000,
        )
        for row in chosen:
            cells += _cells(row, study.rows[f"{row}, MAP"], study.rows[f"{row}, evidence"])
        seconds += study.seconds
        notes += [f"{set_name}: {study.notes[0]}", *study.notes[1:]]
    published = (
        f"{row} " + ", ".join(f"{low}–{high}" for _, low, high in _SHARES[row]) for row in rows
    )
    notes = [
        f"paths F-FC, CONV and GCONV (p4, pointwise), α = {alpha}; accuracy in percent, −log "
        "evidence for each training image; last columns: relative effective number of parameters "
        "of weights, mean over layers, interval: least to largest",
        "'before': of random weights under priors of variance 1; a path of few parameters has a "
        "large share of them from the start, so that what tells is the difference, and that "
        "between sets; KFAC expands over the group, where the published code averages over it",
        f"published least to largest, for FC, CONV, GCONV: {'; '.join(published)}",
        *dict.fromkeys(notes),
    ]
    return Result("ouderaa2023/table3", cells, seconds, tuple(notes))


def _cells(name: str, plain: list[LayerwiseRow], learned: list[LayerwiseRow]) -> list[Cell]:
    cells = fit_cells(name, plain, learned, _PUBLISHED[name])
    for (column, path), (mean, _, _) in zip(_PATHS.items(), _SHARES[name], strict=True):
        shares = [100 * share for each in learned for share in each.shares(path)]
        ours = sum(shares) / len(shares)
        cells.append(Cell(name, column, ours, float(mean), (min(shares), max(shares))))
    for column, path in _PATHS.items():
        shares = [100 * share for each in learned for share in each.shares(path, before=True)]
        ours = sum(shares) / len(shares)
        cells.append(Cell(name, f"{column} before", ours, None, (min(shares), max(shares))))
    return cells


EXPERIMENT = Experiment(
    "ouderaa2023/table3", "Layers that choose among shifts, quarter turns and none", run
)
