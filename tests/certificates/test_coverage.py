"""A thousand certificates on tasks of known risk: bounds fail no more often than δ.

Each certificate is for the hypothesis whose bound is smallest, so that the choice overfits as
hard as it can; a failure is a bound below the exact risk of the hypothesis chosen.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from math import exp, log

import numpy as np
import pytest
from scipy.stats import binom

from isotropy.certificates import smallest_bound

Bounding = Callable[[int, int, float, float], float]
CERTIFICATES, DELTA, N = 1000, 0.05, 300
# failures that a bound which fails with probability δ stays within, but once in ten thousand
ALLOWED = int(binom.isf(1e-4, CERTIFICATES, DELTA))


def smallest(errors: int, n: int, bits: float, delta: float) -> float:
    return smallest_bound(errors, n, bits, delta).value


def of_kind(kind: str, errors: int, n: int, bits: float, delta: float) -> float:
    return smallest_bound(errors, n, bits, delta, kinds=kind).value


KINDS = ("binomial_tail", "kl_inverse", "catoni", "finite_hypothesis", "mcallester")
BOUNDS: dict[str, Bounding] = {kind: partial(of_kind, kind) for kind in KINDS}
BOUNDS["smallest"] = smallest


def fewer_bits(errors: int, n: int, bits: float, delta: float, *, free: float) -> float:
    return of_kind("binomial_tail", errors, n, max(bits - free, 0.0), delta)


def printed_catoni(errors: int, n: int, bits: float, delta: float) -> float:
    """Theorem A.3 with Φ⁻¹ as the thesis prints it."""
    complexity = bits * log(2) - log(delta)
    values = []
    for scale in np.geomspace(1, 20 * n, 100):
        x = errors / n + 1.05 / scale * (complexity + 2 * log(log(1.05**2 * scale) / log(1.05)))
        values.append((1 - exp(min(scale / n * x, 700))) / (1 - exp(scale / n)))
    return min(*values, 1.0)


BROKEN: dict[str, Bounding] = {
    "no-bits": partial(fewer_bits, free=1e9),
    "printed": printed_catoni,
}


def elias_gamma_bits(index: int) -> int:
    """The length of a positive integer in a prefix-free code."""
    return 2 * index.bit_length() - 1


@cache
def single_features() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Classifiers that repeat one of many features, each feature the label with noise 0.4.

    Given the label, features are independent, so each is wrong Bin(n, 0.4) times independently
    of the others: all that a union bound allows happens, and one of many looks good by chance.
    """
    bits = np.array([elias_gamma_bits(1 + b) for b in range(2**10 - 1)])
    risks = np.full((CERTIFICATES, len(bits)), 0.4)
    return bits, np.random.default_rng(0).binomial(N, risks), risks


@cache
def lookup_tables() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Tables fitted to noisy labels of 64 points, on cells of 1, 2, 4, … 64 points.

    The depth is sent in unary, then a bit for each cell; a cell says what most of its samples
    say. The true label is that of the half of the points, turned over with probability 0.4.
    """
    random = np.random.default_rng(1)
    points, noise = 64, 0.4
    x = random.integers(points, size=(CERTIFICATES, N))
    y = (x >= points // 2) ^ (random.random(x.shape) < noise)
    rows = np.arange(CERTIFICATES)[:, None]
    counts = np.zeros((CERTIFICATES, points, 2), dtype=int)
    np.add.at(counts, (rows, x, y.astype(int)), 1)
    chance = np.where(np.arange(points) >= points // 2, 1 - noise, noise)  # of label 1
    bits, errors, risks = [], [], []
    for depth in range(7):
        cells = counts.reshape(CERTIFICATES, 2**depth, -1, 2).sum(2)
        says = cells[..., 1] > cells[..., 0]
        bits.append(depth + 1 + 2**depth)
        errors.append(cells.min(-1).sum(1))
        of_one = chance.reshape(2**depth, -1).mean(1)
        risks.append(np.where(says, 1 - of_one, of_one).mean(1))
    return np.array(bits), np.stack(errors, 1), np.stack(risks, 1)


TASKS = {"single-features": single_features, "lookup-tables": lookup_tables}


def failures(bound: Bounding, bits: np.ndarray, errors: np.ndarray, risks: np.ndarray) -> int:
    """How many of the certificates, each for the smallest bound, lie below the risk."""
    values = np.empty(errors.shape)
    for length in np.unique(bits):
        columns = bits == length
        seen, place = np.unique(errors[:, columns], return_inverse=True)
        table = np.array([bound(int(count), N, float(length), DELTA) for count in seen])
        values[:, columns] = table[place].reshape(len(errors), -1)
    # among equal bounds the hypothesis of larger risk
    chosen = np.lexsort((-risks, values), axis=1)[:, :1]
    below = np.take_along_axis(values, chosen, 1) < np.take_along_axis(risks, chosen, 1)
    return int(below.sum())


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("kind", list(BOUNDS))
def test_bounds_fail_no_more_often_than_they_may(kind: str, task: str) -> None:
    assert failures(BOUNDS[kind], *TASKS[task]()) <= ALLOWED


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("kind", list(BROKEN))
def test_broken_bounds_are_noticed(kind: str, task: str) -> None:
    assert failures(BROKEN[kind], *TASKS[task]()) > 2 * ALLOWED


def test_two_bits_too_few_are_noticed() -> None:
    """The union bound over single features is nearly tight, so the test has teeth."""
    bits, errors, risks = single_features()
    assert failures(partial(fewer_bits, free=2), bits, errors, risks) > ALLOWED


def test_every_kind_is_covered() -> None:
    assert tuple(smallest_bound(1, 9, 1, 0.1).values) == KINDS


def test_the_codes_are_prefix_free() -> None:
    features, tables = single_features()[0], lookup_tables()[0]
    assert (2.0**-features).sum() <= 1
    assert sum(2.0 ** (2**depth - length) for depth, length in enumerate(tables)) <= 1
