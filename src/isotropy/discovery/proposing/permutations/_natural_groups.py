"""Groups that are tried whatever the data, and how many groups are like a given one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from math import inf, log

import numpy as np
from scipy.special import gammaln

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.naming._pair_group import PairGroup, Permutation, symmetric


def log_conjugates(
    group: PairGroup, inputs: int | None = None, outputs: int | None = None
) -> float:
    """The log of how many groups are like one: its conjugates by permutations of positions.

    At most n! m!/(|G| · fixed!) of them are different. A group that takes positions in their
    natural order is one of few.
    """
    n = group.inputs if inputs is None else inputs
    m = group.outputs if outputs is None else outputs
    few = log_natural(group)
    moved_in, moved_out = group.moved()
    ways = gammaln(n + 1) - gammaln(n - len(moved_in) + 1)
    ways += gammaln(m + 1) - gammaln(m - len(moved_out) + 1)
    return min(few, float(ways) - log(group.order))


def log_natural(group: PairGroup) -> float:
    """The log of how many natural groups one is among, each kind taken to be as probable.

    Returns:
        Infinity where it is none of them.

    Example:
        >>> everything = PairGroup(tuple((p, np.arange(1)) for p in symmetric([range(6)], 6)), 6, 1)
        >>> log_natural(everything) < log(10)
        True
    """
    limits = ProposingThresholds.now()
    n, m = group.inputs, group.outputs
    for share, groups in (
        (limits.plain_share, plain_groups(n, m)),
        (1 - limits.plain_share, block_groups(n, m)),
    ):
        if any(group.equals(known) for known in groups):
            return log(len(groups) / share)
    return inf


def natural_groups(n: int, m: int) -> tuple[PairGroup, ...]:
    """Groups that take positions in their order, one by one or in blocks."""
    return plain_groups(n, m) + block_groups(n, m)


@lru_cache(maxsize=32)
def plain_groups(n: int, m: int) -> tuple[PairGroup, ...]:
    """Groups that take positions in their order: all, even and odd, halves, shifts, turns.

    Each acts on the input alone, and, where the output has as many positions, on both at once.
    """
    everything = np.arange(n)
    shift, reverse = np.roll(everything, -1), everything[::-1].copy()
    by_blocks = [[range(n)], [range(0, n, 2), range(1, n, 2)]]
    if n % 2 == 0:
        by_blocks.append([range(n // 2), range(n // 2, n)])
    actions = [symmetric([list(b) for b in blocks], n) for blocks in by_blocks]
    actions += [[shift], [shift, reverse], [reverse]]
    stay = np.arange(m)
    groups = [PairGroup(tuple((p, stay) for p in action), n, m) for action in actions if action]
    if m == n:
        groups += [PairGroup(tuple((p, p) for p in action), n, m) for action in actions if action]
    return _different(groups, ())


@lru_cache(maxsize=32)
def block_groups(n: int, m: int) -> tuple[PairGroup, ...]:
    """Groups of blocks of positions: k points of d columns in one row, or k kinds of d columns.

    All permutations of the k blocks as a whole, their shifts, and turns; columns lie point by point
    or coordinate by coordinate. Outputs stay, or lie in k blocks that move along. And all
    permutations within each of three blocks or more.

    Example:
        >>> [group.order for group in block_groups(6, 1)]
        [8, 6, 6, 2, 2]
    """
    if n > ProposingThresholds.now().widest_blocks:
        return ()
    groups = []
    for k in range(n, 1, -1):
        if n % k or (k == n and (m == n or m % n)):
            continue
        places = np.arange(k)
        shift, reverse = np.roll(places, -1), places[::-1].copy()
        actions = [symmetric([range(k)], k)]
        if k > 3:
            actions += [[shift], [shift, reverse]]
        outputs = [_lifts(m, k)] if m % k == 0 and m > 1 else []
        if 2 < k < n:
            within = symmetric(np.arange(n).reshape(k, n // k).tolist(), n)
            groups.append(PairGroup(tuple((p, np.arange(m)) for p in within), n, m))
        for lift in _lifts(n, k):
            for action in actions:
                if k < n:
                    stay = tuple((lift(p), np.arange(m)) for p in action)
                    groups.append(PairGroup(stay, n, m))
                for lifted in (one for lifts in outputs for one in lifts):
                    along = tuple((lift(p), lifted(p)) for p in action)
                    groups.append(PairGroup(along, n, m))
    return _different(groups, plain_groups(n, m))


def _lifts(n: int, k: int) -> list[Callable[[Permutation], Permutation]]:
    """From permutations of k blocks to those of n positions, blocks in a row or interleaved."""
    cells = np.arange(n).reshape(k, n // k)
    mixed = np.arange(n).reshape(n // k, k).T

    def lift(p: Permutation, at: Permutation) -> Permutation:
        moved = np.empty(n, dtype=np.int64)
        moved[at] = at[p]
        return moved

    if n == k:
        return [partial(lift, at=cells)]
    return [partial(lift, at=cells), partial(lift, at=mixed)]


def _different(groups: Sequence[PairGroup], others: tuple[PairGroup, ...]) -> tuple[PairGroup, ...]:
    kept: list[PairGroup] = []
    for group in groups:
        if group.order > 1 and not any(group.equals(k) for k in (*others, *kept)):
            kept.append(group)
    return tuple(kept)
