"""The Lie algebras of catalogue groups, in the catalogue's coordinates."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from isotropy.groups._intertwiners import Array

# in the order in which terms and factors are written
_KINDS = ("SO", "SOpq", "Sp", "SU", "U", "SL", "GL", "SE", "+", "Scaling", "Trivial")


@dataclass(frozen=True)
class StandardAlgebra:
    """The algebra of a named group, or of a sum "+" or product "*" of such.

    Attributes:
        kind: A name of the catalogue, or "+" or "*".
        sizes: The integers after the name.
        parts: The terms of a sum, the factors of a product.
    """

    kind: str
    sizes: tuple[int, ...] = ()
    parts: tuple[StandardAlgebra, ...] = ()

    @property
    def d(self) -> int:
        """The dimension of the space acted on."""
        match self.kind:
            case "+":
                return sum(part.d for part in self.parts)
            case "*":
                return math.prod(part.d for part in self.parts)
            case "Sp":
                return 2 * self.sizes[0]
            case "SE":
                return self.sizes[0] + 1
        return sum(self.sizes)

    @property
    def order(self) -> tuple[int, int, str]:
        """Sorts terms and factors: by kind, the larger first."""
        leading = self.parts[0] if self.kind == "*" else self
        return _KINDS.index(leading.kind), -leading.d, str(self)

    def __str__(self) -> str:
        match self.kind, self.sizes:
            case "+", _:
                return "+".join(map(str, self.parts))
            case "*", _:
                return "*".join(f"({p})" if p.kind == "+" else str(p) for p in self.parts)
            case "SOpq", (1, 1) | (1, 3):
                return "SO11p" if self.sizes == (1, 1) else "SO13p"
        return f"{self.kind}({','.join(map(str, self.sizes))})"

    def matrices(self) -> Array:
        """A basis, of shape (D, d, d)."""
        basis = list(self._basis())
        return np.array(basis) if basis else np.zeros((0, self.d, self.d))

    def _basis(self) -> Iterator[Array]:
        n = self.sizes[0] if self.sizes else 0
        match self.kind:
            case "SO":
                yield from _rotations((1.0,) * n)
            case "SOpq":
                yield from _rotations((1.0,) * n + (-1.0,) * self.sizes[1])
            case "Sp":
                yield from _symplectic(n)
            case "U" | "SU":
                yield from _unitary(n, special=self.kind == "SU")
            case "GL" | "SL":
                yield from _linear(n, special=self.kind == "SL")
            case "SE":
                yield from (np.pad(a, ((0, 1), (0, 1))) for a in _rotations((1.0,) * n))
                yield from (_unit(n + 1, i, n) for i in range(n))
            case "Scaling":
                yield np.eye(n)
            case "+":
                yield from self._sum()
            case "*":
                yield from self._product()

    def _sum(self) -> Iterator[Array]:
        start = 0
        for part in self.parts:
            margin = (start, self.d - start - part.d)
            yield from (np.pad(a, (margin, margin)) for a in part._basis())
            start += part.d

    def _product(self) -> Iterator[Array]:
        before = 1
        for part in self.parts:
            after = self.d // before // part.d
            yield from (np.kron(np.kron(np.eye(before), a), np.eye(after)) for a in part._basis())
            before *= part.d

    def prose(self, field: str) -> str:
        """The algebra in words; ``field`` is the letter of the numbers, R or C."""
        match self.kind:
            case "SOpq":
                return f"{self._label(field)}, metric signature ({self.sizes[0]},{self.sizes[1]})"
            case "Scaling":
                return f"scalings of {field}^{self.d}"
            case "Trivial":
                return f"trivial algebra on {field}^{self.d}"
            case "+":
                *most, last = (part._acting(field) for part in self.parts)
                return f"{', '.join(most)} and {last}"
            case "*":
                return self._acting(field)
        return self._label(field)

    def _label(self, field: str) -> str:
        """The algebra alone."""
        match self.kind:
            case "SO" | "SU" | "U" | "SE":
                return f"{self.kind.lower()}({self.sizes[0]})"
            case "SOpq":
                return f"so({self.sizes[0]},{self.sizes[1]})"
            case "Sp" | "SL" | "GL":
                return f"{self.kind.lower()}({self.d},R)"
            case "+":
                return f"({self.prose(field)})"
            case "*":
                return " × ".join(p._label(field) for p in self.parts if p.kind != "Trivial")
        return "scalings"

    def _acting(self, field: str) -> str:
        """The algebra and the space that it acts on."""
        if self.kind == "Trivial":
            return f"{field}^{self.d} fixed"
        parts = self.parts if self.kind == "*" else (self,)
        multiple = parts[-1].d if parts[1:] and parts[-1].kind in ("Scaling", "Trivial") else 0
        moved = parts[:-1] if multiple else parts
        space = " ⊗ ".join(f"{field}^{part.d}" for part in moved if part.d > 1 or not moved[1:])
        copies = f"{multiple} copies of " if multiple > 1 else ""
        return f"{self._label(field)} on {copies}{space}"


def sum_of(terms: list[tuple[StandardAlgebra, Array]]) -> tuple[StandardAlgebra, Array]:
    """Terms with frames of the subspaces they act on, as one algebra with one frame."""
    terms = sorted(terms, key=lambda term: term[0].order)
    whole = StandardAlgebra("+", parts=tuple(term for term, _ in terms))
    return whole, np.hstack([frame for _, frame in terms])


def product_of(factors: Iterable[StandardAlgebra], frame: Array) -> tuple[StandardAlgebra, Array]:
    """Factors and the frame of their tensor product, the first index slowest, in normal form.

    Nested products are opened up, SL(n) with scalings becomes GL(n) and SU(n) with phases U(n),
    and what neither moves nor scales comes last: SO(3)*Scaling(2), not SO(3)*Scaling(1)*Trivial(2).
    """
    flat = [f for factor in factors for f in (factor.parts if factor.kind == "*" else (factor,))]
    flat = _absorbed(flat, "SU", "U", "U")
    flat = _absorbed(flat, "SL", "Scaling", "GL")
    order = sorted(range(len(flat)), key=lambda i: flat[i].order)
    axes = frame.reshape(-1, *(factor.d for factor in flat)).transpose(0, *(1 + i for i in order))
    scalars = [factor for factor in flat if factor.kind in ("Scaling", "Trivial")]
    acting = [flat[i] for i in order if flat[i] not in scalars]
    size = math.prod(factor.d for factor in scalars)
    if any(factor.kind == "Scaling" for factor in scalars):
        acting.append(StandardAlgebra("Scaling", (size,)))
    elif size > 1:
        acting.append(StandardAlgebra("Trivial", (size,)))
    whole = acting[0] if len(acting) == 1 else StandardAlgebra("*", parts=tuple(acting))
    return whole, axes.reshape(frame.shape)


def _absorbed(
    factors: list[StandardAlgebra], special: str, scalars: str, general: str
) -> list[StandardAlgebra]:
    """Let the largest special factor absorb the scalars: SL(2), Scaling(3) to GL(2), Trivial(3)."""
    specials = [factor for factor in factors if factor.kind == special]
    multiples = [f for f in factors if f.kind == scalars and (f.d == 1 or scalars == "Scaling")]
    if not specials or not multiples:
        return factors
    grown = max(specials, key=lambda factor: factor.d)
    at, gone = factors.index(grown), factors.index(multiples[0])
    changed = list(factors)
    changed[at] = StandardAlgebra(general, grown.sizes)
    changed[gone] = StandardAlgebra("Trivial", (multiples[0].d,))
    return changed


def _unit(n: int, i: int, j: int) -> Array:
    matrix = np.zeros((n, n))
    matrix[i, j] = 1.0
    return matrix


def _rotations(metric: tuple[float, ...]) -> Iterator[Array]:
    """Rotations and boosts, Aᵀ M + M A = 0 for M = diag(metric)."""
    n = len(metric)
    for i, j in combinations(range(n), 2):
        yield _unit(n, j, i) - metric[i] * metric[j] * _unit(n, i, j)


def _symplectic(n: int) -> Iterator[Array]:
    """Aᵀ Ω + Ω A = 0 for Ω = [[0, 1], [-1, 0]]."""
    for i in range(n):
        for j in range(n):
            yield _unit(2 * n, i, j) - _unit(2 * n, n + j, n + i)
        for j in range(i + 1):
            yield _unit(2 * n, i, n + j) + _unit(2 * n, j, n + i)
            yield _unit(2 * n, n + i, j) + _unit(2 * n, n + j, i)


def _unitary(n: int, special: bool) -> Iterator[Array]:
    for i, j in combinations(range(n), 2):
        yield (_unit(n, i, j) - _unit(n, j, i)).astype(complex)
        yield 1j * (_unit(n, i, j) + _unit(n, j, i))
    for i in range(n - special):
        yield 1j * (_unit(n, i, i) - special * _unit(n, i + special, i + special))


def _linear(n: int, special: bool) -> Iterator[Array]:
    for i in range(n):
        for j in range(n):
            if i != j:
                yield _unit(n, i, j)
    for i in range(n - special):
        yield _unit(n, i, i) - special * _unit(n, i + special, i + special)
