"""Which catalogue group a set of generators is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from isotropy.groups._group import Group
from isotropy.groups._parse import parse_group


@dataclass(frozen=True)
class Identity:
    """What a group was found to be.

    Attributes:
        name: In prose.
        group: The catalogue group in standard position, or None if none was recognised.
        points: The given point at each standard position: the given group is
            ``group.conjugate(points)``.
        order: The number of elements.
        orbits: The orbits on the points.
        generators: The generators as given.
    """

    name: str
    group: Group | None
    points: tuple[int, ...]
    order: int
    orbits: tuple[tuple[int, ...], ...]
    generators: tuple[tuple[int, ...], ...]


def identify(group: Group | Iterable[Sequence[int]]) -> Identity:
    """Say which group of the catalogue a permutation group is.

    Recognises cyclic, dihedral, symmetric and alternating groups, their products (on pairs and
    side by side), simultaneous copies and wreath products, whatever the numbering of the
    points and the choice of generators. For any other group: order, generators and orbits.

    Args:
        group: A permutation group, or its generators as lists of integers.

    Raises:
        ValueError: If a generator is not a permutation.

    Example:
        >>> found = identify([[2, 1, 4, 3, 0, 5]])  # a cycle of 0, 2 and 4
        >>> found.group, found.points
        (Z(3)+Trivial(3), (0, 2, 4, 1, 3, 5))
        >>> identify([[1, 0, 2, 3], [1, 2, 3, 0]]).name
        'symmetric group S(4)'
    """
    from isotropy.groups._identify_permutations import identify_permutations

    given = group if isinstance(group, Group) else Group(group)
    if not given.is_permutation:
        raise ValueError(f"expected a permutation group to identify, got {given!r:.80}")
    monomials = [h.monomial() for h in given.discrete]
    generators = tuple(tuple(m.index.tolist()) for m in monomials if m is not None)
    found = identify_permutations(generators, given.d)
    return Identity(
        name=found.name,
        group=None if found.expression is None else parse_group(found.expression),
        points=found.points,
        order=found.order,
        orbits=found.orbits,
        generators=generators,
    )
