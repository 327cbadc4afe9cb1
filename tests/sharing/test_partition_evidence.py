"""The evidence of partitions against Gaussian densities, all partitions, and chance."""

from __future__ import annotations

from statistics import median

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammaln
from scipy.stats import multivariate_normal

from isotropy.equivariance import partition_distance
from isotropy.run import Step
from isotropy.sharing import LeastSquares, PartitionEvidence
from isotropy.sharing._partition_search import cluster_values
from isotropy_papers.sharing_tasks import cross_correlation, shared_means
from partitions import all_partitions, canonical_labels

Array = NDArray[np.float64]
Labels = NDArray[np.int64]


def evidence_of(
    x: Array | None, y: Array, noise: float | None = None, scale: float | None = None
) -> PartitionEvidence:
    inputs = None if x is None else torch.as_tensor(x)
    return PartitionEvidence(LeastSquares.of(inputs, torch.as_tensor(y)), noise, scale)


def values_evidence(values: Array, noise: float, scale: float) -> PartitionEvidence:
    """Values that were each measured once."""
    return evidence_of(None, values[None], noise, scale)


def density(
    x: Array, y: Array, labels: Labels, noise: float, mean: Array, scale: Array
) -> tuple[float, float]:
    """The log density of all targets with ψ integrated out, and with G = 0."""
    (rows, m), n = y.shape, x.shape[1]
    design = np.zeros((rows, m, labels.max() + 1))
    for i in range(m):
        for j in range(n):
            design[:, i, labels[i * n + j]] += x[:, j]
    flat = design.reshape(rows * m, -1)
    covariance = noise * np.eye(rows * m) + (flat * scale**2) @ flat.T
    given = multivariate_normal(flat @ mean, covariance).logpdf(y.ravel())
    return float(given), float(
        multivariate_normal(np.zeros(rows * m), noise * np.eye(rows * m)).logpdf(y.ravel())
    )


LINEAR = [[0, 0, 0, 0], [0, 1, 1, 0], [0, 1, 2, 3], [0, 0, 1, 2]]


@pytest.mark.parametrize("labels", LINEAR)
def test_likelihood_is_the_density_with_the_parameters_integrated_out(labels: list[int]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    blocks, k = np.array(labels), max(labels) + 1
    found = evidence_of(x, y, noise=0.4, scale=1.7)
    given, null = density(x, y, blocks, 0.4, np.zeros(k), np.full(k, 1.7))
    assert found.likelihood(blocks) == pytest.approx(given - null, abs=1e-9)


@pytest.mark.parametrize("labels", LINEAR)
@pytest.mark.parametrize("zeros", [(), (0,), (1, 3)], ids=["none", "first", "two"])
def test_likelihood_of_values_drawn_from_another_prior(
    labels: list[int], zeros: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
    blocks = np.array(labels)
    found = evidence_of(x, y, noise=0.4, scale=1.7)
    # entries that are zero are a block whose prior is narrow and at zero
    marked = blocks.copy()
    marked[list(zeros)] = -1
    dense = np.unique(np.where(marked < 0, 99, marked), return_inverse=True)[1]
    k = dense.max() + 1
    is_zero = np.array([(marked[dense == block] < 0).all() for block in range(k)])
    mean, width = np.where(is_zero, 0.0, 0.6), np.where(is_zero, 1e-7, 0.9)
    given, null = density(x, y, dense, 0.4, mean, width)
    assert found.drawn(marked, 0.6, 0.9) == pytest.approx(given - null, abs=1e-6)


def test_likelihood_of_means() -> None:
    y = np.random.default_rng(2).normal(size=(5, 3))
    found = evidence_of(None, y, noise=1.3, scale=0.8)
    for labels in all_partitions(3):
        k = labels.max() + 1
        given, null = density(np.ones((5, 1)), y, labels, 1.3, np.zeros(k), np.full(k, 0.8))
        assert found.likelihood(labels) == pytest.approx(given - null, abs=1e-9)


def test_score_adds_the_prior_of_the_chinese_restaurant() -> None:
    found = values_evidence(np.array([0.3, -1.0, 0.2, 2.0]), 1.0, 2.0)
    partitions = all_partitions(4)
    log_prior = []
    for labels in partitions:
        # customers sit down one by one, at a table as its size, at a new one as 1
        total = 0.0
        for i, label in enumerate(labels):
            total += np.log(max((labels[:i] == label).sum(), 1) / (i + 1))
        log_prior.append(total)
    assert np.exp(log_prior).sum() == pytest.approx(1.0)
    rest = [
        found.score(labels) - found.likelihood(labels) - prior
        for labels, prior in zip(partitions, log_prior, strict=True)
    ]
    np.testing.assert_allclose(rest, gammaln(5), atol=1e-9)


def test_labels_may_have_gaps_and_the_shape_of_the_map() -> None:
    rng = np.random.default_rng(3)
    found = evidence_of(rng.normal(size=(9, 2)), rng.normal(size=(9, 2)))
    tight, loose = np.array([0, 1, 1, 0]), np.array([[3, 1], [1, 3]])
    for quantity in (found.likelihood, found.score):
        assert quantity(loose) == pytest.approx(quantity(tight), abs=1e-9)


def test_estimate_is_the_fit_that_shares() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(9, 2)), rng.normal(size=(9, 2))
    labels = np.array([0, 1, 1, 0])
    # y = ψ₀ x + ψ₁ (x with its entries exchanged)
    stacked = np.column_stack([x.ravel(), x[:, ::-1].ravel()])
    psi = np.linalg.lstsq(stacked, y.ravel(), rcond=None)[0]
    np.testing.assert_allclose(evidence_of(x, y).estimate(labels), psi[labels], atol=1e-10)


@given(st.integers(0, 2**31), st.integers(2, 7), st.sampled_from([0.03, 0.3, 1.0]))
@settings(max_examples=20, deadline=None)
def test_runs_of_sorted_values_are_the_best_of_all_partitions(
    seed: int, size: int, noise: float
) -> None:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=size)[rng.integers(size, size=size)] + noise * rng.normal(size=size)
    found = values_evidence(values, noise**2, 1.0)
    labels = cluster_values(values, np.full(size, noise**2), 1.0)
    best = max(found.score(partition) for partition in all_partitions(size))
    assert found.score(labels) == pytest.approx(best, abs=1e-9)
    assert found.best().tolist() == labels.tolist()


def correlated(rng: np.random.Generator, rows: int, n: int, correlation: float) -> Array:
    covariance = np.full((n, n), correlation) + (1 - correlation) * np.eye(n)
    return rng.normal(size=(rows, n)) @ np.linalg.cholesky(covariance).T


@pytest.mark.parametrize(
    ("shape", "correlation", "at_least"),
    [((2, 3), 0.5, 20), ((2, 3), 0.95, 18), ((1, 6), 0.9, 19), ((3, 2), 0.99, 17)],
)
def test_the_search_finds_the_best_of_all_partitions(
    shape: tuple[int, int], correlation: float, at_least: int
) -> None:
    """Of 20 maps each; without kicks 20, 16, 19 and 14 of them."""
    (m, n), rng, reached = shape, np.random.default_rng(1), 0
    for _ in range(20):
        x = correlated(rng, 20, n, correlation)
        labels = rng.integers(rng.integers(1, m * n + 1), size=m * n)
        g = rng.normal(size=m * n)[labels].reshape(m, n)
        found = evidence_of(x, x @ g.T + rng.normal(size=(20, m)))
        best = max(found.score(partition) for partition in all_partitions(m * n))
        reached += found.score(found.best()) > best - 1e-8
    assert reached >= at_least


def test_the_search_is_no_worse_than_the_truth_where_no_one_can_list_partitions() -> None:
    rng = np.random.default_rng(5)
    x = correlated(rng, 80, 12, 0.9)
    labels = canonical_labels(rng.integers(4, size=36))
    y = x @ np.array([-2.0, 0.0, 1.0, 3.0])[labels].reshape(3, 12).T + 0.3 * rng.normal(
        size=(80, 3)
    )
    found = evidence_of(x, y)
    assert found.score(found.best()) >= found.score(labels) - 1e-9


def without_the_prior(values: Array, variance: float, scale: float) -> int:
    """How many blocks the best runs have by the likelihood alone."""
    ordered = np.sort(values)
    best = [(0.0, 0)]
    for end in range(1, len(ordered) + 1):
        options = []
        for start in range(end):
            run = ordered[start:end]
            gain = 1 + len(run) * scale**2 / variance
            fit = run.sum() ** 2 * scale**2 / (2 * variance**2 * gain)
            value, blocks = best[start]
            options.append((value + fit - 0.5 * np.log(gain), blocks + 1))
        best.append(max(options))
    return best[-1][1]


def test_equal_means_stay_together_and_the_prior_over_partitions_is_why() -> None:
    together, split = 0, []
    for seed in range(10):
        found = evidence_of(None, shared_means(100, seed=seed).y.numpy())
        together += found.best().max() == 0
        assert found.scale is not None
        split.append(without_the_prior(found.fitted, float(found.variance[0]), found.scale))
    assert together >= 9
    assert min(split) >= 2


@pytest.mark.parametrize("size", [30, 50, 100])
def test_equal_means_of_many_dimensions(size: int) -> None:
    distances = []
    for seed in range(10):
        task = shared_means(size, seed=seed)
        distances.append(partition_distance(evidence_of(None, task.y.numpy()).best(), task.labels))
    assert np.mean(distances) <= 0.1 * size
    assert median(distances) == 0


@pytest.mark.parametrize("inputs", [7, 10, 17])
def test_cross_correlation_is_recovered_exactly(inputs: int) -> None:
    """35, 80 and 255 weights."""
    distances = []
    for seed in range(5):
        task = cross_correlation(inputs, seed=seed)
        assert task.x is not None
        labels = evidence_of(task.x.numpy(), task.y.numpy()).best()
        distances.append(partition_distance(labels.reshape(task.labels.shape), task.labels))
    assert median(distances) == 0


def test_permuted_outputs_have_permuted_labels() -> None:
    task = cross_correlation(8, noise=1.0, seed=0)
    assert task.x is not None
    x, y = task.x.numpy(), task.y.numpy()
    order = np.random.default_rng(0).permutation(y.shape[1])
    plain = evidence_of(x, y).best().reshape(task.labels.shape)
    permuted = evidence_of(x, y[:, order]).best()
    assert permuted.tolist() == canonical_labels(plain[order].ravel()).tolist()


@pytest.mark.parametrize("factor", [1e-6, -3e5])
def test_units_do_not_matter(factor: float) -> None:
    rng = np.random.default_rng(6)
    x = correlated(rng, 40, 3, 0.8)
    g = np.array([[1.0, 2, 1], [2, 1, 0]])
    y = x @ g.T + rng.normal(size=(40, 2))
    plain = evidence_of(x, y)
    for scaled in (evidence_of(x, factor * y), evidence_of(factor * x, y)):
        assert scaled.score(plain.best()) == pytest.approx(plain.score(plain.best()), rel=1e-9)
        assert scaled.best().tolist() == plain.best().tolist()


def test_data_without_noise() -> None:
    task = cross_correlation(9, noise=0.0, seed=0)
    assert task.x is not None
    labels = evidence_of(task.x.numpy(), task.y.numpy()).best()
    assert partition_distance(labels.reshape(task.labels.shape), task.labels) == 0


def test_float32_is_as_good() -> None:
    task = cross_correlation(7, seed=0)
    assert task.x is not None
    problem = LeastSquares.of(task.x.float(), task.y.float())
    labels = PartitionEvidence(problem).best().reshape(task.labels.shape)
    assert partition_distance(labels, task.labels) == 0


def test_an_input_that_is_always_zero_tells_nothing() -> None:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(50, 3))
    y = x @ np.array([2.0, 2.0, -1.0]) + 0.1 * rng.normal(size=50)
    wider = np.column_stack([x, np.zeros(50)])
    found = evidence_of(wider, y[:, None])
    assert np.isinf(found.variance[3])
    # the three that are known, as without it; the other where the prior is highest
    assert found.best().tolist() == [0, 0, 1, 0]


def surprise(evidence: PartitionEvidence, labels: np.ndarray) -> float:
    """The log Bayes factor against entries all different, less the log number of such partitions.

    Where entries really are independent draws of the prior, the probability that any partition of
    these block sizes reaches s is at most exp(−s).
    """
    sizes = np.bincount(labels)
    sizes = sizes[sizes > 0]
    ways = gammaln(evidence.size + 1) - gammaln(sizes + 1).sum()
    ways -= gammaln(np.unique(sizes, return_counts=True)[1] + 1).sum()
    apart = np.arange(evidence.size)
    return evidence.likelihood(labels) - evidence.likelihood(apart) - float(ways)


def test_chance_coincidences_are_as_rare_as_surprise_says() -> None:
    rng, draws = np.random.default_rng(8), 200
    pairs = [labels for labels in all_partitions(6) if labels.max() == 4]
    surprises, plain = [], []
    for _ in range(draws):
        found = values_evidence(10 * rng.normal(size=6) + rng.normal(size=6), 1.0, 10.0)
        apart = found.likelihood(np.arange(6))
        plain.append(max(found.likelihood(labels) for labels in pairs) - apart)
        surprises.append(max(surprise(found, labels) for labels in pairs))
    for nats in (0.25, 0.5, 1.0, 2.0):
        bound = np.exp(-nats)
        slack = 3 * np.sqrt(bound * (1 - bound) / draws)
        assert np.mean(np.array(surprises) >= nats) <= bound + slack
    # the Bayes factor alone, of the best of many partitions, keeps no such promise
    assert np.mean(np.array(plain) >= 1.0) > np.exp(-1.0) + 0.1


def test_shared_values_are_surprising() -> None:
    values = np.array([20.0, 0, 20, 0, 20, 0]) + np.random.default_rng(0).normal(size=6)
    assert surprise(values_evidence(values, 1.0, 10.0), np.array([0, 1, 0, 1, 0, 1])) > 3


def test_surprise_counts_the_partitions_of_the_same_sizes() -> None:
    everything = np.array(all_partitions(5))
    counts = np.sort((everything[:, :, None] == np.arange(5)).sum(1), 1)
    found = values_evidence(np.array([0.1, 2.0, -1.0, 0.3, 0.9]), 0.5, 1.0)
    apart = found.likelihood(np.arange(5))
    for labels, sizes in zip(everything, counts, strict=True):
        ways = (counts == sizes).all(1).sum()
        expected = found.likelihood(labels) - apart - np.log(ways)
        assert surprise(found, labels) == pytest.approx(expected, abs=1e-9)


def test_an_interrupted_search_keeps_its_best() -> None:
    rng = np.random.default_rng(4)
    x = correlated(rng, 60, 10, 0.9)
    g = rng.normal(size=4)[rng.integers(4, size=30)].reshape(3, 10)
    found = evidence_of(x, x @ g.T + rng.normal(size=(60, 3)))
    scores = []
    for stop in (1, 2, 5):

        def interrupt(step: Step, stop: int = stop) -> None:
            if step.done == stop:
                raise KeyboardInterrupt

        labels, interrupted = found.search(interrupt)
        assert interrupted
        scores.append(found.score(labels))
    labels, interrupted = found.search()
    assert not interrupted
    scores.append(found.score(labels))
    start = cluster_values(found.fitted, found.variance, found.scale or 0.0)
    assert scores[0] == pytest.approx(found.score(start))
    assert scores[1] > scores[0] + 1
    assert scores == sorted(scores)


def test_bad_input() -> None:
    problem = LeastSquares.of(None, torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    for name in ("noise", "scale"):
        with pytest.raises(ValueError, match=rf"expected a {name} that is positive and finite"):
            PartitionEvidence(problem, **{name: 0.0})
    with pytest.raises(ValueError, match=r"expected one problem, got a batch .* \(3,\)"):
        PartitionEvidence(LeastSquares.of(None, torch.zeros(3, 5, 2)))
    with pytest.raises(ValueError, match=r"expected more rows than the 2 inputs.*got 2"):
        PartitionEvidence(LeastSquares.of(torch.eye(2), torch.eye(2)))
    with pytest.raises(ValueError, match=r"expected inputs that vary, got zero in every row"):
        PartitionEvidence(LeastSquares.of(torch.zeros(5, 2), torch.ones(5, 2)))
    found = PartitionEvidence(problem)
    with pytest.raises(ValueError, match=r"expected a label, 0 or more, .* 2 entries, got 3"):
        found.score(np.array([0, 0, 1]))
    with pytest.raises(ValueError, match=r"expected a label, 0 or more, .* got 2 from -1"):
        found.likelihood(np.array([0, -1]))
    with pytest.raises(TypeError, match=r"expected integers as labels, got float64"):
        found.estimate(np.array([0.0, 1.0]))  # type: ignore[arg-type]
