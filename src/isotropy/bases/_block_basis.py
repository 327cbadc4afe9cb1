"""Sums split into blocks: each distinct pair of terms is solved once (thesis 2.5.1).

A product of sums expands into the products of their terms. Every block of the expansion is a
box in the tensor of shape n₁ × … × n_k whose axes are the factors; equal blocks share one
basis, and the copies of a term are one more batch dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod
from types import EllipsisType

import torch
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.bases._orbits import OrbitBasis
from isotropy.bases._orthonormal_basis import Basis
from isotropy.reps import Product, Rep
from isotropy.reps._layout import Layout, LayoutTerm, layout_of

LARGEST_TRIAL = 10**8


@dataclass(frozen=True)
class Block:
    """All copies of one combination of terms, one from each axis."""

    terms: tuple[LayoutTerm, ...]
    basis: Basis

    @property
    def copies(self) -> int:
        """How many copies there are."""
        return prod(term.count for term in self.terms)

    @property
    def rank(self) -> int:
        """How many basis vectors they have together."""
        return self.copies * self.basis.rank


class BlockBasis(Basis):
    """A basis put together from those of its blocks, lazily.

    The coordinates are those of the blocks one after another; within a block: copy by copy.
    """

    def __init__(self, rep: Rep, axes: tuple[Layout, ...], blocks: tuple[Block, ...]) -> None:
        self.rep = rep
        self.axes = axes
        self.blocks = blocks
        self.rank = sum(block.rank for block in blocks)
        self.method = "+".join(dict.fromkeys(block.basis.method for block in blocks))

    def _combine(self, beta: Tensor) -> Tensor:
        lead = beta.shape[:-1]
        dtype = torch.promote_types(beta.dtype, torch.complex32) if self._complex else beta.dtype
        out = torch.zeros(
            *lead, *(axis.size for axis in self.axes), dtype=dtype, device=beta.device
        )
        for block, part in zip(self.blocks, beta.split(self._ranks(), -1), strict=True):
            if block.rank:
                copies = part.reshape(*lead, block.copies, block.basis.rank)
                out[_box(block)] = _to_box(block.basis.combine(copies), block, lead)
        return self._permute(out, lead, inverse=False).reshape(*lead, self.size)

    def _coordinates(self, v: Tensor) -> Tensor:
        lead = v.shape[:-1]
        boxed = v.reshape(*lead, *(axis.size for axis in self.axes))
        boxed = self._permute(boxed, lead, inverse=True)
        parts = []
        for block in self.blocks:
            copies = _from_box(boxed[_box(block)], block, lead)
            parts.append(block.basis.coordinates(copies).reshape(*lead, block.rank))
        return torch.cat(parts, -1)

    def residual(self) -> float:
        """As for every basis; that of the worst block where the whole is too large to try."""
        if self.size + self.rank <= LARGEST_TRIAL:
            return super().residual()
        return max(block.basis.residual() for block in self.blocks)

    @property
    def _complex(self) -> bool:
        return self.rep.is_complex

    def _ranks(self) -> list[int]:
        return [block.rank for block in self.blocks]

    def _permute(self, x: Tensor, lead: torch.Size, *, inverse: bool) -> Tensor:
        """Between the layout of terms along each axis and the columns as they really stand."""
        for i, axis in enumerate(self.axes):
            if axis.order is not None:
                order = axis.order if inverse else axis.order.argsort()
                x = x.index_select(len(lead) + i, order.to(x.device))
        return x

    def orbits(self) -> OrbitBasis | None:
        """The same basis as one label array where every block is one, else None."""
        labels = torch.full([axis.size for axis in self.axes], -1)
        signs = torch.ones_like(labels, dtype=torch.int8)
        start = 0
        for block in self.blocks:
            part = block.basis.orbits()
            if part is None:
                return None
            copy = torch.arange(block.copies).unsqueeze(-1) * part.rank
            numbered = torch.where(part.labels < 0, part.labels, start + copy + part.labels)
            labels[_box(block)] = _to_box(numbered, block, torch.Size())
            if part.signs is not None:
                spread = part.signs.expand(block.copies, -1)
                signs[_box(block)] = _to_box(spread, block, torch.Size())
            start += block.rank
        empty = torch.Size()
        labels = self._permute(labels, empty, inverse=False).flatten()
        signs = self._permute(signs, empty, inverse=False).flatten()
        return OrbitBasis(self.rep, labels, None if bool((signs == 1).all()) else signs)


def axes_of(rep: Rep) -> tuple[Layout, ...]:
    """The factors of a representation, each opened into its terms."""
    factors = rep.factors if isinstance(rep, Product) and rep.factors else (rep,)
    return tuple(layout_of(factor) for factor in factors)


def solve_blocks(
    rep: Rep,
    axes: tuple[Layout, ...],
    solve: Callable[[Rep], Basis],
    progress: ProgressCallback | None = None,
) -> BlockBasis:
    """Solve every distinct combination of terms once and put the answers together."""
    solved: dict[Rep, Basis] = {}
    blocks: list[Block] = []
    total = prod(len(axis.terms) for axis in axes)
    for terms in product(*(axis.terms for axis in axes)):
        if progress is not None:
            progress(Step(len(blocks), total, "solving blocks"))
        combined = Product.of([term.rep for term in terms])
        if combined not in solved:
            solved[combined] = solve(combined)
        blocks.append(Block(terms, solved[combined]))
    return BlockBasis(rep, axes, tuple(blocks))


def _box(block: Block) -> tuple[EllipsisType | slice, ...]:
    return (Ellipsis, *(term.columns for term in block.terms))


def _to_box(vectors: Tensor, block: Block, lead: torch.Size) -> Tensor:
    """(*lead, copies, size of block) to the box (*lead, m₁ s₁, …, m_k s_k)."""
    counts = [term.count for term in block.terms]
    sizes = [term.size for term in block.terms]
    k, n = len(counts), len(lead)
    spread = vectors.reshape(*lead, *counts, *sizes)
    order = [n + j for i in range(k) for j in (i, k + i)]
    shape = [m * s for m, s in zip(counts, sizes, strict=True)]
    return spread.permute(*range(n), *order).reshape(*lead, *shape)


def _from_box(box: Tensor, block: Block, lead: torch.Size) -> Tensor:
    """The inverse of ``_to_box``."""
    k, n = len(block.terms), len(lead)
    spread = box.reshape(*lead, *(x for term in block.terms for x in (term.count, term.size)))
    order = [n + 2 * i for i in range(k)] + [n + 2 * i + 1 for i in range(k)]
    size = prod(term.size for term in block.terms)
    return spread.permute(*range(n), *order).reshape(*lead, block.copies, size)
