"""Folders and files of findings: what is read and written the same way for one and for many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FORMAT = 1


def made_folder(folder: str | Path) -> Path:
    """A folder, made where it is not there.

    Raises:
        ValueError: If a file is in its place.
    """
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"expected a folder to save to, got the file {str(folder)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def read_format(path: Path, what: str) -> dict[str, Any]:
    """The JSON of a finding, or of several, in a format that we know.

    Raises:
        ValueError: If it is missing or damaged, or another version wrote it.
    """
    if not path.is_file():
        raise ValueError(f"expected a folder with {path.name}, got {str(path.parent)!r}")
    try:
        given = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"expected {what} as JSON in {str(path)!r}, got {error}") from error
    version = given.get("format") if isinstance(given, dict) else None
    if version != FORMAT:
        raise ValueError(
            f"expected {what} of format {FORMAT} in {str(path)!r}, got format {version!r:.40}"
        )
    return dict(given)
