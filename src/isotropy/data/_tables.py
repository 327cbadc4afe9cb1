"""Tables with named columns: csv and tsv by the standard library, parquet through pandas."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._tensors import group_numbers, names_of, target_tensor

_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?"))
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Table:
    """Named columns: float64 numbers for inputs, whatever they are for targets and groups."""

    columns: dict[str, NDArray[Any]]
    targets: tuple[str, ...]
    groups: str | None
    source: str

    def dataset(self, task: TaskKind | None) -> Dataset:
        """Put the columns side by side."""
        inputs = [name for name in self.columns if name not in (*self.targets, self.groups)]
        if not inputs:
            raise ValueError(f"{self.source}: expected at least one input column, got none")
        with np.errstate(over="ignore"):  # the data set says which row is out of range
            x = np.stack([self.columns[name] for name in inputs], axis=1, dtype=np.float32)
        y, classes = self._targets(task)
        groups = (
            None if self.groups is None else group_numbers(self.columns[self.groups], self.source)
        )
        return Dataset(
            torch.from_numpy(x),
            y,
            tuple(inputs),
            self.targets or None,
            classes,
            groups,
            self.source,
        )

    def _targets(self, task: TaskKind | None) -> tuple[torch.Tensor | None, Any]:
        if not self.targets:
            return None, None
        columns = [self.columns[name] for name in self.targets]
        if len(columns) == 1:
            y, classes = target_tensor(columns[0], task, self.source)
        else:
            text = [n for n, c in zip(self.targets, columns, strict=True) if c.dtype.kind == "U"]
            if task == "classification" or text:
                raise ValueError(
                    f"{self.source}: expected one target column for a classification, "
                    f"got {', '.join(self.targets)}"
                )
            y, classes = target_tensor(np.stack(columns, axis=1), "regression", self.source)
        # As inputs do: text and tables have no precision of their own to keep.
        return (y.float() if classes is None else y), classes


def load_csv(
    path: Path, target: str | Sequence[str] | None, task: TaskKind | None, groups: str | None
) -> Dataset:
    """Load comma- or tab-separated text with a header row."""
    with _reading(path) as file:
        first = file.readline()
        if not first.strip():
            raise ValueError(f"{path}: expected a header row, got an empty file")
        file.seek(0)
        rows = csv.reader(file, delimiter=_delimiter(path, first), strict=True)
        header = _header(next(rows), path)
        targets = _chosen(target, groups, header, str(path))
        columns = _read_columns(rows, header, {*targets, groups}, path)
    return Table(columns, targets, groups, str(path)).dataset(task)


@contextmanager
def _reading(path: Path) -> Iterator[IO[str]]:
    """Open text, compressed or not, and say of any damage which file has it."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        # utf-8-sig drops the mark that spreadsheet programs put first
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: expected text in UTF-8, got byte {error.start}") from error
    except csv.Error as error:
        raise ValueError(f"{path}: expected a table, got broken quoting ({error})") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a gzip file, got a damaged one ({error})") from error


def _delimiter(path: Path, header: str) -> str:
    if path.name.lower().removesuffix(".gz").endswith(".tsv"):
        return "\t"
    return ";" if ";" in header and "," not in header else ","


def _header(cells: list[str], path: Path) -> tuple[str, ...]:
    names = tuple(cell.strip() for cell in cells)
    if all(_is_number(name) for name in names):
        raise ValueError(f"{path}: expected a header row of names, got numbers")
    for position, name in enumerate(names):
        if not name:
            raise ValueError(
                f"{path}: expected a name for every column, got none for column {position + 1}"
            )
        if name in names[:position]:
            raise ValueError(f"{path}: expected distinct column names, got {name!r} twice")
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _chosen(
    target: str | Sequence[str] | None, groups: str | None, known: Sequence[str], source: str
) -> tuple[str, ...]:
    """Check the names of targets and groups against the columns there are."""
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
    return targets


def _listed(names: Sequence[str], most: int = 12) -> str:
    return ", ".join(names[:most]) + (f" … ({len(names)} in all)" if len(names) > most else "")


def _read_columns(
    rows: Iterator[list[str]], header: Sequence[str], may_be_text: Collection[Any], path: Path
) -> dict[str, NDArray[Any]]:
    """Turn text into numbers a block at a time, so that the text is never all in memory."""
    numbers: dict[str, list[NDArray[Any]]] = {name: [] for name in header}
    texts: dict[str, list[str]] = {name: [] for name in header if name in may_be_text}
    done = 0
    filled = (row for row in rows if row)  # a blank line is no row
    while block := list(islice(filled, _ROWS_AT_ONCE)):
        for position, row in enumerate(block):
            if len(row) != len(header):
                raise ValueError(
                    f"{path}: expected {len(header)} fields in every row, "
                    f"got {len(row)} in row {done + position + 1}"
                )
        for name, cells in zip(header, zip(*block, strict=True), strict=True):
            if name in texts:
                texts[name] += cells
            else:
                numbers[name].append(_numbers(cells, name, done, path))
        done += len(block)
    if done == 0:
        raise ValueError(f"{path}: expected rows after the header, got none")
    return {
        name: _text_or_numbers(texts[name], name, path)
        if name in texts
        else np.concatenate(numbers[name])
        for name in header
    }


def _numbers(cells: Sequence[str], name: str, before: int, path: Path) -> NDArray[np.float64]:
    try:
        # Python reads 1_000 as a number; in a table it is far more often a label.
        if "_" not in "".join(cells):
            values = np.fromiter(map(float, cells), np.float64, len(cells))
            if np.isfinite(values).all():
                return values
    except ValueError:
        pass
    for position, cell in enumerate(cells):
        place = f"in column {name!r}, row {before + position + 1}"
        if cell.strip().lower() in _MISSING:
            raise ValueError(f"{path}: expected a number {place}, got a missing value ({cell!r})")
        if "_" in cell or not _is_number(cell):
            raise ValueError(f"{path}: expected a number {place}, got {cell!r}")
        if not np.isfinite(float(cell)):
            raise ValueError(f"{path}: expected a finite number {place}, got {cell!r}")
    raise AssertionError("a column that was refused has a cell to blame")


def _text_or_numbers(cells: list[str], name: str, path: Path) -> NDArray[Any]:
    """Read a target: whole numbers, other numbers, or text, whichever all of it is."""
    stripped = [cell.strip() for cell in cells]
    for position, cell in enumerate(stripped):
        if cell.lower() in _MISSING:
            raise ValueError(
                f"{path}: expected a value in column {name!r}, row {position + 1}, "
                f"got a missing one ({cell!r})"
            )
    if any("_" in cell or not _is_number(cell) for cell in stripped):
        return np.array(stripped)
    try:
        return np.array([int(cell) for cell in stripped], np.int64)
    except (ValueError, OverflowError):
        return _numbers(stripped, name, 0, path)


def load_parquet(
    path: Path, target: str | Sequence[str] | None, task: TaskKind | None, groups: str | None
) -> Dataset:
    """Load a parquet file."""
    try:
        import pandas

        frame = pandas.read_parquet(path, engine="pyarrow")
    except ImportError as error:
        raise ValueError(
            f"{path}: expected pandas and pyarrow to read parquet, got neither or only one; "
            "pip install 'isotropy[tables]'"
        ) from error
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected a parquet file, got {error}") from error
    return load_frame(frame, target, task, groups, str(path))


def load_frame(
    frame: Any,
    target: str | Sequence[str] | None,
    task: TaskKind | None,
    groups: str | None,
    source: str,
) -> Dataset:
    """Load a pandas DataFrame; its index is left out."""
    header = tuple(str(name) for name in frame.columns)
    for position, name in enumerate(header):
        if name in header[:position]:
            raise ValueError(f"{source}: expected distinct column names, got {name!r} twice")
    targets = _chosen(target, groups, header, source)
    if len(frame) == 0:
        raise ValueError(f"{source}: expected rows, got none")
    columns = {
        name: _frame_column(frame.iloc[:, place], name, name in (*targets, groups), source)
        for place, name in enumerate(header)
    }
    return Table(columns, targets, groups, source).dataset(task)


def _frame_column(column: Any, name: str, may_be_text: bool, source: str) -> NDArray[Any]:
    missing = column.isna().to_numpy()
    if missing.any():
        raise ValueError(
            f"{source}: expected a value in column {name!r}, row {int(missing.argmax()) + 1}, "
            "got a missing one"
        )
    values = column.to_numpy()
    if values.dtype.kind == "O":
        values = np.array(values.tolist())  # nullable integers arrive as objects
    if values.dtype.kind in "biuf":
        values = values if may_be_text else values.astype(np.float64)
        infinite = ~np.isfinite(values)
        if infinite.any():
            raise ValueError(
                f"{source}: expected a finite number in column {name!r}, "
                f"row {int(infinite.argmax()) + 1}, got {values[infinite][0]}"
            )
        return np.asarray(values)
    if may_be_text and values.dtype.kind == "U":
        return np.asarray(values)
    plain = [isinstance(value, int | float) for value in column]
    row = plain.index(False) if False in plain else 0
    raise ValueError(
        f"{source}: expected a number in column {name!r}, row {row + 1}, "
        f"got {str(column.iloc[row])!r}"
    )
