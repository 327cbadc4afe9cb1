"""Subsampling that commutes with every shift: maps themselves choose the phase to keep."""

from __future__ import annotations

import torch
from torch import Tensor, nn

# values that differ by less, relatively, may be one value in another order of summation
_EQUAL = 1e-5


class PolyphasePool2d(nn.Module):
    r"""Every second row and column, starting where each sample has its largest value.

    Of the four phases x[…, i::2, j::2] of a sample the one with the largest max |x| is kept,
    over all channels and slices together (Chaman and Dokmanic 2021; van der Ouderaa et al. 2023,
    appendix F.2, with the l∞ norm). A shift of the maps by one pixel changes which phase that is
    and not what it holds, so the layer commutes with all shifts of the torus, and with quarter
    turns and flips; the coarse maps shift by half as much, rounded up or down.

    Each sample chooses for itself, whatever else is in the batch. Slices of a group convolution
    lie on one grid and must stay on one, so they choose together. Where several phases have the
    same largest value, as in images with flat areas, that of them with the largest Σ m² is kept,
    m the largest |x| of all channels at a place; where these are equal too, the first in order of
    (i, j), which no shift can follow.

    Args:
        per_slice: Whether each slice of (n, channels, slices, h, w) chooses for itself. That is
            right only where slices never meet before they are at one place, as in a network of
            pointwise group convolutions: slice k is then what the network makes of a turned
            image on its own (appendix F.3).

    Example:
        >>> x = torch.tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, -9.0]])
        >>> pool = PolyphasePool2d()
        >>> pool(x[None, None])
        tensor([[[[ 5., -9.]]]])
        >>> pool(x.roll(1, 1)[None, None])
        tensor([[[[-9.,  5.]]]])
    """

    def __init__(self, *, per_slice: bool = False) -> None:
        super().__init__()
        self.per_slice = per_slice

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, h, w) or (n, channels, slices, h, w) to maps of h/2 by w/2."""
        height, width = _sides_to_halve(x)
        if self.per_slice and x.ndim != 5:
            raise ValueError(
                f"expected slices (n, channels, slices, h, w) to choose one by one, got shape "
                f"{tuple(x.shape)}"
            )
        together = 1 if self.per_slice or x.ndim == 4 else (1, 2)
        with torch.no_grad():
            # channels first: memory is then read in order
            phases = _of_phases(x.abs().amax(together, keepdim=True))
            largest = phases.amax((-4, -2)).flatten(-2)
            energy = phases.square().sum((-4, -2)).flatten(-2)
            level = largest >= (1 - _EQUAL) * largest.amax(-1, keepdim=True)
            phase = energy.where(level, -1).argmax(-1, keepdim=True)
        rows = 2 * width * torch.arange(height // 2, device=x.device)
        columns = 2 * torch.arange(width // 2, device=x.device)
        pixels = (rows[:, None] + columns).flatten() + phase // 2 * width + phase % 2
        kept: Tensor = x.flatten(-2).gather(-1, pixels.expand(*x.shape[:-2], -1))
        return kept.reshape(*x.shape[:-2], height // 2, width // 2)

    def extra_repr(self) -> str:
        """The arguments, for ``print``."""
        return "per_slice=True" if self.per_slice else ""


class GroupPool(nn.Module):
    """The largest value over all slices: what is left does not change as slices are permuted.

    Example:
        >>> GroupPool()(torch.randn(2, 3, 4, 5, 5)).shape
        torch.Size([2, 3, 5, 5])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, channels, slices, h, w) to (n, channels, h, w)."""
        if x.ndim != 5:
            raise ValueError(
                f"expected features of shape (n, channels, slices, h, w), got {tuple(x.shape)}"
            )
        return x.amax(2)


def _of_phases(maps: Tensor) -> Tensor:
    height, width = maps.shape[-2:]
    split: Tensor = maps.unflatten(-1, (width // 2, 2)).unflatten(-3, (height // 2, 2))
    return split


def _sides_to_halve(x: Tensor) -> tuple[int, int]:
    if x.ndim not in (4, 5):
        raise ValueError(
            f"expected maps of shape (n, channels, h, w) or (n, channels, slices, h, w), got "
            f"{tuple(x.shape)}"
        )
    height, width = x.shape[-2:]
    if min(height, width) < 2:
        raise ValueError(
            f"expected maps of at least 2 by 2 to halve, got {height} by {width}: the maps are too "
            "small for another stride"
        )
    if height % 2 or width % 2:
        raise ValueError(
            f"expected maps of even height and width to halve, got {height} by {width}: on an odd "
            "torus the phases are not shifts of each other"
        )
    return height, width
