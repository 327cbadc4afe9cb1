"""The image tasks of van der Ouderaa et al. (2023), 6.1, 6.3 and F.5, from any digits."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.data import resized
from isotropy.run import generator as make_generator
from isotropy_papers._image_warps import IMAGES_AT_ONCE, moved, turned, unit_pixels

_DIGITS = 10
_LARGEST_SHIFT = 8 / 14  # as a share of the way from the centre to the outermost pixel
_QUADRANT_SIZE = 32


@dataclass(frozen=True, eq=False)
class QuadrantDigits:
    """Digits in one quadrant of an otherwise empty image, with the labels of two tasks.

    The digit alone does not depend on where it is; digit and quadrant together do, so that no
    translation-invariant network can tell all of them.

    Args:
        images: Floats in [0, 1], shape (n, c, 32, 32).
        digits: Labels from 0 to 9, shape (n,).
        quadrants: 0 for upper left, 1 upper right, 2 lower left, 3 lower right, shape (n,).

    Example:
        >>> placed = in_quadrants(torch.ones(2, 1, 28, 28), torch.tensor([3, 7]), generator=0)
        >>> tuple(placed.images.shape), placed.digits.tolist(), placed.quadrants.tolist()
        ((2, 1, 32, 32), [3, 7], [0, 3])
        >>> placed.digits_and_quadrants.tolist()
        [3, 37]
    """

    images: Tensor
    digits: Tensor
    quadrants: Tensor

    @property
    def digits_and_quadrants(self) -> Tensor:
        """Labels from 0 to 39, digit + 10 · quadrant, shape (n,)."""
        return self.digits + _DIGITS * self.quadrants


def rotated(images: Tensor, *, generator: torch.Generator | int | None = None) -> Tensor:
    """Turn every image once, by an angle uniform on (−180°, 180°): Rotated MNIST and CIFAR-10.

    Interpolation is bilinear and zeros come in from outside. Results are not rounded to the 256
    levels of the published sets, which differ by less than 1/255.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        generator: A seed or a generator; the same seed gives the same angles on every device.

    Returns:
        Floats in [0, 1], in the shape of ``images``.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If the shape or the range of the pixels is wrong.

    Example:
        >>> from isotropy.data import small_digits
        >>> images, _ = small_digits()
        >>> turned_images = rotated(images, generator=0)
        >>> turned_images.shape == images.shape, torch.equal(turned_images, images)
        (True, False)
    """
    pixels = unit_pixels(images)
    return turned(pixels, 180 * _uniform((len(pixels),), generator, pixels.device))


def translated(images: Tensor, *, generator: torch.Generator | int | None = None) -> Tensor:
    """Move every image once, along both axes by shifts that need not be whole: Translated MNIST.

    Shifts are uniform on ±8/14 of the distance from the centre to the outermost pixel, (w − 1)/2:
    up to 7.7 of 28 pixels. Interpolation is bilinear, zeros come in, and what leaves the frame is
    lost.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        generator: A seed or a generator; the same seed gives the same shifts on every device.

    Returns:
        Floats in [0, 1], in the shape of ``images``.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64.
        ValueError: If the shape or the range of the pixels is wrong.

    Example:
        >>> point = torch.zeros(1, 1, 28, 28)
        >>> point[0, 0, 10, 10] = 1.0
        >>> moved_point = translated(point, generator=0)
        >>> moved_point[0, 0, 10, 10].item(), round(moved_point.sum().item(), 4)
        (0.0, 1.0)
    """
    pixels = unit_pixels(images)
    height, width = pixels.shape[-2:]
    reach = _LARGEST_SHIFT * torch.tensor([(width - 1) / 2, (height - 1) / 2], dtype=torch.float64)
    shifts = _uniform((len(pixels), 2), generator, pixels.device)
    return moved(pixels, shifts * reach.to(pixels.device))


def in_quadrants(
    images: Tensor, labels: Tensor, *, generator: torch.Generator | int | None = None
) -> QuadrantDigits:
    """Place every image in a random quadrant of an empty one of twice its size, then shrink it.

    The result has 32 × 32 pixels: bilinear, not smoothed, and not rounded to 256 levels as the
    published set is.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        labels: Digits, integers from 0 to 9 of shape (n,).
        generator: A seed or a generator; the same seed gives the same quadrants on every device.

    Returns:
        The images with their digits and quadrants.

    Raises:
        TypeError: If the pixels are neither uint8 nor float32 or float64, or the labels are not
            integers.
        ValueError: If the shape or the range of pixels or labels is wrong.

    Example:
        >>> placed = in_quadrants(torch.ones(1, 1, 28, 28), torch.tensor([4]), generator=0)
        >>> placed.images[0, 0, ::8, ::8]
        tensor([[1., 1., 0., 0.],
                [1., 1., 0., 0.],
                [0., 0., 0., 0.],
                [0., 0., 0., 0.]])
    """
    pixels = unit_pixels(images)
    digits = _digit_labels(labels, len(pixels)).to(pixels.device)
    random = make_generator(generator)
    drawn = torch.randint(4, (len(pixels),), generator=random, device=random.device)
    quadrants = drawn.to(pixels.device)
    blocks = zip(pixels.split(IMAGES_AT_ONCE), quadrants.split(IMAGES_AT_ONCE), strict=True)
    placed = [resized(_placed(block, where), _QUADRANT_SIZE) for block, where in blocks]
    return QuadrantDigits(torch.cat(placed), digits, quadrants)


def _placed(pixels: Tensor, quadrants: Tensor) -> Tensor:
    n, channels, height, width = pixels.shape
    canvas = pixels.new_zeros(n, channels, 2, height, 2, width)
    rows = torch.arange(n, device=pixels.device)
    canvas[rows, :, quadrants // 2, :, quadrants % 2] = pixels
    return canvas.reshape(n, channels, 2 * height, 2 * width)


def _digit_labels(labels: Tensor, n: int) -> Tensor:
    if not isinstance(labels, Tensor):
        raise TypeError(f"expected a tensor of labels, got {type(labels).__name__}")
    if labels.dtype == torch.bool or labels.is_floating_point() or labels.is_complex():
        raise TypeError(f"expected labels as integers, got {labels.dtype}")
    if tuple(labels.shape) != (n,):
        raise ValueError(f"expected labels of shape {(n,)}, got {tuple(labels.shape)}")
    digits = labels.to(torch.int64)
    low, high = (int(bound) for bound in digits.aminmax())
    if low < 0 or high >= _DIGITS:
        raise ValueError(f"expected labels from 0 to {_DIGITS - 1}, got {low} to {high}")
    return digits


def _uniform(
    shape: tuple[int, ...], seed: torch.Generator | int | None, device: torch.device
) -> Tensor:
    """Numbers uniform on (−1, 1), drawn where the generator is."""
    random = make_generator(seed)
    drawn = torch.rand(shape, generator=random, dtype=torch.float64, device=random.device)
    return (2 * drawn - 1).to(device)
