"""Images as discovery takes them: rows of pixels, and classes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.data import Dataset, load
from isotropy.discovery.images._image_network import SMALLEST_SIDE

_FEW_CHANNELS = 4  # of what may be channels at the end


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images and their classes.

    Args:
        x: Pixels, channel by channel and row by row, float32 of shape (N, channels·h·w).
        y: Classes from 0 on, shape (N,).
        image: Channels, height and width.
        given: The shape of an image as it was given: the same, or (height, width).
        classes: How many there are.
        groups: Which rows belong together, or None.

    Example:
        >>> data = ImageData.of(np.random.rand(90, 1, 5, 6), np.arange(90) % 3, None, None)
        >>> tuple(data.x.shape), data.image, data.classes
        ((90, 30), (1, 5, 6), 3)
    """

    x: Tensor
    y: Tensor
    image: tuple[int, int, int]
    given: tuple[int, ...]
    classes: int
    groups: NDArray[np.int64] | None
    task: Literal["classification"] = "classification"

    @staticmethod
    def of(x: Any, y: Any, task: Any, groups: Any) -> ImageData:
        """Read arrays, tensors or a ``Dataset``; (N, height, width) are images of one channel.

        Raises:
            ValueError: If they are no images or too small, there is nothing to learn, targets are
                numbers, and whatever ``load`` raises.
        """
        if isinstance(x, Dataset):
            if y is not None or groups is not None:
                raise ValueError("expected a data set alone, which has its targets and groups")
            data = x
        elif y is None:
            raise ValueError("expected targets y beside the inputs, got none")
        else:
            data = load((x, y), task=task, groups=groups)
        if data.y is None:
            raise ValueError(f"{data.source}: expected targets, got none")
        if data.task != "classification":
            several = data.y.ndim > 1 and data.y.shape[1] > 1
            raise ValueError(
                "expected classes as the targets of images (whole numbers or text; other numbers "
                "with task='classification', --task classification), got numbers"
                + (f", {data.y.shape[1]} for each image" if several else "")
            )
        given = tuple(data.x.shape[1:])
        if len(given) not in (2, 3):
            raise ValueError(
                "expected images of shape (rows, channels, height, width) or (rows, height, "
                f"width), got {tuple(data.x.shape)}"
            )
        channels, height, width = (1, *given)[-3:]
        if min(height, width) < SMALLEST_SIDE:
            raise ValueError(
                f"expected images of shape (rows, channels, height, width), at least "
                f"{SMALLEST_SIDE} by {SMALLEST_SIDE}, got {tuple(data.x.shape)}{_turned(given)}"
            )
        if channels == height > width and width <= _FEW_CHANNELS:
            raise ValueError(
                f"expected images with channels first, got {tuple(data.x.shape)}{_turned(given)}"
            )
        rows = data.x.to(torch.float32).reshape(len(data), prod(given))
        if bool((rows == rows[:1]).all()):
            raise ValueError("expected images that vary, got the same in every row")
        if len(data.y.unique()) < 2:
            raise ValueError("expected targets of at least two classes, got the same in every row")
        return ImageData(
            rows,
            data.y,
            (channels, height, width),
            given,
            len(data.classes or ()),
            None if data.groups is None else data.groups.numpy(),
        )

    def rows(self, chosen: NDArray[np.int64]) -> ImageData:
        """The same with some rows only."""
        index = torch.as_tensor(chosen)
        part = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[index], y=self.y[index], groups=part)

    def at_most(self, count: int, seed: int) -> ImageData:
        """So many of the rows, drawn at random, or all where there are no more.

        Of every group of rows one comes first, so that as many groups as can be are kept.
        """
        if len(self.x) <= count:
            return self
        drawn = torch.randperm(len(self.x), generator=make_generator(seed)).numpy()
        if self.groups is not None:
            _, firsts = np.unique(self.groups[drawn], return_index=True)
            rest = np.setdiff1d(np.arange(len(drawn)), firsts)
            drawn = drawn[np.concatenate([np.sort(firsts), rest])]
        return self.rows(np.sort(drawn[:count]))

    @property
    def maps(self) -> Tensor:
        """Pixels as images, shape (N, channels, height, width)."""
        maps: Tensor = self.x.unflatten(1, self.image)
        return maps

    @property
    def constant(self) -> Tensor:
        """The best constant logits, float64 of shape (classes,); no class is impossible."""
        counts = torch.bincount(self.y, minlength=self.classes).double() + 0.5
        return (counts / counts.sum()).log()


def _turned(image: tuple[int, ...]) -> str:
    """What to do, where channels seem to be last."""
    if len(image) == 3 and image[2] <= _FEW_CHANNELS < min(image[:2]):
        return ": x.transpose(0, 3, 1, 2) puts channels that are last first"
    return ""
