"""Wreath products: tensors of G ≀ H from tensors of G and orbits of H.

A tensor of order k over blocks of V_G has a block for every k-tuple of H's points. An element of
G acts in each block of V alone, so the entry at a tuple is a product over the distinct points of
the tuple: an invariant of G in the indices that share a point. H carries the entry at a tuple to
all tuples of its orbit, unchanged. For V → V this gives the maps within blocks, Hom_G(V, V) for
every orbit of H, and the maps across, Inv(V) ⊗ Inv(V)* for every orbit of pairs. (The rule of
thesis A.1.7 holds for transitive permutation representations only, and counts one map twice.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from isotropy.bases._orbits import solve_orbits
from isotropy.bases._orthonormal_basis import Basis
from isotropy.bases._product_rules import PartOf
from isotropy.groups._products import Wreath
from isotropy.reps import Product, Rep, T
from isotropy.reps._leaves import Vector


@dataclass(frozen=True)
class Pattern:
    """All tuples of points with the same equalities among their entries.

    Attributes:
        tuples: The flat numbers of the tuples, shape (t,).
        orbit: The orbit of each, numbered within the pattern, shape (t,).
        counts: The length of each orbit.
        basis: The invariants of G at one tuple.
    """

    tuples: Tensor
    orbit: Tensor
    counts: Tensor
    basis: Basis

    @property
    def rank(self) -> int:
        """The number of basis vectors of the pattern."""
        return len(self.counts) * self.basis.rank


class WreathBasis(Basis):
    """A basis put together from invariants of G, one for every orbit of H on tuples."""

    def __init__(self, rep: Rep, group: Wreath, order: int, patterns: list[Pattern]) -> None:
        self.rep = rep
        self.points, self.block, self.order = group.outer.d, group.inner.d, order
        self.patterns = patterns
        self.rank = sum(pattern.rank for pattern in patterns)
        self.method = f"wreath({'+'.join(dict.fromkeys(p.basis.method for p in patterns))})"

    def _combine(self, beta: Tensor) -> Tensor:
        lead = beta.shape[:-1]
        width = self.block**self.order
        dtype = torch.promote_types(beta.dtype, torch.complex32) if self._complex else beta.dtype
        out = torch.zeros(*lead, self.points**self.order, width, dtype=dtype, device=beta.device)
        start = 0
        for p in self.patterns:
            part = beta[..., start : start + p.rank].reshape(*lead, len(p.counts), p.basis.rank)
            start += p.rank
            if p.rank:
                lengths = p.counts.double().sqrt().to(beta.device, beta.dtype)
                entries = p.basis.combine(part / lengths.unsqueeze(-1))
                at = p.tuples.to(beta.device)
                out = out.index_copy(-2, at, entries[..., p.orbit.to(beta.device), :])
        return self._interleave(out, lead)

    def _coordinates(self, v: Tensor) -> Tensor:
        lead = v.shape[:-1]
        x = self._separate(v, lead)
        parts = []
        for p in self.patterns:
            sums = x.new_zeros(*lead, len(p.counts), x.shape[-1])
            entries = x[..., p.tuples.to(v.device), :]
            sums = sums.index_add(-2, p.orbit.to(v.device), entries)
            lengths = p.counts.double().sqrt().to(v.device, v.dtype)
            parts.append(p.basis.coordinates(sums / lengths.unsqueeze(-1)).reshape(*lead, p.rank))
        return torch.cat(parts, -1)

    @property
    def _complex(self) -> bool:
        return self.rep.is_complex

    def _interleave(self, x: Tensor, lead: torch.Size) -> Tensor:
        """From (points^k, block^k) to (points, block) for each index, flattened."""
        k, n = self.order, len(lead)
        x = x.reshape(*lead, *[self.points] * k, *[self.block] * k)
        order = [n + j for i in range(k) for j in (i, k + i)]
        return x.permute(*range(n), *order).reshape(*lead, self.size)

    def _separate(self, v: Tensor, lead: torch.Size) -> Tensor:
        """The inverse of ``_interleave``."""
        k, n = self.order, len(lead)
        x = v.reshape(*lead, *[self.points, self.block] * k)
        order = [n + 2 * i for i in range(k)] + [n + 2 * i + 1 for i in range(k)]
        x = x.permute(*range(n), *order)
        return x.reshape(*lead, self.points**k, self.block**k)


def is_solvable_by_wreath_rule(rep: Rep) -> bool:
    """Whether a representation is a tensor power of V and V* of one wreath product."""
    factors = rep.factors if isinstance(rep, Product) else (rep,)
    return len(rep.groups) == 1 and isinstance(rep.groups[0], Wreath) and all(
        isinstance(factor, Vector) for factor in factors
    )  # fmt: skip


def solve_wreath(rep: Rep, solve: Callable[[Rep], Basis]) -> WreathBasis:
    """The basis of a tensor representation of a wreath product."""
    group = rep.groups[0]
    factors = rep.factors if isinstance(rep, Product) else (rep,)
    assert isinstance(group, Wreath)
    order, points = len(factors), group.outer.d
    labels = solve_orbits(T(order)(group.outer)).labels
    by_pattern: dict[tuple[int, ...], list[int]] = {}
    for number, entries in enumerate(product(range(points), repeat=order)):
        first = {point: i for i, point in reversed(list(enumerate(entries)))}
        by_pattern.setdefault(tuple(first[point] for point in entries), []).append(number)
    patterns = []
    for pattern, numbers in by_pattern.items():
        tuples = torch.tensor(numbers)
        kept = torch.unique(labels[tuples], return_inverse=True, return_counts=True)
        together = Product.of(
            [
                Vector(PartOf(group.inner, group, part), dual=_is_dual(factor))
                for part, factor in zip(pattern, factors, strict=True)
            ]
        )
        patterns.append(Pattern(tuples, kept[1], kept[2], solve(together)))
    return WreathBasis(rep, group, order, patterns)


def _is_dual(factor: Rep) -> bool:
    return isinstance(factor, Vector) and factor.dual
