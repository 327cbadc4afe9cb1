"""What the axes of images are: where channels stand, and targets that are images too."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from torch import Tensor

from isotropy.discovery.predictors._image_network import SMALLEST_SIDE

_COLOURS = (1, 3, 4)  # how many channels may come last


@dataclass(frozen=True)
class ImageShape:
    """The shape of an image as it was given, and its channels, height and width.

    Args:
        given: (height, width), (channels, height, width) or (height, width, channels).
        channels_last: Whether it is the last of these.

    Example:
        >>> shape = image_shape((90, 12, 14, 3))
        >>> shape.sizes, shape.channels_last
        ((3, 12, 14), True)
    """

    given: tuple[int, ...]
    channels_last: bool = False

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        if self.channels_last:
            return self.given[2], self.given[0], self.given[1]
        channels, height, width = (1, *self.given)[-3:]
        return channels, height, width

    def rows(self, x: Tensor) -> Tensor:
        """Images as rows of pixels, channel by channel, shape (N, channels·height·width)."""
        if self.channels_last:
            x = x.movedim(3, 1)
        return x.reshape(len(x), prod(self.given))

    def back(self, rows: Tensor) -> Tensor:
        """Rows of pixels as images of the given shape."""
        maps = rows.unflatten(-1, self.sizes)
        if self.channels_last:
            maps = maps.movedim(-3, -1)
        back: Tensor = maps.reshape(*rows.shape[:-1], *self.given)
        return back


def image_shape(shape: tuple[int, ...]) -> ImageShape:
    """Read the shape of some images.

    The last axis are channels where there are 1, 3 or 4 of them and both others are larger.

    Raises:
        ValueError: If it is none of these, or images are too small.
    """
    given = tuple(shape[1:])
    if len(given) not in (2, 3):
        raise ValueError(
            "expected images of shape (rows, channels, height, width) or (rows, height, width), "
            f"got {tuple(shape)}"
        )
    last = len(given) == 3 and given[2] in _COLOURS and min(given[:2]) > given[2]
    found = ImageShape(given, last and min(given[:2]) >= SMALLEST_SIDE)
    if min(found.sizes[1:]) < SMALLEST_SIDE:
        raise ValueError(
            f"expected images of shape (rows, channels, height, width), at least {SMALLEST_SIDE} "
            f"by {SMALLEST_SIDE}, got {tuple(shape)}"
        )
    return found


def target_shape(shape: tuple[int, ...], image: ImageShape) -> ImageShape | None:
    """The shape of targets that are images of the same height and width; None where they are none.

    Example:
        >>> image = image_shape((90, 3, 12, 14))
        >>> target_shape((90, 12, 14), image).sizes
        (1, 12, 14)
        >>> target_shape((90, 5), image) is None
        True
    """
    given, size = tuple(shape[1:]), image.sizes[1:]
    if len(given) in (2, 3) and (1, *given)[-2:] == size:
        return ImageShape(given)
    if len(given) == 3 and given[:2] == size:
        return ImageShape(given, channels_last=True)
    return None
