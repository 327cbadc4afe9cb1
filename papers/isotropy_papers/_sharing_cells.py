"""Tables and pictures of learned sharing: an error and a partition distance for each method."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isotropy_papers._experiment import Cell, Result
from isotropy_papers._statistics import mean_95

DISTANCE = "PD"


def mean_cell(row: str, column: str, values: Sequence[float], theirs: float | None = None) -> Cell:
    """The cell of a mean over runs, with its 95 % interval.

    Args:
        row: The method.
        column: What is measured, a comma, and where.
        values: One for each run.
        theirs: The published mean.

    Example:
        >>> mean_cell("Oracle", "PD, K=2", [0.0, 0.0]).interval
        (0.0, 0.0)
    """
    mean, interval = mean_95(values)
    return Cell(row, column, mean, theirs, interval)


def draw_error_and_distance(
    result: Result, path: Path, error: str, across: str, before: str, *, logarithmic: bool = False
) -> Path:
    """Draw errors and partition distances side by side, a curve for each method.

    The axis of distances is never quite logarithmic, since the best of them are 0.

    Args:
        result: Cells with columns such as "MSE, K=4" and "PD, K=4".
        path: The PNG file.
        error: The name of the error, as columns have it.
        across: What x is.
        before: What stands before the number in columns, such as "K=".
        logarithmic: Whether scales are logarithmic, that of distances above 2.

    Returns:
        The path written.

    Example:
        >>> import tempfile
        >>> cells = [Cell("Oracle", "MSE, K=2", 0.01), Cell("Oracle", "PD, K=2", 0.0)]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draw_error_and_distance(
        ...         Result("a/b", cells, 0.0), Path(folder) / "a.png", "MSE", "dimensions", "K="
        ...     ).is_file()
        True
    """
    from matplotlib.figure import Figure

    from isotropy.report import save_figure

    rows = list(dict.fromkeys(cell.row for cell in result.cells))
    figure = Figure(figsize=(9.0, 3.6), layout="constrained")
    for axis, name in zip(figure.subplots(1, 2), (error, DISTANCE), strict=True):
        start = f"{name}, {before}"
        for number, row in enumerate(rows):
            points = [
                (float(cell.column.removeprefix(start).split()[0]), cell)
                for cell in result.cells
                if cell.row == row and cell.column.startswith(start)
            ]
            if points:
                _draw(axis, row, f"C{number}", points)
        if logarithmic:
            axis.set_xscale("log")
            axis.set_yscale("log" if name == error else "symlog")
        axis.set_xlabel(across)
        axis.set_ylabel(name)
        axis.legend(fontsize=7)
    return save_figure(figure, path)


def _draw(axis: Any, row: str, colour: str, points: list[tuple[float, Cell]]) -> None:
    places = [x for x, _ in points]
    axis.plot(places, [c.ours for _, c in points], marker="o", color=colour, label=row)
    spread = [c.interval or (c.ours, c.ours) for _, c in points]
    axis.fill_between(places, *zip(*spread, strict=True), color=colour, alpha=0.2)
    theirs = [(x, c.theirs) for x, c in points if c.theirs is not None]
    if theirs:
        axis.plot(*zip(*theirs, strict=True), "x:", color=colour, alpha=0.7)
