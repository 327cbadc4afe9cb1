"""Pictures of a finding: the weights that are equal, and what the symmetry costs."""

from __future__ import annotations

import base64
import colorsys
import io
import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotropy.report._basis_picture import LARGEST_PICTURE
from isotropy.report._orbit_plot import (
    MOST_CELLS,
    MOST_ORBITS,
    orbit_figure,
    orbit_numbers,
    shared_weights,
)
from isotropy.report._plots import Plots
from isotropy.report._words import percent, short_name

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_LEFT, _ACROSS, _WIDTH = 30.0, 230.0, 330.0  # of the picture of an effect
_SIDE, _CELL, _LETTER, _LINE = 300.0, 28.0, 6.2, 13.0  # of the picture of weights
_EQUAL = (
    "The weights of a linear map, outputs down and inputs across: those of one colour are equal."
)
_FITTED = "coefficients of a linear fit"
_ALIKE = (
    "The coefficients of a linear fit, outputs down and inputs across: those of one colour could "
    "not be told apart."
)
_QUIET = (0.86, 0.87, 0.89)
_GOLDEN = (5**0.5 - 1) / 2


def partition_picture(finding: Finding, plots: Plots | None = None) -> str:
    """The weights as a coloured matrix, with the names of its rows and columns."""
    weights = shared_weights(finding)
    if weights is None or not 0 < weights.labels.size <= LARGEST_PICTURE:
        return ""
    labels = weights.labels
    rows, columns = labels.shape
    down, across = _axis_names(finding, "output", rows), _axis_names(finding, "input", columns)
    left, top = (_LETTER * max(map(len, names)) + 12 for names in (down, across))
    # a line for each name, while there is room
    tall, wide = (min(_CELL, max(_SIDE, min(_LINE * k, 2 * _SIDE)) / k) for k in labels.shape)
    texts = [
        f"<text x='{left - 5:.1f}' y='{top + (row + 0.5) * tall + 4:.1f}' text-anchor='end'>"
        f"{escape(down[row])}</text>"
        for row in range(0, rows, math.ceil(_LINE / tall))
    ] + [
        f"<text transform='translate({left + (column + 0.5) * wide + 4:.1f} {top - 5:.1f}) "
        f"rotate(-90)'>{escape(across[column])}</text>"
        for column in range(0, columns, math.ceil(_LINE / wide))
    ]
    width, height = columns * wide, rows * tall
    orbits = len(np.unique(labels[labels >= 0]))
    what = f"weights of a linear map with {finding.name}" if weights.exact else _FITTED
    label = f"{rows} × {columns} {what}, in {orbits} colours"
    picture = (
        f"<svg viewBox='0 0 {left + width + 6:.1f} {top + height + 1:.1f}' role='img' "
        f"width='{left + width + 6:.1f}' aria-label='{escape(label)}'>"
        f"<image x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' "
        f"preserveAspectRatio='none' href='{_pixels(labels)}'/>{''.join(texts)}</svg>"
    )
    rest = ""
    if plots is not None and labels.size <= MOST_CELLS and 0 < orbits <= MOST_ORBITS:
        colours = [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in _shades(labels)]
        figure = orbit_figure(labels, down, across, colours, (left, top), weights.exact)
        size = (max(left + width + 8, 160), top + height + 8)
        picture = plots.add(figure, label, size[1], width=size[0], still=picture)
        rest = orbit_numbers(labels, down, across, weights.exact)
    return (
        f"<figure>{picture}<figcaption>{_EQUAL if weights.exact else _ALIKE}</figcaption>"
        f"{rest}</figure>"
    )


def effect_picture(finding: Finding) -> str:
    """The effect with its interval, on a line with zero and the margin."""
    if not finding.samples or math.isnan(finding.effect):
        return ""
    points = [finding.effect, *finding.interval, 0.0, 1.5 * finding.margin]
    known = [point for point in points if math.isfinite(point)]
    low, high = min(known), max(known)

    def at(share: float) -> float:
        return min(max(_LEFT + (share - low) / (high - low) * _ACROSS, 0.0), _WIDTH)

    zero, edge, middle = at(0.0), at(finding.margin), at(finding.effect)
    start, end = map(at, finding.interval)
    colour = "var(--sure)" if finding.confirmed else "var(--not)"
    cost, margin = escape(percent(finding.effect)), escape(percent(finding.margin))
    return (
        f"<figure><svg viewBox='0 0 {_WIDTH:g} 80' width='{_WIDTH:g}' role='img' "
        f"aria-label='cost {cost}, margin {margin}'>"
        f"<rect x='0' y='20' width='{edge:.1f}' height='36' fill='var(--sure)' opacity='.13'/>"
        f"<path d='M{zero:.1f} 20v42M{edge:.1f} 20v42' stroke='#888' stroke-width='1'/>"
        f"<text x='{zero + 6:.1f}' y='74' text-anchor='end'>0 %</text>"
        f"<text x='{edge - 6:.1f}' y='74'>margin {margin}</text>"
        f"<path d='M{start:.1f} 38H{end:.1f}' stroke='{colour}' stroke-width='4'/>"
        f"<circle cx='{middle:.1f}' cy='38' r='6' fill='{colour}'/>"
        f"<text x='{middle:.1f}' y='14' text-anchor='middle'>{cost}</text></svg>"
        "<figcaption>What the symmetry costs, as a share of what can be learned: estimate and "
        "95 % limits. Shaded: what counts as a symmetry.</figcaption></figure>"
    )


def _axis_names(finding: Finding, side: str, count: int) -> list[str]:
    """The names of columns where a finding has them, cut in the middle: their ends differ."""
    rep = getattr(finding.symmetry, "rep_out" if side == "output" else "rep_in", None)
    if rep is not None and rep.size() != count:
        return [""] * count  # combinations of classes have no names
    given = getattr(finding, f"{side}_names", None) or ()
    letter = "y" if side == "output" else "x"
    names = given if len(given) == count else [f"{letter}{place}" for place in range(count)]
    return [short_name(name) for name in names]


def _pixels(labels: NDArray[np.int64]) -> str:
    """A pixel for each weight, as the text of a PNG; negative labels are white: no weight."""
    colours = np.concatenate([_shades(labels), [[255, 255, 255]]]).astype(np.uint8)
    blocks = np.unique(labels[labels >= 0])
    which = np.where(labels >= 0, np.searchsorted(blocks, labels), len(blocks))
    return png_text(colours[which])


def _shades(labels: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The colours of the orbits, in the order of their labels, shape (orbits, 3)."""
    blocks, counts = np.unique(labels[labels >= 0], return_counts=True)
    colours = _soft_palette(len(blocks))
    if len(blocks) > 1 and 2 * counts.max() > labels.size:
        colours[counts.argmax()] = _QUIET  # as a rule, the zeros around a filter
    return np.round(colours * 255).astype(np.uint8)


def _soft_palette(count: int) -> NDArray[np.float64]:
    """Distinct colours on which dark letters can be read: hues a golden ratio apart."""
    return np.array(
        [
            colorsys.hsv_to_rgb(
                (0.58 + k * _GOLDEN) % 1.0, 0.3 + 0.125 * (7 * k % 3), 0.84 + 0.04 * (5 * k % 4)
            )
            for k in range(count)
        ]
    ).reshape(-1, 3)


def png_text(pixels: NDArray[np.uint8]) -> str:
    """An image of bytes, shape (height, width) or (height, width, 3), as the address of a PNG."""
    from PIL import Image

    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
