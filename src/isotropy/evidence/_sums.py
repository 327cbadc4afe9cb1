"""What a pass over data adds up, batch by batch and process by process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from isotropy.evidence._curvature_blocks import Block, DenseBlock, DiagonalBlock, KroneckerBlock

# measured on a processor: from which width, and from how many numbers in a block of rows, it pays
# to compute a square in strips, each from the diagonal on; and how many strips
_WIDE, _MANY, _STRIPS = 64, 2**15, 4

Structure: TypeAlias = Literal["kronecker", "block", "diagonal", "full"]


class GramSum:
    """Σ rrᵀ over rows r that come in parts, in float64.

    Rounding would count as curvature where the prior is weak.

    Args:
        blocks: Whether rows are (*, blocks, width), with a sum for each block; (*, width)
            otherwise.
    """

    def __init__(self, *, blocks: bool = False) -> None:
        self._blocks, self._half = blocks, False
        self._sum: Tensor | None = None

    @property
    def begun(self) -> bool:
        """Whether there is anything in it."""
        return self._sum is not None

    def add(self, rows: Tensor) -> None:
        """Add some rows."""
        rows = rows if self._blocks else rows.unsqueeze(-2)
        # they add up in any order, and that of memory is the quickest to read
        order = sorted(range(rows.ndim - 2), key=rows.stride, reverse=True)
        rows = rows.permute(*order, -2, -1)
        known = rows if self._sum is None else self._sum
        graph = torch.is_grad_enabled() and (rows.requires_grad or known.requires_grad)
        if graph or rows.is_cuda or not _pays_in_strips(rows):
            columns = _columns(rows)
            if self._sum is None:
                self._sum = columns @ columns.mT
            elif graph:
                self._sum = self._sum + columns @ columns.mT
            else:
                self._sum.baddbmm_(columns, columns.mT)
            return
        if self._sum is None:
            width = rows.shape[-1]
            self._sum = rows.new_zeros(rows.shape[-2], width, width, dtype=torch.float64)
        self._half = True
        for k, total in enumerate(self._sum):
            columns = _columns(rows[..., k : k + 1, :])[0]
            for strip in _strips(len(total)):
                rest = slice(strip.start, None)
                total[strip, rest].addmm_(columns[strip], columns[rest].mT)

    def total(self) -> Tensor:
        """The sum so far, shape (blocks, width, width); one block where there are none."""
        assert self._sum is not None
        if self._half:
            for strip in _strips(self._sum.shape[-1]):
                rest = slice(strip.stop, None)
                self._sum[:, rest, strip] = self._sum[:, strip, rest].mT
            self._half = False
        return self._sum


def _columns(rows: Tensor) -> Tensor:
    """Rows as columns in float64, (*, blocks, width) to (blocks, width, rows)."""
    if rows.shape[-2] == 1 and rows.stride(-1) == 1:
        return _wide(rows).reshape(1, -1, rows.shape[-1]).mT
    return _wide(rows.movedim((-2, -1), (0, 1))).flatten(2)


def _wide(rows: Tensor) -> Tensor:
    return rows.to(torch.float64, memory_format=torch.contiguous_format)


def _pays_in_strips(rows: Tensor) -> bool:
    return rows.shape[-1] >= _WIDE and rows.numel() >= _MANY * rows.shape[-2]


def _strips(width: int) -> list[slice]:
    step = -(-width // _STRIPS)
    return [slice(first, min(first + step, width)) for first in range(0, width, step)]


@dataclass(eq=False)
class KroneckerSums:
    """Σ aaᵀ and Σ ggᵀ over all rows of an operation, and the number of rows.

    Attributes:
        input: Σ aaᵀ, shape (blocks, in, in).
        output: Σ ggᵀ, shape (blocks, out, out); (1, out, out) where it is over blocks, too.
        rows: How many rows were added to ``input``.
        entries: Where the weights are in the flat parameter; None for all, in order.
    """

    input: Tensor
    output: Tensor
    rows: Tensor
    entries: Tensor | None

    def tensors(self) -> list[Tensor]:
        """All that adds up."""
        return [self.input, self.output, self.rows]

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        self.input, self.output, self.rows = values

    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        # |Σ ab|² ≤ Σ a² Σ b²: a Gram matrix is finite where its diagonal is
        diagonals = (factor.diagonal(dim1=-2, dim2=-1) for factor in (self.input, self.output))
        return all(map(_finite, diagonals))

    def block(self, scale: float) -> Block:
        """The curvature, for ``scale`` times as many data."""
        sharing = len(self.input) // len(self.output)  # blocks with one output factor, their mean
        return KroneckerBlock(self.input / self.rows, self.output * (scale / sharing), self.entries)


@dataclass(eq=False)
class DenseSums:
    """Σ GᵀG over the gradients G of samples with respect to some entries of a parameter."""

    matrix: Tensor
    entries: Tensor | None

    def tensors(self) -> list[Tensor]:
        """All that adds up."""
        return [self.matrix]

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        (self.matrix,) = values

    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        return _finite(self.matrix.diagonal())  # of a Gram matrix, as above

    def block(self, scale: float) -> Block:
        """The curvature, for ``scale`` times as many data."""
        return DenseBlock(self.matrix * scale, self.entries)


@dataclass(eq=False)
class DiagonalSums:
    """The diagonal of Σ GᵀG."""

    values: Tensor

    def tensors(self) -> list[Tensor]:
        """All that adds up."""
        return [self.values]

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        (self.values,) = values

    def is_finite(self) -> bool:
        """Whether all numbers are finite."""
        return _finite(self.values)

    def block(self, scale: float) -> Block:
        """The curvature, for ``scale`` times as many data."""
        return DiagonalBlock(self.values * scale)


def _finite(values: Tensor) -> bool:
    return bool(values.isfinite().all())


PartSums: TypeAlias = KroneckerSums | DenseSums | DiagonalSums


@dataclass(eq=False)
class Sums:
    """All sums of one pass.

    Attributes:
        parts: By parameter and part; the GGN of all parameters together is ("", 0).
        statistics: Of the likelihood, shape (2,).
        samples: How many samples went in.
        total: How many there are.
        class_counts: How many samples there were of each class; empty where there are none.
    """

    statistics: Tensor
    samples: Tensor
    total: Tensor
    class_counts: Tensor
    parts: dict[tuple[str, int], PartSums] = field(default_factory=dict)

    def _parts(self) -> list[PartSums]:
        return [self.parts[key] for key in sorted(self.parts)]  # the same in all processes

    def tensors(self) -> list[Tensor]:
        """All that adds up, in a fixed order."""
        own = [self.statistics, self.samples, self.total, self.class_counts]
        return [*own, *(t for s in self._parts() for t in s.tensors())]

    def by_name(self) -> dict[tuple[str, int, int], Tensor]:
        """The tensors that curvature is made of, and the statistics, by place."""
        found = {("statistics", 0, 0): self.statistics}
        for (name, part), sums in self.parts.items():
            found.update({(name, part, k): t for k, t in enumerate(sums.tensors())})
        return found

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        self.statistics, self.samples, self.total, self.class_counts, *rest = values
        for sums in self._parts():
            count = len(sums.tensors())
            sums.set_tensors(rest[:count])
            rest = rest[count:]

    def add_up(self, process_group: torch.distributed.ProcessGroup) -> None:
        """Sum over the processes of a group, in place."""
        added = []
        for tensor in self.tensors():
            tensor = tensor.detach().clone()
            torch.distributed.all_reduce(tensor, group=process_group)
            added.append(tensor)
        self.set_tensors(added)

    @property
    def scale(self) -> float:
        """How many samples each that went in stands for."""
        return float(self.total / self.samples)

    def blocks(self) -> dict[str, list[Block]]:
        """The curvature of every parameter, for all data."""
        scale = self.scale
        found: dict[str, list[Block]] = {}
        for (name, _), sums in sorted(self.parts.items()):
            found.setdefault(name, []).append(sums.block(scale))
        return found
