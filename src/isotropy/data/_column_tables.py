"""Tables with named columns, wherever they were read from: roles, cleaning, and the data set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._intake import Intake, MissingRows, Rows
from isotropy.data._tensors import group_numbers, names_of, target_tensor

# The commonest first. A bare y is treated apart: it may be a coordinate.
_NAMES = (
    "target", "targets", "label", "labels", "class", "classes", "category", "output", "outputs",
    "response", "outcome", "result", "ground_truth", "dependent", "species", "diagnosis", "price",
)  # fmt: skip
_NUMBERED = re.compile(r"(target|label|output|out|response)s?[ _.-]?(\d+|[wxyzt])", re.IGNORECASE)
_NUMBERED_Y = re.compile(r"y[ _.-]?\d+", re.IGNORECASE)
_COUNTER = re.compile(
    r"(unnamed: ?\d+|#|no\.?|n°|idx|index|row|(row|sample|record)?[ _-]?(id|index|number))",
    re.IGNORECASE,
)
# Up to this share of cells without a number, a column is one of numbers with odd cells in it.
_FEW_ODD_CELLS = 0.05
_LARGEST = float(np.finfo(np.float32).max)


def guess_target(columns: Sequence[str], groups: str | None = None) -> tuple[str, ...]:
    """Guess the columns to predict from the names of all.

    In this order: a column called target, label, class, output, response, price and so on; all
    columns called target_1, target_2, … or out_x, out_y, …; the last columns where they are
    called y1, y2, …; y, unless it stands beside x as a coordinate; the last column.

    Args:
        columns: The names, in order.
        groups: A column that has another role.

    Raises:
        ValueError: If there is no column to choose from.

    Example:
        >>> guess_target(("x", "y", "z", "energy")), guess_target(("label", "a", "b"))
        (('energy',), ('label',))
        >>> guess_target(("x1", "x2", "y1", "y2"))
        ('y1', 'y2')
    """
    there = [name for name in columns if name != groups and not may_count(name)]
    there = there or [name for name in columns if name != groups]
    if not there:
        raise ValueError(f"expected a column that may be a target, got {list(columns)}")
    by_name = {name.strip().lower().replace(" ", "_"): name for name in reversed(there)}
    for word in _NAMES:
        if word in by_name:
            return (by_name[word],)
    numbered = [name for name in there if _NUMBERED.fullmatch(name.strip())]
    if 0 < len(numbered) < len(there):
        return tuple(numbered)
    if "y" in by_name and ("x" not in by_name or by_name["y"] == there[-1]):
        return (by_name["y"],)
    return _last_numbered(there) or (there[-1],)


def _last_numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Take y1, y2, … where they are the last columns; among others they may be coordinates."""
    first = len(names)
    while first and _NUMBERED_Y.fullmatch(names[first - 1].strip()):
        first -= 1
    elsewhere = any(_NUMBERED_Y.fullmatch(name.strip()) for name in names[:first])
    return () if elsewhere or first == 0 else tuple(names[first:])


def may_count(name: str) -> bool:
    """Whether a column has a name under which rows are counted: id, index, Unnamed: 0."""
    return _COUNTER.fullmatch(name.strip()) is not None


def guess_note(targets: Sequence[str], columns: Sequence[str]) -> str:
    """Say what was guessed."""
    if len(targets) > 1:
        return f"no target was named: {', '.join(map(repr, targets))} were taken"
    last = ", the last column," if targets[0] == columns[-1] else ""
    return f"no target was named: {targets[0]!r}{last} was taken"


@dataclass(frozen=True)
class Column:
    """One column as it was read.

    Args:
        name: Its name.
        values: Shape (n,): float64 for an input; for a target whatever it is.
        missing: Where there is no usable value. Infinite numbers count.
        gap: What to say of the first missing value, or ``None`` where there is none.
        odd: How many cells hold neither a number nor a missing value; they are ``missing`` too.
        first_odd: The row, from 1, and the content of the first such cell.
    """

    name: str
    values: NDArray[Any]
    missing: NDArray[np.bool_]
    gap: str | None = None
    odd: int = 0
    first_odd: tuple[int, str] | None = None

    def unusable(self) -> NDArray[np.bool_]:
        """Where a value is missing, or too large for the float32 that it will be."""
        if self.values.dtype.kind != "f":
            return self.missing
        with np.errstate(invalid="ignore"):
            fits: NDArray[np.bool_] = np.abs(self.values) <= _LARGEST
        return self.missing | ~fits


@dataclass(frozen=True)
class Roles:
    """Which columns are targets and which one says what belongs together."""

    targets: tuple[str, ...]
    groups: str | None
    notes: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """The columns that need not be numbers."""
        return self.targets if self.groups is None else (*self.targets, self.groups)


def roles_of(
    target: str | Sequence[str] | None,
    groups: Any,
    known: Sequence[str],
    intake: Intake,
    source: str,
) -> Roles:
    """Check the names of targets and groups against the columns there are."""
    groups = groups if isinstance(groups, str) else None
    targets = names_of(target, known)
    for what, names in (("target", targets), ("groups", () if groups is None else (groups,))):
        for name in names:
            if name not in known:
                raise ValueError(
                    f"{source}: expected {what} among the columns {_listed(known)}, got {name!r}"
                )
    if len(set(targets)) < len(targets) or groups in targets:
        raise ValueError(
            f"{source}: expected each column in one role, got target {_listed(targets)}"
            + (f" and groups {groups!r}" if groups else "")
        )
    if target is None and intake.guess:
        targets = guess_target(known, groups)
        return Roles(targets, groups, (guess_note(targets, known),))
    return Roles(targets, groups)


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" … ({len(names)} in all)" if len(names) > most else "")


@dataclass(frozen=True)
class Table:
    """Columns that were read, and what they are for.

    Args:
        columns: All of them, in order.
        roles: What they are for.
        source: Where they came from.
        given_groups: Which rows belong together, where no column says so.
        rows: Which rows of the source these are; ``None`` for all.
        notes: What was done so far.
    """

    columns: dict[str, Column]
    roles: Roles
    source: str
    given_groups: Any = None
    rows: Rows | None = None
    notes: tuple[str, ...] = ()

    def dataset(self, task: TaskKind | None, intake: Intake) -> Dataset:
        """Leave out what cannot be used, and put the other columns side by side."""
        inputs, dropped = self._inputs(intake)
        labels = [self.columns[name] for name in self.roles.labels]
        kept, lost = self._kept([*inputs, *labels], intake)
        with np.errstate(over="ignore"):  # the data set says which row is out of range
            x = np.stack([column.values[kept] for column in inputs], axis=1, dtype=np.float32)
        y, classes = self._targets(task, kept)
        return Dataset(
            torch.from_numpy(x),
            y,
            tuple(column.name for column in inputs),
            self.roles.targets or None,
            classes,
            self._groups(kept),
            self.source,
            notes=(*self.roles.notes, *self.notes, *dropped, *lost),
        )

    def _inputs(self, intake: Intake) -> tuple[list[Column], tuple[str, ...]]:
        """The columns of numbers, and notes about the others."""
        inputs, notes = [], []
        for name, column in self.columns.items():
            if name in self.roles.labels:
                continue
            if column.odd:
                row, cell = column.first_odd or (0, "")
                few = column.odd <= _FEW_ODD_CELLS * len(column.values)
                if few and intake.missing == "drop":
                    cells = "cell holds" if column.odd == 1 else "cells hold"
                    notes.append(
                        f"{column.odd:,} {cells} no number in column {name!r} "
                        f"({cell!r} in row {row}), taken as missing"
                    )
                elif intake.text == "drop":
                    notes.append(
                        f"column {name!r} holds text ({cell!r} in row {row}) and was left out"
                    )
                    continue
                else:
                    raise ValueError(
                        f"{self.source}: expected a number in column {name!r}, row {row}, "
                        f"got {cell!r}; Intake(text='drop') leaves columns of text out"
                    )
            elif intake.text == "drop" and self._counts_rows(column):
                notes.append(f"column {name!r} only counts the rows and was left out")
                continue
            inputs.append(column)
        if not inputs:
            raise ValueError(
                f"{self.source}: expected at least one input column, got none"
                + (f" of numbers: {notes[-1]}" if notes else "")
            )
        return inputs, tuple(notes)

    def _counts_rows(self, column: Column) -> bool:
        if not may_count(column.name) or column.missing.any() or len(column.values) < 2:
            return False
        rows = np.arange(len(column.values)) if self.rows is None else self.rows
        return bool((column.values - rows == column.values[0] - rows[0]).all())

    def _kept(self, columns: Sequence[Column], intake: Intake) -> tuple[Any, tuple[str, ...]]:
        """The rows that lack nothing, as an index, and notes about the others."""
        if intake.missing == "refuse":
            for column in columns:
                if column.gap is not None:
                    raise ValueError(
                        f"{self.source}: {column.gap}; Intake(missing='drop') leaves such rows out"
                    )
            return slice(None), ()
        rows = MissingRows(len(columns[0].values), self.source)
        for column in columns:
            rows.add(f"column {column.name!r}", column.unusable())
        kept = rows.kept()
        return slice(None) if kept is None else kept, rows.notes()

    def _targets(self, task: TaskKind | None, kept: Any) -> tuple[torch.Tensor | None, Any]:
        names = self.roles.targets
        if not names:
            return None, None
        columns = [self.columns[name].values[kept] for name in names]
        if len(columns) == 1:
            y, classes = target_tensor(columns[0], task, self.source)
        else:
            text = [name for name, c in zip(names, columns, strict=True) if c.dtype.kind == "U"]
            if task == "classification" or text:
                raise ValueError(
                    f"{self.source}: expected one target column for a classification, "
                    f"got {', '.join(names)}"
                )
            y, classes = target_tensor(np.stack(columns, axis=1), "regression", self.source)
        # As inputs do: text and tables have no precision of their own to keep.
        return (y.float() if classes is None else y), classes

    def _groups(self, kept: Any) -> torch.Tensor | None:
        if self.roles.groups is not None:
            values = self.columns[self.roles.groups].values[kept]
        elif self.given_groups is not None:
            values = np.asarray(self.given_groups)[kept]
        else:
            return None
        return group_numbers(values, self.source)
