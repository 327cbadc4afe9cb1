"""Small tasks whose symmetry is known, to see discovery at work."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from isotropy.data import Dataset

_ROWS = 600
_NOISE, _SMALL_NOISE = 0.3, 0.01


def example_tasks(seed: int = 0) -> dict[str, Dataset]:
    """Data sets by name, with noise: sums, circular filters, a ring, a mass, and no symmetry.

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
    tasks["invariant mass"] = _invariant_mass(rng)
    return tasks


def _invariant_mass(rng: np.random.Generator) -> Dataset:
    """Two four-momenta in each row, and the mass of the pair, a little off."""
    momenta = rng.normal(size=(_ROWS, 2, 3))
    masses = rng.uniform(0.5, 1.5, size=(_ROWS, 2, 1))
    energies = np.sqrt(masses**2 + (momenta**2).sum(2, keepdims=True))
    both = np.concatenate([energies, momenta], 2)
    total = both.sum(1)
    mass = np.sqrt(total[:, :1] ** 2 - (total[:, 1:] ** 2).sum(1, keepdims=True))
    return Dataset(
        torch.as_tensor(both.reshape(_ROWS, 8)),
        torch.as_tensor(mass + _SMALL_NOISE * rng.normal(size=mass.shape)),
        x_names=tuple(f"{axis}{i}" for i in (1, 2) for axis in ("E", "px", "py", "pz")),
        y_names=("M",),
        source="invariant mass",
    )


def _filtered(x: np.ndarray, taps: list[float]) -> np.ndarray:
    """A circular cross-correlation, centred on the middle tap."""
    half = len(taps) // 2
    return np.asarray(sum(g * np.roll(x, half - j, axis=1) for j, g in enumerate(taps)))
