"""Convolutions on a torus, which commute with circular shifts."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.nn._patches import padded


class CircularConv2d(nn.Conv2d):
    """CONV: a convolution that wraps around, so that it commutes with every circular shift.

    The same function as ``torch.nn.Conv2d`` with circular padding, padded in a way that is
    quicker to differentiate. Maps keep their size.

    Args:
        in_channels: Channels of the input.
        out_channels: Channels of the output.
        kernel_size: An odd number.
        bias: Whether there is one; it starts at zero.
        device: Where the parameters live.
        dtype: Their precision.

    Raises:
        ValueError: If the kernel is not of an odd size; on use, if a map is smaller than half of
            it.

    Example:
        >>> layer = CircularConv2d(3, 8)
        >>> x = torch.randn(5, 3, 6, 6)
        >>> torch.allclose(layer(x.roll(1, -1)), layer(x).roll(1, -1), atol=1e-6)
        True
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int = 3,
        *,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        whole = isinstance(kernel_size, int) and not isinstance(kernel_size, bool)
        if not whole or kernel_size < 1 or kernel_size % 2 == 0:
            raise ValueError(f"expected an odd kernel size, got {kernel_size!r}")
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            padding=kernel_size // 2,
            padding_mode="circular",
            bias=bias,
            device=device,
            dtype=dtype,
        )

    def reset_parameters(self) -> None:
        """Draw new weights for ReLU after it (He et al. 2015); the bias starts at zero."""
        nn.init.kaiming_uniform_(self.weight, nonlinearity="relu")
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        side = self.kernel_size[0] // 2
        if min(input.shape[-2:]) < side:
            height, width = input.shape[-2:]
            raise ValueError(
                f"expected maps of at least {side} by {side} for a kernel of "
                f"{self.kernel_size[0]}, got {height} by {width}"
            )
        return functional.conv2d(padded(input, [(side, side)] * 2, "circular"), weight, bias)
