"""What learning the types of layers has found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import evaluation_mode
from isotropy.evidence import LearnedPriors
from isotropy.layerwise._image_batches import ImageUnits, require_labels
from isotropy.layerwise._layer_types import LayerType, layer_table

_IMAGES_AT_ONCE = 500


@dataclass(frozen=True)
class LayerShares:
    """The relative effective numbers of all paths after one estimate.

    Args:
        epoch: After how many epochs.
        layers: By layer, then by path.

    Example:
        >>> LayerShares(10, {"layers.0": {"fc": 0.25, "conv": 0.75}}).to_json()
        {'epoch': 10, 'layers': {'layers.0': {'fc': 0.25, 'conv': 0.75}}}
    """

    epoch: int
    layers: dict[str, dict[str, float]]

    def to_json(self) -> dict[str, Any]:
        """All of it, of what JSON knows."""
        return {"epoch": self.epoch, "layers": {n: dict(p) for n, p in self.layers.items()}}


@dataclass(frozen=True, eq=False)
class LayerwiseResult:
    """A network whose layers have chosen their type; made by ``learn_layers``.

    Args:
        model: The network, trained.
        types: The type of every ``PathSum``, by its name in the network, at the end.
        history: The shares of all paths at every estimate; the last is the end.
        classes: The label that each output stands for.
        learned: Priors, evidence and losses.
        units: What images go through before the network.

    Example:
        >>> from isotropy.layerwise import LayerLearningOptions, learn_layers
        >>> from isotropy.nn import MapLinear, PathSum
        >>> paths = {
        ...     "fc": MapLinear(1, 2, 4),
        ...     "conv": nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular"),
        ... }
        >>> model = nn.Sequential(PathSum(paths), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2))
        >>> x, y = torch.randn(40, 1, 4, 4), torch.arange(40) % 2
        >>> often = LayerLearningOptions(burn_in=2, every=2)
        >>> found = learn_layers(x, y, model=model, epochs=6, learning=often)
        >>> print(*(shares.epoch for shares in found.history))
        2 4 6
        >>> found.types["0"].kind in ("fc", "conv")
        True
        >>> found.predict(x).shape
        torch.Size([40])
    """

    model: nn.Module
    types: dict[str, LayerType]
    history: tuple[LayerShares, ...]
    classes: tuple[int, ...]
    learned: LearnedPriors = field(repr=False)
    units: ImageUnits = field(repr=False)

    def log_probabilities(self, x: Any) -> Tensor:
        """The log probability of every class, shape (n, classes).

        Args:
            x: Images as those trained on; they are resized and standardised in the same way.

        Raises:
            TypeError: If pixels are of another kind.
            ValueError: If the shape is wrong, or a pixel is not finite.
        """
        like = next(self.model.parameters())
        images = self.units(x)
        with evaluation_mode(self.model), torch.no_grad():
            outputs = [self.model(part.to(like)) for part in images.split(_IMAGES_AT_ONCE)]
        return torch.cat(outputs).log_softmax(1)

    def predict(self, x: Any) -> Tensor:
        """The most probable label of every image, shape (n,).

        Args:
            x: Images, as for ``log_probabilities``.
        """
        scores = self.log_probabilities(x)
        return torch.tensor(self.classes, device=scores.device)[scores.argmax(1)]

    def accuracy(self, x: Any, y: Any) -> float:
        """The share of images whose label is predicted.

        Args:
            x: Images, as for ``log_probabilities``.
            y: Their labels, shape (n,).

        Raises:
            TypeError: If labels are not whole numbers.
            ValueError: If there are more labels or fewer than images.
        """
        predicted = self.predict(x)
        labels = require_labels(y, len(predicted)).to(predicted.device)
        return float((predicted == labels).double().mean())

    def to_json(self) -> dict[str, Any]:
        """All but the network, of what JSON knows."""
        return {
            "types": {name: layer.to_json() for name, layer in self.types.items()},
            "history": [shares.to_json() for shares in self.history],
            "classes": list(self.classes),
            "learned": self.learned.to_json(),
        }

    def __str__(self) -> str:
        value = self.learned.log_marginal_likelihood
        lines = [f"log evidence {value:.2f}", layer_table(self.types)]
        for names, words in (
            (self.learned.unsettled, "the evidence still asks for"),
            (self.learned.moving, "on their way are"),
        ):
            if names:
                more = ", …" * (len(names) > 3)
                lines.append(f"not settled: {words} {', '.join(names[:3])}{more}")
        if all(layer.kind == "none" for layer in self.types.values()):
            lines.append("the data determine no weight: the network has learned nothing")
        return "\n".join(lines)
