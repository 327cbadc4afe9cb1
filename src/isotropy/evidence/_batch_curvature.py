"""One batch: its operations forwards, the roots of its output curvature backwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.evidence._sample_gradients import sample_gradients, scattered
from isotropy.evidence._sharing import SharingModes
from isotropy.evidence._sums import DenseSums, DiagonalSums, KroneckerSums, Structure, Sums
from isotropy.nn import LinearOperation

_LARGEST_GRADIENTS = 2**25  # numbers in the gradients of a few samples together


def places_of_whole(
    operations: Sequence[LinearOperation], structure: Structure, sharing: SharingModes
) -> set[int]:
    """The places of operations whose curvature is not a Kronecker product.

    All uses of the same weights are treated alike.
    """
    if structure != "kronecker":
        return set(range(len(operations)))
    unfit = {(o.parameter, o.part) for o in operations if not sharing.factorises(o)}
    return {k for k, o in enumerate(operations) if (o.parameter, o.part) in unfit}


class BatchCurvature:
    """Adds the curvature of one batch to the sums of a pass.

    Args:
        sums: What to add to.
        operations: The operations of the batch on parameters that count.
        parameters: Those parameters by name.
        samples: The number of samples in the batch.
        structure: What form the curvature takes.
        sharing: What is done along shared axes.
    """

    def __init__(
        self,
        sums: Sums,
        operations: Sequence[LinearOperation],
        parameters: Mapping[str, Tensor],
        samples: int,
        structure: Structure,
        sharing: SharingModes,
    ) -> None:
        self.sums, self.parameters, self.samples = sums, parameters, samples
        self.structure, self.sharing = structure, sharing
        self.outputs = list({id(o.output): o.output for o in operations}.values())
        self.factored: list[LinearOperation] = []
        self.whole: list[tuple[LinearOperation, Tensor]] = []
        whole = places_of_whole(operations, structure, sharing)
        for place, operation in enumerate(operations):
            if place not in whole:
                self.factored.append(operation)
                self._add_input(operation)
            else:  # every column wants the rows of its input again
                self.whole.append((operation, self._rows_by_sample(operation)))

    def _rows_by_sample(self, operation: LinearOperation) -> Tensor:
        rows = _full_precision(operation.input_rows())
        if rows.shape[0] != self.samples:
            raise ValueError(
                f"expected rows of {operation.parameter} sample by sample, got {rows.shape[0]} "
                f"rows for {self.samples} samples: something before it flattens samples together "
                "with other axes, and only Kronecker factors with sharing='expand' can do "
                "without knowing which row is whose"
            )
        return rows

    def _add_input(self, operation: LinearOperation) -> None:
        """Add Σ aaᵀ of an operation, and the number of its rows."""
        sharing, outputs = self.sharing, operation.gradient_rows(operation.output.detach())
        blocks = outputs.shape[-2] if operation.blocks else 1
        if operation.gram is not None and not sharing.reduces(operation):
            gram = operation.gram(_full_precision(operation.input))
            gram = gram.reshape(-1, *gram.shape[-2:])
            count = outputs.numel() // (blocks * outputs.shape[-1])
        else:
            by_sample = bool(sharing.reduced_axes(operation))
            rows = self._rows_by_sample(operation) if by_sample else operation.input_rows()
            rows = sharing.input_rows(operation, _full_precision(rows))
            gram, count = _gram(rows), rows.shape[:-2].numel()
        key = operation.parameter, operation.part
        if key not in self.sums.parts:
            width = outputs.shape[-1]
            self.sums.parts[key] = KroneckerSums(
                torch.zeros_like(gram, dtype=torch.float64),
                gram.new_zeros(gram.shape[0], width, width, dtype=torch.float64),
                gram.new_zeros((), dtype=torch.float64),
                sharing.entries(operation, blocks, width),
                operation.blocks and sharing.along("channel") == "expand",
            )
        sums = self.sums.parts[key]
        assert isinstance(sums, KroneckerSums)
        sums.input = sums.input + gram.double()
        sums.rows = sums.rows + count

    def add_columns(self, gradients: Sequence[Tensor | None], columns: int = 1) -> None:
        """Add what one or several columns of the root of the output curvature give.

        Args:
            gradients: For each of ``outputs`` the gradient there, shape (columns · samples, …)
                with columns slowest; None where the output leads nowhere.
            columns: How many columns there are.
        """
        at = {id(o): g for o, g in zip(self.outputs, gradients, strict=True)}
        for operation in self.factored:
            gradient = at[id(operation.output)]
            if gradient is not None:
                rows = operation.gradient_rows(_full_precision(gradient))
                gram = _gram(self.sharing.gradient_rows(operation, rows))
                sums = self.sums.parts[operation.parameter, operation.part]
                assert isinstance(sums, KroneckerSums)
                sums.output = sums.output + gram.double()
        whole = []
        for operation, input_rows in self.whole:
            gradient = at[id(operation.output)]
            if gradient is not None:
                rows = operation.gradient_rows(_full_precision(gradient))
                whole.append((operation, input_rows, rows))
        for column in range(columns if whole else 0):
            own = slice(column * self.samples, (column + 1) * self.samples)
            self._add_whole([(operation, a, g[own]) for operation, a, g in whole])

    def _add_whole(self, rows: Sequence[tuple[LinearOperation, Tensor, Tensor]]) -> None:
        """Add GᵀG of the gradients G of single samples, a few samples at a time."""
        widest = max(self.parameters[operation.parameter].numel() for operation, *_ in rows)
        step = max(1, _LARGEST_GRADIENTS // widest)
        for start in range(0, self.samples, step):
            few = slice(start, start + step)
            gradients = [(o, sample_gradients(o, a[few], g[few])) for o, a, g in rows]
            if self.structure == "kronecker":
                self._add_parts(gradients)
            else:
                self._add_parameters(scattered(gradients, self.parameters))

    def _add_parts(self, gradients: Sequence[tuple[LinearOperation, Tensor]]) -> None:
        """Dense blocks for operations that have no Kronecker factors; their uses add up."""
        by_part: dict[tuple[str, int], Tensor] = {}
        entries = {}
        for operation, gradient in gradients:
            key = operation.parameter, operation.part
            by_part[key] = by_part[key] + gradient if key in by_part else gradient
            entries[key] = operation.entries
        for key, gradient in by_part.items():
            self._add_dense(key, gradient, entries[key])

    def _add_parameters(self, gradients: Mapping[str, Tensor]) -> None:
        if self.structure == "full":
            some = next(iter(gradients.values()))
            whole = [
                gradients.get(name, some.new_zeros(some.shape[0], parameter.numel()))
                for name, parameter in self.parameters.items()
            ]
            self._add_dense(("", 0), torch.cat(whole, 1), None)
            return
        for name, gradient in gradients.items():
            if self.structure == "block":
                self._add_dense((name, 0), gradient, None)
            else:
                squares = gradient.double().square().sum(0)
                sums = self.sums.parts.setdefault((name, 0), DiagonalSums(squares * 0))
                assert isinstance(sums, DiagonalSums)
                sums.values = sums.values + squares

    def _add_dense(self, key: tuple[str, int], gradient: Tensor, entries: Tensor | None) -> None:
        if key not in self.sums.parts:
            size = gradient.shape[1]
            require_memory(
                40 * size * size,
                f"the curvature of {size:,} entries of {key[0] or 'all parameters'}",
                "take structure='diagonal'"
                + ("" if self.structure == "kronecker" else " or structure='kronecker'"),
            )
            empty = gradient.new_zeros(size, size, dtype=torch.float64)
            self.sums.parts[key] = DenseSums(empty, entries)
        sums = self.sums.parts[key]
        assert isinstance(sums, DenseSums)
        sums.matrix = sums.matrix + (gradient.mT @ gradient).double()


def _gram(rows: Tensor) -> Tensor:
    """Σ rrᵀ over rows, for every block: (*, blocks, width) to (blocks, width, width)."""
    # in this order the rows of a map need no transposition, only a copy of whole maps
    columns = rows.movedim((-2, -1), (0, 1)).flatten(2)
    return columns @ columns.mT


def _full_precision(rows: Tensor) -> Tensor:
    """At least float32: sums of squares are not for half precision."""
    return rows if rows.dtype == torch.float64 else rows.float()
