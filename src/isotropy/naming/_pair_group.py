"""Groups that permute positions of inputs and of outputs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial, prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.groups import Group
from isotropy.naming._permutation_parts import (
    independent_parts,
    orbits_of,
    symmetric_copies,
)

Permutation = NDArray[np.int64]
Pair = tuple[Permutation, Permutation]


@dataclass(frozen=True, eq=False)
class PairGroup:
    """Pairs (π_in, π_out): position j of the input goes to π_in[j], i of the output to π_out[i].

    Args:
        generators: Pairs of permutations.
        inputs: n, the number of positions of the input.
        outputs: m, that of the output.

    Example:
        >>> turn = np.roll(np.arange(4), 1)
        >>> group = PairGroup(((turn, turn),), 4, 4)
        >>> group.order, group.orbits()[0].tolist()
        (4, [0, 0, 0, 0])
    """

    generators: tuple[Pair, ...]
    inputs: int
    outputs: int

    @cached_property
    def order(self) -> int:
        """How many elements."""
        return prod(part.order for part in self._parts)

    @cached_property
    def _joint(self) -> NDArray[np.int64]:
        """The generators on the n + m positions of both, shape (generators, n + m)."""
        rows = [np.concatenate([a, b + self.inputs]) for a, b in self.generators]
        return np.array(rows, dtype=np.int64).reshape(-1, self.inputs + self.outputs)

    @cached_property
    def _parts(self) -> list[_Part]:
        return [_Part(part) for part in independent_parts(self._joint)]

    def orbits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The orbit of each position of the input, and of the output."""
        n = self.inputs
        return _labels(self._joint[:, :n]), _labels(self._joint[:, n:] - n)

    def moved(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions that some element moves, of the input and of the output."""
        moves = (self._joint != np.arange(self.inputs + self.outputs)).any(0)
        return np.flatnonzero(moves[: self.inputs]), np.flatnonzero(moves[self.inputs :])

    def contains(self, other: PairGroup) -> bool:
        """Whether every element of another group is one of this."""
        return self.order % other.order == 0 and all(self._has(g) for g in other._joint)

    def equals(self, other: PairGroup) -> bool:
        """Whether two groups have the same elements."""
        return self.order == other.order and self.contains(other)

    def with_outputs(self, m: int) -> PairGroup:
        """The same group where it has m outputs, else its action on inputs with m that stay."""
        if self.outputs == m:
            return self
        stay = np.arange(m)
        return PairGroup(tuple((a, stay) for a, _ in self.generators), self.inputs, m)

    def _has(self, g: Permutation) -> bool:
        left = g.copy()
        for part in self._parts:
            own = np.arange(len(g))
            own[part.support] = g[part.support]
            if not np.isin(own[part.support], part.support).all():
                return False
            if not part.contains(own):
                return False
            left[part.support] = part.support
        return bool((left == np.arange(len(g))).all())

    def components(self) -> list[PairGroup]:
        """The direct factors that move different positions."""
        n = self.inputs
        return [
            PairGroup(tuple((g[:n], g[n:] - n) for g in part.generators), n, self.outputs)
            for part in self._parts
        ]

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Index arrays of all elements, or of that many random ones where there are more.

        Returns:
            Where each position comes from, shapes ``(k, n)`` and ``(k, m)``; the identity is among
            them where all are.
        """
        n = self.inputs
        if self.order <= count:
            drawn = self._all()
        else:
            drawn = np.tile(np.arange(n + self.outputs), (count, 1))
            for part in self._parts:
                drawn[:, part.support] = part.sample(count, generator)[:, part.support]
        comes_from = torch.as_tensor(np.argsort(drawn, 1))
        return comes_from[:, :n], comes_from[:, n:] - n

    def _all(self) -> NDArray[np.int64]:
        """All elements: where each position goes."""
        identity = tuple(range(self.inputs + self.outputs))
        seen, queue = {identity}, [identity]
        for element in queue:
            for g in self._joint:
                product = tuple(g[list(element)].tolist())
                if product not in seen:
                    seen.add(product)
                    queue.append(product)
        return np.array(queue, dtype=np.int64)

    def averages(
        self,
        predict: Callable[[Tensor], Tensor],
        x: Tensor,
        channels: int,
        output_channels: int,
        *,
        elements: int,
        generator: torch.Generator,
    ) -> Tensor:
        """The average over all elements, or two averages over different random ones.

        Args:
            predict: From ``(N, channels·n)`` to ``(N, output_channels·m)``, channel by channel.
            x: Inputs, shape ``(N, channels·n)``.
            channels: Channels of the input.
            output_channels: Channels of the output.
            elements: The most elements to average over.
            generator: Of random elements.

        Returns:
            Shape ``(1, N, output_channels·m)``, or 2 of them.
        """
        comes_in, comes_out = self.sample(elements, generator)
        there = []
        for a, b in zip(comes_in, comes_out, strict=True):
            moved = x.unflatten(1, (channels, self.inputs))[:, :, a].flatten(1)
            outputs = predict(moved).unflatten(1, (output_channels, self.outputs))
            there.append(outputs[:, :, torch.argsort(b)].flatten(1))
        if self.order <= elements:
            return torch.stack(there).mean(0, keepdim=True)
        half = len(there) // 2
        return torch.stack([torch.stack(part).mean(0) for part in (there[:half], there[half:])])


class _Part:
    """A direct factor: symmetric groups by themselves, any other through its stabiliser chain."""

    def __init__(self, generators: NDArray[np.int64]) -> None:
        self.generators = generators
        self.support = np.flatnonzero((generators != np.arange(generators.shape[1])).any(0))
        # sets of positions that move together, where all their permutations are there
        self.copies = symmetric_copies(generators)

    @cached_property
    def _group(self) -> Group:
        return Group(self.generators.tolist())

    @cached_property
    def order(self) -> int:
        if self.copies is not None:
            return factorial(len(self.copies[0]))
        return int(self._group.order())

    def contains(self, g: Permutation) -> bool:
        if self.copies is None:
            return bool(self._group.contains(g.tolist()))
        place = {int(point): k for k, point in enumerate(self.copies[0])}
        first = [place.get(int(point)) for point in g[self.copies[0]]]
        return None not in first and all(
            bool((g[copy] == copy[np.array(first)]).all()) for copy in self.copies
        )

    def sample(self, count: int, generator: torch.Generator) -> NDArray[np.int64]:
        """Random elements: where each position goes, shape (count, positions)."""
        points = self.generators.shape[1]
        drawn = np.tile(np.arange(points), (count, 1))
        if self.copies is not None:
            k = len(self.copies[0])
            order = torch.rand(count, k, generator=generator).argsort(1).numpy()
            for copy in self.copies:
                drawn[:, copy] = copy[order]
            return drawn
        elements = self._group.sample(count, generator=generator)
        # moving a row of positions tells where each of them comes from
        places = torch.arange(points, dtype=torch.float64).expand(count, -1)
        return np.argsort(elements.apply(places).long().numpy(), 1)


def symmetric(blocks: Sequence[Sequence[int]], size: int) -> list[Permutation]:
    """Generators of all permutations within each block: swaps of neighbours, the last first.

    So they begin with those of the stabiliser of the first position, and so on.

    Example:
        >>> [p.tolist() for p in symmetric([[0, 2, 3]], 4)]
        [[0, 1, 3, 2], [2, 1, 0, 3]]
    """
    found = []
    for block in blocks:
        for k in range(len(block) - 1, 0, -1):
            moved = np.arange(size)
            moved[[block[k - 1], block[k]]] = block[k], block[k - 1]
            found.append(moved)
    return found


def _labels(permutations: NDArray[np.int64]) -> NDArray[np.int64]:
    labels = np.zeros(permutations.shape[1], dtype=np.int64)
    for k, orbit in enumerate(orbits_of(permutations)):
        labels[orbit] = k
    return labels
