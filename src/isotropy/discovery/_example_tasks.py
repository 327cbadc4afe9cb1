"""Three small tasks to see discovery at work: a signal, images and a table of physics."""

from __future__ import annotations

import numpy as np
import torch

from isotropy.data import Dataset

_ROWS, _STEPS = 600, 16
_NOISE = 0.05
_MASS_NOISE = 0.01


def example_tasks(seed: int = 0) -> dict[str, Dataset]:
    """Data sets by name: a filtered signal, handwritten digits, the mass of two particles.

    A nonlinear filter runs around a ring of sixteen samples, the same everywhere: it commutes with
    shifts. The digits are scikit-learn's, 1797 images of 8 by 8 pixels. Of two particles there are
    energies and momenta, and the mass of the pair, which boosts and rotations leave.

    Args:
        seed: Of what is drawn at random.

    Example:
        >>> for task in example_tasks().values():
        ...     print(task)
        Dataset(x (600, 16) float64, y (600, 16) float64, from 'a filtered signal')
        Dataset(x (1797, 8, 8) float64, y (1797,) int64, 10 classes, from 'handwritten digits')
        Dataset(x (600, 8) float64, y (600, 1) float64, from 'mass of two particles')
    """
    rng = np.random.default_rng(seed)
    made = (_filtered_signal(rng), _handwritten_digits(), _mass_of_two_particles(rng))
    return {task.source: task for task in made}


def _filtered_signal(rng: np.random.Generator) -> Dataset:
    x = rng.normal(size=(_ROWS, _STEPS))
    before, after = np.roll(x, 1, axis=1), np.roll(x, -1, axis=1)
    y = np.tanh(0.8 * x + 1.5 * before - 0.7 * after) + _NOISE * rng.normal(size=x.shape)
    return Dataset(
        torch.as_tensor(x),
        torch.as_tensor(y),
        x_names=tuple(f"t{k}" for k in range(_STEPS)),
        y_names=tuple(f"out{k}" for k in range(_STEPS)),
        source="a filtered signal",
    )


def _handwritten_digits() -> Dataset:
    from sklearn.datasets import load_digits

    digits = load_digits()
    return Dataset(
        torch.as_tensor(digits.images / 16),
        torch.as_tensor(digits.target),
        classes=tuple(map(str, digits.target_names)),
        source="handwritten digits",
    )


def _mass_of_two_particles(rng: np.random.Generator) -> Dataset:
    momenta = rng.normal(size=(_ROWS, 2, 3))
    masses = rng.uniform(0.5, 1.5, size=(_ROWS, 2, 1))
    energies = np.sqrt(masses**2 + (momenta**2).sum(2, keepdims=True))
    both = np.concatenate([energies, momenta], 2)
    total = both.sum(1)
    mass = np.sqrt(total[:, :1] ** 2 - (total[:, 1:] ** 2).sum(1, keepdims=True))
    return Dataset(
        torch.as_tensor(both.reshape(_ROWS, 8)),
        torch.as_tensor(mass + _MASS_NOISE * rng.normal(size=mass.shape)),
        x_names=tuple(f"{axis}{i}" for i in (1, 2) for axis in ("E", "px", "py", "pz")),
        y_names=("mass",),
        source="mass of two particles",
    )
