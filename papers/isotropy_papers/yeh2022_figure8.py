"""Figure 8 of Yeh et al. 2022: learned sharing of the map of a cross-correlation."""

from __future__ import annotations

from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch

from isotropy.equivariance import partition_distance
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._shared_maps import (
    AUGERINO,
    EVIDENCE,
    RELAXATION,
    RUNS,
    TEST,
    TRAIN,
    VALIDATION,
    Labels,
    Runs,
)
from isotropy_papers._sharing_cells import draw_error_and_distance, mean_cell
from isotropy_papers.sharing_tasks import SharingTask, cross_correlation

_SIZES = (6, 15, 35, 80, 255)
_STRONGER = "Ours (relaxation, penalties 0.1)"
_PENALTIES = {RELAXATION: 0.01, _STRONGER: 0.1}
_METHODS = ["No sharing", "Oracle", AUGERINO, *_PENALTIES, EVIDENCE]
_NOISE = 0.1
_RECOVERED = (6, 15)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn the sharing of the maps of cross-correlations of growing size.

    Args:
        settings: ``seeds`` is the number of runs, 5 as published; full adds a second weight of
            the penalties; ``sizes`` gives other numbers of entries of the map.
        progress: Called before each part.

    Returns:
        The mean squared error on test rows without noise, and the partition distance. Published
        are only the two distances of which the text says that they are 0.
    """
    chosen = settings.or_else(seeds=RUNS, epochs=1000, test_rows=TEST, sizes=_SIZES)
    sizes = chosen.pop("sizes")
    for size in sizes:
        _shape_of(size)
    depends = {"seed": settings.seed, "device": settings.device, **chosen}
    parts = Finished("yeh2022/figure8", depends, settings, progress)
    methods = settings.chosen(list(_METHODS))
    if settings.models is None and not settings.full:
        methods.remove(_STRONGER)
    wanted = {f"{m}, size {size}": (m, size) for size in sizes for m in methods}

    def compute(names: list[str]) -> list[Any]:
        return [_measured(*wanted[name], settings, **chosen) for name in names]

    found = parts.get(list(wanted), compute)
    cells = []
    for name, (method, size) in wanted.items():
        cells.append(mean_cell(method, f"l2, size {size}", found[name]["l2"]))
        if "PD" in found[name]:
            theirs = 0.0 if method in _PENALTIES and size in _RECOVERED else None
            cells.append(mean_cell(method, f"PD, size {size}", found[name]["PD"], theirs))
    notes = (
        f"size: the entries of the map, the side of A; l2: mean squared error on "
        f"{chosen['test_rows']} rows without noise; PD: partition distance to the truth; mean over "
        f"{chosen['seeds']} runs with 1.96 standard errors to either side",
        f"{TRAIN} rows to train and {VALIDATION} to validate, both used in every last fit; noise "
        f"of standard deviation {_NOISE} (the paper says N(0, 0.1)); the paper ends at size 80",
        "relaxation: Adam with learning rate 0.1, 1000 steps, one start; the paper does not state "
        f"the weight of its penalties, so it is {_PENALTIES[RELAXATION]}, that of the Gaussian "
        "means; a full run adds one ten times as large",
        "Augerino: five shifted samples, zeros outside the signal; its weights are not shared, so "
        "it has no partition",
        "evidence: the partition of the highest Bayesian evidence on all rows, without a split",
    )
    return Result("yeh2022/figure8", cells, parts.close(), notes)


def _shape_of(size: int) -> tuple[int, tuple[int, ...]]:
    """The inputs and the kernel of a map of this size."""
    if size == 6:
        return 3, (1, 3)
    inputs = 1 + isqrt(1 + size)
    if inputs < 3 or inputs * (inputs - 2) != size:
        raise ValueError(
            "expected sizes of maps of n inputs and n − 2 outputs, such as "
            f"{', '.join(map(str, _SIZES[1:]))}, or 6, got {size}"
        )
    return inputs, (1, 3, 5)


def _measured(
    method: str, size: int, settings: Settings, seeds: int, epochs: int, test_rows: int
) -> dict[str, list[float]]:
    inputs, kernel = _shape_of(size)

    def draw(samples: int, test: bool, rng: torch.Generator) -> SharingTask:
        noise = 0.0 if test else _NOISE
        return cross_correlation(inputs, kernel, samples=samples, noise=noise, seed=rng)

    runs = Runs.draw(draw, settings.seed, seeds, test_rows)
    if method == AUGERINO:
        return {"l2": runs.errors([g for g, _ in runs.augerino()])}
    labels: list[Labels]
    if method == "No sharing":
        labels, maps = [np.arange(size)] * seeds, runs.unshared()
    elif method == "Oracle":
        labels, maps = [task.labels.ravel() for task in runs.tasks], runs.given()
    elif method in _PENALTIES:
        labels = runs.relaxed(0.1, _PENALTIES[method], epochs, settings.device)
        maps = runs.block_means(labels)
    else:
        labels = runs.by_evidence()
        maps = runs.refitted(labels)
    pairs = zip(labels, runs.tasks, strict=True)
    distances = [float(partition_distance(found, task.labels.ravel())) for found, task in pairs]
    return {"l2": runs.errors(maps), "PD": distances}


def plot(result: Result, path: Path) -> Path:
    """Draw errors and partition distances against the size of the map.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    return draw_error_and_distance(
        result, path, "l2", "entries of the map", "size ", logarithmic=True
    )


EXPERIMENT = Experiment(
    "yeh2022/figure8", "Learned sharing of cross-correlations, up to 255 entries", run, plot
)
