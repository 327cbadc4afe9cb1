"""A matrix of numbers as a plot: orange is positive, blue negative, the pointer reads them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from isotropy.report._plots import Plots, numbers_below, plot_axis, plot_text
from isotropy.report._words import Array, short_name, three_digits, without_rounding

_NUMBERED = 6  # rows up to which cells have numbers
_LISTED = 8  # rows of a matrix, and matrices, that a table can still list
_LETTER, _LINE = 6.6, 17.0
_CELL, _WIDE_CELL, _SMALLEST = 26.0, 34.0, 130.0


def matrix_plot(matrix: Array, names: Sequence[str], label: str, still: str, plots: Plots) -> str:
    """A heat map of a matrix, its rows and columns named, as HTML."""
    matrix = without_rounding(matrix)
    rows, columns = matrix.shape
    names = [short_name(name) for name in names]
    numbers = [[three_digits(float(value)) for value in row] for row in matrix]
    numbered = rows <= _NUMBERED and max(len(one) for row in numbers for one in row) <= 5
    simple = all(len(one) <= 2 for row in numbers for one in row)
    cell = (_CELL if simple else _WIDE_CELL) if numbered else max(_SMALLEST / columns, 3.0)
    step = -(-int(_LINE) // int(max(cell, 1)))
    left = _LETTER * max(map(len, names[:rows])) + 8
    turned = _LETTER * max(map(len, names)) + 2 > cell * step
    top = _LETTER * max(map(len, names)) + 8 if turned else _LINE + 3
    largest = float(np.abs(matrix).max()) or 1.0
    trace: dict[str, Any] = {
        "type": "heatmap",
        "z": matrix.tolist(),
        "text": [
            [
                plot_text(f"{names[i]}′ grows with {names[j]}: {numbers[i][j]}")
                for j in range(columns)
            ]
            for i in range(rows)
        ],
        "hovertemplate": "%{text}<extra></extra>",
        "colorscale": [[0, "var(--minus)"], [0.5, "var(--card)"], [1, "var(--plus)"]],
        "zmin": -largest,
        "zmax": largest,
        "showscale": False,
        "xgap": 1 if numbered else 0,
        "ygap": 1 if numbered else 0,
    }
    layout: dict[str, Any] = {
        "margin": {"l": left, "r": 2, "t": top, "b": 2},
        "xaxis": _axis(names, step, side="top", tickangle=-90 if turned else 0),
        "yaxis": _axis(names[:rows], step, autorange="reversed"),
    }
    if numbered:
        layout["annotations"] = [
            {
                "x": j,
                "y": i,
                "text": numbers[i][j],
                "showarrow": False,
                "opacity": 1 if matrix[i, j] else 0.45,
                "font": {"size": 11, "color": "var(--ink)"},
            }
            for i in range(rows)
            for j in range(columns)
        ]
    width, height = left + columns * cell + 3, top + rows * cell + 3
    return plots.add({"data": [trace], "layout": layout}, label, height, width=width, still=still)


def matrix_numbers(matrices: Array, names: Sequence[str], affine: bool) -> str:
    """Matrices as tables, folded away; nothing where they are large or many."""
    count, size = len(matrices), matrices.shape[-1]
    if size > _LISTED or count > _LISTED:
        return ""
    tables = (
        f"<p>A{number if count > 1 else ''}</p>{_table(matrix[: size - affine], names)}"
        for number, matrix in enumerate(without_rounding(matrices), 1)
    )
    return numbers_below("".join(tables))


def _table(matrix: Array, names: Sequence[str]) -> str:
    top = "".join(f"<th scope='col'>{escape(name)}</th>" for name in names)
    lines = (
        f"<tr><th scope='row'>{escape(name)}</th>"
        f"{''.join(f'<td>{three_digits(float(value))}</td>' for value in row)}</tr>"
        for name, row in zip(names, matrix, strict=False)
    )
    return f"<div class='matrix'><table><tr><td></td>{top}</tr>{''.join(lines)}</table></div>"


def _axis(names: Sequence[str], step: int, **settings: Any) -> dict[str, Any]:
    places = list(range(0, len(names), step))
    words = [plot_text(names[place]) for place in places]
    quiet = {"showgrid": False, "ticks": "", "automargin": False}
    return plot_axis(**quiet, tickvals=places, ticktext=words, tickfont={"size": 11}, **settings)
