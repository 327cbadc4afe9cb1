"""Networks for images a second time: convolutions by windows, turns by indexing.

Maps are (n, channels · slices, h, w), a slice for each turn of an equivariant network.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, prod, sqrt

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from attacks.second_generators import orbits
from attacks.second_layers import (
    Architecture,
    Layer,
    Network,
    Parameter,
    Shape,
    linear_layer,
    relu,
    standardised,
)


def image_network(architecture: Architecture, shape: Shape, outputs: int) -> Network:
    """LeNet-5, the network of Table A.20 or ResNet-20, of any kind."""
    width = _width(architecture, shape, outputs)
    return _image_network(architecture, shape, outputs, width)


def _width(architecture: Architecture, shape: Shape, outputs: int) -> int:
    """As asked, or what makes an equivariant network about as large as the plain one."""
    asked = architecture.sizes[0] if architecture.sizes else 500
    if architecture.variant != "equivariant":
        return asked
    plain = Architecture(architecture.name, architecture.sizes)
    wanted = _image_network(plain, shape, outputs, asked).size

    def excess(width: int) -> int:
        return _image_network(architecture, shape, outputs, width).size - wanted

    low, high = 1, asked
    while high - low > 1:
        middle = (low + high) // 2
        if excess(middle) <= 0:
            low = middle
        else:
            high = middle
    return min(sorted({low, high}), key=lambda width: abs(excess(width)))


def _image_network(architecture: Architecture, shape: Shape, outputs: int, width: int) -> Network:
    group = None if architecture.group is None else architecture.group.kind
    net = _Images(architecture.variant, group)
    net.layers.append(lambda _, x: standardised(x))
    {"lenet5": _lenet5, "convnet": _convnet, "resnet20": _resnet20}[architecture.name](
        net, shape, width
    )
    net.linear(outputs, film=True)
    return net


def _lenet5(net: _Images, shape: Shape, width: int) -> None:
    net.channels = shape[0]
    first, second = max(1, round(width / 25)), max(1, round(width / 10))
    sides = shape[1:]
    for place, channels in enumerate((first, second)):
        net.layers.append(net.conv(channels, 5, lifts=place == 0, bias=True))
        net.layers += [relu, _halved_max]
        sides = tuple(ceil((side - 4) / 2) for side in sides)
    if net.variant == "equivariant":
        net.layers += [net.conv(width, sides[0], bias=True), relu]
        net.pool()
        return
    if net.variant == "shared":
        net.sum_orbits(*sides)
    else:
        net.layers.append(lambda _, x: x.reshape(len(x), -1))
        net.channels *= prod(sides)
    net.linear(width)
    net.layers.append(relu)


def _convnet(net: _Images, shape: Shape, width: int) -> None:
    net.channels = shape[0]
    wide = [2 * width] * 3
    for place, channels in enumerate([width, width, 2 * width, *wide, *wide]):
        if place in (3, 6):
            net.layers.append(_halved_max)
        net.normed(channels, lifts=place == 0)
    net.pool()


def _resnet20(net: _Images, shape: Shape, width: int) -> None:
    net.channels = shape[0]
    net.normed(width, lifts=True)
    for stage in (1, 2, 4):
        for _ in range(3):
            net.residual(stage * width)
    net.pool()


class _Images(Network):
    """A network under construction, with the number of channels so far."""

    def __init__(self, variant: str, group: str | None) -> None:
        super().__init__()
        self.variant, self.group, self.channels = variant, group, 0
        self.slices = {"p4": 4, "p4m": 8}[group] if variant == "equivariant" else 1

    def conv(
        self, out: int, size: int, *, lifts: bool = False, bias: bool = False, **how: int
    ) -> Layer:
        into, slices, self.channels = self.channels, self.slices, out
        if self.variant == "plain":
            shape: Shape = (out, into, size, size)
            deviation = sqrt(1 / (into * size * size))
        elif self.variant == "shared":
            labels = pixel_orbits(self.group, size, size)
            counts = np.bincount(labels)
            shape = (out, into, len(counts))
            deviation = sqrt(1 / (into * _orbit_fan_in(counts, lifts)))
        else:
            seen = 1 if lifts else slices
            shape = (out, into, seen, size, size)
            deviation = sqrt(1 / (into * seen * size * size))
        (weight,) = self.add(Parameter(shape, deviation))
        shift = self.add(Parameter((out,))) if bias else []

        def apply(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
            kernel = tensors[weight]
            if self.variant == "shared":
                kernel = kernel[:, :, labels].reshape(out, into, size, size)
            elif self.variant == "equivariant":
                kernel = _turned_kernels(kernel, slices)
            y = convolved(x, kernel, **how)
            if not shift:
                return y
            return y + np.repeat(tensors[shift[0]], slices)[:, None, None]

        return apply

    def norm(self) -> Layer:
        channels, slices = self.channels, self.slices
        most = max(1, channels // 4)
        groups = max(g for g in range(1, most + 1) if channels % g == 0)
        scale, shift = self.add(
            Parameter((channels,), constant=1.0, film=True), Parameter((channels,), film=True)
        )

        def apply(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
            grouped = x.reshape(len(x), groups, -1)
            centred = grouped - grouped.mean(2, keepdims=True)
            variance = (centred * centred).mean(2, keepdims=True)
            y = (centred / np.sqrt(variance + 1e-5)).reshape(x.shape)
            factors, terms = (np.repeat(tensors[i], slices)[:, None, None] for i in (scale, shift))
            return y * factors + terms

        return apply

    def normed(self, out: int, *, lifts: bool = False) -> None:
        self.layers += [self.conv(out, 3, lifts=lifts, padding=1), self.norm(), relu]

    def residual(self, out: int) -> None:
        into = self.channels
        halves = out != into
        strides = halves and self.variant == "plain"
        how = {"stride": 2} if strides else {}
        path = [self.conv(out, 3, padding=1, **how), self.norm(), relu]
        path += [self.conv(out, 3, padding=1), self.norm()]
        wider = (out - into) * self.slices

        def apply(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
            if halves and not strides:
                x = _halved_mean(tensors, x)
            y = x
            for layer in path:
                y = layer(tensors, y)
            kept = x[..., ::2, ::2] if strides else x
            y = y + np.pad(kept, ((0, 0), (0, wider), (0, 0), (0, 0)))
            return np.maximum(y, 0)

        self.layers.append(apply)

    def pool(self) -> None:
        """The largest slice, then the mean over pixels."""
        slices = self.slices
        self.layers.append(
            lambda _, x: x.reshape(len(x), -1, slices, *x.shape[2:]).max(2).mean((2, 3))
        )

    def sum_orbits(self, height: int, width: int) -> None:
        labels = pixel_orbits(self.group, height, width)
        members = np.eye(labels.max() + 1)[labels]
        self.stored.append(members)
        self.channels *= members.shape[1]

        def apply(tensors: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
            counts = tensors[-1].sum(0)
            scales = 1 / np.sqrt(counts + 0.7 * (counts * counts - counts))
            return ((x.reshape(*x.shape[:2], -1) @ tensors[-1]) * scales).reshape(len(x), -1)

        self.layers.append(apply)

    def linear(self, out: int, *, film: bool = False) -> None:
        linear_layer(self, self.channels, out, film=film)
        self.channels = out


def _orbit_fan_in(counts: np.ndarray, lifts: bool) -> float:
    """Σ m + 0.7 (m² − m) over orbits of m entries; for images, Σ m.

    The library adds numbers of 32 bits, one after the other; so does this.
    """
    if lifts:
        return float(counts.sum())
    total = np.float32(0)
    for m in counts.tolist():
        total += np.float32(m) + np.float32(0.7) * np.float32(m * m - m)
    return float(total)


@lru_cache(maxsize=64)
def pixel_orbits(group: str, height: int, width: int) -> np.ndarray:
    """The orbit of every pixel under turns or flips, numbered by first appearance."""
    grid = np.arange(height * width).reshape(height, width)
    images = {
        "GridFlips": [grid[::-1], grid[:, ::-1]],
        "p4": [np.rot90(grid)],
        "p4m": [np.rot90(grid), grid[:, ::-1]],
    }[group]
    return orbits([image.ravel() for image in images], grid.size)


def _turn(image: np.ndarray, k: int) -> np.ndarray:
    return np.rot90(image[..., ::-1] if k >= 4 else image, k % 4, (-2, -1))


@lru_cache(maxsize=2)
def _quotients(slices: int) -> list[list[int]]:
    """Which element k⁻¹k' is, by what turns do to a grid."""
    grid = np.arange(9).reshape(3, 3)
    return [
        [
            next(e for e in range(slices) if (_turn(_turn(grid, e), k) == _turn(grid, other)).all())
            for other in range(slices)
        ]
        for k in range(slices)
    ]


def _turned_kernels(theta: np.ndarray, slices: int) -> np.ndarray:
    """θ(c', c, k⁻¹k', k'⁻¹q) for output slice k' and input slice k."""
    out, into, seen, size, _ = theta.shape
    kernel = np.empty((out, slices, into, seen, size, size))
    quotients = _quotients(slices)
    for target in range(slices):
        for source in range(seen):
            place = quotients[source][target] if seen > 1 else 0
            kernel[:, target, :, source] = _turn(theta[:, :, place], target)
    return kernel.reshape(out * slices, into * seen, size, size)


def convolved(
    x: np.ndarray, kernel: np.ndarray, *, padding: int = 0, stride: int = 1
) -> np.ndarray:
    """Σ_q x(p + q) θ(q) with zeros around the maps."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = sliding_window_view(x, kernel.shape[2:], (2, 3))[:, :, ::stride, ::stride]
    y = np.tensordot(windows, kernel, ((1, 4, 5), (1, 2, 3)))
    return np.ascontiguousarray(y.transpose(0, 3, 1, 2))


def _windows(x: np.ndarray, fill: float) -> np.ndarray:
    """Pairs along even sides, overlapping threes along odd ones, shape (…, h', w', a, b)."""
    odd = [side % 2 for side in x.shape[2:]]
    pad = [(0, 0), (0, 0), *((o, o) for o in odd)]
    filled = np.pad(x, pad, constant_values=fill)
    return sliding_window_view(filled, [2 + o for o in odd], (2, 3))[:, :, ::2, ::2]


def _halved_max(_: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
    return _windows(x, -np.inf).max((4, 5))


def _halved_mean(_: Sequence[np.ndarray], x: np.ndarray) -> np.ndarray:
    inside = _windows(np.ones_like(x[:1, :1]), 0.0).sum((4, 5))
    return _windows(x, 0.0).sum((4, 5)) / inside
