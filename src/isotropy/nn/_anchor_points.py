"""Points on a grid, and anchor points among or around them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

Anchors: TypeAlias = int | float | Tensor | None


def grid_points(sizes: Sequence[int]) -> Tensor:
    """The places of a grid, one unit apart, around zero: shape (places, axes), last axis fastest.

    Example:
        >>> grid_points((2, 3)).tolist()
        [[-0.5, -1.0], [-0.5, 0.0], [-0.5, 1.0], [0.5, -1.0], [0.5, 0.0], [0.5, 1.0]]
    """
    sides = [torch.arange(n, dtype=torch.float64, device="cpu") - (n - 1) / 2 for n in sizes]
    return torch.stack(torch.meshgrid(*sides, indexing="ij"), -1).flatten(0, -2)


def exact_points(points: Tensor, what: str) -> Tensor:
    """Points in float64, shape (n, d)."""
    points = points.detach().to("cpu", torch.float64)
    if points.ndim != 2 or not points.numel():
        raise ValueError(f"expected {what} of shape (n, d), got {tuple(points.shape)}")
    if not bool(points.isfinite().all()):
        raise ValueError(f"expected finite {what}, got some that are not")
    return points


def anchors_for(targets: Tensor, anchors: Anchors, *, among: bool = False) -> Tensor:
    """Anchor points for a basis at ``targets``.

    Raises:
        ValueError: If no number of points comes of it.

    Example:
        >>> anchors_for(grid_points((3, 3)), None).shape
        torch.Size([5, 2])
    """
    if isinstance(anchors, Tensor):
        return exact_points(anchors, "anchors")
    places = targets.shape[0]
    most = float(places) if among else math.inf
    number = anchors
    if anchors is None or isinstance(anchors, float):
        share = 0.5 if anchors is None else anchors
        number = math.ceil(share * places) if math.isfinite(share) else 0
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= most:
        limit = f" and at most {places}" if among else ""
        raise ValueError(
            f"expected anchor points, or a number or share of them above zero{limit}, got "
            f"{anchors!r}"
        )
    if among:
        return targets[torch.randperm(places, device="cpu")[:number]]
    low, high = targets.amin(0), targets.amax(0)
    drawn = torch.rand(number, targets.shape[1], dtype=torch.float64, device="cpu")
    return low + (high - low) * drawn
