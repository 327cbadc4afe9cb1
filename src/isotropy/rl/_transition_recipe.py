"""How transition models are trained."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

Loss: TypeAlias = Literal["l1", "mse"]


@dataclass(frozen=True)
class TransitionRecipe:
    """How transition models are trained.

    Args:
        steps: How many steps Adam takes.
        batch: Stretches in a step, drawn with replacement.
        learning_rate: Adam's at the start; it falls to zero as a cosine.
        loss: "l1" or "mse", of all states of a stretch after its first.
        raw: Whether errors count in the units of the states, as published; otherwise each entry
            is divided by the scale of its changes.
        weight_decay: What Adam takes from all weights, decoupled from the loss.
        noise: The standard deviation of what no model can predict, in the units of the loss. It
            weighs the prior of "rpp" against the data: ½(θ/σ)² counts as much as
            ½(error/noise)².

    Raises:
        ValueError: If a number is not positive, or the loss unknown.

    Example:
        >>> TransitionRecipe(steps=100).learning_rate
        0.001
    """

    steps: int = 2000
    batch: int = 256
    learning_rate: float = 1e-3
    loss: Loss = "l1"
    raw: bool = False
    weight_decay: float = 0.0
    noise: float = 0.1

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "learning_rate", "noise"):
            value = getattr(self, name)
            if not 0 < value < math.inf:
                raise ValueError(f"expected a positive {name}, got {value}")
        if not 0 <= self.weight_decay < math.inf:
            raise ValueError(f"expected a weight_decay of zero or more, got {self.weight_decay}")
        if self.loss not in ("l1", "mse"):
            raise ValueError(f"expected the loss 'l1' or 'mse', got {self.loss!r}")

    def rate(self, step: int) -> float:
        """The learning rate of a step."""
        return self.learning_rate * (1 + math.cos(math.pi * step / self.steps)) / 2

    def prior_weight(self, numbers: int) -> float:
        """What ½ Σ (θ/σ)² is multiplied by, beside the mean loss of so many numbers.

        Minus the log likelihood of normal errors e with deviation s is Σ e²/(2s²), that of
        Laplace ones Σ |e|/b with b = s/√2.
        """
        per_number = 2 * self.noise**2 if self.loss == "mse" else self.noise / math.sqrt(2)
        return per_number / numbers
