"""What the generators of a permutation group say of it: orbits, block systems, coordinates."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from isotropy.groups._maps import Monomial
from isotropy.groups._stabilizer_chain import IntArray, StabilizerChain, inverse

Labels: TypeAlias = np.ndarray[Any, np.dtype[Any]]
# Subgroup lattices explode (Z(2)^6 has 29212 subgroups): beyond this many block systems we stop
# looking, which can cost a name but never a wrong one.
MOST_BLOCK_SYSTEMS = 1000


def components(permutations: Iterable[Monomial | None], size: int) -> Tensor:
    """The orbit of every point under plain permutations, numbered by first appearance.

    Generators are taken one after another, each on the orbits of those before it: the graph
    shrinks as it goes, and no more than one index array is needed at a time.
    """
    labels = np.arange(size, dtype=np.int32 if size < 2**31 else np.int64)
    count = size
    for permutation in permutations:
        assert permutation is not None
        assert permutation.sign is None
        labels, count = _merge(labels, count, permutation.index.numpy())
    return torch.from_numpy(_by_first_appearance(labels, count))


def _merge(labels: Labels, count: int, target: Labels) -> tuple[Labels, int]:
    """Join the orbits ``labels`` (``count`` of them) of every point and its image."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    source, sink = labels, labels[target]
    apart = source != sink
    if not apart.any():
        return labels, count
    source, sink = source[apart], sink[apart]
    graph = csr_array((np.ones(len(source), np.int8), (source, sink)), shape=(count, count))
    found, part = connected_components(graph, directed=False)
    return part[labels], found


def _by_first_appearance(labels: Labels, count: int) -> Labels:
    """Number orbits in the order in which they are met."""
    first = np.full(count, len(labels), dtype=np.int64)
    np.minimum.at(first, labels, np.arange(len(labels)))
    rank = np.empty(count, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(count)
    return rank[labels]


def connected_components(size: int, a: IntArray, b: IntArray) -> IntArray:
    """Label each of `size` nodes by the smallest node joined to it by the edges a[e] - b[e]."""
    labels = np.arange(size, dtype=np.intp)
    while True:
        roots_a, roots_b = labels[a], labels[b]
        if np.array_equal(roots_a, roots_b):
            return labels
        np.minimum.at(labels, np.maximum(roots_a, roots_b), np.minimum(roots_a, roots_b))
        while not np.array_equal(labels, labels[labels]):
            labels = labels[labels]


def elements_from_zero(acting: IntArray, generators: IntArray) -> IntArray:
    """Products of `generators`, row x one that sends 0 to x where generator k acts as acting[k]."""
    count, degree = acting.shape[1], generators.shape[1]
    elements = np.tile(np.arange(degree, dtype=np.intp), (count, 1))
    reached, queue = {0}, [0]
    for source in queue:
        for generator, target in zip(generators, acting[:, source].tolist(), strict=True):
            if target not in reached:
                reached.add(target)
                queue.append(target)
                elements[target] = generator[elements[source]]
    return elements


class PermutationAction:
    """A group acting on 0..degree-1, given by generators of shape (count, degree)."""

    def __init__(self, generators: IntArray) -> None:
        self.degree = generators.shape[1]
        distinct = np.unique(generators, axis=0)
        self.generators: IntArray = distinct[(distinct != np.arange(self.degree)).any(axis=1)]

    @cached_property
    def chain(self) -> StabilizerChain:
        """Its randomised stabiliser chain, for a lower bound of the order."""
        return StabilizerChain(self.generators)

    @cached_property
    def exact_order(self) -> int:
        """The order, by sympy's deterministic Schreier-Sims."""
        from sympy.combinatorics import Permutation, PermutationGroup

        if not len(self.generators):
            return 1
        return int(PermutationGroup([Permutation(g.tolist()) for g in self.generators]).order())

    @cached_property
    def orbits(self) -> list[IntArray]:
        every = np.arange(self.degree)
        sources = np.tile(every, len(self.generators))
        labels = connected_components(self.degree, sources, self.generators.ravel())
        return [np.flatnonzero(labels == label) for label in np.unique(labels)]

    @cached_property
    def orbitals(self) -> IntArray:
        """Label of the orbit of each ordered pair of points, shape (degree, degree)."""
        n, g = self.degree, self.generators
        images = (g[:, :, None] * n + g[:, None, :]).ravel()
        sources = np.tile(np.arange(n * n), len(g))
        return connected_components(n * n, sources, images).reshape(n, n)

    @cached_property
    def is_abelian(self) -> bool:
        return all(np.array_equal(a[b], b[a]) for a in self.generators for b in self.generators)

    def restricted(self, points: IntArray) -> PermutationAction:
        """The action on an invariant set; points[k] is called k."""
        position = np.full(self.degree, -1, dtype=np.intp)
        position[points] = np.arange(len(points))
        return PermutationAction(position[self.generators[:, points]])

    def on_blocks(self, labels: IntArray) -> PermutationAction:
        """The action on the blocks of a system, numbered in the order of their labels."""
        _, representatives, block = np.unique(labels, return_index=True, return_inverse=True)
        return PermutationAction(block[self.generators[:, representatives]])

    def transversal(self) -> IntArray:
        """For a transitive group: row x is an element that sends 0 to x."""
        return elements_from_zero(self.generators, self.generators)

    def block_stabilizer(self, labels: IntArray) -> tuple[IntArray, PermutationAction]:
        """Where the block of point 0 goes, and what its stabiliser does to it.

        Returns:
            carried: shape (blocks, block size), row k the block k as the image of block 0 under
                one group element (blocks numbered in the order of their labels).
            inner: the action of the setwise stabiliser on block 0, by Schreier's lemma.
        """
        _, first, block = np.unique(labels, return_index=True, return_inverse=True)
        elements = elements_from_zero(block[self.generators[:, first]], self.generators)
        home = np.flatnonzero(block == 0)
        carried = elements[:, home]
        position = np.empty(self.degree, dtype=np.intp)
        position[carried] = np.arange(len(home))
        inner = position[self.generators[:, carried]].reshape(-1, len(home))
        return carried, PermutationAction(inner)

    @cached_property
    def block_systems(self) -> list[IntArray]:
        """Non-trivial block systems of a transitive group, small blocks first.

        The blocks that the pair (0, x) generates are the components of its orbital graph; every
        other system is a join of such ones.
        """
        generated = []
        for orbital in np.unique(self.orbitals[0, 1:]):
            a, b = np.nonzero(self.orbitals == orbital)
            generated.append(connected_components(self.degree, a, b))
        found = {labels.tobytes(): labels for labels in generated if labels.any()}
        generated = list(found.values())
        queue = list(generated)
        every = np.tile(np.arange(self.degree), 2)
        for labels in queue:
            for other in generated:
                join = connected_components(self.degree, every, np.concatenate([labels, other]))
                if join.any() and join.tobytes() not in found and len(found) < MOST_BLOCK_SYSTEMS:
                    found[join.tobytes()] = join
                    queue.append(join)
        return sorted(queue, key=lambda labels: (int((labels == 0).sum()), labels.tolist()))


def finest_coordinates(action: PermutationAction) -> list[IntArray]:
    """Complementary block systems that split the group into indecomposable direct factors."""
    if action.is_abelian:
        return _cyclic_coordinates(action.transversal())
    orders: dict[int, int] = {}

    def order(k: int) -> int:
        if k not in orders:
            orders[k] = action.on_blocks(systems[k]).chain.order
        return orders[k]

    systems, m = action.block_systems, action.degree
    counts = [np.unique(labels).size for labels in systems]
    for i, j in combinations(range(len(systems)), 2):
        if counts[i] * counts[j] != m or np.unique(systems[i] * m + systems[j]).size != m:
            continue
        if order(i) * order(j) == action.chain.order:
            return [c for k in (i, j) for c in _pulled_back(action, systems[k])]
    return [np.arange(m, dtype=np.intp)]


def _pulled_back(action: PermutationAction, labels: IntArray) -> list[IntArray]:
    _, block = np.unique(labels, return_inverse=True)
    return [fine[block] for fine in finest_coordinates(action.on_blocks(labels))]


def _cyclic_coordinates(table: IntArray) -> list[IntArray]:
    """Coordinates of a regular abelian group along cyclic factors of prime power order.

    table[x, y] = x + y with 0 the identity. In each Sylow subgroup, an element of the largest
    order among those that meet the span of the ones taken so far in 0 splits off.
    """
    cycles = [cycle_of_zero(element) for element in table]
    grid = np.zeros(1, dtype=np.intp)
    degrees: list[int] = []
    for prime in prime_divisors(len(table)):
        span = np.zeros(1, dtype=np.intp)
        local = [cycle for cycle in cycles if prime_divisors(len(cycle)) == [prime]]
        for cycle in sorted(local, key=lambda cycle: -len(cycle)):
            if np.intersect1d(span, cycle).size == 1:
                span = table[span[:, None], cycle].ravel()
                grid = table[cycle[:, None], grid].ravel()
                degrees.insert(0, len(cycle))
    coordinates: tuple[IntArray, ...] = np.unravel_index(inverse(grid), degrees)
    return list(coordinates)


def prime_divisors(n: int) -> list[int]:
    """The distinct prime divisors of n."""
    return [p for p in range(2, n + 1) if n % p == 0 and all(p % q for q in range(2, p))]


def cycle_of_zero(element: IntArray) -> IntArray:
    """0, element[0], element[element[0]], ... until it closes."""
    cycle = [0]
    while element[cycle[-1]] != 0:
        cycle.append(int(element[cycle[-1]]))
    return np.array(cycle, dtype=np.intp)
