"""Product rules: what is symmetric under a product follows from its parts.

V of ``G*H`` is V_G ⊗ V_H, of ``G+H`` it is V_G ⊕ V_H, of an embedding V_G and scalars; written
so, sums split into blocks, and a block with factors of several groups is a Kronecker product:
Inv(A_G ⊗ B_H) = Inv_G(A) ⊗ Inv_H(B).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from math import prod

import torch
from torch import Tensor

from isotropy.bases._orbits import OrbitBasis
from isotropy.bases._orthonormal_basis import Basis
from isotropy.groups import DirectProduct, Group, LinearMap
from isotropy.groups._maps import digest
from isotropy.groups._placements import Embedding
from isotropy.groups._products import SideBySide
from isotropy.reps import Product, Rep, Scalar, Sum
from isotropy.reps._leaves import Determinant, Vector


class PartOf(Group):
    """A group as one part of a larger one, distinct from equal parts by its place."""

    inner: Group
    whole: Group
    place: int

    def __init__(self, inner: Group, whole: Group, place: int) -> None:
        self._freeze(inner.d, inner=inner, whole=whole, place=place)

    def _discrete(self) -> Iterable[LinearMap]:
        return self.inner.discrete

    def _algebra(self) -> Iterable[LinearMap]:
        return self.inner.algebra

    @cached_property
    def value(self) -> bytes:
        """The value of the part and its place in the whole."""
        return digest(self.inner.value, self.whole.value, str(self.place).encode())

    def __str__(self) -> str:
        return str(self.inner)


class KronBasis(Basis):
    """The Kronecker product of bases, each on its own axes of the tensor.

    Args:
        rep: The representation; its factors are the axes.
        sizes: The size of each axis.
        parts: For each group: the axes that belong to it, and its basis.
    """

    def __init__(
        self, rep: Rep, sizes: list[int], parts: list[tuple[tuple[int, ...], Basis]]
    ) -> None:
        self.rep = rep
        self.sizes = sizes
        self.parts = parts
        self.rank = prod(basis.rank for _, basis in parts)
        self.method = "*".join(dict.fromkeys(basis.method for _, basis in parts))

    @property
    def _order(self) -> list[int]:
        """The axes in the order of the parts."""
        return [axis for axes, _ in self.parts for axis in axes]

    def _combine(self, beta: Tensor) -> Tensor:
        lead = beta.shape[:-1]
        x = beta.reshape(*lead, *(basis.rank for _, basis in self.parts))
        for i, (_, basis) in enumerate(self.parts):
            axis = len(lead) + i
            x = basis.combine(x.movedim(axis, -1)).movedim(-1, axis)
        return self._from_parts(x, lead)

    def _coordinates(self, v: Tensor) -> Tensor:
        lead = v.shape[:-1]
        x = v.reshape(*lead, *self.sizes)
        x = x.permute(*range(len(lead)), *(len(lead) + axis for axis in self._order))
        x = x.reshape(*lead, *(basis.size for _, basis in self.parts))
        for i, (_, basis) in enumerate(self.parts):
            axis = len(lead) + i
            x = basis.coordinates(x.movedim(axis, -1)).movedim(-1, axis)
        return x.reshape(*lead, self.rank)

    def _from_parts(self, x: Tensor, lead: torch.Size) -> Tensor:
        """From one axis for each part to one for each factor, flattened."""
        order = self._order
        x = x.reshape(*lead, *(self.sizes[axis] for axis in order))
        back = sorted(range(len(order)), key=order.__getitem__)
        x = x.permute(*range(len(lead)), *(len(lead) + at for at in back))
        return x.reshape(*lead, self.size)

    def orbits(self) -> OrbitBasis | None:
        """Pairs of orbits, where every part is a label array."""
        labels, signs = torch.zeros((), dtype=torch.int64), torch.ones((), dtype=torch.int8)
        for _, basis in self.parts:
            part = basis.orbits()
            if part is None:
                return None
            own = torch.ones_like(part.labels) if part.signs is None else part.signs
            both = labels.unsqueeze(-1) * part.rank + part.labels
            vanishing = (labels.unsqueeze(-1) < 0) | (part.labels < 0)
            labels = torch.where(vanishing, -1, both)
            signs = signs.unsqueeze(-1) * own
        empty = torch.Size()
        labels, signs = self._from_parts(labels, empty), self._from_parts(signs, empty)
        return OrbitBasis(self.rep, labels, None if bool((signs == 1).all()) else signs)


def solve_kronecker(rep: Product, solve: Callable[[Rep], Basis]) -> KronBasis:
    """The basis of a product of factors of several groups, each group solved alone."""
    axes: dict[Group | None, list[int]] = {}
    for axis, factor in enumerate(rep.factors):
        axes.setdefault(factor.group, []).append(axis)
    parts = [
        (tuple(places), solve(Product.of([rep.factors[axis] for axis in places])))
        for places in axes.values()
    ]
    return KronBasis(rep, [factor.size() for factor in rep.factors], parts)


def is_kronecker(rep: Rep) -> bool:
    """Whether a representation is a product of factors of several groups."""
    return (
        isinstance(rep, Product)
        and len(rep.groups) > 1
        and all(factor.group is None or factor.group in rep.groups for factor in rep.factors)
    )


def expanded(rep: Rep) -> Rep:
    """The same action with V and Pseudoscalar of compound groups written through their parts.

    Returned as it is where some leaf cannot be rewritten.
    """
    wholes = [g for g in rep.groups if isinstance(g, DirectProduct)]
    parts = {
        factor: PartOf(factor, whole, i)
        for whole in wholes
        for i, factor in enumerate(whole.factors)
        if whole.factors.count(factor) == 1
    }
    try:
        # a leaf may belong to one factor of a product that another leaf belongs to
        return _expand(rep._rebind(parts))
    except _CannotExpandError:
        return rep


def without_place(rep: Rep) -> Rep:
    """The same action, of the part alone, where all factors belong to one part."""
    group = rep.groups[0] if len(rep.groups) == 1 else None
    return rep._rebind({group: group.inner}) if isinstance(group, PartOf) else rep


class _CannotExpandError(Exception):
    """A leaf of a compound group has no expression through the parts."""


def _expand(rep: Rep) -> Rep:
    if isinstance(rep, Product):
        return Product.of([_expand(factor) for factor in rep.factors])
    if isinstance(rep, Sum):
        return Sum.of([(count, _expand(term)) for count, term in rep.terms])
    group = rep.groups[0] if len(rep.groups) == 1 else None
    bare = group.inner if isinstance(group, PartOf) else group
    if group is None or not isinstance(bare, DirectProduct | SideBySide | Embedding):
        return rep
    if isinstance(rep, Vector):
        return _expand(_vector_through_parts(rep, group, bare))
    if isinstance(rep, Determinant):
        return _expand(_determinant_through_parts(rep, group, bare))
    raise _CannotExpandError


def _vector_through_parts(rep: Vector, whole: Group, bare: Group) -> Rep:
    if isinstance(bare, DirectProduct):
        return Product.of(
            [Vector(PartOf(g, whole, i), dual=rep.dual) for i, g in enumerate(bare.factors)]
        )
    if isinstance(bare, SideBySide):
        return Sum.of(
            [(1, Vector(PartOf(g, whole, i), dual=rep.dual)) for i, g in enumerate(bare.terms)]
        )
    assert isinstance(bare, Embedding)
    after = bare.d - bare.at - bare.inner.d
    inner = Vector(PartOf(bare.inner, whole, 0), dual=rep.dual)
    terms: list[tuple[int, Rep]] = [(bare.at, Scalar), (1, inner), (after, Scalar)]
    return Sum.of([(count, term) for count, term in terms if count])


def _determinant_through_parts(rep: Determinant, whole: Group, bare: Group) -> Rep:
    if isinstance(bare, Embedding):
        return Determinant(PartOf(bare.inner, whole, 0), dual=rep.dual)
    if isinstance(bare, SideBySide):
        return Product.of(
            [Determinant(PartOf(g, whole, i), dual=rep.dual) for i, g in enumerate(bare.terms)]
        )
    assert isinstance(bare, DirectProduct)
    # det(g ⊗ h) = det(g)^dim(h) · det(h)^dim(g)
    factors: list[Rep] = []
    for i, g in enumerate(bare.factors):
        power = bare.d // g.d
        power = power % 2 if g.is_orthogonal else power
        factors += [Determinant(PartOf(g, whole, i), dual=rep.dual)] * power
    return Product.of(factors)
