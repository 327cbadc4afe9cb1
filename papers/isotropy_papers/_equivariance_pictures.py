"""Pictures of equivariance errors: against accuracy, as bars, and stacked by layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from isotropy.report import save_figure
from isotropy_papers._experiment import Cell

# the kind of a layer, and how much it is to be drawn with
Part: TypeAlias = tuple[str, float]


def draw_scatter(
    cells: Sequence[Cell],
    across: str,
    ups: Sequence[str],
    path: Path,
    curves: Mapping[str, Sequence[tuple[float, Cell]]] | None = None,
) -> Path:
    """Draw columns of a table against another one, a panel for each and a point for each row.

    Args:
        cells: The table.
        across: The column along x.
        ups: The columns along y, on a logarithmic scale.
        path: The PNG file.
        curves: For one more panel: numbers of probes, on a logarithmic scale, with cells, by name.

    Example:
        >>> import tempfile
        >>> cells = [Cell("CNN", "accuracy", 0.5), Cell("CNN", "LEE", 2.0, None, (1.0, 3.0))]
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     draw_scatter(cells, "accuracy", ["LEE"], Path(folder) / "a.png").is_file()
        True
    """
    figure, all_axes = _panels(len(ups) + bool(curves), 3.4)
    axes = all_axes[: len(ups)]
    found = {(cell.row, cell.column): cell for cell in cells}
    rows = list(dict.fromkeys(cell.row for cell in cells))
    for axis, up in zip(axes, ups, strict=True):
        for number, row in enumerate(rows):
            if (row, across) in found and (row, up) in found:
                cell = found[row, up]
                axis.errorbar(
                    found[row, across].ours,
                    cell.ours,
                    yerr=_whiskers([cell]),
                    linestyle="none",
                    color=f"C{number % 10}",
                    marker="os^Dv"[number // 10 % 5],
                    label=row,
                )
        if any(found[row, up].ours > 0 for row in rows if (row, up) in found):
            axis.set_yscale("log", nonpositive="clip")
        axis.set_xlabel(across)
        axis.set_title(up, fontsize=9)
    if axes[-1].get_legend_handles_labels()[0]:
        axes[-1].legend(fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5))
    for name, points in (curves or {}).items():
        places, shown = [x for x, _ in points], [cell for _, cell in points]
        axis = all_axes[-1]
        axis.errorbar(places, [c.ours for c in shown], yerr=_whiskers(shown), label=name, capsize=2)
        axis.set_xscale("log")
        axis.set_xlabel("probes")
        axis.set_title("estimate / exact", fontsize=9)
        axis.legend(fontsize=6)
    return save_figure(figure, path)


def draw_bars(panels: Mapping[str, Sequence[Cell]], path: Path, up: str) -> Path:
    """Draw a panel for each entry, a bar for each of its cells, named by its row.

    Args:
        panels: From titles to cells.
        path: The PNG file.
        up: What y is.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.png"
        ...     draw_bars({"case": [Cell("CNN", "LEE", 2.0)]}, path, "LEE").is_file()
        True
    """
    figure, axes = _panels(len(panels), 2.2)
    for axis, (title, cells) in zip(axes, panels.items(), strict=True):
        places = range(len(cells))
        colours = [f"C{place % 10}" for place in places]
        axis.bar(places, [c.ours for c in cells], yerr=_whiskers(cells), color=colours, capsize=2)
        axis.set_xticks(places, [c.row for c in cells], rotation=40, ha="right", fontsize=7)
        axis.set_title(title, fontsize=9)
    axes[0].set_ylabel(up)
    return save_figure(figure, path)


def draw_stacks(
    panels: Mapping[str, Mapping[str, Sequence[tuple[str, float]]]], path: Path
) -> Path:
    """Draw a panel for each entry, a stack for each model, a part for each of its layers.

    Args:
        panels: From titles to models; for each the kinds of its layers in order, with amounts.
        path: The PNG file.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.png"
        ...     draw_stacks({"a": {"CNN": [("activation", 2.0)]}}, path).is_file()
        True
    """
    from matplotlib.patches import Patch

    kinds = list(
        dict.fromkeys(
            kind for stacks in panels.values() for parts in stacks.values() for kind, _ in parts
        )
    )
    colours = {kind: f"C{number % 10}" for number, kind in enumerate(sorted(kinds))}
    figure, axes = _panels(len(panels), 3.4)
    for axis, (title, stacks) in zip(axes, panels.items(), strict=True):
        for place, parts in enumerate(stacks.values()):
            below = 0.0
            for kind, amount in parts:
                axis.bar(
                    place, amount, bottom=below, color=colours[kind], edgecolor="white",
                    linewidth=0.2,
                )  # fmt: skip
                below += amount
        axis.set_xticks(range(len(stacks)), list(stacks), rotation=40, ha="right", fontsize=7)
        axis.set_title(title, fontsize=9)
    axes[-1].legend(
        handles=[Patch(color=colour, label=kind) for kind, colour in colours.items()],
        fontsize=6, loc="center left", bbox_to_anchor=(1, 0.5),
    )  # fmt: skip
    return save_figure(figure, path)


def _panels(count: int, width: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1.6 + width * count, 3.6), layout="constrained")
    return figure, figure.subplots(1, max(1, count), squeeze=False)[0]


def _whiskers(cells: Sequence[Cell]) -> list[list[float]]:
    """How far intervals reach below and above."""
    spread = [cell.interval or (cell.ours, cell.ours) for cell in cells]
    below = [cell.ours - low for cell, (low, _) in zip(cells, spread, strict=True)]
    above = [high - cell.ours for cell, (_, high) in zip(cells, spread, strict=True)]
    return [below, above]
