"""The search for the partition of the highest evidence: runs, moves, merges and kicks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from isotropy._run import ProgressCallback, Step
from isotropy.sharing._assignment import canonical_labels

if TYPE_CHECKING:
    from isotropy.sharing._partition_evidence import PartitionEvidence

Labels = NDArray[np.int64]
Array = NDArray[np.float64]
# how many blocks, the nearest by value, an element may move to in one sweep
_NEAR = 8
_MOST_SWEEPS = 100
# below this inflation of variances the entries are as good as independent
_CORRELATED = 2.0
# kicks in a row that may fail; fewer for large maps, of which each visits every element
_MOST_KICKS = 16
_KICKED_ELEMENTS = 1500


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


def search_partition(
    evidence: PartitionEvidence, progress: ProgressCallback | None = None
) -> tuple[Labels, bool]:
    """The best partition found, see ``PartitionEvidence.best``, and whether Ctrl-C stopped it."""
    labels = cluster_values(evidence.fitted, evidence.variance, evidence.scale or 0.0)
    interrupted = False
    if evidence.problem.shape[1] > 1:
        starts, kicks = [labels], 0
        alone = 1 / np.diagonal(evidence.gram).clip(1e-300)  # variances, were the others known
        if (evidence.variance[: len(alone)] > _CORRELATED * alone).any():
            known = np.tile(alone, evidence.problem.shape[0])
            starts.append(cluster_values(evidence.fitted, known, evidence.scale or 0.0))
            kicks = min(_MOST_KICKS, _KICKED_ELEMENTS // evidence.size)
        rng, score = np.random.default_rng(0), evidence.score(labels)
        failed, sweeps = 0, 0
        try:
            while starts or failed < kicks:
                failed += 1
                start = starts.pop(0) if starts else _kicked(labels, rng)
                for found, reached in _climb(evidence, start):
                    if reached > score + 1e-9:
                        labels, score, failed = found, reached, 0
                    sweeps += 1
                    if progress is not None:
                        progress(Step(sweeps, None, f"{int(labels.max()) + 1} blocks"))
        except KeyboardInterrupt:
            interrupted = True
    return labels, interrupted


def cluster_values(values: Array, variances: Array, scale: float) -> Labels:
    """The best partition of independent Gaussian values into equal ones, of ``PartitionEvidence``.

    Sorted values are cut into runs by dynamic programming, O(K²): exact among such partitions.

    Args:
        values: Measured values, shape ``(K,)``.
        variances: Of their errors, shape ``(K,)``.
        scale: τ, the standard deviation of the true values.

    Example:
        >>> cluster_values(np.array([0.9, 5.0, 1.1]), np.full(3, 0.01), 5.0)
        array([0, 1, 0])
    """
    order = np.argsort(values, kind="stable")
    precision = 1 / variances[order]
    count, weight = len(order), scale**-2
    sums = np.concatenate([[0.0], np.cumsum(precision)])
    firsts = np.concatenate([[0.0], np.cumsum(precision * values[order])])
    factorials = gammaln(np.arange(count + 1).clip(1))
    best = np.zeros(count + 1)
    cut = np.zeros(count + 1, dtype=np.int64)
    for end in range(1, count + 1):
        inner = sums[end] - sums[:end]
        runs = 0.5 * (firsts[end] - firsts[:end]) ** 2 / (inner + weight)
        runs += factorials[end - np.arange(end)] - 0.5 * np.log1p(inner / weight)
        totals = best[:end] + runs
        cut[end] = int(totals.argmax())
        best[end] = totals[cut[end]]
    labels = np.zeros(count, dtype=np.int64)
    end, block = count, 0
    while end > 0:
        labels[order[cut[end] : end]] = block
        end, block = int(cut[end]), block + 1
    return canonical_labels(labels)


def _climb(evidence: PartitionEvidence, labels: Labels) -> Iterator[tuple[Labels, float]]:
    """A partition and its score; then better ones, a sweep and its merges after the other."""
    score = evidence.score(labels)
    for _ in range(_MOST_SWEEPS):
        yield labels, score
        moved = _merged(evidence, _moved(evidence, labels))
        reached = evidence.score(moved)
        if reached <= score + 1e-9:
            break
        labels, score = moved, reached


def _values(evidence: PartitionEvidence, inner: Array, linear: Array, sizes: Labels) -> Array:
    """The expected value of each block; no element is near an empty one."""
    means = np.linalg.solve(inner + evidence.weight * np.eye(len(sizes)), linear)
    return np.where(sizes > 0, means, inf)


def _moved(evidence: PartitionEvidence, labels: Labels) -> Labels:
    """One sweep: each element to the block, of its own or another, where the score is best."""
    _, n = evidence.problem.shape
    labels = labels.copy()
    inner, linear = evidence.moments(labels)
    sizes = np.bincount(labels)
    for i in range(evidence.size):
        row, column = divmod(i, n)
        home = labels[i]
        # the element alone, as a column of M; then M and b without it
        touch = np.bincount(
            labels[row * n : row * n + n], evidence.gram[column], minlength=len(sizes)
        )
        own = evidence.gram[column, column]
        touch[home] -= own
        rest, rest_linear = inner.copy(), linear.copy()
        rest[home] -= touch
        rest[:, home] -= touch
        rest[home, home] -= own
        rest_linear[home] -= evidence.cross[i]
        left = sizes.copy()
        left[home] -= 1
        if left[home] == 0:  # what differences leave of an empty block is rounding
            rest[home] = rest[:, home] = rest_linear[home] = 0.0
        near = np.arange(len(sizes))
        if len(sizes) > _NEAR:
            values = _values(evidence, inner, linear, sizes)
            near = np.argsort(np.abs(values - evidence.fitted[i]))[:_NEAR]
        candidates = np.unique(np.append(near, home))
        candidates = candidates[left[candidates] > 0]
        alone = len(sizes)
        grown = np.zeros((len(candidates) + 1, alone + 1, alone + 1))
        grown[:, :alone, :alone] = rest
        grown_linear = np.zeros((len(candidates) + 1, alone + 1))
        grown_linear[:, :alone] = rest_linear
        targets = np.append(candidates, alone)
        index = np.arange(len(targets))
        wide = np.append(touch, 0.0)
        grown[index, targets, :] += wide
        grown[index, :, targets] += wide
        grown[index, targets, targets] += own
        grown_linear[index, targets] += evidence.cross[i]
        # an empty block has evidence 0 and prior 0, so it need not be taken out
        counts = np.tile(np.append(left, 0), (len(targets), 1))
        counts[index, targets] += 1
        scores = evidence.gaussian(grown, grown_linear) + gammaln(counts.clip(1)).sum(1)
        best = int(scores.argmax())
        target = int(targets[best])
        if target == home or (target == alone and left[home] == 0):
            continue
        labels[i] = target
        inner, linear, sizes = grown[best], grown_linear[best], counts[best]
        if target != alone:
            inner, linear, sizes = inner[:-1, :-1], linear[:-1], sizes[:-1]
    return canonical_labels(labels)


def _merged(evidence: PartitionEvidence, labels: Labels) -> Labels:
    """Merge pairs of blocks, the best first, while the score improves."""
    inner, linear = evidence.moments(labels)
    sizes = np.bincount(labels)
    while len(sizes) > 1:
        score = float(evidence.gaussian(inner, linear)) + gammaln(sizes).sum()
        order = np.argsort(_values(evidence, inner, linear, sizes))
        pairs = [
            (order[i], order[j])
            for i in range(len(order))
            for j in range(i + 1, min(i + 3, len(order)))
        ]
        joined = [_with_merged(inner, linear, sizes, a, b) for a, b in pairs]
        inners, linears, counts = (np.stack(parts) for parts in zip(*joined, strict=True))
        scores = evidence.gaussian(inners, linears) + gammaln(counts).sum(1)
        best = int(np.argmax(scores))
        if scores[best] <= score + 1e-9:
            break
        a, b = pairs[best]
        labels = canonical_labels(np.where(labels == b, a, labels))
        inner, linear = evidence.moments(labels)
        sizes = np.bincount(labels)
    return labels


def _with_merged(
    inner: Array, linear: Array, sizes: NDArray[np.int64], a: int, b: int
) -> tuple[Array, Array, NDArray[np.int64]]:
    """M, b and block sizes where block b has joined block a."""
    joined = inner.copy()
    joined[a] += joined[b]
    joined[:, a] += joined[:, b]
    keep = np.arange(len(sizes)) != b
    first, counts = linear.copy(), sizes.copy()
    first[a] += first[b]
    counts[a] += counts[b]
    return joined[np.ix_(keep, keep)], first[keep], counts[keep]


def _kicked(labels: Labels, rng: np.random.Generator) -> Labels:
    """A partition near another: two blocks joined, one cut in two, or elements exchanged."""
    kicked = labels.copy()
    one, other = rng.choice(len(labels), 2, replace=False)
    kind = rng.integers(4)
    if kind == 0:
        kicked[labels == labels[one]] = labels[other]
    elif kind == 1:
        half = rng.random(len(labels)) < 0.5
        kicked[(labels == labels[one]) & half] = labels.max() + 1
    else:
        count = 2 if kind == 2 else max(2, len(labels) // 4)
        chosen = rng.choice(len(labels), count, replace=False)
        kicked[chosen] = labels[np.roll(chosen, 1)]
    return canonical_labels(kicked)
