"""Partitions one step away from another: two blocks merged, one element moved or split off."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from isotropy.sharing._assignment import canonical_labels

Labels = NDArray[np.int64]


def merged_partitions(labels: Labels) -> list[Labels]:
    """All partitions that have two blocks of this one as one.

    Example:
        >>> [found.tolist() for found in merged_partitions(np.array([0, 1, 2]))]
        [[0, 0, 1], [0, 1, 0], [0, 1, 1]]
    """
    pairs = combinations(range(int(labels.max()) + 1), 2)
    return [joined(labels, [pair]) for pair in pairs]


def joined(labels: Labels, pairs: list[tuple[int, int]]) -> Labels:
    """The partition in which the blocks of each pair are one.

    Example:
        >>> joined(np.array([0, 1, 2, 3]), [(0, 1), (1, 3)])
        array([0, 0, 1, 0])
    """
    found = labels.copy()
    for kept, gone in pairs:
        into, of = (found[labels == block][0] for block in (kept, gone))
        found[found == of] = into
    return canonical_labels(found)


def moved_partitions(labels: Labels) -> list[Labels]:
    """All partitions that have one element in another of the blocks.

    Example:
        >>> [found.tolist() for found in moved_partitions(np.array([0, 0, 1, 1]))]
        [[0, 1, 0, 0], [0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 1, 0]]
    """
    sizes = np.bincount(labels)
    found = []
    for element, block in enumerate(labels):
        if sizes[block] > 1:  # moving the last element of a block would be a merge
            for other in range(len(sizes)):
                if other != block:
                    found.append(_with(labels, element, other))
    return found


def split_partitions(labels: Labels) -> list[Labels]:
    """All partitions that have one element in a block of its own.

    Example:
        >>> [found.tolist() for found in split_partitions(np.array([0, 0, 0]))]
        [[0, 1, 1], [0, 1, 0], [0, 0, 1]]
    """
    sizes = np.bincount(labels)
    found = {}
    for element, block in enumerate(labels):
        if sizes[block] > 1:
            split = _with(labels, element, len(sizes))
            found[split.tobytes()] = split  # of a block of two, either element gives the same
    return list(found.values())


def _with(labels: Labels, element: int, block: int) -> Labels:
    changed = labels.copy()
    changed[element] = block
    return canonical_labels(changed)
