"""Layers that know nothing of slices, beside group convolutions."""

from __future__ import annotations

from torch import Tensor, nn


class OnSlices(nn.Module):
    """A layer of maps that takes the slices of a lifted map for further channels.

    So a convolution or a free layer can be a path beside ``GroupConv2d``.

    Args:
        path: From maps of slices · channels to maps of slices · other channels.
        slices: How many there are: 4 for p4, 8 for p4m.

    Example:
        >>> import torch
        >>> from isotropy.nn import CircularConv2d, GroupConv2d, PathSum
        >>> paths = {"turns": GroupConv2d(2, 3), "shifts": OnSlices(CircularConv2d(8, 12), 4)}
        >>> PathSum(paths)(torch.randn(5, 2, 4, 6, 6)).shape
        torch.Size([5, 3, 4, 6, 6])
    """

    def __init__(self, path: nn.Module, slices: int) -> None:
        super().__init__()
        self.path, self.slices = path, slices

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, slices, h, w) to (n, other channels, slices, h', w')."""
        if x.ndim != 5 or x.shape[2] != self.slices:
            raise ValueError(
                f"expected maps of shape (n, channels, {self.slices}, h, w), got {tuple(x.shape)}"
            )
        lifted: Tensor = self.path(x.flatten(1, 2)).unflatten(1, (-1, self.slices))
        return lifted
