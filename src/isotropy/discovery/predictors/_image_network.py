"""A small network for images whose layers may be strict or free, each as one likes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.discovery.claims._image_motions import moved, moved_back, point_group
from isotropy.discovery.reading._image_data import SMALLEST_SIDE
from isotropy.nn import (
    CircularConv2d,
    FactoredLinear,
    GroupConv2d,
    GroupPool,
    Lift,
    PathSum,
    PolyphasePool2d,
)
from isotropy.nn._group_conv import OnSlices

ImagePath: TypeAlias = Literal["factored", "conv", "group_conv"]
PointGroup: TypeAlias = Literal["p4", "p4m"]

PHASES = "phases"
# saved networks are built anew with these
DEPTH = 4
LARGEST_SIDE = 16
_FILTER = 5
_UNITS = (1, 2, 4, 4)  # channels of the layers, in units of alpha
_CONVOLUTIONS = ("conv", "group_conv")


class ImageNetwork(nn.Module):
    """Four layers of parallel paths, then the mean over all places and two plain layers.

    Each layer is the mean of its paths: "conv" commutes with circular shifts, "group_conv" with
    these and the turns (and flips) of ``group``, "factored" with nothing. Up to the last layer with
    "group_conv" features have a slice for each turn, which other paths take for further channels;
    then the largest over slices goes on.

    All layers but the first halve the map where its sides are even and four or more are left, by
    the phase that the convolutions are largest in (``PolyphasePool2d``), so that a layer without
    "factored" commutes with every shift, whatever the size. A network without "factored" is
    exactly invariant to circular shifts, and one of "group_conv" alone to turns too.

    Images with a side of more than 16 are averaged over squares of pixels first. That commutes
    with turns and flips, and with shifts by whole squares where these cover the image.

    With ``maps`` the outputs are an image of the same size, that moves along: no layer halves or
    averages anything, all have half as many channels, and a linear filter of the input is added.
    Where the last layer has "factored", each place has a gain and an offset of its own, too.

    Args:
        image: Channels, height and width of images.
        outputs: How many outputs there are.
        paths: The paths of each of the four layers.
        alpha: The channels of the first layer; the others have 2, 4 and 4 times as many.
        group: The point group of "group_conv".
        maps: Whether outputs are the pixels of images, channel by channel.
        averaged: Motions of the image ("turn", "half turn", "left-right", "top-bottom"): in
            evaluation mode, the network is averaged over the group that they generate. With
            "phases" it is averaged over shifts within the squares of large images, too, so that
            convolutions alone are invariant to all shifts where squares cover the image.

    Attributes:
        layers: The ``PathSum`` of every layer.
        sizes: Height and width of the map that goes into each layer, and of the last one out.
        shrink: The side of the squares that images are averaged over; 1 where they are not.
        x_mean: Subtracted from every channel, zero at first.
        x_scale: Divides every channel, one at first.
        in_features: The length of an image as a row.
        out_features: How many outputs there are.

    Raises:
        ValueError: If images are too small, a path is unknown, there are not four layers, or
            turns are asked for of images that are not square.

    Example:
        >>> network = ImageNetwork((1, 8, 8), 3, [["conv"]] * 4)
        >>> x = torch.randn(2, 1, 8, 8)
        >>> torch.allclose(network(x), network(x.roll((3, 1), (2, 3))), atol=1e-5)
        True
        >>> network.sizes
        ((8, 8), (8, 8), (4, 4), (4, 4), (4, 4))
    """

    x_mean: Tensor
    x_scale: Tensor

    def __init__(
        self,
        image: Sequence[int],
        outputs: int,
        paths: Sequence[Sequence[ImagePath]],
        *,
        alpha: int = 8,
        group: PointGroup = "p4",
        maps: bool = False,
        averaged: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self.image = _checked_image(image)
        every = _checked_paths(paths)
        self.elements = point_group([name for name in averaged if name != PHASES])
        channels, height, width = self.image
        self.lifted = max(
            (k + 1 for k, some in enumerate(every) if "group_conv" in some), default=0
        )
        turned = self.lifted or any(turns % 2 for _, turns in self.elements)
        if turned and height != width:
            raise ValueError(f"expected square images to turn, got {height} by {width}")
        self.shrink, size = (1, (height, width)) if maps else working_grid(height, width)
        covered = height % self.shrink == width % self.shrink == 0
        steps = range(self.shrink if PHASES in averaged and covered else 1)
        self.phases = [(i, j) for i in steps for j in steps]
        self.lift = Lift(group) if self.lifted else None
        self.sizes: tuple[tuple[int, int], ...] = (size,)
        layers = []
        for number, (some, units) in enumerate(zip(every, _UNITS, strict=True)):
            halves = number > 0 and _can_be_halved(size) and not maps
            units = -(-units // 2) if maps else units
            after, smaller = units * alpha, _halved(size) if halves else size
            lift = self.lift if number < self.lifted else None
            made: dict[str, nn.Module] = {
                path: _path(path, (channels, after), (size, smaller), lift) for path in some
            }
            pooled = [path for path in some if path in _CONVOLUTIONS and halves]
            pool = PolyphasePool2d() if pooled else None
            layers.append(PathSum(made, average=True, pool=pool, pooled=pooled))
            channels, size = after, smaller
            self.sizes = (*self.sizes, size)
        self.layers = nn.ModuleList(layers)
        self.pool = GroupPool() if self.lifted else None
        self.hidden = nn.Linear(channels, 2 * channels)
        width_out = outputs // (height * width) if maps else outputs
        self.head = nn.Linear(2 * channels, width_out)
        self.filter = (
            CircularConv2d(self.image[0], width_out, _FILTER, bias=False) if maps else None
        )
        self.places: nn.ParameterList | None = None
        if maps and "factored" in every[-1]:
            zeros = [torch.zeros(n, height, width) for n in (2 * channels, 2 * channels, width_out)]
            self.places = nn.ParameterList(zeros)
        self.in_features, self.out_features = prod(self.image), outputs
        self.register_buffer("x_mean", torch.zeros(self.image[0], 1, 1))
        self.register_buffer("x_scale", torch.ones(self.image[0], 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        """Images (n, channels, height, width), or rows of their pixels, to outputs (n, outputs)."""
        if x.ndim == 2 and x.shape[1] == self.in_features:
            x = x.unflatten(1, self.image)
        if x.ndim != 4 or x.shape[1:] != self.image:
            shape = ", ".join(map(str, self.image))
            raise ValueError(f"expected images of shape (n, {shape}), got {tuple(x.shape)}")
        if self.training or len(self.elements) * len(self.phases) == 1:
            return self._passed(x).flatten(1)
        total = torch.zeros((), dtype=x.dtype, device=x.device)
        for element, phase in product(self.elements, self.phases):
            y = self._passed(moved(x.roll(phase, (2, 3)), element).contiguous())
            total = total + (y if self.filter is None else moved_back(y, element))
        return total.flatten(1) / (len(self.elements) * len(self.phases))

    @torch.no_grad()
    def rescale(self, mean: Tensor, scale: Tensor) -> None:
        """From outputs in standard units to outputs in those of the data.

        Args:
            mean: Added to outputs, shape (outputs,); the same all over a channel of a map.
            scale: Multiplies them first, likewise.
        """
        each = self.out_features // self.head.out_features
        mean, scale = mean[::each].to(self.head.bias), scale[::each].to(self.head.bias)
        self.head.weight.mul_(scale[:, None])
        self.head.bias.mul_(scale).add_(mean)
        if self.filter is not None:
            self.filter.weight.mul_(scale[:, None, None, None])

    def _passed(self, x: Tensor) -> Tensor:
        """One pass, without the average over motions."""
        x = (x - self.x_mean) / self.x_scale
        given = x
        if self.shrink > 1:
            x = functional.adaptive_avg_pool2d(x, self.sizes[0])
        if self.lift is not None:
            x = self.lift(x)
        for number, layer in enumerate(self.layers, 1):
            x = layer(x).relu()
            if self.pool is not None and number == self.lifted:
                x = self.pool(x)
        if self.filter is None:
            y: Tensor = self.head(self.hidden(x.mean((2, 3))).relu())
            return y
        x, filtered = self.hidden(x.movedim(1, -1)).relu(), self.filter(given)
        if self.places is not None:
            gain, offset, weight = self.places
            x = x * (1 + gain.movedim(0, -1)) + offset.movedim(0, -1)
            filtered = filtered * (1 + weight)
        shown: Tensor = self.head(x).movedim(-1, 1) + filtered
        return shown


def _path(
    path: ImagePath,
    channels: tuple[int, int],
    sizes: tuple[tuple[int, int], tuple[int, int]],
    lift: Lift | None,
) -> nn.Module:
    if path == "group_conv":
        assert lift is not None
        return GroupConv2d(*channels, group=lift.group.name, form="pointwise")
    slices = 1 if lift is None else lift.group.order
    into, out = (slices * number for number in channels)
    made: nn.Module = (
        CircularConv2d(into, out) if path == "conv" else FactoredLinear(into, out, *sizes)
    )
    return made if lift is None else OnSlices(made, slices)


def working_grid(height: int, width: int) -> tuple[int, tuple[int, int]]:
    """The side of the squares that images are averaged over, and the size that this leaves.

    Example:
        >>> working_grid(28, 28)
        (2, (14, 14))
        >>> working_grid(8, 12)
        (1, (8, 12))
    """
    side = -(-max(height, width) // LARGEST_SIDE)
    return side, (-(-height // side), -(-width // side))


def _can_be_halved(size: tuple[int, int]) -> bool:
    return size[0] % 2 == 0 and size[1] % 2 == 0 and min(size) >= 2 * SMALLEST_SIDE


def _halved(size: tuple[int, int]) -> tuple[int, int]:
    return size[0] // 2, size[1] // 2


def _checked_image(image: Sequence[int]) -> tuple[int, int, int]:
    shape = tuple(image)
    if len(shape) != 3 or not all(isinstance(n, int) and n > 0 for n in shape):
        raise ValueError(f"expected an image as (channels, height, width), got {image!r:.80}")
    if min(shape[1:]) < SMALLEST_SIDE:
        raise ValueError(
            f"expected images of at least {SMALLEST_SIDE} by {SMALLEST_SIDE}, got "
            f"{shape[1]} by {shape[2]}"
        )
    return shape


def _checked_paths(paths: Sequence[Sequence[ImagePath]]) -> list[tuple[ImagePath, ...]]:
    every = [tuple(some) for some in paths]
    known = get_args(ImagePath)
    if len(every) != DEPTH or not all(some and set(some) <= set(known) for some in every):
        raise ValueError(
            f"expected paths of {', '.join(known)} for each of {DEPTH} layers, got {paths!r:.120}"
        )
    return every
