"""Pictures of a finding: the weights that are equal, and what the symmetry costs."""

from __future__ import annotations

import base64
import io
import math
from html import escape
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from isotropy.report._basis_picture import LARGEST_PICTURE, _palette
from isotropy.report._motion_words import short_name
from isotropy.report._number_words import percent

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_LEFT, _ACROSS, _WIDTH = 30.0, 230.0, 330.0  # of the picture of an effect
_SIDE, _CELL, _LETTER, _LINE = 300.0, 28.0, 6.2, 13.0  # of the picture of weights
_QUIET = (0.86, 0.87, 0.89)


def partition_picture(finding: Finding) -> str:
    """The weights as a coloured matrix, with the names of its rows and columns."""
    if finding.labels is None or not 0 < finding.labels.size <= LARGEST_PICTURE:
        return ""
    labels = np.atleast_2d(finding.labels)
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
    return (
        f"<figure><svg viewBox='0 0 {left + width + 6:.1f} {top + height + 1:.1f}' role='img' "
        f"width='{left + width + 6:.1f}' aria-label='{rows} × {columns} weights of a linear map "
        f"with {escape(finding.name)}, in {len(np.unique(labels[labels >= 0]))} colours'>"
        f"<image x='{left:.1f}' y='{top:.1f}' width='{width:.1f}' height='{height:.1f}' "
        f"preserveAspectRatio='none' href='{_pixels(labels)}'/>{''.join(texts)}</svg><figcaption>"
        "The weights of a linear map, outputs down and inputs across: those of one colour are "
        "equal.</figcaption></figure>"
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
    from PIL import Image

    blocks, counts = np.unique(labels[labels >= 0], return_counts=True)
    colours = np.concatenate([_palette(len(blocks)), [[1.0, 1.0, 1.0]]])
    if len(blocks) > 1 and 2 * counts.max() > labels.size:
        colours[counts.argmax()] = _QUIET  # as a rule, the zeros around a filter
    which = np.where(labels >= 0, np.searchsorted(blocks, labels), len(blocks))
    buffer = io.BytesIO()
    Image.fromarray(np.round(colours[which] * 255).astype(np.uint8)).save(buffer, format="PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
