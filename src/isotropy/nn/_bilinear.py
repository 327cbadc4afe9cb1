"""The cheap bilinear layer: objects that can be read as linear maps act on other objects."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.groups import Group
from isotropy.nn._coordinates import cat
from isotropy.nn._module import EquivariantModule, bound, cast
from isotropy.nn._schur_frames import SchurFrame
from isotropy.reps import Product, Rep, Scalar
from isotropy.reps._layout import Layout, LayoutTerm, layout_of, without_duals

SCALE = 1.0


@dataclass(frozen=True)
class Contraction:
    """Objects of term ``acting`` are read as maps from term ``source`` to term ``target``.

    Args:
        acting: The place of the term whose objects act.
        objects: How many of its copies act.
        source: The place of the input term acted on.
        target: The place of the output term.
        shape: The sizes of the acting object's factors.
        order: The factors in the order target, source; None where they are in it already.
    """

    acting: int
    objects: int
    source: int
    target: int
    shape: tuple[int, ...]
    order: tuple[int, ...] | None


class BiLinear(EquivariantModule):
    """y_c = Σ P[c,a,b] Reshape(v_a) v_b over all objects v_a that are maps T_b → T_c (thesis 2.6).

    An object of T_a acts on one of T_b to give one of T_c where T_a = T_c ⊗ T_b* up to the order
    of its factors. Of each T_a the first d copies act, d being the dimension of the group's own
    space: the linear layer before can put anything into them. Scalars do not act, and under
    groups that preserve lengths they are not acted on either: what they do to other objects is
    left to the gates, which costs less and was as accurate. The weights P are learned, one for
    each pair of objects and output; they are standard normal at the start and scaled down, so
    that products begin as a small correction and grow slowly. Contractions and weights go
    through a few matrix products; no matrix is built for each sample.

    Args:
        rep_in: How the group acts on inputs.
        rep_out: How it acts on outputs.
        group: The group; not needed where the representations have theirs.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If no object of the inputs can act on another to give one of the outputs.

    Example:
        >>> import torch
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> dot_products = BiLinear(2 * V, Scalar, O(3))
        >>> [weight.shape for weight in dot_products.parameters()]  # of v₀v₀, v₀v₁, v₁v₀, v₁v₁
        [torch.Size([4, 1])]
        >>> dot_products(torch.randn(7, 6)).shape
        torch.Size([7, 1])
    """

    order: Tensor | None
    back: Tensor | None

    def __init__(
        self,
        rep_in: Rep | str,
        rep_out: Rep | str,
        group: Group | str | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        _frame: SchurFrame | None = None,
        _targets: Collection[Rep] | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        super().__init__(rep_in, rep_out)
        if (rep_in + rep_out).is_complex:
            raise ValueError(
                f"expected real representations for a bilinear layer, got {rep_in} and {rep_out}"
            )
        into, out = layout_of(without_duals(rep_in)), layout_of(without_duals(rep_out))
        self.contractions = contractions(into, out, _targets)
        if not self.contractions:
            raise ValueError(
                f"expected objects in {rep_in} that map others of it to {rep_out}, got none"
            )
        self.terms_in, self.terms_out = into.terms, out.terms
        self.first = [c for c in self.contractions if self._size_in(c) < self._size_out(c)]
        self.last = [c for c in self.contractions if self._size_in(c) >= self._size_out(c)]
        self.targets = sorted({c.target for c in self.last})
        self.by_acting = {
            c.acting: [d for d in self.contractions if d.acting == c.acting]
            for c in self.contractions
        }
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.mixing_first = nn.ParameterList(
            torch.empty(self._count_in(c), c.objects * self._count_out(c), **kind)
            for c in self.first
        )
        self.mixing_last = nn.ParameterList(
            torch.empty(
                sum(c.objects * self._count_in(c) for c in self.last if c.target == target),
                out.terms[target].count,
                **kind,
            )
            for target in self.targets
        )
        self._keep("order", into.order)
        self._keep("back", None if out.order is None else out.order.argsort())
        self._set_scales()
        if _frame is not None:
            self._set_frame(_frame)
        cast(self, device, dtype or torch.get_default_dtype())
        self.reset_parameters()

    def _size_in(self, c: Contraction) -> int:
        return self.terms_in[c.source].size

    def _size_out(self, c: Contraction) -> int:
        return self.terms_out[c.target].size

    def _count_in(self, c: Contraction) -> int:
        return self.terms_in[c.source].count

    def _count_out(self, c: Contraction) -> int:
        return self.terms_out[c.target].count

    def _set_scales(self) -> None:
        """Scale weights of unit variance so that unit inputs add about SCALE² to the variance."""
        fan_in = [0] * len(self.terms_out)
        for c in self.contractions:
            fan_in[c.target] += c.objects * self.terms_in[c.source].width
        self.scales_first = [SCALE * fan_in[c.target] ** -0.5 for c in self.first]
        self.scales_last = [SCALE * fan_in[target] ** -0.5 for target in self.targets]

    def _set_frame(self, frame: SchurFrame) -> None:
        """Work in the coordinates of a frame: what changes is how an object is read as a map."""
        self.read_as: dict[int, list[Contraction]] = {}
        for place, group in self.by_acting.items():
            readings = {}
            for c in group:
                acting = frame.bases[self.terms_in[c.acting].rep]
                target = frame.bases[self.terms_out[c.target].rep]
                source = frame.bases[self.terms_in[c.source].rep]
                read = _read_as_map(acting.mT, c).unflatten(1, (len(target), len(source)))
                read = torch.einsum("aij,ik,jl->akl", read, target, source).flatten(1)
                eye = torch.eye(len(read), dtype=read.dtype)
                if not torch.allclose(read, eye, atol=1e-12):
                    readings[c] = read
            if readings:
                self.read_as[place] = list(readings)
                self._keep(f"reading_{place}", torch.cat(list(readings.values()), 1))

    def reset_parameters(self) -> None:
        """Draw new weights from the standard normal distribution."""
        for weight in self.parameters():
            nn.init.normal_(weight)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer along the last axis, shape (*, in_features) to (*, out_features)."""
        self._require_width(x)
        rows = x.reshape(-1, self.in_features)
        if self.order is not None:
            rows = rows.index_select(-1, self.order)
        columns = rows.split([term.width for term in self.terms_in], -1)
        objects = [
            v.unflatten(-1, (term.count, term.size)).mT
            for v, term in zip(columns, self.terms_in, strict=True)
        ]
        sums = {
            i: rows.new_zeros(rows.shape[0], term.size, term.count)
            for i, term in enumerate(self.terms_out)
        }
        self.add(objects, sums, x.shape[:-1])
        y = cat([v.mT.flatten(1) for v in sums.values()], -1)
        if self.back is not None:
            y = y.index_select(-1, self.back)
        return y.reshape(*x.shape[:-1], self.out_features)

    def add(
        self,
        objects: Sequence[Tensor],
        sums: dict[int, Tensor],
        lead: Sequence[int],
        *,
        in_frame: bool = False,
    ) -> None:
        """Add what the objects of all input terms give to those of output terms.

        Args:
            objects: One tensor for each input term, shape (rows, size, copies).
            sums: What to add to, by output term; terms that are not there are left out.
            lead: The shape that the rows had.
            in_frame: Whether all are in the coordinates of the frame.
        """
        acting: dict[Contraction, Tensor] = {}
        for place, group in self.by_acting.items():
            used = [c for c in group if c.target in sums]
            if used:
                v = objects[place]
                v = v if v.shape[-1] == used[0].objects else v[..., : used[0].objects]
                acting.update(self._as_maps(place, used, v.mT.contiguous(), in_frame=in_frame))
        self._add_weighted_last(objects, acting, sums, lead)
        self._add_weighted_first(objects, acting, sums, lead)

    def _as_maps(
        self, place: int, used: list[Contraction], v: Tensor, *, in_frame: bool
    ) -> dict[Contraction, Tensor]:
        """Acting objects as maps, shape (rows, objects, size of target, size of source)."""
        read: dict[Contraction, Tensor] = {}
        if not in_frame:
            read = {c: _read_as_map(v, c) for c in used}
        elif place not in self.read_as:
            read = dict.fromkeys(used, v)
        else:
            # one product for all rows: left to itself, torch would make one for each
            flat = v.flatten(0, 1) @ getattr(self, f"reading_{place}")
            others = self.read_as[place]
            split = flat.unflatten(0, (-1, v.shape[1])).split(v.shape[2], -1)
            turned = dict(zip(others, split, strict=True))
            read = {c: turned.get(c, v) for c in used}
        return {c: m.unflatten(-1, (self._size_out(c), self._size_in(c))) for c, m in read.items()}

    def _add_weighted_first(
        self,
        objects: Sequence[Tensor],
        acting: dict[Contraction, Tensor],
        sums: dict[int, Tensor],
        lead: Sequence[int],
    ) -> None:
        """Σ_n X_n (Σ_j P[c,n,j] v_j): weights on the objects acted on, then the action."""
        left: dict[int, list[Tensor]] = {}
        right: dict[int, list[Tensor]] = {}
        for k, (c, weight) in enumerate(zip(self.first, self.mixing_first, strict=True)):
            if c not in acting:
                continue
            v, scale = objects[c.source], self.scales_first[k]
            mixed = v @ (scale * weight)
            if self._recording:
                self._note_mixing(f"mixing_first.{k}", v, mixed, scale, lead)
            left.setdefault(c.target, []).append(acting[c].permute(0, 2, 3, 1).flatten(2))
            rows = self._size_in(c) * c.objects
            right.setdefault(c.target, []).append(mixed.reshape(-1, rows, self._count_out(c)))
        for target in left:
            sums[target] = torch.baddbmm(sums[target], cat(left[target], 2), cat(right[target], 1))

    def _add_weighted_last(
        self,
        objects: Sequence[Tensor],
        acting: dict[Contraction, Tensor],
        sums: dict[int, Tensor],
        lead: Sequence[int],
    ) -> None:
        """Σ_nj P[c,n,j] (X_n v_j): the action first, weights on what comes of it."""
        acted: dict[int, list[Tensor]] = {target: [] for target in self.targets}
        for source in dict.fromkeys(c.source for c in self.last):
            on_it = [c for c in self.last if c.source == source and c in acting]
            if not on_it:
                continue
            maps = [acting[c].transpose(1, 2).flatten(1, 2) for c in on_it]
            products = torch.bmm(cat(maps, 1), objects[source])
            rows = products.split([self._size_out(c) * c.objects for c in on_it], 1)
            for c, product in zip(on_it, rows, strict=True):
                acted[c.target].append(
                    product.reshape(
                        product.shape[0], self._size_out(c), c.objects * self._count_in(c)
                    )
                )
        for k, (target, weight) in enumerate(zip(self.targets, self.mixing_last, strict=True)):
            if not acted[target]:
                continue
            z, scale = cat(acted[target], 2), self.scales_last[k]
            y = z @ (scale * weight)
            if self._recording:
                self._note_mixing(f"mixing_last.{k}", z, y, scale, lead)
            sums[target] = sums[target] + y

    def _note_mixing(
        self, parameter: str, v: Tensor, y: Tensor, scale: float, lead: Sequence[int]
    ) -> None:
        """Keep a product of objects with weights; ``lead`` is the shape that the rows had."""
        lead = tuple(lead) or (1,)  # one vector is one sample
        n, m = v.shape[-1], y.shape[-1]
        self.note(
            parameter,
            v,
            y,
            axes=("position",) * (len(lead) - 1) + ("component",),
            spread=lambda v: (scale * v).reshape(-1, *lead[1:], *v.shape[1:]),
            gather=lambda g: g.reshape(-1, *lead[1:], *g.shape[1:]),
            entries=torch.arange(n * m, device=y.device).reshape(n, m).mT,
        )


def _read_as_map(v: Tensor, c: Contraction) -> Tensor:
    """The factors of objects along the last axis in the order target, source."""
    if c.order is None:
        return v
    lead = v.ndim - 1
    spread = v.unflatten(-1, c.shape)
    read: Tensor = spread.permute(*range(lead), *(lead + i for i in c.order)).flatten(lead)
    return read


def contractions(
    into: Layout, out: Layout, targets: Collection[Rep] | None = None
) -> list[Contraction]:
    """All ways in which an input object, read as a map, takes an input object to an output."""
    found = []
    groups = {group for term in into.terms for group in term.rep.groups}
    preserve_lengths = all(group.is_orthogonal for group in groups)
    for i, target in enumerate(out.terms):
        for j, source in enumerate(into.terms):
            if targets is not None and target.rep not in targets:
                continue
            if source.rep == Scalar and preserve_lengths:
                continue
            wanted = without_duals(Product.of([target.rep, source.rep.T]))
            for k, term in enumerate(into.terms):
                order = _matching(term, wanted)
                if term.rep != Scalar and order is not None:
                    sizes = tuple(factor.size() for factor in _factors(term.rep))
                    in_place = order == tuple(range(len(order)))
                    objects = min(term.count, _own_dimension(term.rep))
                    found.append(Contraction(k, objects, j, i, sizes, None if in_place else order))
    return found


def _own_dimension(rep: Rep) -> int:
    """The dimension of the space that the group's own matrices act on."""
    return max((group.d for group in rep.groups), default=rep.size())


def _factors(rep: Rep) -> tuple[Rep, ...]:
    return rep.factors if isinstance(rep, Product) else (rep,)


def _matching(term: LayoutTerm, wanted: Rep) -> tuple[int, ...] | None:
    """For each factor of ``wanted`` the place of an equal one in ``term``; None if they differ."""
    if prod(factor.size() for factor in _factors(wanted)) != term.size:
        return None
    free = list(enumerate(_factors(term.rep)))
    order = []
    for factor in _factors(wanted):
        place = next((n for n, (_, other) in enumerate(free) if other == factor), None)
        if place is None:
            return None
        order.append(free.pop(place)[0])
    return tuple(order) if not free else None
