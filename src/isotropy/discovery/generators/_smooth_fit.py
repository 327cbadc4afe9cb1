"""A smooth function fitted to data twice over, so that the error of its gradients is known.

Two fits to separate halves of the rows have errors of their own: where they agree is the function,
where they differ is noise. A polynomial is taken where it does, else a network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from math import comb

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.confirming._free_predictor import (
    Task,
    held_out_rows,
    sample_losses,
)

Smooth = Callable[[Tensor], Tensor]

# a share of the variance left by a fit that is exact up to rounding
ROUNDING = 1e-12
# a network is not tried where a polynomial leaves less than this
_GOOD_ENOUGH = 2e-4
_JUDGES = 0.15
_DEGREES = (1, 2, 3, 4)
_MOST_TERMS = 5000
# rows for each term: fewer will do where there is no noise
_ROWS_PER_TERM = 1.1
_RIDGES = (1e-12, 1e-8, 1e-5, 1e-3, 1e-2, 1e-1)
# a function of the target is fitted instead only where that explains so much more
_MUCH_BETTER = 5.0
# a simpler fit that does nearly as well is kept
_BETTER = 1.05
_MEMBERS, _WIDTH, _STEPS, _BATCH, _RATE = 4, 128, 2000, 256, 3e-3
_CHECKED_EVERY, _FEWEST_STEPS = 50, 800
_CHUNK = 2**22


@dataclass(frozen=True, eq=False)
class SmoothFit:
    """A function of the inputs in two independent estimates.

    Args:
        kind: Of what family it is, in words.
        halves: The two estimates: inputs of shape ``(N, n)`` to predictions ``(N, m)``, in
            float64; differentiable.
        unexplained: The loss of their mean on rows that neither has seen, as a share of the
            constant's.
    """

    kind: str
    halves: tuple[Smooth, Smooth]
    unexplained: float

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear function of the inputs."""
        return self.kind == "a polynomial of degree 1"

    @property
    def is_exact(self) -> bool:
        """Whether it fits up to rounding, and both estimates are one."""
        return self.unexplained <= ROUNDING

    def __call__(self, x: Tensor) -> Tensor:
        """The mean of the two."""
        return (self.halves[0](x) + self.halves[1](x)) / 2

    def values_and_jacobians(self, x: Tensor) -> tuple[tuple[Tensor, Tensor], ...]:
        """For each estimate its values ``(N, m)`` and Jacobians ``(N, m, n)``."""
        return tuple(values_and_jacobian(half, x) for half in self.halves)


def values_and_jacobian(function: Smooth, x: Tensor) -> tuple[Tensor, Tensor]:
    """The values of a function at some points, and its Jacobians there.

    Args:
        function: ``(N, n)`` to ``(N, m)``, row by row.
        x: Shape ``(N, n)``.

    Example:
        >>> values_and_jacobian(lambda x: x.square(), torch.tensor([[3.0]]))
        (tensor([[9.]]), tensor([[[6.]]]))
    """
    values, rows = [], []
    for part in x.split(512):
        at = part.detach().requires_grad_()
        with torch.enable_grad():
            out = function(at)
            columns = [
                torch.autograd.grad(out[:, j].sum(), at, retain_graph=j + 1 < out.shape[1])[0]
                for j in range(out.shape[1])
            ]
        values.append(out.detach())
        rows.append(torch.stack(columns, 1))
    return torch.cat(values), torch.cat(rows)


def fit_smooth(
    x: Tensor,
    y: Tensor,
    task: Task = "regression",
    *,
    classes: int | None = None,
    groups: NDArray[np.int64] | None = None,
    thorough: bool = True,
    seed: int = 0,
) -> SmoothFit:
    """Fit polynomials up to degree four, also of the square, logarithm … of y, or a network.

    Args:
        x: Inputs of about unit size, shape ``(N, n)``.
        y: Targets, shape ``(N, m)``, or classes ``(N,)``.
        task: What the targets are.
        classes: How many classes there are.
        groups: Which rows belong together, and stay in one half.
        thorough: Whether to try a network also where the target seems to be linear: two more
            degrees explain no more than one does.
        seed: Of the halves and the network.

    Example:
        >>> x = torch.randn(300, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        >>> fit = fit_smooth(x, x.square().sum(1, keepdim=True).sqrt())
        >>> fit.kind, fit.is_exact
        ('a polynomial of degree 2 whose square root is y', True)
    """
    rng = make_generator(seed)
    x = x.double()
    seen, judges = held_out_rows(len(x), _JUDGES, groups, rng)
    inner = None if groups is None else groups[seen]
    first, second = held_out_rows(len(seen), 0.5, inner, rng)
    halves = [torch.as_tensor(seen[part]) for part in (first, second)]
    judge = torch.as_tensor(judges)
    width = y.shape[1] if y.ndim == 2 else max(int(y.max()) + 1, classes or 0)
    worst = _constant_loss(y[torch.as_tensor(seen)], y[judge], task, width)

    def unexplained(pair: tuple[Smooth, Smooth]) -> float:
        with torch.no_grad():
            mean = (pair[0](x[judge]) + pair[1](x[judge])) / 2
        loss = float(sample_losses(mean, y[judge], task).mean()) / worst
        return loss if np.isfinite(loss) else np.inf

    best: SmoothFit | None = None
    reached: list[float] = []  # by polynomials of y itself, degree by degree
    if task == "regression":
        y = y.double()
        for link in _links(y):
            for kind, pair in _polynomials(x, y, link, halves):
                fit = SmoothFit(kind, pair, unexplained(pair))
                if fit.is_exact:
                    return fit
                if pair[0] is pair[1]:
                    continue  # one fit to all rows tells nothing of its error
                if not link.words:
                    reached.append(fit.unexplained)
                factor = _MUCH_BETTER if link.words else _BETTER
                if best is None or fit.unexplained * factor < best.unexplained:
                    best = fit
    enough = best is not None and (
        best.unexplained <= _GOOD_ENOUGH or (not thorough and _levelled_off(reached))
    )
    if best is None or not enough:
        pair = _network(x, y, task, width, halves, rng)
        fit = SmoothFit("a network", pair, unexplained(pair))
        if best is None or fit.unexplained * _BETTER < best.unexplained:
            best = fit
    return best


def _levelled_off(reached: Sequence[float]) -> bool:
    """Whether the target is linear: the next two degrees explain no more."""
    first, *after = reached[:3] or [1.0]
    # far worse is no better a sign: tails that no polynomial fits
    return len(after) == 2 and first < 0.5 and 0.97 * first < min(after) <= max(after) < 1.3 * first


def _constant_loss(seen: Tensor, judged: Tensor, task: Task, width: int) -> float:
    if task == "classification":
        counts = torch.bincount(seen, minlength=width).double() + 0.5
        constant = (counts / counts.sum()).log()
    else:
        constant = seen.double().mean(0)
    return float(sample_losses(constant.expand(len(judged), -1), judged, task).mean()) + 1e-300


# --- polynomials --------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Link:
    """What of y is a polynomial, and y from it."""

    words: str
    of_y: Smooth
    to_y: Smooth


def _links(y: Tensor) -> Iterator[_Link]:
    yield _Link("", lambda y: y, lambda q: q)
    if y.shape[1] > 1:
        return  # a function of each output is not a function of the vector
    low, high = float(y.min()), float(y.max())
    if low >= 0:
        yield _Link(" whose square root is y", torch.square, lambda q: q.clamp_min(1e-12).sqrt())
    if low > 0 and high < 1e6 * low:
        yield _Link(" whose exponential is y", torch.log, lambda q: q.clamp_max(300.0).exp())
    if low * high > 0 and max(abs(low), abs(high)) < 1e6 * min(abs(low), abs(high)):
        sign = 1.0 if low > 0 else -1.0
        yield _Link(
            " whose inverse is y",
            torch.reciprocal,
            lambda q: sign / (sign * q).clamp_min(1e-9),
        )
    if high - low < 30:
        yield _Link(
            " whose logarithm is y",
            lambda y: (y - high).exp(),
            lambda q: q.clamp_min(1e-14).log() + high,
        )


class _Polynomial:
    """Σ_j c_j Π_i z_i^(a_ij), in chunks of rows."""

    def __init__(self, n: int, degree: int) -> None:
        # the constant is the input 0, so that all terms have as many factors
        self.factors = torch.tensor(
            list(combinations_with_replacement(range(n + 1), degree)), dtype=torch.long
        )

    def terms(self, z: Tensor) -> Tensor:
        padded = torch.cat([z.new_ones(len(z), 1), z], 1)
        product = padded[:, self.factors[:, 0]]
        for place in range(1, self.factors.shape[1]):
            product = product * padded[:, self.factors[:, place]]
        return product

    def with_weights(self, weights: Tensor, to_y: Smooth) -> Smooth:
        chunk = max(1, _CHUNK // len(self.factors))
        return lambda z: torch.cat(
            [to_y(self.terms(part.double()) @ weights) for part in z.split(chunk)]
        )


def _polynomials(
    x: Tensor, y: Tensor, link: _Link, halves: Sequence[Tensor]
) -> Iterator[tuple[str, tuple[Smooth, Smooth]]]:
    wanted = link.of_y(y)
    everything = torch.cat(list(halves))
    for degree in _DEGREES:
        count = comb(x.shape[1] + degree, degree)
        if count > _MOST_TERMS or count * _ROWS_PER_TERM > len(everything):
            return
        polynomial = _Polynomial(x.shape[1], degree)
        kind = f"a polynomial of degree {degree}{link.words}"
        if link.words and degree > 2 and count > 500:
            continue
        whole = _least_squares(polynomial.terms(x[everything]), wanted[everything], 1e-14)
        one = polynomial.with_weights(whole, link.to_y)
        yield kind, (one, one)
        if count * 2 * _ROWS_PER_TERM > len(everything):
            continue
        designs = [polynomial.terms(x[rows]) for rows in halves]
        ridge = _best_ridge(designs, [wanted[rows] for rows in halves])
        first, second = (
            polynomial.with_weights(_least_squares(design, wanted[rows], ridge), link.to_y)
            for design, rows in zip(designs, halves, strict=True)
        )
        yield kind, (first, second)


def _least_squares(design: Tensor, y: Tensor, ridge: float) -> Tensor:
    """Ridge regression by Cholesky, the residual solved for again until it no longer falls."""
    scale = design.square().mean(0).sqrt().clamp_min(1e-300)
    unit = design / scale
    gram = unit.mT @ unit / len(unit)
    gram.diagonal().add_(max(ridge, 1e-14))
    factor, failed = torch.linalg.cholesky_ex(gram)
    if failed:
        gram.diagonal().add_(1e-10)
        factor = torch.linalg.cholesky(gram)
    weights = torch.zeros(unit.shape[1], y.shape[1], dtype=torch.float64)
    for _ in range(4):
        left = (
            unit.mT @ (y - unit @ weights) / len(unit) - (ridge if ridge > 1e-13 else 0) * weights
        )
        weights = weights + torch.cholesky_solve(left, factor)
    return weights / scale.unsqueeze(1)


def _best_ridge(designs: Sequence[Tensor], wanted: Sequence[Tensor]) -> float:
    """The ridge with which each half predicts the other best."""

    def loss(ridge: float) -> float:
        return sum(
            float(
                (wanted[1 - i] - designs[1 - i] @ _least_squares(designs[i], wanted[i], ridge))
                .square()
                .mean()
            )
            for i in (0, 1)
        )

    return min(_RIDGES, key=loss)


# --- networks -----------------------------------------------------------------------------------


def _network(
    x: Tensor,
    y: Tensor,
    task: Task,
    width: int,
    halves: Sequence[Tensor],
    rng: torch.Generator,
) -> tuple[Smooth, Smooth]:
    """Networks of three hidden layers, several for each half, trained as one batch.

    Each is kept as it was when it did best on the other half.
    """
    classify = task == "classification"
    shift = torch.zeros(1, dtype=torch.float64) if classify else y.mean(0)
    unit: Tensor = torch.ones(1, dtype=torch.float64) if classify else y.std(0).clamp_min(1e-300)
    targets = y if classify else ((y - shift) / unit).float()
    inputs = x.float()
    sizes = [x.shape[1], _WIDTH, _WIDTH, _WIDTH, width]
    parameters: list[Tensor] = []
    for a, b in pairwise(sizes):
        parameters.append((torch.randn(_MEMBERS, a, b, generator=rng) / a**0.5).requires_grad_())
        parameters.append(torch.zeros(_MEMBERS, 1, b).requires_grad_())
    own = [halves[k % 2] for k in range(_MEMBERS)]
    other = [halves[(k + 1) % 2] for k in range(_MEMBERS)]
    shortest = min(map(len, other))
    checks = torch.stack(
        [rows[torch.randperm(len(rows), generator=rng)[:shortest]][:2000] for rows in other]
    )

    def losses(rows: Tensor, at: Sequence[Tensor]) -> Tensor:
        out = _forward(inputs[rows], at)
        if classify:
            entropies: Tensor = (
                functional.cross_entropy(
                    out.flatten(0, 1), targets[rows].flatten(), reduction="none"
                )
                .unflatten(0, rows.shape)
                .mean(1)
            )
            return entropies
        return (out - targets[rows]).square().mean((1, 2))

    solver = torch.optim.AdamW(parameters, lr=_RATE, weight_decay=1e-4)
    steps = min(_STEPS, max(_FEWEST_STEPS, 5 * min(map(len, own))))
    schedule = torch.optim.lr_scheduler.OneCycleLR(solver, _RATE, total_steps=steps, pct_start=0.1)
    best = torch.full((_MEMBERS,), torch.inf)
    kept = [p.detach().clone() for p in parameters]
    batch = min(_BATCH, *map(len, own))
    for step in range(1, steps + 1):
        rows = torch.stack(
            [mine[torch.randint(len(mine), (batch,), generator=rng)] for mine in own]
        )
        solver.zero_grad()
        losses(rows, parameters).sum().backward()
        solver.step()
        schedule.step()
        if step % _CHECKED_EVERY == 0:
            with torch.no_grad():
                reached = losses(checks, parameters)
            better = reached < best
            best = torch.where(better, reached, best)
            for saved, now in zip(kept, parameters, strict=True):
                saved[better] = now.detach()[better]

    def half(which: int) -> Smooth:
        mine = [p[which::2] for p in kept]

        def predict(z: Tensor) -> Tensor:
            out = _forward(z.float().expand(_MEMBERS // 2, *z.shape), mine)
            mean: Tensor = out.double().mean(0) * unit + shift
            return mean

        return predict

    return half(0), half(1)


def _forward(x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    for at in range(0, len(parameters) - 2, 2):
        x = functional.silu(torch.baddbmm(parameters[at + 1], x, parameters[at]))
    return torch.baddbmm(parameters[-1], x, parameters[-2])
