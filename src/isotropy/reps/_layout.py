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
class LayoutTerm:
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

    terms: tuple[LayoutTerm, ...]
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
        >>> print({str(term.rep): term.count for term in layout.terms})
        {'Scalar': 3, 'V(SO(3))': 1}
        >>> layout.order
        tensor([0, 1, 5, 2, 3, 4])
    """
    if not _opens(rep):
        size = rep.size()
        return Layout((LayoutTerm(rep, 1, 0, size),), size, None)
    found: dict[Rep, list[Tensor]] = {}
    for term, columns in _pieces(rep):
        found.setdefault(term, []).append(columns)
    terms, offset = [], 0
    for term, runs in found.items():
        count = sum(len(run) for run in runs)
        terms.append(LayoutTerm(term, count, offset, runs[0].shape[1]))
        offset += terms[-1].width
    order = torch.cat([run.flatten() for runs in found.values() for run in runs])
    in_place = bool((order == torch.arange(offset)).all())
    return Layout(tuple(terms), offset, None if in_place else order)


def without_duals(rep: Rep) -> Rep:
    """The same action with V* written as V where the group is orthogonal and they agree."""
    if isinstance(rep, Vector) and rep.dual and rep._bound_group().is_orthogonal:
        return rep.T
    if isinstance(rep, Product):
        return Product.of([without_duals(factor) for factor in rep.factors])
    if isinstance(rep, Sum):
        return Sum.of([(count, without_duals(term)) for count, term in rep.terms])
    return rep


def _opens(rep: Rep) -> bool:
    """Whether there is a sum in it to open."""
    parts = rep.factors if isinstance(rep, Product) else (rep,)
    return any(isinstance(part, Sum | Selected) for part in parts)


def _pieces(rep: Rep) -> list[tuple[Rep, Tensor]]:
    """The terms one after another, each with the columns of its copies, shape (copies, size)."""
    if isinstance(rep, Sum):
        pieces, at = [], 0
        for count, inner in rep.terms:
            opened, size = _pieces(inner), inner.size()
            copies = torch.arange(at, at + count * size, size)
            if len(opened) == 1:
                term, columns = opened[0]
                pieces.append((term, (copies[:, None, None] + columns).flatten(0, 1)))
            else:
                pieces += [(term, copy + columns) for copy in copies for term, columns in opened]
            at += count * size
        return pieces
    if isinstance(rep, Selected):
        order = rep.order()
        chosen, rest = order[: len(rep.columns)], order[len(rep.columns) :]
        pieces = [(term, chosen[columns]) for term, columns in _pieces(rep.inner)]
        return [*pieces, (Scalar, rest.unsqueeze(-1))] if len(rest) else pieces
    if isinstance(rep, Product) and _opens(rep):
        pieces = [(Scalar, torch.zeros(1, 1, dtype=torch.int64))]
        for factor in rep.factors:
            pieces = [
                (Product.of([left, right]), _crossed(first, second, factor.size()))
                for left, first in pieces
                for right, second in _pieces(factor)
            ]
        return pieces
    return [(rep, torch.arange(rep.size()).unsqueeze(0))]


def _crossed(first: Tensor, second: Tensor, width: int) -> Tensor:
    """The columns of all products of copies: those of ``first`` count in steps of ``width``."""
    crossed = first[:, None, :, None] * width + second[None, :, None, :]
    return crossed.flatten(2).flatten(0, 1)
