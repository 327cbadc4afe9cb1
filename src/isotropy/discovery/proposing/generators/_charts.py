"""Coordinates in which a class of actions is looked for: scaled columns, blocks, combinations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._action_class import Output
from isotropy.discovery.proposing.generators._column_blocks import (
    ColumnBlocks,
    blocks_by_size,
    blocks_from_names,
)
from isotropy.discovery.proposing.generators._simple_numbers import echelon, heights, rounded
from isotropy.discovery.reading._task_data import TaskData

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Chart:
    """Coordinates w = L (x − shift) of the inputs, and the blocks which move in the same way.

    Args:
        reading: L, shape ``(r, n)``.
        lift: R, shape ``(n, r)``, with L R = 1: where a motion of w moves x.
        shift: Shape ``(n,)``.
        blocks: Coordinates w of each block, in matching order.
        scale: Of the coordinates of a block: in the user's units they are scale · w.
        names: Of the coordinates of a block.
        words: What moves, in words.
        columns: Where blocks are columns of the input: which.
        suggested: Whether names of columns, the shape of the data or the user say so.
    """

    reading: Array
    lift: Array
    shift: Array
    blocks: tuple[tuple[int, ...], ...]
    scale: Array
    names: tuple[str, ...]
    words: str
    columns: tuple[tuple[int, ...], ...] | None
    suggested: bool = False

    def points(self, x: Array, *, centred: bool) -> Array:
        """The coordinates w of inputs, from the shift or from the origin."""
        points: Array = (x - self.shift if centred else x) @ self.reading.T
        return points

    def rows(self, small: Array) -> Array:
        """Actions [A | b] on a block in the user's units, on whole inputs: ``(D, n, n + 1)``."""
        d, r = len(self.scale), len(self.reading)
        unit = small.copy()
        unit[:, :, :d] *= self.scale[None, None] / self.scale[None, :, None]
        unit[:, :, d] /= self.scale[None]
        moved = np.zeros((len(small), r, r + 1))
        for block in self.blocks:
            place = np.array(block)
            moved[:, place[:, None], place] = unit[:, :, :d]
            moved[:, place, r] = unit[:, :, d]
        linear = self.lift @ moved[:, :, :r] @ self.reading
        return np.concatenate([linear, (moved[:, :, r] @ self.lift.T)[:, :, None]], 2)


def chart_of_columns(
    x: Array,
    columns: tuple[tuple[int, ...], ...],
    names: tuple[str, ...],
    words: str,
    *,
    suggested: bool = False,
) -> Chart:
    """Blocks of columns with common scales."""
    n, d = x.shape[1], len(columns[0])
    kept = np.array(columns).ravel()
    means = np.mean([x[:, list(block)].mean(0) for block in columns], 0)
    deviations = np.sqrt(
        np.mean([((x[:, list(block)] - means) ** 2).mean(0) for block in columns], 0)
    )
    deviations = np.where(deviations > 0, deviations, 1.0)
    scale = deviations
    if deviations.max() < ProposingThresholds.now().similar_units * deviations.min():
        scale = np.full(d, np.sqrt((deviations**2).mean()))
    shift, sizes = np.zeros(n), np.ones(n)
    for block in columns:
        shift[list(block)], sizes[list(block)] = means, scale
    reading = np.zeros((len(kept), n))
    reading[range(len(kept)), kept] = 1.0 / sizes[kept]
    lift = np.zeros((n, len(kept)))
    lift[kept, range(len(kept))] = sizes[kept]
    blocks = tuple(tuple(range(i * d, i * d + d)) for i in range(len(columns)))
    return Chart(reading, lift, shift, blocks, scale, names, words, columns, suggested)


def chart_of_combinations(x: Array, combinations: Array, names: tuple[str, ...]) -> Chart:
    """Combinations of columns, the rows of a matrix, as one block."""
    values = x @ combinations.T
    scale = values.std(0)
    if scale.max() < ProposingThresholds.now().similar_units * scale.min():
        scale = np.full(len(scale), np.sqrt((scale**2).mean()))
    reading = combinations / scale[:, None]
    # the lift moves x as little as can be, columns measured by their spread
    spread = np.diag(x.var(0))
    lift = spread @ reading.T @ np.linalg.inv(reading @ spread @ reading.T)
    words = f"one action on {', '.join(names)}"
    everything = (tuple(range(len(combinations))),)
    return Chart(reading, lift, x.mean(0), everything, scale, names, words, None)


def simple_subspace(rows: Array, error: float, scale: Array) -> Array:
    """A basis of a row space known up to an error, of simple numbers if they are as near.

    Args:
        rows: Orthonormal, of shape ``(k, n)``, in coordinates x / scale.
        error: The sine of the angle by which they may be off.
        scale: Shape ``(n,)``.

    Returns:
        A basis in the coordinates x: echelon form, rounded where that is within the error.
    """
    reduced = _in_order(echelon(rows * scale))
    for height in heights(error):
        simple = _in_order(rounded(reduced, height))
        frame = np.linalg.qr((simple / scale).T)[0].T
        if np.linalg.norm(rows - (rows @ frame.T) @ frame, 2) <= max(error, 1e-9):
            return simple
    return reduced


def _in_order(rows: Array) -> Array:
    """Rows by the column of their first entry, which is made positive."""
    first = (np.abs(rows) > 1e-9).argmax(1)
    signs = np.sign(rows[range(len(rows)), first])
    ordered: Array = (rows * np.where(signs == 0, 1.0, signs)[:, None])[
        np.argsort(first, kind="stable")
    ]
    return ordered + 0.0  # no negative zeros


def combination_text(row: Array, names: tuple[str, ...]) -> str:
    """A combination of columns in words: "E1 + E2", "x0 − 0.5·x3".

    Example:
        >>> combination_text(np.array([1.0, -1.0, 0.5]), ("a", "b", "c"))
        'a − b + 0.5·c'
        >>> combination_text(np.array([1.0, 1e-9]), ("a", "b"))
        'a'
    """
    text, dust = "", 1e-6 * float(np.abs(row).max(initial=0.0))
    for value, name in zip(row, names, strict=True):
        if abs(value) <= dust:
            continue
        sign = "−" if value < 0 else "+"
        size = f"{abs(value):.3g}"
        term = name if size == "1" else f"{size}·{name}"
        text += f" {sign} {term}" if text else (f"−{term}" if value < 0 else term)
    return text or "0"


def charts_to_look_in(
    data: TaskData,
    x: Array,
    names: tuple[str, ...],
    given: ColumnBlocks | None,
    ignored: tuple[int, ...],
    combinations: Array,
) -> list[Chart]:
    """Where actions are looked for: blocks of columns, all columns, combinations of them."""
    n, channels = data.arrangement.inputs, data.arrangement.channels
    suggested = True
    if given is not None:
        candidates = [given]
    elif channels > 1:
        places = tuple(tuple(c * n + p for c in range(channels)) for p in range(n))
        labels = tuple(f"channel {c}" for c in range(channels))
        candidates = [ColumnBlocks(places, labels, (), "positions")]
    elif data.input_names is not None and (named := blocks_from_names(data.input_names)):
        candidates = list(named)
    else:
        candidates, suggested = blocks_by_size(n), False
    charts = []
    for blocks in candidates:
        kept = [j for j in range(blocks.d) if not all(b[j] in ignored for b in blocks.columns)]
        if len(kept) < 1 or blocks.k * blocks.d < 2:
            continue
        columns = tuple(tuple(block[j] for j in kept) for block in blocks.columns)
        labels = tuple(blocks.coordinates[j] for j in kept)
        words = f"the same action on {len(columns)} blocks of {len(kept)} columns"
        if len(columns) == 1:
            words = f"one action on {', '.join(names[c] for c in columns[0])}"
        charts.append(
            chart_of_columns(x, columns, labels, words, suggested=suggested and len(columns) > 1)
        )
    if given is not None:
        return charts
    widest = ProposingThresholds.now().widest_class
    live = tuple(i for i in range(x.shape[1]) if i not in ignored)
    if len(combinations) and 1 < len(combinations) <= widest:
        texts = tuple(combination_text(row, names) for row in combinations)
        charts.append(chart_of_combinations(x, combinations, texts))
    elif not len(combinations) and 1 < len(live) <= widest:
        words = (
            "one action on all columns"
            if not ignored
            else (f"one action on {', '.join(names[i] for i in live)}")
        )
        charts.append(chart_of_columns(x, (live,), tuple(names[i] for i in live), words))
    return charts


def ways_outputs_move(given: Output | None, data: TaskData, width: int) -> list[Output]:
    m = 1 if data.y.ndim == 1 else data.y.shape[1]
    if given is not None:
        fits = {"vector": m % width == 0, "matrix": m == width**2}.get(given, True)
        return [given] if fits else []
    kinds: list[Output] = ["invariant"]
    if data.task == "classification":
        return kinds
    if m > 1 and m % width == 0 and width > 1:
        kinds.append("vector")
    if m == width**2 and width > 1:
        kinds.append("matrix")
    if m <= ProposingThresholds.now().free_outputs:
        kinds.append("free")
    return kinds
