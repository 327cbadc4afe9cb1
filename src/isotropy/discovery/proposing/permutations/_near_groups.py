"""Of nested groups that hold approximately, the ones to build a soft model with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from isotropy.naming._pair_group import PairGroup

# a subgroup costs less in any case: this much less tells that it is what holds
_MUCH_LESS = 0.25


@dataclass(frozen=True, eq=False)
class NearGroup:
    """A group, and what it costs."""

    group: PairGroup
    method: str
    cost: float


def worth_softening(groups: Sequence[NearGroup]) -> list[NearGroup]:
    """The largest groups, and subgroups of them that cost less than a quarter.

    Returns:
        The largest first.

    Example:
        >>> import numpy as np
        >>> turn, flip = np.roll(np.arange(4), 1), np.arange(4)[::-1]
        >>> stay = np.arange(1)
        >>> shifts = PairGroup(((turn, stay),), 4, 1)
        >>> both = PairGroup(((turn, stay), (flip, stay)), 4, 1)
        >>> kept = worth_softening([NearGroup(shifts, "", 0.2), NearGroup(both, "", 0.3)])
        >>> [one.group.order for one in kept]
        [8]
        >>> kept = worth_softening([NearGroup(shifts, "", 0.02), NearGroup(both, "", 0.3)])
        >>> [one.group.order for one in kept]
        [8, 4]
    """
    kept: list[NearGroup] = []
    for one in sorted(groups, key=lambda near: -near.group.order):
        around = [other for other in kept if other.group.contains(one.group)]
        if all(one.cost < _MUCH_LESS * other.cost for other in around):
            kept.append(one)
    return kept
