"""What a search will try, and about how long that takes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from isotropy._run import ProgressCallback, Step, time_in_words
from isotropy.discovery.reading._shape_reading import Kind, ShapeReading

Method = Literal["permutations", "generators", "layers", "transitions", "groups"]
METHODS: tuple[Method, ...] = ("permutations", "generators", "layers", "transitions")
_ON_REQUEST: tuple[Method, ...] = ("groups",)  # takes long
_SUITING: dict[Kind, tuple[Method, ...]] = {
    "vectors": ("permutations", "generators"),
    "sequences": ("permutations", "generators"),
    "images": ("layers", "groups"),
    "transitions": ("transitions",),
}


def known_methods(methods: Any) -> tuple[Method, ...]:
    """The methods that are asked for, once each.

    Raises:
        ValueError: If a name is unknown, or there is none.

    Example:
        >>> known_methods("layers")
        ('layers',)
    """
    chosen = (methods,) if isinstance(methods, str) else tuple(methods)
    known = (*METHODS, *_ON_REQUEST)
    if not chosen or not set(chosen) <= set(known):
        raise ValueError(f"expected methods among {', '.join(known)}, got {methods!r:.80}")
    return tuple(dict.fromkeys(chosen))


def suiting_methods(methods: tuple[Method, ...], kind: Kind) -> tuple[Method, ...]:
    """Those of the methods that are for data of a kind.

    Raises:
        ValueError: If there is none.

    Example:
        >>> suiting_methods(METHODS, "images")
        ('layers',)
    """
    suiting = tuple(method for method in methods if method in _SUITING[kind])
    if suiting:
        return suiting
    there = " or ".join(repr(method) for method in sorted(_SUITING[kind]))
    what = {"vectors": "vectors", "sequences": "sequences and sets"}.get(kind, kind)
    raise ValueError(f"expected the method {there} for {what}, got {', '.join(methods)}")


def refuse_search_options(
    study: str | os.PathLike[str] | None, strategy: str, children: int | None
) -> None:
    """Refuse the options of a search among groups, where there is none.

    Raises:
        ValueError: If one of them is not as usual.
    """
    usual = strategy == "lattice"
    for name, given in (("study", study), ("strategy", None if usual else strategy)):
        if given is not None:
            raise ValueError(f"expected the method 'groups' with a {name}, got another method")
    if children is not None:
        raise ValueError("expected the method 'groups' with children, got another method")


def refuse_options(what: str = "images", /, **options: Any) -> None:
    """Refuse options that are not for images, or other data.

    Raises:
        ValueError: If one of them is not None.
    """
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"expected no {name} for {what}, got {value!r:.80}")


_LOG = logging.getLogger(__name__)
_WORDS: dict[Method, str] = {
    "permutations": "permutations of columns, steps or elements",
    "generators": "continuous symmetries (rotations, boosts, scalings, translations)",
    "layers": "motions of the image, and layers that commute with them",
    "groups": "sets of groups for hidden layers, by training many networks",
    "transitions": "mirrors and exchanged limbs",
}
# seconds on one core of a few years' age: to begin with, and for each million of entries
_SECONDS: dict[Method, tuple[float, float]] = {
    "permutations": (15.0, 600.0),
    "generators": (15.0, 600.0),
    "layers": (45.0, 40.0),
    "groups": (300.0, 300.0),
    "transitions": (20.0, 60.0),
}
_MOST_ENTRIES = 1_000_000  # more rows are not looked at


@dataclass(frozen=True)
class Plan:
    """What is tried, one after the other.

    Args:
        reading: How the data were read.
        methods: What is looked for.
        entries: How many numbers there are in the inputs.
        budget: How long it may take; None for no limit.

    Example:
        >>> reading = ShapeReading("vectors", False, "500 vectors of 8 columns")
        >>> print(Plan(reading, ("permutations",), 4000))
        500 vectors of 8 columns; looking for permutations of columns, steps or elements; about 20 s
    """

    reading: ShapeReading
    methods: Sequence[Method]
    entries: int
    budget: float | None = None

    @property
    def seconds(self) -> float:
        """How long it takes, roughly; never more than the budget."""
        millions = min(self.entries, _MOST_ENTRIES) / 1e6
        expected = 0.0
        for start, slope in (_SECONDS[method] for method in self.methods):
            expected += start + slope * millions
        return expected if self.budget is None else min(expected, self.budget)

    def __str__(self) -> str:
        looked_for = ", ".join(_WORDS[method] for method in self.methods)
        limit = "" if self.budget is None else f" (budget {time_in_words(self.budget)})"
        return (
            f"{self.reading.words}; looking for {looked_for}; about "
            f"{time_in_words(self.seconds)}{limit}"
        )

    def timed(self, progress: ProgressCallback | None) -> ProgressCallback:
        """A callback that adds how long it will still take, and logs the plan when work begins."""
        started = time.monotonic()
        logged: list[bool] = []

        def tell(step: Step) -> None:
            if not logged:  # once options have been checked and work begins
                logged.append(True)
                _LOG.info("%s", self)
            if progress is None:
                return
            spent = time.monotonic() - started
            share = min(step.done / step.total, 1.0) if step.total else 0.0
            # the plan is a guess that what was done corrects, the more the further it has come
            guess = (
                self.seconds if share == 0 else share * spent / share + (1 - share) * self.seconds
            )
            left = max(guess - spent, guess * (1 - share) * 0.5, 1.0)
            message = f"{step.message}, about {time_in_words(left)} left"
            progress(Step(step.done, step.total, message))

        return tell
