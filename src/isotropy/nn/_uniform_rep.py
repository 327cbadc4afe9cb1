"""Channels shared out evenly among tensor orders (thesis 2.6 and A.1.9)."""

from __future__ import annotations

from math import comb

from isotropy.groups import Group
from isotropy.reps import Rep, T


def uniform_rep(channels: int, group: Group) -> Rep:
    """A space of ``channels`` dimensions with about as many for each order of tensors.

    Goes up to the highest order k with (k+1)·d^k ≤ channels, and fills what is left over by the
    same rule. For groups that are not orthogonal, tensors of one order are spread over T(p, q)
    by the binomial coefficients.

    Args:
        channels: The dimension.
        group: The group.

    Raises:
        TypeError: If the group is none.
        ValueError: If there are too few channels for even one vector.

    Example:
        >>> from isotropy.groups import SO
        >>> print(uniform_rep(256, SO(3)))
        (70*Scalar+23*V+7*T(2)+2*T(3))(SO(3))
    """
    if not isinstance(group, Group):
        raise TypeError(f"expected a group to share out channels for, got {type(group).__name__}")
    if isinstance(channels, bool) or not isinstance(channels, int) or channels < 2 * group.d:
        raise ValueError(
            f"expected at least {2 * group.d} channels, so that a hidden layer of {group} holds "
            f"a vector, got {channels!r}; or give the hidden representation itself"
        )
    counts: dict[int, int] = {}
    left = channels
    while left > 0:
        top = _highest_order(left, group.d)
        for order in range(top + 1):
            counts[order] = counts.get(order, 0) + group.d ** (top - order)
        left -= (top + 1) * group.d**top
    terms = [term for order in sorted(counts) for term in _tensors(counts[order], order, group)]
    return sum(terms[1:], terms[0])(group)


def _highest_order(channels: int, d: int) -> int:
    order = 0
    # for d = 1 tensors of all orders are one-dimensional: vectors suffice
    while (order + 2) * d ** (order + 1) <= channels and (d > 1 or order < 1):
        order += 1
    return order


def _tensors(count: int, order: int, group: Group) -> list[Rep]:
    if group.is_orthogonal:
        return [count * T(order)]
    shares = [count * comb(order, p) / 2**order for p in range(order + 1)]
    whole = [int(share) for share in shares]
    # what remains goes to the largest remainders, upper indices first
    by_remainder = sorted(range(order + 1), key=lambda p: (whole[p] - shares[p], -p))
    for p in by_remainder[: count - sum(whole)]:
        whole[p] += 1
    return [n * T(p, order - p) for p, n in reversed(list(enumerate(whole))) if n]
