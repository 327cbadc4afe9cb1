"""What every projector of a random subspace shares."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from isotropy._run import amount, require_memory
from isotropy.certificates._counter_random import random_words

# streams of the projectors begin here; those below are for initial weights, one a parameter
FIRST_STREAM = 1 << 32


class Kept(TypedDict, total=False):
    """Where the numbers of a projector are kept, and of which type they are."""

    device: torch.device | str
    dtype: torch.dtype


class Projector(nn.Module, ABC):
    """A fixed matrix P (D × d) that maps a subspace of d dimensions into all D parameters.

    The network has the parameters θ = θ₀ + P w (thesis Eq. 5.3). The columns of P have about unit
    length and are about orthogonal, so that a step of w is as long as the step of θ. P itself is
    formed only by ``dense``. Made by ``projector``; its numbers are no part of a ``state_dict``,
    since the seed names them.

    Attributes:
        D: The number of parameters.
        d: The dimension of the subspace.
    """

    _empty: Tensor

    def __init__(
        self,
        D: int,
        d: int,
        *,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__()
        self.D = D
        self.d = d
        # remembers device and dtype where numbers are made anew at each product
        self._keep("_empty", torch.empty(0, device=device, dtype=dtype))

    @abstractmethod
    def _combine(self, w: Tensor) -> Tensor:
        """P w for each row of ``w``, shape (n, d) to (n, D)."""

    @abstractmethod
    def _coordinates(self, theta: Tensor) -> Tensor:
        """Pᵀ θ for each row of ``theta``, shape (n, D) to (n, d)."""

    def forward(self, w: Tensor) -> Tensor:
        """The parameters' change P w, shape (*, d) to (*, D)."""
        return self._product(w, self.d, transposed=False)

    def transpose(self, theta: Tensor) -> Tensor:
        """The gradient in the subspace Pᵀ θ, shape (*, D) to (*, d)."""
        return self._product(theta, self.D, transposed=True)

    def dense(self) -> Tensor:
        """The matrix P, shape (D, d)."""
        require_memory(
            2 * self._empty.element_size() * self.D * self.d,
            f"the dense projector ({amount(self.D)} × {amount(self.d)})",
            "call the projector, or .transpose(theta), which never form it",
        )
        one = torch.eye(self.d, device=self._empty.device, dtype=self._empty.dtype)
        return self.forward(one).mT

    def extra_repr(self) -> str:
        """The size of P."""
        return f"D={self.D}, d={self.d}"

    def _keep(self, name: str, numbers: Tensor) -> None:
        self.register_buffer(name, numbers, persistent=False)

    def _product(self, x: Tensor, width: int, *, transposed: bool) -> Tensor:
        if x.ndim == 0 or x.shape[-1] != width:
            raise ValueError(
                f"expected a vector of width {width} for a projector of {self.d} dimensions into "
                f"{self.D} parameters, got shape {tuple(x.shape)}"
            )
        own = self._empty
        if (x.dtype, x.device) != (own.dtype, own.device):
            raise ValueError(
                f"expected a vector of {own.dtype} on {own.device}, as the projector, got "
                f"{x.dtype} on {x.device}"
            )
        return _product(self, transposed, x)


def _product(matrix: Projector, transposed: bool, x: Tensor) -> Tensor:
    product: Tensor = _Product.apply(matrix, transposed, x)  # type: ignore[no-untyped-call]
    return product


class _Product(torch.autograd.Function):
    """P w or Pᵀ θ, each the derivative of the other, with nothing kept for the way back."""

    @staticmethod
    def forward(matrix: Projector, transposed: bool, x: Tensor) -> Tensor:
        width = matrix.d if transposed else matrix.D
        rows = x.reshape(x.shape[:-1].numel(), x.shape[-1])
        if 0 in (len(rows), matrix.D, matrix.d):
            return x.new_zeros(*x.shape[:-1], width)
        # half precision is for the network: θ is worth its full precision
        with torch.autocast(x.device.type, enabled=False):
            product = matrix._coordinates(rows) if transposed else matrix._combine(rows)
        return product.view(*x.shape[:-1], width)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        del output
        ctx.matrix, ctx.transposed, _ = inputs

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _product(ctx.matrix, not ctx.transposed, gradient)

    @staticmethod
    def jvp(ctx: Any, _matrix: None, _transposed: None, tangent: Tensor) -> Tensor:
        return _product(ctx.matrix, ctx.transposed, tangent)

    @staticmethod
    def vmap(
        _info: Any, in_dims: tuple[None, None, int], matrix: Projector, transposed: bool, x: Tensor
    ) -> tuple[Tensor, int]:
        return _product(matrix, transposed, x.movedim(in_dims[2], 0)), 0


def random_signs(seed: int, stream: int, count: int) -> Tensor:
    """Numbers of a stream, -1 or 1 with equal chances, as int8 on the CPU.

    Example:
        >>> sorted(set(random_signs(0, 0, 100).tolist()))
        [-1, 1]
    """
    return (random_words(seed, stream, count) < 0).to(torch.int8).mul_(-2).add_(1)
