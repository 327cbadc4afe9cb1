"""Photographs to measure networks of ImageNet on: the user's own, or what is at hand."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

from isotropy.data import load
from isotropy.run import generator as make_generator
from isotropy_papers._experiment import Settings

_SAMPLE_HEIGHT = 427  # of scikit-learn's two photographs, 427 × 640


@dataclass(frozen=True)
class Photographs:
    """Square images in [0, 1] and where they are from.

    Args:
        x: Shape (n, 3, size, size).
        source: In words, for notes.
    """

    x: Tensor
    source: str


def photographs(size: int, count: int, settings: Settings) -> Photographs:
    """Photographs of a size: the user's, scikit-learn's two, or made images where neither is there.

    Args:
        size: Height and width.
        count: At most so many.
        settings: ``images`` may name the user's folder; files that are no images are left out.

    Raises:
        ValueError: If the folder holds no image.

    Example:
        >>> photographs(32, 2, Settings()).x.shape
        torch.Size([2, 3, 32, 32])
    """
    if settings.images is not None:
        data = load(settings.images, size=(size, size), crop=True, unreadable="skip")
        x = data.x[:count].expand(-1, 3, -1, -1)
        left_out = f", {len(data.skipped)} unreadable left out" if data.skipped else ""
        return Photographs(x, f"images of a folder, {len(x)}{left_out}")
    if find_spec("sklearn") is not None:
        x = _sample_photographs(size)[:count]
        return Photographs(x, f"squares out of scikit-learn's two photographs, {len(x)}")
    x = pink_noise(count, 3, size, settings.seed)
    return Photographs(x, f"no photographs: random images with a spectrum of 1/frequency, {len(x)}")


def _sample_photographs(size: int) -> Tensor:
    """Squares at the left, in the middle and at the right of each."""
    from PIL import Image
    from sklearn.datasets import load_sample_images  # type: ignore[import-untyped,import-not-found,unused-ignore]

    squares = []
    for left in (106, 0, 213):
        box = (left, 0, left + _SAMPLE_HEIGHT, _SAMPLE_HEIGHT)
        for pixels in load_sample_images().images:
            image = Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR, box)
            squares.append(np.asarray(image, np.float32).transpose(2, 0, 1) / 255)
    return torch.from_numpy(np.stack(squares))


def pink_noise(
    count: int, channels: int, size: int, generator: torch.Generator | int | None = 0
) -> Tensor:
    """Random images in [0, 1] with amplitudes of 1/frequency, as those of photographs are.

    Args:
        count: How many.
        channels: Their channels, which are independent.
        size: Height and width.
        generator: A seed or a generator.

    Example:
        >>> x = pink_noise(4, 3, 16)
        >>> x.shape, bool((x >= 0).all() and (x <= 1).all())
        (torch.Size([4, 3, 16, 16]), True)
    """
    white = torch.randn(count, channels, size, size, generator=make_generator(generator))
    down, across = torch.fft.fftfreq(size), torch.fft.rfftfreq(size)
    frequency = (down[:, None].square() + across.square()).sqrt()
    frequency[0, 0] = float("inf")
    x = torch.fft.irfft2(torch.fft.rfft2(white) / frequency, s=(size, size))
    pixels: Tensor = 0.5 + 0.2 * x / x.std((2, 3), keepdim=True)
    return pixels.clamp(0, 1)
