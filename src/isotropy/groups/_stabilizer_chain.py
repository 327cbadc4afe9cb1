"""A lower bound of a permutation group's order, quickly: randomised Schreier-Sims.

Random elements are sifted through a chain of stabilisers (Seress, *Permutation Group Algorithms*,
2003, ch. 4). The order that the chain shows never exceeds the true one. Naming a group needs no
more: the generators lie in the named group, and the bound reaches its order. Exact orders of other
groups are sympy's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.intp]

# Random elements that must sift in a row before a chain is taken to be whole: if it is not, each
# of them had at least one chance in two to show it.
PATIENCE = 30


def inverse(permutations: IntArray) -> IntArray:
    """Invert one permutation or every row of an array of them."""
    return np.argsort(permutations, axis=-1)


class StabilizerChain:
    """Base and strong generators, grown by sifting random elements of the group.

    `order` is the product of the basic orbits found so far: a lower bound of the group's order,
    right but for a chance of about 2^-PATIENCE.
    """

    def __init__(self, generators: IntArray) -> None:
        self._generators = generators
        self._base: list[int] = []
        self._strong: list[tuple[int, IntArray]] = []  # (level, element fixing the base above it)
        self._reached: list[NDArray[np.bool_]] = []  # basic orbit of each level
        self._homeward: list[IntArray] = []  # row x of a level sends x back to its base point
        self._elements = self._random_elements()
        for generator in generators:
            self._sift_in(generator)
        self._sample()

    @property
    def order(self) -> int:
        """The product of the basic orbits found so far."""
        return math.prod(int(reached.sum()) for reached in self._reached)

    def _sample(self) -> None:
        quiet = 0
        while len(self._generators) and quiet < PATIENCE:
            quiet = 0 if self._sift_in(next(self._elements)) else quiet + 1

    def _random_elements(self) -> Iterator[IntArray]:
        """Product replacement with an accumulator ("rattle"), reproducible by its fixed seed."""
        rng = np.random.default_rng(0)
        count = len(self._generators)
        slots = [self._generators[i % count] for i in range(max(10, count))]
        product, step = slots[0], 0
        while True:
            i, j = rng.choice(len(slots), size=2, replace=False)
            factor = inverse(slots[j]) if rng.integers(2) else slots[j]
            slots[i] = slots[i][factor] if rng.integers(2) else factor[slots[i]]
            product = product[slots[i]]
            step += 1
            if step > 5 * len(slots):
                yield product

    def _sift_in(self, element: IntArray) -> bool:
        """Reduce an element along the chain; what is left, if anything, extends it."""
        for level, point in enumerate(self._base):
            image = element[point]
            if not self._reached[level][image]:
                self._insert(level, element)
                return True
            element = self._homeward[level][image][element]
        moved = np.flatnonzero(element != np.arange(len(element)))
        if moved.size:
            self._open_level(int(moved[0]), len(element))
            self._insert(len(self._base) - 1, element)
        return bool(moved.size)

    def _open_level(self, point: int, degree: int) -> None:
        self._base.append(point)
        self._reached.append(np.arange(degree) == point)
        self._homeward.append(np.tile(np.arange(degree, dtype=np.intp), (degree, 1)))

    def _insert(self, level: int, element: IntArray) -> None:
        self._strong.append((level, element))
        for above in range(level, -1, -1):
            self._grow(above, element)

    def _grow(self, level: int, element: IntArray) -> None:
        """Close the basic orbit of a level, already closed without `element`, under it too."""
        frontier, todo = np.flatnonzero(self._reached[level]), [element]
        while frontier.size:
            frontier = np.concatenate([self._step(level, s, frontier) for s in todo])
            todo = [s for depth, s in self._strong if depth >= level] if frontier.size else []

    def _step(self, level: int, element: IntArray, points: IntArray) -> IntArray:
        new = ~self._reached[level][element[points]]
        points, images = points[new], element[points[new]]
        if images.size:
            self._reached[level][images] = True
            self._homeward[level][images] = self._homeward[level][points][:, inverse(element)]
        return images
