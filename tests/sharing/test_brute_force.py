"""All partitions: their number, their fits, and the published results of looking at each."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from isotropy.sharing import LeastSquares, best_partition, shared_solutions
from isotropy.sharing._brute_force import set_partitions

Array = NDArray[np.float64]


@pytest.mark.parametrize("size", range(1, 10))
def test_as_many_partitions_as_bell_numbers_say(size: int) -> None:
    row = [1]  # of Bell's triangle: each row starts with the last number of the one above
    for _ in range(size - 1):
        following = [row[-1]]
        for above in row:
            following.append(following[-1] + above)
        row = following
    found = set_partitions(size)
    assert found.shape == (row[-1], size)
    assert len({tuple(labels) for labels in found.tolist()}) == row[-1]


def test_each_partition_is_canonical() -> None:
    found = set_partitions(7)
    assert (found[:, 0] == 0).all()
    highest = np.maximum.accumulate(found, axis=1)
    assert all((found[:, b] <= highest[:, a] + 1).all() for a, b in pairwise(range(7)))
    assert (found >= 0).all()


@pytest.mark.parametrize("size", [0, 11])
def test_too_many_partitions_are_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"expected between 1 and 10 elements .* got {size}"):
        set_partitions(size)


def design(x: Array, labels: NDArray[np.int64]) -> Array:
    """The matrix of vec(y), row by row, as a function of the shared parameters."""
    m, n = labels.shape
    found = np.zeros((len(x), m, labels.max() + 1))
    for i in range(m):
        for j in range(n):
            found[:, i, labels[i, j]] += x[:, j]
    return found.reshape(len(x) * m, -1)


def test_shared_solutions_are_those_of_an_explicit_design() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(15, 3)), rng.normal(size=(15, 2))
    partitions = set_partitions(6)
    problem = LeastSquares.of(torch.as_tensor(x), torch.as_tensor(y))
    maps = shared_solutions(problem, partitions)
    assert maps.shape == (203, 2, 3)
    for labels, g in zip(partitions, maps.numpy(), strict=True):
        psi = np.linalg.lstsq(design(x, labels.reshape(2, 3)), y.ravel(), rcond=None)[0]
        np.testing.assert_allclose(g, psi[labels].reshape(2, 3), atol=1e-10)


@pytest.mark.parametrize("rank", [0.0, 0.05])
def test_the_best_partition_has_the_least_validation_loss(rank: float) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2))
    train, held = (
        LeastSquares.of(torch.as_tensor(x[rows]), torch.as_tensor(y[rows]))
        for rows in (slice(10), slice(10, 30))
    )

    def penalised(labels: NDArray[np.int64]) -> float:
        psi = np.linalg.lstsq(design(x[:10], labels.reshape(2, 2)), y[:10].ravel(), rcond=None)[0]
        g = psi[labels].reshape(2, 2)
        loss = ((y[10:] - x[10:] @ g.T) ** 2).mean()
        return float(loss + rank * np.sqrt(np.bincount(labels)).sum())

    found = best_partition(train, held, rank=rank)
    assert penalised(found) == min(penalised(labels) for labels in set_partitions(4))


@pytest.mark.parametrize(("size", "mse", "distance"), [(2, 0.0136, 0.110), (3, 0.0154, 0.130)])
def test_published_brute_force(size: int, mse: float, distance: float) -> None:
    """Yeh et al.'s code on the seeds 0 to 199, whose partitions leak exp(−5) from each block."""
    errors, distances = [], []
    for seed in range(200):
        y = torch.as_tensor(np.random.RandomState(seed).randn(100, size))
        train, held = LeastSquares.of(None, y[:30]), LeastSquares.of(None, y[30:])
        labels = best_partition(train, held)
        refitted = shared_solutions(train + held, labels[None])
        errors.append(float(refitted.square().sum()))  # the true means are zero
        distances.append(size - int(np.bincount(labels).max()))
    # the leak changes no partition here, and no printed digit
    assert np.mean(errors) == pytest.approx(mse, abs=5e-5)
    assert np.mean(distances) == pytest.approx(distance, abs=1e-9)


def test_the_evidence_takes_both_sets_as_one() -> None:
    y = torch.tensor([[1.1, 0.9, 5.0], [0.9, 1.1, 5.1], [1.0, 1.0, 4.9], [1.1, 1.0, 5.0]]).double()
    train, held = LeastSquares.of(None, y[:2]), LeastSquares.of(None, y[2:])
    assert best_partition(train, held, criterion="evidence").tolist() == [0, 0, 1]


def test_bad_input() -> None:
    wide = LeastSquares.of(None, torch.zeros(3, 11))
    with pytest.raises(ValueError, match=r"expected between 1 and 10 elements .* got 11"):
        best_partition(wide, wide)
    small = LeastSquares.of(None, torch.zeros(3, 2))
    with pytest.raises(ValueError, match=r"expected the criterion .* got 'luck'"):
        best_partition(small, small, criterion="luck")  # type: ignore[arg-type]
