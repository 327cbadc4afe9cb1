"""The sample that a certificate speaks of: checked, and named by a hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isotropy.certificates._counter_random import random_words
from isotropy.data import Dataset, load

# the stream from which rows are dealt to a prior; fixed for all time
_DEAL = 1 << 32


@dataclass(frozen=True, eq=False)
class Examples:
    """Inputs and targets on the CPU.

    Example:
        >>> sample = Examples(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]))
        >>> len(sample), sample.digest()[:8]
        (4, '...')
    """

    x: Tensor
    y: Tensor
    classes: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return len(self.x)

    def digest(self) -> str:
        """The SHA-256 of shapes, types and values."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        hasher = hashlib.sha256()
        for tensor in (self.x, self.y):
            array = np.ascontiguousarray(tensor.numpy())
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            hasher.update(f"{array.dtype.name} {array.shape};".encode())
            hasher.update(array.data)
        return hasher.hexdigest()

    def repeats(self) -> int:
        """How many rows, inputs and targets both, stand there for a second time or more.

        Example:
            >>> Examples(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0])).repeats()
            2
        """
        return self._repeats

    @cached_property
    def _repeats(self) -> int:
        # adding zero makes negative zeros positive: equal numbers are equal bytes
        x, y = (np.ascontiguousarray(tensor.numpy() + 0) for tensor in (self.x, self.y))
        rows = {
            hashlib.blake2b(inputs.tobytes() + targets.tobytes(), digest_size=16).digest()
            for inputs, targets in zip(x, y, strict=True)
        }
        return len(self) - len(rows)

    def rows(self, index: Tensor) -> Examples:
        """Some of the rows."""
        return Examples(self.x[index], self.y[index], self.classes)


def examples(data: Any, classes: tuple[str, ...] | None = None) -> Examples:
    """Take (x, y), a `Dataset`, or anything that `isotropy.data.load` reads.

    Whole-number labels of (x, y) stay as they are.

    Raises:
        ValueError: If there are no targets, nothing is there, or a class has no number.

    Example:
        >>> len(examples((torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]))))
        4
    """
    if isinstance(data, Examples):
        return data
    if isinstance(data, tuple) and len(data) == 2:
        return _from_pair(*data)
    dataset = data if isinstance(data, Dataset) else load(data)
    if dataset.y is None:
        raise ValueError(
            f"{dataset.source}: expected inputs with targets, got inputs alone: --target NAME, or "
            "load(file, target=NAME), says which column is the target"
        )
    x, y = dataset.x.detach().cpu(), dataset.y.detach().cpu()
    if classes is None or dataset.classes is None:
        return Examples(x, y, dataset.classes)
    for name in dataset.classes:
        if name not in classes:
            raise ValueError(
                f"{dataset.source}: expected classes among {', '.join(classes[:5])}"
                f"{', …' if len(classes) > 5 else ''}, got {name!r}"
            )
    numbers = torch.tensor([classes.index(name) for name in dataset.classes])
    return Examples(x, numbers[y], classes)


def _from_pair(x: Any, y: Any) -> Examples:
    inputs = load(x).x.detach().cpu()
    targets = torch.as_tensor(np.asarray(y) if not isinstance(y, Tensor) else y).detach().cpu()
    if targets.is_complex() or len(targets) != len(inputs) or not len(inputs):
        raise ValueError(
            f"expected as many targets as inputs, {len(inputs)} of them, "
            f"got {tuple(targets.shape)} of {targets.dtype}"
        )
    if not targets.is_floating_point():
        return Examples(inputs, targets.flatten().long() if targets.ndim < 2 else targets.long())
    if not bool(torch.isfinite(targets).all()):
        raise ValueError("expected targets that are finite numbers, got some that are not")
    return Examples(inputs, targets.reshape(len(targets), -1))


def dealt_rows(n: int, percent: int) -> tuple[Tensor, Tensor]:
    """Deal n rows in two: those that make a prior, and those that are certified.

    The deal depends on n and ``percent`` alone, so that nobody chose it.

    Raises:
        ValueError: If either part would be empty.
    """
    first = n * percent // 100
    if not 0 < first < n:
        raise ValueError(f"expected rows on both sides of {percent} % of {n}, got {first}")
    # ties of 64-bit words do not happen, and a stable sort would settle them
    order = torch.argsort(random_words(n, _DEAL + percent, n), stable=True)
    return order[:first].sort().values, order[first:].sort().values
