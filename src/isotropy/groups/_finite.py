"""Finite groups: order, membership, uniform draws, the list of all elements, and subgroups."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.groups._given import as_monomial
from isotropy.groups._group import Group
from isotropy.groups._maps import Dense, LinearMap, Monomial
from isotropy.groups._products import in_span

if TYPE_CHECKING:
    pass

LARGEST_LIST = 200_000


def order_of_discrete(group: Group) -> int | float:
    """The order of a group without Lie algebra; infinite where a generator's is."""
    if not group.discrete:
        return 1
    if group.is_monomial:
        return int(group.schreier_sims.order())
    if not group.by_value:
        raise ValueError("expected matrices or permutations to tell an order, got opaque operators")
    if any(map(_is_unbounded, group.discrete)):
        return math.inf
    return len(group.element_table)


def discrete_contains(group: Group, g: LinearMap) -> bool | None:
    """Whether a group without Lie algebra contains ``g``; None if it cannot be listed."""
    if group.is_monomial:
        monomial = as_monomial(g)
        if monomial is None or not group.discrete:
            return monomial is not None and monomial.is_identity
        if monomial.sign is not None and group.is_permutation:
            return False
        return bool(group.schreier_sims.contains(_as_sympy(monomial, group)))
    table = listed(group)
    return None if table is None else table.find(g) is not None


def listed(group: Group) -> Elements | None:
    """The list of a group's elements, or None where it has too many."""
    if not group.by_value:
        return None
    try:
        return group.element_table
    except ValueError:
        return None


def sample_monomial(group: Group, n: int, rng: torch.Generator) -> Monomial:
    """Uniform draws from a group of signed permutations.

    Every element is one product of transversal elements along the stabiliser chain, so a
    uniform choice at each level is a uniform element.
    """
    drawn = torch.arange(group.d if group.is_permutation else 2 * group.d).repeat(n, 1)
    for level in group.schreier_sims.basic_transversals:
        transversal = torch.tensor([element.array_form for element in level.values()])
        choice = torch.randint(len(transversal), (n,), generator=rng)
        drawn = drawn.gather(1, transversal[choice])
    return Monomial(drawn) if group.is_permutation else _from_double_cover(drawn)


def enumerate_elements(group: Group) -> LinearMap:
    """All elements of a finite group, by breadth-first products with the generators."""
    if group.algebra:
        raise ValueError(f"expected a finite group to list its elements, got {group}")
    monomial = group.is_monomial
    if not monomial and not all(map(_has_short_order, group.discrete)):
        raise ValueError(
            f"expected a finite group of at most {LARGEST_LIST} elements to list, got "
            f"{group.name:.80} with a generator of infinite or larger order"
        )
    dtype = torch.complex128 if group.is_complex else torch.float64
    generators = [h.monomial() if monomial else Dense(h.dense().to(dtype)) for h in group.discrete]
    identity = Monomial.identity(group.d)
    frontier: LinearMap = identity if monomial else Dense(identity.dense().to(dtype))
    frontier = _stack([frontier])
    seen = {_rows(frontier)[0].tobytes()}
    found = [frontier]
    while True:
        fresh: list[LinearMap] = []
        for h in generators:
            assert h is not None
            products = h @ frontier
            new = [i for i, row in enumerate(_rows(products)) if _is_new(seen, row.tobytes())]
            if new:
                fresh.append(products.select(torch.tensor(new)))
        if not fresh:
            return _stack(found)
        if len(seen) > LARGEST_LIST:
            raise ValueError(
                f"expected a finite group of at most {LARGEST_LIST} elements to list, "
                f"got more from {group.name}"
            )
        frontier = _stack(fresh)
        found.append(frontier)


class Elements:
    """The elements of a finite group in a fixed order, with a look-up."""

    def __init__(self, maps: LinearMap) -> None:
        self.maps = maps
        self._place = {row.tobytes(): i for i, row in enumerate(_rows(maps))}

    def __len__(self) -> int:
        return len(self.maps)

    def find(self, g: LinearMap) -> int | None:
        """The place of one element, or None if it is not there."""
        return self._place.get(_rows(_stack([self._same_kind(g)]))[0].tobytes())

    def left_multiplication(self, g: LinearMap) -> Monomial:
        """The permutation of the elements e ↦ g e: the regular representation of ``g``."""
        if g.batch:
            singles = [self.left_multiplication(g.select(i)).index for i in range(len(g))]
            return Monomial(torch.stack(singles))
        products = self._same_kind(g) @ self.maps
        places = [self._place.get(row.tobytes()) for row in _rows(products)]
        if any(place is None for place in places):
            raise ValueError("expected an element of the group, got a map outside it")
        return Monomial(torch.tensor(places))

    def _same_kind(self, g: LinearMap) -> LinearMap:
        if isinstance(self.maps, Monomial):
            monomial = as_monomial(g)
            if monomial is None:
                raise ValueError("expected an element of the group, got a map outside it")
            return monomial
        return Dense(g.dense().to(self.maps.dense().dtype))


def double_cover(m: Monomial) -> Tensor:
    """A signed permutation of n points as a plain one of 2n points."""
    negative = torch.zeros_like(m.index) if m.sign is None else (m.sign < 0).to(torch.int64)
    plus = m.index + m.size * negative
    minus = m.index + m.size * (1 - negative)
    return torch.cat([plus, minus], -1)


def _from_double_cover(index: Tensor) -> Monomial:
    size = index.shape[-1] // 2
    plus = index[..., :size]
    return Monomial(plus % size, torch.where(plus < size, 1, -1))


def sympy_group(group: Group) -> Any:
    """Sympy's permutation group of a group of permutations, on the double cover if signed."""
    from sympy.combinatorics import PermutationGroup

    monomials = [h.monomial() for h in group.discrete]
    return PermutationGroup([_as_sympy(m, group) for m in monomials if m is not None])


def _as_sympy(m: Monomial, group: Group) -> Any:
    from sympy.combinatorics import Permutation

    return Permutation((m.index if group.is_permutation else double_cover(m)).tolist())


def _is_unbounded(h: LinearMap) -> bool:
    """Whether the powers of h grow: an eigenvalue off the unit circle, or a Jordan block."""
    if h.is_monomial:
        return False
    eigenvalues, vectors = torch.linalg.eig(h.dense())
    off_circle = bool(((eigenvalues.abs() - 1).abs() > 1e-8).any())
    return off_circle or float(torch.linalg.cond(vectors)) > 1e8


def _has_short_order(h: LinearMap) -> bool:
    """Whether some power h^k, k up to the longest list, is the identity."""
    if h.is_monomial:
        return True
    if _is_unbounded(h):
        return False
    turns = torch.linalg.eigvals(h.dense()).angle() / (2 * math.pi)
    turns = turns * torch.arange(1, LARGEST_LIST + 1).unsqueeze(-1)
    return bool(((turns - turns.round()).abs() < 1e-9).all(-1).any())


def _rows(maps: LinearMap) -> np.ndarray[Any, Any]:
    """One row of bytes for each element of a batch; equal rows for equal elements."""
    if isinstance(maps, Monomial):
        return double_cover(maps).numpy()
    matrices = maps.dense()
    if matrices.is_complex():
        matrices = torch.view_as_real(matrices)
    # rounding error must not make two elements of one; adding zero removes -0.0
    return ((matrices.reshape(len(maps), -1) * 1e6).round() + 0.0).numpy()


def _is_new(seen: set[bytes], row: bytes) -> bool:
    if row in seen:
        return False
    seen.add(row)
    return True


def _stack(maps: list[LinearMap]) -> LinearMap:
    """One batch from maps or batches of one kind."""
    if all(isinstance(m, Monomial) for m in maps):
        index = torch.cat([m.index.reshape(-1, m.size) for m in maps if isinstance(m, Monomial)])
        signs = [
            torch.ones_like(m.index) if m.sign is None else m.sign
            for m in maps
            if isinstance(m, Monomial)
        ]
        return Monomial(index, torch.cat([s.reshape(-1, s.shape[-1]) for s in signs]))
    size = maps[0].size
    total = sum(m.batch.numel() for m in maps)
    require_memory(16 * total * size**2, f"a list of {total} matrices", "list a smaller group")
    return Dense(torch.cat([m.dense().reshape(-1, size, size) for m in maps]))


def require_subgroup(subgroup: Group, group: Group) -> None:
    """Refuse a ``subgroup`` that is seen not to be one.

    Every generator is tested where the group can tell its elements (permutations, finite and
    classical groups); a group that cannot tell is trusted.

    Raises:
        TypeError: If it is no group.
        ValueError: If the two act on different spaces, or a generator lies outside ``group``.

    Example:
        >>> from isotropy.groups import O, SO
        >>> require_subgroup(SO(3), O(3))
        >>> require_subgroup(O(3), SO(3))
        Traceback (most recent call last):
        ...
        ValueError: expected a subgroup of SO(3), got O(3): its discrete generator 0 is outside
    """
    if not isinstance(subgroup, Group):
        raise TypeError(f"expected a group, got {type(subgroup).__name__}")
    if subgroup.d != group.d:
        raise ValueError(
            f"expected a subgroup of {group}, which acts on {group.d} dimensions, "
            f"got {subgroup} on {subgroup.d}"
        )
    if subgroup == group:
        return
    problem = f"expected a subgroup of {group}, got {subgroup}: its"
    for i, h in enumerate(subgroup.discrete):
        if group.contains(h) is False:
            raise ValueError(f"{problem} discrete generator {i} is outside")
    for i, a in enumerate(subgroup.algebra):
        if a.by_value and group.by_value and not in_span(a, group.algebra):
            raise ValueError(f"{problem} Lie algebra element {i} is outside")
