"""What networks are made of: parameters in order, and layers that are functions of their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod, sqrt

import numpy as np

from attacks.second_groups import Group

Shape = tuple[int, ...]
Layer = Callable[[Sequence[np.ndarray], np.ndarray], np.ndarray]
DEFAULTS = {"mlp": (150, 150, 150), "lenet5": (), "convnet": (16,), "resnet20": (16,)}


@dataclass(frozen=True)
class Architecture:
    """What the message says of a network of the catalogue."""

    name: str
    sizes: tuple[int, ...]
    variant: str = "plain"
    group: Group | None = None
    space: tuple[tuple[int, int], ...] = ()

    def __str__(self) -> str:
        sizes = () if self.sizes == DEFAULTS[self.name] else self.sizes
        words = ["-".join([self.name, *map(str, sizes)])]
        if self.group is not None:
            words += [self.variant, str(self.group) if self.name == "mlp" else self.group.kind]
        names = ("Scalar", "V", "T(2)", "T(0,1)", "T(1,1)", "T(0,2)")
        terms = [names[k] if n == 1 else f"{n}*{names[k]}" for n, k in self.space]
        return " ".join([*words, "+".join(terms)] if terms else words)


@dataclass(frozen=True)
class Parameter:
    """A tensor: drawn with a deviation, or a constant at the start."""

    shape: Shape
    deviation: float | None = None
    constant: float = 0.0
    film: bool = False


@dataclass
class Network:
    """Parameters in order, layers in order.

    A start that a file holds has constants after the parameters: those that are ``stored``, which
    layers find at the end of their tensors, or bases of equivariant spaces.
    """

    parameters: list[Parameter] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)
    stored: list[np.ndarray] = field(default_factory=list)
    has_bases: bool = False

    def add(self, *parameters: Parameter) -> list[int]:
        first = len(self.parameters)
        self.parameters += parameters
        return list(range(first, first + len(parameters)))

    @property
    def size(self) -> int:
        return sum(prod(parameter.shape) for parameter in self.parameters)

    def __call__(self, tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            for layer in self.layers:
                x = layer(tensors, x)
        return x


def standardised(x: np.ndarray) -> np.ndarray:
    """Each image less its mean, over its deviation."""
    centred = x - x.mean((1, 2, 3), keepdims=True)
    return centred / np.sqrt((centred * centred).mean((1, 2, 3), keepdims=True) + 1e-5)


def relu(_: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def linear_layer(net: Network, into: int, out: int, *, film: bool = False) -> None:
    weight, bias = net.add(
        Parameter((out, into), sqrt(1 / into), film=film), Parameter((out,), film=film)
    )
    net.layers.append(lambda tensors, x: x @ tensors[weight].T + tensors[bias])
