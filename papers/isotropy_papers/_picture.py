"""Curves with their intervals, ours beside the published ones."""

from __future__ import annotations

from pathlib import Path

from isotropy.report import save_figure
from isotropy_papers._experiment import Cell

Curves = dict[str, list[tuple[float, Cell]]]


def draw_curves(
    panels: dict[str, Curves], path: Path, across: str, up: str, *, logarithmic: bool = True
) -> Path:
    """Draw one panel for each entry, one curve for each model; dotted where published.

    Args:
        panels: From titles to curves: for each model, places along x with their cells.
        path: The PNG file to write.
        across: What x is.
        up: What y is.
        logarithmic: Whether x is on a logarithmic scale; y always is.

    Returns:
        The path written.

    Example:
        >>> import tempfile
        >>> curves = {"EMLP": [(1, Cell("EMLP", "N=1", 2.0, 1.0, (1.5, 2.5)))]}
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draw_curves({"task": curves}, Path(folder) / "a.png", "rows", "error").is_file()
        True
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.2 * len(panels), 3.6), layout="constrained")
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (title, curves) in zip(axes, panels.items(), strict=True):
        for i, (model, points) in enumerate(curves.items()):
            places = [x for x, _ in points]
            colour = f"C{i}"
            marker = "o" if len(points) < 20 else ""
            axis.plot(places, [c.ours for _, c in points], marker=marker, color=colour, label=model)
            spread = [c.interval or (c.ours, c.ours) for _, c in points]
            low, high = [s[0] for s in spread], [s[1] for s in spread]
            axis.fill_between(places, low, high, color=colour, alpha=0.2)
            theirs = [(x, c.theirs) for x, c in points if c.theirs is not None]
            if theirs:
                axis.plot(*zip(*theirs, strict=True), "x:", color=colour, alpha=0.7)
        if logarithmic:
            axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_title(title)
        axis.set_xlabel(across)
        axis.set_ylabel(up)
        axis.legend(fontsize=7)
    return save_figure(figure, path)
