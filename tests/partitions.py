"""Partitions of a set, listed by recursion, for tests to compare with."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def canonical_labels(labels: ArrayLike) -> NDArray[np.int64]:
    """The same partition with blocks numbered in the order of their first elements."""
    given = np.asarray(labels)
    blocks = {label: k for k, label in enumerate(dict.fromkeys(given.ravel().tolist()))}
    return np.array([blocks[label] for label in given.ravel().tolist()]).reshape(given.shape)


def all_partitions(size: int) -> list[NDArray[np.int64]]:
    """Every partition of 0, …, size − 1 as canonical labels."""

    def grown(labels: tuple[int, ...]) -> list[tuple[int, ...]]:
        if len(labels) == size:
            return [labels]
        blocks = max(labels, default=-1) + 2
        return [one for block in range(blocks) for one in grown((*labels, block))]

    return [np.array(labels) for labels in grown(())]
