"""LeNet-5, the small convolutional network of Table A.20 and ResNet-20, each in three kinds.

Plain; equivariant, with features on shifts and turns and logits that do not change as images are
turned; shared, with kernels that look the same from every side. No network has a state besides
its parameters: normalisation is a function of one image, so Table A.20's batch normalisation and
that of ResNet-20 are group normalisation here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy.certificates._image_layers import Halve2d, Prepared, SliceNorm, TurnedConv2d
from isotropy.certificates._orbit_layers import ImageGroup, OrbitConv2d, OrbitSum
from isotropy.nn import GroupPool

Variant = Literal["plain", "equivariant", "shared"]
Device = torch.device | str | None
_SLICES = {"p4": 4, "p4m": 8}


class Classifier(nn.Module):
    """Features of one input, then a linear head.

    Example:
        >>> model = Classifier((1, 2, 2), nn.Flatten(), nn.Linear(4, 3))
        >>> model(torch.zeros(5, 1, 2, 2)).shape
        torch.Size([5, 3])
    """

    def __init__(self, shape: tuple[int, ...], features: nn.Module, head: nn.Module) -> None:
        super().__init__()
        self.prepare = Prepared(shape)
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs (n, *shape) to logits (n, classes)."""
        logits: Tensor = self.head(self.features(self.prepare(x)))
        return logits


@dataclass(frozen=True)
class Layers:
    """The layers that a network of one kind is made of.

    Example:
        >>> Layers("shared", "p4").conv(1, 2, 3).weight.shape
        torch.Size([2, 1, 3])
    """

    variant: Variant = "plain"
    group: ImageGroup | None = None
    device: Device = None

    @property
    def slices(self) -> int:
        """How many maps a channel has."""
        return _SLICES[str(self.group)] if self.variant == "equivariant" else 1

    def conv(self, into: int, out: int, size: int, *, lifts: bool = False, **how: Any) -> nn.Module:
        """A convolution of stride 1, but for plain ones; ``lifts`` where it reads images."""
        how["device"] = self.device
        how.setdefault("bias", False)
        if self.variant == "plain":
            return nn.Conv2d(into, out, size, **how)
        assert self.group is not None
        if self.variant == "shared":
            return OrbitConv2d(into, out, size, group=self.group, lifts=lifts, **how)
        turns = cast(Literal["p4", "p4m"], self.group)
        return TurnedConv2d(into, out, size, group=turns, lifts=lifts, **how)

    def normed(self, into: int, out: int, *, lifts: bool = False) -> list[nn.Module]:
        """A 3×3 convolution that keeps the size of its maps, normalised, then ReLU."""
        conv = self.conv(into, out, 3, padding=1, lifts=lifts)
        return [conv, SliceNorm(out, self.slices, device=self.device), nn.ReLU()]

    def linear(self, into: int, out: int) -> nn.Linear:
        """A plain linear layer."""
        return nn.Linear(into, out, device=self.device)

    def pooled(self) -> list[nn.Module]:
        """From maps to one number for each channel: the largest slice, then the mean."""
        largest = [nn.Unflatten(1, (-1, self.slices)), GroupPool()] if self.slices > 1 else []
        return [*largest, nn.AdaptiveAvgPool2d(1), nn.Flatten()]


def lenet5(shape: tuple[int, int, int], classes: int, width: int, layers: Layers) -> Classifier:
    """LeNet-5 as the thesis has it: 5×5 convolutions to 20 and 50 channels, 500 units.

    Args:
        shape: Of one image, (channels, h, w), with sides of 13 at least.
        classes: How many logits.
        width: Units of the hidden layer, 500; channels are 1/25 and 1/10 of it.
        layers: What it is made of. The hidden layer of an equivariant network is a group
            convolution over whole maps, that of a shared one reads sums over orbits of pixels.

    Example:
        >>> model = lenet5((1, 28, 28), 10, 500, Layers())
        >>> sum(parameter.numel() for parameter in model.parameters())
        431080
    """
    channels, *sides = shape
    first, second = max(1, round(width / 25)), max(1, round(width / 10))
    steps: list[nn.Module] = []
    for into, out in ((channels, first), (first, second)):
        conv = layers.conv(into, out, 5, lifts=not steps, bias=True)
        steps += [conv, nn.ReLU(), Halve2d("max")]
        sides = [ceil((side - 4) / 2) for side in sides]
    if layers.variant == "equivariant":
        whole = layers.conv(second, width, sides[0], bias=True)
        steps += [whole, nn.ReLU(), *layers.pooled()]
    elif layers.variant == "shared":
        assert layers.group is not None
        read = OrbitSum(layers.group, *sides)
        steps += [read, layers.linear(second * read.orbits, width), nn.ReLU()]
    else:
        flat = second * sides[0] * sides[1]
        steps += [nn.Flatten(), layers.linear(flat, width), nn.ReLU()]
    return Classifier(shape, nn.Sequential(*steps), layers.linear(width, classes))


def convnet(shape: tuple[int, int, int], classes: int, width: int, layers: Layers) -> Classifier:
    """The network of Table A.20: nine 3×3 convolutions, k and then 2k channels, two max pools.

    Example:
        >>> model = convnet((3, 32, 32), 10, 16, Layers())
        >>> model(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """
    steps = layers.normed(shape[0], width, lifts=True) + layers.normed(width, width)
    steps += layers.normed(width, 2 * width)
    for _ in range(2):
        steps.append(Halve2d("max"))
        for _ in range(3):
            steps += layers.normed(2 * width, 2 * width)
    steps += layers.pooled()
    return Classifier(shape, nn.Sequential(*steps), layers.linear(2 * width, classes))


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions beside a shortcut without parameters (He et al. 2016, option A).

    Where maps are halved, plain blocks take every second pixel, in the convolution and the
    shortcut. On even sides no turn keeps those pixels, so other blocks take means of 2×2 first.

    Example:
        >>> ResidualBlock(4, 8, True, Layers())(torch.zeros(1, 4, 8, 8)).shape
        torch.Size([1, 8, 4, 4])
    """

    def __init__(self, into: int, out: int, halves: bool, layers: Layers) -> None:
        super().__init__()
        strides = halves and layers.variant == "plain"
        how: dict[str, Any] = {"stride": 2} if strides else {}
        self.halve = Halve2d("mean") if halves and not strides else None
        self.step = 2 if strides else 1
        self.wider = (out - into) * layers.slices
        self.conv1 = layers.conv(into, out, 3, padding=1, **how)
        self.norm1 = SliceNorm(out, layers.slices, device=layers.device)
        self.conv2 = layers.conv(out, out, 3, padding=1)
        self.norm2 = SliceNorm(out, layers.slices, device=layers.device)

    def forward(self, x: Tensor) -> Tensor:
        """Map (n, into · slices, h, w) to (n, out · slices, h', w')."""
        x = x if self.halve is None else self.halve(x)
        y: Tensor = self.norm2(self.conv2(self.norm1(self.conv1(x)).relu()))
        shortcut = x[..., :: self.step, :: self.step]
        y = y + functional.pad(shortcut, (0, 0, 0, 0, 0, self.wider))
        return y.relu()


def resnet20(shape: tuple[int, int, int], classes: int, width: int, layers: Layers) -> Classifier:
    """The residual network of 20 layers for small images (He et al. 2016): 3 stages of 3 blocks.

    Example:
        >>> model = resnet20((3, 32, 32), 10, 16, Layers())
        >>> sum(parameter.numel() for parameter in model.parameters())
        269722
    """
    steps = layers.normed(shape[0], width, lifts=True)
    into = width
    for out in (width, 2 * width, 4 * width):
        for _ in range(3):
            steps.append(ResidualBlock(into, out, out != into, layers))
            into = out
    steps += layers.pooled()
    return Classifier(shape, nn.Sequential(*steps), layers.linear(into, classes))
