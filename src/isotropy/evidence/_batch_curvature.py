"""One batch: its operations forwards, the roots of its output curvature backwards."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor

from isotropy._run import require_memory
from isotropy.evidence._sample_gradients import sample_gradients, scattered
from isotropy.evidence._sharing import SharingModes
from isotropy.evidence._sums import DenseSums, DiagonalSums, GramSum, KroneckerSums, Structure, Sums
from isotropy.nn._recorder import LinearOperation

_LARGEST_GRADIENTS = 2**25  # numbers in the gradients of a few samples together

_Rows: TypeAlias = tuple[LinearOperation, Tensor, Tensor]


def places_of_whole(
    operations: Sequence[LinearOperation], structure: Structure, sharing: SharingModes, samples: int
) -> set[int]:
    """The places of operations whose curvature is not a Kronecker product.

    All uses of the same weights are treated as one. Scales of a normalisation (blocks of one
    number) are exact where their rows are samples; where these were flattened together with
    other axes, each has the product of its own two moments.
    """
    if structure != "kronecker":
        return set(range(len(operations)))

    def fits(operation: LinearOperation) -> bool:
        if sharing.factorises(operation):
            return True
        rows = operation.gradient_rows(operation.output.detach())
        return operation.exact and operation.blocks and rows.shape[0] != samples

    unfit = {(o.parameter, o.part) for o in operations if not fits(o)}
    return {k for k, o in enumerate(operations) if (o.parameter, o.part) in unfit}


class BatchCurvature:
    """Adds the curvature of one batch to the sums of a pass: column by column, then ``finish``."""

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
        # what no gradient can reach, such as a call under no_grad, is no part of the outputs
        operations = [o for o in operations if o.output.requires_grad]
        self.outputs = list({id(o.output): o.output for o in operations}.values())
        whole = places_of_whole(operations, structure, sharing, samples)
        self.together = _together([o for k, o in enumerate(operations) if k not in whole], sharing)
        self.whole = [o for k, o in enumerate(operations) if k in whole]
        self.input_rows: dict[int, Tensor] = {}  # of those of ``whole``: every column wants them

    def _rows_by_sample(self, operation: LinearOperation) -> Tensor:
        rows = operation.input_rows()
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
            gram = operation.gram(operation.input.double())
            gram = gram.reshape(-1, *gram.shape[-2:]).clone()  # more will be added in place
            count = outputs.numel() // (blocks * outputs.shape[-1])
        else:
            by_sample = bool(sharing.reduced_axes(operation))
            rows = self._rows_by_sample(operation) if by_sample else operation.input_rows()
            rows = sharing.input_rows(operation, rows)
            if (operation.parameter, operation.part) not in self.sums.parts:
                width = rows.shape[-1]
                require_memory(
                    32 * rows.shape[-2] * width * width,
                    f"a factor of {width:,} inputs of {operation.parameter}",
                    "take structure='diagonal', or freeze that layer",
                )
            squares = GramSum(blocks=True)
            squares.add(rows)
            gram, count = squares.total(), rows.shape[:-2].numel()
        key = operation.parameter, operation.part
        sums = self.sums.parts.get(key)
        if sums is None:
            width = outputs.shape[-1]
            apart = len(gram) if sharing.tells_blocks_apart(operation) else 1
            empty = gram.new_zeros(apart, width, width)
            entries = sharing.entries(operation, blocks, width)
            self.sums.parts[key] = KroneckerSums(gram, empty, gram.new_full((), count), entries)
        else:
            assert isinstance(sums, KroneckerSums)
            sums.input = _added(sums.input, gram)
            sums.rows = sums.rows + count

    def add_columns(self, gradients: Sequence[Tensor | None], columns: int = 1) -> None:
        """Add what one or several columns of the root of the output curvature give.

        Args:
            gradients: For each of ``outputs`` the gradient there, shape (columns, samples, …);
                None where the output leads nowhere.
            columns: How many columns there are.
        """
        flat = [None if g is None else g.flatten(0, 1) for g in gradients]
        at = {id(o): g for o, g in zip(self.outputs, flat, strict=True)}
        for operations, squares in self.together:
            gradient = at[id(operations[0].output)]
            if gradient is None:
                continue
            if not squares.begun:  # only what matters for the outputs
                for operation in operations:
                    self._add_input(operation)
            one = next(filter(self.sharing.tells_blocks_apart, operations), operations[0])
            squares.add(self.sharing.gradient_rows(one, one.gradient_rows(gradient)))
        whole = []
        for operation in self.whole:
            gradient = at[id(operation.output)]
            if gradient is None:
                continue
            if id(operation) not in self.input_rows:
                self.input_rows[id(operation)] = self._rows_by_sample(operation)
            rows = operation.gradient_rows(gradient)
            whole.append((operation, self.input_rows[id(operation)], rows))
        for column in range(columns):
            own = slice(column * self.samples, (column + 1) * self.samples)
            self._add_whole([(operation, a, g[own]) for operation, a, g in whole])

    def finish(self) -> None:
        """Add the output factors, once all columns are in."""
        for operations, squares in self.together:
            if not squares.begun:
                continue
            gram = squares.total()
            for operation in operations:
                sums = self.sums.parts[operation.parameter, operation.part]
                assert isinstance(sums, KroneckerSums)
                own = gram if len(sums.output) == len(gram) else gram.sum(0, keepdim=True)
                sums.output = _added(sums.output, own)

    def _add_whole(self, rows: Sequence[_Rows]) -> None:
        """Add GᵀG of the gradients G of single samples, tensor by tensor where it can be."""
        if self.structure == "full":
            if rows:
                self._add_together(rows)
            return
        by_name: dict[str, list[_Rows]] = {}
        for one in rows:
            by_name.setdefault(one[0].parameter, []).append(one)
        for name, own in by_name.items():
            if self.structure == "diagonal" and len(own) == 1 and _is_plain(*own[0][:2]):
                size = self.parameters[name].numel()
                self._add_squares(name, _plain_squares(*own[0], size))
            else:
                self._add_together(own)

    def _add_together(self, rows: Sequence[_Rows]) -> None:
        """Add what some operations give together, a few samples at a time."""
        names = {operation.parameter for operation, *_ in rows}
        size = sum(self.parameters[name].numel() for name in names)
        step = max(1, _LARGEST_GRADIENTS // size)
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
                self._add_squares(name, gradient.double().square().sum(0))

    def _add_squares(self, name: str, squares: Tensor) -> None:
        sums = self.sums.parts.setdefault((name, 0), DiagonalSums(squares * 0))
        assert isinstance(sums, DiagonalSums)
        sums.values = _added(sums.values, squares)

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
        columns = gradient.double()
        sums.matrix = _added(sums.matrix, columns.mT @ columns)


def _together(
    operations: Sequence[LinearOperation], sharing: SharingModes
) -> list[tuple[list[LinearOperation], GramSum]]:
    """Operations with the same rows of a gradient, such as a weight and its bias.

    The squares of these rows are computed once: all of them together are the sum over blocks.
    """
    found: dict[Hashable, list[LinearOperation]] = {}
    for operation in operations:
        rows: tuple[Hashable, ...] = id(operation.output), _known(operation.gather)
        if sharing.reduces(operation):
            rows = *rows, operation.axes, operation.blocks
        found.setdefault(rows, []).append(operation)
    return [
        (some, GramSum(blocks=any(map(sharing.tells_blocks_apart, some))))
        for some in found.values()
    ]


def _added(total: Tensor, more: Tensor) -> Tensor:
    """The sum, in place where no graph is kept: factors are large."""
    return total + more if total.requires_grad or more.requires_grad else total.add_(more)


def _is_plain(operation: LinearOperation, a: Tensor) -> bool:
    """Whether every sample has one row, so that its gradient is one product g aᵀ."""
    return not operation.blocks and a.shape[:-1].numel() == a.shape[0]


def _plain_squares(operation: LinearOperation, a: Tensor, g: Tensor, size: int) -> Tensor:
    """Σ (g aᵀ)² over samples, entry by entry, in the order of the parameter."""
    a, g = (rows.double().reshape(len(rows), -1).square() for rows in (a, g))
    squares = (g.mT @ a).flatten()
    if operation.entries is None:
        return squares
    return squares.new_zeros(size).index_add(0, operation.entries.flatten(), squares)


def _known(function: object) -> Hashable:
    """What is equal for functions that are known to do the same."""
    if isinstance(function, partial):
        keywords = tuple((name, _known(value)) for name, value in function.keywords.items())
        return function.func, tuple(map(_known, function.args)), keywords
    return function if isinstance(function, Hashable) else id(function)
