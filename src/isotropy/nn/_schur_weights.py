"""The equivariant maps between two spaces in a common frame: one matrix for each kind."""

from __future__ import annotations

from functools import partial
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.nn._coordinates import Coordinates, Parts
from isotropy.nn._row_products import RowProduct
from isotropy.nn._schur_frames import SchurFrame
from isotropy.nn._weight_spaces import WeightSpace, drawn_by_fan_in
from isotropy.reps import Rep


class SchurWeights(WeightSpace):
    """W = ⊕_k Σ_u M_k,u ⊗ J_k,u in the coordinates of a frame (Schur's lemma).

    The coefficients are the entries of the matrices M, copies out by units and copies in.
    """

    def __init__(self, rep_in: Rep, rep_out: Rep, frame: SchurFrame) -> None:
        super().__init__()
        self.into, self.out = Coordinates(rep_in, frame), Coordinates(rep_out, frame)
        self.shape = (self.out.size, self.into.size)
        self.kinds = [k for k in self.out.kinds if k in self.into.counts]
        self.heights = [self.out.counts[k] for k in self.kinds]
        self.unit_counts = [len(frame.kinds[k].units) for k in self.kinds]
        self.widths = [
            units * self.into.counts[k]
            for k, units in zip(self.kinds, self.unit_counts, strict=True)
        ]
        self.ranks = [h * w for h, w in zip(self.heights, self.widths, strict=True)]
        self.rank = sum(self.ranks)
        for k, count in zip(self.kinds, self.unit_counts, strict=True):
            if count > 1:
                self._keep(f"units_{k}", frame.kinds[k].units)

    def matrices(self, coefficients: Tensor) -> list[Tensor]:
        """M of every kind that both sides have, shape (copies out, units · copies in)."""
        return [
            part.view(height, width)
            for part, height, width in zip(
                coefficients.split(self.ranks), self.heights, self.widths, strict=True
            )
        ]

    def on_parts(self, parts: Parts, coefficients: Tensor, bias: Tensor | None) -> Parts:
        """W x + b in the coordinates of the frame; the bias belongs to the trivial kind."""
        found: Parts = {}
        for k, count, matrix in zip(
            self.kinds, self.unit_counts, self.matrices(coefficients), strict=True
        ):
            x = self._turned(k, parts[k]) if count > 1 else parts[k]
            found[k] = functional.linear(x, matrix, bias if k == 0 else None)
        rows = next(iter(parts.values())).shape[0]
        for k in self.out.kinds:
            if k not in found:
                shape = (rows, self.out.kind_sizes[k], self.out.counts[k])
                zeros = coefficients.new_zeros(shape)
                found[k] = zeros + bias if k == 0 and bias is not None else zeros
        return {k: found[k] for k in self.out.kinds}

    def products(self) -> list[RowProduct]:
        """One for each kind, from its part of the inputs to its part of the outputs."""
        starts = accumulate(self.ranks, initial=0)
        return [
            RowProduct(
                start + torch.arange(height * width).reshape(height, width),
                partial(self._turned, k) if count > 1 else None,
                part=k,
            )
            for k, count, height, width, start in zip(
                self.kinds, self.unit_counts, self.heights, self.widths, starts, strict=False
            )
        ]

    def _turned(self, k: int, x: Tensor) -> Tensor:
        """X under each unit, (rows, d, n) to (rows, d, units · n)."""
        units = getattr(self, f"units_{k}")
        turned = torch.einsum("uij,bjn->biun", units, x)
        return turned.flatten(2)

    def forward(self, coefficients: Tensor) -> Tensor:
        eye = torch.eye(self.shape[1], dtype=coefficients.dtype, device=coefficients.device)
        return self.out.rows(self.on_parts(self.into.parts(eye), coefficients, None)).mT

    def coordinates(self, weight: Tensor) -> Tensor:
        found = []
        by_input = self.out.parts(weight.mT)  # (in, d, copies out)
        for k, count in zip(self.kinds, self.unit_counts, strict=True):
            d, height = self.out.kind_sizes[k], self.out.counts[k]
            columns = by_input[k].flatten(1).mT  # (d · copies out, in)
            both = self.into.parts(columns)[k].unflatten(0, (d, height))
            if count > 1:
                units = getattr(self, f"units_{k}")
            else:
                units = torch.eye(d, dtype=weight.dtype, device=weight.device).unsqueeze(0)
            # rows i of the output piece, columns j of the input piece
            matrix = torch.einsum("uij,iojn->oun", units, both) / d
            found.append(matrix.flatten())
        return torch.cat(found) if found else weight.new_zeros(0)

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        fan_in = [
            torch.full((rank,), float(width))
            for rank, width in zip(self.ranks, self.widths, strict=True)
        ]
        return drawn_by_fan_in(torch.cat(fan_in) if fan_in else torch.zeros(0), dtype, device)

    def squared_lengths(self) -> Tensor:
        sizes = [
            torch.full((rank,), self.out.kind_sizes[k], dtype=torch.float64)
            for k, rank in zip(self.kinds, self.ranks, strict=True)
        ]
        return torch.cat(sizes) if sizes else torch.zeros(0, dtype=torch.float64)

    def row_counts(self) -> Tensor:
        fan_in = dict(zip(self.kinds, self.widths, strict=True))
        counts = torch.zeros(self.shape[0])
        for t, term in enumerate(self.out.terms):
            sizes = [(s.rows, s.kind) for s in self.out.segments[t]]
            mean = sum(d * fan_in.get(k, 0) for d, k in sizes) / term.size
            counts[term.columns] = mean
        return counts if self.out.back is None else counts[self.out._exact["back"]]


class SchurBias(WeightSpace):
    """Vectors that the group leaves as they are: the columns of the trivial kind."""

    def __init__(self, rep: Rep, frame: SchurFrame) -> None:
        super().__init__()
        self.out = Coordinates(rep, frame)
        self.shape = (self.out.size,)
        self.rank = self.out.counts.get(0, 0)

    def forward(self, coefficients: Tensor) -> Tensor:
        parts = {
            k: coefficients.view(1, 1, -1)
            if k == 0
            else coefficients.new_zeros(1, self.out.kind_sizes[k], self.out.counts[k])
            for k in self.out.kinds
        }
        return self.out.rows(parts).flatten()

    def coordinates(self, weight: Tensor) -> Tensor:
        return self.out.parts(weight.unsqueeze(0))[0].flatten()

    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        return drawn_by_fan_in(torch.ones(self.rank), dtype, device)

    def squared_lengths(self) -> Tensor:
        return torch.ones(self.rank, dtype=torch.float64)

    def row_counts(self) -> Tensor:
        return torch.ones(self.shape[0])

    def products(self) -> list[RowProduct]:
        """One, to the part of the trivial kind."""
        return [RowProduct(torch.arange(self.rank).unsqueeze(-1))]
