"""Section 3.5.1 of the thesis: how much the strength of the prior matters."""

from __future__ import annotations

from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._residual_trials import STRICT_PENALTY
from isotropy_papers._statistics import median_interval
from isotropy_papers.finzi2023_figure3_2 import FIXED, trained_models


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train softened networks with flexible paths that are free to quite different degrees.

    Args:
        settings: As for ``finzi2023/figure3.2``, whose finished parts are used.
        progress: Called before each part.

    Returns:
        The median test error for each strength λ, beside those of MLP and EMLP.
    """
    found, plans, seconds = trained_models(settings, progress, learned=False)
    cells = []
    for which, errors in found.items():
        columns = {"MLP": "MLP", "EMLP": "EMLP"}
        columns |= {f"RPP {w:g}": f"RPP, λ={w:g}" for w in FIXED[which.split()[0]]}
        for model, column in columns.items():
            median, interval = median_interval(errors[model]["test"])
            cells.append(Cell(which, column, median, None, interval))
    numbers = {"inertia": 9, "pendulum": 48}
    scales = ", ".join(
        f"{task} {1e-4 / (plans[task].rows * count):.1e}/λ" for task, count in numbers.items()
    )
    notes = (
        "median test MSE over seeds, interval 2.5 to 97.5 % of bootstrapped medians",
        "λ: weight of the squared norm of the flexible paths beside the mean squared error; that "
        f"of the strict ones is {STRICT_PENALTY:g} throughout",
        "as a prior variance, for noise of a hundredth of the unit of outputs, σ_b² = s²/(Mλ): "
        + scales,
    )
    return Result("finzi2023/section3.5.1", cells, seconds, notes)


def plot(result: Result, path: Path) -> Path:
    """Draw the error against λ, one panel for each task and level.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._picture import draw_curves

    panels: dict[str, dict[str, list[tuple[float, Cell]]]] = {}
    for cell in result.cells:
        curves = panels.setdefault(cell.row, {})
        weights = FIXED[cell.row.split()[0]]
        if cell.column.startswith("RPP"):
            place = float(cell.column.removeprefix("RPP, λ="))
            curves.setdefault("RPP", []).append((place, cell))
        else:
            curves[cell.column] = [(weights[0], cell), (weights[-1], cell)]
    return draw_curves(panels, path, "λ of the flexible paths", "test MSE")


EXPERIMENT = Experiment(
    "finzi2023/section3.5.1",
    "How much the prior variance of the flexible paths matters",
    run,
    plot,
)
