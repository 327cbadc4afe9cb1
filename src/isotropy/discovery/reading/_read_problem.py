"""A problem: rows as every stage takes them, in the parts that each stage may look at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._plan import Method
from isotropy.discovery.reading._reading_thresholds import ReadingThresholds
from isotropy.discovery.reading._shape_reading import Kind
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.testing._claim_test import SMALLEST_SAMPLE

Indices = NDArray[np.int64]


def three_way_split(
    n: int,
    *,
    fractions: Sequence[float] = (0.4, 0.3, 0.3),
    seed: int | torch.Generator | None = 0,
    groups: ArrayLike | None = None,
    smallest: int = SMALLEST_SAMPLE,
) -> tuple[Indices, Indices, Indices]:
    """Split samples at random into parts to find, to fit and to confirm.

    A symmetry is claimed from the first part, predictors are fitted to the second, and the claim
    is tested on the third, which neither has seen.

    Args:
        n: The number of samples.
        fractions: The shares of the three parts, which sum to one.
        seed: Seed or generator of the shuffle.
        groups: Which samples belong together (of one patient, one trajectory), any labels of
            shape (n,). A group is never split, and the shares are of groups.
        smallest: The fewest samples, or groups, that each part needs.

    Returns:
        The indices of each part, in increasing order.

    Raises:
        ValueError: If there are too few samples or groups; the sentence says how many are needed.

    Example:
        >>> find, fit, confirm = three_way_split(100)
        >>> len(find), len(fit), len(confirm)
        (40, 30, 30)
        >>> three_way_split(30)
        Traceback (most recent call last):
        ...
        ValueError: expected at least 66 samples to find, fit and confirm on, got 30
    """
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 0:
        raise ValueError(f"expected a number of samples, got {n!r}")
    shares = np.asarray(fractions, dtype=np.float64)
    if shares.shape != (3,) or not bool((shares > 0).all()) or abs(shares.sum() - 1) > 1e-9:
        raise ValueError(f"expected three positive fractions that sum to 1, got {fractions!r}")
    units = np.arange(n)
    if groups is not None:
        labels = np.asarray(groups)
        if labels.shape != (n,):
            raise ValueError(f"expected a group for each of {n} samples, got shape {labels.shape}")
        units = np.unique(labels, return_inverse=True)[1]
    count = int(units.max()) + 1 if n else 0
    needed = _needed(shares, smallest)
    if count < needed:
        what = "samples" if groups is None else "groups of samples"
        raise ValueError(
            f"expected at least {needed} {what} to find, fit and confirm on, got {count}"
        )
    order = torch.randperm(count, generator=make_generator(seed)).numpy()
    part = np.empty(count, dtype=np.int64)
    part[order] = np.repeat(np.arange(3), _sizes(shares, count))
    find, fit, confirm = (np.flatnonzero(part[units] == i) for i in range(3))
    return find, fit, confirm


def _sizes(shares: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    ends = np.round(np.cumsum(shares) * count).astype(np.int64)
    return np.diff(ends, prepend=0)


def _needed(shares: NDArray[np.float64], smallest: int) -> int:
    """From so many on, each part has its fewest: rounding takes at most one from a part."""
    count = math.ceil((smallest + 1) / float(shares.min()))
    while count and _sizes(shares, count - 1).min() >= smallest:
        count -= 1
    return count


Rows: TypeAlias = TaskData | ImageData | TransitionData


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows in parts that keep each other honest.

    Args:
        kind: What a row is.
        rows: All of them.
        find: What proposers look at.
        fitted: What predictors free of symmetry are fitted to.
        outside: What found nothing and fitted nothing: claims are tested on these.
        seen: ``find`` and ``fitted`` together, to which models are fitted.
        methods: What is looked for in them.
        share: Of the level, where the same rows are looked at as data of another kind, too.

    Example:
        >>> from isotropy.data import load
        >>> data = TaskData.of(load((np.random.rand(100, 3), np.arange(100.0))))
        >>> problem = Problem.of(data, "vectors")
        >>> [len(part.x) for part in (problem.find, problem.fitted, problem.outside)]
        [40, 30, 30]
    """

    kind: Kind
    rows: Rows
    find: Rows
    fitted: Rows
    outside: Rows
    seen: Rows
    methods: tuple[Method, ...] = ()
    share: float = 1.0

    @staticmethod
    def of(
        rows: Rows,
        kind: Kind,
        *,
        seed: int = 0,
        methods: tuple[Method, ...] = (),
        share: float = 1.0,
        searching: bool = False,
    ) -> Problem:
        """Split rows in three; of many images some are drawn.

        Args:
            rows: All rows.
            kind: What a row is.
            seed: Of the split.
            methods: What is looked for in them.
            share: Of the level.
            searching: Whether networks are to be trained on the first part, which then has more.

        Raises:
            ValueError: If there are too few.
        """
        limits = ReadingThresholds.now()
        fractions: Sequence[float] = limits.parts
        if isinstance(rows, ImageData) and not searching and _units(rows) >= limits.few_images:
            fractions = limits.parts_of_images
        parts = three_way_split(len(rows.x), fractions=fractions, seed=seed, groups=rows.groups)
        find, fit, held = parts
        both = np.sort(np.concatenate([find, fit]))
        if isinstance(rows, ImageData):
            most = rows.most_numbers(limits)
            found_on = limits.images_searched if searching else limits.images_looked_at
            find = rows.drawn(find, found_on, seed)
            fit, both = (rows.drawn(part, most[0], seed) for part in (fit, both))
            held = rows.drawn(held, most[1], seed)
        elif isinstance(rows, TaskData):
            both = np.concatenate([find, fit])
        found, fitted, outside, seen = (rows.rows(part) for part in (find, fit, held, both))
        return Problem(kind, rows, found, fitted, outside, seen, methods, share)


def _units(rows: ImageData) -> int:
    return len(rows.x) if rows.groups is None else len(np.unique(rows.groups))
