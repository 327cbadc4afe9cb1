"""The whole state of learning priors, and the file from which it goes on."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data import Dataset as MapStyle

from isotropy._run import Checkpoint, generator
from isotropy.evidence._map_training import whole_arrays
from isotropy.evidence._prior_history import PriorEstimate
from isotropy.evidence._training_state import (
    Randomness,
    digest_of,
    model_tensors,
    optimiser_state,
    put_back,
    set_optimiser_state,
)

_FORMAT = "learn_priors 2"
_SECONDS_BETWEEN_FILES = 30.0
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


@dataclass(frozen=True)
class LearningCopy:
    """A copy of the state after an epoch."""

    tensors: dict[str, Tensor]
    plain: dict[str, Any]


@dataclass
class LearningState:
    """All that changes from epoch to epoch."""

    model: dict[str, Tensor]
    optimisers: Mapping[str, torch.optim.Optimizer]
    priors: Mapping[str, Tensor]
    randomness: Randomness
    epoch: int = 0
    losses: list[float] = field(default_factory=list)
    history: list[PriorEstimate] = field(default_factory=list)
    counts: dict[str, int] | None = None

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
            plain["counts"] = self.counts
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
        self.counts = kept.plain["counts"]
        self.history = [PriorEstimate(**estimate) for estimate in kept.plain["history"]]


# how a run learns, and not what: a run may go on with others, if it is asked to
_MANNERS = frozenset(
    {
        "optimiser",
        "precisions",
        "epochs",
        "learning_rate",
        "schedule",
        "burn_in",
        "every",
        "steps",
        "hyper_learning_rate",
        "hyper_schedule",
        "curvature",
        "cuda_graph",
    }
)


class LearningCheckpoint:
    """The file of a run, which a run of another model, other data or options cannot read.

    Raises:
        ValueError: If there is no folder for the file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        about: Mapping[str, Any],
        data: Mapping[str, Any],
        *,
        may_differ: bool = False,
    ) -> None:
        self._may_differ = may_differ
        folder = Path(path).parent
        if not folder.is_dir():
            raise ValueError(f"expected a folder for the checkpoint, got none at {str(folder)!r}")
        self._file = Checkpoint(path, _FORMAT)
        whole = {**about, **{name: data_identity(held) for name, held in data.items()}}
        self._about = json.loads(json.dumps(whole))  # as it will be read
        self._time = time.monotonic()

    def load_into(self, state: LearningState) -> None:
        """Go on from the file, where there is one."""
        loaded = self._file.load()
        if loaded is None:
            return
        tensors, plain = loaded
        about = plain["about"]
        where = repr(os.fspath(self._file.path))
        for name, value in self._about.items():
            got = about.get(name)
            if got == value or (self._may_differ and _may_differ(name, value, got)):
                continue
            hint = ""
            if _may_differ(name, value, got):
                hint = "; resume_changed=True goes on from it all the same"
            if isinstance(value, dict | list) or name.endswith("data"):
                raise ValueError(
                    f"expected a checkpoint of the same {name}, got one of another run in "
                    f"{where}{hint}"
                )
            if name == "optimiser":
                value, got = (_differing(value, got), _differing(got, value))
            raise ValueError(
                f"expected a checkpoint of a run with {name}={value!r}, got {got!r} in "
                f"{where}{hint}"
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


def _may_differ(name: str, value: Any, got: Any) -> bool:
    if name == "optimiser":  # what an optimiser of another kind remembers cannot be used
        return str(value).split(" ", 1)[0] == str(got).split(" ", 1)[0]
    return name in _MANNERS


def _differing(text: str, other: Any) -> str:
    """The settings of an optimiser that another one has not."""
    kind, _, settings = text.partition(" ")
    known = set(str(other).replace("{", ", ").replace("}", ", ").split(", "))
    parts = settings.strip("[]").replace("{", "").replace("}", "").split(", ")
    return " ".join([kind, *(part for part in parts if part not in known)])


# --- which model, which data ------------------------------------------------------------------


def model_identity(model: nn.Module) -> dict[str, str]:
    """What tells a network from others: its text, and the kinds and shapes of its tensors.

    Two that differ only in what their ``forward`` does look the same.

    Example:
        >>> one, other = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())
        >>> model_identity(one) == model_identity(other)
        False
    """
    text = _ADDRESS.sub("", str(model))  # functions print where they are in memory
    tensors = {n: f"{t.dtype} {tuple(t.shape)}" for n, t in model_tensors(model).items()}
    return {"": hashlib.sha256(text.encode()).hexdigest()[:16], **tensors}


def data_identity(data: Any) -> str:
    """What tells data from others, without a pass over them.

    Arrays are known by their content; data sets and lists of batches by their length and their
    first and last items, as far as these are tensors, arrays or numbers and the same whenever
    they are read; streams and whatever else by their kind and length alone.

    Example:
        >>> x = torch.arange(4.0)
        >>> data_identity([(x, x)] * 3) == data_identity([(x, x + 1)] * 3)
        False
    """
    arrays = whole_arrays(data)
    if arrays is not None:
        return digest_of(*arrays)
    known = [_kind_and_length(data)]
    rows = data
    if isinstance(data, DataLoader):
        rows = data.dataset
        known += [_kind_and_length(rows), f"in batches of {data.batch_size}"]
        known += [type(sampler).__name__ for sampler in (data.sampler, data.batch_sampler)]
    indexed = isinstance(rows, MapStyle | list | tuple) and not isinstance(rows, IterableDataset)
    if indexed and hasattr(rows, "__len__") and len(rows) > 0:
        known += [_item_digest(rows, place) for place in (0, len(rows) - 1)]
    return ", ".join(known)


def _kind_and_length(data: Any) -> str:
    try:
        return f"{type(data).__name__} of {len(data)}"
    except TypeError:
        return type(data).__name__


def _item_digest(rows: Any, place: int) -> str:
    found = set()
    for _ in range(2):
        with _fixed_randomness():
            tensors = list(_tensors_in(rows[place]))
        found.add(digest_of(*tensors) if tensors else "")
    return found.pop() if len(found) == 1 else ""  # augmentation of its own: unknown


def _tensors_in(item: Any) -> Iterator[Tensor]:
    if isinstance(item, Tensor):
        yield item
    elif isinstance(item, np.ndarray | np.generic | int | float):
        array = np.asarray(item)
        if array.dtype.kind in "biuf":
            yield torch.from_numpy(np.array(array, dtype=array.dtype.newbyteorder("=")))
    elif isinstance(item, tuple | list):
        for part in item:
            yield from _tensors_in(part)
    elif isinstance(item, Mapping):
        for part in item.values():
            yield from _tensors_in(part)


@contextmanager
def _fixed_randomness() -> Iterator[None]:
    """Augmentation that draws from global generators draws the same; these stay as they were."""
    before, numpy_before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with torch.random.fork_rng([]):
        torch.set_rng_state(generator(0).get_state())
        random.seed(0)
        np.random.seed(0)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(before)
            np.random.set_state(numpy_before)  # noqa: NPY002


def _prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _under(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {n.removeprefix(start): t for n, t in tensors.items() if n.startswith(start)}
