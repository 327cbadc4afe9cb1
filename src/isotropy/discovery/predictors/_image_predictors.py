"""Predictors of images, each fitted to some rows: with strict or free layers, of plain pixels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._image_motions import SHIFTS
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.predictors._image_network import (
    DEPTH,
    ImageNetwork,
    ImagePath,
    PointGroup,
    working_grid,
)
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.predictors._train_classifier import (
    Augment,
    ReportEpoch,
    kept_apart,
    outputs_of,
    train_network,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.nn import GridNetwork
from isotropy.search._space import SearchSpace, State

if TYPE_CHECKING:
    from isotropy.discovery.testing._bench import Bench

Tell: TypeAlias = Callable[[str], None]


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
    chosen = set()
    for part in sorted(parts):
        without = [one for one in fitted if part not in one.parts or one.depth < depth]
        chosen.add(min(without, key=lambda one: one.loss))
    return sorted(chosen, key=lambda one: one.loss)


@dataclass(frozen=True, eq=False)
class FreeImagePredictor(FreePredictor):
    """The best of several predictors of images that are built without a symmetry.

    A network of convolutions whose last layer is free has learned almost all that one of
    convolutions alone can; beside it stand a network of plain pixels and, for numbers, a linear
    map.

    Args:
        among: All of them.
    """

    among: tuple[FittedPredictor, ...] = ()

    @staticmethod
    def fitted(data: ImageData, seed: int, tell: Tell | None = None) -> FreeImagePredictor:
        """Those of some rows.

        Args:
            data: The rows.
            seed: Of weights and batches.
            tell: Whom to tell how it goes on.
        """
        every = []
        if data.target is None:
            network, loss = fit_pixels(data, seed, epochs_told(tell, "a network of pixels"))
            every.append(FittedPredictor("network of pixels", network, loss))
        if data.task == "regression":
            network, loss = fit_linear(data, seed)
            every.append(FittedPredictor("linear map of pixels", network, loss))
        kind = "network whose last layer is free"
        network, _, loss = fit_image_network(
            data, strict_paths("conv", DEPTH - 1), seed, report=epochs_told(tell, kind)
        )
        every.append(FittedPredictor(kind, network, loss, SHIFTS, DEPTH - 1))
        best = min(every, key=lambda one: one.loss)
        flat = data.losses(data.constant.expand(len(data.x), -1)).mean()
        left = best.loss / max(float(flat), 1e-300)
        return FreeImagePredictor(best.kind, best.predict, data.constant, left, tuple(every))


def free_network(bench: Bench, rows: ImageData, ways: Sequence[int]) -> FreePredictor:
    """A network free of a symmetry that a model is held against, fitted to the same rows.

    Args:
        bench: Keeps what is fitted.
        rows: The rows.
        ways: How many of the first layers may be convolutions; the best is taken.
    """
    fits = []
    for depth in ways:
        fit = partial(fit_image_network, rows, strict_paths("conv", depth), bench.seed + 1)
        fits.append(bench.once(("free network", rows, depth), fit))
    network, _, loss = min(fits, key=lambda fit: fit[2])
    return FreePredictor("network", partial(outputs_of, network), rows.constant, loss)


def epochs_told(tell: Tell | None, what: str) -> ReportEpoch | None:
    """What a training tells after each epoch."""
    if tell is None:
        return None
    return lambda epoch, epochs: tell(f"{what}: epoch {epoch} of {epochs}")


def strict_paths(path: ImagePath, depth: int) -> list[list[ImagePath]]:
    """The paths of each layer where so many have a single one, and the others are free.

    Example:
        >>> strict_paths("conv", 2)
        [['conv'], ['conv'], ['factored', 'conv'], ['factored', 'conv']]
    """
    free: list[ImagePath] = ["factored", "conv"]
    return [[path]] * depth + [free] * (DEPTH - depth)


def network_spec(
    data: ImageData,
    paths: Sequence[Sequence[ImagePath]],
    group: PointGroup = "p4",
    averaged: Collection[str] = (),
) -> dict[str, Any]:
    """The description of a network for these images, for ``build_model``."""
    return {
        "kind": "image network",
        "image": list(data.image),
        "outputs": data.outputs,
        "paths": [list(some) for some in paths],
        "alpha": PredictorThresholds.now().image_channels,
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
    share = PredictorThresholds.now().going_on
    loss = train_network(free, free.head, data, make_generator(seed), share=share)
    return free, loss


def fit_pixels(
    data: ImageData, seed: int, report: ReportEpoch | None = None
) -> tuple[nn.Module, float]:
    """A network of plain pixels, on the same grid as the others, and its loss on held-out rows."""
    size = working_grid(*data.image[1:])[1]
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed).get_state())
        units = PredictorThresholds.now().pixel_units
        network = _PixelNetwork(data.image, size, data.outputs, units)
    network.x_mean, network.x_scale = channel_units(data.maps)
    return network, train_network(network, network.head, data, make_generator(seed), report=report)


def fit_linear(data: ImageData, seed: int) -> tuple[nn.Module, float]:
    """A linear map of pixels and their squares to numbers, and its loss on held-out rows.

    It is fitted to the rows that networks are trained on, under the ridge that suits the others.
    Images of many pixels are averaged over squares first.
    """
    limits = PredictorThresholds.now()
    rest, held = map(torch.as_tensor, kept_apart(data, make_generator(seed)))
    channels, height, width = data.image
    size = (height, width)
    if channels * height * width > limits.linear_pixels:
        size = working_grid(height, width)[1]
    network = _LinearPixels(data.image, size, data.outputs)
    network.x_mean, network.x_scale = channel_units(data.maps)
    phi = network.features(data.x[rest]).double()
    middle, offset = phi.mean(0), data.y[rest].double().mean(0)
    phi = phi - middle
    gram, moment = phi.mT @ phi, phi.mT @ (data.y[rest].double() - offset)
    best, kept = float("inf"), torch.zeros_like(moment)
    for ridge in limits.image_ridges:
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


def fit_grid_network(
    data: ImageData, space: SearchSpace, state: State, seed: int
) -> tuple[GridNetwork, dict[str, Any], float]:
    """Train the network of a set of groups.

    Returns:
        The network in evaluation mode, its description, and its loss on held-out rows.

    Example:
        >>> from isotropy.data import load
        >>> import numpy as np
        >>> y = np.arange(120) % 2
        >>> x = y[:, None, None] + 0.1 * np.random.default_rng(0).normal(size=(120, 4, 4))
        >>> data = ImageData.of(load((x, y)))
        >>> space = SearchSpace((1, 4, 4), ("rotation",), ((4,),))
        >>> network, spec, _ = fit_grid_network(data, space, State(("rotation",)), 0)
        >>> spec["groups"], float((network(data.x).argmax(1) == data.y).float().mean())
        (['rotation'], 1.0)
    """
    hidden = space.hidden[state.hidden]
    spec = {
        "kind": "grid network",
        "image": list(data.image),
        "outputs": data.classes,
        "groups": list(state.groups),
        "hidden": list(hidden),
    }
    units = float(data.x.mean()), float(data.x.std().clamp_min(1e-6))
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed).get_state())
        network = GridNetwork(
            data.image,
            space.transformations(state),
            hidden=hidden,
            classes=data.classes,
            standardise=units,
        )
    return network, spec, train_network(network, network.head, data, make_generator(seed))


class _OfPixels(nn.Module):
    """Pixels in units of their own, averaged over squares of large images."""

    x_mean: Tensor
    x_scale: Tensor

    def __init__(self, image: tuple[int, int, int], size: tuple[int, int]) -> None:
        super().__init__()
        self.image, self.size = image, size
        self.register_buffer("x_mean", torch.zeros(image[0], 1, 1))
        self.register_buffer("x_scale", torch.ones(image[0], 1, 1))

    def in_units(self, rows: Tensor) -> Tensor:
        """Maps of shape (n, channels, height, width)."""
        maps: Tensor = (rows.unflatten(1, self.image) - self.x_mean) / self.x_scale
        return maps

    def averaged(self, maps: Tensor) -> Tensor:
        """Rows of numbers."""
        return functional.adaptive_avg_pool2d(maps, self.size).flatten(1)


class _PixelNetwork(_OfPixels):
    """Two plain layers of pixels, and a linear one."""

    def __init__(
        self, image: tuple[int, int, int], size: tuple[int, int], outputs: int, units: int
    ) -> None:
        super().__init__(image, size)
        self.body = nn.Sequential(
            nn.Linear(image[0] * size[0] * size[1], units),
            nn.ReLU(),
            nn.Linear(units, units),
            nn.ReLU(),
        )
        self.head = nn.Linear(units, outputs)

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of pixels to outputs (n, outputs)."""
        y: Tensor = self.head(self.body(self.averaged(self.in_units(rows))))
        return y

    @torch.no_grad()
    def rescale(self, mean: Tensor, scale: Tensor) -> None:
        """From outputs in standard units to those of the data."""
        self.head.weight.mul_(scale[:, None])
        self.head.bias.mul_(scale).add_(mean)


class _LinearPixels(_OfPixels):
    """A linear map of pixels and their squares."""

    def __init__(self, image: tuple[int, int, int], size: tuple[int, int], outputs: int) -> None:
        super().__init__(image, size)
        self.head = nn.Linear(2 * image[0] * size[0] * size[1], outputs)

    def features(self, rows: Tensor) -> Tensor:
        """What the map is linear in."""
        x = self.in_units(rows)
        return self.averaged(torch.cat([x, x.square()], 1))

    def forward(self, rows: Tensor) -> Tensor:
        """Rows of pixels to outputs (n, outputs)."""
        y: Tensor = self.head(self.features(rows))
        return y
