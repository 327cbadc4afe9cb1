"""Figure 1 of Yeh et al. 2022: the bound on the MSE gap against the share of training data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from isotropy.run import ProgressCallback, Step
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers.shared_mean_theory import (
    mse_gap_bound,
    shared_mean_mse,
    sharing_threshold,
    suggest_split,
)

_SAMPLES, _DIMENSIONS, _ALPHA = 100, 5, 0.05
_RANKS = (1, 2, 4)
_PERCENT = (5, *range(10, 100, 10), 95)
_DISTANCES = (0.5, 1.0, 2.0, 4.0, 8.0)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Evaluate both terms of Eq. 15, the corrected bound, and the gap itself by brute force.

    Args:
        settings: The seed of the data, and the number of draws in ``test_rows``; quick and full
            differ in the latter, 1,000 or 20,000.
        progress: Called before each rank.

    Returns:
        For each rank and share of training data the terms and the measured gap, the split that
        the bound asks for, the thresholds of Eq. 19, and two measurements of where the claims
        fail. Nothing was published as numbers.

    Example:
        >>> cells = run(Settings(test_rows=50), lambda step: None).cells
        >>> shown = [cell for cell in cells if cell.row == "rank 4, 30 %"]
        >>> [(cell.column, round(cell.ours, 2)) for cell in shown if cell.column != "measured"]
        [('sharing', 0.07), ('confidence', 1.71), ('bound', 1.78), ('corrected', 0.79)]
    """
    start = time.perf_counter()
    draws = settings.or_else(test_rows=20000 if settings.full else 1000)["test_rows"]
    rng = np.random.default_rng(settings.seed)
    cells: list[Cell] = []
    for number, rank in enumerate(_RANKS):
        progress(Step(number, len(_RANKS) + 1, f"rank {rank}"))
        for percent in _PERCENT:
            cells += _cells_of(rank, percent, draws, rng)
        train = suggest_split(_SAMPLES, rank, _ALPHA, floor=0)
        cells.append(Cell(f"rank {rank}", "best % for the bound", float(train)))
    progress(Step(len(_RANKS), len(_RANKS) + 1, "where the claims fail"))
    cells += _failures(draws, rng)
    notes = (
        f"the paper draws the figure without saying for which numbers; here |D| = {_SAMPLES}, "
        f"K = {_DIMENSIONS}, σ = 1, α = {_ALPHA}",
        "sharing, confidence, bound: the two terms of Eq. 15 and their sum; corrected: the bound "
        "that can be proved, see mse_gap_bound",
        f"measured: the {1 - _ALPHA:.0%} quantile of the gap, scheme by brute force over Eq. 13, "
        f"{draws} draws; the largest over equally spaced means {', '.join(map(str, _DISTANCES))} "
        "standard errors of the validation mean apart, blocks of nearly equal size",
        "above Eq. 15: how often the gap is above the bound that holds with probability 1 − α, "
        "K = 2, one training row, means chosen for it; interval of two standard errors",
        "Eq. 19: the printed threshold; its bound asks for α < exp(−K/10), which α = "
        f"{_ALPHA} is not at that K",
        "learned / none: mean error of the scheme of Eq. 13 over that of no sharing, two means 4 "
        "standard errors of the validation mean apart; above 1 learning does harm",
    )
    return Result("yeh2022/figure1", cells, time.perf_counter() - start, notes)


def _cells_of(rank: int, percent: int, draws: int, rng: np.random.Generator) -> list[Cell]:
    ratio = percent / 100
    confidence = float(mse_gap_bound(ratio, _SAMPLES, 1, _ALPHA, dimensions=_DIMENSIONS))
    bound = float(mse_gap_bound(ratio, _SAMPLES, rank, _ALPHA, dimensions=_DIMENSIONS))
    corrected = mse_gap_bound(
        ratio, _SAMPLES, rank, _ALPHA, dimensions=_DIMENSIONS, proof="corrected"
    )
    validation = _SAMPLES - percent
    steps = np.floor(np.arange(_DIMENSIONS) * rank / _DIMENSIONS) / sqrt(validation)
    quantiles = [
        float(np.quantile(gaps(distance * steps, percent, validation, draws, rng), 1 - _ALPHA))
        for distance in _DISTANCES
    ]
    values = {
        "sharing": bound - confidence,
        "confidence": confidence,
        "bound": bound,
        "corrected": float(corrected),
        "measured": max(quantiles),
    }
    return [Cell(f"rank {rank}, {percent} %", name, value) for name, value in values.items()]


def _failures(draws: int, rng: np.random.Generator) -> list[Cell]:
    cells = []
    for validation in (1000, 3000, 10000):
        n = validation + 1
        bound = float(mse_gap_bound(1 / n, n, 2, _ALPHA, dimensions=2))
        # merged, these means have a gap just above the bound
        theta = np.array([0.0, sqrt(2 * (bound + 1 / n)) * (1 + 1e-9)])
        above = float((gaps(theta, 1, validation, draws, rng) > bound).mean())
        error = 2 * sqrt(above * (1 - above) / draws)
        name = f"|T| = 1, |V| = {validation}"
        cells.append(Cell(name, "above Eq. 15", above, None, (above - error, above + error)))
    for percent in (10, 30, 50):
        threshold = sharing_threshold(percent / 100, _ALPHA)
        assert threshold is not None  # only the corrected one may be
        cells.append(Cell(f"rank 1, {percent} %", "Eq. 19", float(threshold)))
    for k in (2, 4, 6):
        for percent in (30, 50, 80):
            theta = np.repeat([0.0, 4 / sqrt(_SAMPLES - percent)], k // 2)
            gap = gaps(theta, percent, _SAMPLES - percent, draws, rng).mean()
            ratio = (gap + 2 / _SAMPLES) / (k / _SAMPLES)
            cells.append(Cell(f"rank 2, K = {k}, {percent} %", "learned / none", float(ratio)))
    return cells


def gaps(
    theta: NDArray[np.float64], train: int, validation: int, draws: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Draws of the gap of Eq. 14 for the scheme that minimises Eq. 13 over all schemes, σ = 1.

    Args:
        theta: The true means.
        train: The number of training samples.
        validation: The number of validation samples.
        draws: How many validation sets are drawn.
        rng: Where from.

    Example:
        >>> gaps(np.zeros(3), 30, 70, 2, np.random.default_rng(0))
        array([0., 0.])
    """
    schemes = np.array(list(_schemes(len(theta))))
    fits = np.empty(schemes.shape)
    for fit, labels in zip(fits, schemes, strict=True):
        fit[:] = (np.bincount(labels, theta) / np.maximum(np.bincount(labels), 1))[labels]
    penalty = (schemes.max(1) + 1) / train + (fits**2).sum(1)
    means = theta + rng.normal(size=(draws, len(theta))) / sqrt(validation)
    chosen = (penalty - 2 * means @ fits.T).argmin(1)
    n = train + validation
    errors = np.array([shared_mean_mse(labels, theta, samples=n) for labels in schemes])
    gap: NDArray[np.float64] = errors[chosen] - len(np.unique(theta)) / n
    return gap


def _schemes(k: int) -> Iterator[list[int]]:
    """All partitions of k elements: a label is at most one above the largest before it."""
    if k == 1:
        yield [0]
    else:
        for labels in _schemes(k - 1):
            yield from ([*labels, label] for label in range(max(labels) + 2))


def plot(result: Result, path: Path) -> Path:
    """Draw the terms against the share of training data, one panel for each rank.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._picture import draw_curves

    panels: dict[str, dict[str, list[tuple[float, Cell]]]] = {}
    for cell in result.cells:
        rank, _, percent = cell.row.removesuffix(" %").partition(", ")
        if cell.column in ("sharing", "confidence", "bound", "corrected", "measured"):
            curves = panels.setdefault(rank, {})
            if cell.ours > 0:  # the axis is logarithmic
                curves.setdefault(cell.column, []).append((float(percent), cell))
    return draw_curves(panels, path, "% of training data", "MSE gap", logarithmic=False)


EXPERIMENT = Experiment(
    "yeh2022/figure1", "The bound on what learning a sharing scheme costs, and its terms", run, plot
)
