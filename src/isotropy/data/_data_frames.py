"""Tables of pandas, and parquet files through pyarrow, a batch of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.data._column_tables import Column, Table, roles_of
from isotropy.data._dataset import Dataset, TaskKind
from isotropy.data._intake import Intake, Rows, taken

_ROWS_AT_ONCE = 50_000


def load_parquet(
    path: Path,
    target: str | Sequence[str] | None,
    task: TaskKind | None,
    groups: Any,
    intake: Intake,
) -> Dataset:
    """Load a parquet file; of a draw, only the batches in turn are in memory."""
    with _parquet(path) as file:
        count = file.metadata.num_rows
        apart = groups
        if isinstance(groups, str):
            there = intake.most_rows is not None and groups in file.schema_arrow.names
            apart = file.read([groups]).column(0).to_pandas().astype(str) if there else None
        rows = intake.drawn(count, apart, str(path))
        frame = file.read().to_pandas() if rows is None else _drawn_frame(file, rows)
        # here, for text is decoded only when it is looked at
        return _load(frame, target, task, groups, intake, str(path), rows, intake.note(rows, count))


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    try:
        import pandas  # noqa: F401, pyarrow makes its frames
        from pyarrow import parquet  # type: ignore[import-untyped]
        from pyarrow.lib import ArrowException  # type: ignore[import-untyped]
    except ImportError as error:
        raise ValueError(
            f"{path}: expected pandas and pyarrow to read parquet, got neither or only one; "
            "pip install pandas pyarrow"
        ) from error
    try:
        with parquet.ParquetFile(path) as file:
            yield file
    except PermissionError:
        raise
    except (OSError, ArrowException) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: expected a parquet file, got a damaged one ({reason})") from (
            error
        )


def _drawn_frame(file: Any, rows: Rows) -> Any:
    """Take the drawn rows out of each batch."""
    import pyarrow

    parts, done = [], 0
    for batch in file.iter_batches(_ROWS_AT_ONCE):
        inside = rows[np.searchsorted(rows, done) : np.searchsorted(rows, done + len(batch))]
        parts.append(batch.take(pyarrow.array(inside - done)))
        done += len(batch)
    return pyarrow.Table.from_batches(parts).to_pandas()


def load_frame(
    frame: Any,
    target: str | Sequence[str] | None,
    task: TaskKind | None,
    groups: Any,
    intake: Intake,
) -> Dataset:
    """Load a pandas DataFrame; its index is left out."""
    source, count = "DataFrame", len(frame)
    by_name = isinstance(groups, str)
    apart = frame[groups].astype(str) if by_name and groups in frame.columns else None
    rows = intake.drawn(count, apart if by_name else groups, source)
    chosen = frame if rows is None else frame.iloc[rows]
    return _load(chosen, target, task, groups, intake, source, rows, intake.note(rows, count))


def _load(
    frame: Any,
    target: Any,
    task: TaskKind | None,
    groups: Any,
    intake: Intake,
    source: str,
    rows: Rows | None,
    notes: tuple[str, ...],
) -> Dataset:
    header = tuple(str(name) for name in frame.columns)
    for position, name in enumerate(header):
        if name in header[:position]:
            raise ValueError(f"{source}: expected distinct column names, got {name!r} twice")
    roles = roles_of(target, groups, header, intake, source)
    if len(frame) == 0:
        raise ValueError(f"{source}: expected rows, got none")
    numbers = np.arange(len(frame)) if rows is None else rows
    columns = {
        name: (_label_column if name in roles.labels else _number_column)(
            frame.iloc[:, place], name, numbers, source
        )
        for place, name in enumerate(header)
    }
    given = None if groups is None or isinstance(groups, str) else taken(groups, rows)
    return Table(columns, roles, source, given, rows, notes).dataset(task, intake)


def _number_column(column: Any, name: str, rows: Rows, _source: str) -> Column:
    missing = column.isna().to_numpy(bool)
    there = column[~missing]
    values = np.full(len(column), np.nan)
    odd, first_odd = 0, None
    known = _plain(there)
    if known.dtype.kind in "biuf":
        values[~missing] = known
    else:
        cells = [float(v) if isinstance(v, int | float) else np.nan for v in there]
        values[~missing] = cells
        strange = ~missing & np.isnan(values)
        odd = int(strange.sum())
        if odd:
            first = int(strange.argmax())
            first_odd = (int(rows[first]) + 1, str(column.iloc[first]))
    gap = _gap(values, missing, name, rows)
    return Column(name, values, ~np.isfinite(values), gap, odd, first_odd)


def _label_column(column: Any, name: str, rows: Rows, source: str) -> Column:
    missing = column.isna().to_numpy(bool)
    there = column[~missing]
    known = _plain(there)
    if known.dtype.kind not in "biufU" and len(there):
        raise ValueError(
            f"{source}: expected numbers or text in column {name!r}, "
            f"got {str(there.iloc[0])!r} of type {type(there.iloc[0]).__name__}"
        )
    if missing.any() and known.dtype.kind == "f" and (known == np.floor(known)).all():
        known = known.astype(np.int64)  # pandas makes whole numbers floats where one is missing
    values = np.zeros(len(column), known.dtype)
    values[~missing] = known
    gap = _gap(values, missing, name, rows)
    if values.dtype.kind == "f":
        missing = missing | ~np.isfinite(values)
    return Column(name, values, missing, gap)


def _plain(column: Any) -> NDArray[Any]:
    values = column.to_numpy()
    if values.dtype.kind != "O":
        return np.asarray(values)
    try:
        return np.array(values.tolist())  # nullable integers arrive as objects
    except ValueError:  # lists of several lengths
        return np.asarray(values)


def _gap(values: NDArray[Any], missing: NDArray[np.bool_], name: str, rows: Rows) -> str | None:
    if missing.any():
        row = int(rows[missing.argmax()]) + 1
        return f"expected a value in column {name!r}, row {row}, got a missing one"
    if values.dtype.kind != "f" or not np.isinf(values).any():
        return None
    place = int(np.isinf(values).argmax())
    return (
        f"expected a finite number in column {name!r}, row {int(rows[place]) + 1}, "
        f"got {values[place]}"
    )
