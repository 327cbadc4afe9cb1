"""Finite affine maps of pictures: by Fourier shears and stretches, or bilinear."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.autograd import forward_ad

from isotropy.equivariance._axes import Side
from isotropy.equivariance._interpolation import Boundary, resample, shift


def fourier_warp(
    picture: Tensor, element: Tensor, sides: tuple[Side, ...], boundary: Boundary
) -> Tensor:
    """Move a picture by an affine map near the identity, in shears, stretches and a shift.

    A matrix ((a, b), (c, d)) of determinant 1, a rotation for one, is a shear along x by (a − 1)/c
    after one along y by c, after one along x by (d − 1)/c. Any is a shear along y by c/a, after
    stretches by a and (ad − bc)/a, after a shear along x by b/a. Each of these interpolates only
    along one axis. They are near the identity where a ≥ ½; others are gone to in steps.

    Args:
        picture: Samples, shape (*, *sides).
        element: The map in homogeneous coordinates, x first; its shift in shares of the sides.
        sides: Where the samples are.
        boundary: How the picture goes on outside.
    """
    if len(sides) == 1:
        stretched = _stretch(picture, element[0, 0], sides[0], boundary)
        return _shift(stretched, element[0, 1], sides[0], boundary)
    (a, b), (c, d) = element[0, :2], element[1, :2]
    down, across = sides
    aspect = across.whole / down.whole
    # ρ(gh) = ρ(g)ρ(h): the last factor comes first
    turned, squeezed = abs(float(c.detach())), abs(float((a - 1).detach()))
    if abs(float((a * d - b * c).detach()) - 1) < 1e-12 and turned > max(1e-4, squeezed):
        found = _shear(picture, (d - 1) / c / aspect, across, down, boundary)
        found = _shear(found.mT, c * aspect, down, across, boundary).mT
        found = _shear(found, (a - 1) / c / aspect, across, down, boundary)
    else:
        found = _shear(picture, b / a / aspect, across, down, boundary)
        found = _stretch(found, a, across, boundary)
        found = _stretch(found.mT, d - b * c / a, down, boundary)
        found = _shear(found, c / a * aspect, down, across, boundary).mT
    found = _shift(found.mT, element[1, 2], down, boundary).mT
    return _shift(found, element[0, 2], across, boundary)


def _is_just(by: Tensor, value: float) -> bool:
    """Whether a step does nothing, nor has a derivative that does."""
    tracked = by.requires_grad or forward_ad.unpack_dual(by).tangent is not None
    return not tracked and float(by) == value


def _shift(x: Tensor, by: Tensor, side: Side, boundary: Boundary) -> Tensor:
    if _is_just(by, 0):
        return x
    return shift(x, by * (side.whole / side.pitch), boundary)


def _shear(x: Tensor, by: Tensor, along: Side, across: Side, boundary: Boundary) -> Tensor:
    """Shift rows along the last axis in proportion to their place across."""
    if _is_just(by, 0):
        return x
    rows = across.places(x) * by.to(x.device, x.dtype) * (along.whole / along.pitch)
    return shift(x, rows, boundary)


def _stretch(x: Tensor, by: Tensor, side: Side, boundary: Boundary) -> Tensor:
    if _is_just(by, 1):
        return x
    by = by.to(x.device, x.dtype)
    middle = (side.whole - 1) / 2
    places = side.origin + side.pitch * torch.arange(side.size, device=x.device, dtype=x.dtype)
    taken = middle + (places - middle) / by
    return resample(x, (taken - side.origin) / side.pitch, boundary)


def bilinear_warp(
    picture: Tensor, element: Tensor, sides: tuple[Side, ...], boundary: Boundary
) -> Tensor:
    """Move a picture by an affine map, each sample a mean of four neighbours (two on a line).

    Args:
        picture: Samples, shape (*, *sides).
        element: The map in homogeneous coordinates, x first; its shift in shares of the sides.
        sides: Where the samples are.
        boundary: How the picture goes on outside.
    """
    inverse = torch.linalg.inv(element).to(picture.device, picture.dtype)
    places = [side.places(picture) * side.whole for side in reversed(sides)]
    grid = torch.meshgrid(*reversed(places), indexing="ij")[::-1]
    lengths = [side.whole for side in reversed(sides)]
    weights: list[tuple[Tensor, Tensor, Tensor]] = []
    for row, side in enumerate(reversed(sides)):
        place = sum(inverse[row, i] * grid[i] for i in range(len(sides)))
        place = place + inverse[row, -1] * lengths[row]
        sample = ((place + (side.whole - 1) / 2) - side.origin) / side.pitch
        low = torch.floor(sample.detach())
        share = sample - low
        ends = [_fold(low.long() + step, side.size, boundary) for step in (0, 1)]
        weights.append((ends[0], ends[1], share))
    flat = picture.reshape(*picture.shape[: -len(sides)], -1)
    corners: list[tuple[Tensor, Tensor | float]] = [(torch.zeros_like(weights[0][0]), 1.0)]
    stride = 1
    for (low, high, share), side in zip(weights, reversed(sides), strict=True):
        corners = [
            (index + stride * end, weight * factor)
            for index, weight in corners
            for end, factor in ((low, 1 - share), (high, share))
        ]
        stride *= side.size
    found = sum(flat[..., index.flatten()].reshape(picture.shape) * w for index, w in corners)
    assert isinstance(found, Tensor)
    return found


def _fold(index: Tensor, n: int, boundary: Boundary) -> Tensor:
    if boundary == "periodic":
        return index % n
    index = index % (2 * n)
    return torch.where(index < n, index, 2 * n - 1 - index)
