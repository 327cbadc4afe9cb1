"""Online empirical Bayes: against exact evidence, on symmetric data, interrupted, diverging."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from math import isfinite, log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor, distributed, nn
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, TensorDataset
from torch.utils.data import Dataset as MapStyle

from evidence_parts import learning_options
from isotropy.evidence import (
    CurvatureOptions,
    LearnedPriors,
    LearningOptions,
    PriorOptions,
    laplace,
    learn_priors,
    path_groups,
)
from isotropy.groups import SO, S
from isotropy.nn import EMLP, Linear, PathSum, RecordedModule
from isotropy.reps import V
from isotropy.run import Step

FULL = CurvatureOptions("full")
decaying = partial(torch.optim.SGD, weight_decay=0.1)


def maximiser(negative: Callable[[np.ndarray], float], start: list[float]) -> np.ndarray:
    options = {"xatol": 1e-7, "fatol": 1e-9, "maxiter": 4000}
    found = minimize(negative, start, method="Nelder-Mead", options=options)
    values: np.ndarray = np.exp(found.x)
    return values


def negative_evidence(features: np.ndarray, y: np.ndarray, variances: Any, noise: float) -> float:
    """−2 log N(y | 0, ΦΣΦᵀ + σ²), but for a constant."""
    covariance = features * variances @ features.T + noise**2 * np.eye(len(y))
    return float(np.linalg.slogdet(covariance)[1] + y @ np.linalg.solve(covariance, y))


# --- what is learned --------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [20, "best"], ids=["steps", "best"])
def test_linear_regression_ends_at_the_maximum_of_the_exact_evidence(steps: Any) -> None:
    x = torch.randn(50, 4).double()
    truth = torch.tensor([1.0, -2.0, 0.5, 1.5]).double()
    y = x @ truth + 0.3 + 0.4 * torch.randn(50).double()
    features = np.concatenate([x.numpy(), np.ones((50, 1))], axis=1)

    def negative(logs: np.ndarray) -> float:
        weight, bias, noise = np.exp(logs)
        variances = np.array([1 / weight] * 4 + [1 / bias])
        return negative_evidence(features, y.numpy(), variances, noise)

    expected = maximiser(negative, [0.0, 0.0, 0.0])
    found = learn_priors(
        nn.Linear(4, 1).double(),
        "regression",
        (x, y),
        epochs=150,
        batch_size=50,
        learning_rate=0.05 if steps == 20 else 0.1,
        learning=LearningOptions(burn_in=40, every=5, steps=steps, curvature=FULL),
    )
    assert found.settled
    assert "not settled" not in str(found)
    assert found.noise is not None
    learned = [found.precisions["weight"], found.precisions["bias"], found.noise]
    np.testing.assert_allclose(learned, expected, rtol=1e-2)
    assert len(found.history) == 23
    exact = -(negative(np.log(learned)) + 50 * log(2 * np.pi)) / 2
    assert found.log_marginal_likelihood == pytest.approx(exact, abs=1e-3)


def soft_layer() -> PathSum:
    strict = Linear(V, V, S(4), bias=False)
    return PathSum(
        {"strict": strict, "free": nn.Linear(4, 4, bias=False)}, prior_variances={"free": 0.5}
    )


def learned_softly(weight: Tensor) -> tuple[PathSum, LearnedPriors]:
    x = torch.randn(200, 4)
    y = x @ weight.T + 0.3 * torch.randn(200, 4)
    soft = soft_layer()
    # what one path gives up the other takes: momentum follows such a valley sooner than Adam
    options: dict[str, Any] = {"optimiser": partial(torch.optim.SGD, momentum=0.95)}
    options |= {"epochs": 150, "batch_size": 200, "learning_rate": 0.01, "every": 4}
    options |= {"hyper_schedule": "constant"}
    return soft, learn_priors(soft, "regression", (x, y), **learning_options(**options))


def test_a_free_path_is_switched_off_where_the_data_have_the_symmetry() -> None:
    soft, found = learned_softly(1.5 * torch.eye(4) - 0.4)
    assert found.precisions["paths.free"] > 1e3
    assert found.precisions["paths.free"] > 1e3 * found.precisions["paths.strict"]
    assert found.effective.normalised["paths.free"] < 0.4
    assert found.effective.normalised["paths.strict"] > 0.99
    for path, variance in soft.prior_variances.items():
        assert variance == pytest.approx(1 / found.precisions[f"paths.{path}"], rel=1e-4)
    free = soft.paths["free"].weight
    assert isinstance(free, Tensor)
    assert float(free.detach().abs().max()) < 0.1


def test_a_free_path_is_kept_where_they_have_not() -> None:
    _, found = learned_softly(torch.randn(4, 4))
    assert found.precisions["paths.free"] < 10
    assert found.effective.normalised["paths.free"] > 0.99


def test_paths_begin_at_their_own_variances() -> None:
    x = torch.randn(20, 4)
    soft = soft_layer()
    found = learn_priors(soft, "regression", (x, x), epochs=2)
    assert found.precisions == pytest.approx({"paths.strict": 1.0, "paths.free": 2.0})
    assert soft.prior_variances == pytest.approx({"strict": 1.0, "free": 0.5})


def test_a_sum_within_a_path_answers_for_its_own() -> None:
    inner = soft_layer()
    outer = PathSum({"soft": inner, "other": nn.Linear(4, 4)}, prior_variances={"soft": 0.25})
    x = torch.randn(30, 4)
    found = learn_priors(
        outer, "regression", (x, x), epochs=4, learning=LearningOptions(burn_in=2, every=1)
    )
    names = {"paths.soft.paths.strict", "paths.soft.paths.free", "paths.other"}
    assert set(found.precisions) == names
    assert outer.prior_variances["soft"] == pytest.approx(0.25)
    free = found.precisions["paths.soft.paths.free"]
    assert inner.prior_variances["free"] == pytest.approx(1 / free, rel=1e-5)


class ByInput(nn.Module):
    """A layer for every input, and so a tensor and a precision for each."""

    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.inputs = nn.ModuleList(nn.Linear(1, 3, bias=False) for _ in range(inputs))
        self.last = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        hidden = sum(layer(x[:, k : k + 1]) for k, layer in enumerate(self.inputs))
        assert isinstance(hidden, Tensor)
        outputs: Tensor = self.last(hidden.tanh())
        return outputs


def test_inputs_that_do_not_matter_are_pruned() -> None:
    x = torch.randn(300, 4)
    y = (x[:, 1] + 0.3 * torch.randn(300) > 0).long()
    found = learn_priors(
        ByInput(4),
        "classification",
        (x, y),
        epochs=60,
        learning_rate=0.03,
        learning=LearningOptions(every=2),
    )
    kept = found.precisions["inputs.1.weight"]
    share = found.effective.normalised
    for k in (0, 2, 3):
        assert found.precisions[f"inputs.{k}.weight"] > 20 * kept
        assert share[f"inputs.{k}.weight"] < share["inputs.1.weight"] / 3


class Bumps(RecordedModule):
    """Radial bumps of one width, which is a hyperparameter."""

    centres: Tensor

    def __init__(self, width: float) -> None:
        super().__init__()
        self.register_buffer("centres", torch.linspace(-3, 3, 7).double())
        self.log_width = nn.Parameter(torch.tensor(log(width)).double())
        self.weight = nn.Parameter(torch.randn(1, 7).double())

    def features(self, x: Tensor) -> Tensor:
        return (((x - self.centres) / self.log_width.exp()).square() / -2).exp()

    def forward(self, x: Tensor) -> Tensor:
        y = self.features(x) @ self.weight.mT
        self.note("weight", x, y, spread=self.features)
        return y


def test_a_lengthscale_goes_where_the_evidence_is_largest() -> None:
    torch.manual_seed(2)
    x = 6 * torch.rand(80, 1).double() - 3
    y = Bumps(0.6)(x).detach() + 0.05 * torch.randn(80, 1).double()

    def negative(logs: np.ndarray) -> float:
        precision, noise, width = np.exp(logs)
        features = Bumps(float(width)).features(x).detach().numpy()
        return negative_evidence(features, y[:, 0].numpy(), 1 / precision, noise)

    precision, noise, width = maximiser(negative, [0.0, -2.0, -0.5])
    model = Bumps(0.3)
    found = learn_priors(
        model,
        "regression",
        (x, y),
        epochs=300,
        batch_size=40,
        learning_rate=0.05,
        learning=LearningOptions(burn_in=30, steps=10, hyper_learning_rate=0.05, curvature=FULL),
        priors=PriorOptions(hyperparameters=["log_width"]),
    )
    assert float(model.log_width.detach().exp()) == pytest.approx(width, rel=0.05)
    assert width == pytest.approx(0.6, rel=0.05)
    assert found.noise == pytest.approx(noise, rel=0.05)
    assert found.precisions == pytest.approx({"weight": precision}, rel=0.1)
    best = -(negative(np.log([precision, noise, width])) + 80 * log(2 * np.pi)) / 2
    assert found.log_marginal_likelihood == pytest.approx(best, abs=0.2)
    widths = [estimate.hyperparameters["log_width"] for estimate in found.history]
    assert widths[0] == pytest.approx(log(0.3))
    assert widths[-1] == float(model.log_width.detach())


# --- the loss ---------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [1.0, 0.2], ids=["warm", "cold"])
def test_parameters_go_to_the_posterior_mode(temperature: float) -> None:
    x = torch.randn(30, 3).double()
    y = x.sum(1) + torch.randn(30).double()
    model = nn.Linear(3, 1, bias=False).double()
    found = learn_priors(
        model,
        "regression",
        (x, y),
        epochs=250,
        batch_size=30,
        learning_rate=0.05,
        learning=LearningOptions(burn_in=1000),
        priors=PriorOptions(precisions=7.0, noise=0.5, temperature=temperature),
    )
    weight = 1 / (0.25 * temperature)
    gram = weight * x.T @ x + 7 * torch.eye(3).double()
    mode = torch.linalg.solve(gram, weight * x.T @ y)
    torch.testing.assert_close(model.weight.detach()[0], mode, rtol=1e-3, atol=1e-4)
    assert found.precisions == {"weight": pytest.approx(7.0)}
    assert found.noise == 0.5
    residuals = (x @ mode - y).square().sum() / 0.25 + 30 * log(2 * np.pi * 0.25)
    loss = (residuals / 2 / temperature + 7 * mode.square().sum() / 2) / 30
    assert found.losses[-1] == pytest.approx(float(loss), rel=1e-4)


@pytest.mark.parametrize("loss", ["classification", "binary", "regression"])
def test_the_loss_is_that_of_torch(loss: str) -> None:
    x = torch.randn(20, 3, 4)
    y = {
        "classification": torch.arange(80).reshape(20, 4) % 2,
        "binary": torch.rand(20, 2, 4),
        "regression": torch.randn(20, 2, 4),
    }[loss]
    model = nn.Conv1d(3, 2, 1)
    outputs = model(x).double()
    expected = {
        "classification": lambda: functional.cross_entropy(outputs, y, reduction="sum"),
        "binary": lambda: functional.binary_cross_entropy_with_logits(
            outputs, y.double(), reduction="sum"
        ),
        "regression": lambda: (
            functional.mse_loss(outputs, y, reduction="sum") / (2 * 0.5**2)
            + 160 * (log(2 * np.pi) / 2 + log(0.5))
        ),
    }[loss]()
    squares = sum(float(p.detach().square().sum()) for p in model.parameters())
    noise = 0.5 if loss == "regression" else None
    options: dict[str, Any] = {"epochs": 1, "learning_rate": 1e-12, "precisions": 3.0}
    found = learn_priors(
        model, loss, (x, y), batch_size=8, **learning_options(noise=noise, temperature=2, **options)
    )
    value = (float(expected.detach()) / 2 + 3 * squares / 2) / 20
    assert found.losses == (pytest.approx(value, rel=1e-6),)


def test_the_rate_falls_step_by_step() -> None:
    rates: list[float] = []

    class Watched(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            rates.append(self.param_groups[0]["lr"])
            return super().step(closure)

    x = torch.randn(10, 2)
    options: dict[str, Any] = {"epochs": 2, "batch_size": 4, "learning_rate": 0.01}
    learn_priors(
        nn.Linear(2, 1),
        "regression",
        (x, x[:, 0]),
        **learning_options(optimiser=Watched, **options),
    )
    expected = [0.005 * (1 + np.cos(np.pi * k / 6)) for k in range(6)]
    np.testing.assert_allclose(rates, expected, rtol=1e-12)
    rates.clear()
    options |= {"optimiser": partial(Watched, momentum=0.9), "schedule": "constant"}
    learn_priors(nn.Linear(2, 1), "regression", (x, x[:, 0]), **learning_options(**options))
    assert rates == [0.01] * 6


def test_frozen_parameters_and_modes_stay() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 2))
    model[0].weight.requires_grad_(False)
    model[3].eval()
    frozen, modes = model[0].weight.clone(), [m.training for m in model.modules()]
    x, y = torch.randn(40, 3), torch.arange(40) % 2
    found = learn_priors(
        model, nn.CrossEntropyLoss(), (x, y), epochs=6, learning=LearningOptions(burn_in=2, every=2)
    )
    assert torch.equal(model[0].weight, frozen)
    assert [m.training for m in model.modules()] == modes
    assert "0.weight" not in found.precisions
    assert "1.weight" in found.precisions
    assert float(model[1].running_mean.abs().sum()) > 0
    assert all(parameter.grad is None for parameter in model.parameters())


# --- what is reported -------------------------------------------------------------------------


def test_history_and_its_forms() -> None:
    x, y = torch.randn(30, 3), torch.arange(30) % 2
    model = nn.Linear(3, 2)
    steps: list[Step] = []
    found = learn_priors(
        model,
        "classification",
        (x, y),
        epochs=8,
        progress=steps.append,
        learning=LearningOptions(burn_in=2, every=2),
        priors=PriorOptions(groups=lambda name: "all", precisions={"all": 3.0}),
    )
    assert [estimate.epoch for estimate in found.history] == [2, 4, 6, 8]
    assert [(step.done, step.total) for step in steps] == [(k, 8) for k in range(1, 9)]
    assert len(found.losses) == 8
    assert [e.loss for e in found.history] == [found.losses[k - 1] for k in (2, 4, 6, 8)]
    assert list(found.precisions) == ["all"]
    assert found.noise is None
    last = found.history[-1]
    assert last.precisions == found.precisions
    assert last.effective == found.effective.counts
    at_the_end = laplace(model, "classification", (x, y), groups=lambda name: "all")
    value = at_the_end.log_marginal_likelihood(found.precisions)
    assert found.log_marginal_likelihood == pytest.approx(float(value), rel=1e-12)
    plain = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert type(last)(**plain["history"][-1]) == last
    assert plain["precisions"] == found.precisions
    first, head, row = str(found).splitlines()
    assert first.startswith("log evidence -")
    assert head.split() == ["precision", "effective", "of", "share"]
    assert row.split()[0] == "all"


def test_after_the_last_epoch_priors_stay() -> None:
    """Where no epoch follows, parameters could not follow either."""
    x = torch.randn(30, 4)
    soft = soft_layer()
    options: dict[str, Any] = {"epochs": 6, "burn_in": 6, "every": 1, "noise": None}
    found = learn_priors(soft, "regression", (x, x), **learning_options(**options))
    assert found.precisions == pytest.approx({"paths.strict": 1.0, "paths.free": 2.0})
    assert found.noise == 1.0
    assert found.noise_slope is None
    assert [estimate.epoch for estimate in found.history] == [6]
    at_the_end = laplace(soft, "regression", (x, x), groups=path_groups(soft))
    value = float(at_the_end.log_marginal_likelihood(found.precisions))
    assert found.log_marginal_likelihood == pytest.approx(value, rel=1e-12)
    found = learn_priors(soft, "regression", (x, x), **learning_options(**{**options, "epochs": 7}))
    assert [estimate.epoch for estimate in found.history] == [6, 7]
    assert found.history[0].precisions == found.history[1].precisions
    assert found.precisions["paths.strict"] != pytest.approx(1.0, rel=1e-2)


def test_slopes_are_those_of_the_evidence() -> None:
    x = torch.randn(40, 3).double()
    data = x, x @ torch.randn(3, 2).double() + 0.1 * torch.randn(40, 2).double()
    options: dict[str, Any] = {"epochs": 12, "temperature": 0.5}
    found = learn_priors(
        nn.Linear(3, 2).double(), "regression", data, **learning_options(**options)
    )
    assert found.noise is not None
    assert found.noise_slope is not None

    def evidence(**changes: float) -> float:
        precisions = {n: p * changes.get(n, 1) for n, p in found.precisions.items()}
        noise = found.noise * changes.get("noise", 1)  # type: ignore[operator]
        value = found.laplace.log_marginal_likelihood(precisions, noise=noise, temperature=0.5)
        return float(value)

    for name, slope in {**found.slopes, "noise": found.noise_slope}.items():
        up, down = evidence(**{name: np.exp(1e-5)}), evidence(**{name: np.exp(-1e-5)})
        assert slope == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6)
    # a residual of the size of the targets and next to no training: noise and weights are off
    assert not found.settled
    for name in found.precisions:
        limit = 0.05 * max(found.effective.counts[name], 1)
        assert (name in found.unsettled) == (abs(found.slopes[name]) > limit)
    assert ("noise" in found.unsettled) == (abs(found.noise_slope) > 0.05 * 80 / 0.5)
    told = str(found).splitlines()[-1]
    assert told == f"not settled: the evidence still asks for {', '.join(found.unsettled)}"
    plain = found.to_json()
    assert plain["slopes"] == found.slopes
    assert plain["unsettled"] == list(found.unsettled)


def test_learned_noise_begins_at_the_deviation_of_targets() -> None:
    x, y = torch.randn(40, 3), 50 + 7 * torch.randn(40, 2)
    y[:, 1] += 1000  # a constant model has a constant for each output
    plain: dict[str, Any] = {"epochs": 1, "learning_rate": 1e-9}
    found = learn_priors(
        nn.Linear(3, 2), "regression", (x, y), batch_size=8, **learning_options(**plain)
    )
    variance = y.double().var(0, correction=0).mean()
    assert found.noise == pytest.approx(float(variance.sqrt()), rel=1e-9)
    loader = DataLoader(TensorDataset(x, y), 8)
    found = learn_priors(nn.Linear(3, 2), "regression", loader, **learning_options(**plain))
    variance = y[:8].double().var(0, correction=0).mean()
    assert found.noise == pytest.approx(float(variance.sqrt()), rel=1e-9)
    constant = torch.ones(40, 2)
    assert (
        learn_priors(
            nn.Linear(3, 2), "regression", (x, constant), **learning_options(**plain)
        ).noise
        == 1.0
    )


def test_noise_that_is_given_stays() -> None:
    x = torch.randn(20, 3)
    data = x, 9 * torch.randn(20)
    options: dict[str, Any] = {"epochs": 4, "burn_in": 1, "every": 1}
    for given, expected in ((None, 1.0), (np.float32(0.5), 0.5)):
        found = learn_priors(
            nn.Linear(3, 1), "regression", data, **learning_options(noise=given, **options)
        )
        assert {estimate.noise for estimate in found.history} == {expected}
        assert found.noise_slope is None
    found = learn_priors(nn.Linear(3, 2), "classification", (x, torch.arange(20) % 2), epochs=1)
    assert found.noise is None


def test_updates_raise_the_evidence_of_fixed_parameters() -> None:
    """Without training in between, steps on the precisions can only help."""
    x = torch.randn(40, 3).double()
    model = nn.Linear(3, 1).double()
    found = learn_priors(
        model,
        "regression",
        (x, x[:, 0]),
        epochs=30,
        learning_rate=1e-12,
        learning=LearningOptions(burn_in=0, every=1, hyper_learning_rate=0.05),
    )
    values = [estimate.log_marginal_likelihood for estimate in found.history]
    assert [estimate.epoch for estimate in found.history] == list(range(1, 31))
    assert values[-1] > values[0]
    assert values[-1] == pytest.approx(max(values), abs=1e-3)


def test_precisions_stay_within_limits() -> None:
    x = torch.zeros(10, 2)
    found = learn_priors(
        nn.Linear(2, 1),
        "regression",
        (x, x[:, 0]),
        epochs=20,
        learning=LearningOptions(burn_in=1, every=1, hyper_learning_rate=20.0),
    )
    assert found.precisions["weight"] == pytest.approx(1e-8)
    assert isfinite(found.log_marginal_likelihood)


@pytest.mark.parametrize("kind", ["pair", "arrays", "dataset", "rows", "loader"])
def test_kinds_of_data(kind: str) -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2

    data: dict[str, Any] = {
        "pair": (x, y),
        "arrays": (x.numpy(), y.numpy()),
        "dataset": TensorDataset(x, y),
        "rows": Rows(x, y),
        "loader": DataLoader(TensorDataset(x, y), 8),
    }
    found = learn_priors(
        nn.Linear(3, 2),
        "classification",
        data[kind],
        epochs=3,
        batch_size=8,
        learning=LearningOptions(burn_in=1, every=1),
    )
    assert found.laplace.samples == 20


class Rows(TensorDataset):
    """Rows one by one: not known to be two arrays."""


@pytest.mark.parametrize("kind", [TensorDataset, Rows], ids=["arrays", "rows"])
def test_a_sample_left_over_joins_the_batch_before(kind: Any) -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    sizes: list[int] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if module.training:
            sizes.append(len(inputs[0]))

    model.register_forward_pre_hook(note)
    data = kind(torch.randn(17, 3), torch.arange(17) % 2)
    learn_priors(model, "classification", data, epochs=2, batch_size=8)
    assert sizes == [8, 9, 8, 9]
    sizes.clear()
    plain = nn.Linear(3, 2)
    plain.register_forward_pre_hook(note)
    for batch_size, expected in ((1, [1] * 17), (16, [17]), (17, [17]), (5, [5, 5, 5, 2])):
        sizes.clear()
        learn_priors(plain, "classification", data, epochs=1, batch_size=batch_size)
        assert sizes == expected


def test_a_missing_class_is_told_once_and_where_the_call_was() -> None:
    x, y = torch.randn(20, 3), torch.zeros(20, dtype=torch.int64)
    options: dict[str, Any] = {"epochs": 6, "burn_in": 1, "every": 1}
    with pytest.warns(UserWarning, match=r"expected samples of all 2 classes, got none") as caught:
        learn_priors(nn.Linear(3, 2), "classification", (x, y), **learning_options(**options))
    (warning,) = caught
    assert warning.filename == __file__


def test_other_warnings_pass() -> None:
    class Old(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if not self.training:
                warnings.warn("old layer", DeprecationWarning, stacklevel=1)
            return x.tanh()

    x = torch.randn(20, 3)
    model = nn.Sequential(nn.Linear(3, 2), Old())
    with pytest.warns(DeprecationWarning, match=r"old layer") as caught:
        learn_priors(
            model,
            "regression",
            (x, x[:, :2]),
            epochs=3,
            learning=LearningOptions(burn_in=1, every=1),
        )
    assert {warning.filename for warning in caught} == {__file__}


def test_every_approximation_draws_another_subset() -> None:
    x = torch.arange(40.0).unsqueeze(1) / 40
    model = nn.Linear(1, 1)
    drawn: list[tuple[float, ...]] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if not module.training and len(inputs[0]) == 13:
            drawn.append(tuple(inputs[0].flatten().tolist()))

    model.register_forward_pre_hook(note)
    options: dict[str, Any] = {
        "epochs": 5,
        "burn_in": 1,
        "every": 1,
        "curvature": CurvatureOptions(subset=13),
    }
    runs = []
    for seed in (0, 0, 1):
        drawn.clear()
        learn_priors(model, "regression", (x, x[:, 0]), seed=seed, **learning_options(**options))
        assert len(set(drawn)) == 5
        runs.append(set(drawn))
    assert runs[0] == runs[1]
    assert not runs[0] & runs[2]


def test_a_loader_is_iterated_as_it_is() -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    seen: list[int] = []

    class Augmented:
        def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
            seen.append(1)
            return zip((x + 100).split(8), y.split(8), strict=True)

        def __len__(self) -> int:
            return 3

    found = learn_priors(
        nn.Linear(3, 2),
        "classification",
        Augmented(),
        epochs=2,
        learning=LearningOptions(burn_in=1),
        priors=PriorOptions(evidence_data=(x, y)),
    )
    assert len(seen) == 3  # two epochs, and one to count
    assert found.laplace.samples == 20
    # the curvature is that of the data without augmentation
    block = found.laplace.blocks["weight"][0]
    assert float(block.input.diagonal(dim1=-2, dim2=-1).max()) < 10  # type: ignore[union-attr]


def emlp() -> tuple[nn.Module, Tensor]:
    return EMLP(2 * V, V, SO(3), channels=6, layers=1), torch.randn(24, 6)


def conv() -> tuple[nn.Module, Tensor]:
    convolution = nn.Conv2d(1, 2, 3, padding=1, padding_mode="circular")
    model = nn.Sequential(convolution, nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))
    return model, torch.randn(24, 1, 4, 4)


@pytest.mark.parametrize("network", [emlp, conv], ids=["emlp", "conv"])
def test_networks(network: Callable[[], tuple[nn.Module, Tensor]]) -> None:
    model, x = network()
    options: dict[str, Any] = {"epochs": 4, "burn_in": 2, "every": 1, "batch_size": 12}
    options |= {"curvature": CurvatureOptions(passes="signs", subset=16, batch_size=5)}
    found = learn_priors(
        model, "regression", (x, torch.randn(24, 3)), **learning_options(**options)
    )
    assert set(found.precisions) == {name for name, _ in model.named_parameters()}
    assert isfinite(found.log_marginal_likelihood)
    assert len(set(found.losses)) == 4


# --- stopping and going on --------------------------------------------------------------------


def task() -> tuple[nn.Module, dict[str, Any]]:
    """A soft network with dropout, running means and a shuffled loader: all that has state."""
    torch.manual_seed(0)
    soft = PathSum({"one": nn.Linear(4, 6), "two": nn.Linear(4, 6)})
    model = nn.Sequential(soft, nn.BatchNorm1d(6), nn.Dropout(0.3), nn.Linear(6, 2))
    x, y = torch.randn(40, 4), torch.randn(40, 2)
    loader = DataLoader(TensorDataset(x, y), 16, shuffle=True)
    return model, {
        "data": loader,
        "evidence_data": (x, y),
        "epochs": 8,
        "learning_rate": 0.01,
        "burn_in": 2,
        "every": 2,
        "steps": 3,
    }


def same(model: nn.Module, other: nn.Module) -> bool:
    pairs = zip(model.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(one, two) for one, two in pairs)


def run(model: nn.Module, options: dict[str, Any], **more: Any) -> LearnedPriors:
    return learn_priors(model, "regression", **learning_options(**{**options, **more}))


def stopping_at(epoch: int) -> Callable[[Step], None]:
    def progress(step: Step) -> None:
        if step.done == epoch:
            raise KeyboardInterrupt

    return progress


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "in place"])
def test_going_on_equals_never_having_stopped(fresh: bool, tmp_path: Path) -> None:
    model, options = task()
    whole = run(model, options)
    other, options = task()
    path = tmp_path / "run.safetensors"
    for epoch in (3, 6):
        with pytest.raises(KeyboardInterrupt):
            run(other, options, checkpoint=path, progress=stopping_at(epoch))
        if fresh:
            other, options = task()
            torch.manual_seed(7)  # whatever the state of the world is by now
    resumed = run(other, options, checkpoint=path)
    assert same(model, other)
    assert resumed == whole
    assert resumed.to_json() == whole.to_json()
    again = run(other, options, checkpoint=path)  # there is nothing left to do
    assert same(model, other)
    assert again == whole


def test_hyperparameters_and_momentum_are_kept(tmp_path: Path) -> None:
    x = torch.rand(20, 1).double()
    results = []
    for stops in (False, True):
        torch.manual_seed(0)
        model = Bumps(0.5)
        call = partial(
            learn_priors,
            model,
            "regression",
            (x, x.sin()),
            epochs=6,
            batch_size=7,
            learning=LearningOptions(
                burn_in=1,
                every=1,
                optimiser=partial(torch.optim.SGD, momentum=0.9),
                checkpoint=tmp_path / str(stops),
            ),
            priors=PriorOptions(hyperparameters="log_width"),
        )
        if stops:
            with pytest.raises(KeyboardInterrupt):
                call(progress=stopping_at(3))
        results.append((call(), model))
    assert results[0][0] == results[1][0]
    assert same(results[0][1], results[1][1])


def test_an_interruption_within_an_epoch_goes_back_to_its_beginning(tmp_path: Path) -> None:
    whole, options = task()
    expected = run(whole, options, burn_in=99)
    model, options = task()
    calls = 0

    def stop(*_: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2 + 3 + 3 + 2:  # a trial of the curvature, two epochs, the second batch
            raise KeyboardInterrupt

    at_epoch_two: dict[str, Tensor] = {}

    def watch(step: Step) -> None:
        if step.done == 2:
            at_epoch_two.update({n: t.clone() for n, t in model.state_dict().items()})

    handle = model[3].register_forward_pre_hook(stop)
    path = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        run(model, options, burn_in=99, checkpoint=path, progress=watch)
    handle.remove()
    assert at_epoch_two
    assert all(torch.equal(at_epoch_two[n], t) for n, t in model.state_dict().items())
    assert run(model, options, burn_in=99, checkpoint=path) == expected
    assert same(model, whole)


def test_a_run_may_go_on_in_another_manner(tmp_path: Path) -> None:
    model, options = task()
    path = tmp_path / "run"
    run(model, options, checkpoint=path)
    told: list[int] = []
    changed: dict[str, Any] = {"epochs": 11, "learning_rate": 1e-4, "every": 1}
    found = run(
        model,
        options,
        checkpoint=path,
        resume_changed=True,
        progress=lambda step: told.append(step.done),
        **changed,
    )
    assert told == [9, 10, 11]
    assert len(found.losses) == 11
    with pytest.raises(ValueError, match=r"one that has done all 11 epochs .*: ask for more"):
        run(model, options, checkpoint=path, resume_changed=True, **changed)
    with pytest.raises(ValueError, match=r"expected a checkpoint of a run with optimiser=.SGD"):
        run(model, options, checkpoint=path, resume_changed=True, optimiser=torch.optim.SGD)
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same model, got one of"):
        run(nn.Linear(4, 2), options, checkpoint=path, resume_changed=True)


def test_a_run_that_diverged_goes_on_with_a_smaller_rate(tmp_path: Path) -> None:
    x = torch.randn(20, 3)
    model = nn.Linear(3, 1)
    options: dict[str, Any] = {
        "epochs": 200,
        "schedule": "constant",
        "optimiser": torch.optim.SGD,
        "burn_in": 200,
        "noise": 1.0,
        "checkpoint": tmp_path / "run",
    }
    with pytest.raises(ValueError, match=r"the learning rate is too large, in epoch"):
        learn_priors(
            model, "regression", (x, x[:, 0]), learning_rate=3.0, **learning_options(**options)
        )
    options["resume_changed"] = True
    found = learn_priors(
        model, "regression", (x, x[:, 0]), learning_rate=0.1, **learning_options(**options)
    )
    assert len(found.losses) == 200
    assert found.losses[-1] < 1.1


def test_other_runs_are_refused(tmp_path: Path) -> None:
    model, options = task()
    path = tmp_path / "run"
    run(model, options, checkpoint=path)
    with pytest.raises(ValueError, match=r"expected a checkpoint of a run with epochs=9, got 8"):
        run(model, options, checkpoint=path, epochs=9)
    with pytest.raises(ValueError, match=r"; resume_changed=True goes on from it all the same"):
        run(model, options, checkpoint=path, epochs=9)
    with pytest.raises(ValueError, match=r"a run with precisions=7.0, got None .* resume_changed"):
        run(model, options, checkpoint=path, precisions=7.0)
    with pytest.raises(
        ValueError, match=r"optimiser=\"Adam 'lr': 0.5\", got .* resume_changed=True"
    ):
        run(model, options, checkpoint=path, learning_rate=0.5)
    other = torch.randn(40, 4), torch.randn(40, 2)
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same evidence_data, got"):
        run(model, options, checkpoint=path, evidence_data=other)
    with pytest.raises(ValueError, match=r"expected a checkpoint of a run with optimiser=.SGD"):
        run(model, options, checkpoint=path, optimiser=torch.optim.SGD)
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same model, got one of"):
        run(nn.Linear(4, 2), options, checkpoint=path)
    (tmp_path / "other").write_text("no checkpoint")
    with pytest.raises(ValueError, match=r"expected a checkpoint, got a damaged file"):
        run(model, options, checkpoint=tmp_path / "other")
    with pytest.raises(ValueError, match=r"expected a folder for the checkpoint, got none at"):
        run(model, options, checkpoint=tmp_path / "nowhere" / "run")


class Halves(BatchSampler):
    """Batches of a number that nobody tells, from a generator of its own."""

    def __init__(self) -> None:
        self.generator = torch.Generator().manual_seed(5)

    def __iter__(self) -> Iterator[list[int]]:
        order = torch.randperm(24, generator=self.generator).tolist()
        yield from (order[:9], order[9:16], order[16:])

    def __len__(self) -> int:
        raise TypeError


class Stream(IterableDataset[tuple[Tensor, Tensor]]):
    """Samples that are another ones each time."""

    def __init__(self, *, own: bool) -> None:
        self.generator = torch.Generator().manual_seed(6) if own else None

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for _ in range(20):
            x = torch.randn(3, generator=self.generator)
            yield x, x[:1].sin()


def of_unknown_length(kind: str) -> Any:
    rows = torch.arange(72.0).reshape(24, 3).sin()
    return {
        "batch sampler": lambda: DataLoader(
            TensorDataset(rows, rows[:, :1]), batch_sampler=Halves()
        ),
        "stream": lambda: Stream(own=False),
        "loader of a stream": lambda: DataLoader(Stream(own=True), batch_size=6),
    }[kind]()


@pytest.mark.parametrize("kind", ["batch sampler", "stream", "loader of a stream"])
def test_going_on_with_data_of_unknown_length(kind: str, tmp_path: Path) -> None:
    def go(**more: Any) -> tuple[LearnedPriors, nn.Module]:
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
        options: dict[str, Any] = {"epochs": 6, "burn_in": 1, "every": 2, "batch_size": 6}
        data = of_unknown_length(kind)
        return learn_priors(
            model, "regression", data, **learning_options(**{**options, **more})
        ), model

    whole, model = go()
    path = tmp_path / "run"
    for epoch in (1, 4):
        with pytest.raises(KeyboardInterrupt):
            go(checkpoint=path, progress=stopping_at(epoch))
    resumed, other = go(checkpoint=path)
    assert resumed == whole
    assert same(model, other)


def test_random_passes_go_on_as_they_would_have(tmp_path: Path) -> None:
    model, options = task()
    options["curvature"] = CurvatureOptions(passes="signs", subset=20, batch_size=7)
    whole = run(model, options)
    other, again = task()
    again["curvature"] = options["curvature"]
    with pytest.raises(KeyboardInterrupt):
        run(other, again, checkpoint=tmp_path / "run", progress=stopping_at(5))
    assert run(other, again, checkpoint=tmp_path / "run") == whole


def test_numbers_of_numpy_are_kept(tmp_path: Path) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 20, 2), dtype=np.float32)
    results = []
    for whole, real in ((np.int64, np.float64), (int, float)):
        torch.manual_seed(0)
        options: dict[str, Any] = {name: whole(2) for name in ("epochs", "every", "steps", "seed")}
        options |= {"burn_in": whole(1), "batch_size": whole(7), "learning_rate": real(0.01)}
        options |= {"temperature": real(1.5), "noise": real(0.5)}
        options["curvature"] = CurvatureOptions("kronecker", "signs", whole(2), subset=whole(9))
        path = tmp_path / "run"
        found = learn_priors(
            nn.Linear(2, 2), "regression", (x, y), **learning_options(checkpoint=path, **options)
        )
        results.append(found)
    assert results[0] == results[1]  # the second one has read what the first one wrote


class Noisy(MapStyle[tuple[Tensor, Tensor]]):
    """Rows with augmentation, from torch's generator or from one of its own."""

    def __init__(self, shift: float = 0.0, *, own: bool = False, rows: int = 12) -> None:
        self.shift, self.rows = shift, rows
        self.random = np.random.default_rng() if own else None

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor]:
        own = self.random
        extra = torch.rand(()) if own is None else torch.tensor(own.random()).float()
        return (row + extra).reshape(1), torch.tensor([row + self.shift])


def batches(last: float) -> list[tuple[Tensor, Tensor]]:
    x = torch.arange(4.0).unsqueeze(1)
    return [(x, x), (x, 2 * x), (x, last * x)]


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (lambda: Noisy(), lambda: Noisy(1.0)),
        (lambda: Noisy(), lambda: Noisy(rows=13)),
        (lambda: DataLoader(Noisy(), 4), lambda: DataLoader(Noisy(1.0), 4)),
        (lambda: DataLoader(Noisy(), 4), lambda: DataLoader(Noisy(), 3)),
        (lambda: DataLoader(Noisy(), 4), lambda: DataLoader(Noisy(), 4, shuffle=True)),
        (lambda: batches(3.0), lambda: batches(4.0)),
    ],
    ids=["rows", "number", "loader", "batch size", "order", "batches"],
)
def test_other_data_are_refused(
    first: Callable[[], Any], other: Callable[[], Any], tmp_path: Path
) -> None:
    options: dict[str, Any] = {"epochs": 2, "checkpoint": tmp_path / "run", "batch_size": 4}
    model = nn.Linear(1, 1)
    state = torch.get_rng_state()
    found = learn_priors(model, "regression", first(), **learning_options(**options))
    assert torch.equal(torch.get_rng_state(), state)
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same data, got one of"):
        learn_priors(model, "regression", other(), **learning_options(**options))
    assert (
        learn_priors(model, "regression", first(), **learning_options(**options)).losses
        == found.losses
    )


def test_rows_that_nobody_can_repeat_are_known_by_their_number(tmp_path: Path) -> None:
    options: dict[str, Any] = {"epochs": 2, "checkpoint": tmp_path / "run"}
    model = nn.Linear(1, 1)
    learn_priors(model, "regression", Noisy(own=True), **learning_options(**options))
    learn_priors(model, "regression", Noisy(own=True), **learning_options(**options))
    with pytest.raises(ValueError, match=r"expected a checkpoint of the same data, got one of"):
        learn_priors(model, "regression", Noisy(own=True, rows=11), **learning_options(**options))


def test_another_architecture_of_the_same_shapes_is_refused(tmp_path: Path) -> None:
    def network(between: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Linear(4, 3), between, nn.Linear(3, 2))

    class Applied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.function = lambda x: x.sin()

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.function(x)
            return y

        def extra_repr(self) -> str:
            return repr(self.function)  # with its address, another one each time

    _, options = task()
    path = tmp_path / "run"
    run(network(nn.Dropout(0.3)), options, checkpoint=path)
    run(network(nn.Dropout(0.3)), options, checkpoint=path)
    for between in (nn.Dropout(0.4), nn.Tanh()):
        with pytest.raises(ValueError, match=r"expected a checkpoint of the same model, got one"):
            run(network(between), options, checkpoint=path)
    path = tmp_path / "other"
    one, other = network(Applied()), network(Applied())
    assert str(one) != str(other)
    assert run(one, options, checkpoint=path) == run(other, options, checkpoint=path)


def test_an_optimiser_that_cannot_be_kept(tmp_path: Path) -> None:
    class Odd(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            self.state[self.param_groups[0]["params"][0]]["odd"] = [1, 2]
            return super().step(closure)

    model, options = task()
    with pytest.raises(TypeError, match=r"expected an optimiser that remembers tensors and numb"):
        run(model, options, optimiser=Odd, checkpoint=tmp_path / "run")


def test_seeds_repeat_and_leave_the_world_alone() -> None:
    results = []
    for seed, world in ((3, 0), (3, 1), (4, 0)):
        model, options = task()
        torch.manual_seed(world)
        before = torch.get_rng_state()
        results.append(run(model, options, seed=seed))
        assert torch.equal(torch.get_rng_state(), before)
    assert results[0] == results[1]
    assert results[0] != results[2]


def test_own_batches_are_shuffled_anew_by_the_seed() -> None:
    x = torch.arange(10.0).unsqueeze(1)
    seen: list[list[float]] = []

    def note(module: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        if module.training:
            seen.append(inputs[0].flatten().tolist())

    for seed in (0, 0, 1):
        model = nn.Linear(1, 1)
        model.register_forward_pre_hook(note)
        options: dict[str, Any] = {"epochs": 2, "batch_size": 5, "seed": seed}
        learn_priors(model, "regression", (x, x[:, 0]), **learning_options(**options))
    runs = [seen[4 * k : 4 * k + 4] for k in range(3)]
    assert len(seen) == 12
    assert runs[0] == runs[1] != runs[2]
    assert sorted(runs[0][0] + runs[0][1]) == x.flatten().tolist()
    assert runs[0][:2] != runs[0][2:]


# --- divergence and bad input -----------------------------------------------------------------


def test_a_loss_that_is_not_finite_leaves_the_last_finite_epoch() -> None:
    x = torch.randn(20, 3)
    model = nn.Linear(3, 1)
    kept: list[Tensor] = []
    with pytest.raises(ValueError, match=r"got (nan|inf|a non-finite).*, in epoch (\d+); the mo"):
        learn_priors(
            model,
            "regression",
            (x, x[:, 0]),
            epochs=400,
            learning_rate=1e30,
            progress=lambda step: kept.append(model.weight.detach().clone()),
            learning=LearningOptions(schedule="constant", optimiser=torch.optim.SGD),
        )
    assert len(kept) == 1
    assert torch.equal(model.weight, kept[-1])
    assert bool(model.weight.isfinite().all())


def test_a_loss_that_explodes_is_told_before_it_is_not_finite() -> None:
    x = torch.randn(20, 3)
    model = nn.Linear(3, 1)
    kept: list[Tensor] = []
    with pytest.raises(ValueError, match=r"size that it began with, .* rate is too large, in ep"):
        learn_priors(
            model,
            "regression",
            (x, x[:, 0]),
            epochs=400,
            learning_rate=3.0,
            progress=lambda step: kept.append(model.weight.detach().clone()),
            learning=LearningOptions(schedule="constant", optimiser=torch.optim.SGD),
        )
    assert len(kept) > 1
    assert torch.equal(model.weight, kept[-1])


@pytest.mark.parametrize("precision", [1.0, 1e4, 1e10])
@pytest.mark.parametrize(
    "optimiser",
    [
        torch.optim.SGD,
        partial(torch.optim.SGD, momentum=0.9),
        partial(torch.optim.SGD, momentum=0.9, nesterov=True),
        partial(torch.optim.SGD, momentum=0.5, dampening=0.5),
    ],
    ids=["plain", "momentum", "nesterov", "dampening"],
)
def test_priors_of_any_strength_are_trained_to_the_mode(precision: float, optimiser: Any) -> None:
    # gradient steps on a prior overshoot above a precision of 2 (1 + momentum) N / rate
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    learn_priors(
        model,
        "regression",
        (x, y),
        epochs=300,
        batch_size=40,
        learning_rate=0.1,
        learning=LearningOptions(schedule="constant", optimiser=optimiser, burn_in=300),
        priors=PriorOptions(precisions=precision, noise=1.0),
    )
    inner = x.T @ x + precision * torch.eye(3, dtype=torch.float64)
    mode = torch.linalg.solve(inner, x.T @ y)
    assert torch.allclose(model.weight.detach().T, mode, rtol=1e-5, atol=0)


@pytest.mark.parametrize(
    ("optimiser", "within"),
    [(torch.optim.Adam, 0.01), (partial(torch.optim.SGD, momentum=0.9), 1e-4)],
    ids=["adam", "momentum"],
)
def test_a_strong_prior_and_a_falling_rate(optimiser: Any, within: float) -> None:
    x = torch.randn(40, 3, dtype=torch.float64)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]], dtype=torch.float64)
    model = nn.Linear(3, 1, bias=False, dtype=torch.float64)
    learn_priors(
        model,
        "regression",
        (x, y),
        epochs=400,
        batch_size=40,
        learning_rate=0.05,
        learning=LearningOptions(optimiser=optimiser, burn_in=400),
        priors=PriorOptions(precisions=1e6, noise=1.0),
    )
    mode = torch.linalg.solve(x.T @ x + 1e6 * torch.eye(3, dtype=torch.float64), x.T @ y)
    assert float((model.weight.detach().T - mode).norm() / mode.norm()) < within


def test_evidence_that_is_not_finite_says_in_which_epoch() -> None:
    x = torch.randn(20, 3)
    bad = x.clone()
    bad[10] = float("inf")
    model = nn.Linear(3, 1)
    before = model.weight.detach().clone()
    options: dict[str, Any] = {"epochs": 3, "burn_in": 1, "evidence_data": (bad, x[:, 0])}
    message = r"expected finite outputs, .* in sample 10, in epoch 1; the model is as .* epoch 0"
    with pytest.raises(ValueError, match=message):
        learn_priors(model, "regression", (x, x[:, 0]), **learning_options(**options))
    assert torch.equal(model.weight, before)


class Unknown(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3, 2))
        self.frozen = nn.Parameter(torch.ones(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight * self.frozen


def test_a_layer_without_evidence_is_refused_before_training() -> None:
    x = torch.randn(20, 3)
    model = Unknown()
    with pytest.raises(ValueError, match=r"expected layers whose operations are recorded, got we"):
        learn_priors(model, "regression", (x, x[:, :2]), learning=LearningOptions(burn_in=50))
    assert bool((model.weight == 1).all())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, r"expected epochs of at least 1, got 0"),
        ({"epochs": 2.5}, r"expected epochs of at least 1, got 2.5"),
        ({"batch_size": 0}, r"expected batch_size of at least 1, got 0"),
        ({"burn_in": -1}, r"expected burn_in of at least 0, got -1"),
        ({"every": 0}, r"expected every of at least 1, got 0"),
        ({"steps": -1}, r"expected steps of at least 0, or 'best', got -1"),
        ({"steps": "most"}, r"expected steps of at least 0, or 'best', got 'most'"),
        ({"learning_rate": -1.0}, r"expected a positive number as learning_rate, got -1.0"),
        ({"hyper_learning_rate": 0}, r"expected a positive number as hyper_learning_rate, got 0"),
        ({"temperature": float("nan")}, r"expected a positive number as temperature, got nan"),
        ({"noise": 0.0}, r"expected a positive number as noise, got 0.0"),
        ({"noise": 0.5}, r"expected no noise for classification, got 0.5"),
        ({"noise": "learned"}, r"expected a number, None or 'learn' as noise, got 'learned'"),
        ({"seed": -1}, r"expected a seed in \[0, 2\*\*64\), got -1"),
        (
            {"optimiser": torch.optim.AdamW},
            r"no weight decay: the prior is that, got weight_decay=0.01",
        ),
        ({"optimiser": decaying}, r"expected no weight decay: .*, got weight_decay=0.1 in SGD"),
        (
            {"optimiser": torch.optim.ASGD},
            r"expected no weight decay: .*, got lambd=0.0001 in ASGD",
        ),
        ({"schedule": "linear"}, r"expected as schedule 'cosine' or 'constant', got 'linear'"),
        ({"hyper_schedule": None}, r"expected as hyper_schedule 'cosine' or 'constant', got None"),
        ({"curvature": {"rank": 1}}, r"expected curvature options of structure, .*, got 'rank'"),
        (
            {"curvature": CurvatureOptions(seed=1)},
            r"expected curvature options of structure, .*, got 'seed'",
        ),
        ({"curvature": {"structure": "low"}}, r"expected structure 'kronecker', .*, got 'low'"),
        (
            {"curvature": CurvatureOptions(subset=99)},
            r"expected a subset of 1 to 20 samples, got 99",
        ),
        ({"hyperparameters": ["width"]}, r"expected names of parameters of the model, got 'wid"),
        ({"precisions": -1.0}, r"expected a positive precision, got -1"),
        ({"precisions": {"weight": 1.0}}, r"expected a precision for every group, got none for"),
        ({"groups": {"other": "a"}}, r"expected groups of weight, bias, got one for 'other'"),
        ({"optimiser": torch.optim.LBFGS}, r"expected an optimiser that steps on one gradient"),
        ({"data": torch.zeros(3)}, r"expected inputs and targets, got one Tensor without targets"),
        ({"loss": "mse"}, r"expected as the loss 'classification', .*, got 'mse'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_bad_input(options: dict[str, Any], message: str) -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    given = {"loss": "classification", "data": (x, y), **options}
    with pytest.raises(ValueError, match=message):
        learn_priors(nn.Linear(3, 2), **learning_options(**given))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"curvature": "full"}, r"expected CurvatureOptions as curvature, got str"),
        ({"optimiser": "adam"}, r"expected as the optimiser a function of parameters and lr, got"),
        ({"optimiser": lambda p, lr: None}, r"expected an optimiser of torch, got NoneType"),
        ({"seed": "a"}, r"expected a whole number as the seed, got 'a'"),
        ({"seed": None}, r"expected a whole number as the seed, got None"),
    ],
    ids=["curvature", "optimiser name", "optimiser result", "seed", "no seed"],
)
def test_input_of_the_wrong_kind(options: dict[str, Any], message: str) -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    with pytest.raises(TypeError, match=message):
        learn_priors(nn.Linear(3, 2), "classification", (x, y), **learning_options(**options))


def test_training_that_several_processes_share_is_refused() -> None:
    x = torch.randn(20, 3)
    message = r"expected a model that one process trains, got {}: train it in a loop of your own"
    wrapped = nn.DataParallel(nn.Linear(3, 1))
    with pytest.raises(TypeError, match=message.format("DataParallel")):
        learn_priors(wrapped, "regression", (x, x[:, 0]))
    if not (distributed.is_available() and distributed.is_gloo_available()):
        pytest.skip("torch has no gloo here")
    store = distributed.HashStore()
    distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(3, 1))
        with pytest.raises(TypeError, match=message.format("DistributedDataParallel")):
            learn_priors(model, "regression", (x, x[:, 0]))
    finally:
        distributed.destroy_process_group()


def test_training_data_that_do_not_fit_say_in_which_epoch() -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    options: dict[str, Any] = {"epochs": 2, "evidence_data": (x, y)}
    wrong = y.clone()
    wrong[7] = 5
    with pytest.raises(ValueError, match=r"expected class labels from 0 to 1, got 5, in epoch 1"):
        learn_priors(nn.Linear(3, 2), "classification", (x, wrong), **learning_options(**options))
    bad = x.clone()
    bad[7, 0] = float("nan")
    with pytest.raises(ValueError, match=r"expected a finite loss, got nan, in epoch 1; the model"):
        learn_priors(nn.Linear(3, 2), "classification", (bad, y), **learning_options(**options))


def test_a_frozen_hyperparameter() -> None:
    x = torch.randn(20, 3)
    with pytest.raises(ValueError, match=r"expected hyperparameters that require gradients, got f"):
        learn_priors(
            Unknown(), "regression", (x, x[:, :2]), priors=PriorOptions(hyperparameters=["frozen"])
        )


def test_groups_of_paths_may_be_given() -> None:
    x = torch.randn(20, 4)
    soft = soft_layer()
    one = dict.fromkeys(path_groups(soft), "both")
    found = learn_priors(
        soft,
        "regression",
        (x, x),
        epochs=3,
        learning=LearningOptions(burn_in=1, every=1),
        priors=PriorOptions(groups=one),
    )
    assert list(found.precisions) == ["both"]
    expected = pytest.approx(1 / found.precisions["both"], rel=1e-5)
    assert soft.prior_variances == {"strict": expected, "free": expected}


def test_groups_may_split_a_path() -> None:
    x = torch.randn(20, 4)

    def make() -> PathSum:
        paths = {"strict": Linear(V, V, S(4)), "free": nn.Linear(4, 4)}
        return PathSum(paths, prior_variances={"free": 0.5, "strict": 0.25})

    split = {name: name for name in path_groups(make())}
    soft = make()
    found = learn_priors(soft, "regression", (x, x), epochs=2, priors=PriorOptions(groups=split))
    start = {name: 2.0 if "free" in name else 4.0 for name in split}
    assert found.precisions == pytest.approx(start)
    assert soft.prior_variances == pytest.approx({"free": 0.5, "strict": 0.25})
    soft = make()
    found = learn_priors(
        soft,
        "regression",
        (x, x),
        epochs=3,
        learning=LearningOptions(burn_in=1, every=1),
        priors=PriorOptions(groups=split),
    )
    weight, bias = (found.precisions[f"paths.free.{name}"] for name in ("weight", "bias"))
    assert weight != pytest.approx(bias, rel=1e-3)
    assert soft.prior_variances["free"] == pytest.approx(1 / weight, rel=1e-5)
    assert soft.tensor_variances["paths.free.bias"] == pytest.approx(1 / bias, rel=1e-5)
    again = learn_priors(soft, "regression", (x, x), epochs=1, priors=PriorOptions(groups=split))
    assert again.precisions == pytest.approx(found.precisions, rel=1e-5)


def test_precisions_on_their_way_are_not_settled() -> None:
    x = torch.randn(40, 2)
    found = learn_priors(nn.Linear(2, 1), "regression", (x, x.sum(1)), epochs=12)
    last = found.history[-1]

    def estimate(epoch: int, weight: float, bias: float, effective: float) -> Any:
        counts = {"weight": effective, "bias": 0.1}
        precisions = {"weight": weight, "bias": bias}
        return replace(
            last,
            epoch=epoch,
            loss=0.0,
            log_marginal_likelihood=0.0,
            precisions=precisions,
            noise=None,
            effective=counts,
        )

    def after(*updates: Any) -> LearnedPriors:
        return replace(found, unsettled=(), history=(*updates, updates[-1]))

    assert after(estimate(5, 1.0, 1.0, 2.0)).settled
    assert after(estimate(5, 1.0, 1.0, 2.0), estimate(6, 1.1, 9.0, 2.0)).settled
    moving = after(estimate(5, 1.0, 1.0, 2.0), estimate(6, 1.3, 1.0, 2.0))
    assert moving.moving == ("weight",)
    assert not moving.settled
    assert "on their way are weight" in str(moving)
    assert after(estimate(5, 1.0, 1.0, 0.2), estimate(6, 9.0, 1.0, 0.3)).settled


def test_keywords_that_became_options_still_work() -> None:
    x, y = torch.randn(20, 3), torch.arange(20) % 2
    learning = LearningOptions(burn_in=1, every=1, curvature=CurvatureOptions("diagonal"))
    priors = PriorOptions(groups=lambda name: "all")
    results = []
    for options in (
        {"learning": learning, "priors": priors},
        {"burn_in": 1, "every": 1, "curvature": {"structure": "diagonal"}, "groups": priors.groups},
    ):
        torch.manual_seed(0)
        call: Any = partial(learn_priors, nn.Linear(3, 2), "classification", (x, y), epochs=3)
        if "learning" in options:
            results.append(call(**options))
        else:
            with pytest.warns(DeprecationWarning, match=r"learn_priors\((learning|priors)="):
                results.append(call(**options))
    assert results[0] == results[1]
    model, old = nn.Linear(3, 2), {"structure": "full", "batch_size": 7}
    found = laplace(model, "classification", (x, y), curvature=CurvatureOptions(**old))
    again: Any = partial(laplace, model, "classification", (x, y), **old)
    with pytest.warns(DeprecationWarning, match=r"laplace\(curvature=CurvatureOptions\("):
        assert float(again().log_marginal_likelihood()) == float(found.log_marginal_likelihood())
