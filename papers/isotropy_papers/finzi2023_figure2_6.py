"""Figure 2.6 of the thesis: angular momentum and state of learned dynamics over time."""

from __future__ import annotations

from math import exp
from pathlib import Path

import numpy as np

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._pendulum import FINE_STEP, GROUPS, INTERVAL, measured_models
from isotropy_papers._statistics import mean_interval

_SHOWN = (0.2, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 25.0, 29.8)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train neural ODEs and HNNs with each symmetry, and follow their errors over time.

    Args:
        settings: Quick takes only O(2) and no symmetry.
        progress: Called before each model.

    Returns:
        For each model the error of the angular momentum, its drift at two steps of the
        integrator, and the error of the state at a few times. Nothing was published as numbers.
    """
    groups = list(GROUPS) if settings.full else ["O(2)", "MLP"]
    found, notes, seconds = measured_models(settings, progress, groups)
    cells = []
    for (kind, group), measured in found.items():
        row = f"{kind}-{group}"
        mean, interval = mean_interval(measured["momentum"])
        cells.append(Cell(row, "momentum error", mean, None, interval))
        for step, drifts in measured["drift"].items():
            cells.append(Cell(row, f"drift, step {step}", float(np.median(drifts))))
        logarithms = np.mean(measured["logarithms"], axis=0)
        spread = np.mean(measured["spread"], axis=0)
        for time in _SHOWN:
            i = round(time / INTERVAL)
            if i < len(logarithms):
                low, high = (exp(logarithms[i] + sign * spread[i]) for sign in (-1, 1))
                column = f"state error, t={time:g}"
                cells.append(Cell(row, column, exp(logarithms[i]), None, (low, high)))
    notes[:0] = [
        "momentum error: geometric mean of the relative error of the angular momentum about the "
        "vertical, mean over seeds, interval one standard deviation over seeds to either side",
        f"drift: largest change of it in a rollout, median over trajectories, at steps of "
        f"{2 * FINE_STEP} and {FINE_STEP}: where it is conserved, only the integrator's error is "
        "left, which falls with the step",
        "state error: geometric mean over trajectories and seeds, interval one standard "
        "deviation of its logarithm over trajectories to either side",
    ]
    return Result("finzi2023/figure2.6", cells, seconds, tuple(notes))


def plot(result: Result, path: Path) -> Path:
    """Draw the error of the state over time, one panel for each kind of model.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._picture import draw_curves

    panels: dict[str, dict[str, list[tuple[float, Cell]]]] = {}
    for cell in result.cells:
        if cell.column.startswith("state error, t="):
            kind, _, group = cell.row.rpartition("-")
            curve = panels.setdefault(kind, {}).setdefault(group, [])
            curve.append((float(cell.column.removeprefix("state error, t=")), cell))
    return draw_curves(panels, path, "time", "relative error of the state", logarithmic=False)


EXPERIMENT = Experiment(
    "finzi2023/figure2.6",
    "Angular momentum and state errors of learned dynamics over time",
    run,
    plot,
)
