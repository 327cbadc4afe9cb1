"""A random walk of inputs along their orbits, to places where there are data, and how far it goes.

Steps that shrink volumes are taken less often by as much, so that places count by volume, as data
do: scalings do not sink to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy.discovery.testing._claim_test import Predictor
from isotropy.discovery.testing._data_support import DataSupport

_DEAD = 1e-10  # relative variance of a combination of generators that does not move the data
_SMALLEST_STEP = 0.1  # in standard deviations of the data
_LARGEST_STEP = 3.0  # in distances between data, so that rotations go all the way around
_POOL = 128  # elements that steps are taken from, besides their inverses
_RIDGE = 0.1  # half a turn has no finite motion from the place half way


@dataclass(frozen=True)
class ElementPool:
    """Group elements to take steps by: maps of inputs, maps back of outputs, and volumes."""

    maps: Tensor
    shifts: Tensor
    back: Tensor | None
    volumes: Tensor

    @staticmethod
    def drawn(
        algebra: Tensor,
        out: Tensor | None,
        mixing: Tensor,
        support: DataSupport,
        rng: torch.Generator,
    ) -> ElementPool:
        """Random elements of all sizes, each with its inverse."""
        weights = torch.randn(_POOL, mixing.shape[1], generator=rng).double()
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-300)
        largest = _LARGEST_STEP * math.sqrt(2 * support.directions)
        places = (torch.arange(_POOL).double() + 0.5) / _POOL
        sizes = _SMALLEST_STEP * (largest / _SMALLEST_STEP) ** places.unsqueeze(1)
        weights = (sizes * weights) @ mixing.T
        weights = torch.cat([weights, -weights])
        n, centre, frame = support.n, support.centre, support.frame
        matrices = algebra[:, :, :n]
        offsets = matrices @ centre + algebra[:, :, n]  # how the centre moves
        # exponentials where units and hidden coordinates do no harm
        own = torch.linalg.solve(frame, torch.cat([matrices @ frame, offsets.unsqueeze(2)], 2))
        mixed = torch.einsum("pd,dij->pij", weights, own)
        affine = torch.matrix_exp(torch.nn.functional.pad(mixed, (0, 0, 0, 1)))
        maps = torch.linalg.solve(frame, frame @ affine[:, :n, :n], left=False)
        shifts = centre + affine[:, :n, n] @ frame.T - maps @ centre
        back = None
        if out is not None:
            back = torch.matrix_exp(-torch.einsum("pd,dij->pij", weights, out))
        volumes = mixed[:, :, :n].diagonal(dim1=1, dim2=2).sum(1).exp()
        return ElementPool(maps, shifts, back, volumes)


class OrbitWalk:
    """Inputs on the move, and what the predictor says of where they came from."""

    def __init__(
        self, start: Tensor, values: Tensor, pool: ElementPool, support: DataSupport
    ) -> None:
        self.at, self.values = start.clone(), values.clone()
        self._pool, self._support = pool, support
        k = values.shape[1]
        self._back = torch.eye(k).to(values).expand(len(start), k, k).clone()

    def step(self, predict: Predictor, rng: torch.Generator) -> Tensor:
        """Try a step with each input; which of them took it."""
        pool, count = self._pool, len(self.at)
        chosen = torch.randint(len(pool.volumes), (count,), generator=rng)
        images = (pool.maps[chosen] @ self.at.unsqueeze(2)).squeeze(2) + pool.shifts[chosen]
        taken = torch.rand(count, generator=rng) < pool.volumes[chosen]
        taken &= self._support.contains(images)
        if bool(taken.any()):
            values = predict(images[taken])
            if pool.back is not None:
                self._back[taken] = self._back[taken] @ pool.back[chosen[taken]]
                values = (self._back[taken] @ values.unsqueeze(2)).squeeze(2)
            self.at[taken], self.values[taken] = images[taken], values
        return taken


def even_mixing(moves: Tensor) -> Tensor:
    """Combinations, as columns, that move the data by one in mean square, each its own way.

    They are fewer than the generators where a combination does not move the data at all.
    """
    gram = torch.einsum("ndi,nei->de", moves, moves) / len(moves)
    sizes = gram.diagonal().sqrt()
    sizes = torch.where(sizes > 0, sizes, 1.0)
    values, vectors = torch.linalg.eigh(gram / sizes.unsqueeze(1) / sizes)
    moving = values > _DEAD * values.max().clamp_min(1e-300)
    mixing: Tensor = vectors[:, moving] / values[moving].sqrt() / sizes.unsqueeze(1)
    return mixing


def motions(algebra: Tensor, rows: Tensor, support: DataSupport) -> Tensor:
    """How each generator moves each row, in the data's coordinates, (N, D, directions)."""
    moves = rows @ algebra[:, :, :-1].mT + algebra[:, None, :, -1]
    return support.directions_of(moves).transpose(0, 1)


def travelled(even: Tensor, start: Tensor, end: Tensor, support: DataSupport) -> Tensor:
    """Squares of how far rows went along some generators, and of how far data lie apart that way.

    What takes x to g x is sought among motions of the place half way: for exp(A) in a group that
    keeps a quadratic form it is 2 tanh(A/2), which is again in its Lie algebra. So a rotation is
    distinguished from a scaling, which a step along the tangent at x would not do.

    Returns:
        Both, shape (2, N, D, D).
    """
    moves = motions(even, (start + end) / 2, support)
    apart = support.directions_of(end - start).unsqueeze(2)
    directions = support.directions
    ridge = _RIDGE * len(even) / directions * torch.eye(directions, dtype=torch.float64)
    solved = torch.linalg.solve(moves.mT @ moves + ridge, moves, left=False)
    steps = solved @ apart
    # two data lie apart by 2, in mean square, along any direction
    return torch.stack([steps @ steps.mT, 2 * solved @ solved.mT])


def least_ratio(squares: Tensor, unit: Tensor) -> float:
    """The root of the least of cᵀ squares c / cᵀ unit c."""
    root = torch.linalg.cholesky(
        unit + 1e-9 * unit.diagonal().mean() * torch.eye(len(unit)).to(unit)
    )
    half = torch.linalg.solve_triangular(root, squares, upper=False)
    ratio = torch.linalg.solve_triangular(root, half.mT, upper=False)
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh((ratio + ratio.mT) / 2)[0])))
