"""Groups known by the equations of their matrices, and the small matrices they are made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from itertools import combinations

import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.groups._given import as_linear_map
from isotropy.groups._maps import LinearMap
from isotropy.groups._named_group import NamedGroup


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
