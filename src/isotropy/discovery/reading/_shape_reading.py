"""How data of a shape are read; how their rows are laid out, as given and as models take them."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from math import isqrt
from typing import Literal

import torch
from torch import Tensor

from isotropy.data import Dataset, Transitions
from isotropy.discovery.reading._reading_thresholds import ReadingThresholds


@dataclass(frozen=True)
class RowLayout:
    """How rows of data are laid out for a model, channel by channel over positions.

    Args:
        channels: Channels of inputs; more than one where they have positions and channels.
        output_channels: Those of outputs.
        channels_first: Whether they come before positions in the data.
        sequences: Whether inputs have an axis of channels, be there but one.
        output_sequences: Whether outputs have.
        image: The shape of an image as it was given; empty where data are none.
        output_image: That of targets that are images.
    """

    channels: int = 1
    output_channels: int = 1
    channels_first: bool = False
    sequences: bool = False
    output_sequences: bool = False
    image: tuple[int, ...] = ()
    output_image: tuple[int, ...] = ()

    def rows(self, x: Tensor) -> Tensor:
        """Data as they were given, as rows that a model takes.

        Raises:
            ValueError: If the shape is not that of the data.

        Example:
            >>> import torch
            >>> RowLayout(image=(1, 4, 6)).rows(torch.zeros(5, 1, 4, 6)).shape
            torch.Size([5, 24])
        """
        if self.image:
            if x.shape[1:] == (math.prod(self.image),):
                return x
            if x.shape[1:] != self.image:
                shape = ", ".join(map(str, self.image))
                raise ValueError(f"expected images of shape (n, {shape}), got {tuple(x.shape)}")
            if len(self.image) == 3 and self.image[0] != self.channels:  # channels come last
                x = x.movedim(3, 1)
            return x.flatten(1)
        axes = 3 if self.channels > 1 or self.sequences else 2
        if x.ndim != axes:
            raise ValueError(f"expected inputs with {axes} axes, got shape {tuple(x.shape)}")
        if x.ndim == 3:
            return (x if self.channels_first else x.transpose(1, 2)).flatten(1)
        return x

    def given_outputs(self, y: Tensor) -> Tensor:
        """What a model says of rows, in the shape that targets were given in."""
        if self.output_channels == 1 and not self.output_sequences:
            return y
        y = y.unflatten(1, (self.output_channels, -1))
        return y if self.channels_first else y.transpose(1, 2)

    def input_order(self, size: int) -> Tensor:
        """Where the numbers of a row that a model takes stand in rows as they were given.

        Example:
            >>> RowLayout(channels=2).input_order(6).tolist()  # three positions of two channels
            [0, 2, 4, 1, 3, 5]
        """
        given: tuple[int, ...] = self.image
        if not given and (self.channels > 1 or self.sequences):
            given = (size // self.channels, self.channels)
            given = given[::-1] if self.channels_first else given
        places = torch.arange(size)
        return self.rows(places.reshape(1, *(given or (size,))))[0]

    def output_order(self, size: int) -> Tensor:
        """The same of outputs."""
        places = torch.arange(size)
        if self.image:
            first = len(self.image) == 2 or self.image[0] == self.channels
            sides = self.image[-2:] if first else self.image[:2]
            last = self.output_image[:2] == sides != self.output_image[-2:]
            return places.reshape(-1, self.output_image[-1]).T.flatten() if last else places
        if self.channels_first:
            return places
        return places.reshape(-1, self.output_channels).T.flatten()


Kind = Literal["vectors", "sequences", "images", "transitions"]


@dataclass(frozen=True)
class ShapeReading:
    """What the axes of the inputs are.

    Args:
        kind: What a row is; sets are read as sequences are, since both have positions.
        channels_first: Of sequences, whether channels come before positions.
        words: What there is, in a phrase.
        note: Why it was read so, where that is not plain; empty where it is.
        doubtful: Whether images may be sets after all: nothing but their shape speaks for it.

    Example:
        >>> reading, _ = read_shape(Dataset(torch.rand(90, 24, 2), torch.rand(90, 1)), ())
        >>> reading.kind, reading.words
        ('sequences', '90 sequences or sets of 24 positions with 2 channels')
    """

    kind: Kind
    channels_first: bool
    words: str
    note: str = ""
    doubtful: bool = False


def read_shape(
    data: Dataset | Transitions, methods: Collection[str], channels_first: bool = False
) -> tuple[ShapeReading, Dataset | Transitions]:
    """Say what the axes of data are, and give the data in that shape.

    - Two axes are vectors; unless there is a square number of columns and those one line apart
      agree as pixels of pictures do, then they are images.
    - Three axes are images where they are square with sides of at least 6, or oblong with sides of
      at least 12 and one at most twice the other; otherwise positions with channels. Channels come
      first where there is one, or at most four before at least eight positions and twice as many;
      targets with as many positions as one of the axes decide.
    - Four axes are images.

    Args:
        data: The data.
        methods: What is looked for, where the user named it: those for images make three axes
            images, those for positions do not.
        channels_first: Whether the user says so.

    Raises:
        ValueError: If there are more axes.
    """
    if isinstance(data, Transitions):
        sizes = data.observations.shape[1], data.actions.shape[1]
        words = (
            f"{len(data)} transitions, observations of {sizes[0]} entries, actions of {sizes[1]}"
        )
        return ShapeReading("transitions", False, words), data
    rows, shape = len(data), tuple(data.x.shape[1:])
    asked = set(methods) & {"permutations", "generators", "layers", "groups"}
    may_be_image = not asked or bool(asked & {"layers", "groups"})
    must_be_image = bool(asked) and asked <= {"layers", "groups"}
    if len(shape) == 1:
        side = isqrt(shape[0])
        if may_be_image and _is_picture(data.x, side):
            words = f"{rows} images of {side} by {side} pixels"
            note = (
                f"{shape[0]} columns were read as images of {side} by {side} pixels: those above "
                "each other agree (--method permutations, methods='permutations' for columns)"
            )
            return ShapeReading("images", False, words, note), replace(
                data, x=data.x.unflatten(1, (side, side)), x_names=None
            )
        return ShapeReading("vectors", False, f"{rows} vectors of {shape[0]} columns"), data
    if len(shape) == 2:
        if must_be_image or (may_be_image and _is_image(shape) and not channels_first):
            words = f"{rows} images of {shape[0]} by {shape[1]} pixels"
            note = (
                f"x of shape {(rows, *shape)} was read as images of one channel (--method "
                "permutations, methods='permutations' for sequences and sets)"
            )
            if must_be_image:
                return ShapeReading("images", False, words), data
            doubtful = not _are_similar(data.x.flatten(1), shape[1])
            return ShapeReading("images", False, words, note, doubtful), data
        return _sequences(data, channels_first), data
    if len(shape) == 3:
        listed = " by ".join(map(str, shape))
        return ShapeReading("images", False, f"{rows} images of shape {listed}"), data
    raise ValueError(
        "expected vectors of shape (rows, n), sequences and sets of shape (rows, n, channels), or "
        f"images of shape (rows, channels, height, width), got {tuple(data.x.shape)}"
    )


def _sequences(data: Dataset, channels_first: bool) -> ShapeReading:
    first, second = data.x.shape[1:]
    note = ""
    if not channels_first and _channels_come_first(first, second, data.y):
        channels_first = True
        note = (
            f"x of shape {tuple(data.x.shape)} was read as {second} positions with "
            f"{_many(first, 'channel')}, which come first"
        )
    positions, channels = (second, first) if channels_first else (first, second)
    words = (
        f"{len(data)} sequences or sets of {_many(positions, 'position')} with "
        f"{_many(channels, 'channel')}"
    )
    return ShapeReading("sequences", channels_first, words, note)


def _channels_come_first(first: int, second: int, y: Tensor | None) -> bool:
    limits = ReadingThresholds.now()
    if second == 1:
        return False
    if y is not None and y.ndim >= 2 and y.is_floating_point():
        # outputs that move along have as many positions
        sides = [size for size in y.shape[1:] if size > 1]
        if first in sides and second not in sides:
            return False
        if second in sides and first not in sides and second > limits.few_channels:
            return True
    few = first == 1 or (first <= limits.few_channels and second >= limits.many_steps)
    return few and second >= 2 * first


def _is_image(shape: tuple[int, ...]) -> bool:
    small, large, limits = min(shape), max(shape), ReadingThresholds.now()
    if small == large:
        return small >= limits.fewest_pixels
    return small >= limits.clear_image and large <= 2 * small


def _is_picture(x: Tensor, side: int) -> bool:
    """Whether columns are pixels of square pictures."""
    fewest = ReadingThresholds.now().fewest_pixels
    return side >= fewest and side * side == x.shape[1] and _are_similar(x, side)


def _are_similar(x: Tensor, side: int) -> bool:
    """Whether columns are more similar one line apart than half a line, or two lines."""
    limits = ReadingThresholds.now()
    rows = x[: limits.picture_rows].double()
    centred = rows - rows.mean(0)
    size = centred.square().sum(0).sqrt()
    if int((size > 0).sum()) < x.shape[1] // 2:
        return False
    unit = centred / torch.where(size > 0, size, torch.ones_like(size))

    def agreement(apart: int) -> float:
        products = (unit[:, apart:] * unit[:, :-apart]).sum(0)
        both = (size[apart:] > 0) & (size[:-apart] > 0)
        return float(products[both].mean()) if bool(both.any()) else 0.0

    near, half, line, two = (agreement(lag) for lag in (1, side // 2, side, 2 * side))
    return min(near, line) > half + limits.picture and line > two + limits.picture / 2


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
