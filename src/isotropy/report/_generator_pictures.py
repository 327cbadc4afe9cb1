"""Generators of a continuous symmetry, and the form they keep, as small pictures of matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

import numpy as np

from isotropy.discovery.claims._statement import ContinuousDetails
from isotropy.report._matrix_plot import matrix_numbers, matrix_plot
from isotropy.report._plots import Plots
from isotropy.report._words import (
    EXACT,
    Array,
    in_words,
    short_name,
    squares_in_words,
    three_digits,
    true_minus,
    without_rounding,
)

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_MOST, _LARGEST = 36, 64  # generators drawn, and rows of one that still can be
_MOST_PLOTS = 15  # generators that become plots; more would weigh a page down
_NUMBERED, _RULED = 6, 16  # rows up to which cells have numbers, and lines between them
_LONGEST_NUMBER = 6  # characters of a number in a cell
_LETTER, _LINE, _CELL, _SIDE = 6.2, 13.0, 22.0, 136.0
_NARROWEST, _SMALL = 136.0, 180.0  # column of text, and picture that a phone shows two of
_LEVELS = 10  # of a colour
_LOWERED = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_KEY = "<span class='plus'>orange</span> is positive, <span class='minus'>blue</span> negative"


def generator_pictures(finding: Finding, plots: Plots | None = None) -> str:
    """The generators as heat maps with captions, as HTML; nothing where there are none.

    Example:
        >>> from isotropy.discovery import Finding
        >>> turn = Finding.of("SO(2)", "SO(2)", generators=[[[0, -1], [1, 0]]])
        >>> "rotates x0 into x1" in generator_pictures(turn)
        True
    """
    details = finding.details
    if not isinstance(details, ContinuousDetails) or details.generators is None:
        return ""
    generators = details.generators
    if not generators.size:
        return ""
    count, size = len(generators), generators.shape[-1]
    head = "<h3>Generators</h3><p class='aside'>"
    if count > 1:
        head += f"Every motion of the group's Lie algebra is a mix of these {count}. "
    if size > _LARGEST:
        return f"{head}Matrices of {size} × {size} are too large to draw.</p>"
    names = _labels(details, size)
    affine = (
        1 < size == len(details.coordinates) + 1 and not without_rounding(generators)[:, -1].any()
    )
    head += f"Each row says how fast its coordinate grows with those of the columns: {_KEY}. "
    if affine:
        head += "The last column, 1, is a steady drift: a translation. "
    if count > _MOST:
        head += f"Shown are the first {_MOST} of {count}."
    figures = []
    for number, matrix in enumerate(generators[:_MOST], 1):
        words = in_words(matrix, names, affine)
        rows = len(matrix) - affine
        label = f"generator {number} of {count}, {rows} × {size}: {words}"
        picture, width = _heat_map(matrix[:rows], names, label)
        if plots is not None and count <= _MOST_PLOTS:
            picture = matrix_plot(matrix[:rows], names, label, picture, plots)
        name = f"A{str(number).translate(_LOWERED)}" if count > 1 else "A"
        caption = f"<b>{name}</b> {escape(words)}"
        figures.append(_figure(picture, caption, max(width, _NARROWEST)))
    below = "" if plots is None else matrix_numbers(generators, names, affine)
    return f"{head.strip()}</p><div class='pictures matrices'>{''.join(figures)}</div>{below}"


def metric_picture(finding: Finding, plots: Plots | None = None) -> str:
    """The invariant metric as a heat map with its signs, as HTML; nothing where there is none.

    Example:
        >>> from isotropy.discovery import Finding
        >>> boost = Finding.of("SO(1,1)", "SO(1,1)", metric=[[1, 0], [0, -1]])
        >>> "Signs (+, −). x0² − x1² stays the same." in metric_picture(boost)
        True
    """
    details = finding.details
    if not isinstance(details, ContinuousDetails) or details.metric is None:
        return ""
    if not 0 < len(details.metric) <= _LARGEST:
        return ""
    metric, generators = without_rounding(details.metric), details.generators
    names = _labels(details, len(metric))
    rates = np.diag(metric)
    form = "This form"
    if (metric == np.diag(rates)).all():
        signs = f"Signs ({', '.join('−0+'[int(np.sign(rate)) + 1] for rate in rates)})"
        if len(rates) <= _NUMBERED and rates.any():
            form = squares_in_words(rates, names)
    else:
        values = without_rounding(np.linalg.eigvalsh((metric + metric.T) / 2))
        counts = [
            f"{number} {word}"
            for sign, word in ((1, "positive"), (-1, "negative"), (0, "zero"))
            if (number := int((np.sign(values) == sign).sum()))
        ]
        signs = f"Signs along its own axes, which mix coordinates: {', '.join(counts)}"
    if generators is not None and generators.shape[-1] == len(metric) + 1:
        form += " of differences between points"
    words = f"{signs}. {form} stays the same."
    label = f"invariant metric. {words}"
    picture, width = _heat_map(metric, names, label)
    if plots is not None:
        picture = matrix_plot(metric, names, label, picture, plots)
    return (
        f"<h3>Invariant metric</h3><div class='matrices'>"
        f"{_figure(picture, escape(words), max(width, 2 * _NARROWEST))}</div>"
    )


def _labels(details: ContinuousDetails, size: int) -> list[str]:
    """The names of the coordinates, then of the constant where the width has room for one."""
    given = [str(name) for name in details.coordinates]
    if given and len(given) in (size, size - 1):
        return [*given, "1"][:size]
    return [f"x{place}" for place in range(size)]


def _entry(value: float) -> str:
    """Three digits, or two decimals where these are shorter and still tell it from zero."""
    words = three_digits(value)
    if len(words) > _LONGEST_NUMBER and 0.005 < abs(value) < 1:
        return true_minus(f"{value:.2f}")
    return words


def _figure(picture: str, caption: str, width: float) -> str:
    kind = "small" if width <= _SMALL else "large"
    return (
        f"<figure class='{kind}' style='--wide: {width:.0f}px'>{picture}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _heat_map(matrix: Array, names: Sequence[str], label: str) -> tuple[str, float]:
    """A matrix as an SVG, its rows and columns named, and how wide it is."""
    matrix, names = without_rounding(matrix), [short_name(name) for name in names]
    rows, columns = matrix.shape
    numbers = [[_entry(value) for value in row] for row in matrix.tolist()]
    longest = max(len(number) for row in numbers for number in row)
    numbered = max(rows, columns - 1) <= _NUMBERED and longest <= _LONGEST_NUMBER
    cell = max(_CELL, _LETTER * longest + 5) if numbered else min(_CELL, _SIDE / columns)
    turned = _LETTER * max(map(len, names)) + 4 > cell
    left = _LETTER * max(map(len, names[:rows])) + 8
    top = left if turned else _LINE + 3
    width, height = left + columns * cell + 1, top + rows * cell + 1
    step = math.ceil(_LINE / cell)
    texts = [
        f"<text x='{left - 5:.1f}' y='{top + (row + 0.5) * cell + 4:.1f}' text-anchor='end'>"
        f"{escape(names[row])}</text>"
        for row in range(0, rows, step)
    ]
    for column in range(0, columns, step):
        middle, name = left + (column + 0.5) * cell, escape(names[column])
        place = f"translate({middle + 4:.1f} {top - 5:.1f}) rotate(-90)"
        sideways = f"transform='{place}'"
        upright = f"x='{middle:.1f}' y='{top - 5:.1f}' text-anchor='middle'"
        texts.append(f"<text {sideways if turned else upright}>{name}</text>")
    if numbered:
        texts += [
            f"<text x='{left + (column + 0.5) * cell:.1f}' y='{top + (row + 0.5) * cell + 4:.1f}' "
            f"text-anchor='middle' opacity='{1 if matrix[row, column] else 0.5}'>{number}</text>"
            for row, several in enumerate(numbers)
            for column, number in enumerate(several)
        ]
    cells = "".join(_cells(matrix))
    return (
        f"<svg viewBox='0 0 {width:.1f} {height:.1f}' width='{width:.1f}' role='img' "
        f"aria-label='{escape(label)}'><g transform='translate({left:.1f} {top:.1f}) "
        f"scale({cell:.3f})'>{cells}</g>{''.join(texts)}</svg>",
        width,
    )


def _cells(matrix: Array) -> Iterator[str]:
    """A path for the cells of each shade, and the lines around all."""
    rows, columns = matrix.shape
    levels = np.ceil(np.abs(matrix) / (np.abs(matrix).max() or 1.0) * _LEVELS - EXACT)
    for colour, sign in (("plus", 1), ("minus", -1)):
        for level in range(1, _LEVELS + 1):
            places = np.argwhere((levels == level) & (np.sign(matrix) == sign)).tolist()
            squares = "".join(f"M{column} {row}h1v1h-1z" for row, column in places)
            if squares:
                yield f"<path d='{squares}' fill='var(--{colour})' opacity='{level / _LEVELS:g}'/>"
    lines = f"M0 0h{columns}v{rows}h-{columns}z"
    if columns <= _RULED:
        lines += "".join(f"M0 {row}h{columns}" for row in range(1, rows))
        lines += "".join(f"M{column} 0v{rows}" for column in range(1, columns))
    yield f"<path d='{lines}' class='lines'/>"
