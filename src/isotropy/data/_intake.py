"""How much of the data is taken, and what happens to what cannot be used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Missing: TypeAlias = Literal["refuse", "drop"]
Text: TypeAlias = Literal["refuse", "drop"]
Rows: TypeAlias = NDArray[np.int64]

_FEWEST_WHOLE_GROUPS = 20
_MOST_LOST = 0.5


@dataclass(frozen=True)
class Intake:
    """How much of the data `load` takes, and what happens to what cannot be used.

    Args:
        missing: Whether a missing or non-finite value is refused (``"refuse"``, the default) or its
            row is left out (``"drop"``). Data that would lose more than half of their rows are
            refused.
        text: Whether a column of text among the inputs of a table is refused (``"refuse"``, the
            default) or left out (``"drop"``), as are columns that only count the rows: id, index.
        most_rows: How many rows, images or items to take at most, drawn at random while reading, so
            that the others are never in memory; all by default. Rows keep their order. Small
            groups stay whole.
        seed: Seed of that draw, 0 by default.
        guess: Whether to guess what was not given: the target of a table (`guess_target`), which of
            two arrays is the input, ``"train"`` where there are two splits, names of columns
            where there are none. Not by default.

    Raises:
        ValueError: If a value is none of these.

    Example:
        >>> from isotropy.data import load
        >>> load((np.zeros((9, 3)), np.arange(9.0)), intake=Intake(most_rows=5)).notes
        ('5 of 9 rows drawn at random (seed 0)',)
    """

    missing: Missing = "refuse"
    text: Text = "refuse"
    most_rows: int | None = None
    seed: int = 0
    guess: bool = False

    def __post_init__(self) -> None:
        for name, value in (("missing", self.missing), ("text", self.text)):
            if value not in ("refuse", "drop"):
                raise ValueError(f"expected {name} 'refuse' or 'drop', got {value!r}")
        most = self.most_rows
        if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
            raise ValueError(f"expected most_rows as a positive number or None, got {most!r}")
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or self.seed < 0:
            raise ValueError(f"expected a seed of 0 or more, got {self.seed!r}")

    def drawn(self, count: int, groups: Any, source: str) -> Rows | None:
        """Draw rows at random, in order; ``None`` where all are taken.

        Groups are kept whole where they are small enough for at least 20 of them. Otherwise rows
        are drawn from all groups together.

        Args:
            count: How many rows there are.
            groups: Which rows belong together, shape ``(count,)``, or ``None``.
            source: Where the rows are from, for messages.

        Raises:
            ValueError: If there are not as many groups as rows.
        """
        if groups is not None and len(groups) != count:
            raise ValueError(
                f"{source}: expected as many groups as inputs, got {len(groups)} and {count}"
            )
        if self.most_rows is None or count <= self.most_rows:
            return None
        random = np.random.default_rng(self.seed)
        if groups is not None:
            whole = _whole_groups(groups, self.most_rows, random)
            if whole is not None:
                return whole
        return np.sort(random.choice(count, self.most_rows, replace=False, shuffle=False))

    def note(self, rows: Rows | None, count: int, what: str = "rows") -> tuple[str, ...]:
        """Say how many of how many were drawn, if not all were."""
        if rows is None:
            return ()
        return (f"{len(rows):,} of {count:,} {what} drawn at random (seed {self.seed})",)


def _whole_groups(groups: Any, most: int, random: np.random.Generator) -> Rows | None:
    """Take whole groups in random order, as many as fit; ``None`` where too few would."""
    values = groups.detach().cpu().numpy() if isinstance(groups, Tensor) else np.asarray(groups)
    _, numbers, sizes = np.unique(values, return_inverse=True, return_counts=True)
    if sizes.mean() * _FEWEST_WHOLE_GROUPS > most:
        return None
    taken = np.zeros(len(sizes), bool)
    room = most
    for group in random.permutation(len(sizes)):
        if sizes[group] <= room:
            taken[group] = True
            room -= int(sizes[group])
    return np.flatnonzero(taken[numbers.reshape(-1)])


def taken(values: Any, rows: Rows | None) -> Any:
    """The chosen rows of an array, a tensor or a list; nothing of nothing."""
    if rows is None or values is None:
        return values
    return values[rows] if isinstance(values, Tensor | np.ndarray) else np.asarray(values)[rows]


def refuse_options(source: Any, **options: Any) -> None:
    """Refuse options that mean nothing for a kind of data."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{source}: expected no {name} for this kind of data, got {value!r}")


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
