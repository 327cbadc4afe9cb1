"""Files and folders that are either wholly written or not at all, and the cache's folder."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Literal, overload

from isotropy._run._json import json_text


@overload
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["wb"] = "wb"
) -> AbstractContextManager[IO[bytes]]: ...


@overload
def atomic_write(
    path: str | os.PathLike[str], mode: Literal["w"]
) -> AbstractContextManager[IO[str]]: ...


def atomic_write(
    path: str | os.PathLike[str], mode: Literal["wb", "w"] = "wb"
) -> AbstractContextManager[IO[Any]]:
    """Open a file whose content appears under its name only once it is complete.

    The content goes to a temporary file in the same folder, is flushed to disk and then renamed
    over ``path``. If the block raises, the temporary file is removed and a file that was there
    before stays as it was. A symbolic link is followed, as ``open`` would.

    Args:
        path: the file to write; its folder must exist.
        mode: ``"wb"`` for bytes, ``"w"`` for text in UTF-8.

    Returns:
        A context manager that yields the open file.

    Raises:
        ValueError: if the folder does not exist or ``path`` is something other than a file.

    Example:
        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> target = Path(folder.name) / "rank.txt"
        >>> with atomic_write(target, "w") as file:
        ...     _ = file.write("9")
        ...     target.exists()
        False
        >>> target.read_text()
        '9'
        >>> folder.cleanup()
    """
    if mode not in ("wb", "w"):
        raise ValueError(f"expected the mode 'wb' or 'w', got {mode!r}")
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise ValueError(
            f"cannot write {os.fspath(path)!r}: "
            f"expected an existing folder, got {os.fspath(target.parent)!r}"
        )
    if target.exists() and not target.is_file():
        raise ValueError(f"expected the path of a file to write, got {os.fspath(path)!r}")
    return _written_then_renamed(target, mode)


@contextmanager
def _written_then_renamed(target: Path, mode: Literal["wb", "w"]) -> Iterator[IO[Any]]:
    # Opening with "x" obeys the umask, where the tempfile module would leave the file private.
    temporary = target.parent / f".isotropy-{secrets.token_hex(8)}.tmp"
    encoding = "utf-8" if mode == "w" else None
    try:
        file = open(temporary, mode.replace("w", "x"), encoding=encoding)  # noqa: SIM115
    except OSError as error:  # say it of the file that was asked for
        raise OSError(error.errno, error.strerror, os.fspath(target)) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _flush_folder(target.parent)


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system allows asking for that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_json(path: str | os.PathLike[str], value: object) -> None:
    """Write a value to a JSON file, atomically.

    Args:
        path: the file to write; its folder must exist.
        value: what to write, by the rules of `json_text`.

    Raises:
        TypeError: if something in ``value`` has no JSON form; the file is left as it was.
        ValueError: if the folder does not exist.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "answer.json"
        ...     write_json(path, {"rank": 9})
        ...     print(path.read_text(), end="")
        {
          "rank": 9
        }
    """
    text = json_text(value, indent=2)
    with atomic_write(path, "w") as file:
        file.write(text + "\n")


def cache_folder() -> Path | None:
    """Say where results that can be recomputed are kept.

    ``$ISOTROPY_CACHE`` names the folder, or is ``off`` for no cache at all. Without it the folder
    is ``isotropy`` under ``$XDG_CACHE_HOME``, or else under the system's own place:
    ``~/.cache``, ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows.

    Returns:
        The folder, which need not exist yet; ``None`` where nothing should be cached.

    Example:
        >>> import os
        >>> os.environ["ISOTROPY_CACHE"] = "off"
        >>> cache_folder() is None
        True
        >>> os.environ["ISOTROPY_CACHE"] = "bases"
        >>> cache_folder().name
        'bases'
        >>> del os.environ["ISOTROPY_CACHE"]
    """
    chosen = os.environ.get("ISOTROPY_CACHE", "")
    if chosen.strip().lower() == "off":
        return None
    try:
        if chosen:
            return Path(chosen).expanduser().absolute()
        return _system_caches() / "isotropy"
    except RuntimeError:  # the user has no home folder
        return None


def _system_caches() -> Path:
    # The XDG specification says to ignore a relative path.
    xdg = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if xdg.is_absolute():
        return xdg
    local = os.environ.get("LOCALAPPDATA")
    platform: str = sys.platform
    if platform == "win32" and local:
        return Path(local)
    if platform == "darwin":
        return Path.home() / "Library" / "Caches"
    return Path.home() / ".cache"


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
