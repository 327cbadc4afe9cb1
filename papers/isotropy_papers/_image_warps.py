"""Images turned and moved by bilinear interpolation, each by an amount of its own."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

# the coordinates of a block take twice the memory of one of its channels
IMAGES_AT_ONCE = 4096


def turned(images: Tensor, degrees: Tensor) -> Tensor:
    """Turn each image about its centre; zeros come in from outside.

    The centre is that of the pixels' rectangle, ((w − 1)/2, (h − 1)/2), as it is in PyTorch's
    normalised coordinates with either value of ``align_corners``.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        degrees: Angles, shape (n,); positive ones are counter-clockwise as the image is seen.

    Returns:
        Floats in [0, 1], in the shape of ``images``.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If a shape or a range is wrong.

    Example:
        >>> upright = torch.tensor([[[[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]])
        >>> turned(upright, torch.tensor([90.0])).round(decimals=4)
        tensor([[[[0., 0., 0.],
                  [1., 0., 0.],
                  [0., 0., 0.]]]])
    """
    pixels = unit_pixels(images)
    _require_shape(degrees, (len(pixels),), "angles")
    angles = degrees.to(torch.float64).deg2rad()
    cosine, sine = angles.cos(), angles.sin()
    # where a pixel of the result comes from: rows point down, so the inverse has this sign
    backwards = torch.stack([cosine, -sine, sine, cosine], dim=-1).reshape(-1, 2, 2)
    return _warped(pixels, backwards, torch.zeros_like(backwards[..., 0]))


def moved(images: Tensor, shifts: Tensor) -> Tensor:
    """Move each image; zeros come in and what leaves the frame is lost.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        shifts: Pixels to the right and pixels down, shape (n, 2); they need not be whole.

    Returns:
        Floats in [0, 1], in the shape of ``images``.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If a shape or a range is wrong.

    Example:
        >>> moved(torch.tensor([[[[1.0, 0.0, 0.0]]]]), torch.tensor([[1.5, 0.0]]))
        tensor([[[[0.0000, 0.5000, 0.5000]]]])
    """
    pixels = unit_pixels(images)
    _require_shape(shifts, (len(pixels), 2), "shifts")
    shifts = shifts.to(torch.float64)
    same = torch.eye(2, dtype=shifts.dtype, device=shifts.device)
    return _warped(pixels, same.expand(len(pixels), 2, 2), -shifts)


def unit_pixels(images: Tensor) -> Tensor:
    """Images as floats in [0, 1], for work in which 0 must mean an empty background.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If the shape is not (n, c, h, w), or a pixel is outside [0, 1].

    Example:
        >>> unit_pixels(torch.full((1, 1, 1, 2), 255, dtype=torch.uint8))
        tensor([[[[1., 1.]]]])
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
    low, high = (float(bound) for bound in images.aminmax())
    if not (low >= 0 and high <= 1):
        raise ValueError(
            f"expected pixels from 0 to 1, before any standardisation, got {low:.3g} to {high:.3g}"
        )
    return images


def _warped(pixels: Tensor, backwards: Tensor, offsets: Tensor) -> Tensor:
    """Pixel p of result i is what image i has at backwards_i (p − centre) + centre + offsets_i."""
    height, width = pixels.shape[-2:]
    extent = torch.tensor([width, height], dtype=backwards.dtype, device=backwards.device)
    # in the normalised coordinates 2 (p − centre) / extent, in which corners are not aligned
    linear = backwards * extent / extent[:, None]
    maps = torch.cat([linear, (2 * offsets / extent).unsqueeze(-1)], dim=-1).to(pixels)
    warped = [
        functional.grid_sample(
            block,
            functional.affine_grid(of_block, list(block.shape), align_corners=False),
            mode="bilinear",
            padding_mode="zeros",
            align_corners=False,
        )
        for block, of_block in zip(
            pixels.split(IMAGES_AT_ONCE), maps.split(IMAGES_AT_ONCE), strict=True
        )
    ]
    # weights need not add up to exactly 1 on every device, and what is above 1 is refused next time
    return torch.cat(warped).clamp_(0, 1)


def _require_shape(values: Tensor, shape: tuple[int, ...], what: str) -> None:
    if tuple(values.shape) != shape:
        raise ValueError(f"expected {what} of shape {shape}, got {tuple(values.shape)}")
    if not bool(values.isfinite().all()):
        raise ValueError(f"expected finite {what}, got NaN or infinity")
