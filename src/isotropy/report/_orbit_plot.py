"""The weight matrix coloured by orbit, as a plot that names what the pointer is on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from isotropy.bases import equivariant_basis
from isotropy.discovery.claims._statement import WeightDetails
from isotropy.report._plots import numbers_below, plot_axis, plot_text

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_LARGEST = 1_000_000  # entries whose orbits are still worth the time
MOST_CELLS, MOST_ORBITS = 10_000, 1000  # beyond which a still picture serves
_NUMBERED = 12  # rows and columns up to which orbits are written in their cells
_LISTED = 400  # cells of a table that can still be read
_RULED = 32  # rows and columns up to which there are gaps between cells
_LINE = 13.0


@dataclass(frozen=True, eq=False)
class SharedWeights:
    """A partition of the entries of a matrix.

    Args:
        labels: Which are together, shape (rows, columns); negative where there is no weight.
        exact: Whether entries with one label are equal in every symmetric map, or in the model.
            If not, a linear fit could not tell them apart, which is no more than a hint.
    """

    labels: NDArray[np.int64]
    exact: bool


def shared_weights(finding: Finding) -> SharedWeights | None:
    """The orbits of the group where its action is known, else the labels of the finding.

    Labels that led to a permutation symmetry are those of a fit with noise in it: they may split
    an orbit, and join several. A model that shares by its labels has them exactly.

    Example:
        >>> from isotropy.discovery import Finding
        >>> from isotropy.groups import Z
        >>> from isotropy.reps import Symmetry, V
        >>> noisy = np.array([[0, 1], [2, 0]])
        >>> found = Finding.of("Z(2)", "Z(2)", labels=noisy, symmetry=Symmetry(Z(2), V, V))
        >>> weights = shared_weights(found)
        >>> weights.exact, bool(weights.labels[0, 1] == weights.labels[1, 0])
        (True, True)
    """
    details, symmetry = finding.details, finding.symmetry
    if not isinstance(details, WeightDetails) or details.labels is None:
        return None
    labels = np.atleast_2d(details.labels)
    spec = finding.model_spec or {}
    if symmetry is None or spec.get("kind") == "shared linear":
        return SharedWeights(labels, exact=True)
    shape = (symmetry.rep_out.size(), symmetry.rep_in.size())
    if shape == labels.shape and labels.size <= _LARGEST:
        orbits = equivariant_basis(symmetry.rep_in >> symmetry.rep_out).orbits()
        if orbits is not None and orbits.signs is None:
            return SharedWeights(orbits.labels.numpy().astype(np.int64).reshape(shape), exact=True)
    return SharedWeights(labels, exact=False)


def orbit_figure(
    labels: NDArray[np.int64],
    down: Sequence[str],
    across: Sequence[str],
    colours: Sequence[str],
    margins: tuple[float, float],
    exact: bool = True,
) -> dict[str, Any]:
    """A matrix of labels as a heat map; those that are negative are left out.

    Args:
        labels: Which weights are equal, shape (rows, columns).
        down: Names of the rows.
        across: Those of the columns.
        colours: One for each orbit, in the order of the labels.
        margins: Room in pixels for the names of rows, and for those of columns.
        exact: Whether weights of one label are equal, or only could not be distinguished.

    Example:
        >>> figure = orbit_figure(np.array([[0, 1], [1, 0]]), "ab", "cd", ["#111", "#222"], (9, 9))
        >>> figure["data"][0]["text"][0][1]
        'a ← d<br>orbit 2 of 2: 2 equal weights'
    """
    rows, columns = labels.shape
    numbers = _numbered(labels)
    sizes = np.bincount(numbers[numbers > 0])
    texts = [
        [
            _words(down[row], across[column], int(numbers[row, column]), sizes, exact)
            for column in range(columns)
        ]
        for row in range(rows)
    ]
    count = len(colours)
    scale = [[(k + side) / count, colour] for k, colour in enumerate(colours) for side in (0, 1)]
    gap = 1 if max(rows, columns) <= _RULED else 0
    trace = {
        "type": "heatmap",
        "z": [[int(one) or None for one in row] for row in numbers],
        "text": texts,
        "hovertemplate": "%{text}<extra></extra>",
        "colorscale": scale,
        "zmin": 0.5,
        "zmax": count + 0.5,
        "showscale": False,
        "xgap": gap,
        "ygap": gap,
    }
    if max(rows, columns) <= _NUMBERED:
        trace["texttemplate"] = "%{z}"
        trace["textfont"] = {"size": 10, "color": "#16191d"}
    left, top = margins
    quiet = {"showgrid": False, "ticks": "", "automargin": False, "fixedrange": False}
    layout = {
        "margin": {"l": left, "r": 4, "t": top, "b": 4},
        "dragmode": "zoom",
        "xaxis": plot_axis(**quiet, **_ticks(across), side="top", tickangle=-90),
        "yaxis": plot_axis(**quiet, **_ticks(down), autorange="reversed"),
    }
    return {"data": [trace], "layout": layout}


def orbit_numbers(
    labels: NDArray[np.int64], down: Sequence[str], across: Sequence[str], exact: bool = True
) -> str:
    """The orbits by number, folded away: a table where it can be read, else how many there are."""
    numbers = _numbered(labels)
    word = "orbits" if exact else "colours"
    if numbers.size > _LISTED:
        sizes = np.bincount(numbers[numbers > 0])[1:]
        return (
            f"<p class='aside'>{len(sizes)} {word} of {sizes.min()} to {sizes.max()} entries "
            "each.</p>"
        )
    top = "".join(f"<th scope='col'>{escape(name)}</th>" for name in across)
    lines = (
        f"<tr><th scope='row'>{escape(name)}</th>"
        + "".join(f"<td>{int(one) or '–'}</td>" for one in row)
        + "</tr>"
        for name, row in zip(down, numbers, strict=True)
    )
    table = f"<div class='matrix'><table><tr><td></td>{top}</tr>{''.join(lines)}</table></div>"
    return numbers_below(table, f"The {word} by number")


def _numbered(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Orbits counted from 1; no weight is 0."""
    blocks = np.unique(labels[labels >= 0])
    return np.where(labels >= 0, np.searchsorted(blocks, labels) + 1, 0)


def _words(output: str, source: str, orbit: int, sizes: NDArray[np.int64], exact: bool) -> str:
    place = plot_text(" ← ".join(name for name in (output, source) if name))
    if not orbit:
        return f"{place}<br>no weight"
    one, several = ("weight", "equal weights") if exact else ("coefficient", "alike coefficients")
    shared = f"{sizes[orbit]} {several}" if sizes[orbit] > 1 else f"one {one}"
    return f"{place}<br>{'orbit' if exact else 'colour'} {orbit} of {len(sizes) - 1}: {shared}"


def _ticks(names: Sequence[str]) -> dict[str, Any]:
    """A name at each place; plotly leaves out none, so only as many as can be read."""
    step = -(-len(names) // 46)
    places = list(range(0, len(names), step))
    return {"tickvals": places, "ticktext": [plot_text(names[place]) for place in places]}
