"""A private copy of a study's file, taken without SQLite, so that the file stays as it was.

SQLite writes when it opens a file: it makes a log and its index, takes over a log that is there,
and rolls back a journal, after which it removes any file that the journal names. None of that may
happen to a file that nobody has looked at. A process that closes a file loses SQLite's locks on it,
so this must not run in a process that has the study open.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path

from isotropy._run._json import shown

LARGEST_FILE = 16 * 2**30
LOG, INDEX, JOURNAL = "-wal", "-shm", "-journal"
# A file system counts time in steps of up to ten milliseconds.
_STILL, _PAUSE = 0.03, 0.05
_TRIES, _SECONDS = 4, 20.0
# A transaction takes milliseconds: a journal that stays was left behind, or laid there.
_JOURNAL_SECONDS = 2.0
_PIECE = 2**20

Seen = tuple[tuple[int, ...] | None, ...]


def copy_study(source: Path, target: Path) -> None:
    """Copy a study's file and its log, as they are at one moment.

    Raises:
        ValueError: If it is not a plain file, something else is beside it where SQLite would write,
            there is no room, or it does not come to rest.
    """
    moving = 0
    end = time.monotonic() + _SECONDS
    while time.monotonic() < end:
        seen = _seen(source)
        if not _in_transaction(seen):
            _require_room(seen, target)
            if _is_still(seen[:2]):
                _copy(source, target)
                _copy(_beside(source, LOG), _beside(target, LOG))
                if _seen(source) == seen:
                    return
            moving += 1
            if moving >= _TRIES and seen[2] is not None:
                _copy_live(source, target)
                return
        time.sleep(_PAUSE)
    raise ValueError("expected a study at rest, got one that changes all the time")


def _seen(source: Path) -> Seen:
    """Size and times of the file, its log, the log's index and its journal."""
    return (
        _look(source, follow=True),
        *(_look(_beside(source, end), follow=False) for end in (LOG, INDEX, JOURNAL)),
    )


def _look(path: Path, *, follow: bool) -> tuple[int, ...] | None:
    try:
        found = os.stat(path, follow_symlinks=follow)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"expected a file that can be read, got: {error.strerror}") from None
    if not stat.S_ISREG(found.st_mode) or (not follow and found.st_nlink > 1):
        raise ValueError(
            f"expected plain files, got {shown(path.name)}, which is a link or no file"
        )
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _in_transaction(seen: Seen) -> bool:
    journal = seen[3]
    if journal is None or not journal[1]:
        return False
    if _is_still((journal,), _JOURNAL_SECONDS):
        raise ValueError(
            "expected a study at rest, got one with a rollback journal beside it: if both are "
            "yours, open the study once with sqlite3"
        )
    return True


def _is_still(seen: Seen, seconds: float = _STILL) -> bool:
    """Whether the last change is so long ago that another one would have another time."""
    latest = max((one[3] for one in seen if one is not None), default=0)
    return not 0 <= time.time() - latest / 1e9 < seconds


def _require_room(seen: Seen, target: Path) -> None:
    size = sum(one[1] for one in seen[:2] if one is not None)
    if size > LARGEST_FILE:
        raise ValueError(f"expected a study of up to {LARGEST_FILE} bytes, got {size}")
    free = shutil.disk_usage(target.parent).free
    if 2 * size > free:
        raise ValueError(f"expected {2 * size} bytes for a copy to look at, got {free} free")


def _beside(path: Path, end: str) -> Path:
    return path.with_name(path.name + end)


def _copy(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)
    # Whoever puts a pipe in the file's place must not make us wait for its other end.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        with open(os.open(source, flags), "rb") as old, target.open("xb") as new:
            # What is empty stays so: a file of nothing takes no room in either place.
            while piece := old.read(_PIECE):
                if piece.count(0) == len(piece):
                    new.seek(len(piece), os.SEEK_CUR)
                else:
                    new.write(piece)
            new.truncate()
    except FileNotFoundError:
        return
    except OSError as error:
        raise ValueError(f"expected a file that can be read, got: {error.strerror}") from None


def _copy_live(source: Path, target: Path) -> None:
    """Copy a study that workers write to, by SQLite's own way to do so."""
    for path in (target, _beside(target, LOG)):
        path.unlink(missing_ok=True)
    address = f"{source.absolute().as_uri()}?mode=ro"
    try:
        with (
            closing(sqlite3.connect(address, uri=True, timeout=_SECONDS)) as old,
            closing(sqlite3.connect(target)) as new,
        ):
            old.backup(new)
    except sqlite3.Error as error:
        raise ValueError(f"expected a study that can be read, got: {shown(str(error))}") from None
