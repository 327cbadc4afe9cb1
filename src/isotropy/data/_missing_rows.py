"""Rows with missing values: counted, left out and noted, unless too many would go."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_MOST_LOST = 0.5


class MissingRows:
    """Which rows lack a value in some column, and which column lacks most.

    Args:
        count: How many rows there are.
        source: Where they are from, for messages.

    Example:
        >>> rows = MissingRows(3, "t.csv")
        >>> rows.add("column 'mass'", np.array([False, True, False]))
        >>> rows.kept(), rows.notes()
        (array([0, 2]), ('1 of 3 rows had missing values and was left out',))
    """

    def __init__(self, count: int, source: str) -> None:
        self._lost = np.zeros(count, bool)
        self._source = source
        self._worst = (0, "")

    def add(self, name: str, missing: NDArray[np.bool_]) -> None:
        """Note the rows in which a column has no usable value."""
        number = int(missing.sum())
        if number:
            self._lost |= missing
            if number > self._worst[0]:
                self._worst = (number, name)

    def kept(self) -> NDArray[np.int64] | None:
        """The rows that lack nothing; ``None`` for all.

        Raises:
            ValueError: If more than half would go; the column to blame is named.
        """
        lost, count = int(self._lost.sum()), len(self._lost)
        if lost > _MOST_LOST * count:
            number, name = self._worst
            raise ValueError(
                f"{self._source}: expected values in at least half of the rows, got missing ones "
                f"in {lost:,} of {count:,}; {name} lacks {number:,}"
            )
        return np.flatnonzero(~self._lost) if lost else None

    def notes(self) -> tuple[str, ...]:
        """Say how many rows were left out, if any were."""
        lost = int(self._lost.sum())
        if not lost:
            return ()
        were = "was" if lost == 1 else "were"
        return (f"{lost:,} of {len(self._lost):,} rows had missing values and {were} left out",)
