"""The cheap bilinear layer: objects that can be read as linear maps act on other objects."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.groups import Group
from isotropy.nn._module import bound
from isotropy.nn._parts import Parts, PartsModule
from isotropy.reps import Layout, Product, Rep, Scalar, Term, without_duals


GAIN = 0.3


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


class BiLinear(PartsModule):
    """y_c = Σ P[c,a,b] Reshape(v_a) v_b over all objects v_a that are maps T_b → T_c (thesis 2.6).

    An object of T_a acts on one of T_b to give one of T_c where T_a = T_c ⊗ T_b* up to the order
    of its factors. As many copies of T_a act as it has dimensions (more add nothing that the
    linear layer before cannot give); scalars do not act. The weights are learned, one for each
    pair of objects and output. Contractions come before weights, so the cost is that of a few
    matrix products and no matrix is ever built for each sample.

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

    def __init__(
        self,
        rep_in: Rep,
        rep_out: Rep,
        group: Group | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rep_in, rep_out = bound(rep_in, rep_out, group)
        super().__init__(rep_in, rep_out)
        if (rep_in + rep_out).is_complex:
            raise ValueError(
                f"expected real representations for a bilinear layer, got {rep_in} and {rep_out}"
            )
        into, out = self.layout_in, self.layout_out
        found = contractions(into, out)
        if not found:
            raise ValueError(
                f"expected objects in {rep_in} that map others of it to {rep_out}, got none"
            )
        self.terms_in, self.terms_out = into.terms, out.terms
        first = [c for c in found if self._size_in(c) <= self._size_out(c)]
        self.last = [c for c in found if self._size_in(c) > self._size_out(c)]
        # all that is made of one-dimensional objects is one product
        together = {c.source: [d for d in first if d.source == c.source] for c in first}
        self.first = [
            group
            for source, all_of_it in together.items()
            for group in ([all_of_it] if into.terms[source].size == 1 else [[c] for c in all_of_it])
        ]
        self.targets = sorted({c.target for c in self.last})
        kind: dict[str, Any] = {"device": device, "dtype": dtype}
        self.mixing_first = nn.ParameterList(
            torch.empty(self._count_in(group[0]), sum(map(self._mixed_width, group)), **kind)
            for group in self.first
        )
        self.mixing_last = nn.ParameterList(
            torch.empty(
                sum(c.objects * self._count_in(c) for c in self.last if c.target == target),
                out.terms[target].count,
                **kind,
            )
            for target in self.targets
        )
        self._set_scales()
        self.to(device, dtype)
        self.reset_parameters()

    def _size_in(self, c: Contraction) -> int:
        return self.terms_in[c.source].size

    def _size_out(self, c: Contraction) -> int:
        return self.terms_out[c.target].size

    def _count_in(self, c: Contraction) -> int:
        return self.terms_in[c.source].count

    def _count_out(self, c: Contraction) -> int:
        return self.terms_out[c.target].count

    def _mixed_width(self, c: Contraction) -> int:
        return c.objects * self._count_out(c)

    def _set_scales(self) -> None:
        fan_in = [0] * len(self.terms_out)
        for c in [c for group in self.first for c in group] + self.last:
            fan_in[c.target] += c.objects * self.terms_in[c.source].width
        for k, group in enumerate(self.first):
            widths = torch.tensor([self._mixed_width(c) for c in group])
            scale = torch.tensor([GAIN * fan_in[c.target] ** -0.5 for c in group])
            self.register_buffer(f"scale_first_{k}", scale.repeat_interleave(widths), persistent=False)
        for k, target in enumerate(self.targets):
            scale = torch.tensor(GAIN * fan_in[target] ** -0.5)
            self.register_buffer(f"scale_last_{k}", scale, persistent=False)

    def reset_parameters(self) -> None:
        """Draw new weights from the standard normal distribution."""
        for weight in self.parameters():
            nn.init.normal_(weight)

    def on_parts(self, parts: Parts, onto: Parts | None = None) -> Parts:
        """Apply the layer to the parts of its input, and add it to ``onto`` where given."""
        sums = dict(enumerate(onto or []))
        self._add_weighted_first(parts, sums)
        self._add_weighted_last(parts, sums)
        return [
            sums[i] if i in sums else parts[0].new_zeros(len(parts[0]), term.size, term.count)
            for i, term in enumerate(self.terms_out)
        ]

    def _add_weighted_first(self, parts: Parts, sums: dict[int, Tensor]) -> None:
        """Σ_n X_n (Σ_j P[c,n,j] v_j): weights on the objects acted on, then the action."""
        left: dict[int, list[Tensor]] = {}
        right: dict[int, list[Tensor]] = {}
        for k, (group, weight) in enumerate(zip(self.first, self.mixing_first, strict=True)):
            v = parts[group[0].source]
            mixed = v @ (weight * getattr(self, f"scale_first_{k}"))
            self._note(f"mixing_first.{k}", v, mixed, transposed=True)
            columns = mixed.split([self._mixed_width(c) for c in group], -1)
            for c, column in zip(group, columns, strict=True):
                rows = self._size_in(c) * c.objects
                left.setdefault(c.target, []).append(self._acting(c, parts).flatten(2))
                right.setdefault(c.target, []).append(column.reshape(-1, rows, self._count_out(c)))
        for target in left:
            acting, mixed = _cat(left[target], 2), _cat(right[target], 1)
            if target in sums:
                sums[target] = torch.baddbmm(sums[target], acting, mixed)
            else:
                sums[target] = torch.bmm(acting, mixed)

    def _add_weighted_last(self, parts: Parts, sums: dict[int, Tensor]) -> None:
        """Σ_nj P[c,n,j] (X_n v_j): the action first, weights on what comes of it."""
        acted: dict[int, list[Tensor]] = {target: [] for target in self.targets}
        for source in dict.fromkeys(c.source for c in self.last):
            on_it = [c for c in self.last if c.source == source]
            acting = [self._acting(c, parts).transpose(2, 3).flatten(1, 2) for c in on_it]
            products = torch.bmm(_cat(acting, 1), parts[source])
            rows = products.split([self._size_out(c) * c.objects for c in on_it], 1)
            for c, product in zip(on_it, rows, strict=True):
                acted[c.target].append(product.reshape(len(product), self._size_out(c), -1))
        for k, (target, weight) in enumerate(zip(self.targets, self.mixing_last, strict=True)):
            z = _cat(acted[target], 2)
            y = z @ (weight * getattr(self, f"scale_last_{k}"))
            self._note(f"mixing_last.{k}", z, y, transposed=True)
            sums[target] = sums[target] + y if target in sums else y

    def _acting(self, c: Contraction, parts: Parts) -> Tensor:
        """The acting objects as matrices, shape (rows, size of target, of source, objects)."""
        v = parts[c.acting][..., : c.objects]
        if c.order is not None:
            v = v.unflatten(1, c.shape)
            v = v.permute(0, *(1 + i for i in c.order), -1).flatten(1, -2)
        return v.unflatten(1, (self._size_out(c), self._size_in(c)))


def _cat(tensors: list[Tensor], dim: int) -> Tensor:
    return torch.cat(tensors, dim) if len(tensors) > 1 else tensors[0]


def contractions(into: Layout, out: Layout, acting: int = 3) -> list[Contraction]:
    """All ways in which an input object, read as a map, takes an input object to an output."""
    found = []
    for i, target in enumerate(out.terms):
        for j, source in enumerate(into.terms):
            wanted = without_duals(Product.of([target.rep, source.rep.T]))
            for k, term in enumerate(into.terms):
                order = _matching(term, wanted)
                if term.rep != Scalar and order is not None:
                    sizes = tuple(factor.size() for factor in _factors(term.rep))
                    in_place = order == tuple(range(len(order)))
                    objects = min(term.count, acting)
                    found.append(Contraction(k, objects, j, i, sizes, None if in_place else order))
    return found


def _factors(rep: Rep) -> tuple[Rep, ...]:
    return rep.factors if isinstance(rep, Product) else (rep,)


def _matching(term: Term, wanted: Rep) -> tuple[int, ...] | None:
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
