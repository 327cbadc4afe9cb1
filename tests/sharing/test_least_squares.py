"""Second moments against the rows they were summed over."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from isotropy.sharing import LeastSquares


def data(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_loss_is_the_mean_square_of_residuals() -> None:
    x, y, g = data(20, 3), data(20, 2, seed=1), data(5, 2, 3, seed=2)
    expected = [float((y - x @ one.mT).square().mean()) for one in g]
    np.testing.assert_allclose(LeastSquares.of(x, y).loss(g).numpy(), expected, rtol=1e-12)


def test_solution_is_that_of_a_solver_on_rows() -> None:
    x, y = data(20, 3), data(20, 2, seed=1)
    expected = np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0].T
    np.testing.assert_allclose(LeastSquares.of(x, y).solution().numpy(), expected, rtol=1e-10)


def test_solution_is_the_shortest_where_rows_are_few() -> None:
    x, y = data(3, 6), data(3, 2, seed=1)
    expected = np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0].T
    np.testing.assert_allclose(LeastSquares.of(x, y).solution().numpy(), expected, atol=1e-10)


def test_without_inputs_the_solution_is_the_mean() -> None:
    y = data(7, 4)
    problem = LeastSquares.of(None, y)
    assert problem.shape == (4, 1)
    torch.testing.assert_close(problem.solution()[:, 0], y.mean(0))


def test_a_sum_is_the_problem_of_all_rows() -> None:
    x, y, g = data(20, 3), data(20, 2, seed=1), data(2, 3, seed=2)
    whole = LeastSquares.of(x, y)
    parts = LeastSquares.of(x[:6], y[:6]) + LeastSquares.of(x[6:], y[6:])
    assert parts.samples == 20
    torch.testing.assert_close(parts.loss(g), whole.loss(g))
    torch.testing.assert_close(parts.solution(), whole.solution())


def test_a_batch_is_each_problem_alone() -> None:
    x, y = data(4, 9, 3), data(4, 9, 2, seed=1)
    batch = LeastSquares.of(x, y)
    g = batch.solution()
    for i in range(4):
        alone = LeastSquares.of(x[i], y[i])
        torch.testing.assert_close(g[i], alone.solution())
        torch.testing.assert_close(batch.loss(g)[i], alone.loss(g[i]))
        torch.testing.assert_close(batch.noise_variance()[i], alone.noise_variance())


def test_noise_variance_takes_off_the_degrees_of_freedom() -> None:
    x, y = data(12, 5), data(12, 3, seed=1)
    left = y.numpy() - x.numpy() @ np.linalg.lstsq(x.numpy(), y.numpy(), rcond=None)[0]
    expected = (left**2).sum() / (3 * (12 - 5))
    assert float(LeastSquares.of(x, y).noise_variance()) == pytest.approx(expected)


def test_noise_variance_is_right_on_average() -> None:
    x, noise = data(2000, 8, 5), 0.3 * data(2000, 8, 1, seed=1)
    mean = float(LeastSquares.of(x, x.sum(-1, keepdim=True) + noise).noise_variance().mean())
    # each has 3 degrees of freedom: a standard error of sqrt(2/6000), 1.8 %
    assert mean == pytest.approx(0.09, rel=0.07)


def test_noise_of_an_exact_fit_is_tiny_and_positive() -> None:
    x = data(20, 3)
    variance = float(LeastSquares.of(x, x).noise_variance())
    assert 0 < variance < 1e-11
    assert float(LeastSquares.of(x, torch.zeros_like(x)).noise_variance()) > 0


def test_noise_needs_more_rows_than_inputs() -> None:
    x, y = data(5, 5), data(5, 1, seed=1)
    with pytest.raises(ValueError, match=r"expected more rows than the 5 inputs.*got 5"):
        LeastSquares.of(x, y).noise_variance()
