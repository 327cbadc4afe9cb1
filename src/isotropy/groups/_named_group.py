"""What the groups of the catalogue share: a family and its integers."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import torch

from isotropy.groups._group import Group
from isotropy.groups._maps import Monomial


class NamedGroup(Group):
    """A group of the catalogue, known by its family and its integers.

    Subclasses give ``_discrete``/``_algebra`` and, where they are known in closed form,
    ``_order``, ``_sample`` and ``_contains``. Most have one integer n; those with none or
    more say so in their own ``__init__`` and ``parameters``.
    """

    n: int
    smallest = 1

    def __init__(self, n: int) -> None:
        if isinstance(n, bool) or not hasattr(n, "__index__") or n < self.smallest:
            raise ValueError(
                f"expected {type(self).__name__}(n) with an integer n >= {self.smallest}, got {n!r}"
            )
        n = operator.index(n)
        self._freeze(self._dimension(n), n=n)

    def _dimension(self, n: int) -> int:
        return n

    @property
    def parameters(self) -> tuple[int, ...]:
        """The integers behind its name."""
        return (self.n,)

    def __str__(self) -> str:
        listed = ",".join(map(str, self.parameters))
        return f"{type(self).__name__}({listed})" if listed else type(self).__name__

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.parameters


class NamedWithoutInteger(NamedGroup):
    """A group of the catalogue whose name says it all."""

    dimension: int

    def __init__(self) -> None:
        self._freeze(self.dimension)

    @property
    def parameters(self) -> tuple[int, ...]:
        """None."""
        return ()


def permutation(index: Iterable[int]) -> Monomial:
    """The permutation i ↦ index[i] as a linear map."""
    return Monomial(torch.as_tensor(list(index)))
