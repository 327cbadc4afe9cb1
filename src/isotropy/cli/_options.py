"""Options that several verbs take, and what is refused."""

from __future__ import annotations

import logging
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isotropy.data._dataset import TaskKind

Target = Annotated[
    str | None, typer.Option(metavar="NAME,NAME,…", help="The columns of a table to predict.")
]
_LOG = logging.getLogger(__name__)


class MethodOption(StrEnum):
    """What to look for."""

    permutations = "permutations"
    generators = "generators"
    layers = "layers"
    transitions = "transitions"
    groups = "groups"


class TaskOption(StrEnum):
    """What the targets are."""

    regression = "regression"
    classification = "classification"


class SplitOption(StrEnum):
    """Which part of the data."""

    train = "train"
    test = "test"


Task = Annotated[
    TaskOption | None, typer.Option(help="What the targets are; by default inferred from them.")
]


def task_kind(task: TaskOption | None) -> TaskKind | None:
    """The name of a task as ``load`` takes it."""
    if task is None:
        return None
    return "regression" if task is TaskOption.regression else "classification"


def listed_groups(text: str | None) -> list[str]:
    """Split at the commas that stand outside parentheses."""
    if text is None:
        return []
    parts, depth = [""], 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


class StrategyOption(StrEnum):
    """How to search among sets of groups."""

    lattice = "lattice"
    dqn = "dqn"
    random = "random"
    tpe = "tpe"


def require_search(
    searching: bool, study: str | None, strategy: StrategyOption | None, children: int | None
) -> None:
    """Refuse options of the search where there is none, and a number that is too small.

    Raises:
        ValueError: If one of them does not fit.

    Example:
        >>> require_search(False, "study.db", None, None)
        Traceback (most recent call last):
        ...
        ValueError: expected --method groups with --study, got another method
    """
    given = {"study": study, "strategy": strategy, "children": children}
    options = [f"--{name}" for name, value in given.items() if value is not None]
    if options and not searching:
        raise ValueError(f"expected --method groups with {options[0]}, got another method")
    if children is not None and children < 1:
        raise ValueError(f"expected at least one child, got {children}")


def say_what_is_kept(study: str | None) -> None:
    """Say what is left of a search that was interrupted."""
    _LOG.warning(
        "nothing is kept: with --study FILE, what is trained would be"
        if study is None
        else "the children that are trained are in the study; the same command goes on"
    )


def check_picture(path: Path) -> None:
    """Refuse a picture that could not be written before anything is computed for it.

    Args:
        path: What was given as ``--plot``.

    Raises:
        ValueError: If it is not the name of a PNG file in a folder that exists.

    Example:
        >>> check_picture(Path("orbits.svg"))
        Traceback (most recent call last):
        ...
        ValueError: expected a file name ending in .png for --plot, got 'orbits.svg'
    """
    if path.suffix.lower() != ".png":
        raise ValueError(f"expected a file name ending in .png for --plot, got {str(path)!r}")
    if not path.absolute().parent.is_dir():
        raise ValueError(f"expected an existing folder for --plot, got {str(path.parent)!r}")
    if path.is_dir():
        raise ValueError(f"expected a file for --plot, got the folder {str(path)!r}")
