"""The learned types of layers: shares of their paths, at the end and on the way there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from isotropy.report._figure_files import png_path, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from isotropy.layerwise import LayerType, LayerwiseResult
    from isotropy.layerwise._layerwise_result import LayerShares

# The colours of Okabe and Ito, which the colour-blind can tell apart.
_COLOURS = {
    "conv": "#0072B2",
    "sparse_conv": "#56B4E9",
    "group_conv": "#009E73",
    "fc": "#E69F00",
    "factored": "#D55E00",
    "sparse_fc": "#F0E442",
}
_SPARE = ("#CC79A7", "#555555", "#BBBBBB")
_DARK = ("#0072B2", "#009E73", "#D55E00", "#555555")
_MOST_ACROSS = 8  # small pictures of the history in a row
_BARS, _SMALL = 2.6, 1.5  # heights in inches
_LETTER = 8.0  # points
_LONGEST = 14  # letters of a name


def plot_layers(result: LayerwiseResult, path: str | Path) -> Path:
    """Draw the type of every layer, and how it was learned, and write a PNG file.

    Above, a bar for each layer from the input to the output: the relative effective numbers of
    its paths, with the name of the largest (van der Ouderaa et al. 2023, Figure 3). Below, these
    shares over the epochs.

    Args:
        result: What ``learn_layers`` gave.
        path: Where to write it; must end in .png.

    Returns:
        The path written.

    Raises:
        ValueError: If there are no layers to draw, or the path does not end in .png.

    Example:
        >>> import tempfile
        >>> import torch
        >>> from torch import nn
        >>> from isotropy.layerwise import LayerLearningOptions, learn_layers
        >>> from isotropy.nn import MapLinear, PathSum
        >>> paths = {"fc": MapLinear(1, 2, 4), "conv": nn.Conv2d(1, 2, 3, padding=1)}
        >>> model = nn.Sequential(PathSum(paths), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
        >>> x, y = torch.randn(20, 1, 4, 4), torch.arange(20) % 2
        >>> often = LayerLearningOptions(burn_in=1, every=1)
        >>> found = learn_layers(x, y, model=model, epochs=3, learning=often)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plot_layers(found, f"{folder}/layers.png").name
        'layers.png'
    """
    from matplotlib.figure import Figure

    path = png_path(path)
    if not result.types:
        raise ValueError("expected layers to draw, got none")
    colours = _colours(name for layer in result.types.values() for name in layer.paths)
    down = ceil(len(result.types) / _MOST_ACROSS)
    across = ceil(len(result.types) / down)
    size = (max(1.15 * max(across, len(result.types) / 2), 4.0) + 1.6, _BARS + _SMALL * down)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.add_gridspec(1 + down, across, height_ratios=[_BARS] + [_SMALL] * down)
    bars = figure.add_subplot(grid[0, :])
    _draw_bars(bars, result.types, colours)
    first: Axes | None = None
    for k, name in enumerate(result.types):
        axis = figure.add_subplot(grid[1 + k // across, k % across], sharex=first, sharey=first)
        first = axis if first is None else first
        _draw_history(axis, name, result.history, colours)
        is_lowest = k + across >= len(result.types)
        axis.tick_params(labelleft=k % across == 0, labelbottom=is_lowest)
        axis.set_xlabel("epoch" if is_lowest else "", fontsize=_LETTER)
    return save_figure(figure, path, tight=True)


def _colours(paths: Iterable[str]) -> dict[str, str]:
    """A colour for every path, those of unknown names from what is left."""
    found: dict[str, str] = {}
    strangers = 0
    for path in paths:
        if path in found:
            continue
        if path in _COLOURS:
            found[path] = _COLOURS[path]
        else:
            found[path] = _SPARE[strangers % len(_SPARE)]
            strangers += 1
    return found


def _draw_bars(axis: Axes, types: Mapping[str, LayerType], colours: Mapping[str, str]) -> None:
    from matplotlib.patches import Patch

    for at, layer in enumerate(types.values()):
        bottom = 0.0
        for path, share in layer.paths.items():
            axis.bar(at, share, bottom=bottom, width=0.86, color=colours[path], linewidth=0)
            if path == layer.kind:
                axis.text(
                    at,
                    bottom + share / 2,
                    path,
                    ha="center",
                    va="center",
                    fontsize=_LETTER,
                    color="white" if colours[path] in _DARK else "black",
                )
            bottom += share
        if layer.kind not in layer.paths:
            axis.text(at, 0.5, layer.kind, ha="center", va="center", fontsize=_LETTER)
    axis.set_xticks(range(len(types)), [_shown(name) for name in types], fontsize=_LETTER)
    if len(types) > _MOST_ACROSS:
        for label in axis.get_xticklabels():
            label.set(rotation=35, ha="right", rotation_mode="anchor")
    axis.set_xlim(-0.55, len(types) - 0.45)
    axis.set_ylim(0, 1)
    axis.set_yticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    axis.set_ylabel("relative effective number", fontsize=_LETTER)
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(axis="x", length=0)
    axis.legend(
        handles=[Patch(color=colour, label=path) for path, colour in colours.items()],
        loc="upper left",
        bbox_to_anchor=(1.01, 1.0),
        frameon=False,
        fontsize=_LETTER,
    )


def _draw_history(
    axis: Axes, name: str, history: Iterable[LayerShares], colours: Mapping[str, str]
) -> None:
    from matplotlib.ticker import MaxNLocator

    estimates = list(history)
    epochs = [shares.epoch for shares in estimates]
    for path in estimates[-1].layers[name] if estimates else ():
        values = [shares.layers[name][path] for shares in estimates]
        axis.plot(epochs, values, color=colours[path], linewidth=1.4, marker=".", markersize=3)
    axis.set_title(_shown(name), fontsize=_LETTER)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=3, integer=True))
    axis.set_ylim(-0.03, 1.03)
    axis.set_yticks([0, 1], ["0", "100 %"])
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(labelsize=_LETTER - 1)


def _shown(layer: str) -> str:
    """A name whose beginning is left out where it is long: the end tells most."""
    name = layer or "model"  # a sum that is the whole network has no name in it
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
