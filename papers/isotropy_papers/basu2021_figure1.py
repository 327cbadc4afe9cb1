"""Figures 1 to 4 of Basu et al. 2021: a layer that commutes with S₃, and with its parts."""

from __future__ import annotations

import time
from pathlib import Path

import torch
from torch import Tensor

from isotropy.bases import pair_orbits
from isotropy.report import save_figure
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings

_TURN, _SWAP = torch.tensor([1, 2, 0]), torch.tensor([1, 0, 2])
_LAYERS = {
    "Z3": ([_TURN], 3),
    "Z2": ([_SWAP], 5),
    "S3 from Z3 and Z2": ([_TURN, _SWAP], 2),
    "S3 from all its elements": (
        [_TURN, _TURN[_TURN], _SWAP, _TURN[_SWAP], _SWAP[_TURN], torch.arange(3)],
        2,
    ),
}


def run(_settings: Settings, _progress: ProgressCallback) -> Result:
    """Share the weights of a layer from three units to three.

    Args:
        _settings: None are used.
        _progress: Not called.

    Returns:
        How many weights are left.
    """
    start = time.perf_counter()
    cells = [
        Cell(name, "parameters", int(_labels(name).max()) + 1, published)
        for name, (_, published) in _LAYERS.items()
    ]
    same = torch.equal(*(_labels(name) for name in list(_LAYERS)[2:]))
    notes = (
        f"the same weights are equal for the generators of Z3 and Z2 and for all of S3: {same}",
        "with --plot: equal colours are equal weights",
    )
    return Result("basu2021/figure1", cells, time.perf_counter() - start, notes)


def _labels(name: str) -> Tensor:
    generators, _ = _LAYERS[name]
    return pair_orbits(generators, generators)


def plot(result: Result, path: Path) -> Path:
    """Draw the weights of each layer, equal ones in one colour.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(2.6 * len(result.cells), 2.8), layout="constrained")
    axes = figure.subplots(1, len(result.cells), squeeze=False)[0]
    for axis, cell in zip(axes, result.cells, strict=True):
        axis.imshow(_labels(cell.row).numpy(), cmap="Set1", vmin=0, vmax=8)
        axis.set_title(f"{cell.row}: {cell.ours:g}", fontsize=9)
        axis.set_xticks(range(3), ["in 1", "in 2", "in 3"])
        axis.set_yticks(range(3), ["out 1", "out 2", "out 3"])
    return save_figure(figure, path)


EXPERIMENT = Experiment(
    "basu2021/figure1",
    "A layer that commutes with S3, and with the groups it is made of",
    run,
    plot,
)
