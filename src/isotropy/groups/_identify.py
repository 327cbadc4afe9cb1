"""Which catalogue group a set of generators is."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from isotropy.groups._group import Group
from isotropy.groups._lie_groups import (
    O11,
    O13,
    SO,
    SO13,
    O,
    SO11p,
    SO13p,
)
from isotropy.groups._maps import Dense, LinearMap, Monomial
from isotropy.groups._motions import (
    SE,
    E,
)
from isotropy.groups._parse_group import parse_group


@dataclass(frozen=True)
class Identity:
    """What a group was found to be.

    Attributes:
        name: In prose.
        group: The catalogue group in standard position, or None if none was recognised.
        change: P: the given group is ``group.conjugate(change)``. A renumbering of the points
            for permutation groups, a matrix for Lie groups.
        order: The number of elements; infinite for Lie groups.
        dimension: The dimension of the Lie algebra.
        orbits: The orbits of a permutation group on its points.
        generators: The generators of a permutation group, as given.
    """

    name: str
    group: Group | None
    change: LinearMap
    order: int | float
    dimension: int
    orbits: tuple[tuple[int, ...], ...] = ()
    generators: tuple[tuple[int, ...], ...] = ()

    @property
    def points(self) -> tuple[int, ...]:
        """For a permutation group, the given point at each standard position."""
        return tuple(self.change.index.tolist()) if isinstance(self.change, Monomial) else ()


def identify(group: Group | Iterable[Sequence[int]]) -> Identity:
    """Say which group of the catalogue a group is, in whatever basis or numbering.

    Permutation groups: cyclic, dihedral, symmetric and alternating ones, their products (on
    pairs and side by side), simultaneous copies and wreath products; for any other: order,
    generators and orbits. Lie groups, from exact generators: so(n), so(p,q), sp, sl, gl, su,
    u, se, scalings and products of them, with the reflections of O, E and the Lorentz groups;
    for any other: the structure of the Lie algebra. Every name is proven before it is given.

    Args:
        group: A group of permutations or a Lie group, or permutations as lists of integers.

    Raises:
        ValueError: If the group is neither, or its algebra is not closed under brackets.

    Example:
        >>> found = identify([[2, 1, 4, 3, 0, 5]])  # a cycle of 0, 2 and 4
        >>> found.group, found.points
        (Z(3)+Trivial(3), (0, 2, 4, 1, 3, 5))
        >>> identify([[1, 0, 2, 3], [1, 2, 3, 0]]).name
        'symmetric group S(4)'
        >>> identify(Group(algebra=[[[0.0, 2.0], [0.5, 0.0]]])).name
        'so(1,1), metric signature (1,1)'
    """
    given = group if isinstance(group, Group) else Group(group)
    if given.is_permutation:
        return _identify_permutations(given)
    if given.algebra and given.by_value:
        return _identify_lie_group(given)
    raise ValueError(
        f"expected a group of permutations or a Lie group of matrices, got {given!r:.80}"
    )


def _identify_permutations(group: Group) -> Identity:
    from isotropy.groups._identify_permutations import identify_permutations

    monomials = [h.monomial() for h in group.discrete]
    generators = tuple(tuple(m.index.tolist()) for m in monomials if m is not None)
    found = identify_permutations(generators, group.d)
    return Identity(
        name=found.name,
        group=None if found.expression is None else parse_group(found.expression),
        change=Monomial(torch.tensor(found.points)),
        order=found.order,
        dimension=0,
        orbits=found.orbits,
        generators=generators,
    )


def _identify_lie_group(group: Group) -> Identity:
    from isotropy.groups._identify_algebra import identify_algebra

    found = identify_algebra([a.dense().numpy() for a in group.algebra])
    connected = None if found.expression is None else parse_group(found.expression)
    change, name = Dense(found.change), found.name
    whole = connected
    if connected is not None and group.discrete:
        inverse = change.inverse()
        standard = [(inverse @ h @ change).dense() for h in group.discrete]
        whole = _with_components(connected, standard)
        name = f"{name}, with discrete generators" if whole is None else f"{whole}: {name}"
    elif group.discrete:
        name = f"{name}, with discrete generators"
    return Identity(name, whole, change, math.inf, found.dimension)


def _with_components(connected: Group, discrete: list[torch.Tensor]) -> Group | None:
    """The catalogue group of this identity component and these further generators."""
    if all(connected.contains(h) is True for h in discrete):
        return connected
    larger: list[Group] = []
    if type(connected) is SO:
        larger = [O(connected.n)]
    elif type(connected) is SE:
        larger = [E(connected.n)]
    elif type(connected) is SO13p:
        larger = [SO13(), O13()]
    elif type(connected) is SO11p:
        larger = [O11()]
    for candidate in larger:
        if all(candidate.contains(h) for h in discrete) and _reach_all(candidate, discrete):
            return candidate
    return None


def _reach_all(candidate: Group, discrete: list[torch.Tensor]) -> bool:
    """Whether the generators reach every component: signs of det and of the time direction."""

    def signs(h: torch.Tensor) -> tuple[int, int]:
        return int(torch.linalg.det(h).sign()), int(h[0, 0].sign())

    is_lorentz = isinstance(candidate, SO13 | O13 | O11)
    width = 2 if is_lorentz else 1
    reached = {(1,) * width}
    for _ in range(2):
        steps = {signs(h)[:width] for h in discrete} | reached
        reached = {tuple(a * b for a, b in zip(x, y, strict=True)) for x in steps for y in steps}
    wanted = {signs(h.dense())[:width] for h in candidate.discrete} | {(1,) * width}
    for _ in range(2):
        wanted = {tuple(a * b for a, b in zip(x, y, strict=True)) for x in wanted for y in wanted}
    return reached == wanted
