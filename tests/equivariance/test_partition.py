"""Partition distance against brute force, its axioms, and Claim 3 of Yeh et al."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import permutations, product
from math import factorial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from isotropy.equivariance import partition_distance

Labels = tuple[int, ...]


def set_partitions(k: int) -> Iterator[Labels]:
    """All partitions of k elements, each once: a label is at most one above those before it."""
    for labels in product(range(k), repeat=k):
        if all(labels[i] <= max(labels[:i], default=-1) + 1 for i in range(k)):
            yield labels


def by_relabelling(a: Labels, b: Labels) -> int:
    """The fewest disagreements over all ways to name the blocks of ``a``."""
    k = len(a)
    names = permutations(range(k))
    return min(sum(name[x] != y for x, y in zip(a, b, strict=True)) for name in names)


def by_assignment(a: np.ndarray, b: np.ndarray) -> int:
    table = np.zeros((a.max() + 1, b.max() + 1), int)
    np.add.at(table, (a, b), 1)
    return int(a.size - table[linear_sum_assignment(-table)].sum())


def labels(k: int) -> st.SearchStrategy[Labels]:
    return st.tuples(*[st.integers(0, k - 1)] * k)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_all_pairs_against_all_relabellings(k: int) -> None:
    found = list(set_partitions(k))
    assert len(found) == {1: 1, 2: 2, 3: 5, 4: 15}[k]  # the Bell numbers
    for a, b in product(found, repeat=2):
        assert partition_distance(a, b) == by_relabelling(a, b)


@given(labels(6), labels(6))
@settings(max_examples=40, deadline=None)
def test_against_all_relabellings(a: Labels, b: Labels) -> None:
    assert partition_distance(a, b) == by_relabelling(a, b)


@pytest.mark.parametrize("blocks", [2, 5, 20, 60, 200])
@pytest.mark.parametrize("moved", [0.0, 0.3, 1.0])
def test_against_the_dense_assignment(blocks: int, moved: float) -> None:
    rng = np.random.default_rng(blocks)
    for _ in range(4):
        a = rng.integers(blocks, size=200)
        b = np.where(rng.random(200) < moved, rng.integers(200, size=200), a)
        assert partition_distance(a, b) == by_assignment(a, b)


def test_paths_where_little_is_settled_at_once() -> None:
    # blocks that overlap in a chain: entries of equal size, each next to two others
    for n in (3, 10, 200):
        a = np.repeat(np.arange(n), 4)
        b = np.concatenate([[0, 0], np.repeat(np.arange(1, n), 4), [n, n]])
        assert partition_distance(a, b) == by_assignment(a, b) == 2 * n


def test_known_sizes() -> None:
    rng = np.random.default_rng(0)
    k = 6400
    a = rng.integers(80, size=k)
    assert partition_distance(a, np.arange(k)) == k - len(np.unique(a))
    assert partition_distance(a, np.zeros(k, int)) == k - np.bincount(a).max()
    assert partition_distance(np.arange(k), rng.permutation(k)) == 0


@given(labels(12), labels(12), labels(12), st.permutations(range(12)))
@settings(max_examples=60, deadline=None)
def test_it_is_a_metric_on_partitions(a: Labels, b: Labels, c: Labels, order: list[int]) -> None:
    ab = partition_distance(a, b)
    assert ab == partition_distance(b, a)
    same = all((a[i] == a[j]) == (b[i] == b[j]) for i, j in product(range(12), repeat=2))
    assert (ab == 0) == same
    assert ab <= partition_distance(a, c) + partition_distance(c, b)
    # neither the names of blocks nor the order of elements matter
    assert partition_distance([order[x] for x in a], b) == ab
    assert partition_distance([a[i] for i in order], [b[i] for i in order]) == ab


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, unique=True), st.data()
)
@settings(max_examples=60, deadline=None)
def test_settled_entries_are_in_a_heaviest_matching(
    cells: list[tuple[int, int]], data: st.DataObject
) -> None:
    counts = np.array(
        data.draw(st.lists(st.integers(1, 4), min_size=len(cells), max_size=len(cells)))
    )
    rows, columns = np.array(cells).T
    table = np.zeros((6, 6), int)
    table[rows, columns] = counts
    best = table[linear_sum_assignment(-table)].sum()
    # one settled that no heaviest matching has would take away from what is left to match
    found = partition_distance(np.repeat(rows, counts), np.repeat(columns, counts))
    assert found == counts.sum() - best


# --- Claim 3 ------------------------------------------------------------------------------------


@cache
def one_block_at_a_time(labels: Labels) -> frozenset[Labels]:
    """Eq. 24: permutations that move elements of one block only."""
    return frozenset(
        g for g in block_group(labels) if len({labels[i] for i in range(len(g)) if g[i] != i}) <= 1
    )


@cache
def block_group(labels: Labels) -> frozenset[Labels]:
    """All permutations that keep every element in its block."""
    everything = permutations(range(len(labels)))
    return frozenset(g for g in everything if all(labels[i] == labels[j] for i, j in enumerate(g)))


def require_claim_3(a: Labels, b: Labels) -> None:
    distance = partition_distance(a, b)
    for group in (one_block_at_a_time, block_group):
        difference = len(group(a) ^ group(b))
        assert distance <= difference <= (factorial(len(a)) - 1) * distance
    # Both lower bounds follow from one: for a block of p + q elements of which the largest part
    # that stays together has p, moving q separates at least pq ≥ q pairs; so the pairs that only
    # one partition has together, which are transpositions that only one group has, are at least
    # as many as the elements moved on the way over the common refinement.
    transpositions = sum((a[i] == a[j]) != (b[i] == b[j]) for i in range(len(a)) for j in range(i))
    assert distance <= transpositions


@pytest.mark.parametrize("k", [1, 2, 3, 4, 5])
def test_claim_3_for_all_pairs(k: int) -> None:
    for a, b in product(set_partitions(k), repeat=2):
        require_claim_3(a, b)


@given(labels(6), labels(6))
@settings(max_examples=60, deadline=None)
def test_claim_3_for_six(a: Labels, b: Labels) -> None:
    require_claim_3(a, b)


def test_both_sides_of_claim_3_are_reached() -> None:
    for group in (one_block_at_a_time, block_group):
        assert len(group((0, 0)) ^ group((0, 1))) == 1
    assert partition_distance([0, 0], [0, 1]) == 1


# --- what goes in -------------------------------------------------------------------------------


def test_lists_arrays_tensors_and_shapes() -> None:
    a, b = [[3, 3], [-7, 2**40]], [[0, 0], [0, 1]]
    assert partition_distance(a, b) == 1
    assert partition_distance(np.array(a), torch.tensor(b)) == 1
    assert partition_distance(np.array(b, np.uint8), torch.tensor(a)) == 1
    assert partition_distance(np.uint64(5), -1) == 0  # a single element


@pytest.mark.parametrize(
    ("a", "b", "kind", "sentence"),
    [
        ([0, 1], [0, 1, 2], ValueError, r"expected partitions of the same shape, got \(2,\) and"),
        ([[0, 1]], [0, 1], ValueError, r"expected partitions of the same shape, got \(1, 2\)"),
        ([], [], ValueError, r"expected labels of at least one element, got none"),
        ([0.0, 1.0], [0, 1], TypeError, r"expected integers as labels, got float64"),
        ([0, 1], torch.rand(2), TypeError, r"expected integers as labels, got float32"),
        ([True, False], [0, 1], TypeError, r"expected integers as labels, got bool"),
        (["a", "b"], [0, 1], TypeError, r"expected integers as labels, got <U1"),
        (["a", None], [0, 1], TypeError, r"expected integers as labels, got object"),
    ],
)
def test_bad_labels(a: Any, b: Any, kind: type[Exception], sentence: str) -> None:
    with pytest.raises(kind, match=sentence):
        partition_distance(a, b)
