"""Comma- and tab-separated text into numbers and labels of columns, a block of rows at a time."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from isotropy.data._column_tables import Column, Table, roles_of
from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._intake import Intake, Rows, taken

MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
_ROWS_AT_ONCE = 20_000


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
                "Intake(text='drop') leaves columns of text out"
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


def load_csv(
    path: Path,
    target: str | Sequence[str] | None,
    task: TaskKind | None,
    groups: Any,
    intake: Intake,
) -> Dataset:
    """Load a table with a header row."""
    layout = _Layout.of(path, intake)
    roles = roles_of(target, groups, layout.header, intake, str(path))
    given = None if isinstance(groups, str) else groups
    rows, notes, spanning = None, layout.notes, True
    if intake.most_rows is not None:
        count, spanning = layout.count()
        apart = given
        if roles.groups is not None and count > intake.most_rows:
            apart = layout.cells(layout.header.index(roles.groups))
        rows = intake.drawn(count, apart, str(path))
        notes += intake.note(rows, count)
    with _reading(path) as file:
        columns = _read_columns(
            layout.rows(file, rows, spanning), layout, roles.labels, rows, intake
        )
    if given is not None:
        found = len(next(iter(columns.values())).values)
        given = taken(given, rows)
        if len(given) != found:
            raise ValueError(
                f"{path}: expected as many groups as inputs, got {len(given)} and {found}"
            )
    return Table(columns, roles, str(path), given, rows, notes).dataset(task, intake)


@contextmanager
def _reading(path: Path) -> Iterator[IO[str]]:
    """Open text, compressed or not, and say of any damage which file has it."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        # utf-8-sig drops the mark that spreadsheet programs put first
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: expected text in UTF-8, got bytes that are none ({error.reason})"
        ) from error
    except csv.Error as error:
        raise ValueError(f"{path}: expected a table, got broken quoting ({error})") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a gzip file, got a damaged one ({error})") from error


@dataclass(frozen=True)
class _Layout:
    """A table in a file: what stands between cells, and the names of columns."""

    path: Path
    delimiter: str
    header: tuple[str, ...]
    has_header: bool
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(path: Path, intake: Intake) -> _Layout:
        with _reading(path) as file:
            first = file.readline()
            if not first.strip():
                raise ValueError(f"{path}: expected a header row, got an empty file")
            if "\0" in first:
                raise ValueError(f"{path}: expected a table of text, got binary data")
            file.seek(0)
            delimiter = _delimiter(path, first)
            cells = next(csv.reader(file, delimiter=delimiter, strict=True))
        if all(is_number(cell) for cell in cells):
            if not intake.guess:
                raise ValueError(f"{path}: expected a header row of names, got numbers")
            names = tuple(f"column {place + 1}" for place in range(len(cells)))
            note = "the first row has numbers, so columns were called 'column 1' and so on"
            return _Layout(path, delimiter, names, False, (note,))
        return _Layout(path, delimiter, _header(cells, path, intake), True)

    def count(self) -> tuple[int, bool]:
        """How many rows there are, and whether some take several lines."""
        count = 0
        with _reading(self.path) as file:
            for line in file:
                # A quotation that goes on in the next line leaves an odd number of marks.
                if line.count('"') % 2:
                    break
                count += bool(line.strip("\r\n"))
            else:
                return count - self.has_header, False
        with _reading(self.path) as file:
            return sum(1 for row in self._parsed(file) if row) - self.has_header, True

    def cells(self, place: int) -> NDArray[np.int64]:
        """Number the distinct values of one column, in order of appearance, row by row."""
        numbers: dict[str, int] = {}
        with _reading(self.path) as file:
            rows = self.rows(file, None, spanning=True)
            return np.array(
                [
                    numbers.setdefault(row[place].strip() if place < len(row) else "", len(numbers))
                    for row in rows
                ],
                np.int64,
            )

    def rows(self, file: IO[str], chosen: Rows | None, spanning: bool) -> Iterator[list[str]]:
        """The rows, or the chosen ones, split into cells; blank lines are no rows."""
        if spanning or chosen is None:
            rows = filter(None, self._parsed(file))
            self._skip_header(rows)
            return rows if chosen is None else compress(rows, _selector(chosen))
        lines = (line for line in file if line.strip("\r\n"))
        self._skip_header(lines)
        return self._parsed(compress(lines, _selector(chosen)))

    def _skip_header(self, rows: Iterator[Any]) -> None:
        if self.has_header:
            next(rows, None)

    def _parsed(self, lines: Iterator[str] | IO[str]) -> Iterator[list[str]]:
        return csv.reader(lines, delimiter=self.delimiter, strict=True)


def _selector(chosen: Rows) -> NDArray[np.bool_]:
    selector = np.zeros(int(chosen[-1]) + 1, bool)
    selector[chosen] = True
    return selector


def _delimiter(path: Path, header: str) -> str:
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    return ";" if ";" in header and "," not in header else ","


def _header(cells: list[str], path: Path, intake: Intake) -> tuple[str, ...]:
    names = [cell.strip() for cell in cells]
    if names and not names[0] and intake.text == "drop":
        names[0] = "Unnamed: 0"  # pandas writes its index so
    for position, name in enumerate(names):
        if not name:
            raise ValueError(
                f"{path}: expected a name for every column, got none for column {position + 1}"
            )
        if name in names[:position]:
            raise ValueError(f"{path}: expected distinct column names, got {name!r} twice")
    return tuple(names)


def _read_columns(
    rows: Iterator[list[str]],
    layout: _Layout,
    labels: Sequence[str],
    drawn: Rows | None,
    intake: Intake,
) -> dict[str, Column]:
    """Turn text into numbers a block at a time, so that the text is never all in memory."""
    row_of: Callable[[int], int] = (
        (lambda place: place + 1) if drawn is None else (lambda place: int(drawn[place]) + 1)
    )
    columns = {
        name: LabelCells(name, row_of) if name in labels else NumberCells(name, row_of)
        for name in layout.header
    }
    done = 0
    while block := list(islice(rows, _ROWS_AT_ONCE)):
        for position, row in enumerate(block):
            if len(row) != len(columns):
                raise ValueError(
                    f"{layout.path}: expected {len(columns)} fields in every row, "
                    f"got {len(row)} in row {row_of(done + position)}"
                )
        for column, cells in zip(columns.values(), zip(*block, strict=True), strict=True):
            column.add(cells)
            if intake.missing == intake.text == "refuse" and isinstance(column, NumberCells):
                column.refuse_early(layout.path)
        done += len(block)
    if done == 0:
        raise ValueError(f"{layout.path}: expected rows after the header, got none")
    return {name: column.column() for name, column in columns.items()}
