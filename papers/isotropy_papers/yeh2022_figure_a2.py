"""Figure A2 of Yeh et al. 2022: what denoising maps look like with and without sharing."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from torch import Tensor

from isotropy.equivariance import partition_distance
from isotropy.run import ProgressCallback, Step
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._shared_maps import EVIDENCE, RUNS, TEST, Labels
from isotropy_papers._sharing_cells import mean_cell
from isotropy_papers.yeh2022_figure_a1 import BEST, LENGTH, PENALTY, RATE, REFITTED, drawn

_NOISE = 5.0
_SHARE = "share of variance along diagonals"


def diagonal_share(g: Tensor) -> float:
    """How near a map is to a Toeplitz matrix.

    Args:
        g: A matrix.

    Returns:
        The share of the variance of its entries that lies between its diagonals: 1 where each
        diagonal is constant.

    Example:
        >>> import torch
        >>> diagonal_share(torch.tensor([[1.0, 2.0], [3.0, 1.0]]))
        1.0
        >>> diagonal_share(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        0.0
    """
    entries = g.double().numpy()
    rows, columns = entries.shape
    labels = (np.arange(columns) + np.arange(rows)[::-1, None]).ravel()
    means = np.bincount(labels, entries.ravel()) / np.bincount(labels)
    within = float(((entries.ravel() - means[labels]) ** 2).sum())
    return 1 - within / float(((entries - entries.mean()) ** 2).sum())


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Fit denoising maps, and say how near they are to Toeplitz matrices.

    Args:
        settings: ``seeds`` is the number of runs, 5 in quick and full.
        progress: Called before each map.

    Returns:
        The entries of the maps of the first run, then how near the maps are to Toeplitz ones.
        Nothing was published as numbers.
    """
    start = time.perf_counter()
    chosen = settings.or_else(seeds=RUNS, epochs=1000, test_rows=TEST)
    runs = drawn(_NOISE, settings.seed, chosen["seeds"], chosen["test_rows"])
    size = LENGTH * LENGTH
    maps: dict[str, list[Tensor]] = {}
    labels: dict[str, list[Labels]] = {}
    methods = settings.chosen([BEST, "No sharing", REFITTED, EVIDENCE])
    for number, method in enumerate(methods):
        progress(Step(number, len(methods), method))
        if method == BEST:
            maps[method] = [task.map for task in runs.tasks]
        elif method == "No sharing":
            maps[method], labels[method] = runs.unshared(), [np.arange(size)] * len(runs.tasks)
        else:
            found = (
                runs.by_evidence()
                if method == EVIDENCE
                else runs.relaxed(RATE, PENALTY, chosen["epochs"], settings.device)
            )
            maps[method], labels[method] = runs.refitted(found), found
    cells = [
        Cell(method, f"G[{i},{j}]", float(entry))
        for method, found in maps.items()
        for i, row in enumerate(found[0])
        for j, entry in enumerate(row)
    ]
    for method, fitted in maps.items():
        cells.append(mean_cell(method, _SHARE, [diagonal_share(g) for g in fitted]))
        cells.append(mean_cell(method, "MSE", runs.errors(fitted)))
        if method in labels:
            pairs = zip(labels[method], runs.tasks, strict=True)
            distances = [partition_distance(one, task.labels.ravel()) for one, task in pairs]
            cells.append(mean_cell(method, "PD", distances))
    notes = (
        f"signals have {LENGTH} places, noise has standard deviation {_NOISE:g}; the paper states "
        "neither; G: entries in the first run",
        f"{_SHARE}, MSE to the clean signal, PD to the partition into diagonals: mean over runs "
        "with 1.96 standard errors to either side",
        "the best linear map itself is only near a Toeplitz matrix, and on far diagonals its "
        "entries are nearly equal, so that fewer blocks than diagonals serve as well",
    )
    return Result("yeh2022/figureA2", cells, time.perf_counter() - start, notes)


def plot(result: Result, path: Path) -> Path:
    """Draw the maps side by side on one scale of colours.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from matplotlib.figure import Figure

    from isotropy.report import save_figure

    entries: dict[str, list[float]] = {}
    for cell in result.cells:
        if cell.column.startswith("G["):
            entries.setdefault(cell.row, []).append(cell.ours)
    largest = max(abs(value) for values in entries.values() for value in values)
    figure = Figure(figsize=(3.0 * len(entries) + 0.8, 3.2), layout="constrained")
    axes = figure.subplots(1, len(entries), squeeze=False)[0]
    for axis, (title, values) in zip(axes, entries.items(), strict=True):
        side = round(len(values) ** 0.5)
        picture = axis.imshow(
            np.reshape(values, (side, side)), cmap="RdBu_r", vmin=-largest, vmax=largest
        )
        axis.set_title(title, fontsize=9)
        axis.set_xticks([])
        axis.set_yticks([])
    figure.colorbar(picture, ax=axes)
    return save_figure(figure, path)


EXPERIMENT = Experiment(
    "yeh2022/figureA2", "Denoising maps with and without learned sharing", run, plot
)
