"""A matrix of independent normal numbers, named by its seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from torch import Tensor

from isotropy.certificates._counter_random import random_normals
from isotropy.certificates._projector import FIRST_STREAM, Kept, Projector

_STREAM = FIRST_STREAM
_MOST_KEPT = 1 << 25
# numbers made at a time: few enough for a processor's cache, enough to fill a GPU
_BLOCK = {"cpu": 1 << 15, "cuda": 1 << 24}


class NormalProjector(Projector):
    """P with independent normal entries of variance 1/D (Li et al. 2018): the dense projector.

    Entry (i, j) is number i·d + j of a stream, divided by √D. PᵀP = 1 + O(√(d/D)).

    With ``keep``, P is kept if it is small (2²⁵ numbers); else its entries are made anew, some rows
    at a time, in every product. The stream is counted from the first that is free for projectors.

    Example:
        >>> import torch
        >>> P = NormalProjector(5000, 3, seed=0)
        >>> gram = P.transpose(P(torch.eye(3)))
        >>> bool((gram - torch.eye(3)).abs().max() < 0.1)
        True
    """

    _kept: Tensor | None

    def __init__(
        self,
        D: int,
        d: int,
        seed: int,
        *,
        keep: bool = False,
        stream: int = 0,
        **kept: Unpack[Kept],
    ) -> None:
        super().__init__(D, d, **kept)
        self.seed = seed
        self._stream = _STREAM + stream
        self.register_buffer("_kept", None, persistent=False)
        if keep and 0 < D * d <= _MOST_KEPT:
            whole = self._empty.new_empty(D, d)
            for rows, entries in self._blocks():
                whole[rows] = entries
            self._kept = whole

    def _combine(self, w: Tensor) -> Tensor:
        if self._kept is not None:
            return w @ self._kept.mT
        out = w.new_empty(len(w), self.D)
        for rows, entries in self._blocks():
            out[:, rows] = w @ entries.mT
        return out

    def _coordinates(self, theta: Tensor) -> Tensor:
        if self._kept is not None:
            return theta @ self._kept
        out = theta.new_zeros(len(theta), self.d)
        for rows, entries in self._blocks():
            out.addmm_(theta[:, rows], entries)
        return out

    def _blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Some rows of P at a time."""
        device, dtype = self._empty.device, self._empty.dtype
        step = max(1, _BLOCK.get(device.type, _BLOCK["cpu"]) // self.d)
        for first in range(0, self.D, step):
            rows = slice(first, min(first + step, self.D))
            entries = random_normals(
                self.seed,
                self._stream,
                (rows.stop - first) * self.d,
                start=first * self.d,
                device=device,
                dtype=dtype,
            )
            yield rows, entries.mul_(self.D**-0.5).view(-1, self.d)
