"""Contributions of layers to the Lie derivative, as stacked bars (thesis, Figure 4.4)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from isotropy.equivariance import LayerContribution, Layerwise, Measurement
from isotropy.report._figure_files import png_path, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The colours of Okabe and Ito, which the colour-blind can tell apart, and two greys.
_COLOURS = {
    "embedding": "#009E73",
    "convolution": "#56B4E9",
    "strided convolution": "#0072B2",
    "normalisation": "#F0E442",
    "activation": "#E69F00",
    "pooling": "#D55E00",
    "attention": "#CC79A7",
    "linear": "#555555",
    "other": "#BBBBBB",
}
_DARK = ("strided convolution", "linear", "pooling", "embedding")
_HEIGHT = 6.0  # of a bar's panel, in inches
_MOST_NAMED_BARS = 6
_LONGEST_NAME = 30
_LETTER = 6.0  # points


def plot_contributions(
    found: Measurement | Layerwise | Mapping[str, Layerwise],
    path: str | Path,
    *,
    percent: bool = False,
) -> Path:
    """Draw the contributions of layers as stacked bars, and write them as a PNG file.

    One bar for each result, its layers from bottom to top in the order in which they act, coloured
    by kind. A layer is as high as E ‖C‖ / √K, its `LayerContribution.contribution`. Results under
    different actions, whose units differ, come in panels with axes of their own.

    Args:
        found: A measurement with layers, one result, or several by name: models side by side.
        path: Where to write it; must end in .png.
        percent: Whether each bar is scaled to 100 %.

    Returns:
        The path written.

    Raises:
        ValueError: If there are no layers to draw, or the path does not end in .png.

    Example:
        >>> import tempfile
        >>> layers = (
        ...     LayerContribution("conv", "strided convolution", 2.0, 4.0, 0.7, 0.1),
        ...     LayerContribution("relu", "activation", 1.0, 1.0, 0.3, 0.1),
        ... )
        >>> net = Layerwise("rotation", layers, 1.0, 1e-7, 20, "forward")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_contributions({"a net": net}, f"{folder}/net.png").name
        'net.png'
    """
    from matplotlib.figure import Figure

    path = png_path(path)
    panels = _panels(found)
    bars = sum(map(len, panels.values()))
    named = bars <= _MOST_NAMED_BARS
    width = (1.9 if named else 0.7) * bars + 0.8 * len(panels) + 1.9
    figure = Figure(figsize=(width, _HEIGHT), layout="constrained")
    ratios = [len(results) for results in panels.values()]
    axes = figure.subplots(1, len(panels), squeeze=False, width_ratios=ratios)[0]
    for axis, (action, results) in zip(axes, panels.items(), strict=True):
        _draw(axis, action, results, percent, named)
    axes[0].set_ylabel("share of all contributions (%)" if percent else _LABEL)
    _legend(axes[-1], panels)
    return save_figure(figure, path, tight=True)


_LABEL = "contribution to L  (E‖C‖ / √K)"


def _panels(
    found: Measurement | Layerwise | Mapping[str, Layerwise],
) -> dict[str, dict[str, Layerwise]]:
    """Results by action, then by name."""
    if isinstance(found, Measurement):
        results = dict(found.layers)
    elif isinstance(found, Layerwise):
        results = {found.action: found}
    else:
        results = dict(found)
    panels: dict[str, dict[str, Layerwise]] = {}
    for name, result in results.items():
        panels.setdefault(result.action, {})[name] = result
    if not any(result.layers for result in results.values()):
        raise ValueError("expected contributions of layers to draw, got none")
    return panels


def _draw(
    axis: Axes, action: str, results: Mapping[str, Layerwise], percent: bool, named: bool
) -> None:
    totals = [sum(layer.contribution for layer in result.layers) for result in results.values()]
    top = 100.0 if percent else max(totals) or 1.0
    for at, (result, total) in enumerate(zip(results.values(), totals, strict=True)):
        factor = 100 / total if percent and total else 1.0
        _stack(axis, at, result.layers, factor, top, named)
    axis.set_xticks(range(len(results)), list(results), rotation=0 if named else 45)
    if not named:
        for label in axis.get_xticklabels():
            label.set_horizontalalignment("right")
            label.set_rotation_mode("anchor")
    axis.set_xlim(-0.6, len(results) - 0.4)
    axis.set_ylim(0, top * 1.02)
    if list(results) != [action]:
        axis.set_title(action, fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", length=0)


def _stack(
    axis: Axes,
    at: int,
    layers: tuple[LayerContribution, ...],
    factor: float,
    top: float,
    named: bool,
) -> None:
    bottom = 0.0
    for layer in layers:
        height = layer.contribution * factor
        points = height / top * _HEIGHT * 72 * 0.85  # the panel is a little less than the figure
        axis.bar(
            at,
            height,
            bottom=bottom,
            width=0.84,
            color=_COLOURS.get(layer.kind, _COLOURS["other"]),
            edgecolor="white",
            linewidth=min(0.6, points / 8),  # a line must not hide a thin layer
        )
        if named and points > _LETTER * 1.3:
            axis.text(
                at,
                bottom + height / 2,
                _short(layer.name),
                ha="center",
                va="center",
                fontsize=_LETTER,
                color="white" if layer.kind in _DARK else "black",
                clip_on=True,
            )
        bottom += height


def _short(name: str) -> str:
    """A name whose middle is left out where it is long: the end tells most."""
    return name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME :]}"


def _legend(axis: Axes, panels: Mapping[str, Mapping[str, Layerwise]]) -> None:
    from matplotlib.patches import Patch

    there = {
        layer.kind if layer.kind in _COLOURS else "other"
        for results in panels.values()
        for result in results.values()
        for layer in result.layers
    }
    patches = [
        Patch(color=colour, label=kind) for kind, colour in _COLOURS.items() if kind in there
    ]
    axis.legend(
        handles=patches, loc="upper left", bbox_to_anchor=(1.02, 1.0), frameon=False, fontsize=8
    )
