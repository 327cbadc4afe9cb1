"""Polynomials up to degree four, of the target itself and of simple functions of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import comb

import torch
from torch import Tensor

Smooth = Callable[[Tensor], Tensor]

_DEGREES = (1, 2, 3, 4)
_MOST_TERMS = 5000
# rows for each term: fewer will do where there is no noise
_ROWS_PER_TERM = 1.1
_RIDGES = (1e-12, 1e-8, 1e-5, 1e-3, 1e-2, 1e-1)
_CHUNK = 2**22


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
    if low > 0 and high < 1e6 * low:
        yield Link(" whose exponential is y", torch.log, lambda q: q.clamp_max(300.0).exp())
    if low * high > 0 and max(abs(low), abs(high)) < 1e6 * min(abs(low), abs(high)):
        sign = 1.0 if low > 0 else -1.0
        yield Link(
            " whose inverse is y", torch.reciprocal, lambda q: sign / (sign * q).clamp_min(1e-9)
        )
    if high - low < 30:
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
