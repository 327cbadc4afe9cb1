"""Curvature of some entries of a parameter: Kronecker-factored, dense or diagonal."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy._run import require_memory

_ALIKE = 1e-6  # relative: lengths may be those of single precision


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

    def relative_to(self, lengths: Tensor) -> KroneckerBlock | DenseBlock:
        """C^-½ H C^-½ for squared lengths c of the flat parameter, in float64.

        A Kronecker product again where c[o,i] = r[o] s[i] in every block; dense otherwise.
        """
        c = lengths if self.entries is None else lengths[self.entries.flatten()]
        c = c.reshape(len(self.input), self.output.shape[-1], self.input.shape[-1])
        columns, rows = c[:, :1], c[..., :1] / c[:, :1, :1]
        if not _is_close(rows * columns, c):
            return self._dense_relative_to(lengths)
        root = columns.rsqrt()
        inner, outer = self.input * root.mT * root, self.output
        if bool((rows != 1).any()):
            root = rows.rsqrt()
            root = root[:1] if _is_close(rows, rows[:1]) else root  # a shared factor stays so
            outer = outer * root * root.mT
        return KroneckerBlock(inner, outer, self.entries)

    def _dense_relative_to(self, lengths: Tensor) -> DenseBlock:
        require_memory(
            32 * self.size**2,
            f"the curvature of {self.size:,} entries whose squared lengths are no product",
            "take structure='diagonal'",
        )
        order = None if self.entries is None else self.entries.flatten().sort().values
        return DenseBlock(self.dense(), order).relative_to(lengths)


@dataclass(frozen=True, eq=False)
class DenseBlock:
    """H itself, without further approximation."""

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

    def relative_to(self, lengths: Tensor) -> DenseBlock:
        """C^-½ H C^-½ for squared lengths c of the flat parameter, in float64."""
        root = (lengths if self.entries is None else lengths[self.entries.flatten()]).rsqrt()
        return DenseBlock(root.unsqueeze(1) * self.matrix * root, self.entries)


@dataclass(frozen=True, eq=False)
class DiagonalBlock:
    """The diagonal of H."""

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

    def relative_to(self, lengths: Tensor) -> DiagonalBlock:
        """C^-½ H C^-½ for squared lengths c of the flat parameter, in float64."""
        c = lengths if self.entries is None else lengths[self.entries.flatten()]
        return DiagonalBlock(self.values / c, self.entries)


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


def _is_close(some: Tensor, other: Tensor) -> bool:
    return bool(((some - other).abs() <= _ALIKE * other).all())


def _in_order(matrix: Tensor, entries: Tensor | None) -> Tensor:
    if entries is None:
        return matrix
    order = entries.flatten().argsort()
    return matrix[order][:, order]
