"""Few values for many weights: a learned codebook of 16-bit levels."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Quantised(nn.Module):
    """Weights, each replaced by the nearest level of a codebook; both are learned.

    Gradients go straight through ((5.4) of Finzi's thesis): to a weight as if it had not been
    replaced, to a level the sum over the weights that take it. The levels used are always rounded
    to 16 bits, so that the network that trains is the network that is coded.

    Args:
        weights: Where to start from, shape (d,).
        levels: How many values.
        start: ``"uniform"``: the means of the weights in bins of equal width over ±max|w|;
            ``"kmeans"``: the centres of Lloyd's algorithm.

    Example:
        >>> layer = Quantised(torch.tensor([-1.0, -0.9, 0.1, 1.0]), levels=3)
        >>> layer().tolist(), layer.symbols().tolist()
        ([-0.9501953125, -0.9501953125, 0.0999755859375, 1.0], [0, 0, 1, 2])
    """

    def __init__(self, weights: Tensor, levels: int, start: str = "uniform") -> None:
        super().__init__()
        if levels < 1:
            raise ValueError(f"expected at least 1 level, got {levels}")
        starts = {"uniform": uniform_levels, "kmeans": kmeans_levels}
        if start not in starts:
            raise ValueError(f"expected the start uniform or kmeans, got {start!r}")
        self.weights = nn.Parameter(weights.detach().clone())
        self.codebook = nn.Parameter(starts[start](weights.detach(), levels))

    def levels(self) -> Tensor:
        """The codebook as it is coded: rounded to 16 bits."""
        return rounded(self.codebook.detach())

    def symbols(self) -> Tensor:
        """Which level each weight takes."""
        return _nearest(self.weights.detach(), self.levels())

    def forward(self) -> Tensor:
        """The replaced weights, differentiable in the weights and the codebook."""
        levels = self.codebook + (self.levels() - self.codebook).detach()
        return levels[self.symbols()] + (self.weights - self.weights.detach())


def rounded(levels: Tensor) -> Tensor:
    """The nearest 16-bit floating-point numbers, finite, in the type they came in."""
    largest = torch.finfo(torch.float16).max
    return levels.clamp(-largest, largest).half().to(levels.dtype)


def uniform_levels(weights: Tensor, levels: int) -> Tensor:
    """The mean of the weights in each of equal bins over ±max|w|; an empty bin gives its centre."""
    reach = weights.abs().max().clamp_min(torch.finfo(torch.float16).tiny)
    width = 2 * reach / levels
    bins = ((weights + reach) / width).floor().long().clamp(0, levels - 1)
    centres = (torch.arange(levels, device=weights.device) + 0.5).to(weights) * width - reach
    return _means(weights, bins, centres)


def kmeans_levels(weights: Tensor, levels: int, rounds: int = 100) -> Tensor:
    """The centres of Lloyd's algorithm in one dimension, started at quantiles."""
    at = (torch.arange(levels, device=weights.device).to(weights) + 0.5) / levels
    centres = torch.quantile(weights, at)
    for _ in range(rounds):
        moved = _means(weights, _nearest(weights, centres), centres)
        if torch.equal(moved, centres):
            break
        centres = moved
    return centres


def _means(weights: Tensor, bins: Tensor, otherwise: Tensor) -> Tensor:
    counts = torch.zeros_like(otherwise).index_add_(0, bins, torch.ones_like(weights))
    sums = torch.zeros_like(otherwise).index_add_(0, bins, weights)
    return torch.where(counts > 0, sums / counts.clamp_min(1), otherwise)


def _nearest(weights: Tensor, levels: Tensor) -> Tensor:
    # by sorted boundaries, not a (weights × levels) table of distances
    ordered, order = levels.sort()
    return order[torch.bucketize(weights, (ordered[1:] + ordered[:-1]) / 2)]
