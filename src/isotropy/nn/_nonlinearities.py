"""Nonlinearities that commute with a group: gated, by norm, and pointwise where it permutes."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.groups import Group
from isotropy.groups._sampling import is_skew_hermitian, is_unitary
from isotropy.nn._module import EquivariantModule, floating_dtype
from isotropy.reps import Rep, Scalar
from isotropy.reps._layout import Layout, LayoutTerm, layout_of, without_duals


def gated(rep: Rep) -> Rep:
    """The space that a gated nonlinearity needs: a scalar gate for each object, then ``rep``.

    Scalars and representations by permutations need no gates: their nonlinearity is pointwise.

    Args:
        rep: The space after the nonlinearity, bound to its group.

    Example:
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> print(gated((4 * Scalar + 2 * V + V * V)(O(3))))
        (7*Scalar+2*V+T(2))(O(3))
    """
    gates = sum(_gate_counts(layout_of(without_duals(rep))))
    return gates * Scalar + rep if gates else rep


def _gate_counts(layout: Layout) -> list[int]:
    """How many gates each term needs."""
    return [0 if is_permutation(term.rep) else term.count for term in layout.terms]


def is_permutation(rep: Rep) -> bool:
    """Whether every element of the group acts by a permutation, so that pointwise maps commute."""
    algebra, discrete = rep.generators()
    if algebra and (rep.size() > 1 or any(bool(a.dense().any()) for a in algebra)):
        return False
    monomials = [h.monomial() for h in discrete]
    return all(m is not None and (m.sign is None or bool((m.sign == 1).all())) for m in monomials)


class GatedNonlinearity(EquivariantModule):
    """v_a σ(s_a) for every object v_a and its scalar gate s_a (thesis 2.6).

    For scalars and for representations by permutations the gate is the value itself, entry by
    entry, which makes it Swish. The input is ``gated(rep)``, gates first.

    Args:
        rep: The space of the outputs.
        group: The group; not needed where ``rep`` has its own.

    Raises:
        ValueError: If the representation is complex: the sign of a gate would have no meaning.

    Example:
        >>> import torch
        >>> from isotropy.groups import O
        >>> from isotropy.reps import Scalar, V
        >>> swish = GatedNonlinearity(2 * Scalar + V, O(3))
        >>> swish(torch.randn(7, 6)).shape
        torch.Size([7, 5])
    """

    terms: tuple[LayoutTerm, ...]
    order: Tensor | None
    back: Tensor | None

    def __init__(self, rep: Rep, group: Group | None = None) -> None:
        rep = rep if group is None else rep(group)
        if rep.is_complex:
            raise ValueError(f"expected a real representation for a gated nonlinearity, got {rep}")
        super().__init__(gated(rep), rep)
        layout = _set_layout(self, rep)
        self.gate_counts = _gate_counts(layout)
        self.gates = sum(self.gate_counts)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it along the last axis, shape (*, in_features) to (*, out_features)."""
        self._require_width(x)
        gates, values = x.split([self.gates, self.out_features], -1)
        opened = gates.sigmoid().split(self.gate_counts, -1)
        parts = []
        for v, gate, term in zip(_split(self, values), opened, self.terms, strict=True):
            if gate.shape[-1] == 0:
                parts.append(functional.silu(v))
            else:
                objects = v.unflatten(-1, (term.count, term.size))
                parts.append((objects * gate.unsqueeze(-1)).flatten(-2))
        return _joined(self, parts)


class NormNonlinearity(EquivariantModule):
    """v_a swish(‖v_a‖ + b_a)/‖v_a‖: rescales every object by its own length.

    Scalars and representations by permutations go through Swish entry by entry. Each object has
    a learned offset b. Alone it cannot connect tensors of even and odd order (thesis A.1.4).

    Args:
        rep: The space of inputs and outputs.
        group: The group; not needed where ``rep`` has its own.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If the group does not preserve lengths.

    Example:
        >>> import torch
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, V
        >>> NormNonlinearity(Scalar + 2 * V, SO(3))(torch.randn(4, 7)).shape
        torch.Size([4, 7])
    """

    terms: tuple[LayoutTerm, ...]
    order: Tensor | None
    back: Tensor | None

    def __init__(
        self,
        rep: Rep,
        group: Group | None = None,
        *,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        rep = rep if group is None else rep(group)
        super().__init__(rep, rep)
        algebra, discrete = rep.generators()
        if not (all(map(is_skew_hermitian, algebra)) and all(map(is_unitary, discrete))):
            raise ValueError(
                "expected a representation that preserves lengths for a norm nonlinearity, "
                f"got {rep}"
            )
        layout = _set_layout(self, rep)
        # complex numbers have a length, but no sign for Swish to look at
        counts = [term.count for term in layout.terms] if rep.is_complex else _gate_counts(layout)
        self.offset_counts = counts
        self._learned = [count for count in self.offset_counts if count]
        kind = floating_dtype(rep, dtype).to_real()
        offsets = torch.zeros(sum(self.offset_counts), device=device, dtype=kind)
        self.offsets = nn.Parameter(offsets) if len(offsets) else None  # none to learn
        self.to(device)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it along the last axis, shape (*, in_features) to the same."""
        self._require_width(x)
        own = iter(() if self.offsets is None else self.offsets.split(self._learned))
        parts = []
        for i, (v, term) in enumerate(zip(_split(self, x), self.terms, strict=True)):
            if self.offset_counts[i] == 0:
                parts.append(functional.silu(v))
                continue
            offset = next(own)
            objects = v.unflatten(-1, (term.count, term.size))
            # the smallest normal number keeps the gradient at zero finite
            tiny = torch.finfo(objects.dtype).tiny
            length = (objects.abs().square().sum(-1, keepdim=True) + tiny).sqrt()
            shifted = length + offset.unsqueeze(-1)
            if self._recording:
                self._note_offset(i, shifted)
            parts.append((objects * (functional.silu(shifted) / length)).flatten(-2))
        return _joined(self, parts)

    def _note_offset(self, i: int, shifted: Tensor) -> None:
        """Keep the addition of the offsets of term i, shape (*, copies, 1)."""
        lead = tuple(shifted.shape[:-2]) or (1,)  # one vector is one sample
        count, start = self.offset_counts[i], sum(self.offset_counts[:i])
        self.note(
            "offsets",
            shifted.new_ones(()).expand(*lead, 1),
            shifted,
            axes=("position",) * (len(lead) - 1),
            gather=lambda g: g.reshape(-1, *lead[1:], count),
            entries=torch.arange(start, start + count, device=shifted.device).unsqueeze(-1),
            part=i,
        )


def _set_layout(module: GatedNonlinearity | NormNonlinearity, rep: Rep) -> Layout:
    layout = layout_of(without_duals(rep))
    module.terms = layout.terms
    order = layout.order
    module._keep("order", order)
    module._keep("back", None if order is None else order.argsort())
    return layout


def _split(module: GatedNonlinearity | NormNonlinearity, x: Tensor) -> tuple[Tensor, ...]:
    """The columns of each term; one split, whose gradient is one concatenation."""
    if module.order is not None:
        x = x.index_select(-1, module.order)
    columns: tuple[Tensor, ...] = x.split([term.width for term in module.terms], -1)
    return columns


def _joined(module: GatedNonlinearity | NormNonlinearity, parts: list[Tensor]) -> Tensor:
    x = torch.cat(parts, -1) if len(parts) > 1 else parts[0]
    return x if module.back is None else x.index_select(-1, module.back)
