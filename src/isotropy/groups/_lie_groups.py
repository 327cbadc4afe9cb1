"""The classical Lie groups and the Lorentz groups, and the equations of their matrices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.groups._given import as_linear_map
from isotropy.groups._maps import Dense, LinearMap
from isotropy.groups._named_group import NamedGroup, NamedWithoutInteger
from isotropy.groups._sampling import haar_orthogonal, haar_unitary


class MatrixGroup(NamedGroup, ABC):
    """A group known by the equations that its matrices satisfy."""

    @cached_property
    def algebra(self) -> tuple[LinearMap, ...]:
        """A basis of the Lie algebra."""
        # up to d² matrices of d² entries
        require_memory(4 * self.d**4, f"the Lie algebra of {self}", "take a smaller group")
        return tuple(self._algebra())

    def _contains(self, g: LinearMap) -> bool:
        matrix = g.dense()
        return matrix.is_complex() <= self.is_complex and bool(self._satisfied_by(matrix))

    @abstractmethod
    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        """Whether the equations hold for a matrix."""


def unit(n: int, i: int, j: int) -> Tensor:
    """The matrix with a single one, at (i, j)."""
    matrix = torch.zeros(n, n, dtype=torch.float64)
    matrix[i, j] = 1.0
    return matrix


def symmetric_unit(n: int, i: int, j: int, k: int, m: int) -> Tensor:
    return unit(n, i, j) if (i, j) == (k, m) else unit(n, i, j) + unit(n, k, m)


def rotations(n: int) -> Iterator[Tensor]:
    """A basis of the antisymmetric matrices."""
    for i, j in combinations(range(n), 2):
        yield unit(n, j, i) - unit(n, i, j)


def off_diagonal_unitary(n: int) -> Iterator[Tensor]:
    for i, j in combinations(range(n), 2):
        yield (unit(n, i, j) - unit(n, j, i)).to(torch.complex128)
        yield 1j * (unit(n, i, j) + unit(n, j, i))


def padded(matrix: Tensor) -> Tensor:
    """A Lie algebra element of R^n on homogeneous coordinates."""
    return torch.nn.functional.pad(matrix, (0, 1, 0, 1))


def reflection(n: int) -> LinearMap:
    """Reversal of the first coordinate."""
    return as_linear_map(torch.diag(torch.tensor([-1.0] + [1.0] * (n - 1))))


def close(value: Tensor, target: Tensor | float) -> bool:
    return bool((value - target).abs().max() < 1e-8)


def has_unit_determinant(m: Tensor) -> bool:
    """Det m = 1, to the rounding error of matrices with large entries."""
    scale = max(1.0, float(m.abs().max())) ** 2
    return bool((torch.linalg.det(m) - 1).abs() < 1e-8 * scale)


def preserves(m: Tensor, form: Tensor) -> bool:
    """Whether m† form m = form."""
    form = form.to(m.dtype)
    return bool((m.mH @ form @ m - form).abs().max() < 1e-8 * m.abs().max() ** 2)


class SO(MatrixGroup):
    """Rotations of R^n: RᵀR = 1, det R = 1."""

    def _algebra(self) -> Iterator[LinearMap]:
        return map(Dense, rotations(self.n))

    def _order(self) -> int:
        return 1  # SO(1); the others have a Lie algebra

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return haar_orthogonal(n, self.n, rng, special=True)

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return preserves(m, torch.eye(self.d)) and has_unit_determinant(m)


class O(MatrixGroup):  # noqa: E742 - its name in mathematics
    """Rotations and reflections of R^n: RᵀR = 1."""

    def _discrete(self) -> Iterable[LinearMap]:
        return (reflection(self.n),)

    def _algebra(self) -> Iterator[LinearMap]:
        return map(Dense, rotations(self.n))

    def _order(self) -> int:
        return 2  # O(1); the others have a Lie algebra

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return haar_orthogonal(n, self.n, rng, special=False)

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return preserves(m, torch.eye(self.d))


class SL(MatrixGroup):
    """Real n × n matrices of determinant one."""

    def _algebra(self) -> Iterator[LinearMap]:
        for i in range(self.n):
            for j in range(self.n):
                if i != j:
                    yield Dense(unit(self.n, i, j))
        for i in range(self.n - 1):
            yield Dense(unit(self.n, i, i) - unit(self.n, i + 1, i + 1))

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return has_unit_determinant(m)


class GL(MatrixGroup):
    """Invertible real n × n matrices, of either orientation."""

    def _discrete(self) -> Iterable[LinearMap]:
        return (reflection(self.n),)

    def _algebra(self) -> Iterator[LinearMap]:
        for i in range(self.n):
            for j in range(self.n):
                yield Dense(unit(self.n, i, j))

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return bool(torch.linalg.matrix_rank(m) == self.n)


class U(MatrixGroup):
    """Unitary n × n matrices: U†U = 1."""

    def _algebra(self) -> Iterator[LinearMap]:
        for i in range(self.n):
            yield Dense(1j * unit(self.n, i, i))
        yield from map(Dense, off_diagonal_unitary(self.n))

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return haar_unitary(n, self.n, rng, special=False)

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return preserves(m, torch.eye(self.d))


class SU(MatrixGroup):
    """Unitary n × n matrices of determinant one."""

    smallest = 2

    def _algebra(self) -> Iterator[LinearMap]:
        for i in range(self.n - 1):
            yield Dense(1j * (unit(self.n, i, i) - unit(self.n, i + 1, i + 1)))
        yield from map(Dense, off_diagonal_unitary(self.n))

    def _sample(self, n: int, rng: torch.Generator) -> LinearMap:
        return haar_unitary(n, self.n, rng, special=True)

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return preserves(m, torch.eye(self.d)) and has_unit_determinant(m)


class Sp(MatrixGroup):
    """Real symplectic matrices of R^2n: MᵀΩM = Ω with Ω = [[0, 1], [-1, 0]]."""

    def _dimension(self, n: int) -> int:
        return 2 * n

    def _algebra(self) -> Iterator[LinearMap]:
        n, d = self.n, 2 * self.n
        for i in range(n):
            for j in range(n):
                yield Dense(unit(d, i, j) - unit(d, n + j, n + i))
        for i in range(n):
            for j in range(i + 1):
                yield Dense(symmetric_unit(d, i, n + j, j, n + i))
                yield Dense(symmetric_unit(d, n + i, j, n + j, i))

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        omega = torch.zeros(self.d, self.d)
        omega[: self.n, self.n :] = torch.eye(self.n)
        omega[self.n :, : self.n] = -torch.eye(self.n)
        return preserves(m, omega)


class SOpq(MatrixGroup):
    """SO⁺(p,q): the identity component of what preserves the metric diag(1, …, -1, …)."""

    p: int
    q: int

    def __init__(self, p: int, q: int) -> None:
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 1 for n in (p, q)):
            raise ValueError(f"expected SOpq(p,q) with integers p, q >= 1, got {p!r}, {q!r}")
        self._freeze(p + q, p=p, q=q)

    @property
    def parameters(self) -> tuple[int, ...]:
        """The numbers of plus and minus signs of the metric."""
        return (self.p, self.q)

    def _algebra(self) -> Iterator[LinearMap]:
        for i, j in combinations(range(self.d), 2):
            sign = 1 if i < self.p <= j else -1
            yield Dense(unit(self.d, j, i) + sign * unit(self.d, i, j))

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        metric = torch.diag(torch.tensor([1.0] * self.p + [-1.0] * self.q))
        # both blocks keep their orientation in the identity component
        space, time = m[: self.p, : self.p], m[self.p :, self.p :]
        return preserves(m, metric) and torch.linalg.det(space) > 0 and torch.linalg.det(time) > 0


class _Minkowski(NamedWithoutInteger, MatrixGroup):
    """A group that preserves the metric diag(1, -1, …, -1) of space-time."""

    def _algebra(self) -> Iterator[LinearMap]:
        for i in range(1, self.d):
            yield Dense(unit(self.d, 0, i) + unit(self.d, i, 0))
        for i, j in combinations(range(1, self.d), 2):
            yield Dense(unit(self.d, i, j) - unit(self.d, j, i))

    def _metric(self) -> Tensor:
        return torch.diag(torch.tensor([1.0] + [-1.0] * (self.d - 1)))

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return preserves(m, self._metric())


class SO13p(_Minkowski):
    """SO⁺(1,3): boosts and rotations of space-time, coordinates (t, x, y, z)."""

    dimension = 4

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return super()._satisfied_by(m) and has_unit_determinant(m) and m[0, 0] > 0


class SO13(_Minkowski):
    """SO(1,3): SO⁺(1,3) and the reversal of all of space-time."""

    dimension = 4

    def _discrete(self) -> Iterable[LinearMap]:
        return (as_linear_map(-torch.eye(4)),)

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return super()._satisfied_by(m) and has_unit_determinant(m)


class O13(_Minkowski):
    """O(1,3), the full Lorentz group: SO⁺(1,3), parity and time reversal."""

    dimension = 4

    def _discrete(self) -> Iterable[LinearMap]:
        return (as_linear_map(-torch.eye(4)), reflection(4))


class SO11p(_Minkowski):
    """SO⁺(1,1): boosts of the plane, coordinates (t, x)."""

    dimension = 2

    def _satisfied_by(self, m: Tensor) -> bool | Tensor:
        return super()._satisfied_by(m) and has_unit_determinant(m) and m[0, 0] > 0


class O11(_Minkowski):
    """O(1,1): boosts and both reversals of the plane."""

    dimension = 2

    def _discrete(self) -> Iterable[LinearMap]:
        return (as_linear_map(-torch.eye(2)), reflection(2))
