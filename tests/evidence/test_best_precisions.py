"""Precisions and noise after the fact, beside general optimisers and exact linear regression."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, Laplace, best_precisions, laplace
from isotropy.evidence._best_precisions import residual_sums


def network(structure: str, loss: str) -> Laplace:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    x = torch.randn(40, 3, dtype=torch.float64)
    y: Tensor = torch.randn(40, 2).double() if loss == "regression" else torch.arange(40) % 2
    return laplace(model, loss, (x, y), curvature=CurvatureOptions(structure))  # type: ignore[arg-type]


def by_scipy(found: Laplace, groups: list[str], *, learn: bool, **rest: Any) -> Any:
    """The maximiser of the log evidence in all logarithms together, by its gradient."""

    def negative(logs: np.ndarray) -> tuple[float, np.ndarray]:
        at = torch.tensor(logs, requires_grad=True)
        given = {**rest, "noise": at[-1].exp()} if learn else rest
        precisions = dict(zip(groups, at.exp(), strict=False))
        value = -found.log_marginal_likelihood(precisions, **given)
        (slope,) = torch.autograd.grad(value, at)
        return float(value.detach()), slope.numpy()

    start = np.zeros(len(groups) + learn)
    return minimize(negative, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x


@pytest.mark.parametrize("structure", ["kronecker", "block", "diagonal", "full"])
@pytest.mark.parametrize("loss", ["classification", "regression"])
def test_it_is_the_maximum_of_the_evidence(structure: str, loss: str) -> None:
    found = network(structure, loss)
    learn = loss == "regression"
    precisions, noise = best_precisions(
        found, noise="learn" if learn else None, temperature=0.7, limits=(1e-12, 1e14)
    )
    expected = by_scipy(found, list(precisions), learn=learn, temperature=0.7)
    logs = [log(value) for value in precisions.values()]
    if learn:
        assert noise is not None
        logs.append(log(noise))
    else:
        assert noise is None
    np.testing.assert_allclose(logs, expected, atol=2e-5)


def test_every_group_is_at_its_stationary_point() -> None:
    found = network("kronecker", "regression")
    precisions, noise = best_precisions(found, noise=0.3)
    assert noise == 0.3
    effective = found.effective_parameters(precisions, noise=0.3)
    for name, delta in precisions.items():
        square = float(found.parameters[name].square().sum())
        assert effective.counts[name] == pytest.approx(delta * square, rel=1e-9)


def test_where_the_plain_step_runs_in_a_circle() -> None:
    """γ = λ/(λ + δ) with δ ≫ λ: MacKay's step then maps δ to nearly const/δ."""
    model = nn.Linear(1, 1, bias=False).double()
    nn.init.constant_(model.weight, 1e-3)
    x = torch.full((1, 1), 1e-2, dtype=torch.float64)
    found = laplace(model, "regression", (x, x))
    precisions, _ = best_precisions(found)
    # λ/(λ + δ) = δθ² with λ = 1e-4, θ² = 1e-6
    expected = (-1e-4 + (1e-8 + 4 * 1e-4 / 1e-6) ** 0.5) / 2
    assert precisions["weight"] == pytest.approx(expected, rel=1e-9)


def test_a_dense_grid_has_nothing_better() -> None:
    found = network("full", "classification")
    groups = list(found.group_sizes)
    precisions, _ = best_precisions(found)
    best = float(found.log_marginal_likelihood(precisions))
    for name in groups:
        for log_delta in np.linspace(-10, 10, 41):
            other = {**precisions, name: exp(log_delta)}
            assert float(found.log_marginal_likelihood(other)) <= best + 1e-9


def test_a_group_at_zero_ends_at_the_upper_limit() -> None:
    model = nn.Linear(3, 1).double()
    nn.init.zeros_(model.bias)
    x = torch.randn(20, 3, dtype=torch.float64)
    precisions, _ = best_precisions(laplace(model, "regression", (x, x[:, 0])), limits=(1e-3, 1e3))
    assert precisions["bias"] == pytest.approx(1e3)
    assert 1e-3 < precisions["weight"] < 1e3


def test_a_group_that_the_data_do_not_see_ends_at_the_lower_limit() -> None:
    model = nn.Linear(1, 1).double()
    x = torch.zeros(5, 1, dtype=torch.float64)
    precisions, _ = best_precisions(laplace(model, "regression", (x, x[:, 0])), limits=(1e-3, 1e3))
    assert precisions["weight"] == pytest.approx(1e-3)


def test_linear_regression_by_turns_reaches_the_exact_evidence() -> None:
    """With parameters at their posterior mean in between, this is evidence maximisation."""
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x @ torch.tensor([1.0, -1.0, 0.5]).double() + 0.3 * torch.randn(40).double()
    model = nn.Linear(3, 1, bias=False).double()
    precision, noise = 1.0, 1.0
    for _ in range(20):
        gram = x.T @ x / noise**2 + precision * torch.eye(3).double()
        mean = torch.linalg.solve(gram, x.T @ y / noise**2)
        with torch.no_grad():
            model.weight.copy_(mean)
        found = laplace(model, "regression", (x, y))
        precisions, learned = best_precisions(found, noise="learn")
        assert learned is not None
        precision, noise = precisions["weight"], learned

    def negative(logs: np.ndarray) -> float:
        cov = np.exp(2 * logs[1]) * np.eye(40) + x.numpy() @ x.numpy().T / np.exp(logs[0])
        return float(np.linalg.slogdet(cov)[1] + y.numpy() @ np.linalg.solve(cov, y.numpy()))

    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    expected = np.exp(minimize(negative, np.zeros(2), method="Nelder-Mead", options=options).x)
    np.testing.assert_allclose([precision, noise], expected, rtol=1e-5)


def test_sums_of_residuals() -> None:
    x = torch.randn(30, 3, dtype=torch.float64)
    model = nn.Linear(3, 2).double()
    for scale in (1.0, 1e-9):
        with torch.no_grad():
            y = model(x) + scale * torch.randn(30, 2).double()
            expected = float((model(x) - y).square().sum())
        squares, count = residual_sums(laplace(model, "regression", (x, y)))
        assert squares == pytest.approx(expected, rel=1e-12)
        assert count == pytest.approx(60, rel=1e-14)


def test_a_network_that_goes_on_learning_does_not_matter() -> None:
    model = nn.Linear(3, 1).double()
    x = torch.randn(20, 3, dtype=torch.float64)
    found = laplace(model, "regression", (x, x[:, 0]))
    before = best_precisions(found, noise="learn")
    with torch.no_grad():
        model.weight.mul_(10)
    assert best_precisions(found, noise="learn") == before


def test_few_decompositions_of_a_full_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one for every noise that is tried, and not one for every bit of a precision."""
    found = network("full", "regression")
    calls: list[str] = []
    for name in ("eigh", "eigvalsh", "inv", "cholesky"):
        plain = getattr(torch.linalg, name)

        def counted(*given: Any, plain: Any = plain, name: str = name) -> Any:
            calls.append(name)
            return plain(*given)

        monkeypatch.setattr(torch.linalg, name, counted)
    best_precisions(found, noise="learn")
    assert 2 <= len(calls) < 60
    calls.clear()
    best_precisions(found, noise=0.5)  # about 30 without extrapolation
    assert 2 <= len(calls) < 25


@pytest.mark.parametrize(
    ("options", "message"),
    [
        pytest.param({"limits": (0.0, 1.0)}, r"expected limits with 0 < least", id="zero"),
        pytest.param({"limits": (2.0, 1.0)}, r"expected limits with 0 < least", id="swapped"),
        pytest.param({"noise": "learned"}, r"expected a number, None or 'learn'", id="word"),
        pytest.param({"noise": -1.0}, r"expected a positive number as the noise", id="noise"),
        pytest.param({"temperature": 0.0}, r"expected a positive temperature", id="temperature"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        best_precisions(network("kronecker", "regression"), **options)


def test_noise_where_there_is_none() -> None:
    with pytest.raises(ValueError, match=r"expected no noise for classification, got noise="):
        best_precisions(network("kronecker", "classification"), noise="learn")
