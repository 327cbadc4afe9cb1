"""What a pass over data adds up, batch by batch and process by process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from isotropy.evidence._blocks import Block, DenseBlock, DiagonalBlock, KroneckerBlock

Structure: TypeAlias = Literal["kronecker", "block", "diagonal", "full"]


@dataclass(eq=False)
class KroneckerSums:
    """Σ aaᵀ and Σ ggᵀ over all rows of an operation, and the number of rows.

    Attributes:
        input: Σ aaᵀ, shape (blocks, in, in).
        output: Σ ggᵀ, shape (blocks, out, out).
        rows: How many rows were added to ``input``.
        entries: Where the weights are in the flat parameter; None for all, in order.
        shares_output: Whether blocks share the mean of their output factors.
    """

    input: Tensor
    output: Tensor
    rows: Tensor
    entries: Tensor | None
    shares_output: bool

    def tensors(self) -> list[Tensor]:
        """All that adds up."""
        return [self.input, self.output, self.rows]

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        self.input, self.output, self.rows = values

    def block(self, scale: float) -> Block:
        """The curvature, for ``scale`` times as many data."""
        output = self.output.mean(0, keepdim=True) if self.shares_output else self.output
        return KroneckerBlock(self.input / self.rows, output * scale, self.entries)


@dataclass(eq=False)
class DenseSums:
    """Σ GᵀG over the gradients G of samples with respect to some entries of a parameter.

    Attributes:
        matrix: The sum, shape (size, size).
        entries: Where the rows are in the flat parameter; None for all, in order.
    """

    matrix: Tensor
    entries: Tensor | None

    def tensors(self) -> list[Tensor]:
        """All that adds up."""
        return [self.matrix]

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        (self.matrix,) = values

    def block(self, scale: float) -> Block:
        """The curvature, for ``scale`` times as many data."""
        return DenseBlock(self.matrix * scale, self.entries)


@dataclass(eq=False)
class DiagonalSums:
    """The diagonal of Σ GᵀG.

    Attributes:
        values: The sum of squares of each entry of the parameter, shape (size,).
    """

    values: Tensor

    def tensors(self) -> list[Tensor]:
        """All that adds up."""
        return [self.values]

    def set_tensors(self, values: list[Tensor]) -> None:
        """Put other values in place of ``tensors``."""
        (self.values,) = values

    def block(self, scale: float) -> Block:
        """The curvature, for ``scale`` times as many data."""
        return DiagonalBlock(self.values * scale)


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
        return [self.parts[key] for key in sorted(self.parts)]  # alike in all processes

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
