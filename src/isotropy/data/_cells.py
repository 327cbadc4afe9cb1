"""Cells of text into the numbers or labels of a column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.data._column_tables import Column

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))


def is_number(text: str) -> bool:
    """Whether text is a number; 1_000, a number to Python, is far more often a label."""
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


class _Cells:
    """A column, read block by block.

    Args:
        name: Its name.
        row_of: From a place in what was read to the row in the file, from 1.
    """

    def __init__(self, name: str, row_of: Callable[[int], int]) -> None:
        self._name, self._row_of = name, row_of


class NumberCells(_Cells):
    """A column of inputs."""

    def __init__(self, name: str, row_of: Callable[[int], int]) -> None:
        super().__init__(name, row_of)
        self._blocks: list[NDArray[np.float64]] = []
        self._done = 0
        self._gap: str | None = None
        self._odd = 0
        self._first_odd: tuple[int, str] | None = None

    def add(self, cells: Sequence[str]) -> None:
        """Read further cells."""
        try:
            if "_" not in "".join(cells):
                values = np.fromiter(map(float, cells), np.float64, len(cells))
                if np.isfinite(values).all():
                    self._keep(values)
                    return
        except ValueError:
            pass
        self._keep(np.array([self._value(cell, place) for place, cell in enumerate(cells)]))

    def _keep(self, values: NDArray[np.float64]) -> None:
        self._blocks.append(values)
        self._done += len(values)

    def _value(self, cell: str, place: int) -> float:
        if cell.strip().lower() in MISSING:
            self._blame("a number", place, f"a missing value ({cell!r})")
        elif not is_number(cell):
            self._odd += 1
            self._first_odd = self._first_odd or (self._row_of(self._done + place), cell)
        elif not np.isfinite(float(cell)):
            self._blame("a finite number", place, repr(cell))
        else:
            return float(cell)
        return np.nan

    def _blame(self, wanted: str, place: int, got: str) -> None:
        if self._gap is None:
            row = self._row_of(self._done + place)
            self._gap = f"expected {wanted} in column {self._name!r}, row {row}, got {got}"

    def refuse_early(self, path: Path) -> None:
        """Refuse a cell that is no number before all others have been read."""
        if self._odd and self._first_odd is not None:
            row, cell = self._first_odd
            raise ValueError(
                f"{path}: expected a number in column {self._name!r}, row {row}, got {cell!r}; "
                "text='drop' leaves columns of text out"
            )
        if self._gap is not None:
            raise ValueError(f"{path}: {self._gap}; Intake(missing='drop') leaves such rows out")

    def column(self) -> Column:
        """All that was read."""
        values = np.concatenate(self._blocks)
        return Column(self._name, values, np.isnan(values), self._gap, self._odd, self._first_odd)


class LabelCells(_Cells):
    """A column of targets or groups: whole numbers, other numbers, or text, whichever all is."""

    def __init__(self, name: str, row_of: Callable[[int], int]) -> None:
        super().__init__(name, row_of)
        self._cells: list[str] = []

    def add(self, cells: Sequence[str]) -> None:
        """Read further cells."""
        self._cells += [cell.strip() for cell in cells]

    def column(self) -> Column:
        """All that was read; missing cells have a stand-in."""
        missing = np.array([cell.lower() in MISSING for cell in self._cells])
        there = [cell for cell, gone in zip(self._cells, missing, strict=True) if not gone]
        known = _labels(there)
        values = np.zeros(len(missing), known.dtype)
        values[~missing] = known
        gap = None
        if missing.any():
            first = int(missing.argmax())
            gap = (
                f"expected a value in column {self._name!r}, row {self._row_of(first)}, "
                f"got a missing one ({self._cells[first]!r})"
            )
        elif values.dtype.kind == "f" and not np.isfinite(values).all():
            first = int((~np.isfinite(values)).argmax())
            gap = (
                f"expected a finite number in column {self._name!r}, row {self._row_of(first)}, "
                f"got {self._cells[first]!r}"
            )
        if values.dtype.kind == "f":
            missing |= ~np.isfinite(values)
        return Column(self._name, values, missing, gap)


def _labels(cells: list[str]) -> NDArray[Any]:
    if not all(is_number(cell) for cell in cells):
        return np.array(cells)
    try:
        return np.array([int(cell) for cell in cells], np.int64)
    except (ValueError, OverflowError):
        return np.array([float(cell) for cell in cells], np.float64)
