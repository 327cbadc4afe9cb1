"""Shared means: Claims 1 and 2 of Yeh et al. against simulation; where the printed one fails."""

from __future__ import annotations

from itertools import product
from math import exp, log, sqrt
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chi2, norm

from isotropy_papers.shared_mean_theory import (
    mse_gap_bound,
    shared_mean_mse,
    sharing_threshold,
    suggest_split,
)

Array = NDArray[np.float64]
CALLS: list[tuple[Any, dict[str, Any]]] = [
    (shared_mean_mse, {"labels": [0, 1], "theta": [0.0, 1.0], "samples": 3}),
    (mse_gap_bound, {"ratio": 0.3, "samples": 100, "rank": 2, "alpha": 0.05}),
    (sharing_threshold, {"ratio": 0.3, "alpha": 0.05}),
    (suggest_split, {"samples": 100}),
]


def schemes(k: int) -> list[tuple[int, ...]]:
    every = product(range(k), repeat=k)
    return [a for a in every if all(a[i] <= max(a[:i], default=-1) + 1 for i in range(k))]


def averaging(labels: tuple[int, ...]) -> Array:
    """The projection onto vectors that are constant on blocks, as A (AᵀA)⁻¹ Aᵀ."""
    a = np.eye(max(labels) + 1)[list(labels)]
    return a @ np.linalg.inv(a.T @ a) @ a.T


def gaps(theta: Array, train: int, validation: int, draws: int, rng: Any, sigma: float) -> Array:
    """Draws of the gap of Eq. 14, the scheme chosen by Eq. 13 among all of them."""
    k, n = len(theta), train + validation
    found = schemes(k)
    ranks = np.array([max(a) + 1 for a in found])
    fits = np.stack([averaging(a) @ theta for a in found])
    mean = theta + sigma / sqrt(validation) * rng.normal(size=(draws, k))
    criterion = ((fits - mean[:, None]) ** 2).sum(-1) + ranks * sigma**2 / train
    errors = np.array([shared_mean_mse(a, theta, samples=n, sigma=sigma) for a in found])
    truth = len(set(theta.tolist())) * sigma**2 / n
    return errors[criterion.argmin(1)] - truth


# --- Claim 1 ------------------------------------------------------------------------------------


def test_claim_1_by_expectation() -> None:
    # E‖Py − θ‖² = ‖Pθ − θ‖² + tr(P Cov Pᵀ), with no mention of ranks or blocks
    rng = np.random.default_rng(0)
    for labels in schemes(4):
        theta, p = rng.normal(size=4), averaging(labels)
        exact = np.sum((p @ theta - theta) ** 2) + np.trace(p @ (0.49 / 7 * np.eye(4)) @ p.T)
        assert shared_mean_mse(labels, theta, samples=7, sigma=0.7) == pytest.approx(exact)


def test_claim_1_by_simulation() -> None:
    rng = np.random.default_rng(0)
    theta, labels = np.array([1.0, 1.2, 3.0, 1.0]), (0, 0, 1, 0)
    data = theta + 0.5 * rng.normal(size=(20000, 5, 4))
    estimates = data.mean(1) @ averaging(labels).T
    errors = ((estimates - theta) ** 2).sum(1)
    standard_error = errors.std() / sqrt(len(errors))
    found = shared_mean_mse(labels, theta, samples=5, sigma=0.5)
    assert abs(errors.mean() - found) < 4 * standard_error
    assert standard_error < 0.01 * found


def test_claim_1_takes_tensors_and_weight_matrices() -> None:
    labels = torch.tensor([[5, 5], [-1, 5]])
    theta = torch.tensor([[1.0, 2.0], [9.0, 3.0]], requires_grad=True)
    assert shared_mean_mse(labels, theta, samples=4) == pytest.approx(2 + 2 / 4)


# --- Claim 2 ------------------------------------------------------------------------------------


def test_the_printed_bound() -> None:
    r, n, k = np.array([[0.1, 0.5], [0.7, 0.9]]), 80, 3
    printed = 4.0 * ((1 - r) / (r * n) * (k - 1) - 40 * log(0.01) / ((1 - r) * n))
    np.testing.assert_allclose(mse_gap_bound(r, n, k, 0.01, sigma=2.0, dimensions=40), printed)
    assert mse_gap_bound(0.5, n, k, 0.01).shape == ()


def test_squares_break_equation_39() -> None:
    # with θ = 0, E θ̂ = 2 and a validation mean of 1: ‖2‖² − ‖1‖² = 3, but ‖1‖² = 1
    theta, fitted, mean = np.zeros(1), np.full(1, 2.0), np.ones(1)
    left = np.sum((fitted - theta) ** 2) - np.sum((fitted - mean) ** 2)
    assert left > np.sum((theta - mean) ** 2)


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_the_corrected_bound_holds(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    reached, worst, sigma, draws = 0.0, 0.0, 0.7, 1000
    found = schemes(dimensions)
    for _ in range(40):
        labels = found[rng.integers(len(found))]
        theta = (10 ** rng.uniform(-2, 1) * rng.normal(size=dimensions))[list(labels)]
        train, alpha = int(rng.integers(1, 60)), float(rng.uniform(0.02, 0.9))
        gap = gaps(theta, train, 60 - train, draws, rng, sigma)
        bound = mse_gap_bound(
            train / 60, 60, max(labels) + 1, alpha, sigma, dimensions, proof="corrected"
        )
        above = (gap > bound + 1e-12).mean()
        assert above <= alpha + 4 * sqrt(alpha * (1 - alpha) / draws)
        worst = max(worst, above)
        if bound > 0:
            reached = max(reached, gap.max() / float(bound))
    # it is not so loose that anything would pass
    assert reached > 0.5
    assert worst > 0


def test_the_corrected_bound_step_by_step() -> None:
    # ‖a‖² ≤ 2⟨a, Z⟩ + c is met with equality by a along Z of the largest length
    z, c, r = 1.3, 0.8, 0.25
    a = z + sqrt(z**2 + c)
    assert a**2 == pytest.approx(2 * a * z + c)
    # quantile z²(1 − r)n/σ² = q, c = (rk − 1)σ²/(rn): here n = 1, σ = 1, rank 2 gives c = 1/r
    c = 1 / r
    q = float(chi2.isf(0.1, 6))
    z = sqrt(q / (1 - r))
    expected = (z + sqrt(z**2 + c)) ** 2 - r * c
    found = mse_gap_bound(r, 1, 2, 0.1, dimensions=6, proof="corrected")
    assert float(found) == pytest.approx(expected)
    # the two-term form that Young's inequality gives is never below
    assert float(found) <= 4 * z**2 + (2 / r - 1) * 1 + 1e-12
    # and fewer blocks than the truth has are the worst case: the gap grows with c
    slacks = np.linspace(-(z**2), 5, 200)
    curve = (z + np.sqrt(z**2 + slacks)) ** 2 - r * slacks
    assert (np.diff(curve) > 0).all()


def failing_means(validation: int, alpha: float) -> tuple[Array, float]:
    """Two means for which merging them has a gap just above the printed bound; |T| = 1."""
    n = validation + 1
    bound = float(mse_gap_bound(1 / n, n, 2, alpha, dimensions=2))
    distance = sqrt(2 * (bound + 1 / n)) * (1 + 1e-9)  # merged, ‖a‖² is half its square
    return np.array([0.0, distance]), bound


def test_the_printed_bound_fails() -> None:
    validation, alpha = 3000, 0.05
    theta, bound = failing_means(validation, alpha)
    gap = gaps(theta, 1, validation, 20000, np.random.default_rng(0), 1.0)
    # merged where ‖a‖² ≤ 2⟨a, Z⟩ + c: a normal number above (‖a‖² − c)/(2‖a‖τ)
    squared = theta[1] ** 2 / 2
    exact = norm.sf((squared - 1) / (2 * sqrt(squared / validation)))
    assert exact == pytest.approx(0.142, abs=0.001)
    above = (gap > bound).mean()
    assert abs(above - exact) < 4 * sqrt(exact * (1 - exact) / len(gap))
    assert above > 2 * alpha
    corrected = mse_gap_bound(
        1 / (validation + 1), validation + 1, 2, alpha, dimensions=2, proof="corrected"
    )
    assert (gap <= corrected).all()


def test_rank_1_has_no_gap_and_no_harm() -> None:
    rng = np.random.default_rng(0)
    theta = np.full(4, 2.5)
    assert (gaps(theta, 3, 30, 500, rng, 1.0) == 0).all()
    assert float(mse_gap_bound(0.1, 33, 1, 0.05, dimensions=4, proof="corrected")) == 0
    # whatever the scheme and the data, shared estimates are no further from the truth
    data = theta + rng.normal(size=(200, 4))
    alone = ((data - theta) ** 2).sum(1)
    for labels in schemes(4):
        assert (((data @ averaging(labels).T - theta) ** 2).sum(1) <= alone + 1e-12).all()


# --- the threshold ------------------------------------------------------------------------------


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("alpha", [1e-6, 0.05, 0.6])
def test_the_printed_threshold_is_outside_its_own_condition(ratio: float, alpha: float) -> None:
    k = sharing_threshold(ratio, alpha)
    assert k is not None
    n = 1000

    def helps(k: int) -> bool:
        return 1 / n + float(mse_gap_bound(ratio, n, 1, alpha)) <= k / n

    assert helps(k)
    assert not helps(k - 1)
    # α < exp(−K/10) asks for fewer than −10 ln α dimensions, a quarter of what Eq. 19 asks for
    assert alpha > exp(-k / 10)
    with pytest.raises(ValueError, match=r"expected alpha below exp\(−K/10\)"):
        mse_gap_bound(ratio, n, 1, alpha, dimensions=k)
    # with the largest α that is allowed, or a smaller one, no K does
    for k in range(2, 500):
        assert 1 + float(mse_gap_bound(ratio, 1, 1, exp(-k / 10))) > k


@pytest.mark.parametrize("rank", [2, 3, 6])
@pytest.mark.parametrize("ratio", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("alpha", [0.01, 0.5, 0.999, 1 - 1e-9, 1 - 1e-14])
def test_the_corrected_threshold_by_search(rank: int, ratio: float, alpha: float) -> None:
    bounds = [
        float(mse_gap_bound(ratio, 1, rank, alpha, dimensions=k, proof="corrected"))
        for k in range(rank + 1, 400)
    ]
    enough = [k for k, bound in enumerate(bounds, rank + 1) if rank + bound <= k]
    assert sharing_threshold(ratio, alpha, rank, proof="corrected") == (enough or [None])[0]
    if alpha <= 0.5:
        assert not enough


def test_no_threshold_above_rank_1_at_any_useful_level() -> None:
    for ratio, alpha, rank in product(np.linspace(0.01, 0.99, 25), (0.6, 0.9, 0.99), (2, 3, 8, 40)):
        assert sharing_threshold(ratio, alpha, rank, proof="corrected") is None


def test_some_corrected_thresholds_exist() -> None:
    assert sharing_threshold(0.5, 0.05, proof="corrected") == 2
    found = sharing_threshold(0.5, 1 - 1e-9, rank=2, proof="corrected")
    assert found is not None
    assert found > 2


def test_close_means_make_learning_worse_than_no_sharing() -> None:
    rng = np.random.default_rng(0)
    for k in (2, 4):
        theta = np.repeat([0.0, 4 / sqrt(20)], k // 2)
        learned = gaps(theta, 80, 20, 2000, rng, 1.0).mean() + 2 / 100
        assert learned > 1.5 * k / 100


# --- the split ----------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", [2, 3, 17, 100, 1001])
@pytest.mark.parametrize("rank", [1, 2, 9, 300])
@pytest.mark.parametrize("alpha", [1e-9, 0.05, 0.9])
def test_the_split_is_the_best_of_all(samples: int, rank: int, alpha: float) -> None:
    train = np.arange(1, samples)
    bounds = mse_gap_bound(train / samples, samples, rank, alpha)
    chosen = suggest_split(samples, rank, alpha, floor=0)
    assert float(bounds[chosen - 1]) == pytest.approx(bounds.min(), rel=1e-12)


def test_the_closed_form_of_the_split() -> None:
    for rank in (2, 4, 50):
        share = sqrt(rank - 1) / (sqrt(rank - 1) + sqrt(-40 * log(0.05)))
        assert suggest_split(10**6, rank, floor=0) == pytest.approx(share * 10**6, abs=1)


def test_the_floor_of_the_split() -> None:
    assert suggest_split(100) == 20
    assert suggest_split(101) == 21
    assert suggest_split(100, floor=0.35) == 35
    assert suggest_split(100, rank=40) > suggest_split(100, rank=20) > 20
    assert suggest_split(2, floor=0.9) == suggest_split(2) == 1  # one for validation is left
    assert suggest_split(100, floor=0) == 1


def test_the_floor_is_better_than_what_the_bound_asks_for() -> None:
    # the scheme chosen on real training means, refitted on everything, at rank 4 of 5
    rng = np.random.default_rng(0)
    theta, n, draws = np.array([0.0, 1.0, 2.0, 3.0, 3.0]), 100, 2000
    averages = np.stack([averaging(a) for a in schemes(5)])

    def error(train: int) -> float:
        first = theta + rng.normal(size=(draws, 5)) / sqrt(train)
        second = theta + rng.normal(size=(draws, 5)) / sqrt(n - train)
        fits = np.einsum("sij,nj->nsi", averages, first)
        chosen = ((fits - second[:, None]) ** 2).sum(-1).argmin(1)
        everything = (train * first + (n - train) * second) / n
        fitted = np.einsum("nij,nj->ni", averages[chosen], everything)
        return float(((fitted - theta) ** 2).sum(1).mean())

    alone = suggest_split(n, 4, floor=0)
    floored = suggest_split(n, 4)
    assert (alone, floored) == (14, 20)
    best = min(error(train) for train in (10, 30, 50, 70))
    assert error(2) > 3 * best
    assert error(floored) < error(alone)
    assert error(floored) < 1.3 * best


# --- what goes in -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "wrong", "kind", "sentence"),
    [
        (0, {"labels": [0.5, 1]}, TypeError, r"expected integers as labels, got float64"),
        (0, {"theta": [1.0]}, ValueError, r"expected means of shape \(2,\), got \(1,\)"),
        (0, {"theta": [1.0, float("nan")]}, ValueError, r"expected finite means, got NaN or inf"),
        (0, {"samples": 0}, ValueError, r"expected samples of at least 1, got 0"),
        (0, {"sigma": -1.0}, ValueError, r"expected sigma of at least 0, got -1\.0"),
        (1, {"ratio": [0.5, 1.0]}, ValueError, r"expected ratios between 0 and 1, got \[0\.5, 1"),
        (1, {"ratio": float("nan")}, ValueError, r"expected ratios between 0 and 1, got nan"),
        (1, {"samples": 1.5}, TypeError, r"expected an integer as samples, got 1\.5"),
        (1, {"rank": True}, TypeError, r"expected an integer as rank, got True"),
        (1, {"rank": 0}, ValueError, r"expected rank of at least 1, got 0"),
        (1, {"rank": 3, "dimensions": 2}, ValueError, r"expected a rank of at most 2 dimensions"),
        (1, {"dimensions": 0}, ValueError, r"expected dimensions of at least 1, got 0"),
        (1, {"alpha": 1.0}, ValueError, r"expected alpha between 0 and 1, got 1\.0"),
        (1, {"sigma": float("inf")}, ValueError, r"expected sigma of at least 0, got inf"),
        (1, {"dimensions": 30}, ValueError, r"exp\(−K/10\) = 0\.0498 .* 30 dimensions, got 0\.05"),
        (1, {"proof": "corrected"}, ValueError, r"expected the number of dimensions .* got None"),
        (1, {"proof": "x"}, ValueError, r"expected the proof 'paper' or 'corrected', got 'x'"),
        (2, {"ratio": [0.1, 0.2]}, ValueError, r"expected one ratio, got shape \(2,\)"),
        (2, {"ratio": 0.0}, ValueError, r"expected ratios between 0 and 1, got 0\.0"),
        (2, {"alpha": 0.0}, ValueError, r"expected alpha between 0 and 1, got 0\.0"),
        (2, {"rank": 1.0}, TypeError, r"expected an integer as rank, got 1\.0"),
        (2, {"proof": "x"}, ValueError, r"expected the proof 'paper' or 'corrected', got 'x'"),
        (3, {"samples": 1}, ValueError, r"expected at least two samples to split, got 1"),
        (3, {"floor": 1.0}, ValueError, r"expected a floor in \[0, 1\), got 1\.0"),
        (3, {"alpha": 2.0}, ValueError, r"expected alpha between 0 and 1, got 2\.0"),
    ],
)
def test_bad_numbers(call: int, wrong: Any, kind: type[Exception], sentence: str) -> None:
    function, right = CALLS[call]
    with pytest.raises(kind, match=sentence):
        function(**{**right, **wrong})
