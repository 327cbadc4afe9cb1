"""What a search will try, and about how long that takes."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from isotropy._run import ProgressCallback, Step, time_in_words
from isotropy.discovery.reading._methods import Method
from isotropy.discovery.reading._shape_reading import ShapeReading

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
