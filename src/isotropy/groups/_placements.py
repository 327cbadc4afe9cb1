"""A group elsewhere: on some coordinates of a larger space, or in another basis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from isotropy.groups._compound import BlockDiagonal
from isotropy.groups._given import MapLike, as_linear_map
from isotropy.groups._group import Group, _literal, require_invertible
from isotropy.groups._maps import Dense, LinearMap, Monomial, Zero


class Embedding(Group):
    """G acting on some coordinates of a larger space, the others left alone."""

    inner: Group
    at: int

    def __init__(self, inner: Group, d: int, at: int = 0) -> None:
        if isinstance(at, bool) or not isinstance(at, int) or not 0 <= at <= d - inner.d:
            raise ValueError(
                f"expected room for {inner.d} coordinates from position at={at!r} in a space of "
                f"dimension {d!r}, got none"
            )
        self._freeze(d, inner=inner, at=at)

    def _place(self, part: LinearMap, rest: Any) -> LinearMap:
        before, after = self.at, self.d - self.at - self.inner.d
        pieces = [(rest(1), before), (part, 1), (rest(1), after)]
        kept = [(piece, count) for piece, count in pieces if count]
        return BlockDiagonal(tuple(p for p, _ in kept), tuple(c for _, c in kept))

    def _discrete(self) -> Iterator[LinearMap]:
        return (self._place(h, Monomial.identity) for h in self.inner.discrete)

    def _algebra(self) -> Iterator[LinearMap]:
        return (self._place(a, Zero) for a in self.inner.algebra)

    @property
    def is_compact(self) -> bool:
        """Whether the embedded group is."""
        return self.inner.is_compact

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return self._place(self.inner._sample(n, rng), Monomial.identity)

    def _order(self) -> int | float:
        return self.inner._order()

    def _contains(self, g: LinearMap) -> bool | None:
        matrix, inside = g.dense(), slice(self.at, self.at + self.inner.d)
        rest = matrix.clone()
        rest[inside, inside] = torch.eye(self.inner.d, dtype=matrix.dtype)
        alone = bool((rest - torch.eye(self.d, dtype=matrix.dtype)).abs().max() < 1e-8)
        return self.inner.contains(matrix[inside, inside]) if alone else False

    def __str__(self) -> str:
        return f"embed({self.inner},{self.d}{f',{self.at}' if self.at else ''})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Embedding, (self.inner, self.d, self.at)


class Conjugate(Group):
    """The group P G P⁻¹: G in another basis."""

    inner: Group
    change: LinearMap

    def __init__(self, inner: Group, change: MapLike) -> None:
        p = as_linear_map(change, "a change of basis")
        if p.size != inner.d:
            raise ValueError(
                f"expected a change of basis of size {inner.d} for {inner}, got size {p.size}"
            )
        require_invertible(p, "a change of basis")
        if isinstance(inner, Conjugate):
            p = as_linear_map(p @ inner.change)
            inner = inner.inner
        self._freeze(inner.d, inner=inner, change=p, _back=p.inverse())

    def _moved(self, g: LinearMap) -> LinearMap:
        back: LinearMap = self.__dict__["_back"]
        monomial = g.monomial()
        if monomial is not None and isinstance(self.change, Monomial):
            return self.change @ monomial @ back
        if g.by_value and self.change.by_value:
            return self.change @ Dense(g.dense()) @ back
        return self.change @ g @ back

    def _discrete(self) -> Iterator[LinearMap]:
        return map(self._moved, self.inner.discrete)

    def _algebra(self) -> Iterator[LinearMap]:
        return map(self._moved, self.inner.algebra)

    @property
    def is_compact(self) -> bool:
        """Whether the group is, in any basis."""
        return self.inner.is_compact

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return self._moved(self.inner._sample(n, rng))

    def _order(self) -> int | float:
        return self.inner._order()

    def _contains(self, g: LinearMap) -> bool | None:
        back: LinearMap = self.__dict__["_back"]
        moved = back @ g @ self.change
        return self.inner.contains(moved)

    @property
    def name(self) -> str:
        """The name of the group it is in another basis."""
        return self.inner.name

    def __str__(self) -> str:
        return f"conjugate({self.inner},{_literal(self.change)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Conjugate, (self.inner, self.change)


def embed(group: Group, d: int, at: int = 0) -> Group:
    """``group`` acting on coordinates at..at+group.d-1 of R^d, the others fixed.

    Example:
        >>> from isotropy.groups import SO
        >>> embed(SO(2), 3).d
        3
    """
    return Embedding(group, d, at)
