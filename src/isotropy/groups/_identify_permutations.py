"""Which catalogue group a set of permutations generates, and how its points are numbered.

A name is proposed from structure (orbits, equivalent orbits, block systems) and then proven: every
generator lies in the named group, and the group is at least as large. What cannot be proven is
left unnamed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isotropy.groups._abstract_name import NamedAction, product_action
from isotropy.groups._block_systems import (
    PermutationAction,
    connected_components,
    cycle_of_zero,
    finest_coordinates,
    prime_divisors,
)
from isotropy.groups._stabilizer_chain import IntArray, inverse


@dataclass(frozen=True)
class PermutationIdentity:
    """What `identify_permutations` found.

    Attributes:
        expression: the catalogue's string, such as "Z(4)*Z(6)"; None when not recognised.
        points: points[k] is the given point at standard position k of `expression`, so that a
            standard element s is the given g with g[points[k]] = points[s[k]].
        order: the number of elements.
        orbits: the orbits on all points, fixed points included, each in increasing order.
        name: the same in prose, for people.
    """

    expression: str | None
    points: tuple[int, ...]
    order: int
    orbits: tuple[tuple[int, ...], ...]
    name: str


def identify_permutations(generators: Sequence[Sequence[int]], n: int) -> PermutationIdentity:
    """Say which group the permutations i -> g[i] of n points generate.

    Recognised are Z(m), S(m), A(m), D(m), product actions, full imprimitive wreath products,
    diagonal copies Trivial(k)*G, independent sums, and these nested. Of several names of one group
    the first in this list is given; cyclic factors are merged to the fewest, most even ones.

    Raises:
        ValueError: n is not positive, or a generator is not a permutation of 0..n-1.

    Example:
        >>> found = identify_permutations([[2, 1, 0, 3, 4], [0, 3, 2, 4, 1], [0, 4, 2, 3, 1]], 5)
        >>> found.expression, found.points, found.order
        ('S(3)+Z(2)', (1, 3, 4, 0, 2), 12)
        >>> found.name
        'S(3)+Z(2): symmetric on {1,3,4} and cyclic on {0,2}'
    """
    action = PermutationAction(_as_permutations(generators, n))
    moved = [orbit for orbit in action.orbits if len(orbit) > 1]
    terms = [_identify_copies(action, copies) for copies in _equivalent_orbits(action, moved)]
    terms.sort(key=lambda term: (_rank(term.core), len(term.copies)))
    fixed = np.array([orbit[0] for orbit in action.orbits if len(orbit) == 1], dtype=np.intp)
    orbits = tuple(tuple(orbit.tolist()) for orbit in action.orbits)
    group, points = _sum(terms, fixed)
    if group is not None and _is_exactly(action, group, points):
        name = _prose(group, terms, fixed)
        return PermutationIdentity(str(group), tuple(points.tolist()), group.order, orbits, name)
    order = action.exact_order
    name = f"permutation group of order {order} on {_count(n, 'point')} with "
    name += _count(len(orbits), "orbit") + _known_parts(action, terms, fixed, order)
    return PermutationIdentity(None, tuple(range(n)), order, orbits, name)


def _as_permutations(generators: Sequence[Sequence[int]], n: int) -> IntArray:
    if n < 1:
        raise ValueError(f"expected at least one point, got n = {n}")
    rows = np.empty((len(generators), n), dtype=np.intp)
    for k, generator in enumerate(generators):
        row = np.asarray(generator)
        integral = row.dtype.kind in "iu" and row.shape == (n,)
        if not integral or not np.array_equal(np.sort(row), np.arange(n)):
            got = np.array2string(row, threshold=20, max_line_width=1000, separator=", ")
            raise ValueError(f"expected a permutation of 0..{n - 1}, got generator {k} = {got}")
        rows[k] = row
    return rows


def _rank(group: NamedAction | None) -> tuple[str, int, str]:
    """Sorts factors and terms by name and then size, S(3)*Z(2)*Z(4), what has no name last."""
    if group is None:
        return "~", 0, ""
    return group.kind.replace("*", "product"), group.degree, str(group)


def _is_exactly(action: PermutationAction, group: NamedAction, points: IntArray) -> bool:
    """Containment bounds the order from above, the stabiliser chain from below."""
    position = inverse(points)
    if not all(group.contains(position[g[points]]) for g in action.generators):
        return False
    return action.chain.order == group.order


# --- transitive groups --------------------------------------------------------------------------

_Found = tuple[NamedAction, IntArray]  # the group and the points in its standard order


def _identify_transitive(action: PermutationAction) -> _Found | None:
    simple = _cyclic(action) or _symmetric(action) or _dihedral(action)
    return simple or _product_action(action) or _wreath(action)


def _cyclic(action: PermutationAction) -> _Found | None:
    if not action.is_abelian:
        return None
    # An abelian transitive group is regular: row x of the transversal is *the* element 0 -> x.
    for element in action.transversal():
        points = cycle_of_zero(element)
        if len(points) == action.degree:
            return NamedAction("Z", action.degree, action.degree), points
    return None


def _symmetric(action: PermutationAction) -> _Found | None:
    m = action.degree
    two_transitive = np.unique(action.orbitals).size == 2
    if m < 3 or not two_transitive or math.factorial(m) > 2 * action.chain.order:
        return None
    kind = "S" if action.chain.order == math.factorial(m) else "A"
    return NamedAction(kind, m, action.chain.order), np.arange(m, dtype=np.intp)


def _dihedral(action: PermutationAction) -> _Found | None:
    """D(m) preserves an m-cycle graph, turning it over while fixing point 0."""
    orbitals, m = action.orbitals, action.degree
    for orbital in np.unique(orbitals[0, 1:]):
        out = orbitals[0] == orbital
        if out.sum() != 2 or not np.array_equal(out, orbitals[:, 0] == orbital):
            continue
        edges = np.nonzero(orbitals == orbital)
        if (connected_components(m, *edges) == 0).all():
            neighbours = edges[1].reshape(m, 2)
            walk = [0, int(neighbours[0].min())]
            while len(walk) < m:
                walk.append(int(neighbours[walk[-1]].sum()) - walk[-2])
            return NamedAction("D", m, 2 * m), np.array(walk, dtype=np.intp)
    return None


def _wreath(action: PermutationAction) -> _Found | None:
    """G wr H is all there can be of given actions G in a block and H on the blocks."""
    for labels in action.block_systems:
        size = int((labels == labels[0]).sum())
        count = action.degree // size
        if size**count * count > action.chain.order:
            continue
        carried, block = action.block_stabilizer(labels)
        blocks = action.on_blocks(labels)
        order = block.chain.order**count * blocks.chain.order
        if order != action.chain.order:
            continue
        inner, outer = _identify_transitive(block), _identify_transitive(blocks)
        if inner is not None and outer is not None:
            group = NamedAction("wreath", action.degree, order, (inner[0], outer[0]))
            return group, carried[outer[1]][:, inner[1]].ravel()
    return None


# --- product actions: the finest factors, then the canonical grouping of them --------------------


@dataclass(frozen=True)
class _Factor:
    """A factor of a product action: the coordinate of every point, and the group on it."""

    coordinate: IntArray
    group: NamedAction


def _product_action(action: PermutationAction) -> _Found | None:
    coordinates = finest_coordinates(action)
    if len(coordinates) == 1:
        return None
    factors = [_factor(action, coordinate) for coordinate in coordinates]
    known = [factor for factor in factors if factor is not None]
    if len(known) < len(factors):
        return None
    known = sorted(_merged(action, known), key=lambda factor: _rank(factor.group))
    group = product_action(factor.group for factor in known)
    grid = [factor.group.degree for factor in known]
    positions = np.ravel_multi_index([factor.coordinate for factor in known], grid)
    return group, inverse(positions)


def _factor(action: PermutationAction, labels: IntArray) -> _Factor | None:
    found = _identify_transitive(action.on_blocks(labels))
    if found is None:
        return None
    group, blocks = found
    _, block = np.unique(labels, return_inverse=True)
    return _Factor(inverse(blocks)[block], group)


def _merged(action: PermutationAction, factors: list[_Factor]) -> list[_Factor]:
    """Fewest factors: coprime cyclic ones join, then Z(2) with an odd dihedral one.

    Pairing the largest of a prime with the smallest so far keeps the grid near to a square, so
    that Z(4)*Z(2)*Z(3) becomes Z(4)*Z(6).
    """
    cyclic = [factor for factor in factors if factor.group.kind == "Z"]
    merged: list[_Factor] = []
    for prime in prime_divisors(math.prod(factor.group.degree for factor in cyclic)):
        local = [factor for factor in cyclic if factor.group.degree % prime == 0]
        local.sort(key=lambda factor: -factor.group.degree)
        merged.sort(key=lambda factor: factor.group.degree)
        extra = max(0, len(local) - len(merged))
        joined = [_joined(action, a, b) for a, b in zip(local[extra:], merged, strict=False)]
        merged = local[:extra] + joined + merged[len(joined) :]
    others = [factor for factor in factors if factor.group.kind != "Z"]
    odd = [f for f in others if f.group.degree % 2 and f.group.order == 2 * f.group.degree]
    twos = [factor for factor in merged if factor.group.degree == 2]
    odd.sort(key=lambda factor: factor.group.degree)
    for dihedral, two in zip(odd, twos, strict=False):
        others.append(_joined(action, dihedral, two))
        others = [factor for factor in others if factor is not dihedral]
        merged = [factor for factor in merged if factor is not two]
    return others + merged


def _joined(action: PermutationAction, a: _Factor, b: _Factor) -> _Factor:
    joined = _factor(action, a.coordinate * b.group.degree + b.coordinate)
    assert joined is not None, "a product of coprime cyclic groups, or D(odd)*Z(2), has a name"
    return joined


# --- intransitive groups ------------------------------------------------------------------------


@dataclass(frozen=True)
class _Term:
    """Orbits that move together in the same way; core None when their group has no name."""

    core: NamedAction | None
    copies: tuple[IntArray, ...]  # each in the standard order of the core

    @property
    def group(self) -> NamedAction | None:
        if self.core is None or len(self.copies) == 1:
            return self.core
        return product_action([NamedAction("Trivial", len(self.copies), 1), self.core])


def _equivalent_orbits(
    action: PermutationAction, orbits: list[IntArray]
) -> list[tuple[IntArray, ...]]:
    """Sort orbits into families with an equivariant bijection, written by aligning their points.

    The orbit of a pair (x, y) is such a bijection where it is no longer than the orbits of x and y.
    """
    lengths = np.bincount(action.orbitals.ravel())
    families: list[list[IntArray]] = []
    for orbit in orbits:
        for family in families:
            first = family[0]
            labels = action.orbitals[first[0], orbit]
            matching = labels[lengths[labels] == len(orbit)]
            if len(first) == len(orbit) and matching.size:
                aligned = (action.orbitals[np.ix_(first, orbit)] == matching[0]).argmax(axis=1)
                family.append(orbit[aligned])
                break
        else:
            families.append([orbit])
    return [tuple(family) for family in families]


def _identify_copies(action: PermutationAction, copies: tuple[IntArray, ...]) -> _Term:
    found = _identify_transitive(action.restricted(copies[0]))
    if found is None:
        return _Term(None, copies)
    core, order = found
    return _Term(core, tuple(copy[order] for copy in copies))


def _sum(terms: list[_Term], fixed: IntArray) -> tuple[NamedAction | None, IntArray]:
    groups = [term.group for term in terms if term.group is not None]
    points = np.concatenate([*(copy for term in terms for copy in term.copies), fixed])
    if len(groups) < len(terms):
        return None, points
    if fixed.size:
        groups.append(NamedAction("Trivial", fixed.size, 1))
    if len(groups) == 1:
        return groups[0], points
    order = math.prod(group.order for group in groups)
    return NamedAction("+", points.size, order, tuple(groups)), points


# --- prose --------------------------------------------------------------------------------------

_WORDS = {"Z": "cyclic", "D": "dihedral", "S": "symmetric", "A": "alternating"}


def _prose(group: NamedAction, terms: list[_Term], fixed: IntArray) -> str:
    if not terms or group == terms[0].core:
        compound = {"*": "product action", "wreath": "wreath product"}
        return f"{compound.get(group.kind) or _WORDS.get(group.kind, 'trivial') + ' group'} {group}"
    return f"{group}: {_listing([_describe(term) for term in terms], fixed)}"


def _describe(term: _Term) -> tuple[str, str]:
    """What acts, and where: ("cyclic", "on {0,1,2} and {3,4,5} together")."""
    assert term.core is not None
    together = " together" if len(term.copies) > 1 else ""
    return _WORDS.get(term.core.kind, str(term.core)), f"on {_sets(term.copies)}{together}"


def _listing(parts: list[tuple[str, str]], fixed: IntArray) -> str:
    """Join clauses, saying each word once while it repeats: "symmetric on X and on Y"."""
    words = ["", *(word for word, _ in parts)]
    clauses = [
        where if word == previous else f"{word} {where}"
        for (word, where), previous in zip(parts, words, strict=False)
    ]
    text = ", ".join(clauses[:-1]) + (" and " if clauses[1:] else "") + clauses[-1]
    return text + (f", fixing {_sets([fixed])}" if fixed.size else "")


def _sets(orbits: Iterable[IntArray]) -> str:
    texts = []
    for orbit in orbits:
        shown = ",".join(str(point) for point in np.sort(orbit)[:12])
        texts.append(f"{{{shown}{f',...: {len(orbit)} points' if len(orbit) > 12 else ''}}}")
    return " and ".join(texts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _known_parts(action: PermutationAction, terms: list[_Term], fixed: IntArray, order: int) -> str:
    """For a group without a name, the independent parts it splits into, where it does."""
    labels = _clusters(action, [term.copies[0] for term in terms])
    if not labels.any():
        return ""
    parts, product = [], 1
    for label in np.unique(labels):
        members = [terms[i] for i in np.flatnonzero(labels == label)]
        orbits = [copy for member in members for copy in member.copies]
        part = action.restricted(np.concatenate(orbits))
        size, group = part.exact_order, members[0].group
        product *= size
        if len(members) == 1 and group and _is_exactly(part, group, np.arange(part.degree)):
            parts.append(_describe(members[0]))
        else:
            parts.append((f"an unrecognised group of order {size}", f"on {_sets(orbits)}"))
    # Pairwise independence does not make the whole a direct product; only the orders tell.
    return f": {_listing(parts, fixed)}" if product == order else ""


def _clusters(action: PermutationAction, orbits: list[IntArray]) -> IntArray:
    """Give orbits that pairwise tests tie together the same label."""
    orders = [action.restricted(orbit).chain.order for orbit in orbits]
    tied = [
        (i, j)
        for i, j in combinations(range(len(orbits)), 2)
        if action.restricted(np.concatenate([orbits[i], orbits[j]])).chain.order
        < orders[i] * orders[j]
    ]
    edges = np.array(tied, dtype=np.intp).reshape(-1, 2)
    return connected_components(len(orbits), edges[:, 0], edges[:, 1])
