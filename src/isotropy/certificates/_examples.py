"""The sample that a certificate speaks of: checked, and named by a hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
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

    Args:
        x: Inputs, shape (n, …).
        y: Labels of shape (n,), or numbers of shape (n, k).

    Example:
        >>> sample = Examples(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]))
        >>> len(sample), sample.digest()[:8]
        (4, '...')
    """

    x: Tensor
    y: Tensor

    def __len__(self) -> int:
        return len(self.x)

    def digest(self) -> str:
        """The SHA-256 of shapes, types and values."""
        hasher = hashlib.sha256()
        for tensor in (self.x, self.y):
            array = np.ascontiguousarray(tensor.numpy())
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            hasher.update(f"{array.dtype.name} {array.shape};".encode())
            hasher.update(array.data)
        return hasher.hexdigest()

    def rows(self, index: Tensor) -> Examples:
        """Some of the rows."""
        return Examples(self.x[index], self.y[index])


def examples(data: Any) -> Examples:
    """Take (x, y), a `Dataset`, or anything that `isotropy.data.load` reads.

    Raises:
        ValueError: If there are no targets, or nothing is there.

    Example:
        >>> len(examples((torch.zeros(4, 2), torch.tensor([0, 1, 1, 0]))))
        4
    """
    if isinstance(data, Examples):
        return data
    dataset = data if isinstance(data, Dataset) else load(data)
    if dataset.y is None:
        raise ValueError(f"{dataset.source}: expected inputs with targets, got inputs alone")
    return Examples(dataset.x.detach().cpu(), dataset.y.detach().cpu())


def dealt_rows(n: int, percent: int) -> tuple[Tensor, Tensor]:
    """Deal n rows in two: those that make a prior, and those that are certified.

    The deal depends on n and ``percent`` alone, so that nobody chose it.

    Args:
        n: How many rows.
        percent: How many in a hundred make the prior.

    Returns:
        The numbers of both, each in ascending order.

    Raises:
        ValueError: If either part would be empty.
    """
    first = n * percent // 100
    if not 0 < first < n:
        raise ValueError(f"expected rows on both sides of {percent} % of {n}, got {first}")
    # ties of 64-bit words do not happen, and a stable sort would settle them
    order = torch.argsort(random_words(n, _DEAL + percent, n), stable=True)
    return order[:first].sort().values, order[first:].sort().values
