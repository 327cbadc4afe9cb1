"""Tensors of the classical groups in closed form, by the first fundamental theorems.

All invariant tensors are combinations of contraction patterns (Weyl, The Classical Groups,
1939): of the metric over perfect matchings for O(n) and the Lorentz groups, of the symplectic
form for Sp(n), with one Levi-Civita tensor ε more for the orientation-preserving groups; of
Kronecker deltas between upper and lower indices for GL(n) and U(n), with ε on the surplus
indices for SL(n) and SU(n). No equation is solved, and nothing of the size n^k is touched
before a vector is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from math import comb, factorial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.bases._contractions import (
    Form,
    Patterns,
    independent,
    nonzero_entries,
    number_of_splits,
    splits,
)
from isotropy.bases._orthonormal_basis import Basis
from isotropy.groups import GL, O11, O13, SL, SO, SO13, SU, Group, O, SO11p, SO13p, Sp, U
from isotropy.reps import Product, Rep
from isotropy.reps._leaves import Determinant, Leaf, Vector

_WITH_METRIC = (O, SO, O13, SO13, SO13p, O11, SO11p, Sp)
_WITHOUT_METRIC = (GL, SL, U, SU)
_DETERMINANT_ONE = (SO, SO13, SO13p, SO11p, Sp, SL, SU)


@dataclass(frozen=True)
class _TensorType:
    """What the patterns depend on.

    Attributes:
        group: The group; None for scalars of no group.
        duals: Whether the index in each slot is a lower one.
        determinants: The power of det g that the tensors are multiplied by.
    """

    group: Group | None
    duals: tuple[bool, ...]
    determinants: int

    @cached_property
    def form(self) -> Form:
        """The form on pairs of upper indices; 1 where only upper and lower are paired."""
        if self.group is None:
            return Form.diagonal(1)
        if isinstance(self.group, Sp):
            return Form.symplectic(self.group.n)
        if isinstance(self.group, (O13, SO13, SO13p, O11, SO11p)):
            return Form.diagonal(1, self.group.d - 1)
        return Form.diagonal(self.group.d)

    @property
    def determinant_one(self) -> bool:
        """Whether det g = 1 for the whole group."""
        return isinstance(self.group, _DETERMINANT_ONE)


class _Kind(NamedTuple):
    """The patterns with one number of ε: how many they are, and where their legs sit."""

    epsilons: int
    number: int
    legs: Iterator[tuple[int, ...]]


def _kinds(tensors: _TensorType) -> Iterator[_Kind]:
    """The kinds of pattern that span the invariants; ρ(g) multiplies an upper ε by det g."""
    if isinstance(tensors.group, _WITHOUT_METRIC):
        return _kinds_without_metric(tensors)
    return _kinds_with_metric(tensors)


def _kinds_with_metric(tensors: _TensorType) -> Iterator[_Kind]:
    """Matchings, and matchings with one ε: the product of two ε is a sum of matchings.

    The two kinds are orthogonal, since a reflection of one coordinate tells them apart.
    """
    d, slots = tensors.form.d, range(len(tensors.duals))
    even = tensors.determinants % 2 == 0
    if len(slots) % 2 == 0 and (even or tensors.determinant_one):
        yield _Kind(0, number_of_splits(len(slots), 2), splits(slots, 2))
    left = len(slots) - d
    if isinstance(tensors.group, Sp) or left < 0 or left % 2:
        return  # for Sp(n), ε is itself a sum of matchings
    if not even or tensors.determinant_one:
        number = comb(len(slots), d) * number_of_splits(left, 2)
        yield _Kind(1, number, _one_epsilon(slots, d))


def _kinds_without_metric(tensors: _TensorType) -> Iterator[_Kind]:
    """Pairs of upper and lower indices, the surplus in ε: an upper and a lower ε make pairs."""
    d, slots = tensors.form.d, range(len(tensors.duals))
    lower = [slot for slot in slots if tensors.duals[slot]]
    upper = [slot for slot in slots if not tensors.duals[slot]]
    epsilons, left = divmod(len(upper) - len(lower), d)
    if left == 0 and (tensors.determinant_one or epsilons + tensors.determinants == 0):
        few, many = sorted((lower, upper), key=len)
        surplus = len(many) - len(few)
        number = comb(len(many), surplus) * factorial(len(few)) * number_of_splits(surplus, d)
        yield _Kind(abs(epsilons), number, _surplus(few, many, d))


def _one_epsilon(slots: range, d: int) -> Iterator[tuple[int, ...]]:
    """A matching of all slots but d, then those."""
    for legs in combinations(slots, d):
        for pairs in splits([slot for slot in slots if slot not in legs], 2):
            yield (*pairs, *legs)


def _surplus(few: list[int], many: list[int], d: int) -> Iterator[tuple[int, ...]]:
    """Pairs of the few with as many of the many, then the surplus in sets of d."""
    for taken in permutations(many, len(few)):
        pairs = [slot for pair in zip(few, taken, strict=True) for slot in pair]
        for legs in splits([slot for slot in many if slot not in taken], d):
            yield (*pairs, *legs)


def _tensor_type(rep: Rep) -> _TensorType | None:
    """What a representation is made of, or None if it is none of ours."""
    factors = rep.factors if isinstance(rep, Product) else (rep,)
    leaves = [leaf for leaf in factors if isinstance(leaf, Leaf)]
    if len(leaves) < len(factors) or any(type(f) not in (Vector, Determinant) for f in leaves):
        return None
    group = leaves[0].leaf_group if leaves else None
    for leaf in leaves:
        other = leaf.leaf_group
        if other is None or type(other) not in (*_WITH_METRIC, *_WITHOUT_METRIC):
            return None
        # family and dimension tell them apart; to compare by value would list all generators
        if group is None or (type(other), other.d) != (type(group), group.d):
            return None
    return _TensorType(
        group,
        tuple(leaf.dual for leaf in leaves if isinstance(leaf, Vector)),
        sum(-1 if leaf.dual else 1 for leaf in leaves if isinstance(leaf, Determinant)),
    )


def contraction_patterns(rep: Rep) -> list[Patterns]:
    """All contraction patterns of a representation, kind by kind; they span its invariants."""
    tensors = _require_tensor_type(rep)
    found = []
    for kind in _kinds(tensors):
        require_memory(
            48 * kind.number**2,
            # to name the group would list its generators
            f"the Gram matrix of {kind.number} contraction patterns",
            "use tensors of lower order",
        )
        slots = np.array(list(kind.legs), dtype=np.int64)
        slots = slots.reshape(kind.number, len(tensors.duals))
        found.append(Patterns(tensors.form, kind.epsilons, slots))
    return found


def _require_tensor_type(rep: Rep) -> _TensorType:
    tensors = _tensor_type(rep)
    if tensors is None:
        raise ValueError(
            "expected a product of V, V.T and Pseudoscalar of one classical group "
            f"(O, SO, Sp, GL, SL, U, SU or a Lorentz group), got {rep}"
        )
    return tensors


class ContractionBasis(Basis):
    """An orthonormal basis kept as contraction patterns P and small matrices: Q = P R.

    The patterns are the first independent ones in lexicographic order, and R = (PᵀP)^(-1/2),
    so that the answer is the same on every run. A pattern is kept as the places and signs of
    its few entries, found when they are first needed.
    """

    def __init__(self, rep: Rep, kinds: list[tuple[Patterns, npt.NDArray[np.float64]]]) -> None:
        self.rep = rep
        self.method = "invariant-theory"
        self.patterns = [patterns for patterns, _ in kinds]
        self.roots = [torch.from_numpy(root) for _, root in kinds]
        self.rank = sum(map(len, self.patterns))
        self._duals = _require_tensor_type(rep).duals  # ``of`` may rename the representation

    @cached_property
    def _entries(self) -> list[tuple[Tensor, Tensor]]:
        """The places and signs of the entries of each pattern, shape (patterns, entries)."""
        total = sum(len(p) * p.entries for p in self.patterns)
        longest = max((p.entries for p in self.patterns), default=0)
        require_memory(
            8 * (self.size + 4 * total + 4 * len(self._duals) * longest),
            f"a tensor of {self.size} entries",
            "use .rank, which needs no vector",
        )
        found = [nonzero_entries(patterns, self._duals) for patterns in self.patterns]
        return [(torch.from_numpy(at), torch.from_numpy(sign).char()) for at, sign in found]

    def _own_dtype(self, x: Tensor) -> torch.dtype:
        return torch.promote_types(x.dtype, torch.complex32) if self.dtype.is_complex else x.dtype

    def _combine(self, beta: Tensor) -> Tensor:
        beta = beta.to(self._own_dtype(beta))
        batch = beta.shape[:-1]
        entries = self._entries  # refuses before the tensor is made
        v = beta.new_zeros(*batch, self.size)
        parts = beta.split([len(patterns) for patterns in self.patterns], dim=-1)
        for part, root, (at, sign) in zip(parts, self.roots, entries, strict=True):
            weights = part @ root.to(beta.device, beta.dtype)
            values = weights.unsqueeze(-1) * sign.to(beta.device, beta.dtype)
            places = at.to(beta.device).reshape(-1).expand(*batch, -1)
            v = v.scatter_add(-1, places, values.flatten(-2))
        return v

    def _coordinates(self, v: Tensor) -> Tensor:
        v = v.to(self._own_dtype(v))
        batch = v.shape[:-1]
        parts = [v.new_zeros(*batch, 0)]
        for root, (at, sign) in zip(self.roots, self._entries, strict=True):
            places = at.to(v.device).reshape(-1).expand(*batch, -1)
            values = v.gather(-1, places).unflatten(-1, at.shape) * sign.to(v.device, v.dtype)
            parts.append(values.sum(-1) @ root.to(v.device, v.dtype))
        return torch.cat(parts, dim=-1)


def solve_invariant_theory(rep: Rep) -> ContractionBasis:
    """The basis of the invariant tensors of a classical group, in closed form.

    Raises:
        ValueError: If it is another representation, or memory does not suffice.

    Example:
        >>> from isotropy.groups import O, SO
        >>> from isotropy.reps import T
        >>> solve_invariant_theory(T(3)(SO(3))).dense().squeeze().nonzero().squeeze()  # ε
        tensor([ 5,  7, 11, 15, 19, 21])
        >>> solve_invariant_theory(T(8)(O(7)))
        ContractionBasis(T(8)(O(7)), rank=105, method='invariant-theory')
    """
    return ContractionBasis(rep, [independent(kind) for kind in contraction_patterns(rep)])


def invariant_rank(rep: Rep) -> int:
    """The number of independent invariant tensors, whatever their size."""
    return solve_invariant_theory(rep).rank
