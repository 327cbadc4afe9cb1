"""Groups that permute positions of inputs and of outputs at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from isotropy.groups import Group

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
    def joint(self) -> Group:
        """The group on the n + m positions of both."""
        identity = [list(range(self.inputs + self.outputs))]
        moved = [
            [*a.tolist(), *(b + self.inputs).tolist()]
            for a, b in self.generators
        ]  # fmt: skip
        return Group(moved or identity)

    @cached_property
    def order(self) -> int:
        """How many elements."""
        return int(self.joint.order())

    def orbits(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The orbit of each position of the input, and of the output."""
        a = _orbits([pair[0] for pair in self.generators], self.inputs)
        return a, _orbits([pair[1] for pair in self.generators], self.outputs)

    def moved(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The positions that some element moves, of the input and of the output."""
        at, to = self.orbits()
        return (
            np.flatnonzero(np.bincount(at, minlength=1)[at] > 1),
            np.flatnonzero(np.bincount(to, minlength=1)[to] > 1),
        )

    def contains(self, other: PairGroup) -> bool:
        """Whether every element of another group is one of this."""
        return self.order % other.order == 0 and all(
            bool(self.joint.contains(g)) for g in other.joint.discrete
        )

    def equals(self, other: PairGroup) -> bool:
        """Whether two groups have the same elements."""
        return self.order == other.order and self.contains(other)

    def components(self) -> list[PairGroup]:
        """The direct factors that move different positions."""
        supports = [
            np.concatenate([np.flatnonzero(a != np.arange(self.inputs)),
                            self.inputs + np.flatnonzero(b != np.arange(self.outputs))])
            for a, b in self.generators
        ]  # fmt: skip
        if not supports:
            return []
        rows = np.repeat(np.arange(len(supports)), [len(s) for s in supports])
        columns = np.concatenate(supports)
        shape = len(supports), self.inputs + self.outputs
        touch = coo_matrix((np.ones(len(rows)), (rows, columns)), shape)
        parts, label = connected_components(touch @ touch.T, directed=False)
        return [
            PairGroup(
                tuple(g for g, of in zip(self.generators, label, strict=True) if of == part),
                self.inputs,
                self.outputs,
            )
            for part in range(parts)
        ]

    def sample(self, count: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Index arrays of all elements, or of that many random ones where there are more.

        Returns:
            Shapes ``(k, n)`` and ``(k, m)``; the identity is among them where all are.
        """
        drawn = (
            self.joint.elements()
            if self.order <= count
            else self.joint.sample(count, generator=generator)
        )
        # moving a row of positions tells where each of them comes from
        places = torch.arange(self.inputs + self.outputs, dtype=torch.float64)
        from_ = torch.stack([drawn.select(k).apply(places) for k in range(_length(drawn))]).long()
        return from_[:, : self.inputs], from_[:, self.inputs :] - self.inputs

    def averaged(
        self,
        predict: Callable[[Tensor], Tensor],
        x: Tensor,
        channels: int,
        output_channels: int,
        *,
        elements: int,
        generator: torch.Generator,
    ) -> Tensor:
        """Predictions averaged over the group, as ``group_average`` does.

        Args:
            predict: From ``(N, channels·n)`` to ``(N, output_channels·m)``, channel by channel.
            x: Inputs, shape ``(N, channels·n)``.
            channels: Channels of the input.
            output_channels: Channels of the output.
            elements: The most elements to average over.
            generator: Of random elements.
        """
        total: Tensor | None = None
        comes_in, comes_out = self.sample(elements, generator)
        for a, b in zip(comes_in, comes_out, strict=True):
            moved = x.unflatten(1, (channels, self.inputs))[:, :, a].flatten(1)
            there = predict(moved).unflatten(1, (output_channels, self.outputs))
            back = there[:, :, torch.argsort(b)].flatten(1)
            total = back if total is None else total + back
        assert total is not None
        return total / len(comes_in)


def symmetric(blocks: Sequence[Sequence[int]], size: int) -> list[Permutation]:
    """Generators of all permutations within each block: a swap and a cycle.

    Args:
        blocks: Disjoint sets of positions.
        size: How many positions there are.

    Example:
        >>> [p.tolist() for p in symmetric([[0, 2]], 3)]
        [[2, 1, 0]]
    """
    found = []
    for block in blocks:
        for cycle in ([list(block[:2])] if len(block) > 1 else []) + (
            [list(block)] if len(block) > 2 else []
        ):
            moved = np.arange(size)
            moved[cycle] = np.roll(cycle, -1)
            found.append(moved)
    return found


def _orbits(permutations: list[Permutation], size: int) -> NDArray[np.int64]:
    here = np.tile(np.arange(size), max(len(permutations), 1))
    there = np.concatenate(permutations) if permutations else here
    links = coo_matrix((np.ones(len(here)), (here, there)), (size, size))
    labels: NDArray[np.int64] = connected_components(links, directed=False)[1].astype(np.int64)
    return labels


def _length(drawn: object) -> int:
    batch = getattr(drawn, "batch", ())
    return int(batch[0]) if batch else 1
