"""Very sparse random projections (Li, Hastie and Church 2006)."""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt
from typing import Unpack

import torch
from torch import Tensor

from isotropy.certificates._counter_random import random_words
from isotropy.certificates._projector import FIRST_STREAM, Kept, Projector

_STREAM = FIRST_STREAM + 16
_MOST_KEPT = 1 << 25
_BLOCK = 1 << 20


class SparseProjector(Projector):
    """P with m = ⌊√D⌋ entries ±1/√m in each column, all others 0: a density of about 1/√D.

    The rows are cut into m strata of equal height, give or take one, and a column has one entry in
    each, at a random place. So no two entries fall together, every column has length 1 exactly,
    and a product walks through memory once.

    Up to 2²⁵ entries are kept; more are made anew in every product.

    Example:
        >>> P = SparseProjector(100, 2, seed=0).dense()
        >>> (P != 0).sum(0).tolist(), round(float(P[:, 0].norm()), 6)
        ([10, 10], 1.0)
    """

    _rows: Tensor | None
    _signs: Tensor | None

    def __init__(self, D: int, d: int, seed: int, **kept: Unpack[Kept]) -> None:
        super().__init__(D, d, **kept)
        self.seed = seed
        self._strata = isqrt(D)
        self.register_buffer("_rows", None, persistent=False)
        self.register_buffer("_signs", None, persistent=False)
        if 0 < self._strata * d <= _MOST_KEPT:
            self._rows, self._signs = self._entries(0, self._strata)

    def _combine(self, w: Tensor) -> Tensor:
        out = w.new_zeros(len(w), self.D)
        for rows, entries in self._blocks():
            out.index_add_(1, rows.flatten(), (w[:, None] * entries).flatten(1))
        return out

    def _coordinates(self, theta: Tensor) -> Tensor:
        out = theta.new_zeros(len(theta), self.d)
        for rows, entries in self._blocks():
            out += (theta[:, rows] * entries).sum(1)
        return out

    def _blocks(self) -> Iterator[tuple[Tensor, Tensor]]:
        """The rows and values of the entries of some strata at a time, each (strata, d)."""
        if self._rows is not None and self._signs is not None:
            yield self._rows, self._signs
            return
        step = max(1, _BLOCK // self.d)
        for first in range(0, self._strata, step):
            yield self._entries(first, min(first + step, self._strata))

    def _entries(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """The entries of strata ``first`` to ``last``."""
        device, dtype = self._empty.device, self._empty.dtype
        words = random_words(
            self.seed, _STREAM, (last - first) * self.d, start=first * self.d, device=device
        ).view(-1, self.d)
        edges = torch.arange(first, last + 1, device=device) * self.D // self._strata
        heights = edges.diff()[:, None]
        # the low half of a word, as a fraction of 2³², of the stratum's height; the top bit is free
        places = (words & 0xFFFFFFFF).mul_(heights) >> 32
        signs = torch.where(words < 0, -1.0, 1.0).to(dtype)
        return places.add_(edges[:-1, None]), signs.mul_(self._strata**-0.5)
