"""Small tasks whose symmetry is known, to see discovery at work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from isotropy.data import Dataset

_ROWS = 600
_NOISE = 0.3


def example_tasks(seed: int = 0) -> dict[str, Dataset]:
    """Data sets by name, with noise: a sum, a signed sum, two circular filters, a ring, and none.

    Args:
        seed: Of inputs and noise.

    Example:
        >>> tasks = example_tasks()
        >>> tasks["circular filter"]
        Dataset(x (600, 12) float64, y (600, 12) float64, from 'circular filter')
    """
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(10) % 2, 1.0, -1.0)
    made: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
        "sum": (10, lambda x: x.sum(1, keepdims=True)),
        "signed sum": (10, lambda x: x @ signs[:, None]),
        "circular filter": (12, lambda x: _filtered(x, [1.0, 3.0, 5.0])),
        "palindromic filter": (10, lambda x: _filtered(x, [2.0, 5.0, 2.0])),
        "products around a ring": (
            6,
            lambda x: (x * np.roll(x, -1, axis=1)).sum(1, keepdims=True),
        ),
        "different weights": (8, lambda x: x @ rng.normal(size=(8, 1))),
    }
    tasks = {}
    for name, (width, target) in made.items():
        x = rng.normal(size=(_ROWS, width))
        y = target(x)
        y = y + _NOISE * rng.normal(size=y.shape)
        tasks[name] = Dataset(torch.as_tensor(x), torch.as_tensor(y), source=name)
    return tasks


def _filtered(x: np.ndarray, taps: list[float]) -> np.ndarray:
    """A circular cross-correlation, centred on the middle tap."""
    half = len(taps) // 2
    return np.asarray(sum(g * np.roll(x, half - j, axis=1) for j, g in enumerate(taps)))
