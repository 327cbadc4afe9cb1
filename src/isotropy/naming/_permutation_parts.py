"""A permutation group taken apart: orbits, independent parts, copies that move together."""

from __future__ import annotations

from math import factorial

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

IntArray = NDArray[np.int64]


def orbits_of(generators: IntArray) -> list[IntArray]:
    """The orbits on all points, in the order of their first points.

    Args:
        generators: Permutations, shape (count, points).

    Example:
        >>> orbits_of(np.array([[1, 0, 2]]))
        [array([0, 1]), array([2])]
    """
    count, points = generators.shape
    sources = np.tile(np.arange(points), count)
    return _joined(sources, generators.ravel(), points)


def independent_parts(generators: IntArray) -> list[IntArray]:
    """Groups that move disjoint sets of points and whose direct product is the given group.

    Args:
        generators: Permutations, shape (count, points).

    Returns:
        The generators of each part, on all points.

    Example:
        >>> [part.tolist() for part in independent_parts(np.array([[1, 0, 2, 3], [0, 1, 3, 2]]))]
        [[[1, 0, 2, 3]], [[0, 1, 3, 2]]]
    """
    points = generators.shape[1]
    moved = generators != np.arange(points)
    generators, moved = generators[moved.any(1)], moved[moved.any(1)]
    which, point = np.nonzero(moved)
    sets = _joined(moved.argmax(1)[which], point, points)
    parts = [generators[moved[:, together].any(1)] for together in sets]
    return [part for part in parts if len(part)]


def chain_order(generators: IntArray) -> int:
    """A divisor of the group's order, the order itself for generators in nauty's order.

    Generators that come first and fix a point generate a subgroup of its stabiliser, so that the
    size of the point's orbit times the order of that subgroup divides the order of the group
    (Lagrange). nauty lists the generators of a stabiliser before those of the larger group, for
    a chain of stabilisers.

    Example:
        >>> chain_order(np.array([[0, 2, 1], [1, 0, 2]]))
        6
    """
    moved = generators != np.arange(generators.shape[1])
    generators, moved = generators[moved.any(1)], moved[moved.any(1)]
    if not len(generators):
        return 1
    first_mover = np.where(moved.any(0), moved.argmax(0), -1)
    order, orbits = 1, _Orbits(generators.shape[1])
    starts = _chain_starts(first_mover)
    for start, end in zip(starts, [*starts[1:], len(generators)], strict=True):
        for g in generators[start:end]:
            orbits.join(g)
        # of the points that are fixed until here, the one that moves the furthest
        order *= max(orbits.size(int(point)) for point in np.flatnonzero(first_mover == start))
    return order


def _chain_starts(first_mover: IntArray) -> list[int]:
    """Where the levels of the chain begin among the generators, the last to be added last.

    A point that the first generators fix starts the level of the first one that moves it.
    """
    starts = [int(first_mover.max())]
    while starts[-1] > 0:
        starts.append(int(first_mover[first_mover < starts[-1]].max()))
    return starts[::-1]


class _Orbits:
    """Orbits that grow as generators are added."""

    def __init__(self, points: int) -> None:
        self._parent = list(range(points))
        self._size = [1] * points

    def _root(self, point: int) -> int:
        while self._parent[point] != point:
            self._parent[point] = self._parent[self._parent[point]]
            point = self._parent[point]
        return point

    def join(self, g: IntArray) -> None:
        for point in np.flatnonzero(g != np.arange(len(g))).tolist():
            a, b = self._root(point), self._root(int(g[point]))
            if a != b:
                if self._size[a] < self._size[b]:
                    a, b = b, a
                self._parent[b] = a
                self._size[a] += self._size[b]

    def size(self, point: int) -> int:
        return self._size[self._root(point)]


def symmetric_copies(generators: IntArray) -> list[IntArray] | None:
    """The sets of points that move together where the group is S(k) on each of them, or None.

    Example:
        >>> symmetric_copies(np.array([[0, 2, 1, 3, 5, 4], [1, 0, 2, 4, 3, 5]]))
        [array([0, 1, 2]), array([3, 4, 5])]
    """
    copies = copies_of_first_orbit(generators)
    moved = int((generators != np.arange(generators.shape[1])).any(0).sum())
    k = len(copies[0])
    # all points move as the first k do, so that there are at most k! elements
    return copies if moved == k * len(copies) and chain_order(generators) == factorial(k) else None


def copies_of_first_orbit(generators: IntArray) -> list[IntArray]:
    """The first orbit that moves, and every other that moves with it in the same way.

    Point a of the first orbit goes with point b of another where whatever fixes a fixes b.

    Returns:
        Each copy as its points, aligned with those of the first orbit, which is in order.

    Example:
        >>> [copy.tolist() for copy in copies_of_first_orbit(np.array([[1, 2, 0, 4, 5, 3, 6]]))]
        [[0, 1, 2], [3, 4, 5]]
    """
    orbits = [orbit for orbit in orbits_of(generators) if len(orbit) > 1]
    first = orbits[0]
    carried = _carried_from(int(first[0]), generators)
    rank = np.empty(generators.shape[1], dtype=np.int64)
    rank[first] = np.arange(len(first))
    # row x of `carried` is a group element from first[0] to first[x]; column b is well defined on
    # the orbit, and so an aligned copy, where every generator takes it to itself
    follows = np.ones(generators.shape[1], dtype=bool)
    for g in generators:
        follows &= (g[carried] == carried[rank[g[first]]]).all(0)
    copies = []
    for orbit in orbits:
        fixed = orbit[follows[orbit]]
        if len(orbit) == len(first) and fixed.size:
            copies.append(carried[:, fixed[0]])
    return copies


def _carried_from(start: int, generators: IntArray) -> IntArray:
    """Elements that take ``start`` to each point of its orbit, in the order of these points."""
    reached = {start: np.arange(generators.shape[1], dtype=np.int64)}
    queue = [start]
    for point in queue:
        for g, target in zip(generators, generators[:, point].tolist(), strict=True):
            if target not in reached:
                reached[target] = g[reached[point]]
                queue.append(target)
    return np.stack([reached[point] for point in sorted(reached)])


def _joined(a: IntArray, b: IntArray, points: int) -> list[IntArray]:
    """The sets of points joined by the edges a[e] - b[e], in the order of their first points."""
    graph = coo_array((np.ones(len(a), dtype=np.int8), (a, b)), shape=(points, points))
    labels = connected_components(graph, directed=False)[1]
    by_label = np.split(np.argsort(labels, kind="stable"), np.cumsum(np.bincount(labels))[:-1])
    return sorted((members.astype(np.int64) for members in by_label), key=lambda s: int(s[0]))
