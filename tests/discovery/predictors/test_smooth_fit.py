"""A smooth function and its gradients, fitted twice: against closed forms and autograd."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from discovery.pieces import SmoothFit, fit_smooth, generator, held_out_rows, values_and_jacobian

Smooth = Callable[[Tensor], Tensor]


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def box(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return 2 * torch.rand(*shape, dtype=torch.float64, generator=rng) - 1


def finite_differences(function: Smooth, x: Tensor, step: float = 1e-5) -> Tensor:
    columns = []
    for i in range(x.shape[1]):
        apart = torch.zeros_like(x)
        apart[:, i] = step
        columns.append((function(x + apart) - function(x - apart)) / (2 * step))
    return torch.stack(columns, 2)


def two_outputs(x: Tensor) -> Tensor:
    return torch.stack([x[:, 0] * x[:, 1].sin(), (x**2).sum(1).exp(), x[:, 2] ** 3], 1)


def test_jacobians_are_those_of_functional_autograd() -> None:
    x = 0.5 * normal(1030, 3)  # more than two chunks of rows
    values, jacobian = values_and_jacobian(two_outputs, x)
    assert torch.equal(values, two_outputs(x))
    one: Smooth = lambda row: two_outputs(row.unsqueeze(0)).squeeze(0)  # noqa: E731
    expected = torch.func.vmap(torch.func.jacrev(one))(x)
    assert jacobian.shape == (1030, 3, 3)
    assert torch.allclose(jacobian, expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(jacobian, finite_differences(two_outputs, x), atol=1e-6)
    assert not jacobian.requires_grad
    with torch.no_grad():  # a caller's switch is not the function's
        assert torch.equal(values_and_jacobian(two_outputs, x)[1], jacobian)


def polynomial(x: Tensor) -> Tensor:
    return 3 + (x[:, :1] ** 2 + x[:, 1:2] * x[:, 2:] - x[:, :1]) / 2


LINKS = {
    "a polynomial of degree 2": lambda q: q,
    "a polynomial of degree 2 whose square root is y": torch.sqrt,
    "a polynomial of degree 2 whose exponential is y": torch.exp,
    "a polynomial of degree 2 whose inverse is y": torch.reciprocal,
    "a polynomial of degree 2 whose logarithm is y": torch.log,
}


@pytest.mark.parametrize("kind", LINKS)
def test_functions_of_polynomials_are_exact(kind: str) -> None:
    x, elsewhere = box(200, 3), box(50, 3, seed=1)
    truth: Smooth = lambda x: LINKS[kind](polynomial(x))  # noqa: E731
    fit = fit_smooth(x, truth(x))
    assert fit.kind == kind
    assert fit.is_exact
    assert not fit.is_linear
    assert torch.allclose(fit(elsewhere), truth(elsewhere), rtol=1e-9)
    for values, jacobian in fit.values_and_jacobians(elsewhere):
        assert torch.allclose(values, truth(elsewhere), rtol=1e-9)
        expected = finite_differences(truth, elsewhere)
        assert torch.allclose(jacobian, expected, rtol=1e-6, atol=1e-7)


def test_negative_inverses_are_exact_too() -> None:
    x = box(200, 3)
    fit = fit_smooth(x, -1 / polynomial(x))
    assert fit.kind.endswith("whose inverse is y")
    assert fit.is_exact


def test_more_outputs_are_polynomials_of_the_inputs_themselves() -> None:
    x = box(300, 3)
    y = torch.cat([polynomial(x), polynomial(x.flip(1)) ** 2], 1)
    fit = fit_smooth(x, y)
    assert fit.kind == "a polynomial of degree 4"
    assert fit.is_exact
    assert torch.allclose(fit(x), y, rtol=1e-9)


def test_a_linear_function_is_told() -> None:
    x = normal(100, 4)
    fit = fit_smooth(x, x @ normal(4, 2, seed=1) + 5)
    assert fit.is_linear
    assert fit.is_exact
    assert not SmoothFit("a network", fit.halves, 0.0).is_linear


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(50), 8)], ids=["rows", "groups"])
def test_halves_have_the_coefficients_of_least_squares_on_their_own_rows(
    groups: NDArray[np.int64] | None,
) -> None:
    x, rng = normal(400, 2), generator(3)
    y = 1 + x[:, :1] * x[:, 1:] + 0.01 * normal(400, 1, seed=2)
    fit = fit_smooth(x, y, groups=groups, seed=3)
    assert fit.kind == "a polynomial of degree 2"
    # the same draw of rows, and numpy's least squares
    seen, judges = held_out_rows(400, 0.15, groups, rng)
    inner = None if groups is None else groups[seen]
    first, second = held_out_rows(len(seen), 0.5, inner, rng)
    parts = (seen[first], seen[second], judges)
    if groups is not None:
        assert sum(len(np.unique(groups[rows])) for rows in parts) == 50  # none in two parts
    a, b = x.numpy().T

    def design(rows: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.stack([a[rows] ** i * b[rows] ** j for i in range(3) for j in range(3 - i)], 1)

    mean = np.zeros((len(judges), 1))
    for half, rows in zip(fit.halves, parts, strict=False):
        weights = np.linalg.lstsq(design(rows), y.numpy()[rows], rcond=None)[0]
        expected = design(judges) @ weights
        assert np.abs(half(x[torch.as_tensor(judges)]).numpy() - expected).max() < 1e-3
        mean += expected / 2
    held = y.numpy()[judges]
    share = ((held - mean) ** 2).mean() / ((held - y.numpy()[seen].mean()) ** 2).mean()
    assert fit.unexplained == pytest.approx(share, rel=0.05)
    assert 1e-5 < fit.unexplained < 1e-3
    assert not fit.is_exact


def test_the_halves_differ_by_the_noise() -> None:
    x = normal(4000, 2)
    clean = x[:, :1] ** 2 + x[:, 1:] ** 2
    apart = []
    for noise in (0.001, 0.01):
        y = clean + noise * normal(4000, 1, seed=5)
        first, second = fit_smooth(x, y).values_and_jacobians(x[:500])
        apart.append(float((first[1] - second[1]).square().mean().sqrt()))
    assert apart[1] == pytest.approx(10 * apart[0], rel=0.1)


def test_a_linear_function_with_noise_is_told_too() -> None:
    x = normal(600, 3)
    fit = fit_smooth(x, x @ normal(3, 1, seed=1) + 0.3 * normal(600, 1, seed=2), thorough=False)
    assert fit.is_linear
    assert not fit.is_exact


def test_a_kernel_where_no_polynomial_does() -> None:
    x = normal(600, 2)
    angle = 3 * x[:, :1]
    fit = fit_smooth(x, angle.sin() + x[:, 1:] ** 2)
    assert fit.kind == "a kernel"
    assert fit.unexplained < 0.03
    (_, first), (_, second) = fit.values_and_jacobians(x[:300])
    expected = torch.stack([3 * (3 * x[:300, 0]).cos(), 2 * x[:300, 1]], 1).unsqueeze(1)
    inside = x[:300].norm(dim=1) < 1.5
    for jacobian in (first, second):
        errors = (jacobian - expected)[inside].square().mean().sqrt()
        assert errors < 0.25 * expected[inside].square().mean().sqrt()
    assert not torch.equal(first, second)
