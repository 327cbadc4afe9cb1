"""Looks at a study's file before Optuna does: its schema, its pages and all of its rows.

This runs in a process of its own, see `_checked_file`, and needs Python's standard library only.
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from isotropy._run._json import shown
from isotropy.search._study_copy import LARGEST_FILE, copy_study
from isotropy.search._study_keys import key_parts
from isotropy.search._study_rows import check_rows
from isotropy.search._study_schema import Schema, check_schema
from isotropy.search._tensor_header import LONGEST_HEADER, check_tensor_header

LONGEST_VALUE, LARGEST_WEIGHTS = 2**20, 10**9
_MOST_ENTRIES = 200
_SOUND = "expected an SQLite file that is sound"
_MEMORY = 4 * 2**30
_SETTINGS = (
    "PRAGMA trusted_schema=OFF",
    "PRAGMA cell_size_check=ON",
    "PRAGMA mmap_size=0",
    "PRAGMA temp_store=MEMORY",
    "PRAGMA query_only=ON",
)


def check_study_file(path: Path, known: Schema, version: str, maker: str) -> None:
    """Refuse a file that is not as Optuna and a search would have written it."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            _check(connection, known, version, maker)
    except sqlite3.DataError:
        raise ValueError(
            f"expected values of up to {LONGEST_VALUE} bytes, got a longer one"
        ) from None
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise ValueError(f"{_SOUND}, got: {shown(str(error))}") from None


def _check(connection: sqlite3.Connection, known: Schema, version: str, maker: str) -> None:
    for setting in _SETTINGS:
        connection.execute(setting)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    connection.setlimit(sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH, 0)
    encoding = connection.execute("PRAGMA encoding").fetchone()[0]
    if encoding != "UTF-8":
        raise ValueError(f"expected text in UTF-8, got {shown(encoding)}")
    query = f"SELECT type, name, tbl_name, sql FROM sqlite_master LIMIT {_MOST_ENTRIES + 1}"
    entries = connection.execute(query).fetchall()
    if len(entries) > _MOST_ENTRIES:
        raise ValueError(f"expected up to {_MOST_ENTRIES} tables and indices, got more")
    check_schema(entries, known, maker)
    tables = {name for kind, name, _, _ in entries if kind == "table"}
    # Only now: this evaluates what the schema says of columns and indices.
    sound = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if sound != "ok":
        raise ValueError(f"{_SOUND}, got: {shown(sound)}")

    def read(table: str, columns: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
        if table not in tables:
            return ()
        listed = ", ".join(f'"{one}"' for one in columns)
        return connection.execute(f'SELECT {listed} FROM "{table}"')

    check_rows(read, now=time.time(), version=version)
    if "isotropy_weights" in tables:
        _check_weights(connection)


def _check_weights(connection: sqlite3.Connection) -> None:
    """See that start weights are tensors, by their headers: their numbers are not read."""
    keys = connection.execute('SELECT rowid, study, "key", typeof(weights) FROM isotropy_weights')
    for row, study, key, kind in keys.fetchall():
        if not isinstance(study, str) or kind != "blob":
            raise ValueError(f"expected start weights in bytes, got {shown(kind)}")
        key_parts(key)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_WEIGHTS)
        with connection.blobopen("isotropy_weights", "weights", row, readonly=True) as blob:
            start = blob.read(LONGEST_HEADER + 8)
            check_tensor_header(start, len(blob), "start weights")


def main() -> None:
    """Look at the file that standard input names, and say why it is refused, if it is."""
    asked = json.load(sys.stdin)
    _limit()
    source, target = Path(asked["source"]), Path(asked["target"])
    refused = None
    try:
        copy_study(source, target)
        check_study_file(target, asked["known"], asked["version"], asked["maker"])
    except ValueError as error:
        refused = str(error)
    json.dump({"refused": refused}, sys.stdout)


def _limit() -> None:
    """Let this process not take more than its share, where the system can be asked for that."""
    with suppress(ImportError):
        import resource

        for kind, most in (
            (resource.RLIMIT_AS, _MEMORY),
            (resource.RLIMIT_FSIZE, LARGEST_FILE),
            (resource.RLIMIT_CORE, 0),
        ):
            with suppress(ValueError, OSError):
                resource.setrlimit(kind, (most, most))
