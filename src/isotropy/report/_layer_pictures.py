"""Layers of a network: their types, how these were learned, and how far each is from symmetry."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from isotropy.discovery.claims._statement import LayerDetails
from isotropy.report._finding_tables import html_table
from isotropy.report._plots import Plots, numbers_below, plot_axis, plot_text
from isotropy.report._words import short_number

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_SHADES = ("var(--accent)", "var(--not)", "var(--third)", "var(--fourth)", "var(--other)")
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_BORDERS = {"solid": "solid", "dot": "dotted"}
_PATTERNS = ("", "/", "x", ".", "-")
_SMALL, _BARS = 170.0, 300.0  # heights in pixels
_WIDE = 205.0
_MOST = 12  # layers whose history is drawn
_APART = ("history", "lee")  # what is drawn, and not in the table


def layer_pictures(finding: Finding, plots: Plots) -> str:
    """All that is known of the layers, as HTML; nothing where the finding has none."""
    details = finding.details
    if not isinstance(details, LayerDetails) or not details.layers:
        return ""
    rows = [
        {key: value for key, value in layer.items() if key not in _APART and _is_plain(value)}
        for layer in details.layers
    ]
    return (
        f"<h3>Layers of the network</h3>{html_table(rows)}"
        f"{_histories(details.layers, plots)}{_errors(details.layers, plots)}"
    )


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, str | int | float)


def _name(layer: Mapping[str, Any], number: int) -> str:
    return str(layer.get("layer", f"layer {number}"))


def _histories(layers: Sequence[Mapping[str, Any]], plots: Plots) -> str:
    """The shares of paths over training, a small plot for each layer."""
    known = [
        (_name(layer, number), list(layer["history"]))
        for number, layer in enumerate(layers)
        if layer.get("history")
    ][:_MOST]
    if not known:
        return ""
    paths = list(dict.fromkeys(path for _, steps in known for step in steps for path in step))
    paths = [path for path in paths if path != "epoch"][: len(_SHADES)]
    keys = "".join(
        f"<span class='key' style='--shade: {shade}; --dash: {_BORDERS.get(dash, 'dashed')}'>"
        f"</span>{escape(path)}"
        for path, shade, dash in zip(paths, _SHADES, _DASHES, strict=False)
    )
    figures = []
    for name, steps in known:
        last = ", ".join(f"{path} {_share(steps[-1], path):.2f}" for path in paths)
        label = f"shares of the paths of {name} over {len(steps)} estimates; at the end {last}"
        place = plots.add(_history_figure(steps, paths), label, _SMALL)
        figures.append(
            f"<figure class='small' style='--wide: {_WIDE:.0f}px'>{place}<figcaption>"
            f"{escape(name)}</figcaption></figure>"
        )
    table = [
        {"layer": name, "epoch": _epochs(steps)[at], **{p: _share(steps[at], p) for p in paths}}
        for name, steps in known
        for at in sorted({0, len(steps) // 2, len(steps) - 1})
    ]
    return (
        "<h3>The type of each layer, as it was learned</h3><p class='aside'>The share of what a "
        f"layer has learned that is in each of its paths, over training.</p><p>{keys}</p>"
        f"<div class='pictures matrices'>{''.join(figures)}</div>{numbers_below(html_table(table))}"
    )


def _history_figure(steps: Sequence[Mapping[str, Any]], paths: Sequence[str]) -> dict[str, Any]:
    lines = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": plot_text(path),
            "x": _epochs(steps),
            "y": [_share(step, path) for step in steps],
            "line": {"color": shade, "dash": dash, "width": 2.5},
            "hovertemplate": "%{y:.2f}",
        }
        for path, shade, dash in zip(paths, _SHADES, _DASHES, strict=False)
    ]
    largest = max((_share(step, path) for step in steps for path in paths), default=1.0)
    layout = {
        "margin": {"l": 6, "r": 6, "t": 6, "b": 24},
        "hovermode": "x unified",
        "xaxis": plot_axis(showgrid=False, nticks=4),
        "yaxis": plot_axis(range=[-0.02, max(1.02, 1.02 * largest)], nticks=4),
    }
    return {"data": lines, "layout": layout}


def _epochs(steps: Sequence[Mapping[str, Any]]) -> list[float]:
    return [step.get("epoch", number) for number, step in enumerate(steps, 1)]


def _share(step: Mapping[str, Any], path: str) -> float:
    value = float(step.get(path) or 0.0)
    return value if math.isfinite(value) else 0.0


def _errors(layers: Sequence[Mapping[str, Any]], plots: Plots) -> str:
    """What each layer adds to the local equivariance error, as bars."""
    known = [
        (_name(layer, number), dict(layer["lee"]))
        for number, layer in enumerate(layers)
        if layer.get("lee")
    ]
    if not known:
        return ""
    actions = list(dict.fromkeys(action for _, errors in known for action in errors))
    bars = [
        {
            "type": "bar",
            "name": plot_text(action),
            "x": list(range(len(known))),
            "y": [_share(errors, action) for _, errors in known],
            "marker": {
                "color": _SHADES[at % len(_SHADES)],
                "pattern": {"shape": _PATTERNS[at % len(_PATTERNS)]},
            },
            "text": [plot_text(name) for name, _ in known],
            "textposition": "none",
            "hovertemplate": "%{text}: %{y:.3g}",
        }
        for at, action in enumerate(actions)
    ]
    layout = {
        "margin": {"l": 10, "r": 10, "t": 30, "b": 40},
        "barmode": "group",
        "showlegend": True,
        "legend": {"orientation": "h", "x": 0, "y": 1.15},
        "xaxis": plot_axis(
            showgrid=False,
            tickvals=list(range(len(known))),
            ticktext=[plot_text(name) for name, _ in known],
        ),
        "yaxis": plot_axis(title="local equivariance error", rangemode="tozero", nticks=6),
    }
    parts = (
        f"{name}, {action} {short_number(_share(errors, action))}"
        for name, errors in known
        for action in errors
    )
    label = f"local equivariance error by layer: {'; '.join(parts)}"
    table = [{"layer": name, **errors} for name, errors in known]
    place = plots.add({"data": bars, "layout": layout}, label, _BARS)
    return (
        "<h3>Local equivariance error by layer</h3><figure class='block'>"
        f"{place}<figcaption>What each layer adds to the error of the whole network (LEE): 0 where "
        f"it commutes with the motion.</figcaption>{numbers_below(html_table(table))}</figure>"
    )
