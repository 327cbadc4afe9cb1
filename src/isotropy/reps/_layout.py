"""How the columns of a space fall into copies of simpler representations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.reps._algebra import Product, Sum
from isotropy.reps._leaves import Scalar, Vector
from isotropy.reps._placed import Selected
from isotropy.reps._rep import Rep


@dataclass(frozen=True)
class Term:
    """All copies of one representation, side by side from column ``offset`` of the layout."""

    rep: Rep
    count: int
    offset: int
    size: int

    @property
    def width(self) -> int:
        """The number of columns of all copies together."""
        return self.count * self.size

    @property
    def columns(self) -> slice:
        """Where they are in the layout."""
        return slice(self.offset, self.offset + self.width)


@dataclass(frozen=True)
class Layout:
    """The terms of a space, and where its columns really stand.

    Args:
        terms: The terms, no representation twice.
        size: The number of columns.
        order: The column at each place of the layout; None where they agree.
    """

    terms: tuple[Term, ...]
    size: int
    order: Tensor | None

    @property
    def is_simple(self) -> bool:
        """Whether there is nothing to split."""
        return len(self.terms) == 1 and self.terms[0].count == 1 and self.order is None


def layout_of(rep: Rep) -> Layout:
    """Open the sums of a representation into terms, equal ones brought together.

    Example:
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, V
        >>> layout = layout_of((2 * Scalar + V + Scalar)(SO(3)))
        >>> [(str(term.rep), term.count) for term in layout.terms]
        [('Scalar', 3), ('V(SO(3))', 1)]
        >>> layout.order
        tensor([0, 1, 5, 2, 3, 4])
    """
    size = rep.size()
    placed = None
    if isinstance(rep, Selected):
        spare = rep.of - len(rep.columns)
        placed = rep.order()
        rep = rep.inner + spare * Scalar if spare else rep.inner
    pieces: dict[Rep, list[tuple[int, int]]] = {}
    at = 0
    for count, term in _flat_terms(rep):
        width = count * term.size()
        pieces.setdefault(term, []).append((at, width))
        at += width
    terms, columns = [], []
    offset = 0
    for term, runs in pieces.items():
        width = sum(run for _, run in runs)
        terms.append(Term(term, width // term.size(), offset, term.size()))
        columns += [torch.arange(start, start + run) for start, run in runs]
        offset += width
    order = torch.cat(columns)
    if placed is not None:
        order = placed[order]
    in_place = bool((order == torch.arange(size)).all())
    return Layout(tuple(terms), size, None if in_place else order)


def without_duals(rep: Rep) -> Rep:
    """The same action with V* written as V where the group is orthogonal and they agree."""
    if isinstance(rep, Vector) and rep.dual and rep._bound_group().is_orthogonal:
        return rep.T
    if isinstance(rep, Product):
        return Product.of([without_duals(factor) for factor in rep.factors])
    if isinstance(rep, Sum):
        return Sum.of([(count, without_duals(term)) for count, term in rep.terms])
    return rep


def _flat_terms(rep: Rep) -> list[tuple[int, Rep]]:
    if not isinstance(rep, Sum):
        return [(1, rep)]
    flat: list[tuple[int, Rep]] = []
    for count, term in rep.terms:
        flat += _flat_terms(term) * count if isinstance(term, Sum) else [(count, term)]
    return flat
