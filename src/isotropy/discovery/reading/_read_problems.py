"""The reading stage: whatever was given, as problems that the other stages take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch

from isotropy._run import generator as make_generator
from isotropy._run import seconds_of
from isotropy._run._terminal_text import plain_names
from isotropy.data import Dataset, Transitions
from isotropy.discovery._discover_options import DiscoverOptions
from isotropy.discovery.predictors._free_predictor import Task
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._plan import (
    METHODS,
    Method,
    Plan,
    known_methods,
    refuse_options,
    refuse_search_options,
    suiting_methods,
)
from isotropy.discovery.reading._read_problem import Problem, Rows
from isotropy.discovery.reading._reading_thresholds import ReadingThresholds
from isotropy.discovery.reading._shape_reading import ShapeReading, read_shape
from isotropy.discovery.reading._task_data import TaskData, as_dataset
from isotropy.discovery.reading._transition_data import TransitionData


@dataclass(frozen=True, eq=False)
class ReadProblems:
    """Data as they were read.

    Args:
        problems: What the rows may be, the likeliest first; others are looked at where nothing is
            found in those before.
        plan: What is tried, and about how long that takes.
        asked: Whether the user named the methods.
        notes: What was guessed, or left out.
    """

    problems: tuple[Problem, ...]
    plan: Plan
    asked: bool
    notes: tuple[str, ...]


def read_problems(
    x: Any,
    y: Any,
    groups: Any,
    methods: Method | Sequence[Method],
    budget: float | str | None,
    seed: int,
    options: DiscoverOptions,
) -> ReadProblems:
    """Read data, refuse what does not go together, and split rows in three parts.

    Raises:
        ValueError: If it cannot be.
    """
    chosen = known_methods(methods)
    if chosen == ("transitions",) and not isinstance(x, Transitions):
        raise ValueError(
            f"expected Transitions for the method 'transitions', got {type(x).__name__}"
        )
    seconds = None if budget is None else seconds_of(budget)
    given = _as_data(x, y, options.task, groups)
    asked = chosen != METHODS
    reading, given = read_shape(given, chosen if asked else (), options.channels_first)
    chosen = suiting_methods(chosen, reading.kind)
    limits = ReadingThresholds.now()
    if (
        not asked
        and (seconds or 0.0) >= limits.seconds_for_groups
        and _may_have_sets(given, reading)
    ):
        chosen = (*chosen, "groups")
    if "groups" not in chosen:
        refuse_search_options(options.study, options.strategy, options.children)
    given, drawn = _at_most(given, limits.most_rows, seed, shuffled=reading.kind != "images")
    return ReadProblems(
        tuple(_problems(given, reading, chosen, seed, options)),
        Plan(reading, chosen, _entries(given), seconds),
        asked,
        tuple(note for note in (*getattr(given, "notes", ()), *drawn, reading.note) if note),
    )


def _may_have_sets(given: Dataset | Transitions, reading: ShapeReading) -> bool:
    """Whether they are classes of images that can be searched for sets of groups."""
    if isinstance(given, Transitions) or reading.kind != "images":
        return False
    limits, rows = ProposingThresholds.now(), ImageData.of(given)
    if rows.task != "classification":
        return False
    small = max(rows.image[1:]) <= limits.largest_grid
    return small and prod(rows.image) <= limits.most_grid_numbers


def _problems(
    given: Dataset | Transitions,
    reading: ShapeReading,
    methods: tuple[Method, ...],
    seed: int,
    options: DiscoverOptions,
) -> list[Problem]:
    """The rows as what they seem to be; images that may be sets, as sets too."""
    rows: Rows
    if isinstance(given, Transitions):
        names = options.entry_names
        named = (None, None) if names is None else [plain_names(tuple(some)) for some in names]
        rows = TransitionData.of(given, *named)
    elif reading.kind == "images":
        rows = ImageData.of(given)
    else:
        only = methods == ("permutations",)
        rows = TaskData.of(given, reading.channels_first, permuting=only)
    share = 0.5 if reading.doubtful else 1.0
    searching = "groups" in methods
    first = Problem.of(
        rows, reading.kind, seed=seed, share=share, methods=methods, searching=searching
    )
    if not reading.doubtful:
        return [first]
    # no motion of an image: are they elements of a set?
    assert isinstance(given, Dataset)
    only_permuted: tuple[Method, ...] = ("permutations",)
    as_set = TaskData.of(given)
    return [first, Problem.of(as_set, "sequences", seed=seed, share=share, methods=only_permuted)]


def _as_data(x: Any, y: Any, task: Task | None, groups: Any) -> Dataset | Transitions:
    """Whatever was given, as transitions or as a data set with targets that vary."""
    if isinstance(x, Transitions):
        refuse_options("transitions", y=y, task=task, groups=groups)
        return x
    found = as_dataset(x, y, task, groups)
    if found.y is None:
        raise ValueError(f"{found.source}: expected targets, got none")
    if bool((found.y == found.y[:1]).all()):
        raise ValueError(f"{found.source}: expected targets that vary, got the same in every row")
    if found.task == "classification":
        second = int(found.y.bincount().sort(descending=True).values[1])
        fewest = ReadingThresholds.now().fewest_of_class
        if second < fewest:
            raise ValueError(
                f"{found.source}: expected at least {fewest} rows of a second class, got {second}"
            )
    return found


def _at_most(
    data: Dataset | Transitions, most: int, seed: int, *, shuffled: bool
) -> tuple[Dataset | Transitions, list[str]]:
    """Rows in random order, no more than are looked at, and a note where there are more.

    Files are often sorted, and whoever looks at some rows takes the first. Of images rows are drawn
    wherever some will do.
    """
    if isinstance(data, Transitions) or (not shuffled and len(data) <= most):
        return data, []
    drawn = torch.randperm(len(data), generator=make_generator(seed))[:most]
    more = len(data) > most
    return data.rows(drawn), [f"{most} of {len(data)} rows were drawn at random"] if more else []


def _entries(data: Dataset | Transitions) -> int:
    if isinstance(data, Transitions):
        return data.observations.numel() + data.actions.numel()
    return data.x.numel()
