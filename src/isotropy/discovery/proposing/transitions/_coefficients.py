"""The coefficients of a quadratic fit of increments, which a symmetry permutes with signs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.discovery.predictors._free_predictor import quadratic_terms

Floats = NDArray[np.float64]

_MOST_COLUMNS = 90  # beyond, there are too many products
_RIDGE = 1e-3
_STANDARD_ERRORS = 3.0  # smaller coefficients are taken for zero
_CENTRED = 0.2  # a mean below so many deviations is taken for zero
_CONSTANT = 1e-9
_SIMILAR = 0.7  # of logarithms of deviations: within a factor of two


@dataclass(frozen=True)
class Coefficients:
    """Δs = c + L x + Q (x, x) of inputs x = (s, a), all in deviations of their columns.

    An element P of the symmetry group has c = P c, P L = L P, P Q = Q (P, P), and moves the mean
    of the inputs to itself where they are distributed symmetrically.

    Args:
        mean: Of the inputs, shape (d,); zero where it is almost so.
        constant: c, shape (n,).
        linear: L, shape (n, d).
        quadratic: Q, shape (n, d, d), symmetric.
        compatible: Which entries may go to which places, shape (d, d): observations to
            observations, actions to actions, each of much the same size; what is constant stays.
    """

    mean: Floats
    constant: Floats
    linear: Floats
    quadratic: Floats
    compatible: NDArray[np.bool_]

    @staticmethod
    def of(x: Tensor, increments: Tensor) -> Coefficients:
        """Fit them by least squares, with a small ridge.

        Example:
            >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)).double()
            >>> fitted = Coefficients.of(x, x[:, :1] * x[:, 1:])
            >>> bool(fitted.quadratic[0, 0, 1] > 0.4), bool(abs(fitted.linear).max() < 0.1)
            (True, True)
        """
        mean, deviation = x.mean(0), x.std(0)
        live = deviation > _CONSTANT * (1 + x.abs().amax(0))
        deviation = torch.where(live, deviation, 1.0)
        mean = mean / deviation
        centre = torch.where(mean.abs() < _CENTRED, 0.0, mean)
        z = torch.where(live, x / deviation - centre, 0.0)
        spread = increments.std(0)
        y = increments / torch.where(spread > _CONSTANT, spread, 1.0)
        n, d = y.shape[1], x.shape[1]
        products = d <= _MOST_COLUMNS and 2 * len(x) > d * (d + 3)
        parts = [torch.ones(len(z), 1, dtype=z.dtype), z]
        if products:
            parts.append(quadratic_terms(z))
        features = torch.cat(parts, 1)
        gram = features.mT @ features
        gram.diagonal().add_(_RIDGE * len(z))
        inverse = torch.linalg.inv(gram)
        weights = (inverse @ (features.mT @ y)).mT
        left = (y - features @ weights.mT).square().sum(0) / max(1, len(z) - features.shape[1])
        # of an estimate with a ridge, which columns that sum to one need
        variance = inverse.diagonal() - _RIDGE * len(z) * inverse.square().sum(0)
        errors = (left[:, None] * variance.clamp_min(0)).sqrt()
        weights = torch.where(weights.abs() > _STANDARD_ERRORS * errors, weights, 0.0)
        quadratic = torch.zeros(n, d, d, dtype=z.dtype)
        if products:
            i, j = torch.triu_indices(d, d)
            half = weights[:, 1 + d :] / 2
            quadratic[:, i, j] += half
            quadratic[:, j, i] += half
        centre = torch.where(live, centre, 0.0)
        return Coefficients(
            centre.numpy(),
            weights[:, 0].numpy(),
            weights[:, 1 : 1 + d].numpy(),
            quadratic.numpy(),
            _compatible(deviation, spread, live).numpy(),
        )


def _compatible(deviation: Tensor, spread: Tensor, live: Tensor) -> Tensor:
    """Pairs of entries that may take each other's place."""
    n, d = len(spread), len(deviation)
    sizes = deviation.log()
    similar = (sizes[:, None] - sizes).abs() < _SIMILAR
    steps = spread.clamp_min(_CONSTANT).log()
    similar[:n, :n] &= (steps[:, None] - steps).abs() < _SIMILAR
    similar[:n, n:] = similar[n:, :n] = False
    similar &= live[:, None] & live
    return similar | torch.eye(d, dtype=torch.bool)
