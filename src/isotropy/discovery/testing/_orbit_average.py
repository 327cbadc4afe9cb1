"""What a predictor would say if it had a continuous symmetry, judged only where there are data.

A group that is not compact has no invariant mean, and its far elements ask a predictor about
inputs that it never saw. So each input walks along its own orbit, by random group elements, and
only to places where there are data; the mean is over the places it visits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import spawn
from isotropy.discovery.testing._claim_test import Predictor
from isotropy.discovery.testing._data_support import DataSupport, finite_rows
from isotropy.discovery.testing._testing_thresholds import TestingThresholds
from isotropy.equivariance._evaluation import evaluating, inputs_for

_DEAD = 1e-10  # relative variance of a combination of generators that does not move the data


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
        limits = TestingThresholds.now()
        weights = torch.randn(limits.walk_pool, mixing.shape[1], generator=rng).double()
        weights = weights / weights.norm(dim=1, keepdim=True).clamp_min(1e-300)
        largest = limits.largest_step * math.sqrt(2 * support.directions)
        places = (torch.arange(limits.walk_pool).double() + 0.5) / limits.walk_pool
        sizes = limits.smallest_step * (largest / limits.smallest_step) ** places.unsqueeze(1)
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
    ridge = (
        TestingThresholds.now().mixing_ridge
        * len(even)
        / directions
        * torch.eye(directions, dtype=torch.float64)
    )
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


@dataclass(frozen=True)
class OrbitAverage:
    """A predictor's mean over orbits, and how much of them there was.

    Args:
        halves: Means over the first and the last half of the images, shape (2, N, k).
        kept: How many different images of each input there are in its mean, shape (N,).
        reach: How far the images lie from the inputs along the generators, as a share of how far
            data lie from one another that way; of all combinations of generators, for the one
            with the least. Near 1 where orbits pass through the data, 0 where one leaves them at
            once, or does not move them.
        tested: Which inputs have images enough to say something of the symmetry, shape (N,).

    Example:
        >>> kept = torch.tensor([40, 0])
        >>> OrbitAverage(torch.zeros(2, 2, 1), kept, 0.9, kept > 4)
        OrbitAverage(kept=20, share=0.5, reach=0.9)
    """

    halves: Tensor
    kept: Tensor
    reach: float
    tested: Tensor

    @property
    def values(self) -> Tensor:
        """The means over all images, shape (N, k)."""
        return self.halves.mean(0)

    @property
    def share(self) -> float:
        """The share of inputs that say something of the symmetry."""
        return float(self.tested.double().mean())

    def __repr__(self) -> str:
        kept = float(self.kept.double().mean())
        return f"OrbitAverage(kept={kept:.4g}, share={self.share:.4g}, reach={self.reach:.4g})"


@torch.no_grad()
def orbit_average(
    predict: Predictor,
    x: Tensor,
    generators_in: ArrayLike,
    generators_out: ArrayLike | None = None,
    *,
    support: DataSupport,
    elements: int = 64,
    seed: int | torch.Generator | None = 0,
) -> OrbitAverage:
    """The predictions that a predictor would make if it had a continuous symmetry.

        f_sym(x) = mean over g of ρ_out(g)⁻¹ f(g x),

    over elements g of the connected group that leave x where there are data. They are the steps
    of a random walk from x; an input that can go nowhere keeps its own prediction.

    Args:
        predict: Takes inputs of shape (N, n) to outputs of shape (N, k), row by row.
        x: Inputs, shape (N, n).
        generators_in: Affine actions [A|b] on whole rows, x ↦ A x + b, shape (D, n, n+1).
        generators_out: How outputs move with them, shape (D, k, k); not at all by default.
        support: Where the data are.
        elements: How many elements the mean is over.
        seed: Seed or generator of the walk.

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.

    Example:
        >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> turn = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
        >>> averaged = orbit_average(lambda x: x[:, :1], x, turn, support=DataSupport(x))
        >>> averaged.share > 0.9, averaged.reach > 0.7
        (True, True)
        >>> bool(averaged.values[averaged.tested].std() < 0.4 * x[:, 0].std())
        True
    """
    limits = TestingThresholds.now()
    if isinstance(elements, bool) or not isinstance(elements, int) or elements < 2:
        raise ValueError(f"expected at least 2 elements, got {elements!r}")
    start = finite_rows(x, "inputs")
    algebra = _generators_in(generators_in, start.shape[1], support)
    begin = evaluated(predict, x, start)
    out = None if generators_out is None else _generators_out(generators_out, algebra, begin)
    drawing, walking = spawn(make_generator(seed), 2)
    mixing = even_mixing(motions(algebra, start, support))
    pool = ElementPool.drawn(algebra, out, mixing, support, drawing)
    walk = OrbitWalk(start, begin, pool, support)
    skipped = -(-elements // limits.forgotten)
    halves = torch.zeros(2, *begin.shape, dtype=begin.dtype)
    kept = torch.zeros(len(start), dtype=torch.long)
    even = torch.einsum("de,dij->eij", mixing, algebra)
    watched = torch.randperm(len(start), generator=drawing)[: limits.watched_inputs]
    squares = torch.zeros(2, len(watched), len(even), len(even), dtype=torch.float64)
    for step in range(skipped + elements):
        moved = walk.step(lambda rows: evaluated(predict, x, rows), walking)
        if step >= skipped:
            halves[2 * (step - skipped) // elements] += walk.values
            kept += moved
            if (step - skipped) % limits.measured_elements == 0:
                squares += travelled(even, start[watched], walk.at[watched], support)
    tested = kept >= max(2, elements // limits.least_moves)
    reach = 0.0
    if len(even) == len(algebra) and bool(tested[watched].any()):
        reach = least_ratio(*squares[:, tested[watched]].mean(1))
    halves[0] /= (elements + 1) // 2
    halves[1] /= elements // 2
    return OrbitAverage(halves, kept, reach, tested)


def _generators_in(given: ArrayLike, n: int, support: DataSupport) -> Tensor:
    algebra = torch.as_tensor(given).detach().cpu().double()
    if n != support.n:
        raise ValueError(f"expected inputs of the data's width {support.n}, got {n}")
    if algebra.ndim != 3 or algebra.shape[1:] != (n, n + 1) or not len(algebra):
        raise ValueError(
            f"expected generators [A|b] of shape (D, {n}, {n + 1}), got {tuple(algebra.shape)}"
        )
    if not bool(algebra.isfinite().all()):
        raise ValueError("expected finite generators, got NaN or infinity")
    return algebra


def _generators_out(given: ArrayLike, algebra: Tensor, outputs: Tensor) -> Tensor:
    out = torch.as_tensor(given).detach().cpu().double()
    expected = (len(algebra), outputs.shape[1], outputs.shape[1])
    if out.shape != expected:
        raise ValueError(
            f"expected generators of outputs of shape {expected}, got {tuple(out.shape)}"
        )
    return out


def evaluated(predict: Predictor, like: Tensor, rows: Tensor) -> Tensor:
    """Predictions of rows, given as the user gave his, in float64 on the CPU."""
    dtype = like.dtype if like.is_floating_point() else torch.float64
    with evaluating(predict):
        values = predict(inputs_for(predict, rows.to(like.device, dtype)))
    if values.ndim != 2 or len(values) != len(rows):
        raise ValueError(
            f"expected predictions of shape ({len(rows)}, k), got {tuple(values.shape)}"
        )
    return values.detach().cpu().double()
