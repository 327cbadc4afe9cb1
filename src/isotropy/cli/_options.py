"""Options that several verbs share, and how the library takes them."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from isotropy.data._dataset import TaskKind


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


Target = Annotated[
    str | None, typer.Option(metavar="NAME,NAME,…", help="The columns of a table to predict.")
]
Task = Annotated[
    TaskOption | None, typer.Option(help="What the targets are; by default inferred from them.")
]


def task_kind(task: TaskOption | None) -> "TaskKind | None":
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
