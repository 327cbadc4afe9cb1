"""Small image classifiers and how they are trained, for what training does to equivariance."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import cos, pi
from typing import Any, Literal, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from isotropy.nn import anti_aliased
from isotropy.run import generator as make_generator
from isotropy_papers._vision_models import Mixer, SmallCNN, ViT, resnet18

Architecture: TypeAlias = Literal["CNN", "ResNet", "ViT", "Mixer"]
Recipe: TypeAlias = Literal["plain", "augmented", "mixup"]

_DEPTH, _PATCH, _HEADS = 4, 4, 3
_WEIGHT_DECAY, _WARM_UP = 0.05, 0.1
_SHIFT = 4


@dataclass(frozen=True)
class NamedClassifier:
    """A network and its training.

    Args:
        architecture: "CNN": three convolutions; "ResNet": 18 layers; "ViT" and "Mixer": four blocks
            on patches of 4 pixels.
        width: Channels after the stem, or of a token.
        recipe: "plain"; "augmented": shifts by up to 4 pixels and flips; "mixup": blends of pairs.
        blur: Whether a BlurPool stands wherever convolutions subsample.
        rows: Trained on so many images; ``None`` for all.
        data: The set.

    Example:
        >>> NamedClassifier("ResNet", 16, blur=True).name
        'ResNet w16 BlurPool'
    """

    architecture: Architecture
    width: int
    recipe: Recipe = "plain"
    blur: bool = False
    rows: int | None = None
    data: str = "cifar10"

    @property
    def name(self) -> str:
        """A short name; plain choices are left unsaid."""
        parts = [f"{self.architecture} w{self.width}"]
        parts += ["BlurPool"] if self.blur else []
        parts += [self.recipe] if self.recipe != "plain" else []
        parts += [f"n={self.rows}"] if self.rows is not None else []
        parts += [self.data] if self.data != "cifar10" else []
        return " ".join(parts)

    def fields(self) -> dict[str, Any]:
        """Everything that matters, of what JSON knows."""
        return asdict(self)

    def network(self, images: Tensor, classes: int, seed: int) -> nn.Module:
        """The network at random, from pixels in [0, 1] to logits.

        Args:
            images: Images of the size and channels it is for.
            classes: The number of logits.
            seed: The seed of the weights.
        """
        channels, size = images.shape[1], images.shape[-1]
        net: nn.Module
        if self.architecture == "CNN":
            net = SmallCNN(classes, channels, self.width, seed=seed)
        elif self.architecture == "ResNet":
            net = resnet18(classes, self.width, "small", channels=channels, seed=seed)
        elif self.architecture == "ViT":
            net = ViT(
                size,
                _PATCH,
                self.width,
                _DEPTH,
                _HEADS,
                classes=classes,
                channels=channels,
                seed=seed,
            )
        else:
            hidden = self.width // 2, 4 * self.width
            net = Mixer(size, _PATCH, self.width, _DEPTH, *hidden, classes, channels, seed=seed)
        return nn.Sequential(Standardise(), anti_aliased(net) if self.blur else net)


@dataclass(frozen=True)
class ClassifierTraining:
    """How long and in which steps a classifier is trained.

    Args:
        epochs: Passes through all training images.
        batch: How many images in a step.
        rate: The largest learning rate.

    Example:
        >>> ClassifierTraining(4, 32, 3e-3).steps(1500)
        184
    """

    epochs: int
    batch: int
    rate: float

    def steps(self, rows: int) -> int:
        """The number of steps for so many images."""
        return max(1, self.epochs * (rows // min(self.batch, rows)))


class Standardise(nn.Module):
    """Bring pixels in [0, 1] to about zero mean and unit variance: 4x − 2.

    Example:
        >>> Standardise()(torch.tensor([0.0, 0.5, 1.0]))
        tensor([-2.,  0.,  2.])
    """

    def forward(self, x: Tensor) -> Tensor:
        """Map pixels to a network's inputs, of any shape."""
        return 4 * x - 2


def train(
    model: nn.Module,
    data: tuple[Tensor, Tensor],
    recipe: Recipe,
    steps: int,
    *,
    batch: int = 128,
    rate: float = 1e-3,
    seed: int,
    device: str = "cpu",
) -> None:
    """Train a classifier for a fixed number of steps; nothing is chosen by a validation error.

    AdamW, a learning rate that rises over the first tenth of the steps and falls to zero as a
    cosine, weight decay 0.05.

    Args:
        model: From images to logits; it is moved to the device, and left in evaluation mode.
        data: Images and labels.
        recipe: As of `NamedClassifier`.
        steps: How many.
        batch: How many images in each.
        rate: The largest learning rate.
        seed: The seed of batches, shifts, flips and blends.
        device: Where to train.

    Example:
        >>> x = torch.rand(64, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> x[32:] *= 0.2
        >>> y = (torch.arange(64) >= 32).long()
        >>> model = NamedClassifier("CNN", 8).network(x, 2, seed=0)
        >>> train(model, (x, y), "plain", 100, rate=3e-3, seed=0)
        >>> accuracy(model, x, y) > 0.9
        True
    """
    x, y = (part.to(device) for part in data)
    rng = make_generator(seed)
    model.to(device).train()
    optimiser = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=_WEIGHT_DECAY)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _rate(step, steps))
    order = torch.randperm(len(x), generator=rng)
    batch, first = min(batch, len(x)), 0
    for _ in range(steps):
        if first + batch > len(x):
            order, first = torch.randperm(len(x), generator=rng), 0
        rows = order[first : first + batch].to(device)
        first += batch
        loss = _loss(model, x[rows], y[rows], recipe, rng)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        schedule.step()
    model.eval()


def _rate(step: int, steps: int) -> float:
    """The learning rate as a share of its peak."""
    rise = max(1, round(_WARM_UP * steps))
    if step < rise:
        return (step + 1) / rise
    return 0.5 * (1 + cos(pi * (step - rise) / max(1, steps - rise)))


def _loss(model: nn.Module, x: Tensor, y: Tensor, recipe: Recipe, rng: torch.Generator) -> Tensor:
    if recipe == "augmented":
        x = shifted_and_flipped(x, rng)
    if recipe != "mixup":
        return F.cross_entropy(model(x), y)
    share = float(torch.rand((), generator=rng))
    others = torch.randperm(len(x), generator=rng).to(x.device)
    logits = model(share * x + (1 - share) * x[others])
    return share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y[others])


def shifted_and_flipped(x: Tensor, generator: torch.Generator | int | None) -> Tensor:
    """Shift each image by up to 4 pixels along both axes, mirrored at the edge, and flip half.

    Args:
        x: Images, shape (n, c, h, w).
        generator: A seed or a generator.

    Example:
        >>> x = torch.arange(64.0).reshape(1, 1, 8, 8)
        >>> shifted_and_flipped(x, 0).shape
        torch.Size([1, 1, 8, 8])
    """
    rng = make_generator(generator)
    n, channels, height, width = x.shape
    down, across = torch.randint(-_SHIFT, _SHIFT + 1, (2, n, 1), generator=rng)
    flipped = torch.rand(n, 1, generator=rng) < 0.5
    rows = _mirrored(torch.arange(height) - down, height)
    columns = _mirrored(torch.arange(width) - across, width)
    columns = torch.where(flipped, columns.flip(1), columns)
    rows, columns = rows.to(x.device), columns.to(x.device)
    of = torch.arange(n, device=x.device)[:, None, None, None]
    channel = torch.arange(channels, device=x.device)[:, None, None]
    return x[of, channel, rows[:, None, :, None], columns[:, None, None, :]]


def _mirrored(places: Tensor, size: int) -> Tensor:
    places = places % (2 * size)
    return torch.where(places < size, places, 2 * size - 1 - places)


def accuracy(model: nn.Module, x: Tensor, y: Tensor, batch_size: int = 500) -> float:
    """The share of images whose largest logit is that of their class.

    Args:
        model: From images to logits, in evaluation mode.
        x: Images.
        y: Labels.
        batch_size: How many images to take at a time.

    Example:
        >>> accuracy(nn.Flatten(), torch.eye(3)[:, :, None, None], torch.tensor([0, 1, 1]))
        0.666...
    """
    device = next((p.device for p in model.parameters()), x.device)
    with torch.no_grad():
        right = [
            int((model(part.to(device)).argmax(1).cpu() == labels).sum())
            for part, labels in zip(x.split(batch_size), y.split(batch_size), strict=True)
        ]
    return sum(right) / len(x)
