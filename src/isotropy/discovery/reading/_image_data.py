"""Images as discovery takes them: rows of pixels, and classes, numbers or images as targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.data import Dataset
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    notes_of_share,
)
from isotropy.discovery.reading._reading_thresholds import ReadingThresholds
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.reading._task_data import RowsWithTargets

if TYPE_CHECKING:
    from isotropy.discovery.testing._bench import Bench

SMALLEST_SIDE = 4  # of a map that layers are worth learning of
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


@dataclass(frozen=True, eq=False)
class ImageData(RowsWithTargets):
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

    shape: ImageShape
    classes: int
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
            data.task or "regression",
            None if data.groups is None else data.groups.numpy(),
            shape,
            classes,
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

    @property
    def layout(self) -> RowLayout:
        """How images were laid out, and targets that are images."""
        target = () if self.target is None else self.target.given
        return RowLayout(self.image[0], image=self.given, output_image=target)

    def most_numbers(self, limits: ReadingThresholds) -> tuple[int, int]:
        """How many images are fitted to and tested on: fewer where every pixel is a target."""
        if self.target is None:
            return limits.images_fitted, limits.images_tested
        few = max(limits.fewest_maps, limits.map_pixels // (self.image[1] * self.image[2]))
        return min(few, limits.images_fitted), min(few, limits.images_tested)

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

    def free_predictor(self, seed: int, tell: Callable[[str], None] | None = None) -> FreePredictor:
        """Predictors free of symmetry, fitted to these rows: the best, and with it the others."""
        # tables can do without networks of images
        from isotropy.discovery.predictors._image_predictors import FreeImagePredictor

        return FreeImagePredictor.fitted(self, seed, tell)

    def notes(self, bench: Bench) -> list[str]:
        """How images were read, and how much the best predictor leaves, where any was fitted."""
        from isotropy.discovery.claims._layer_group_claim import left_by_sets
        from isotropy.discovery.testing._image_bench import ImageBench

        _, height, width = self.image
        notes, images = [], ImageBench(bench)
        if images.every:
            best, left = images.best_left()
            classes = self.task == "classification"
            what = "classification of images" if classes else "regression on images"
            if self.target is not None:
                what = "regression from images to images"
            notes = [
                f"{what}; best predictor: {best}, leaves {left:.2g} of the "
                f"{'entropy' if classes else 'variance'}; fitted to {len(images.rows.x)} rows, "
                f"claims tested on {len(images.outside.x)} others",
                *notes_of_share(left),
            ]
        elif (left_by_best := left_by_sets(bench)) is not None:
            notes = notes_of_share(left_by_best)
        if self.shape.channels_last:
            notes.append(
                f"images of shape {self.given} were read as {height} by {width} with "
                f"{self.image[0]} channels, which come last"
            )
        return notes

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
