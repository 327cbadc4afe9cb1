"""Curvature of some entries of a parameter: Kronecker-factored, dense or diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class KroneckerBlock:
    """H = A ⊗ B of a weight matrix W, with W's rows slowest: H[(o,i),(o',i')] = B[o,o'] A[i,i'].

    With several blocks (each with a matrix W of its own) H is block-diagonal, and both factors
    are stacks; a factor with one entry for all blocks is shared by them.

    Args:
        input: A, the mean of aaᵀ over inputs a, shape (blocks, in, in).
        output: B, the sum of gΛgᵀ over gradients at the output, shape (blocks or 1, out, out).
        entries: Where W is in the flat parameter, shape (blocks, out, in); None where it is the
            parameter itself.
    """

    input: Tensor
    output: Tensor
    entries: Tensor | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.input.shape[0] * self.input.shape[-1] * self.output.shape[-1]

    @cached_property
    @torch.enable_grad()  # kept, whoever asks first
    def _spectrum(self) -> Tensor:
        inner, outer = spectrum(self.input), spectrum(self.output)
        return (outer.unsqueeze(-1) * inner.unsqueeze(-2)).flatten()

    def eigenvalues(self) -> Tensor:
        """All eigenvalues of H: the products of those of A and B, shape (size,)."""
        return self._spectrum

    def dense(self) -> Tensor:
        """H in the order of the parameter, shape (size, size)."""
        outputs = self.output.expand(self.input.shape[0], -1, -1)
        pairs = zip(self.input.contiguous(), outputs.contiguous(), strict=True)
        matrices = [torch.kron(b, a) for a, b in pairs]
        return _in_order(torch.block_diag(*matrices), self.entries)


@dataclass(frozen=True, eq=False)
class DenseBlock:
    """H itself, without further approximation.

    Args:
        matrix: H, shape (size, size).
        entries: Where its rows are in the flat parameter; None for all, in order.
    """

    matrix: Tensor
    entries: Tensor | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.matrix.shape[0]

    @cached_property
    @torch.enable_grad()  # kept, whoever asks first
    def _spectrum(self) -> Tensor:
        return spectrum(self.matrix)

    def eigenvalues(self) -> Tensor:
        """All eigenvalues of H, shape (size,)."""
        return self._spectrum

    def dense(self) -> Tensor:
        """H in the order of the parameter, shape (size, size)."""
        return _in_order(self.matrix, self.entries)


@dataclass(frozen=True, eq=False)
class DiagonalBlock:
    """The diagonal of H.

    Args:
        values: The diagonal, shape (size,).
        entries: Where they are in the flat parameter; None for all, in order.
    """

    values: Tensor
    entries: Tensor | None = None

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.values.shape[0]

    def eigenvalues(self) -> Tensor:
        """The diagonal, shape (size,)."""
        return self.values

    def dense(self) -> Tensor:
        """The diagonal matrix in the order of the parameter, shape (size, size)."""
        return _in_order(torch.diag(self.values), self.entries)


Block: TypeAlias = KroneckerBlock | DenseBlock | DiagonalBlock


def spectrum(matrix: Tensor) -> Tensor:
    """The eigenvalues of positive semidefinite matrices; those at the level of rounding are zero.

    Where the prior is weak, rounding would count as curvature.
    """
    values: Tensor = torch.linalg.eigvalsh((matrix + matrix.mT) / 2)
    return above_rounding(values)


def above_rounding(values: Tensor) -> Tensor:
    """Ascending eigenvalues, with those zero that rounding may have made."""
    least = values[..., -1:] * values.shape[-1] * torch.finfo(values.dtype).eps
    return torch.where(values > least, values, 0.0)


def _in_order(matrix: Tensor, entries: Tensor | None) -> Tensor:
    if entries is None:
        return matrix
    order = entries.flatten().argsort()
    return matrix[order][:, order]
