"""Gradients of single samples, and the diagonal curvature of a batch from random sums of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from isotropy.evidence._sums import DiagonalSums, Sums
from isotropy.nn._recorder import LinearOperation


def weight_shape(operation: LinearOperation, input_rows: Tensor, rows: Tensor) -> tuple[int, ...]:
    """(blocks, out, in) of the weights of an operation; one block where it has none."""
    blocks = input_rows.shape[-2] if operation.blocks else 1
    return blocks, rows.shape[-1], input_rows.shape[-1]


def sample_gradients(operation: LinearOperation, input_rows: Tensor, rows: Tensor) -> Tensor:
    """Σ_r g_r a_rᵀ for every sample, shape (samples, blocks · out · in), in the order of W.

    Args:
        operation: The operation.
        input_rows: Rows of its input, shape (samples, *axes, [blocks,] in).
        rows: Rows of a gradient at its output, shape (samples, *axes, [blocks,] out).
    """
    blocks, out, into = weight_shape(operation, input_rows, rows)
    a = input_rows.reshape(input_rows.shape[0], -1, blocks, into)
    g = rows.reshape(rows.shape[0], -1, blocks, out)
    return torch.einsum("nrko,nrki->nkoi", g, a).flatten(1)


def scattered(
    gradients: Sequence[tuple[LinearOperation, Tensor]], parameters: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Gradients of whole parameters from those of operations, by name, shape (samples, size).

    Args:
        gradients: Operations, and what ``sample_gradients`` gives for each.
        parameters: The parameters by name.
    """
    found: dict[str, Tensor] = {}
    for operation, gradient in gradients:
        name = operation.parameter
        whole = found.get(name)
        if whole is None:
            whole = gradient.new_zeros(gradient.shape[0], parameters[name].numel())
        if operation.entries is None:
            found[name] = whole + gradient
        else:
            found[name] = whole.index_add(1, operation.entries.flatten(), gradient)
    return found


class SummedCurvature:
    """Adds to the sums of a pass what random columns v over a whole batch give.

    With signs that are independent for every sample and output,

        E (Jᵀ v)_i² = Σ_n (J_nᵀ Λ_n J_n)_ii,

    for products of different samples or outputs are zero in the mean. Only Jᵀv is needed, the
    gradient of ⟨v, f⟩ in the parameters, whatever the network does with them.

    Args:
        sums: What to add to.
        parameters: The parameters that count, by name.
    """

    def __init__(self, sums: Sums, parameters: Mapping[str, Tensor]) -> None:
        self.sums, self.names = sums, list(parameters)
        self.outputs = list(parameters.values())

    def add_columns(self, gradients: Sequence[Tensor | None], columns: int = 1) -> None:
        """Add the squares of some gradients.

        Args:
            gradients: For each parameter, shape (columns, *parameter.shape); None where it does
                not reach the outputs.
            columns: How many columns there are.
        """
        for name, gradient in zip(self.names, gradients, strict=True):
            if gradient is None:
                continue
            squares = gradient.reshape(columns, -1).double().square().sum(0)
            sums = self.sums.parts.setdefault((name, 0), DiagonalSums(torch.zeros_like(squares)))
            assert isinstance(sums, DiagonalSums)
            sums.values = sums.values + squares

    def finish(self) -> None:
        """All is in already."""
