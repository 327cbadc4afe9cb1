"""What a symmetry saves: losses with and without it, over the number of rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Any

from isotropy.report._evidence_section import ranked
from isotropy.report._finding_tables import html_table
from isotropy.report._plots import Plots, numbers_below, plot_axis, plot_text
from isotropy.report._words import short_number, true_minus

if TYPE_CHECKING:
    from isotropy.discovery import Finding, Findings
    from isotropy.discovery.modelling._finding_models import ModelComparison

_HEIGHT = 330.0
_LOGARITHMIC = 8.0  # ratio of losses from which they need such an axis
_MOST_TICKS = 9
_MOST = 3  # curves on a page
_HEADS = {"with": "loss with the symmetry", "without": "loss without"}


def curve_section(found: Findings, plots: Plots) -> Iterator[str]:
    """Curves of data efficiency; nothing where none was measured."""
    having = [
        (one, one.comparison) for one in ranked(found) if one.comparison and one.comparison.curve
    ]
    if having:
        figures = "".join(_curve(one, comparison, plots) for one, comparison in having[:_MOST])
        yield (
            "<section><h2>With fewer rows</h2><p>Both models were fitted again to some of the rows "
            "only. The further left the lower line reaches the same loss, the more data the "
            f"symmetry saves.</p>{figures}</section>"
        )


def _curve(finding: Finding, comparison: ModelComparison, plots: Plots) -> str:
    rows = [{"rows": n, "with": strict, "without": free} for n, strict, free in comparison.curve]
    label = (
        f"{comparison.loss} by the number of rows, with {finding.name} and without. "
        + "; ".join(
            f"{n} rows: {short_number(strict)} with, {short_number(free)} without"
            for n, strict, free in comparison.curve
        )
    )
    place = plots.add(curve_figure(comparison), label, _HEIGHT)
    return (
        f"<figure class='block'>{place}<figcaption>{escape(comparison.loss.capitalize())} on "
        f"{comparison.samples:,} rows held out, with {escape(finding.name)} and without."
        "</figcaption>"
        f"{numbers_below(html_table(rows, None, _HEADS))}</figure>"
    )


def curve_figure(comparison: ModelComparison) -> dict[str, Any]:
    """Losses over rows, both axes with equal ratios where losses differ much.

    Example:
        >>> from isotropy.discovery.modelling._finding_models import ModelComparison
        >>> points = [(100, 0.3, 0.9), (200, 0.2, 0.6)]
        >>> comparison = ModelComparison(
        ...     "mean squared error", 0.2, 0.6, 1, 0.1, 50, 200, curve=points
        ... )
        >>> [line["name"] for line in curve_figure(comparison)["data"]][1]
        'with the symmetry'
    """
    counts = [n for n, _, _ in comparison.curve]
    losses = [loss for _, strict, free in comparison.curve for loss in (strict, free)]
    steep = min(losses) > 0 and max(losses) > _LOGARITHMIC * min(losses)
    near = not steep and comparison.constant < _LOGARITHMIC * max(losses)
    top = max(*losses, comparison.constant) if near else max(losses)
    lines = [
        _line("without", counts, [free for _, _, free in comparison.curve], "var(--other)", "dash"),
        _line(
            "with the symmetry",
            counts,
            [one for _, one, _ in comparison.curve],
            "var(--accent)",
            "solid",
        ),
    ]
    shapes, notes = [], []
    if near:  # else it would press the losses together
        shapes.append(
            {
                "type": "line",
                "xref": "paper",
                "x0": 0,
                "x1": 1,
                "y0": comparison.constant,
                "y1": comparison.constant,
                "line": {"color": "var(--line)", "width": 2, "dash": "dot"},
            }
        )
        notes.append(
            {
                "xref": "paper",
                "x": 0,
                "y": comparison.constant,
                "text": "always the same answer",
                "showarrow": False,
                "xanchor": "left",
                "yanchor": "bottom",
                "font": {"size": 11, "color": "var(--quiet)"},
            }
        )
    scale: dict[str, Any] = {"range": [0, 1.12 * top]}
    if steep:
        scale = {"type": "log", **_decades(losses)}
    layout = {
        "margin": {"l": 10, "r": 12, "t": 30, "b": 44},
        "hovermode": "x unified",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.12, "traceorder": "reversed"},
        "shapes": shapes,
        "annotations": notes,
        "xaxis": plot_axis(
            title="rows fitted to",
            type="log",
            tickvals=counts,
            ticktext=[f"{n:,}" for n in counts],
            showgrid=False,
        ),
        "yaxis": plot_axis(title=plot_text(comparison.loss), nticks=6, **scale),
    }
    return {"data": lines, "layout": layout}


def _line(
    name: str, rows: list[int], losses: list[float], colour: str, dash: str
) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": rows,
        "y": losses,
        "line": {"color": colour, "width": 2.5, "dash": dash},
        "marker": {"color": colour, "size": 8, "symbol": "circle" if dash == "solid" else "square"},
        "hovertemplate": "%{y:.3g}",
    }


def _decades(losses: list[float]) -> dict[str, Any]:
    """Round numbers among losses, as ticks: 1, 2 and 5 times powers of ten, or these alone."""
    low, high = min(losses) / 1.3, max(losses) * 1.3
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    values = [
        value
        for power in powers
        for step in (1, 2, 5)
        if low <= (value := float(f"{step}e{power}")) <= high
    ]
    if len(values) > _MOST_TICKS:
        values = [value for value in values if value in {float(f"1e{power}") for power in powers}]
    return {
        "tickvals": values,
        "ticktext": [true_minus(f"{value:g}") for value in values],
        "range": [math.log10(low), math.log10(high)],
    }
