"""A study's file, looked at by another process before anything here opens it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isotropy._run._json import shown
from isotropy.search._study_copy import INDEX, JOURNAL, LARGEST_FILE, LOG
from isotropy.search._study_schema import schema_of
from isotropy.search._study_tables import TABLES

_BEGIN = """
import sys, types
for name, place in zip(sys.argv[1::2], sys.argv[2::2]):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [place]
from isotropy.search._study_check import main
main()
"""
_PACKAGES = "isotropy", "isotropy._run", "isotropy.search"
_SECONDS, _BYTES_A_SECOND = 60.0, 2e7


def prepare_file(path: Path, seconds: float) -> None:
    """Make a study's file, or look at the one that is there, for workers to share.

    Raises:
        ValueError: If it is not as Optuna and a search would have written it; it is left as it was.
    """
    _require_file(path)
    if _holds_anything(path):
        with _checked_copy(path):
            pass
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with closing(sqlite3.connect(path, timeout=seconds)) as connection:
            connection.execute("PRAGMA schema_version")
            connection.execute("PRAGMA journal_mode=WAL")
    except sqlite3.Error as error:
        raise ValueError(
            f"expected an SQLite file to write at {str(path)!r}, got: {error}"
        ) from None


@contextmanager
def copy_to_read(path: Path) -> Iterator[Path]:
    """A private copy of a study's file while the block lasts, once it was looked at.

    The file itself is only read, as any file is: no SQLite opens it unless workers are writing to
    it, and nothing is made beside it. The copy is looked at by a process that can do nothing else:
    where the file crashes SQLite, fills the memory or has no end, only that process is lost.

    Yields:
        The path of the copy.

    Raises:
        ValueError: If there is none, or it is not as Optuna and a search would have written it.
    """
    if not path.exists():
        raise ValueError(f"expected the file of a study, got {str(path)!r}, which does not exist")
    _require_file(path)
    if not _holds_anything(path):
        raise ValueError(f"expected the file of a study, got {str(path)!r}, which holds none")
    with _checked_copy(path) as copy:
        with closing(sqlite3.connect(copy)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
        if ("studies",) not in tables:
            raise ValueError(f"expected the file of a study, got {str(path)!r}, which holds none")
        yield copy


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise ValueError(
            f"expected an SQLite file to write at {str(path)!r}, got: unable to open a folder"
        )
    # Whoever packed a link chose where it leads; a file of a study there is one, nothing is not.
    if path.is_symlink() and not _size(path):
        raise ValueError(
            f"expected the file of a study, got the link {str(path)!r} to a file that holds none"
        )


def _holds_anything(path: Path) -> bool:
    """Whether there is something to look at: a file that is not empty, or files beside it."""
    real = os.path.realpath(path)
    if path.exists() and not path.is_file():
        return True
    beside = (f"{real}{end}" for end in (LOG, INDEX, JOURNAL))
    return _size(path) > 0 or any(map(os.path.lexists, beside))


@contextmanager
def _checked_copy(path: Path) -> Iterator[Path]:
    with TemporaryDirectory(prefix="isotropy-") as folder:
        copy = Path(folder) / "study.db"
        _check(path, copy)
        yield copy


def _check(path: Path, copy: Path) -> None:
    asked = {"source": os.path.realpath(path), "target": str(copy), **_known()}
    seconds = _SECONDS + min(_size(path), LARGEST_FILE) / _BYTES_A_SECOND
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _BEGIN, *_places()],
            input=json.dumps(asked),
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(
            f"expected a study that can be looked through in {seconds:.0f} seconds, got "
            f"{str(path)!r}, which takes longer"
        ) from None
    try:
        refused = json.loads(done.stdout)["refused"]
    except (ValueError, KeyError):
        # It died, of a crash or for want of memory; its last words are for whoever reads this.
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise ValueError(
            f"expected a study that can be looked through, got {str(path)!r}, which could not be "
            f"looked through: {shown(last)}"
        ) from None
    if refused is not None:
        raise ValueError(f"{refused}, in {str(path)!r}")


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _places() -> list[str]:
    """Packages and their folders, from which modules are taken without what the packages import."""
    root = Path(__file__).parents[2]
    return [part for name in _PACKAGES for part in (name, str(root.joinpath(*name.split("."))))]


@lru_cache(maxsize=1)
def _known() -> dict[str, Any]:
    """The schema that this Optuna and a search make, its version, and the name of this Optuna."""
    import optuna
    from optuna.storages import RDBStorage

    storage = RDBStorage("sqlite:///:memory:")
    try:
        TABLES.create_all(storage.engine)
        with storage.engine.connect() as connection:
            entries = connection.exec_driver_sql(
                "SELECT type, name, tbl_name, sql FROM sqlite_master"
            ).fetchall()
        version = storage.get_current_version()
    finally:
        storage.remove_session()
        storage.engine.dispose()
    known = schema_of((kind, name, table, sql) for kind, name, table, sql in entries)
    return {"known": known, "version": version, "maker": f"Optuna {optuna.__version__}"}
