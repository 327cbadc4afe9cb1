"""Folders whose contents take their places only once all of them are written."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replaced_contents(
    folder: str | os.PathLike[str], ours: Callable[[str], bool]
) -> Iterator[Path]:
    """A new folder to write to, whose files and folders then replace those of another.

    Where the block raises, be it for a full disk, what was there before stays as it was. Entries of
    the old contents that are ours and were not written again are removed; others are left alone.

    Args:
        folder: The folder whose contents are replaced; made where it is not there.
        ours: Whether an entry of that name is one that the block may have written before.

    Yields:
        The folder to write to, inside the other.

    Raises:
        ValueError: If a file is in the place of the folder.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     for text in ("one", "two"):
        ...         with replaced_contents(name, lambda entry: entry.startswith("note")) as new:
        ...             _ = (new / f"note-{text}").write_text(text)
        ...     sorted(entry.name for entry in Path(name).iterdir()) == ["note-two"]
        True
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder to save to, got the file {str(folder)!r}")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    new = folder / f".isotropy-{secrets.token_hex(8)}"
    old = new.with_name(f"{new.name}-old")
    moved: list[str] = []
    try:
        new.mkdir()
        yield new
        written = sorted(entry.name for entry in new.iterdir())
        old.mkdir()
        try:
            for entry in list(folder.iterdir()):
                if entry not in (new, old) and (entry.name in written or ours(entry.name)):
                    entry.rename(old / entry.name)
            for name in written:
                (new / name).rename(folder / name)
                moved.append(name)
        except BaseException:
            for name in moved:
                _remove(folder / name)
            for entry in list(old.iterdir()):
                entry.rename(folder / entry.name)
            raise
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
        if made:
            _remove_if_empty(folder)
        raise
    shutil.rmtree(old, ignore_errors=True)
    shutil.rmtree(new, ignore_errors=True)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()
