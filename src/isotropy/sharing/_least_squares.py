"""What a linear least-squares problem keeps of its data: second moments."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class LeastSquares:
    """The squared loss of y ≈ Gx as a function of G, for one data set or a batch of them.

    Args:
        gram: Σ x xᵀ, shape ``(*, n, n)``.
        cross: Σ y xᵀ, shape ``(*, m, n)``.
        square: Σ ‖y‖², shape ``(*)``.
        samples: How many rows were summed.

    Example:
        >>> x, g = torch.eye(2, dtype=torch.float64), torch.tensor([[1.0, 2.0]]).double()
        >>> LeastSquares.of(x, x @ g.mT).solution()
        tensor([[1., 2.]], dtype=torch.float64)
    """

    gram: Tensor
    cross: Tensor
    square: Tensor
    samples: int

    @staticmethod
    def of(x: Tensor | None, y: Tensor) -> LeastSquares:
        """Sum over the rows of data.

        Args:
            x: Inputs, shape ``(*, N, n)``; ``None`` stands for a single input that is always 1, so
                that G is the mean of y.
            y: Targets, shape ``(*, N, m)``.
        """
        x = torch.ones_like(y[..., :1]) if x is None else x
        return LeastSquares(x.mT @ x, y.mT @ x, y.square().sum((-2, -1)), y.shape[-2])

    def __add__(self, other: LeastSquares) -> LeastSquares:
        return LeastSquares(
            self.gram + other.gram,
            self.cross + other.cross,
            self.square + other.square,
            self.samples + other.samples,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (m, n) of the map."""
        return self.cross.shape[-2], self.cross.shape[-1]

    def solution(self) -> Tensor:
        """The map of least squares, the shortest where several are; shape ``(*, m, n)``."""
        inverse: Tensor = torch.linalg.pinv(self.gram, hermitian=True)
        return self.cross @ inverse

    def loss(self, g: Tensor) -> Tensor:
        """The mean over rows and outputs of (y − Gx)².

        Args:
            g: Maps, shape ``(*, m, n)``.
        """
        quadratic = ((g @ self.gram - 2 * self.cross) * g).sum((-2, -1))
        return (quadratic + self.square) / (self.samples * self.shape[0])

    def noise_variance(self) -> Tensor:
        """The residual variance of the least-squares map, its degrees of freedom taken off.

        Raises:
            ValueError: If there are not more rows than inputs.
        """
        m, n = self.shape
        if self.samples <= n:
            raise ValueError(
                f"expected more rows than the {n} inputs, to know the noise from the signal, "
                f"got {self.samples}"
            )
        residual = self.loss(self.solution()) * self.samples / (self.samples - n)
        # below this a residual is rounding, however exact the fit
        return residual.clamp_min(1e-12 * self.square / (self.samples * m) + 1e-300)
