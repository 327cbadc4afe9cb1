"""How far two partitions are apart: the elements that must move (Gusfield, 2002)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import min_weight_full_bipartite_matching
from torch import Tensor

_Integers = NDArray[np.int64]


def partition_distance(a: ArrayLike | Tensor, b: ArrayLike | Tensor) -> int:
    """The number of elements that must change their block so that two partitions agree.

    With n_ij the number of elements in block i of one and block j of the other,

        PD(a, b) = K − max Σ n_ij over all matchings of blocks with blocks (Gusfield, 2002).

    It is a metric: zero only for equal partitions, however their blocks are labelled. Yeh et al.
    (2022, Claim 3) compare it with the permutations that a sharing scheme allows: with G the
    permutations that move elements within one block only (their Eq. 24), or within all blocks at
    once (the group that a shared layer is equivariant to),

        (K! − 1) PD(a, b) ≥ |G(a) Δ G(b)| ≥ PD(a, b).

    Args:
        a: The block of each element, any integers.
        b: The same for the other partition, of the same shape.

    Raises:
        TypeError: If the labels are not integers.
        ValueError: If there are none, or the shapes differ.

    Example:
        >>> partition_distance([0, 0, 1, 1], [5, 5, 5, 2])
        1
        >>> partition_distance([0, 1, 2, 3], [0, 0, 0, 0])
        3
    """
    first, second = _label_array(a), _label_array(b)
    if first.shape != second.shape:
        raise ValueError(
            f"expected partitions of the same shape, got {first.shape} and {second.shape}"
        )
    rows, columns = _blocks_of(first.ravel()), _blocks_of(second.ravel())
    width = int(columns.max()) + 1
    pairs, counts = np.unique(rows * width + columns, return_counts=True)
    return int(first.size - _heaviest_matching(pairs // width, pairs % width, counts))


def _label_array(labels: ArrayLike | Tensor) -> NDArray[np.integer[Any]]:
    """Labels of elements as an array of their own shape."""
    found = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if found.size == 0:
        raise ValueError("expected labels of at least one element, got none")
    if found.dtype.kind not in "iu":
        raise TypeError(f"expected integers as labels, got {found.dtype}")
    return found


def _blocks_of(labels: NDArray[np.integer[Any]]) -> _Integers:
    """The same partition with its blocks numbered 0, 1, … in the order of their labels."""
    blocks: _Integers = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    return blocks


def _heaviest_matching(rows: _Integers, columns: _Integers, counts: _Integers) -> int:
    """The largest sum of entries of a sparse table, no two in one row or in one column."""
    total, before = 0, np.inf
    # a pass costs as much as there are entries, so it must take away its share of them
    while 0 < counts.size < 0.9 * before:
        before = counts.size
        settled = _settled(rows, columns, counts)
        total += int(counts[settled].sum())
        done_rows, done_columns = np.zeros(rows.max() + 1, bool), np.zeros(columns.max() + 1, bool)
        done_rows[rows[settled]] = done_columns[columns[settled]] = True
        left = ~(done_rows[rows] | done_columns[columns])
        rows, columns, counts = rows[left], columns[left], counts[left]
    return total + (_matched(_blocks_of(rows), _blocks_of(columns), counts) if counts.size else 0)


def _settled(rows: _Integers, columns: _Integers, counts: _Integers) -> _Integers:
    """Entries that some heaviest matching has, no two in one row or in one column.

    An entry is settled if it is at least the sum of the largest other entry of its row and the
    largest other of its column: a matching without it has at most one entry in that row and one
    in that column, and to put it in their place loses nothing. Taking a row and a column away
    leaves the others less to beat, so entries settled together stay settled one after another.
    """
    keys = counts * counts.size + np.arange(counts.size)  # ordered by count, no two equal
    best_of_row, second_of_row = _two_largest(keys, rows)
    best_of_column, second_of_column = _two_largest(keys, columns)
    # mutually the best, so that ties never settle two entries of one row or one column
    entries = np.flatnonzero((best_of_row[rows] == keys) & (best_of_column[columns] == keys))
    others = second_of_row[rows[entries]] // counts.size
    others += second_of_column[columns[entries]] // counts.size
    return entries[counts[entries] >= others]


def _two_largest(keys: _Integers, groups: _Integers) -> tuple[_Integers, _Integers]:
    """The largest and the second largest key of each group, zero where there is none."""
    best = np.zeros(groups.max() + 1, dtype=np.int64)
    second = np.zeros_like(best)
    np.maximum.at(best, groups, keys)
    others = keys != best[groups]
    np.maximum.at(second, groups[others], keys[others])
    return best, second


def _matched(rows: _Integers, columns: _Integers, counts: _Integers) -> int:
    height, width = int(rows.max()) + 1, int(columns.max()) + 1
    # a column of its own for each row, worth nothing, so that a matching of all rows exists; all
    # weights are one more than they count, because a weight of zero means that there is no edge
    own = np.arange(height)
    table = csr_array(
        (
            np.concatenate([counts + 1.0, np.ones(height)]),
            (np.concatenate([rows, own]), np.concatenate([columns, width + own])),
        ),
        shape=(height, width + height),
    )
    matched = min_weight_full_bipartite_matching(table, maximize=True)
    return round(float(table[matched].sum())) - height
