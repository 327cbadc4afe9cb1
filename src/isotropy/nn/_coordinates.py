"""Features by kind of irreducible piece: the form in which a network works inside.

For every kind of dimension d with n copies in a space, the features are one part of shape
(rows, d, n). A linear layer is then one product for each kind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy.nn._constants import ExactConstants
from isotropy.nn._schur_frames import SchurFrame
from isotropy.reps import Rep, Scalar
from isotropy.reps._layout import LayoutTerm, layout_of, without_duals

Parts: TypeAlias = dict[int, Tensor]


@dataclass(frozen=True)
class Segment:
    """The columns in its kind's part of a term's pieces of that kind: piece by piece, by copy."""

    term: int
    kind: int
    start: int
    count: int
    rows: int


class Coordinates(ExactConstants):
    """Between the columns of a space and its parts.

    Scalars come first within the trivial kind, then the pieces of the other terms in order.
    """

    order: Tensor | None
    back: Tensor | None

    def __init__(self, rep: Rep, frame: SchurFrame) -> None:
        super().__init__()
        layout = layout_of(without_duals(rep))
        self.terms: tuple[LayoutTerm, ...] = layout.terms
        self.size = layout.size
        self.kind_sizes = [kind.size for kind in frame.kinds]
        self._keep("order", layout.order)
        self._keep("back", None if layout.order is None else layout.order.argsort())
        places = range(len(layout.terms))
        self.counts: dict[int, int] = {}
        self.segments: dict[int, list[Segment]] = {t: [] for t in places}
        self.plain: list[bool] = []
        for t in sorted(places, key=lambda t: layout.terms[t].rep != Scalar):
            term = layout.terms[t]
            for kind, pieces in frame.pieces[term.rep].items():
                start, count = self.counts.get(kind, 0), pieces * term.count
                rows = pieces * frame.kinds[kind].size
                self.segments[t].append(Segment(t, kind, start, count, rows))
                self.counts[kind] = start + count
        for t, term in enumerate(layout.terms):
            basis = frame.bases[term.rep]
            eye = torch.eye(len(basis), dtype=basis.dtype)
            self.plain.append(bool(torch.equal(basis, eye)))
            if not self.plain[t]:
                self._keep(f"basis_{t}", basis)
        self.kinds = sorted(self.counts)
        ordered = sorted(
            (s for segments in self.segments.values() for s in segments), key=lambda s: s.start
        )
        self.by_kind = {k: [s for s in ordered if s.kind == k] for k in self.kinds}

    def parts(self, x: Tensor) -> Parts:
        """The parts of rows x, shape (rows, size)."""
        if self.order is not None:
            x = x.index_select(-1, self.order)
        objects = {}
        columns = x.split([term.width for term in self.terms], -1)
        for t, (v, term) in enumerate(zip(columns, self.terms, strict=True)):
            v = v.unflatten(-1, (term.count, term.size))
            if not self.plain[t]:
                v = v @ getattr(self, f"basis_{t}")
            objects[t] = v.mT
        return self.gathered(objects, self.kinds)

    def rows(self, parts: Parts) -> Tensor:
        """The inverse of ``parts``."""
        columns = []
        for t, v in enumerate(self.objects(parts)):
            v = v.mT
            if not self.plain[t]:
                v = v @ getattr(self, f"basis_{t}").mT
            columns.append(v.flatten(1))
        x = cat(columns, -1)
        return x if self.back is None else x.index_select(-1, self.back)

    def objects(self, parts: Parts) -> list[Tensor]:
        """All copies of each term in the coordinates of the frame, shape (rows, size, copies)."""
        pieces = {}
        for k in self.kinds:
            # one split, whose gradient is one concatenation
            split = parts[k].split([s.count for s in self.by_kind[k]], -1)
            for segment, piece in zip(self.by_kind[k], split, strict=True):
                shape = (piece.shape[0], segment.rows, self.terms[segment.term].count)
                pieces[k, segment.start] = piece.reshape(shape)
        return [
            cat([pieces[s.kind, s.start] for s in self.segments[t]], 1)
            for t in range(len(self.terms))
        ]

    def gathered(self, objects: Mapping[int, Tensor], kinds: Sequence[int]) -> Parts:
        """The parts of some kinds, from all copies of the terms that have them."""
        pieces = {}
        for t, v in objects.items():
            split = v.split([s.rows for s in self.segments[t]], 1)
            for segment, piece in zip(self.segments[t], split, strict=True):
                shape = (piece.shape[0], self.kind_sizes[segment.kind], segment.count)
                pieces[segment.kind, segment.start] = piece.reshape(shape)
        return {k: cat([pieces[k, s.start] for s in self.by_kind[k]], -1) for k in kinds}


class FlatSpace(ExactConstants):
    """The columns of a space in the coordinates of a frame, side by side: term by term.

    A term of ``size`` dimensions and ``count`` copies takes size · count columns, copies fastest,
    so that any linear map between two such spaces is one dense matrix, and the objects of a term
    are a view.
    """

    def __init__(self, space: Coordinates) -> None:
        super().__init__()
        self.space = space
        self.size = space.size
        self.widths = [term.width for term in space.terms]

    def flat(self, x: Tensor) -> Tensor:
        """The flat features of rows x, shape (rows, size) to the same."""
        space = self.space
        if space.order is not None:
            x = x.index_select(-1, space.order)
        columns = []
        for t, (v, term) in enumerate(zip(x.split(self.widths, -1), space.terms, strict=True)):
            v = v.unflatten(-1, (term.count, term.size))
            if not space.plain[t]:
                v = v @ getattr(space, f"basis_{t}")
            columns.append(v.mT.flatten(-2))
        return cat(columns, -1)

    def rows(self, flat: Tensor) -> Tensor:
        """The inverse of ``flat``."""
        space = self.space
        columns = []
        for t, (v, term) in enumerate(zip(flat.split(self.widths, -1), space.terms, strict=True)):
            v = v.unflatten(-1, (term.size, term.count)).mT
            if not space.plain[t]:
                v = v @ getattr(space, f"basis_{t}").mT
            columns.append(v.flatten(-2))
        x = cat(columns, -1)
        return x if space.back is None else x.index_select(-1, space.back)

    def places(self) -> dict[int, Tensor]:
        """Where the parts are among the flat columns, by kind, shape (d, copies)."""
        space, objects, start = self.space, {}, 0
        for t, term in enumerate(space.terms):
            columns = torch.arange(start, start + term.width)
            objects[t] = columns.reshape(1, term.size, term.count)
            start += term.width
        return {k: part.squeeze(0) for k, part in space.gathered(objects, space.kinds).items()}


def cat(tensors: list[Tensor], dim: int) -> Tensor:
    """As ``torch.cat``, without a copy where there is only one."""
    return torch.cat(tensors, dim) if len(tensors) > 1 else tensors[0]
