"""Features by term, component by component: the form in which a network works inside.

For a space with terms of m copies and s dimensions each, the columns (m, s) of a term become a
part of shape (rows, s, m). Mixing copies is then one product for all components, and gates act
along contiguous memory.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy.nn._module import EquivariantModule
from isotropy.reps import Layout, Rep, layout_of, without_duals

Parts: TypeAlias = list[Tensor]


class PartsModule(EquivariantModule):
    """A module that works on parts; called with plain tensors, it converts them."""

    def __init__(self, rep_in: Rep, rep_out: Rep) -> None:
        super().__init__(rep_in, rep_out)
        self.layout_in = layout_of(without_duals(rep_in))
        self.layout_out = layout_of(without_duals(rep_out))
        order, back = self.layout_in.order, self.layout_out.order
        self.register_buffer("order", order, persistent=False)
        self.register_buffer("back", None if back is None else back.argsort(), persistent=False)

    @abstractmethod
    def on_parts(self, parts: Parts) -> Parts:
        """Apply the module to the parts of its input."""

    def forward(self, x: Tensor) -> Tensor:
        """Apply the module along the last axis, shape (*, in_features) to (*, out_features)."""
        self._require_width(x)
        rows = x.reshape(-1, self.in_features)
        y = self._joined(self.on_parts(self._split(rows)))
        return y.reshape(*x.shape[:-1], self.out_features)

    def _split(self, x: Tensor) -> Parts:
        return split(x if self.order is None else x.index_select(-1, self.order), self.layout_in)

    def _joined(self, parts: Parts) -> Tensor:
        y = joined(parts)
        return y if self.back is None else y.index_select(-1, self.back)


def split(x: Tensor, layout: Layout) -> Parts:
    """Rows in the order of a layout, shape (rows, size), as parts of shape (rows, s, m)."""
    # one split, whose gradient is one concatenation
    columns = x.split([term.width for term in layout.terms], -1)
    return [
        v.unflatten(-1, (term.count, term.size)).mT
        for v, term in zip(columns, layout.terms, strict=True)
    ]


def joined(parts: Parts) -> Tensor:
    """The inverse of ``split``."""
    flat = [part.mT.flatten(1) for part in parts]
    return torch.cat(flat, -1) if len(flat) > 1 else flat[0]
