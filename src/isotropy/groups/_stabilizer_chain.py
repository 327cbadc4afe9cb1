"""The order of a permutation group, membership and uniform draws: a Schreier-Sims chain.

The chain is randomised (Seress, *Permutation Group Algorithms*, 2003, ch. 4): its order never
exceeds the true one, and `StabilizerChain.complete` proves it. It is written in numpy because
sympy's takes 24 s for S(50)+S(50), this one a tenth of a second; sympy is the oracle of its tests.
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
    right but for a chance of about 2^-PATIENCE, and certain after `complete`.
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

    def complete(self) -> int:
        """Prove the order with Schreier's lemma, repairing the chain where it fails."""
        self._prune()
        while (missing := self._missing_element()) is not None:
            self._sift_in(missing)
            self._sample()
            self._prune()
        return self.order

    def contains(self, element: IntArray) -> bool:
        """Whether a permutation sifts to the identity; certain after `complete`."""
        return self._unsifted(element[None], 0) is None

    def transversals(self) -> list[IntArray]:
        """For each level, the elements that send its base point to each point of its orbit.

        Every element of the group is u_0 u_1 ... (the last acting first) for exactly one choice
        of u_i from level i, after `complete`.
        """
        levels = zip(self._homeward, self._reached, strict=True)
        return [inverse(homeward[reached]) for homeward, reached in levels]

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

    def _prune(self) -> None:
        """Drop strong generators that no basic orbit needs: Schreier's lemma checks fewer."""
        strong, self._strong = self._strong, []
        for level in range(len(self._base) - 1, -1, -1):
            self._reached[level] = np.arange(len(self._reached[level])) == self._base[level]
            self._homeward[level][:] = np.arange(len(self._reached[level]))
            for _, element in self._strong:
                self._grow(level, element)
            for element in [s for depth, s in strong if depth == level]:
                if not self._reached[level][element[self._reached[level]]].all():
                    self._strong.append((level, element))
                    self._grow(level, element)

    def _missing_element(self) -> IntArray | None:
        """A generator, or a Schreier generator of some level, that does not sift."""
        for level in range(len(self._base) - 1, -1, -1):
            orbit = np.flatnonzero(self._reached[level])
            outward = inverse(self._homeward[level][orbit])
            candidates = [s[outward] for depth, s in self._strong if depth >= level]
            missing = self._unsifted(np.concatenate(candidates), level)
            if missing is not None:
                return missing
        return self._unsifted(self._generators, 0)

    def _unsifted(self, elements: IntArray, level: int) -> IntArray | None:
        rest = elements
        for depth in range(level, len(self._base)):
            images = rest[:, self._base[depth]]
            lost = ~self._reached[depth][images]
            if lost.any():
                return np.asarray(elements[np.flatnonzero(lost)[0]])
            rest = np.take_along_axis(self._homeward[depth][images], rest, axis=1)
        lost = (rest != np.arange(elements.shape[1])).any(axis=1)
        return np.asarray(elements[np.flatnonzero(lost)[0]]) if lost.any() else None
