"""Spaces of weights with one small basis for each pair of terms."""

from __future__ import annotations

from functools import partial
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

from isotropy.bases import Basis
from isotropy.nn._row_products import Pair, RowProduct, row_products
from isotropy.nn._weight_spaces import WeightSpace, drawn_by_fan_in
from isotropy.reps._layout import Layout

LARGEST_DENSE_BLOCK = 2_000_000


def canonical(q: Tensor) -> Tensor:
    """Another orthonormal basis of the span of q (size × rank), the same whatever q spans it.

    Bases come out differently on other machines, and coefficients must mean the same there.
    """
    rng = torch.Generator().manual_seed(0)
    drawn = torch.randn(*q.shape, dtype=torch.float64, generator=rng).to(q.dtype)
    turned, triangle = torch.linalg.qr(q.mH @ drawn)
    basis: Tensor = q @ (turned * triangle.diagonal().sgn())
    return basis


class _Block:
    """All copies of the maps between two terms; β has shape (rank, copies out, copies in)."""

    def __init__(self, counts: tuple[int, int], sizes: tuple[int, int], basis: Basis) -> None:
        self.counts = counts
        self.sizes = sizes
        self.rank = prod(counts) * basis.rank
        self.basis_rank = basis.rank
        self.is_plain = sizes == (1, 1)
        entries = basis.size * basis.rank
        self.basis = None if entries <= LARGEST_DENSE_BLOCK else basis
        matrix = torch.empty(0, 0)
        if self.basis is None:
            matrix = canonical(basis.dense()).mT.contiguous()
        touched = self._touched(basis, matrix)
        # β = 1 throughout gives weights of root mean square 1 where they may differ from zero
        self.scale = (int(touched.sum()) / basis.rank) ** 0.5
        self.matrix = matrix * self.scale
        self.row_counts = counts[1] * touched.reshape(sizes).sum(-1).double()

    @staticmethod
    def _touched(basis: Basis, matrix: Tensor) -> Tensor:
        if matrix.numel():
            magnitude = matrix.abs().amax(0)
        else:
            rng = torch.Generator().manual_seed(0)
            beta = torch.randn(4, basis.rank, dtype=basis.dtype, generator=rng)
            magnitude = basis.combine(beta).abs().amax(0)
        return magnitude > 1e-10 * magnitude.max()

    def weight(self, beta: Tensor, matrix: Tensor) -> Tensor:
        (m_out, m_in), (s_out, s_in) = self.counts, self.sizes
        if self.is_plain:
            return (beta * matrix.flatten()).reshape(m_out, m_in)
        copies = beta.reshape(self.basis_rank, m_out * m_in)
        if self.basis is None:
            spread = matrix.mT @ copies
        else:
            spread = self.basis.combine(copies.mT).mT * self.scale
        spread = spread.reshape(s_out, s_in, m_out, m_in).permute(2, 0, 3, 1)
        weight: Tensor = spread.reshape(m_out * s_out, m_in * s_in)
        return weight

    def coordinates(self, weight: Tensor, matrix: Tensor) -> Tensor:
        (m_out, m_in), (s_out, s_in) = self.counts, self.sizes
        copies = weight.reshape(m_out, s_out, m_in, s_in).permute(0, 2, 1, 3)
        copies = copies.reshape(m_out * m_in, s_out * s_in)
        if self.basis is None:
            found = copies @ matrix.mH / self.scale**2
        else:
            found = self.basis.coordinates(copies) / self.scale
        coefficients: Tensor = found.mT.flatten()
        return coefficients

    def pair(self, start: int, matrix: Tensor) -> Pair:
        """The same maps as coefficients from place ``start`` and what they multiply."""
        m_out, m_in = self.counts
        entries = start + torch.arange(self.rank).reshape(self.basis_rank, m_out, m_in)
        entries = entries.permute(1, 2, 0).reshape(m_out, m_in * self.basis_rank)
        return Pair(entries, partial(self._rows, matrix=matrix))

    def _rows(self, x: Tensor, matrix: Tensor) -> Tensor:
        if self.basis is None:
            return torch.einsum("qst,...nt->...snq", matrix.unflatten(-1, self.sizes), x)
        found = []
        for one in torch.eye(self.basis_rank, dtype=x.dtype, device=x.device):
            # one map at a time: all of them are too many to be kept
            found.append(x @ (self.basis.combine(one) * self.scale).reshape(self.sizes).mT)
        return torch.stack(found, -1).transpose(-3, -2)


class BlockWeights(WeightSpace):
    """Weights between sums of representations: one small basis for each pair of terms.

    Args:
        layout_in: The terms of the inputs.
        layout_out: The terms of the outputs.
        bases: The equivariant maps between the terms of each pair, by their places; pairs
            with none are left out.
    """

    rows: Tensor | None
    rows_back: Tensor | None
    columns: Tensor | None
    columns_back: Tensor | None

    def __init__(
        self, layout_in: Layout, layout_out: Layout, bases: dict[tuple[int, int], Basis]
    ) -> None:
        super().__init__()
        self.shape = (layout_out.size, layout_in.size)
        self.layout_in, self.layout_out = layout_in, layout_out
        self.places = list(bases)
        self.blocks: list[_Block] = []
        for (i, j), basis in bases.items():
            out, into = layout_out.terms[i], layout_in.terms[j]
            block = _Block((out.count, into.count), (out.size, into.size), basis)
            self._keep(f"matrix_{i}_{j}", block.matrix)
            self.blocks.append(block)
        self.ranks = [block.rank for block in self.blocks]
        self.rank = sum(self.ranks)
        for side, layout in (("rows", layout_out), ("columns", layout_in)):
            order = layout.order
            self._keep(side, None if order is None else order.argsort())
            self._keep(f"{side}_back", order)

    def _pairs(self) -> list[tuple[tuple[int, int], _Block, Tensor]]:
        return [
            (place, block, getattr(self, f"matrix_{place[0]}_{place[1]}"))
            for place, block in zip(self.places, self.blocks, strict=True)
        ]

    def forward(self, coefficients: Tensor) -> Tensor:
        parts = coefficients.split(self.ranks)
        filled = {
            place: block.weight(beta, matrix)
            for (place, block, matrix), beta in zip(self._pairs(), parts, strict=True)
        }
        rows = []
        for i, out in enumerate(self.layout_out.terms):
            row = [
                filled[i, j] if (i, j) in filled else coefficients.new_zeros(out.width, into.width)
                for j, into in enumerate(self.layout_in.terms)
            ]
            rows.append(torch.cat(row, 1) if len(row) > 1 else row[0])
        weight = torch.cat(rows) if len(rows) > 1 else rows[0]
        if self.rows is not None:
            weight = weight.index_select(0, self.rows)
        return weight if self.columns is None else weight.index_select(1, self.columns)

    def coordinates(self, weight: Tensor) -> Tensor:
        if self.rows_back is not None:
            weight = weight.index_select(0, self.rows_back)
        if self.columns_back is not None:
            weight = weight.index_select(1, self.columns_back)
        parts = []
        for (i, j), block, matrix in self._pairs():
            rows, columns = self.layout_out.terms[i].columns, self.layout_in.terms[j].columns
            parts.append(block.coordinates(weight[rows, columns], matrix))
        return torch.cat(parts) if parts else weight.new_zeros(0)

    def squared_lengths(self) -> Tensor:
        ranks = torch.tensor(self.ranks, dtype=torch.int64)
        scales = torch.tensor([block.scale for block in self.blocks], dtype=torch.float64)
        return scales.square().repeat_interleave(ranks)

    def row_counts(self) -> Tensor:
        counts = torch.zeros(self.shape[0], dtype=torch.float64)
        for (i, _), block, _ in self._pairs():
            # the mean over a term's components: they mix under the group
            counts[self.layout_out.terms[i].columns] += block.row_counts.mean()
        return counts if self.layout_out.order is None else counts[self.layout_out.order.argsort()]

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        fans = [0.0] * len(self.layout_out.terms)
        for (i, _), block, _ in self._pairs():
            fans[i] += float(block.row_counts.mean())
        parts = [torch.full((b.rank,), fans[i]) for (i, _), b, _ in self._pairs()]
        return drawn_by_fan_in(torch.cat(parts) if parts else torch.zeros(0), dtype, device)

    def products(self) -> list[RowProduct]:
        starts = accumulate(self.ranks, initial=0)
        pairs = {
            place: block.pair(start, matrix)
            for (place, block, matrix), start in zip(self._pairs(), starts, strict=False)
        }
        return row_products(self.layout_in, self.layout_out, pairs)
