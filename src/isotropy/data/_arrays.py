"""Arrays in memory, and PyTorch's own data sets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._intake import Intake, MissingRows, taken
from isotropy.data._tensors import group_numbers, input_tensor, target_tensor


def from_arrays(
    x: Any,
    y: Any,
    task: TaskKind | None,
    groups: Any,
    source: str,
    intake: Intake,
    notes: tuple[str, ...] = (),
) -> Dataset:
    """Make a data set of two arrays; the second may be ``None``."""
    if not isinstance(x, Tensor | np.ndarray):
        x = input_tensor(x, source)
    if intake.most_rows is not None and x.ndim:
        count = len(x)
        rows = intake.drawn(count, _of_length(groups, count, "groups", source), source)
        x, notes = taken(x, rows), (*notes, *intake.note(rows, count))
        y = taken(_of_length(y, count, "targets", source), rows)
        groups = taken(groups, rows)
    if intake.missing == "drop":
        x, y, groups, lost = _without_gaps(x, y, groups, source)
        notes += lost
    inputs = input_tensor(x, source)
    targets, classes = (None, None) if y is None else target_tensor(y, task, source)
    numbers = None if groups is None else group_numbers(groups, source)
    return Dataset(inputs, targets, classes=classes, groups=numbers, source=source, notes=notes)


def _of_length(values: Any, count: int, what: str, source: str) -> Any:
    """Refuse what a row could not be taken of."""
    if values is None:
        return None
    values = values if isinstance(values, Tensor | np.ndarray) else np.asarray(values)
    if values.ndim == 0 or len(values) != count:
        raise ValueError(
            f"{source}: expected as many {what} as inputs, "
            f"got {values.size if values.ndim == 0 else len(values)} and {count}"
        )
    return values


def _without_gaps(
    x: Any, y: Any, groups: Any, source: str
) -> tuple[Any, Any, Any, tuple[str, ...]]:
    """Leave out rows with values that are missing or not finite."""
    if x.ndim == 0:
        return x, y, groups, ()
    y = _of_length(y, len(x), "targets", source)
    groups = _of_length(groups, len(x), "groups", source)
    rows = MissingRows(len(x), source)
    gaps = _gaps(x).reshape(len(x), -1)
    if x.ndim == 2:
        for place in np.flatnonzero(gaps.any(0)):
            rows.add(f"column {place + 1} of the inputs", gaps[:, place])
    else:
        rows.add("an entry of the inputs", np.any(gaps, axis=1))
    if y is not None:
        rows.add("a target", np.any(_gaps(y).reshape(len(y), -1), axis=1))
    kept = rows.kept()
    if kept is None:
        return x, y, groups, ()
    y = taken(y, kept)
    if isinstance(y, np.ndarray) and y.dtype.kind == "O":
        y = np.array(y.tolist())  # what is left may be plain numbers or text
    return taken(x, kept), y, taken(groups, kept), rows.notes()


def _gaps(values: Any) -> NDArray[np.bool_]:
    """Where numbers are not finite, text is empty, or an object is None or NaN."""
    if isinstance(values, Tensor):
        return np.asarray((~torch.isfinite(values.detach())).cpu(), bool)
    kind = values.dtype.kind
    if kind in "fc":
        return np.asarray(~np.isfinite(values))
    if kind == "U":
        return np.isin(np.char.lower(np.char.strip(values)), ("", "nan"))
    if kind == "O":
        flat = [value is None or value != value for value in values.reshape(-1)]
        return np.array(flat, bool).reshape(values.shape)
    return np.zeros(values.shape, bool)


def from_torch_dataset(items: Any, task: TaskKind | None, groups: Any, intake: Intake) -> Dataset:
    """Stack the items of a map-style data set: each (x, y), or x alone."""
    source = type(items).__name__
    count = len(items)
    if count == 0:
        raise ValueError(f"{source}: expected items, got none")
    if intake.most_rows is not None:
        groups = _of_length(groups, count, "groups", source)
    rows = intake.drawn(count, groups if intake.most_rows is not None else None, source)
    groups = taken(groups, rows)
    chosen = range(count) if rows is None else rows.tolist()
    xs: list[Tensor] = []
    ys: list[Any] = []
    for number in chosen:
        x, y = _parts(items[number], number, source)
        if xs and x.shape != xs[0].shape:
            raise ValueError(
                f"{source}: expected inputs of one shape, got {tuple(x.shape)} in item {number} "
                f"after {tuple(xs[0].shape)}"
            )
        xs.append(x)
        ys.append(y)
    without = sum(y is None for y in ys)
    if 0 < without < len(ys):
        raise ValueError(
            f"{source}: expected a target in every item or in none, got {without} without"
        )
    targets = None if without else _stacked(ys, source)
    notes = intake.note(rows, count, "items")
    return from_arrays(torch.stack(xs), targets, task, groups, source, intake, notes)


def _parts(item: Any, number: int, source: str) -> tuple[Tensor, Any]:
    if isinstance(item, tuple | list):
        if len(item) not in (1, 2):
            raise ValueError(
                f"{source}: expected items (x, y) or x, got {len(item)} parts in item {number}"
            )
        x, y = item[0], item[1] if len(item) == 2 else None
    else:
        x, y = item, None
    if not isinstance(x, Tensor | np.ndarray | np.number | float | int):
        raise ValueError(
            f"{source}: expected tensors, arrays or numbers as inputs, "
            f"got {type(x).__name__} in item {number}"
        )
    return torch.as_tensor(x), y


def _stacked(ys: list[Any], source: str) -> Any:
    if all(isinstance(y, str) for y in ys):
        return np.array(ys)
    try:
        return torch.stack([torch.as_tensor(y) for y in ys])
    except (RuntimeError, TypeError, ValueError) as error:
        raise ValueError(
            f"{source}: expected numbers, tensors of one shape or text as targets, got {error}"
        ) from error


def from_dataset(data: Dataset, groups: Any, intake: Intake) -> Dataset:
    """Take a data set as it is, with groups or fewer rows where that is wanted."""
    if groups is not None:
        data = replace(data, groups=group_numbers(groups, data.source))
    rows = intake.drawn(len(data), data.groups, data.source)
    if rows is None:
        return data
    notes = (*data.notes, *intake.note(rows, len(data)))
    return replace(data.rows(torch.from_numpy(rows)), notes=notes)
