"""The usual names of small groups, told from how their elements multiply."""

from __future__ import annotations

import torch
from torch import Tensor

from isotropy.groups import Group, Z

_SAME = 1e-9


def group_name(group: Group) -> str:
    """What a group is called: Z(n), D(n), SO(2), O(2), products of these, or by its order.

    Example:
        >>> from isotropy.groups import D, O2eR3
        >>> group_name(D(4)), group_name(Group([[1, 0, 2], [0, 2, 1]])), group_name(O2eR3())
        ('D(4)', 'D(3)', 'O(2)')
    """
    if isinstance(group, Z):
        return str(group)
    if group.is_discrete:
        return _finite_name(group.elements().dense())
    if len(group.algebra) > 1:
        return group.name
    (generator,) = (a.dense() for a in group.algebra)
    discrete = [h.dense() for h in group.discrete]
    if not discrete:
        return "SO(2)"
    reversing = [h for h in discrete if _same(h @ generator, -generator @ h)]
    if len(discrete) == len(reversing) == 1:
        return "O(2)"
    rest = _finite_name(Group(discrete).elements().dense())
    return f"{rest} with SO(2)" if reversing else f"{rest} x SO(2)"


def _finite_name(elements: Tensor) -> str:
    order = len(elements)
    orders = [_order(g, order) for g in elements]
    if max(orders) == order:
        return f"Z({order})"
    if order == 4:
        return "Z(2) x Z(2)"
    for place, turns in enumerate(orders):
        if 2 * turns != order:
            continue
        turn = elements[place]
        flips = [g for g, k in zip(elements, orders, strict=True) if k == 2]
        if any(_same(g @ turn @ g, torch.linalg.inv(turn)) for g in flips):
            return f"D({turns})"
    return f"a group of order {order}"


def _order(g: Tensor, most: int) -> int:
    power, one = g, torch.eye(len(g), dtype=g.dtype)
    for k in range(1, most + 1):
        if _same(power, one):
            return k
        power = power @ g
    raise AssertionError("an element of a finite group has an order that divides the group's")


def _same(a: Tensor, b: Tensor) -> bool:
    return float((a - b).abs().max()) < _SAME
