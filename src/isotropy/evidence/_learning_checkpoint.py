"""The whole state of learning priors, and the file from which it goes on."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotropy._run import Checkpoint
from isotropy.evidence._map_training import whole_arrays
from isotropy.evidence._prior_history import PriorEstimate
from isotropy.evidence._training_state import (
    Randomness,
    digest_of,
    optimiser_state,
    put_back,
    set_optimiser_state,
)

_FORMAT = "learn_priors 1"
_SECONDS_BETWEEN_FILES = 30.0


@dataclass(frozen=True)
class LearningCopy:
    """A copy of the state after an epoch.

    Args:
        tensors: By name.
        plain: The rest, of what JSON knows.
    """

    tensors: dict[str, Tensor]
    plain: dict[str, Any]


@dataclass
class LearningState:
    """All that changes from epoch to epoch.

    Args:
        model: The tensors of the network, themselves.
        optimisers: By name.
        priors: What the evidence learns beside, themselves.
        randomness: All generators.
        epoch: How many epochs there have been.
        losses: Of each of them.
        history: The updates so far.
    """

    model: dict[str, Tensor]
    optimisers: Mapping[str, torch.optim.Optimizer]
    priors: Mapping[str, Tensor]
    randomness: Randomness
    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    history: list[PriorEstimate] = field(default_factory=list)

    def copy(self, *, whole: bool) -> LearningCopy:
        """A copy of the network, or of everything."""
        tensors = _prefixed("model", self.model)
        plain: dict[str, Any] = {}
        if whole:
            tensors |= _prefixed("priors", self.priors)
            tensors |= _prefixed("random", self.randomness.states())
            for name, optimiser in self.optimisers.items():
                moments, plain[f"optimiser.{name}"] = optimiser_state(optimiser)
                tensors |= _prefixed(f"optimiser.{name}", moments)
            plain["epoch"], plain["losses"] = self.epoch, list(self.losses)
            plain["history"] = [estimate.to_json() for estimate in self.history]
        return LearningCopy({n: t.detach().clone() for n, t in tensors.items()}, plain)

    def put_back_model(self, kept: LearningCopy) -> None:
        """Give the network the values of a copy."""
        put_back(self.model, _under("model", kept.tensors))

    def put_back(self, kept: LearningCopy) -> None:
        """Give everything the values of a whole copy."""
        self.put_back_model(kept)
        put_back(self.priors, _under("priors", kept.tensors))
        self.randomness.set_states(_under("random", kept.tensors))
        for name, optimiser in self.optimisers.items():
            key = f"optimiser.{name}"
            set_optimiser_state(optimiser, _under(key, kept.tensors), kept.plain[key])
        self.epoch, self.losses = kept.plain["epoch"], list(kept.plain["losses"])
        self.history = [PriorEstimate(**estimate) for estimate in kept.plain["history"]]


class LearningCheckpoint:
    """The file of a run, which a run of another model, other data or options cannot read.

    Args:
        path: The file.
        about: What the run depends on, by name.
        data: What it learns from, by name.

    Raises:
        ValueError: If there is no folder for the file.
    """

    def __init__(
        self, path: str | os.PathLike[str], about: Mapping[str, Any], data: Mapping[str, Any]
    ) -> None:
        folder = Path(path).parent
        if not folder.is_dir():
            raise ValueError(f"expected a folder for the checkpoint, got none at {str(folder)!r}")
        self._file = Checkpoint(path, _FORMAT)
        whole = {**about, **{name: _identity(held) for name, held in data.items()}}
        self._about = json.loads(json.dumps(whole))  # as it will be read
        self._time = time.monotonic()

    def load_into(self, state: LearningState) -> None:
        """Go on from the file, where there is one.

        Raises:
            ValueError: If the file is of another run, or damaged.
        """
        loaded = self._file.load()
        if loaded is None:
            return
        tensors, plain = loaded
        about = plain["about"]
        where = repr(os.fspath(self._file.path))
        for name, value in self._about.items():
            got = about.get(name)
            if got == value:
                continue
            if isinstance(value, dict | list) or name.endswith("data"):
                raise ValueError(
                    f"expected a checkpoint of the same {name}, got one of another run in {where}"
                )
            raise ValueError(
                f"expected a checkpoint of a run with {name}={value!r}, got {got!r} in {where}"
            )
        state.put_back(LearningCopy(tensors, plain))

    def save(self, kept: LearningCopy) -> None:
        """Write a whole copy."""
        self._file.save(kept.tensors, {**kept.plain, "about": self._about})
        self._time = time.monotonic()

    def save_now_and_then(self, kept: LearningCopy) -> None:
        """Write a whole copy, if it is a while since the last."""
        if time.monotonic() - self._time > _SECONDS_BETWEEN_FILES:
            self.save(kept)


def _identity(data: Any) -> Any:
    """What tells data from others, as far as that can be known without a pass over them."""
    arrays = whole_arrays(data)
    if arrays is not None:
        return digest_of(*arrays)
    try:
        return f"{type(data).__name__} of {len(data)}"
    except TypeError:
        return type(data).__name__


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
