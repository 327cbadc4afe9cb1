"""Random inputs of planted functions: normal, time-like momenta, shells around zero."""

from __future__ import annotations

import torch
from torch import Tensor


def normal_rows(width: int, n: int, rng: torch.Generator) -> Tensor:
    """Standard normal numbers, shape (n, width)."""
    return torch.randn(n, width, dtype=torch.float64, generator=rng)


def uniform(shape: tuple[int, ...], low: float, high: float, rng: torch.Generator) -> Tensor:
    """Numbers between two bounds."""
    return low + (high - low) * torch.rand(shape, dtype=torch.float64, generator=rng)


def time_like(vectors: int, n: int, rng: torch.Generator) -> Tensor:
    """Momenta (E, p) with normal p and masses that differ from row to row."""
    momentum = torch.randn(n, vectors, 3, dtype=torch.float64, generator=rng)
    mass = uniform((n, vectors, 1), 0.5, 2.0, rng)
    energy = (mass.square() + momentum.square().sum(-1, keepdim=True)).sqrt()
    return torch.cat([energy, momentum], -1).flatten(1)


def over_positive(n: int, rng: torch.Generator) -> Tensor:
    """Two normal numbers, and a third that may divide them."""
    return torch.cat([normal_rows(2, n, rng), uniform((n, 1), 0.7, 2.1, rng)], 1)


def shells(vectors: int, width: int, n: int, rng: torch.Generator) -> Tensor:
    """Vectors of every direction, of lengths between 1 and 2."""
    at = torch.randn(n, vectors, width, dtype=torch.float64, generator=rng)
    length = uniform((n, vectors, 1), 1.0, 2.0, rng)
    return (length * torch.nn.functional.normalize(at, dim=-1)).flatten(1)
