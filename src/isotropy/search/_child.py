"""What a search asks of a child network, and the weights of trained ones that others start from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import sqlalchemy
from safetensors.torch import load, save
from torch import Tensor

from isotropy._run._json import shown
from isotropy.search._space import State
from isotropy.search._study_tables import WEIGHTS, insert
from isotropy.search._tensor_header import check_tensor_header


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


LARGEST = 10**9


def keep_weights(
    engine: sqlalchemy.Engine, study: str, key: str, weights: Mapping[str, Tensor]
) -> None:
    """Keep the weights of a child."""
    data = save({name: one.detach().cpu().contiguous() for name, one in weights.items()})
    kept = insert(engine, WEIGHTS).values(study=study, key=key, weights=data)
    kept = kept.on_conflict_do_update(
        index_elements=[WEIGHTS.c.study, WEIGHTS.c.key], set_={"weights": data}
    )
    with engine.begin() as connection:
        connection.execute(kept)


def kept_weights(engine: sqlalchemy.Engine, study: str, key: str) -> dict[str, Tensor] | None:
    """The weights of a child, or ``None`` where none were kept.

    Raises:
        ValueError: If what was kept is not finite numbers in the safetensors format.
    """
    this = (WEIGHTS.c.study == study) & (WEIGHTS.c.key == key)
    with engine.begin() as connection:
        size = connection.scalar(
            sqlalchemy.select(sqlalchemy.func.length(WEIGHTS.c.weights)).where(this)
        )
        if size is None:
            return None
        if size > LARGEST:
            raise ValueError(
                f"expected start weights of up to {LARGEST} bytes, got {size} for {shown(key)}"
            )
        data = bytes(connection.scalar(sqlalchemy.select(WEIGHTS.c.weights).where(this)) or b"")
    check_tensor_header(data, len(data), f"the start weights of {shown(key)}")
    found = dict(load(data))
    for name, one in found.items():
        if not one.isfinite().all():
            raise ValueError(
                f"expected finite start weights of {shown(key)}, got others in {shown(name)}"
            )
    return found
