"""Images brought to one size and one scale, and digits that need no download."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.data._task import require_count

_SMALL_DIGITS_SIZE = 28
_SMALL_DIGITS_LEVELS = 16


def resized(images: Tensor, size: int) -> Tensor:
    """Bring images to ``size`` × ``size`` pixels: bilinear, not smoothed where they shrink.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, read as shares of 255, or any floats.
        size: Height and width of the result.

    Returns:
        Floats of shape (n, c, size, size).

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If the shape is wrong or the size is not a positive integer.

    Example:
        >>> resized(torch.tensor([[[[0.0, 1.0], [0.0, 1.0]]]]), 4)[0, 0, 0]
        tensor([0.0000, 0.2500, 0.7500, 1.0000])
    """
    require_count(size, "pixels")
    return functional.interpolate(
        as_floats(images), (size, size), mode="bilinear", align_corners=False, antialias=False
    )


def standardised(train: Tensor, *others: Tensor) -> tuple[Tensor, ...]:
    """Bring each channel of the training images to zero mean and unit variance, others likewise.

    The others are shifted and scaled by the numbers of the training images: nothing of a test set
    is learned. A channel that is constant is only shifted.

    Args:
        train: Pixels, shape (n, c, h, w): uint8, read as shares of 255, or any floats.
        others: More images with as many channels, such as those of a test.

    Returns:
        All of them, in the order given.

    Raises:
        TypeError: If pixels are neither uint8 nor float32 or float64.
        ValueError: If a shape is wrong or the number of channels differs.

    Example:
        >>> train, test = standardised(torch.tensor([[[[0.0, 1.0]]]]), torch.ones(1, 1, 1, 1))
        >>> train, test.item()
        (tensor([[[[-1.,  1.]]]]), 1.0)
    """
    seen, *unseen = (as_floats(images) for images in (train, *others))
    for images in unseen:
        if images.shape[1] != seen.shape[1]:
            raise ValueError(
                f"expected images with {seen.shape[1]} channels, got {images.shape[1]}"
            )
    axes = (0, 2, 3)
    scale, offset = torch.std_mean(seen, dim=axes, correction=0, keepdim=True)
    # a test of the deviation against 0 would fail by rounding
    is_constant = seen.amax(axes, keepdim=True) == seen.amin(axes, keepdim=True)
    scale = scale.where(~is_constant, 1)
    return tuple((images - offset.to(images)) / scale.to(images) for images in (seen, *unseen))


def small_digits() -> tuple[Tensor, Tensor]:
    """The 1797 handwritten digits that scikit-learn carries, enlarged from 8 × 8 to 28 × 28.

    A stand-in for MNIST that needs no download. Neighbouring rows may have the same writer, and a
    digit fills its frame where MNIST's have a margin of four pixels.

    Returns:
        Floats in [0, 1] of shape (1797, 1, 28, 28) and labels from 0 to 9 of shape (1797,).

    Example:
        >>> images, labels = small_digits()
        >>> tuple(images.shape), labels[:4].tolist()
        ((1797, 1, 28, 28), [0, 1, 2, 3])
    """
    from sklearn.datasets import load_digits

    digits = load_digits()
    levels = torch.from_numpy(digits.images).to(torch.float32).unsqueeze(1)
    labels = torch.from_numpy(digits.target).to(torch.int64)
    return resized(levels / _SMALL_DIGITS_LEVELS, _SMALL_DIGITS_SIZE), labels


def as_floats(images: Tensor) -> Tensor:
    """Images as floats: uint8 becomes float32 in [0, 1], floats stay as they are.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If the shape is not (n, c, h, w).

    Example:
        >>> as_floats(torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8))
        tensor([[[[0.0000, 0.2000, 1.0000]]]])
    """
    if not isinstance(images, Tensor):
        raise TypeError(f"expected a tensor of images, got {type(images).__name__}")
    if images.ndim != 4 or images.numel() == 0:
        raise ValueError(
            f"expected images of shape (n, channels, height, width), got {tuple(images.shape)}"
        )
    if images.dtype == torch.uint8:
        return images.to(torch.float32) / 255
    if images.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"expected pixels as uint8, float32 or float64, got {images.dtype}")
    return images
