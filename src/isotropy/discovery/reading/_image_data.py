"""Images as discovery takes them: rows of pixels, and classes, numbers or images as targets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.data import Dataset
from isotropy.discovery.predictors._free_predictor import Task
from isotropy.discovery.reading._image_shapes import ImageShape, image_shape, target_shape


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images and their targets.

    Args:
        x: Pixels, channel by channel and row by row, float32 of shape (N, channels·h·w).
        y: Classes from 0 on, shape (N,); or numbers, float32 of shape (N, outputs), which are
            pixels in the same order where targets are images.
        shape: How images were given.
        classes: How many there are; 0 where targets are numbers.
        groups: Which rows belong together, or None.
        task: What the targets are.
        target: How targets were given, where they are images.

    Example:
        >>> from isotropy.data import load
        >>> data = ImageData.of(load((np.random.rand(90, 1, 5, 6), np.arange(90) % 3)))
        >>> tuple(data.x.shape), data.image, data.classes
        ((90, 30), (1, 5, 6), 3)
        >>> filtered = ImageData.of(load((np.random.rand(90, 5, 6), np.random.rand(90, 5, 6))))
        >>> filtered.outputs, filtered.target.sizes
        (30, (1, 5, 6))
    """

    x: Tensor
    y: Tensor
    shape: ImageShape
    classes: int
    groups: NDArray[np.int64] | None
    task: Task = "classification"
    target: ImageShape | None = None

    @staticmethod
    def of(data: Dataset) -> ImageData:
        """Images of shape (N, height, width) have one channel; 1, 3 or 4 channels may come last.

        Targets are classes, numbers of shape (N,) or (N, k), or images of the same height and
        width.

        Raises:
            ValueError: If they are no images or too small, or there is nothing to learn.
        """
        if data.y is None:
            raise ValueError(f"{data.source}: expected targets, got none")
        shape = image_shape(tuple(data.x.shape))
        rows = shape.rows(data.x.to(torch.float32))
        if bool((rows == rows[:1]).all()):
            raise ValueError("expected images that vary, got the same in every row")
        target = None
        if data.task == "classification":
            wanted, classes = data.y, len(data.classes or ())
            if len(wanted.unique()) < 2:
                raise ValueError(
                    "expected targets of at least two classes, got the same in every row"
                )
        else:
            wanted, target = _numbers(data.y.to(torch.float32), shape)
            classes = 0
        return ImageData(
            rows,
            wanted,
            shape,
            classes,
            None if data.groups is None else data.groups.numpy(),
            data.task or "regression",
            target,
        )

    @property
    def image(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return self.shape.sizes

    @property
    def given(self) -> tuple[int, ...]:
        """The shape of an image as it was given."""
        return self.shape.given

    @property
    def outputs(self) -> int:
        """How many numbers a predictor gives for an image: logits, or values."""
        return self.classes or self.y.shape[1]

    def rows(self, chosen: NDArray[np.int64]) -> ImageData:
        """The same with some rows only."""
        index = torch.as_tensor(chosen)
        part = None if self.groups is None else self.groups[chosen]
        return replace(self, x=self.x[index], y=self.y[index], groups=part)

    def at_most(self, count: int, seed: int) -> ImageData:
        """So many of the rows, drawn at random, or all where there are no more.

        Of every group of rows one comes first, so that as many groups as can be are kept.
        """
        chosen = self.drawn(np.arange(len(self.x)), count, seed)
        return self if len(chosen) == len(self.x) else self.rows(chosen)

    def drawn(self, among: NDArray[np.int64], count: int, seed: int) -> NDArray[np.int64]:
        """So many of some rows, in increasing order, drawn as ``at_most`` does; none is copied."""
        if len(among) <= count:
            return among
        drawn = among[torch.randperm(len(among), generator=make_generator(seed)).numpy()]
        if self.groups is not None:
            _, firsts = np.unique(self.groups[drawn], return_index=True)
            rest = np.setdiff1d(np.arange(len(drawn)), firsts)
            drawn = drawn[np.concatenate([np.sort(firsts), rest])]
        return np.sort(drawn[:count])

    @property
    def maps(self) -> Tensor:
        """Pixels as images, shape (N, channels, height, width)."""
        maps: Tensor = self.x.unflatten(1, self.image)
        return maps

    @property
    def constant(self) -> Tensor:
        """The best constant prediction, float64 of shape (outputs,): no class is impossible."""
        if self.task == "regression":
            return self.y.double().mean(0)
        counts = torch.bincount(self.y, minlength=self.classes).double() + 0.5
        return (counts / counts.sum()).log()

    @property
    def target_units(self) -> tuple[Tensor, Tensor]:
        """Mean and scale of numbers, float32 of shape (outputs,); of images, by channel.

        All outputs have one scale, so that the loss is the squared error summed over them.
        """
        assert self.task == "regression"
        channels = self.outputs if self.target is None else self.target.sizes[0]
        y = self.y.double().unflatten(1, (channels, -1))
        mean = y.mean((0, 2)).repeat_interleave(prod(self.y.shape[1:]) // channels)
        scale = float((self.y.double() - mean).square().mean().sqrt())
        return mean.float(), torch.full_like(mean, scale or 1.0).float()


def _numbers(y: Tensor, shape: ImageShape) -> tuple[Tensor, ImageShape | None]:
    """Targets of images that are numbers, as rows; and their shape where they are images."""
    target = None
    if y.ndim > 2:
        target = target_shape(tuple(y.shape), shape)
        if target is None:
            height, width = shape.sizes[1:]
            raise ValueError(
                "expected classes, numbers of shape (rows,) or (rows, k), or images of "
                f"{height} by {width} as the targets of images, got shape {tuple(y.shape)}"
            )
        y = target.rows(y)
    if not bool(y.isfinite().all()):
        raise ValueError("expected finite targets, got NaN or infinity")
    if bool((y == y[:1]).all()):
        raise ValueError("expected targets that vary, got the same in every row")
    return y, target
