"""Matrix-free linear maps, given by functions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import torch
from torch import Tensor

from isotropy.groups._maps import LinearMap, digest


class Operator(LinearMap):
    """A matrix-free linear map given by functions of tensors of shape (*, n).

    Args:
        size: The dimension n.
        apply: x ↦ M x along the last axis, written in torch.
        transpose: x ↦ Mᵀ x; derived from ``apply`` by automatic differentiation when absent.
        inverse: x ↦ M⁻¹ x; may be absent for orthogonal maps, whose inverse is the transpose.

    Example:
        >>> roll = Operator(4, lambda x: x.roll(1, -1))
        >>> roll.inverse().apply(torch.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([2., 3., 4., 1.])
    """

    def __init__(
        self,
        size: int,
        apply: Callable[[Tensor], Tensor],
        transpose: Callable[[Tensor], Tensor] | None = None,
        inverse: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.size = size
        self.batch = torch.Size()
        self._function = apply
        self._transpose = transpose or _linear_transpose(apply)
        self._inverse = inverse

    def _apply(self, x: Tensor) -> Tensor:
        y = self._function(x)
        if y.shape != x.shape:
            raise ValueError(
                f"expected an operator that keeps the shape {tuple(x.shape)}, got {tuple(y.shape)}"
            )
        return y

    def require_linear(self, what: str) -> None:
        """Refuse a function that is not linear, as random vectors see it.

        Raises:
            ValueError: If f(x + 2y) differs from f(x) + 2f(y), or the shape changes.
        """
        rng = torch.Generator().manual_seed(0)
        x, y = torch.randn(2, self.size, dtype=torch.float64, generator=rng)
        expected = self.apply(x) + 2 * self.apply(y)
        error = (self.apply(x + 2 * y) - expected).abs().max()
        if not bool(error <= 1e-8 * (1 + expected.abs().max())):
            raise ValueError(f"expected {what} to be linear, got an error of {float(error):.1e}")

    def transpose(self) -> Operator:
        inverse = None if self._inverse is None else _linear_transpose(self._inverse)
        return Operator(self.size, self._transpose, self._function, inverse)

    @cached_property
    def is_orthogonal(self) -> bool:
        """Whether MᵀM = 1, as random vectors see it."""
        probe = torch.randn(
            3, self.size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)
        )
        return bool((self._transpose(self.apply(probe)) - probe).abs().max() < 1e-9)

    def inverse(self) -> Operator:
        if self._inverse is not None:
            return Operator(self.size, self._inverse, None, self._function)
        if self.is_orthogonal:
            return Operator(self.size, self._transpose, self._function, self._function)
        raise ValueError(
            "expected an inverse for an operator that is not orthogonal, got none; "
            "give Operator(..., inverse=...)"
        )

    def scaled(self, factor: float) -> Operator:
        return Operator(
            self.size, lambda x: factor * self._function(x), lambda x: factor * self._transpose(x)
        )

    def det(self) -> Tensor:
        determinant: Tensor = torch.linalg.det(self.dense())
        return determinant

    def trace(self) -> Tensor:
        return self.dense().diagonal().sum()

    def unsqueeze(self, dims: int) -> Operator:  # noqa: ARG002  (as of every linear map)
        return self

    def select(self, index: int | Tensor) -> LinearMap:  # noqa: ARG002  (likewise)
        raise TypeError("an operator is a single map and cannot be indexed")

    @property
    def is_complex(self) -> bool:
        return False

    @property
    def by_value(self) -> bool:
        return False

    def value(self) -> bytes:
        return digest(b"operator", f"{self.size} {id(self._function)}".encode())


def _linear_transpose(apply: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The transpose of a linear function, by reverse-mode differentiation at zero."""

    def transposed(x: Tensor) -> Tensor:
        transposed_value: Tensor = torch.func.vjp(apply, torch.zeros_like(x))[1](x)[0]
        return transposed_value

    return transposed
