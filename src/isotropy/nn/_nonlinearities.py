"""Nonlinearities that commute with a group: gated, by norm, and pointwise where it permutes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from isotropy.groups import Group, is_skew_hermitian, is_unitary
from isotropy.nn._module import floating_dtype
from isotropy.nn._parts import Parts, PartsModule
from isotropy.reps import Layout, Rep, Scalar, layout_of, without_duals


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


class GatedNonlinearity(PartsModule):
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

    def __init__(self, rep: Rep, group: Group | None = None) -> None:
        rep = rep if group is None else rep(group)
        if rep.is_complex:
            raise ValueError(f"expected a real representation for a gated nonlinearity, got {rep}")
        super().__init__(gated(rep), rep)
        self.gate_counts = _gate_counts(self.layout_out)
        self.gates = sum(self.gate_counts)
        places = {term.rep: i for i, term in enumerate(self.layout_in.terms)}
        self.sources = [places[term.rep] for term in self.layout_out.terms]
        self.scalars = places.get(Scalar)  # gates first, then the scalars of the output

    def on_parts(self, parts: Parts) -> Parts:
        if self.scalars is None or not self.gates:
            return [functional.silu(parts[source]) for source in self.sources]
        opened = parts[self.scalars].sigmoid()
        gates, own = opened[..., : self.gates], opened[..., self.gates :]
        out = []
        for source, gate in zip(self.sources, gates.split(self.gate_counts, -1), strict=True):
            if source == self.scalars:
                out.append(parts[source][..., self.gates :] * own)
            elif gate.shape[-1] == 0:
                out.append(functional.silu(parts[source]))
            else:
                out.append(parts[source] * gate)
        return out


class NormNonlinearity(PartsModule):
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
        self.offset_counts = _gate_counts(self.layout_in)
        kind = floating_dtype(rep, dtype).to_real()
        offsets = torch.zeros(sum(self.offset_counts), device=device, dtype=kind)
        self.offsets = nn.Parameter(offsets)
        self.to(device)

    def on_parts(self, parts: Parts) -> Parts:
        out = []
        for v, offset in zip(parts, self.offsets.split(self.offset_counts), strict=True):
            if offset.shape[-1] == 0:
                out.append(functional.silu(v))
                continue
            # the smallest normal number keeps the gradient at zero finite
            tiny = torch.finfo(v.dtype).tiny
            length = (v.abs().square().sum(-2, keepdim=True) + tiny).sqrt()
            out.append(v * (functional.silu(length + offset) / length))
        return out
