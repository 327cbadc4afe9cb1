"""Linear spaces of weight matrices: from free coefficients to the matrix, and back.

A space holds no parameters. It maps coefficients β to a matrix W that commutes with the group
by construction, and any matrix to the coefficients of the nearest such one. Coefficients are in
weight units: one step of β moves the weights that it touches by about one step, so that
learning rates and priors mean what they mean for an ordinary layer.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from isotropy.nn._constants import ExactConstants
from isotropy.nn._row_products import RowProduct


class WeightSpace(ExactConstants):
    """A linear space of matrices W (out × in), or of vectors (out,).

    Attributes:
        shape: The shape of W.
        rank: The number of coefficients.
    """

    shape: tuple[int, ...]
    rank: int

    @abstractmethod
    def forward(self, coefficients: Tensor) -> Tensor:
        """The matrix with these coefficients."""

    @abstractmethod
    def coordinates(self, weight: Tensor) -> Tensor:
        """The coefficients of the matrix of this space that is nearest to ``weight``."""

    @abstractmethod
    def initial(
        self, dtype: torch.dtype | None = None, device: torch.device | str | None = None
    ) -> Tensor:
        """Random coefficients, as ``torch.nn.Linear`` draws its weights: ±1/√fan-in."""

    @abstractmethod
    def row_counts(self) -> Tensor:
        """How many weights that can differ from zero lead to each output: the fan-in, (out,)."""

    @abstractmethod
    def squared_lengths(self) -> Tensor:
        """‖W‖² for one unit of each coefficient alone, shape (rank,).

        The matrices of different coefficients are orthogonal, so that ‖W(β)‖² = Σ cᵢ|βᵢ|².
        """

    @abstractmethod
    def products(self) -> list[RowProduct]:
        """W x as products of rows with coefficients; vectors are maps of the number one."""

    def right_inverse(self, weight: Tensor) -> Tensor:
        """As ``coordinates``; the name under which torch's parametrisations ask for it."""
        return self.coordinates(weight)


def drawn_by_fan_in(
    fan_in: Tensor, dtype: torch.dtype | None, device: torch.device | str | None
) -> Tensor:
    """Numbers drawn uniformly from ±1/√fan-in; complex ones with that variance."""
    bound = fan_in.clamp_min(1).rsqrt()
    if dtype is not None and dtype.is_complex:
        beta = torch.randn(len(fan_in), dtype=dtype, device=device) / 3**0.5
    else:
        beta = 2 * torch.rand(len(fan_in), dtype=dtype, device=device) - 1
    return beta * bound.to(beta.device, beta.dtype)
