"""Images as a network was trained on them: their size, and the scale of their channels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy.data import resized, standardised


@dataclass(frozen=True, eq=False)
class ImageUnits:
    """Brings images to one size, and channels to zero mean and unit variance.

    Args:
        channels: How many channels images have.
        size: Height and width to which images are resized; None for those that they have.
        factor: What pixels are multiplied with, float64, shape (channels, 1, 1).
        offset: What is added then, likewise.

    Example:
        >>> units = ImageUnits.of(torch.tensor([[[[0.0, 4.0]]]]))
        >>> units(torch.tensor([[[[2.0, 6.0]]]]))
        tensor([[[[0., 2.]]]])
    """

    channels: int
    size: int | None
    factor: Tensor
    offset: Tensor

    @classmethod
    def of(cls, images: Any, size: int | None = None) -> ImageUnits:
        """The units in which these images are standardised.

        Args:
            images: Pixels, shape (n, c, h, w): uint8, or any floats.
            size: Height and width; None to keep those of the images.

        Raises:
            TypeError: If the pixels are of another kind.
            ValueError: If the shape is wrong, or a pixel is not finite.
        """
        pixels = _pixels(images, size)
        ends = torch.tensor([0.0, 1.0], dtype=torch.float64, device=pixels.device)
        # what becomes of black and white tells what becomes of all between
        low, high = ends.reshape(2, 1, 1, 1).expand(2, pixels.shape[1], 1, 1).split(1)
        _, black, white = standardised(pixels, low, high)
        return cls(pixels.shape[1], size, (white - black)[0].cpu(), black[0].cpu())

    def __call__(self, images: Any) -> Tensor:
        """Images in these units, in their own precision.

        Raises:
            TypeError: As ``of``.
            ValueError: As ``of``, or if there are more channels or fewer.
        """
        pixels = _pixels(images, self.size)
        if pixels.shape[1] != self.channels:
            raise ValueError(f"expected images of {self.channels} channels, got {pixels.shape[1]}")
        return pixels * self.factor.to(pixels) + self.offset.to(pixels)


def _pixels(images: Any, size: int | None) -> Tensor:
    given = torch.as_tensor(images) if isinstance(images, np.ndarray) else images
    if not isinstance(given, Tensor):
        raise TypeError(f"expected images as a tensor or an array, got {type(images).__name__}")
    if given.ndim != 4 or given.numel() == 0:
        raise ValueError(
            f"expected images of shape (n, channels, height, width), got {tuple(given.shape)}"
        )
    if given.dtype not in (torch.uint8, torch.float32, torch.float64):
        raise TypeError(f"expected pixels as uint8, float32 or float64, got {given.dtype}")
    pixels = given.to(torch.float32) / 255 if given.dtype == torch.uint8 else given
    if not bool(pixels.isfinite().all()):
        raise ValueError("expected finite pixels, got NaN or infinity")
    if size is None or tuple(pixels.shape[2:]) == (size, size):
        return pixels
    return resized(pixels, size)
