"""Signed permutations of the entries of observations and actions, and what they generate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from isotropy.groups import Monomial


@dataclass(frozen=True)
class SignedPermutation:
    """Entry i goes to place ``index[i]``, times ``sign[i]``.

    Args:
        index: Where each entry goes.
        sign: 1 or −1 for each.

    Example:
        >>> swap = SignedPermutation((1, 0, 2), (1, 1, -1))
        >>> swap.order, swap.words(["left", "right", "roll"])
        (2, 'left ↔ right, −roll')
    """

    index: tuple[int, ...]
    sign: tuple[int, ...]

    @staticmethod
    def identity(size: int) -> SignedPermutation:
        """The one that moves nothing."""
        return SignedPermutation(tuple(range(size)), (1,) * size)

    @property
    def is_identity(self) -> bool:
        """Whether it moves nothing."""
        return self == SignedPermutation.identity(len(self.index))

    def __matmul__(self, first: SignedPermutation) -> SignedPermutation:
        """This one after the first."""
        return SignedPermutation(
            tuple(self.index[at] for at in first.index),
            tuple(s * self.sign[at] for s, at in zip(first.sign, first.index, strict=True)),
        )

    @cached_property
    def order(self) -> int:
        """How often it is applied until nothing has moved."""
        power, times = self, 1
        while not power.is_identity:
            power, times = power @ self, times + 1
        return times

    def inverse(self) -> SignedPermutation:
        """What undoes it.

        Example:
            >>> turn = SignedPermutation((1, 2, 0), (1, -1, 1))
            >>> (turn @ turn.inverse()).is_identity, (turn.inverse() @ turn).is_identity
            (True, True)
        """
        index, sign = np.empty(len(self.index), int), np.empty(len(self.index), int)
        index[list(self.index)] = np.arange(len(index))
        sign[list(self.index)] = self.sign
        return SignedPermutation(tuple(index.tolist()), tuple(sign.tolist()))

    def as_map(self) -> Monomial:
        """As a linear map."""
        return Monomial(torch.tensor(self.index), torch.tensor(self.sign))

    def cycles(self) -> list[list[tuple[int, int]]]:
        """What moves: entries in the order in which they take each other's place, with signs.

        The sign of an entry is that between the first of the cycle and it. A cycle whose signs
        multiply to −1 comes back to its first entry with the other sign.

        Example:
            >>> SignedPermutation((1, 0, 2), (1, -1, -1)).cycles()
            [[(0, 1), (1, 1), (0, -1)], [(2, 1), (2, -1)]]
        """
        found, seen = [], set()
        for start in range(len(self.index)):
            if start in seen:
                continue
            cycle, at, sign = [(start, 1)], self.index[start], self.sign[start]
            while at != start:
                cycle.append((at, sign))
                seen.add(at)
                at, sign = self.index[at], sign * self.sign[at]
            if sign < 0:
                cycle.append((start, -1))
            if len(cycle) > 1:
                found.append(cycle)
        return found

    def words(self, names: Sequence[str]) -> str:
        """What it does to entries with these names.

        Example:
            >>> SignedPermutation((1, 0, 2), (1, -1, -1)).words(["hip", "knee", "roll"])
            'hip → knee → −hip, −roll'
        """
        words = []
        for cycle in self.cycles():
            entries = [("" if sign > 0 else "−") + names[at] for at, sign in cycle]
            if len(cycle) == 2:
                words.append(entries[1] if cycle[0][0] == cycle[1][0] else " ↔ ".join(entries))
            elif cycle[-1][0] == cycle[0][0]:
                words.append(" → ".join(entries))
            else:
                words.append(" → ".join([*entries, entries[0]]))
        return ", ".join(words)


def generated(
    generators: Sequence[SignedPermutation], most: int
) -> tuple[SignedPermutation, ...] | None:
    """All products of some elements, the identity first; None where there are more than ``most``.

    Example:
        >>> quarter = SignedPermutation((1, 0), (1, -1))
        >>> len(generated([quarter], 8)), generated([quarter], 3)
        (4, None)
    """
    one = SignedPermutation.identity(len(generators[0].index))
    known, frontier = {one: None}, [one]
    while frontier:
        frontier = list(
            dict.fromkeys(
                product for g in frontier for h in generators if (product := h @ g) not in known
            )
        )
        known.update(dict.fromkeys(frontier))
        if len(known) > most:
            return None
    return tuple(known)
