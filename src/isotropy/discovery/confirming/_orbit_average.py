"""What a predictor would say if it had a continuous symmetry, judged only where there are data.

A group that is not compact has no invariant mean, and its far elements ask a predictor about
inputs that it never saw. So each input walks along its own orbit, by random group elements, and
only to places where there are data; the mean is over the places it visits. Steps that shrink
volumes are taken less often by as much, so that places count by volume, as data do: scalings do
not sink to zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import spawn
from isotropy.discovery.confirming._claim_test import (
    SMALLEST_SAMPLE,
    ClaimTest,
    Loss,
    Predictor,
    _sample_losses,
    claim_test,
)
from isotropy.equivariance._evaluation import evaluating, inputs_for

LEAST_REACH = 0.3  # of the distance between data, along any of the generators
LEAST_SHARE = 0.5  # of the inputs
_NEIGHBOURS = 5
_DEAD = 1e-10  # relative variance of a combination of columns that is constant
_SMALLEST_STEP = 0.1  # in standard deviations of the data
_LARGEST_STEP = 3.0  # in distances between data, so that rotations go all the way around
_POOL = 128  # elements that steps are taken from, besides their inverses
_FORGET = 4  # one in so many steps goes by before the mean begins, so that it forgets the start
_LEAST_KEPT = 16  # one in so many elements, at least, is a new place, or the input tells nothing
_RIDGE = 0.1  # half a turn has no finite motion from the place half way
_WATCHED = 256  # inputs on which it is measured how far the walk has come
_MEASURED = 4  # one in so many elements, at which that is done
_NUMBERS_AT_ONCE = 2**22


class DataSupport:
    """Where there are data: near to some of them, and no farther out than nearly all of them.

    Distances are Mahalanobis', so that units and other linear changes of coordinates do not
    matter. A place is within the data if it is in the ball around some data point whose radius is
    proportional to the distance of that point's fifth neighbour, and in the ellipsoid around the
    mean; the proportion and the ellipsoid are such that each holds the given share of the data,
    none counted for itself. Combinations of columns that are constant must stay so.

    Args:
        x: Data, shape (N, n), at least 20 rows.
        coverage: The share of the data that lie within each of the two.
        most: The most rows to keep.
        seed: Seed or generator of the choice of rows, where there are more.

    Attributes:
        n: The width of rows.
        centre: The mean, shape (n,).
        frame: F, shape (n, n): the coordinates u of x = centre + F u are uncorrelated, and of
            variance one but for those that are constant.

    Raises:
        ValueError: If there are too few rows, a number is not finite, all rows are the same, or
            the share is not between 0 and 1.

    Example:
        >>> angle = torch.linspace(0, 6.28, 200, dtype=torch.float64)
        >>> ring = DataSupport(torch.stack([angle.cos(), angle.sin()], 1))
        >>> ring.contains(torch.tensor([[0.6, 0.8], [0.0, 0.0], [1.2, 1.6]]))
        tensor([ True, False, False])
    """

    def __init__(
        self,
        x: Tensor,
        *,
        coverage: float = 0.95,
        most: int = 2000,
        seed: int | torch.Generator | None = 0,
    ) -> None:
        rows = _matrix(x, "data")
        if len(rows) < SMALLEST_SAMPLE:
            raise ValueError(f"expected at least {SMALLEST_SAMPLE} rows of data, got {len(rows)}")
        if not 0 < coverage < 1:
            raise ValueError(f"expected a coverage between 0 and 1, got {coverage!r}")
        self.n = rows.shape[1]
        self.centre = rows.mean(0)
        scale = rows.std(0)
        scale = torch.where(scale > 0, scale, 1.0)
        values, axes = torch.linalg.eigh((rows / scale).T.cov().reshape(self.n, self.n))
        live = values > _DEAD * values.max()
        if float(values.max()) <= 0:
            raise ValueError("expected data that vary, got the same row throughout")
        spread = torch.where(live, values, 1.0).sqrt()
        self.frame = scale.unsqueeze(1) * axes * spread
        self._to_live = (axes[:, live] / spread[live]).T / scale
        self._to_dead = axes[:, ~live].T / scale
        if len(rows) > most:
            rows = rows[torch.randperm(len(rows), generator=make_generator(seed))[:most]]
        z = self.coordinates(rows)
        distances = torch.cdist(z, z).fill_diagonal_(math.inf)
        radii = distances.kthvalue(_NEIGHBOURS, 1).values
        radii = radii.clamp(1e-6, float(radii.quantile(coverage)) + 1e-6)  # of far outliers too
        radii = radii * (distances / radii).amin(1).quantile(coverage)
        self._points = torch.cat(
            [torch.ones(len(z), 1), -2 * z, z.square().sum(1, keepdim=True)], 1
        ) / radii.square().unsqueeze(1)
        self._farthest = z.norm(dim=1).quantile(coverage)

    @property
    def directions(self) -> int:
        """How many independent directions the data vary in."""
        return len(self._to_live)

    def coordinates(self, x: Tensor) -> Tensor:
        """Coordinates in which the data have mean zero and covariance one, shape (*, directions).

        Args:
            x: Rows, shape (*, n).
        """
        return self.directions_of(x - self.centre)

    def directions_of(self, moves: Tensor) -> Tensor:
        """The same of differences between rows."""
        directions: Tensor = moves @ self._to_live.T
        return directions

    def contains(self, x: Tensor) -> Tensor:
        """Whether rows lie where there are data; those that are not finite do not.

        Args:
            x: Rows, shape (N, n).

        Raises:
            ValueError: If the width is another.
        """
        if x.ndim != 2 or x.shape[1] != self.n:
            raise ValueError(f"expected rows of width {self.n}, got shape {tuple(x.shape)}")
        x = x.detach().cpu().double()
        z = self.coordinates(x)
        strayed = ((x - self.centre) @ self._to_dead.T).abs().sum(1)
        inside: Tensor = (z.norm(dim=1) <= self._farthest) & (strayed <= math.sqrt(_DEAD))
        at = inside.nonzero().squeeze(1)
        z = z[at]
        rows = torch.cat([z.square().sum(1, keepdim=True), z, torch.ones(len(z), 1)], 1)
        step = max(1, _NUMBERS_AT_ONCE // len(self._points))
        near = [(part @ self._points.T).amin(1) <= 1 for part in rows.split(step)]
        inside[at] = torch.cat(near) if near else inside[at]
        return inside


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
    if isinstance(elements, bool) or not isinstance(elements, int) or elements < 2:
        raise ValueError(f"expected at least 2 elements, got {elements!r}")
    start = _matrix(x, "inputs")
    algebra = _generators_in(generators_in, start.shape[1], support)
    begin = evaluated(predict, x, start)
    out = None if generators_out is None else _generators_out(generators_out, algebra, begin)
    drawing, walking = spawn(make_generator(seed), 2)
    mixing = _even_mixing(_motions(algebra, start, support))
    pool = _Pool.drawn(algebra, out, mixing, support, drawing)
    walk = _Walk(start, begin, pool, support)
    skipped = -(-elements // _FORGET)
    halves = torch.zeros(2, *begin.shape, dtype=begin.dtype)
    kept = torch.zeros(len(start), dtype=torch.long)
    even = torch.einsum("de,dij->eij", mixing, algebra)
    watched = torch.randperm(len(start), generator=drawing)[:_WATCHED]
    travelled = torch.zeros(2, len(watched), len(even), len(even), dtype=torch.float64)
    for step in range(skipped + elements):
        moved = walk.step(lambda rows: evaluated(predict, x, rows), walking)
        if step >= skipped:
            halves[2 * (step - skipped) // elements] += walk.values
            kept += moved
            if (step - skipped) % _MEASURED == 0:
                travelled += _travelled(even, start[watched], walk.at[watched], support)
    tested = kept >= max(2, elements // _LEAST_KEPT)
    reach = 0.0
    if len(even) == len(algebra) and bool(tested[watched].any()):
        reach = _least_ratio(*travelled[:, tested[watched]].mean(1))
    halves[0] /= (elements + 1) // 2
    halves[1] /= elements // 2
    return OrbitAverage(halves, kept, reach, tested)


@dataclass(frozen=True)
class ActionTest:
    """A test of one claimed action, or why there is none.

    Args:
        test: The test; its p-value is 1 where there is none.
        share: The share of inputs that could be tested on.
        kept: How many images of an input were averaged over, on average.
        reach: How far the images lie from the inputs, in distances between data.
        reason: Why nothing could be told; empty where something could.

    Example:
        >>> nothing = ActionTest(untested(0.05, 0.05), 0.0, 0.0, 0.0, "no image is within the data")
        >>> nothing.test.confirmed, nothing.told
        (False, False)
    """

    test: ClaimTest
    share: float
    kept: float
    reach: float
    reason: str = ""

    @property
    def told(self) -> bool:
        """Whether the data could tell."""
        return not self.reason


@torch.no_grad()
def confirm_action(
    predict: Predictor,
    x: Tensor,
    y: Tensor,
    generators_in: ArrayLike,
    generators_out: ArrayLike | None = None,
    *,
    support: DataSupport,
    constant: Tensor,
    loss: Loss = "squared",
    margin: float = 0.05,
    level: float = 0.05,
    elements: int = 64,
    most: int = 2000,
    groups: ArrayLike | None = None,
    seed: int | torch.Generator | None = 0,
) -> ActionTest:
    """Test a continuous symmetry on samples that neither found nor fitted anything.

    The predictor that has the symmetry is the mean over orbits of the one that has not
    (``orbit_average``), compared with it by ``cost_of_average`` on those inputs that have images
    within the data. Where these are fewer than 20, or the images are all near by, nothing is
    claimed.

    Args:
        predict: The free predictor, (N, n) to (N, k), fitted to other samples.
        x: Inputs, shape (N, n).
        y: Targets, shape (N, k) or (N,).
        generators_in: Affine actions [A|b] on whole rows, shape (D, n, n+1).
        generators_out: How outputs move with them, shape (D, k, k); not at all by default.
        support: Where the data are that the predictor was fitted to.
        constant: What a constant predictor predicts, shape (k,).
        loss: As ``confirm`` takes it.
        margin: The largest effect that still counts as a symmetry.
        level: The largest p-value that confirms.
        elements: How many group elements to average over.
        most: The most samples to test on.
        groups: Which samples belong together, shape (N,).
        seed: Seed or generator of the samples, where there are more, and of group elements.

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.

    Example:
        >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> turn = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
        >>> given = {"support": DataSupport(x), "constant": torch.zeros(1)}
        >>> square = lambda x: x.square().sum(1, keepdim=True)
        >>> confirm_action(square, x, square(x), turn, **given).test.confirmed
        True
        >>> tilted = lambda x: square(x) + x[:, :1]
        >>> confirm_action(tilted, x, tilted(x), turn, **given).test.confirmed
        False
    """
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    if len(x) != len(y):
        raise ValueError(f"expected as many targets as inputs, got {len(y)} and {len(x)}")
    choosing, walking = spawn(make_generator(seed), 2)
    labels = row_labels(groups, len(x))
    if len(x) > most:
        chosen = torch.randperm(len(x), generator=choosing)[:most]
        x, y = x[chosen], y[chosen]
        labels = None if labels is None else labels[chosen]
    average = orbit_average(
        predict, x, generators_in, generators_out, support=support, elements=elements, seed=walking
    )
    tested = average.tested
    told = ActionTest(
        untested(margin, level, int(tested.sum())),
        average.share,
        float(average.kept.double().mean()),
        average.reach,
    )
    reason = why_untested(tested, labels, average.reach)
    if reason:
        return replace(told, reason=reason)
    test = cost_of_average(
        evaluated(predict, x, x[tested]),
        average.halves[:, tested],
        y[tested],
        constant=constant,
        loss=loss,
        margin=margin,
        level=level,
        groups=None if labels is None else labels[tested],
    )
    return replace(told, test=test)


def cost_of_average(
    free: Tensor,
    averaged: Tensor,
    y: Tensor,
    *,
    constant: Tensor,
    loss: Loss = "squared",
    margin: float = 0.05,
    level: float = 0.05,
    groups: ArrayLike | None = None,
) -> ClaimTest:
    """Test that averaging costs less than a margin, whatever it gains by evening out errors.

    With d = f − f_sym, averaging costs E[l(f_sym) − l(f)], but a predictor with errors gains by
    it, which can make up for a symmetry that does not hold. Errors do not know of the targets, so
    E[l(f_sym − d/2) − l(f_sym + d/2)] / 2, which for squared losses is E[(y − f_sym) d], is what
    it costs without that gain. Where f_sym is a mean over random elements, d is taken with other
    ones than f_sym, so that their chance does not count as cost. The claim must pass both tests,
    and the one that it passes with more difficulty is returned.

    Args:
        free: Predictions f, shape (N, k).
        averaged: Predictions f_sym, shape (1, N, k), or two of them from different elements,
            shape (2, N, k).
        y: Targets, shape (N, k) or (N,).
        constant: What a constant predictor predicts, shape (k,).
        loss: As ``confirm`` takes it.
        margin: The largest effect that still counts as a symmetry.
        level: The largest p-value that confirms.
        groups: Which samples belong together, shape (N,).

    Raises:
        ValueError: If shapes do not fit, or there are fewer than 20 samples or groups.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> even, odd, error = torch.randn(3, 500, 1, generator=rng)
        >>> y = even + 0.3 * odd  # the odd part is 8 % of the variance
        >>> cost_of_average(y + 0.3 * error, even[None], y, constant=torch.zeros(1)).confirmed
        False
    """
    if loss != "cross-entropy" and y.ndim == 1 and free.ndim == 2 and free.shape[1] == 1:
        y = y.unsqueeze(1)
    flat = torch.as_tensor(constant).to(free)
    if flat.shape != free.shape[1:]:
        raise ValueError(
            f"expected a constant prediction of shape {tuple(free.shape[1:])}, "
            f"got {tuple(flat.shape)}"
        )
    y = y.to(free.device)
    if averaged.ndim != free.ndim + 1 or averaged.shape[1:] != free.shape:
        raise ValueError(
            f"expected averages of shape (1 or 2, {', '.join(map(str, free.shape))}), "
            f"got {tuple(averaged.shape)}"
        )
    losses_free = _sample_losses(loss, free, y)
    halves = (free - averaged.flip(0)) / 2
    slopes = [
        _sample_losses(loss, mean - half, y) - _sample_losses(loss, mean + half, y)
        for mean, half in zip(averaged, halves, strict=True)
    ]
    costs = (
        _sample_losses(loss, averaged.mean(0), y) - losses_free,
        sum(slopes) / (2 * len(slopes)),
    )
    losses_constant = _sample_losses(loss, flat.expand_as(free), y)
    tests = [
        claim_test(
            losses_free + cost,
            losses_free,
            losses_constant,
            margin=margin,
            level=level,
            groups=groups,
        )
        for cost in costs
    ]
    return max(tests, key=lambda test: test.p_value)


def untested(margin: float, level: float, samples: int = 0) -> ClaimTest:
    """The test of a claim of which the data tell nothing: it is not confirmed.

    Args:
        margin: The margin that it would have been tested with.
        level: The level.
        samples: How many samples there were.

    Example:
        >>> untested(0.05, 0.05).p_value
        1.0
    """
    limits = (-math.inf, math.inf)
    return ClaimTest(1.0, math.nan, limits, margin, 1.0, samples, 1.0, level)


def why_untested(tested: Tensor, groups: Tensor | None, reach: float) -> str:
    """Why too little of the data has images within the data, or nothing.

    Args:
        tested: Which inputs have images, shape (N,).
        groups: Which inputs belong together, shape (N,).
        reach: How far the images are, in distances between data.

    Example:
        >>> why_untested(torch.arange(100) < 30, None, 1.0)
        '30% of the inputs have images within the data, less than 50%'
    """
    count, what = int(tested.sum()), "inputs"
    if groups is not None:
        count, what = len(groups[tested].unique()), "groups of inputs"
    if count < SMALLEST_SAMPLE:
        return f"{count} {what} have images within the data, fewer than {SMALLEST_SAMPLE}"
    share = float(tested.double().mean())
    if share < LEAST_SHARE:
        return f"{share:.0%} of the inputs have images within the data, less than {LEAST_SHARE:.0%}"
    if reach < LEAST_REACH:
        return (
            f"images within the data are too near to tell: {reach:.2g} of the distance between "
            f"data, less than {LEAST_REACH}"
        )
    return ""


# --- the walk -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Pool:
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
    ) -> _Pool:
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
        return _Pool(maps, shifts, back, volumes)


class _Walk:
    """Inputs on the move, and what the predictor says of where they came from."""

    def __init__(self, start: Tensor, values: Tensor, pool: _Pool, support: DataSupport) -> None:
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


def _motions(algebra: Tensor, rows: Tensor, support: DataSupport) -> Tensor:
    """How each generator moves each row, in the data's coordinates, (N, D, directions)."""
    moves = rows @ algebra[:, :, :-1].mT + algebra[:, None, :, -1]
    return support.directions_of(moves).transpose(0, 1)


def _travelled(even: Tensor, start: Tensor, end: Tensor, support: DataSupport) -> Tensor:
    """Squares of how far rows went along some generators, and of how far data lie apart that way.

    What takes x to g x is sought among motions of the place half way: for exp(A) in a group that
    keeps a quadratic form it is 2 tanh(A/2), which is again in its Lie algebra. So a rotation is
    told from a scaling, which a step along the tangent at x would not do.

    Returns:
        Both, shape (2, N, D, D).
    """
    moves = _motions(even, (start + end) / 2, support)
    apart = support.directions_of(end - start).unsqueeze(2)
    directions = support.directions
    ridge = _RIDGE * len(even) / directions * torch.eye(directions, dtype=torch.float64)
    solved = torch.linalg.solve(moves.mT @ moves + ridge, moves, left=False)
    steps = solved @ apart
    # two data lie apart by 2, in mean square, along any direction
    return torch.stack([steps @ steps.mT, 2 * solved @ solved.mT])


def _least_ratio(squares: Tensor, unit: Tensor) -> float:
    """The root of the least of cᵀ squares c / cᵀ unit c."""
    root = torch.linalg.cholesky(
        unit + 1e-9 * unit.diagonal().mean() * torch.eye(len(unit)).to(unit)
    )
    half = torch.linalg.solve_triangular(root, squares, upper=False)
    ratio = torch.linalg.solve_triangular(root, half.mT, upper=False)
    return math.sqrt(max(0.0, float(torch.linalg.eigvalsh((ratio + ratio.mT) / 2)[0])))


def _even_mixing(moves: Tensor) -> Tensor:
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


# --- what comes in ------------------------------------------------------------------------------


def _matrix(x: Tensor, what: str) -> Tensor:
    rows = torch.as_tensor(x).detach().cpu()
    if rows.ndim != 2 or rows.is_complex():
        raise ValueError(
            f"expected real {what} of shape (N, n), got {rows.dtype} of {tuple(rows.shape)}"
        )
    rows = rows.double()
    if not bool(rows.isfinite().all()):
        raise ValueError(f"expected finite {what}, got NaN or infinity")
    return rows


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


def row_labels(groups: ArrayLike | None, count: int) -> Tensor | None:
    """The groups of rows as numbers, whatever labels they have."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise ValueError(f"expected a group for each of {count} samples, got {labels.shape}")
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])


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
