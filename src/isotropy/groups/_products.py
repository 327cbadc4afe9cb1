"""Groups from groups: products, sums, semidirect and wreath products, embeddings, conjugates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import torch

from isotropy.groups._compound import BlockDiagonal, Kron, KronSum
from isotropy.groups._group import Group
from isotropy.groups._maps import Dense, LinearMap, Monomial, Zero


class DirectProduct(Group):
    """G × H × …, acting on V_G ⊗ V_H ⊗ …: what ``G * H`` means.

    Elements keep their factors apart, as Kronecker products.
    """

    def __init__(self, *factors: Group) -> None:
        flat = tuple(
            part
            for factor in factors
            for part in (factor.factors if isinstance(factor, DirectProduct) else (factor,))
        )
        if len(flat) < 2:
            raise ValueError(f"expected at least two groups for a product, got {len(flat)}")
        self._freeze(math.prod(g.d for g in flat), factors=flat)

    factors: tuple[Group, ...]

    def _discrete(self) -> Iterator[LinearMap]:
        for at, factor in enumerate(self.factors):
            for h in factor.discrete:
                yield Kron(self._at(at, h, Monomial.identity))

    def _algebra(self) -> Iterator[LinearMap]:
        for at, factor in enumerate(self.factors):
            for a in factor.algebra:
                yield KronSum(self._at(at, a, Zero))

    def _at(self, at: int, part: LinearMap, rest: Any) -> tuple[LinearMap, ...]:
        return tuple(part if i == at else rest(g.d) for i, g in enumerate(self.factors))

    @property
    def is_compact(self) -> bool:
        """Whether all factors are."""
        return all(g.is_compact for g in self.factors)

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return Kron(tuple(g._sample(n, rng) for g in self.factors))

    def _order(self) -> int | float:
        # (-1) ⊗ (-1) = 1: the product of matrices can be smaller than the product of groups
        if all(g.is_permutation for g in self.factors):
            return math.prod(g._order() for g in self.factors)
        return super()._order()

    def __str__(self) -> str:
        return "*".join(f"({g})" if isinstance(g, SideBySide) else str(g) for g in self.factors)

    def __reduce__(self) -> tuple[Any, ...]:
        return DirectProduct, self.factors


class SideBySide(Group):
    """G × H × …, acting on V_G ⊕ V_H ⊕ …: what ``G + H`` means."""

    def __init__(self, *terms: Group) -> None:
        flat = tuple(
            part for g in terms for part in (g.terms if isinstance(g, SideBySide) else (g,))
        )
        if len(flat) < 2:
            raise ValueError(f"expected at least two groups side by side, got {len(flat)}")
        self._freeze(sum(g.d for g in flat), terms=flat)

    terms: tuple[Group, ...]

    def _discrete(self) -> Iterator[LinearMap]:
        for at, term in enumerate(self.terms):
            for h in term.discrete:
                yield self._at(at, h, Monomial.identity)

    def _algebra(self) -> Iterator[LinearMap]:
        for at, term in enumerate(self.terms):
            for a in term.algebra:
                yield self._at(at, a, Zero)

    def _at(self, at: int, part: LinearMap, rest: Any) -> LinearMap:
        blocks = tuple(part if i == at else rest(g.d) for i, g in enumerate(self.terms))
        return BlockDiagonal(blocks, (1,) * len(blocks))

    @property
    def is_compact(self) -> bool:
        """Whether all terms are."""
        return all(g.is_compact for g in self.terms)

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return BlockDiagonal(tuple(g._sample(n, rng) for g in self.terms), (1,) * len(self.terms))

    def _order(self) -> int | float:
        return math.prod(g._order() for g in self.terms)

    def _contains(self, g: LinearMap) -> bool | None:
        matrix = g.dense()
        blocks, at = [], 0
        for term in self.terms:
            blocks.append(matrix[at : at + term.d, at : at + term.d])
            at += term.d
        if bool((torch.block_diag(*blocks) - matrix).abs().max() > 1e-8):
            return False
        answers = [t.contains(block) for t, block in zip(self.terms, blocks, strict=True)]
        return False if False in answers else (None if None in answers else True)

    def __str__(self) -> str:
        return "+".join(map(str, self.terms))

    def __reduce__(self) -> tuple[Any, ...]:
        return SideBySide, self.terms


class Semidirect(Group):
    """N ⋊ H for two groups that act on the same space, H normalising N."""

    normal: Group
    acting: Group

    def __init__(self, normal: Group, acting: Group) -> None:
        if normal.d != acting.d:
            raise ValueError(
                f"expected two groups that act on one space for a semidirect product, "
                f"got {normal} on {normal.d} and {acting} on {acting.d} dimensions"
            )
        self._freeze(normal.d, normal=normal, acting=acting)
        _require_normalised(normal, acting)

    def _discrete(self) -> Iterable[LinearMap]:
        return (*self.normal.discrete, *self.acting.discrete)

    def _algebra(self) -> Iterable[LinearMap]:
        return (*self.normal.algebra, *self.acting.algebra)

    @property
    def is_compact(self) -> bool:
        """Whether both parts are."""
        return self.normal.is_compact and self.acting.is_compact

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return self.normal._sample(n, rng) @ self.acting._sample(n, rng)

    def __str__(self) -> str:
        return f"semidirect({self.normal},{self.acting})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Semidirect, (self.normal, self.acting)


class Wreath(Group):
    """G ≀ H: an element of G in each of H's blocks, the blocks permuted by H."""

    inner: Group
    outer: Group

    def __init__(self, inner: Group, outer: Group) -> None:
        if not outer.is_permutation:
            raise ValueError(
                f"expected a permutation group as the outer group of a wreath product, got {outer}"
            )
        self._freeze(inner.d * outer.d, inner=inner, outer=outer)

    def _representative_blocks(self) -> list[int]:
        """One block of each orbit of H; H carries the inner generators to the others."""
        from isotropy.groups._block_systems import components

        labels = components([h.monomial() for h in self.outer.discrete], self.outer.d)
        first: dict[int, int] = {}
        for block, label in enumerate(labels.tolist()):
            first.setdefault(label, block)
        return sorted(first.values())

    def _discrete(self) -> Iterator[LinearMap]:
        for block in self._representative_blocks():
            for h in self.inner.discrete:
                yield self._in_block(block, h, Monomial.identity)
        for h in self.outer.discrete:
            yield Kron((h, Monomial.identity(self.inner.d)))

    def _algebra(self) -> Iterator[LinearMap]:
        # a Lie algebra is spanned, not generated: every block has its own copy
        for block in range(self.outer.d):
            for a in self.inner.algebra:
                yield self._in_block(block, a, Zero)

    def _in_block(self, block: int, part: LinearMap, rest: Any) -> LinearMap:
        blocks, counts = [], []
        for piece, count in (
            (rest(self.inner.d), block),
            (part, 1),
            (rest(self.inner.d), self.outer.d - block - 1),
        ):
            if count:
                blocks.append(piece)
                counts.append(count)
        return BlockDiagonal(tuple(blocks), tuple(counts))

    @property
    def is_compact(self) -> bool:
        """Whether the inner group is."""
        return self.inner.is_compact

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        blocks = tuple(self.inner._sample(n, rng) for _ in range(self.outer.d))
        permuted = Kron((self.outer._sample(n, rng), Monomial.identity(self.inner.d)))
        drawn = permuted @ BlockDiagonal(blocks, (1,) * len(blocks))
        monomial = drawn.monomial()
        return drawn if monomial is None else monomial

    def _order(self) -> int | float:
        return self.inner._order() ** self.outer.d * self.outer._order()

    def __str__(self) -> str:
        return f"wreath({self.inner},{self.outer})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Wreath, (self.inner, self.outer)


def semidirect(normal: Group, acting: Group) -> Group:
    """N ⋊ H, both acting on the same space and H normalising N.

    Raises:
        ValueError: If the spaces differ, or a generator of H does not normalise N.

    Example:
        >>> from isotropy.groups import GridShifts, GridTurns
        >>> semidirect(GridShifts(4), GridTurns(4)).order()
        64
    """
    return Semidirect(normal, acting)


def wreath(inner: Group, outer: Group) -> Group:
    """The wreath product G ≀ H on H.d blocks of V_G; coordinate = block · G.d + place in block.

    Example:
        >>> from isotropy.groups import S, Z
        >>> wreath(S(3), Z(2)).order()
        72
    """
    return Wreath(inner, outer)


def _require_normalised(normal: Group, acting: Group) -> None:
    for h in acting.discrete:
        inverse = h.inverse()
        for g in normal.discrete:
            if normal.contains(h @ g @ inverse) is False:
                raise ValueError(
                    f"expected every generator of {acting} to normalise {normal}, got one that "
                    "does not"
                )
        moved = [h @ Dense(a.dense()) @ inverse for a in normal.algebra]
        _require_in_span(moved, normal, acting)
    brackets: list[LinearMap] = []
    for h in normal.discrete:
        # exp(ta) h exp(-ta) stays in N only if h moves a by an element of N's algebra
        inverse = h.inverse()
        brackets += [
            Dense((h @ Dense(a.dense()) @ inverse).dense() - a.dense()) for a in acting.algebra
        ]
    for a in (a.dense() for a in acting.algebra):
        brackets += [Dense(a @ b.dense() - b.dense() @ a) for b in normal.algebra]
    _require_in_span(brackets, normal, acting)


def _require_in_span(maps: list[LinearMap], normal: Group, acting: Group) -> None:
    if maps and not all(in_span(m, normal.algebra) for m in maps):
        raise ValueError(
            f"expected {acting} to normalise the Lie algebra of {normal}, got one that does not"
        )


def in_span(a: LinearMap, basis: tuple[LinearMap, ...]) -> bool:
    """Whether the matrix of ``a`` is a linear combination of those of ``basis``."""
    target = a.dense().flatten()
    if not basis or not bool(target.abs().max() > 0):
        return not bool(target.abs().max() > 0)
    # real combinations: a complex algebra is a real vector space of complex matrices
    columns = [torch.view_as_real(b.dense().to(torch.complex128)).flatten() for b in basis]
    wanted = torch.view_as_real(target.to(torch.complex128)).flatten()
    matrix = torch.stack([c / c.norm() for c in columns], 1)
    solution = torch.linalg.lstsq(matrix, wanted.unsqueeze(1), driver="gelsd").solution
    residual = (matrix @ solution).squeeze(1) - wanted
    return bool(residual.norm() <= 1e-9 * wanted.norm())
