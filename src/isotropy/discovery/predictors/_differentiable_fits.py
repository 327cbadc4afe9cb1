"""Functions that are differentiable, fitted to rows.

Polynomials up to degree four, of the target itself and of simple functions of it.

Networks of three hidden layers, several for each half of the rows, and kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, pairwise
from math import comb

import torch
from torch import Tensor
from torch.nn import functional

from isotropy.discovery.predictors._free_predictor import Task
from isotropy.discovery.predictors._kernel_predictor import choose_kernel, fit_kernel
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds

Smooth = Callable[[Tensor], Tensor]

_CHUNK = 2**22  # numbers of rows times terms in memory
# of targets: beyond these, double precision keeps little of their inverses or exponentials
_RATIO, _DIFFERENCE = 1e6, 30.0


@dataclass(frozen=True)
class Link:
    """What of y is a polynomial, and y from it.

    Args:
        words: How y comes from the polynomial; empty for y itself.
        of_y: From y to what is fitted.
        to_y: Back.
    """

    words: str
    of_y: Smooth
    to_y: Smooth


def links(y: Tensor) -> Iterator[Link]:
    """What of a target may be a polynomial: itself, its square, logarithm, inverse, exponential."""
    yield Link("", lambda y: y, lambda q: q)
    if y.shape[1] > 1:
        return  # a function of each output is not a function of the vector
    low, high = float(y.min()), float(y.max())
    if low >= 0:
        yield Link(" whose square root is y", torch.square, lambda q: q.clamp_min(1e-12).sqrt())
    if low > 0 and high < _RATIO * low:
        yield Link(" whose exponential is y", torch.log, lambda q: q.clamp_max(300.0).exp())
    if low * high > 0 and max(abs(low), abs(high)) < _RATIO * min(abs(low), abs(high)):
        sign = 1.0 if low > 0 else -1.0
        yield Link(
            " whose inverse is y", torch.reciprocal, lambda q: sign / (sign * q).clamp_min(1e-9)
        )
    if high - low < _DIFFERENCE:
        yield Link(
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


def polynomials(
    x: Tensor, y: Tensor, link: Link, halves: Sequence[Tensor]
) -> Iterator[tuple[str, tuple[Smooth, Smooth]]]:
    """Fits of rising degree, first to all rows, then to each half by itself.

    Yields:
        The kind in words, and a pair of fits: twice the same to all rows, which will do where it
        is exact, or one to each half.
    """
    limits, wanted = PredictorThresholds.now(), link.of_y(y)
    everything = torch.cat(list(halves))
    for degree in limits.polynomial_degrees:
        count = comb(x.shape[1] + degree, degree)
        if count > limits.polynomial_terms or count * limits.polynomial_rows_per_term > len(
            everything
        ):
            return
        polynomial = _Polynomial(x.shape[1], degree)
        kind = f"a polynomial of degree {degree}{link.words}"
        if link.words and degree > 2 and count > limits.transformed_terms:
            continue
        whole = _least_squares(polynomial.terms(x[everything]), wanted[everything], 1e-14)
        one = polynomial.with_weights(whole, link.to_y)
        yield kind, (one, one)
        if count * 2 * limits.polynomial_rows_per_term > len(everything):
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

    return min(PredictorThresholds.now().polynomial_ridges, key=loss)


def kernel_pair(
    x: Tensor, y: Tensor, task: Task, width: int, halves: Sequence[Tensor], channels: int = 1
) -> tuple[Smooth, Smooth]:
    """One kernel, chosen on all rows, fitted to each half.

    Args:
        x: Inputs, shape ``(N, n)``.
        y: Targets, shape ``(N, m)``, or classes ``(N,)``.
        task: What the targets are.
        width: The number of outputs.
        halves: Rows of each half.
        channels: Columns at each position of the input.
    """
    classify = task == "classification"
    values = functional.one_hot(y, width).double() if classify else y.double()
    rows = torch.cat(list(halves))
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    unit = (x[rows] - x[rows].mean(0)) / x[rows].std(0).clamp_min(1e-12)
    choice = choose_kernel(unit, values[rows] - values[rows].mean(0), channels)
    classes = width if classify else None
    first, second = (
        fit_kernel(x[half], y[half], choice, channels=channels, classes=classes) for half in halves
    )
    return first, second


def network_pair(
    x: Tensor, y: Tensor, task: Task, width: int, halves: Sequence[Tensor], rng: torch.Generator
) -> tuple[Smooth, Smooth]:
    """Networks of three hidden layers, several for each half, trained as one batch.

    Each is kept as it was when it did best on the other half.

    Args:
        x: Inputs of about unit size, shape ``(N, n)``.
        y: Targets, shape ``(N, m)``, or classes ``(N,)``.
        task: What the targets are.
        width: The number of outputs.
        halves: Rows of each half.
        rng: Of weights and batches.
    """
    limits, classify = PredictorThresholds.now(), task == "classification"
    members, units = limits.smooth_members, limits.network_units
    shift = torch.zeros(1, dtype=torch.float64) if classify else y.mean(0)
    unit: Tensor = torch.ones(1, dtype=torch.float64) if classify else y.std(0).clamp_min(1e-300)
    targets = y if classify else ((y - shift) / unit).float()
    inputs = x.float()
    sizes = [x.shape[1], units, units, units, width]
    parameters: list[Tensor] = []
    for a, b in pairwise(sizes):
        parameters.append((torch.randn(members, a, b, generator=rng) / a**0.5).requires_grad_())
        parameters.append(torch.zeros(members, 1, b).requires_grad_())
    own = [halves[k % 2] for k in range(members)]
    other = [halves[(k + 1) % 2] for k in range(members)]
    shortest = min(map(len, other))
    checks = torch.stack(
        [
            rows[torch.randperm(len(rows), generator=rng)[:shortest]][: limits.smooth_checked_rows]
            for rows in other
        ]
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

    rate, by_rows = limits.network_rate, limits.smooth_steps_per_row * min(map(len, own))
    solver = torch.optim.AdamW(parameters, lr=rate, weight_decay=limits.smooth_decay)
    steps = min(limits.smooth_steps, max(limits.smooth_fewest_steps, by_rows))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        solver, rate, total_steps=steps, pct_start=limits.smooth_warm_up
    )
    best = torch.full((members,), torch.inf)
    kept = [p.detach().clone() for p in parameters]
    batch = min(limits.network_batch, *map(len, own))
    for step in range(1, steps + 1):
        rows = torch.stack(
            [mine[torch.randint(len(mine), (batch,), generator=rng)] for mine in own]
        )
        solver.zero_grad()
        losses(rows, parameters).sum().backward()
        solver.step()
        schedule.step()
        if step % limits.smooth_checked_every == 0:
            with torch.no_grad():
                reached = losses(checks, parameters)
            better = reached < best
            best = torch.where(better, reached, best)
            for saved, now in zip(kept, parameters, strict=True):
                saved[better] = now.detach()[better]

    def half(which: int) -> Smooth:
        mine = [p[which::2] for p in kept]

        def predict(z: Tensor) -> Tensor:
            out = _forward(z.float().expand(members // 2, *z.shape), mine)
            mean: Tensor = out.double().mean(0) * unit + shift
            return mean

        return predict

    return half(0), half(1)


def _forward(x: Tensor, parameters: Sequence[Tensor]) -> Tensor:
    for at in range(0, len(parameters) - 2, 2):
        x = functional.silu(torch.baddbmm(parameters[at + 1], x, parameters[at]))
    return torch.baddbmm(parameters[-1], x, parameters[-2])
