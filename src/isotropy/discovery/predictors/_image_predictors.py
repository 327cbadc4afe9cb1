"""Predictors of images: networks with strict or free layers, and one of plain pixels."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import sample_losses
from isotropy.discovery.predictors._image_network import (
    DEPTH,
    ImageNetwork,
    ImagePath,
    PointGroup,
    working_grid,
)
from isotropy.discovery.predictors._train_classifier import (
    Augment,
    ReportEpoch,
    kept_apart,
    outputs_of,
    train_network,
)
from isotropy.discovery.reading._image_data import ImageData

FREE: list[list[ImagePath]] = [["factored", "conv"]] * DEPTH
_ALPHA, _LIFTED_ALPHA = 8, 8  # a layer with slices costs four times as much
_HIDDEN = 128
_GONE_ON = 0.5  # of the usual schedule
_MOST_PIXELS = 1100
_RIDGES = (1e-8, 1e-3, 1e-2, 0.1, 1.0, 10.0)


def network_spec(
    data: ImageData,
    paths: Sequence[Sequence[ImagePath]],
    group: PointGroup = "p4",
    averaged: Collection[str] = (),
) -> dict[str, Any]:
    """The description of a network for these images, for ``build_model``."""
    lifted = any("group_conv" in some for some in paths)
    return {
        "kind": "image network",
        "image": list(data.image),
        "outputs": data.outputs,
        "paths": [list(some) for some in paths],
        "alpha": _LIFTED_ALPHA if lifted else _ALPHA,
        "group": group,
        **({} if data.target is None else {"maps": True}),
        **({"averaged": sorted(averaged)} if averaged else {}),
    }


def made_image_network(spec: dict[str, Any], data: ImageData | None, seed: int) -> ImageNetwork:
    """A network at random, in the units of these images."""
    arguments = {name: value for name, value in spec.items() if name != "kind"}
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed).get_state())
        network = ImageNetwork(
            arguments.pop("image"), arguments.pop("outputs"), arguments.pop("paths"), **arguments
        )
    if data is not None:
        network.x_mean, network.x_scale = channel_units(data.maps)
    return network


def channel_units(maps: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every channel, (channels, 1, 1); 1 where it is constant."""
    mean = maps.double().mean((0, 2, 3)).reshape(-1, 1, 1)
    scale = (maps - mean).square().mean((0, 2, 3)).sqrt().reshape(-1, 1, 1)
    scale = torch.where(scale > 1e-9 * maps.abs().amax(), scale, 1.0)
    return mean.float(), scale.float()


def fit_image_network(
    data: ImageData,
    paths: Sequence[Sequence[ImagePath]],
    seed: int,
    *,
    group: PointGroup = "p4",
    averaged: Collection[str] = (),
    augment: Augment | None = None,
    report: ReportEpoch | None = None,
) -> tuple[ImageNetwork, dict[str, Any], float]:
    """Train a network with these paths.

    Returns:
        The network in evaluation mode, its description, and its loss on held-out rows.

    Example:
        >>> from isotropy.data import load
        >>> import numpy as np
        >>> y = np.arange(120) % 2
        >>> x = y[:, None, None] + 0.1 * np.random.default_rng(0).normal(size=(120, 4, 4))
        >>> data = ImageData.of(load((x, y)))
        >>> network, spec, loss = fit_image_network(data, [["conv"]] * 4, 0)
        >>> spec["paths"], loss < 0.3
        ([['conv'], ['conv'], ['conv'], ['conv']], True)
    """
    spec = network_spec(data, paths, group, averaged)
    network = made_image_network(spec, data, seed)
    loss = train_network(
        network, network.head, data, make_generator(seed), augment=augment, report=report
    )
    return network, spec, loss


def gone_on(network: ImageNetwork, data: ImageData, seed: int) -> tuple[ImageNetwork, float]:
    """A network that goes on from a trained one, free of the motions that this is averaged over.

    It knows what the symmetric network has learned, and unlearns the symmetry where that helps.

    Returns:
        The network in evaluation mode, and its loss on held-out rows.
    """
    free = deepcopy(network)
    free.elements = free.elements[:1]
    if data.task == "regression":
        mean, scale = data.target_units
        free.rescale(-mean / scale, 1 / scale)
    loss = train_network(free, free.head, data, make_generator(seed), share=_GONE_ON)
    return free, loss


def fit_pixels(
    data: ImageData, seed: int, report: ReportEpoch | None = None
) -> tuple[nn.Module, float]:
    """A network of plain pixels, on the same grid as the others, and its loss on held-out rows."""
    _, height, width = data.image
    _, size = working_grid(height, width)
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed).get_state())
        network = _PixelNetwork(data.image, size, data.outputs)
    network.x_mean, network.x_scale = channel_units(data.maps)
    return network, train_network(network, network.head, data, make_generator(seed), report=report)


def fit_linear(data: ImageData, seed: int) -> tuple[nn.Module, float]:
    """A linear map of pixels and their squares to numbers, and its loss on held-out rows.

    It is fitted to the rows that networks are trained on, under the ridge that suits the others.
    Images of many pixels are averaged over squares first.
    """
    rest, held = map(torch.as_tensor, kept_apart(data, make_generator(seed)))
    _, height, width = data.image
    size = (height, width)
    if data.image[0] * height * width > _MOST_PIXELS:
        size = working_grid(height, width)[1]
    network = _Linear(data.image, size, data.outputs)
    network.x_mean, network.x_scale = channel_units(data.maps)
    phi = network.features(data.x[rest]).double()
    middle, offset = phi.mean(0), data.y[rest].double().mean(0)
    phi = phi - middle
    gram, moment = phi.mT @ phi, phi.mT @ (data.y[rest].double() - offset)
    best, kept = float("inf"), torch.zeros_like(moment)
    for ridge in _RIDGES:
        damped = gram.clone()
        damped.diagonal().add_(ridge * len(phi))
        weight = torch.linalg.solve(damped, moment)
        predictions = (network.features(data.x[held]).double() - middle) @ weight + offset
        loss = float(sample_losses(predictions, data.y[held], data.task).mean())
        if loss < best:
            best, kept = loss, weight
    with torch.no_grad():
        network.head.weight.copy_(kept.mT)
        network.head.bias.copy_(offset - middle @ kept)
    return network.eval(), best


@dataclass(frozen=True, eq=False)
class FittedPredictor:
    """A predictor of images, and how far it was built with a symmetry.

    Args:
        kind: What it is, in a few words.
        network: From rows of pixels to logits or numbers.
        loss: On rows held out of its training.
        parts: What the motions are made of that its first layers commute with.
        depth: How many layers these are.
    """

    kind: str
    network: nn.Module
    loss: float
    parts: frozenset[str] = frozenset()
    depth: int = 0

    def predict(self, x: Tensor) -> Tensor:
        """Logits or numbers of rows of pixels, float64."""
        return outputs_of(self.network, x)


def rivals(
    fitted: Sequence[FittedPredictor], parts: frozenset[str], depth: int = DEPTH
) -> list[FittedPredictor]:
    """Whom a claim is held against: for each part of it, the best predictor built without it.

    A claim about turns is thus held against networks that have learned as much as one can that
    commutes with shifts, and not just against free ones, that may have learned little.

    Returns:
        The rivals, each once, the best first.

    Example:
        >>> free = FittedPredictor("free", nn.Identity(), 0.9)
        >>> shifts = FittedPredictor("conv", nn.Identity(), 0.1, frozenset({"up", "across"}), 4)
        >>> [rival.kind for rival in rivals([free, shifts], frozenset({"turn"}))]
        ['conv']
        >>> [rival.kind for rival in rivals([free, shifts], frozenset({"turn", "up"}))]
        ['conv', 'free']
    """
    chosen = {}
    for part in sorted(parts):
        without = [one for one in fitted if part not in one.parts or one.depth < depth]
        best = min(without, key=lambda one: one.loss)
        chosen[id(best)] = best
    return sorted(chosen.values(), key=lambda one: one.loss)


class _PixelNetwork(nn.Module):
    x_mean: Tensor
    x_scale: Tensor

    def __init__(self, image: tuple[int, int, int], size: tuple[int, int], outputs: int) -> None:
        super().__init__()
        self.image, self.size = image, size
        self.body = nn.Sequential(
            nn.Linear(image[0] * size[0] * size[1], _HIDDEN),
            nn.ReLU(),
            nn.Linear(_HIDDEN, _HIDDEN),
            nn.ReLU(),
        )
        self.head = nn.Linear(_HIDDEN, outputs)
        self.register_buffer("x_mean", torch.zeros(image[0], 1, 1))
        self.register_buffer("x_scale", torch.ones(image[0], 1, 1))

    def forward(self, rows: Tensor) -> Tensor:
        x = (rows.unflatten(1, self.image) - self.x_mean) / self.x_scale
        x = functional.adaptive_avg_pool2d(x, self.size)
        y: Tensor = self.head(self.body(x.flatten(1)))
        return y

    @torch.no_grad()
    def rescale(self, mean: Tensor, scale: Tensor) -> None:
        """From outputs in standard units to those of the data."""
        self.head.weight.mul_(scale[:, None])
        self.head.bias.mul_(scale).add_(mean)


class _Linear(nn.Module):
    x_mean: Tensor
    x_scale: Tensor

    def __init__(self, image: tuple[int, int, int], size: tuple[int, int], outputs: int) -> None:
        super().__init__()
        self.image, self.size = image, size
        self.head = nn.Linear(2 * image[0] * size[0] * size[1], outputs)
        self.register_buffer("x_mean", torch.zeros(image[0], 1, 1))
        self.register_buffer("x_scale", torch.ones(image[0], 1, 1))

    def features(self, rows: Tensor) -> Tensor:
        x = (rows.unflatten(1, self.image) - self.x_mean) / self.x_scale
        x = functional.adaptive_avg_pool2d(torch.cat([x, x.square()], 1), self.size)
        return x.flatten(1)

    def forward(self, rows: Tensor) -> Tensor:
        y: Tensor = self.head(self.features(rows))
        return y
