"""Maps built from maps, never multiplied out: Kronecker products and sums, blocks, chains."""

from __future__ import annotations

from abc import abstractmethod
from functools import reduce
from math import prod

import torch
from torch import Tensor

from isotropy.groups._maps import Dense, LinearMap, Monomial, broadcast_shapes, digest


class _Compound(LinearMap):
    """What all compound maps share: they act through their parts."""

    parts: tuple[LinearMap, ...]

    def _set_parts(self, parts: tuple[LinearMap, ...]) -> None:
        self.parts = parts
        self.batch = broadcast_shapes(*(part.batch for part in parts))

    def _rebuild(self, parts: tuple[LinearMap, ...]) -> LinearMap:
        """A map of the same shape with other parts."""
        return type(self)(parts)  # type: ignore[call-arg]

    @property
    def is_complex(self) -> bool:
        return any(part.is_complex for part in self.parts)

    @property
    def by_value(self) -> bool:
        return all(part.by_value for part in self.parts)

    def value(self) -> bytes:
        monomial = self.monomial()
        if monomial is not None:
            return monomial.value()
        name = type(self).__name__.encode()
        return digest(name, self._layout(), *(part.value() for part in self.parts))

    def _layout(self) -> bytes:
        return b""

    def transpose(self) -> LinearMap:
        return self._rebuild(tuple(part.transpose() for part in self.parts))

    def inverse(self) -> LinearMap:
        return self._rebuild(tuple(part.inverse() for part in self.parts))

    def unsqueeze(self, dims: int) -> LinearMap:
        # a part with fewer batch dimensions is aligned from the right: pad it first
        return self._rebuild(tuple(part.unsqueeze(dims) for part in self.parts))

    def select(self, index: int | Tensor) -> LinearMap:
        return self._rebuild(
            tuple(part.select(index) if part.batch else part for part in self.parts)
        )

    def det(self) -> Tensor:
        determinant: Tensor = torch.linalg.det(self.dense())
        return determinant


class _MonomialIfParts(_Compound):
    """A compound that is a signed permutation where all its parts are."""

    @property
    def is_monomial(self) -> bool:
        return all(part.is_monomial for part in self.parts)

    def monomial(self) -> Monomial | None:
        parts = [part.monomial() for part in self.parts]
        known = [part for part in parts if part is not None]
        return self._joined(known) if len(known) == len(parts) else None

    @abstractmethod
    def _joined(self, parts: list[Monomial]) -> Monomial:
        """The same compound of signed permutations, as one."""


class Kron(_MonomialIfParts):
    """The Kronecker product M₁ ⊗ … ⊗ M_k, acting on tensors of shape n₁ × … × n_k, flattened."""

    def __init__(self, factors: tuple[LinearMap, ...]) -> None:
        self._set_parts(factors)
        self.size = prod(factor.size for factor in factors)

    def _apply(self, x: Tensor) -> Tensor:
        lead = broadcast_shapes(x.shape[:-1], self.batch)
        x = x.expand(*lead, self.size).reshape(*lead, *(part.size for part in self.parts))
        for axis, part in enumerate(self.parts):
            if not (isinstance(part, Monomial) and part.is_identity):
                x = _apply_on_axis(part, x, len(lead) + axis, len(self.parts))
        return x.reshape(*lead, self.size)

    def scaled(self, factor: float) -> Kron:
        return Kron((self.parts[0].scaled(factor), *self.parts[1:]))

    def det(self) -> Tensor:
        powers = [part.det() ** (self.size // part.size) for part in self.parts]
        return reduce(torch.mul, powers)

    def trace(self) -> Tensor:
        return reduce(torch.mul, [part.trace() for part in self.parts])

    def _joined(self, parts: list[Monomial]) -> Monomial:
        return reduce(_kron_monomial, parts)


class KronSum(_Compound):
    """The Kronecker sum M₁ ⊕̄ … ⊕̄ M_k = Σᵢ 1 ⊗ … ⊗ Mᵢ ⊗ … ⊗ 1 (thesis Table 2.1)."""

    def __init__(self, terms: tuple[LinearMap, ...]) -> None:
        self._set_parts(terms)
        self.size = prod(term.size for term in terms)

    def _layout(self) -> bytes:
        return str([part.size for part in self.parts]).encode()

    def _apply(self, x: Tensor) -> Tensor:
        lead = broadcast_shapes(x.shape[:-1], self.batch)
        x = x.expand(*lead, self.size).reshape(*lead, *(part.size for part in self.parts))
        total = reduce(
            torch.add,
            [
                _apply_on_axis(part, x, len(lead) + axis, len(self.parts))
                for axis, part in enumerate(self.parts)
            ],
        )
        return total.reshape(*lead, self.size)

    def inverse(self) -> LinearMap:
        return Dense(torch.linalg.inv(self.dense()))

    def scaled(self, factor: float) -> KronSum:
        return KronSum(tuple(part.scaled(factor) for part in self.parts))

    def trace(self) -> Tensor:
        return reduce(torch.add, [p.trace() * (self.size // p.size) for p in self.parts])


class BlockDiagonal(_MonomialIfParts):
    """Blocks along the diagonal, each repeated: M₁ ⊕ … ⊕ M₁ ⊕ M₂ ⊕ … and so on."""

    def __init__(self, blocks: tuple[LinearMap, ...], counts: tuple[int, ...]) -> None:
        self._set_parts(blocks)
        self.counts = counts
        self.size = sum(n * block.size for n, block in zip(counts, blocks, strict=True))

    def _rebuild(self, parts: tuple[LinearMap, ...]) -> BlockDiagonal:
        return BlockDiagonal(parts, self.counts)

    def _layout(self) -> bytes:
        return str(self.counts).encode()

    def _apply(self, x: Tensor) -> Tensor:
        lead = broadcast_shapes(x.shape[:-1], self.batch)
        x = x.expand(*lead, self.size)
        pieces = []
        widths = [n * block.size for n, block in zip(self.counts, self.parts, strict=True)]
        for count, block, piece in zip(self.counts, self.parts, x.split(widths, -1), strict=True):
            copies = piece.reshape(*lead, count, block.size)
            pieces.append(block.unsqueeze(1).apply(copies).reshape(*lead, count * block.size))
        return torch.cat(pieces, -1)

    def scaled(self, factor: float) -> BlockDiagonal:
        return BlockDiagonal(tuple(part.scaled(factor) for part in self.parts), self.counts)

    def det(self) -> Tensor:
        return reduce(
            torch.mul, [p.det() ** n for n, p in zip(self.counts, self.parts, strict=True)]
        )

    def trace(self) -> Tensor:
        return reduce(
            torch.add, [p.trace() * n for n, p in zip(self.counts, self.parts, strict=True)]
        )

    def _joined(self, parts: list[Monomial]) -> Monomial:
        pairs = zip(self.counts, parts, strict=True)
        repeated = [_kron_monomial(Monomial.identity(n), block) for n, block in pairs]
        return reduce(_side_by_side_monomial, repeated)


class Chain(_MonomialIfParts):
    """A composition that has no simpler form: M₁ M₂ … M_k, the last applied first."""

    def __init__(self, links: tuple[LinearMap, ...]) -> None:
        self._set_parts(links)
        self.size = links[0].size

    def _apply(self, x: Tensor) -> Tensor:
        for link in reversed(self.parts):
            x = link.apply(x)
        return x

    def transpose(self) -> Chain:
        return Chain(tuple(part.transpose() for part in reversed(self.parts)))

    def inverse(self) -> Chain:
        return Chain(tuple(part.inverse() for part in reversed(self.parts)))

    def scaled(self, factor: float) -> Chain:
        return Chain((self.parts[0].scaled(factor), *self.parts[1:]))

    def det(self) -> Tensor:
        return reduce(torch.mul, [part.det() for part in self.parts])

    def trace(self) -> Tensor:
        return self.dense().diagonal(dim1=-2, dim2=-1).sum(-1)

    def _joined(self, parts: list[Monomial]) -> Monomial:
        return reduce(Monomial.compose_monomial, parts)


def compose(first: LinearMap, second: LinearMap) -> LinearMap:
    """The map x ↦ first(second(x)), in the simplest form that the two allow."""
    if first.size != second.size:
        raise ValueError(
            f"expected two maps of one size to compose, got {first.size} and {second.size}"
        )
    if isinstance(first, Monomial) and isinstance(second, Monomial):
        return first.compose_monomial(second)
    if type(first) is type(second) and isinstance(first, Kron | BlockDiagonal):
        assert isinstance(second, Kron | BlockDiagonal)
        sizes = [part.size for part in first.parts]
        same_counts = getattr(first, "counts", None) == getattr(second, "counts", None)
        if same_counts and sizes == [part.size for part in second.parts]:
            return first._rebuild(
                tuple(compose(a, b) for a, b in zip(first.parts, second.parts, strict=True))
            )
    if isinstance(second, Dense):
        return Dense(first.unsqueeze(1).apply(second.matrix.mT).mT)
    if isinstance(first, Dense):
        return Dense(second.transpose().unsqueeze(1).apply(first.matrix))
    return Chain((first, second))


def _apply_on_axis(part: LinearMap, x: Tensor, axis: int, axes: int) -> Tensor:
    """Apply ``part`` along one of ``axes`` tensor axes; its batch precedes them all."""
    moved = part.unsqueeze(axes - 1).apply(x.movedim(axis, -1))
    return moved.movedim(-1, axis)


def _kron_monomial(a: Monomial, b: Monomial) -> Monomial:
    lead = broadcast_shapes(a.batch, b.batch)
    index = a.index.unsqueeze(-1) * b.size + b.index.unsqueeze(-2)
    index = index.expand(*lead, a.size, b.size).reshape(*lead, a.size * b.size)
    if a.sign is None and b.sign is None:
        return Monomial(index)
    one = torch.ones(1, dtype=torch.int8)
    sign_a = (one if a.sign is None else a.sign).unsqueeze(-1)
    sign_b = (one if b.sign is None else b.sign).unsqueeze(-2)
    sign = (sign_a * sign_b).expand(*lead, a.size, b.size)
    return Monomial(index, sign.reshape(*lead, a.size * b.size))


def _side_by_side_monomial(a: Monomial, b: Monomial) -> Monomial:
    lead = broadcast_shapes(a.batch, b.batch)
    index = torch.cat([a.index.expand(*lead, a.size), b.index.expand(*lead, b.size) + a.size], -1)
    if a.sign is None and b.sign is None:
        return Monomial(index)
    signs = [
        torch.ones(*lead, m.size, dtype=torch.int8) if m.sign is None else m.sign.expand(*lead, -1)
        for m in (a, b)
    ]
    return Monomial(index, torch.cat(signs, -1))
