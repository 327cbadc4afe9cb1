"""The name of an abstract group, read off how its elements multiply, or off a small table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import gcd, prod

import numpy as np
import torch
from torch import Tensor

from isotropy.groups._block_systems import connected_components
from isotropy.groups._group import Group
from isotropy.groups._permutation_groups import Z
from isotropy.groups._stabilizer_chain import IntArray

_SAME = 1e-9


@dataclass(frozen=True)
class NamedAction:
    """A group of the catalogue in its standard action; `parts` for "+", "*" and "wreath"."""

    kind: str
    degree: int
    order: int
    parts: tuple[NamedAction, ...] = ()

    def __str__(self) -> str:
        if self.kind == "wreath":
            return f"wreath({self.parts[0]},{self.parts[1]})"
        return self.kind.join(map(str, self.parts)) if self.parts else f"{self.kind}({self.degree})"

    def contains(self, s: IntArray) -> bool:
        """Whether the permutation s of the standard points belongs to the group."""
        every = np.arange(self.degree)
        match self.kind:
            case "Trivial":
                return np.array_equal(s, every)
            case "S":
                return True
            case "A":
                cycles = np.unique(connected_components(self.degree, every, s)).size
                return (self.degree - cycles) % 2 == 0
            case "Z" | "D":
                turns = (s - s[0] - every) % self.degree == 0
                flips = (s - s[0] + every) % self.degree == 0
                return bool(turns.all() or (self.kind == "D" and flips.all()))
            case "+":
                ends = np.cumsum([part.degree for part in self.parts])
                pieces = zip(self.parts, np.split(s, ends[:-1]), ends, strict=True)
                return all(_maps(part, piece - (end - part.degree)) for part, piece, end in pieces)
            case "*":
                grid = [part.degree for part in self.parts]
                images = np.stack(np.unravel_index(s, grid)).reshape(len(grid), *grid)
                return all(_acts(part, images[a], a) for a, part in enumerate(self.parts))
        inner, outer = self.parts
        blocks, places = np.divmod(s.reshape(outer.degree, inner.degree), inner.degree)
        return _acts(outer, blocks, 0) and all(_maps(inner, place) for place in places)


def _maps(group: NamedAction, s: IntArray) -> bool:
    """Whether s is a permutation at all, and one of the group."""
    return np.array_equal(np.sort(s), np.arange(group.degree)) and group.contains(s)


def _acts(group: NamedAction, images: IntArray, axis: int) -> bool:
    """Whether a coordinate's images depend on that coordinate alone, through the group."""
    images = np.moveaxis(images, axis, 0).reshape(group.degree, -1)
    return bool((images == images[:, :1]).all()) and _maps(group, images[:, 0])


def product_action(parts: Iterable[NamedAction]) -> NamedAction:
    """The product action of several groups, nested products opened up."""
    flat = tuple(f for part in parts for f in (part.parts if part.kind == "*" else (part,)))
    return NamedAction(
        "*", math.prod(f.degree for f in flat), math.prod(f.order for f in flat), flat
    )


def abstract_name(group: Group) -> str:
    """The usual name of a group: Z(n), D(n), SO(2), O(2), products of these, or by its order.

    R is one continuous parameter that does not come back, as that of boosts.

    ``identify`` says which action of which group of the catalogue it is.

    Example:
        >>> from isotropy.groups import D, O2eR3
        >>> (
        ...     abstract_name(D(4)),
        ...     abstract_name(Group([[1, 0, 2], [0, 2, 1]])),
        ...     abstract_name(O2eR3()),
        ... )
        ('D(4)', 'D(3)', 'O(2)')
        >>> abstract_name(Group([[1, 0, 2, 3], [0, 1, 3, 2]]))
        'Z(2) x Z(2)'
    """
    if isinstance(group, Z):
        return str(group)
    if group.is_discrete:
        return _finite_name(group)
    if len(group.algebra) > 1:
        return group.name
    (generator,) = (a.dense() for a in group.algebra)
    discrete = [h.dense() for h in group.discrete]
    circle = "SO(2)" if _turns(generator) else "R"
    if not discrete:
        return circle
    reversing = [h for h in discrete if _same(h @ generator, -generator @ h)]
    if len(discrete) == len(reversing) == 1 and circle == "SO(2)":
        return "O(2)"
    rest = _finite_name(Group(discrete))
    return f"{rest} with {circle}" if reversing else f"{rest} x {circle}"


def _turns(generator: Tensor) -> bool:
    """Whether exp(tA) stays bounded, as rotations do and boosts, scalings and shears do not."""
    if _same(generator, -generator.mT):
        return True
    values, vectors = torch.linalg.eig(generator)
    size = float(values.abs().max())
    if float(values.real.abs().max()) > _SAME * max(size, 1.0):
        return False
    # a shear has too few eigenvectors
    return bool(torch.linalg.matrix_rank(vectors, rtol=1e-6) == len(generator))


def _finite_name(group: Group) -> str:
    elements = group.elements().dense()
    order = len(elements)
    orders = [_order(g, order) for g in elements]
    generators = [h.dense() for h in group.discrete]
    if all(_same(g @ h, h @ g) for g in generators for h in generators):
        return " x ".join(f"Z({n})" for n in _invariant_factors(orders))
    for place, turns in enumerate(orders):
        if 2 * turns != order:
            continue
        turn = elements[place]
        flips = [g for g, k in zip(elements, orders, strict=True) if k == 2]
        if any(_same(g @ turn @ g, torch.linalg.inv(turn)) for g in flips):
            return f"D({turns})"
    return f"a group of order {order}"


def _invariant_factors(orders: Sequence[int]) -> tuple[int, ...]:
    """n₁, n₂ | n₁, … of a commutative group Z(n₁) × Z(n₂) × …, from the orders of its elements.

    Exactly gcd(n₁, k) gcd(n₂, k) … of its elements have a k-th power of one, and these numbers
    tell it from all others.
    """
    ks = sorted(set(orders))
    roots = [sum(k % order == 0 for order in orders) for k in ks]
    chains = _divisor_chains(len(orders), max(orders))
    return next(c for c in chains if [prod(gcd(n, k) for n in c) for k in ks] == roots)


def _divisor_chains(product: int, largest: int) -> Iterator[tuple[int, ...]]:
    """The ways to write a product as factors of which each divides the one before."""
    if product == largest:
        yield (largest,)
        return
    if product % largest:
        return
    rest = product // largest
    for n in range(2, largest + 1):
        if largest % n == 0:
            yield from ((largest, *chain) for chain in _divisor_chains(rest, n))


def _order(g: Tensor, most: int) -> int:
    power, one = g, torch.eye(len(g), dtype=g.dtype)
    for k in range(1, most + 1):
        if _same(power, one):
            return k
        power = power @ g
    raise AssertionError("an element of a finite group has an order that divides the group's")


def _same(a: Tensor, b: Tensor) -> bool:
    return float((a - b).abs().max()) < _SAME
