"""W x as products of rows, which are made of x, with matrices of coefficients."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from isotropy.reps._layout import Layout, LayoutTerm

FEW_LABELS = 32  # for as many, products with their masks are faster than sums by index


@dataclass(frozen=True)
class RowProduct:
    """A share of W x: rows made of x, times a matrix that is made of coefficients alone.

    Args:
        entries: Where the coefficients of the matrix are, shape (out, in).
        spread: From inputs to rows, shape (*, rows, in); None where they are their own rows.
        gather: From outputs to the rows that this is a share of, shape (*, rows, out); None
            where they are their own rows.
        part: The place of the output term, or the kind of piece.
        axes: What the axis of the rows is called; nothing where there is no such axis.
        exact: Whether the matrix is all there is: one row of coefficients without structure.
    """

    entries: Tensor
    spread: Callable[[Tensor], Tensor] | None = None
    gather: Callable[[Tensor], Tensor] | None = None
    part: int = 0
    axes: tuple[str, ...] = ("component",)
    exact: bool = False


@dataclass(frozen=True)
class Pair:
    """All maps between two terms.

    Args:
        entries: Where their coefficients are, shape (copies out, copies in · rank).
        rows: Every map on every copy, (*, copies, size in) to (*, size out, copies, rank).
    """

    entries: Tensor
    rows: Callable[[Tensor], Tensor]


def row_products(
    layout_in: Layout,
    layout_out: Layout,
    pairs: Mapping[tuple[int, int], Pair],
    axis: str = "component",
) -> list[RowProduct]:
    """One product for each output term that any map leads to: all of these maps side by side."""
    found = []
    for i, out in enumerate(layout_out.terms):
        own = {j: pair for (place, j), pair in pairs.items() if place == i}
        if own:
            terms = {layout_in.terms[j]: pair.rows for j, pair in own.items()}
            found.append(
                RowProduct(
                    torch.cat([pair.entries for pair in own.values()], 1),
                    partial(_spread, layout=layout_in, terms=terms),
                    partial(_gathered, layout=layout_out, term=out),
                    part=i,
                    axes=(axis,),
                )
            )
    return found


def _spread(
    x: Tensor, layout: Layout, terms: dict[LayoutTerm, Callable[[Tensor], Tensor]]
) -> Tensor:
    return torch.cat(
        [rows(_copies(x, layout, term)).flatten(-2) for term, rows in terms.items()], -1
    )


def _gathered(y: Tensor, layout: Layout, term: LayoutTerm) -> Tensor:
    return _copies(y, layout, term).mT


def _copies(x: Tensor, layout: Layout, term: LayoutTerm) -> Tensor:
    """The copies of a term, (*, size of the space) to (*, copies, size)."""
    if layout.order is not None:
        x = x.index_select(-1, layout.order[term.columns].to(x.device))
    else:
        x = x[..., term.columns]
    copies: Tensor = x.unflatten(-1, (term.count, term.size))
    return copies


def first_copy(layout: Layout, term: LayoutTerm) -> Tensor:
    """Where the first copy of a term is in the space, shape (size,)."""
    places = torch.arange(term.offset, term.offset + term.size)
    return places if layout.order is None else layout.order[places]


def orbit_rows(x: Tensor, orbits: Callable[[Tensor], Tensor]) -> Tensor:
    """The sums over orbits on every copy, (*, copies, size in) to (*, size out, copies, rank)."""
    return orbits(x).transpose(-3, -2)


def orbit_sums(x: Tensor, labels: Tensor, signs: Tensor | None, rank: int) -> Tensor:
    """Σ_t ± x_t over the entries t of row s with each label, shape (*, t) to (*, s, rank)."""
    labels = labels.to(x.device)
    signs = None if signs is None else signs.to(x.device)
    if rank <= FEW_LABELS:
        masks = (labels == label for label in range(rank))
        signed = (mask if signs is None else mask * signs for mask in masks)
        return torch.stack([x @ mask.to(x.dtype).mT for mask in signed], -1)
    rows, columns = (labels >= 0).nonzero(as_tuple=True)
    values = x.index_select(-1, columns)
    values = values if signs is None else values * signs[rows, columns]
    sums = x.new_zeros(*x.shape[:-1], len(labels) * rank)
    sums = sums.index_add(-1, rows * rank + labels[rows, columns], values)
    by_row: Tensor = sums.unflatten(-1, (len(labels), rank))
    return by_row
