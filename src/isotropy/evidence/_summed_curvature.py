"""One batch of any network: the diagonal of its curvature, from gradients of random sums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from isotropy.evidence._sums import DiagonalSums, Sums


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
