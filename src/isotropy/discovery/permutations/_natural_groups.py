"""Groups that are tried whatever the data, and how many groups are like a given one."""

from __future__ import annotations

from functools import lru_cache
from math import inf, log

import numpy as np
from scipy.special import gammaln

from isotropy.discovery.naming._pair_group import PairGroup, symmetric


def log_conjugates(
    group: PairGroup, inputs: int | None = None, outputs: int | None = None
) -> float:
    """The log of how many groups are like one: its conjugates by permutations of positions.

    At most n! m!/(|G| · fixed!) of them are different. A group that takes positions in their
    natural order is one of few.

    Args:
        group: The group.
        inputs: How many positions of the input are to be permuted; by default all.
        outputs: How many of the output.
    """
    n = group.inputs if inputs is None else inputs
    m = group.outputs if outputs is None else outputs
    natural = natural_groups(group.inputs, group.outputs)
    few = log(len(natural)) if any(group.equals(known) for known in natural) else inf
    moved_in, moved_out = group.moved()
    ways = gammaln(n + 1) - gammaln(n - len(moved_in) + 1)
    ways += gammaln(m + 1) - gammaln(m - len(moved_out) + 1)
    return min(few, float(ways) - log(group.order))


@lru_cache(maxsize=32)
def natural_groups(n: int, m: int) -> tuple[PairGroup, ...]:
    """Groups that take positions in their order: all, even and odd, halves, shifts, turns.

    Each acts on the input alone, and, where the output has as many positions, on both at once.

    Args:
        n: Positions of the input.
        m: Positions of the output.
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
    kept: list[PairGroup] = []
    for group in groups:
        if group.order > 1 and not any(group.equals(k) for k in kept):
            kept.append(group)
    return tuple(kept)
