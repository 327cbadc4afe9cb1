"""What a search asks of a child network: train it for a state, and say how well it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from torch import Tensor

from isotropy.search._space import State


@dataclass(frozen=True)
class Trained:
    """A child network after its training.

    Args:
        accuracy: The share of validation rows that it classifies rightly.
        parameters: How many numbers it learned.
        epochs: How many passes through the training rows it took.
        weights: Its weights, from which another child may start; empty where they are not kept.
    """

    accuracy: float
    parameters: int
    epochs: int
    weights: Mapping[str, Tensor] = field(default_factory=dict, repr=False)


class Child(Protocol):
    """Trains the network of a state: the same state and seed give the same result, anywhere.

    A child may say in an attribute ``usual_epochs`` how many passes it is used to; searches that
    train in several rungs need to know.
    """

    def __call__(
        self,
        state: State,
        *,
        seed: int,
        epochs: int | None = None,
        start: Mapping[str, Tensor] | None = None,
    ) -> Trained:
        """Train.

        Args:
            state: Of the search space that the child was made for.
            seed: Of initial weights and the order of rows.
            epochs: Passes through the training rows; ``None`` for as many as it is used to.
            start: Weights of the child of another state to start from, averaged over orbits.
        """
        ...

    def fingerprint(self) -> str:
        """What its results depend on beside state and seed: data, sizes, options, in one line."""
        ...
