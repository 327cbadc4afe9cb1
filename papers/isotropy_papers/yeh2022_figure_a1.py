"""Figure A1 of Yeh et al. 2022: denoising steps by a linear map, with and without sharing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._shared_maps import (
    AUGERINO,
    EVIDENCE,
    RELAXATION,
    RUNS,
    TEST,
    TRAIN,
    VALIDATION,
    Runs,
)
from isotropy_papers._sharing_cells import mean_cell
from isotropy_papers.sharing_tasks import SharingTask, noisy_steps

LENGTH = 10
RATE, PENALTY = 0.2, 0.1
BEST, TOEPLITZ = "Best linear map", "Toeplitz, given"
REFITTED = "Ours (relaxation, exact refit)"

_LEVELS, _QUICK_LEVELS = (1, 2, 5, 10, 20), (1, 5, 20)
_METHODS = [BEST, "No sharing", TOEPLITZ, AUGERINO, RELAXATION, REFITTED, EVIDENCE]


def drawn(noise: float, seed: int, seeds: int, test_rows: int) -> Runs:
    """Signals of the figure's length at one level of noise.

    Args:
        noise: The standard deviation.
        seed: Of everything random.
        seeds: How many runs.
        test_rows: Rows to test on.

    Example:
        >>> drawn(5.0, 0, 2, 10).tasks[0].y.shape
        torch.Size([150, 10])
    """

    def draw(samples: int, _test: bool, rng: torch.Generator) -> SharingTask:
        return noisy_steps(LENGTH, samples=samples, noise=noise, seed=rng)

    return Runs.draw(draw, seed, seeds, test_rows)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Denoise at several levels of noise.

    Args:
        settings: ``seeds`` is the number of runs, 5 as published; quick has three levels of noise
            of full's five; ``sizes`` gives others.
        progress: Called before each part.

    Returns:
        The mean squared error to the clean signal. Nothing was published as numbers.
    """
    chosen = settings.or_else(seeds=RUNS, epochs=1000, test_rows=TEST)
    levels = settings.or_else(sizes=_LEVELS if settings.full else _QUICK_LEVELS)["sizes"]
    depends = {"seed": settings.seed, "device": settings.device, **chosen}
    parts = Finished("yeh2022/figureA1", depends, settings, progress)
    methods = settings.chosen(_METHODS)
    # both refits of the relaxation come from one search
    searched = [RELAXATION if m == REFITTED else m for m in methods]
    wanted = {f"{m}, noise {level}": (m, level) for level in levels for m in searched}

    def compute(names: list[str]) -> list[Any]:
        return [_errors(*wanted[name], settings, **chosen) for name in names]

    found = parts.get(list(wanted), compute)
    cells = []
    for method, search in zip(methods, searched, strict=True):
        for level in levels:
            values = found[f"{search}, noise {level}"][method]
            cells.append(mean_cell(method, f"MSE, noise {level}", values))
    notes = (
        f"MSE: to the clean signal, on {chosen['test_rows']} rows; mean over {chosen['seeds']} "
        "runs with 1.96 standard errors to either side",
        f"noise: its standard deviation; signals have {LENGTH} places; the paper states neither; "
        f"{TRAIN} rows to train and {VALIDATION} to validate, both used in every last fit",
        "best linear map: E[y xᵀ] E[x xᵀ]⁻¹ in closed form; it is not constant along diagonals, "
        "since a window has ends, and the more noise the less so: from some level on even the "
        "given Toeplitz sharing is worse than none",
        f"relaxation: Adam with learning rate {RATE}, both penalties times {PENALTY}, which the "
        "paper does not state; its last fit averages the unshared map over blocks as the paper "
        "does, which ignores that inputs are correlated; exact refit: least squares under the "
        "same sharing",
        "evidence: exact least squares under the sharing of the highest evidence; it takes "
        "entries to be equal or unrelated, where those of the best map change little by little, "
        "and shares too much where noise hides this",
    )
    return Result("yeh2022/figureA1", cells, parts.close(), notes)


def _errors(
    method: str, noise: float, settings: Settings, seeds: int, epochs: int, test_rows: int
) -> dict[str, list[float]]:
    runs = drawn(noise, settings.seed, seeds, test_rows)
    if method == RELAXATION:
        labels = runs.relaxed(RATE, PENALTY, epochs, settings.device)
        return {
            RELAXATION: runs.errors(runs.block_means(labels)),
            REFITTED: runs.errors(runs.refitted(labels)),
        }
    maps: dict[str, Callable[[], list[Tensor]]] = {
        BEST: lambda: [task.map for task in runs.tasks],
        "No sharing": runs.unshared,
        TOEPLITZ: runs.given,
        AUGERINO: lambda: [g for g, _ in runs.augerino()],
        EVIDENCE: lambda: runs.refitted(runs.by_evidence()),
    }
    return {method: runs.errors(maps[method]())}


def plot(result: Result, path: Path) -> Path:
    """Draw errors, relative to those without sharing, against the level of noise.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._picture import draw_curves

    unshared = {cell.column: cell.ours for cell in result.cells if cell.row == "No sharing"}
    curves: dict[str, list[tuple[float, Cell]]] = {}
    for cell in result.cells:
        unit = unshared.get(cell.column, 1.0)
        low, high = cell.interval or (cell.ours, cell.ours)
        relative = replace(cell, ours=cell.ours / unit, interval=(low / unit, high / unit))
        level = float(cell.column.removeprefix("MSE, noise "))
        curves.setdefault(cell.row, []).append((level, relative))
    return draw_curves({"denoising": curves}, path, "noise", "MSE / MSE without sharing")


EXPERIMENT = Experiment(
    "yeh2022/figureA1", "Denoising by linear maps with learned sharing", run, plot
)
