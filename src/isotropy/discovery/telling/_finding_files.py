"""Folders and files of findings: what is read and written the same way for one and for many.

A folder may come from a stranger. Only files whose names we know are opened, none that a link takes
from elsewhere, and what they hold is checked field by field before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from isotropy._run import json_text
from isotropy._run._json import MOST_BYTES, bounded_json, shown, utf8_text
from isotropy._run._json_fields import Field, Misfit

if TYPE_CHECKING:
    from isotropy.discovery.telling._finding import Finding

# the lists of a search, and the word in the names of their folders
PLACES = {"findings": "finding", "trivial": "trivial", "nearly": "nearly", "partly": "partly"}
FORMAT = 2
_KNOWN = (1, FORMAT)  # in format 1 what a kind adds stood beside the other fields
FINDING_FILE, LIST_FILE, PROGRAM = "finding.json", "findings.json", "use_model.py"
WEIGHTS, SOFT_WEIGHTS = "model.safetensors", "soft.safetensors"


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


def without_links(folder: Path) -> Path:
    """A folder to save to, in which no link would take what is written elsewhere.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as name:
        ...     (Path(name) / "finding.json").symlink_to("elsewhere.json")
        ...     list(without_links(Path(name)).iterdir())
        []
    """
    for name in (FINDING_FILE, LIST_FILE, PROGRAM, WEIGHTS, SOFT_WEIGHTS):
        if (folder / name).is_symlink():
            (folder / name).unlink()
    return folder


def inside(folder: Path, name: str) -> Path:
    """The file or folder of that name in a folder, which no link leads out of.

    Raises:
        ValueError: If it is elsewhere.
    """
    path = folder / name
    try:
        within = path.resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):  # links in a circle, names that no system has
        within = False
    if not within:
        raise ValueError(
            f"expected {name} in the folder {str(folder)!r}, got a link that leads out of it"
        )
    return path


def read_json(folder: Path, name: str, what: str) -> Any:
    """The JSON of a file in a folder.

    Raises:
        ValueError: If it is missing, is a link that leads elsewhere, too large or damaged.
    """
    path = folder / name
    try:
        if not path.is_file():
            raise ValueError(f"expected a folder with {name}, got {str(folder)!r}")
        with open(inside(folder, name), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        words = error.strerror or type(error).__name__
        raise ValueError(f"expected {what} in {str(path)!r}, got {words}") from error
    what = f"{what} in {str(path)!r}"
    return bounded_json(utf8_text(content, what), what)


def read_format(folder: Path, name: str, what: str) -> dict[str, Any]:
    """The JSON of a finding, or of several, in a format that we know.

    Raises:
        ValueError: If it is missing or damaged, or another version wrote it.
    """
    given = read_json(folder, name, what)
    version = given.get("format") if isinstance(given, dict) else None
    if type(version) is not int or version not in _KNOWN:
        known = " or ".join(map(str, _KNOWN))
        raise ValueError(
            f"expected {what} of format {known} in {str(folder / name)!r}, got format "
            f"{shown(version)}"
        )
    return dict(given)


def checked(field: Field, given: Any, path: Path) -> Any:
    """What a field makes of what was in a file; the error names the file.

    Raises:
        ValueError: If it does not fit.
    """
    try:
        return field(given)
    except Misfit as misfit:
        raise ValueError(f"{os.fspath(path)}: {misfit}") from None


def fingerprint(given: Mapping[str, Any], spec: Mapping[str, Any] | None) -> str:
    """Which finding, and which of its models, weights belong to."""
    return json_text({"name": given["name"], "symmetry": given["symmetry"], "model": spec})


_TEXT = '''"""{name}: how to load the model and predict with it."""

from pathlib import Path

import numpy as np

from isotropy.discovery import Finding

finding = Finding.load(Path(__file__).parent)
print(finding)

x = np.random.default_rng(0).normal(size=({shape}))  # rows like yours, in their units
print(finding.predict(x).shape)  # {what}
# finding.model is a torch.nn.Module; finding.symmetry its group and how it acts
'''
_NONE = '''"""{name}: how to load the finding, which has no model."""

from pathlib import Path

from isotropy.discovery import Finding

finding = Finding.load(Path(__file__).parent)
print(finding)
print(finding.symmetry)
'''


def how_to_use(finding: Finding) -> str:
    """A program that loads a finding from its own folder, and predicts if there is a model.

    Example:
        >>> from isotropy.discovery import Finding
        >>> "which has no model" in how_to_use(Finding.of("S(3)", "S(3)"))
        True
    """
    name = " ".join(finding.name.replace("\\", " ").replace('"', "'").split())
    model = finding.model
    if model is None and finding.soft is not None:
        model = finding.soft.model
    if model is None or finding.method == "transitions":
        return _NONE.format(name=name)
    layout = finding.layout
    shape: list[int] = [5]
    if layout.image:
        shape += layout.image
    else:
        width = _width(finding)
        if width is None:
            return _NONE.format(name=name)
        if layout.channels > 1 or layout.sequences:
            sides = [width // layout.channels, layout.channels]
            shape += reversed(sides) if layout.channels_first else sides
        else:
            shape.append(width)
    text = ", ".join(map(str, shape))
    return _TEXT.format(name=name, shape=text, what="values, or logits of classes")


def _width(finding: Finding) -> int | None:
    """How many numbers a row has."""
    given = getattr(finding.model, "in_features", None)
    if isinstance(given, int):
        return given
    if finding.symmetry is not None:
        return finding.symmetry.rep_in.size()
    labels = getattr(finding.details, "labels", None)
    return None if labels is None else labels.shape[-1]
