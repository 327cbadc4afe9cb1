"""Slopes of the log evidence beside central finite differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, evidence_gradient, laplace, log_marginal_likelihood

STRUCTURES = ("kronecker", "block", "diagonal", "full")
LOSSES = ("classification", "binary", "regression")


def finite_difference(value: Callable[[float], Tensor], at: float, step: float = 1e-4) -> float:
    """Of fourth order, so that rounding and truncation are both far below 1e-5."""
    near = value(at + step) - value(at - step)
    far = value(at + 2 * step) - value(at - 2 * step)
    return float((8 * near - far) / (12 * step))


# --- precisions, noise and temperature --------------------------------------------------------


@pytest.mark.parametrize("what", ["one precision", "precisions", "noise", "temperature"])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_slopes_in_what_is_given_to_the_evidence(twin: Any, structure: str, what: str) -> None:
    task = twin.made("conv1d", "regression")
    found = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(structure))
    names = list(found.parameters)

    def value(log_value: Any) -> Tensor:
        given = torch.as_tensor(log_value, dtype=torch.float64).exp()
        precisions = dict.fromkeys(names, 0.7)
        if what == "precisions":
            precisions[names[2]] = given
        elif what == "one precision":
            return found.log_marginal_likelihood(given, noise=0.8)
        noise = given if what == "noise" else 0.8
        temperature = given if what == "temperature" else 1.3
        return found.log_marginal_likelihood(precisions, noise=noise, temperature=temperature)

    at = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(value(at), at)
    assert float(slope) == pytest.approx(finite_difference(value, 0.4), rel=1e-8)


def test_slopes_in_a_precision_are_those_of_the_effective_parameters(twin: Any) -> None:
    """d log p(D) / d log δ = ½ (γ − δ‖θ‖²), so γ of a group is where its evidence is greatest."""
    task = twin.made("mlp")
    found = laplace(task.model, task.loss, task.data)
    for name, theta in found.parameters.items():
        at = torch.tensor(0.0, dtype=torch.float64, requires_grad=True)
        values = {other: at.exp() if other == name else 1.0 for other in found.parameters}
        (slope,) = torch.autograd.grad(found.log_marginal_likelihood(values), at)
        gamma = found.effective_parameters().counts[name]
        assert float(slope) == pytest.approx((gamma - float(theta.square().sum())) / 2, rel=1e-10)


# --- hyperparameters of layers ----------------------------------------------------------------


def basis_task(twin: Any, loss: str) -> tuple[Any, str]:
    return twin.made("basis", loss), "0.omega"


def slope_task(twin: Any, loss: str) -> tuple[Any, str]:
    def build() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), twin.Swish(), nn.Flatten(), nn.Linear(8, 3))

    return twin.filled(build, (2, 3), loss), "1.slope"


TASKS = {"lengthscale": basis_task, "activation": slope_task}


def slopes_of(
    task: Any, name: str, precisions: float, **options: Any
) -> tuple[float, float, float]:
    """By finite differences, with a graph, and batch by batch."""
    parameter = task.model.get_parameter(name)
    start = float(parameter.detach())
    passing = {"noise": 0.6} if task.loss == "regression" else {}

    def value(at: float) -> Tensor:
        with torch.no_grad():
            parameter.fill_(at)
        return log_marginal_likelihood(
            task.model,
            task.loss,
            task.data,
            precisions,
            hyperparameters=[name],
            curvature=CurvatureOptions(**options),
            **passing,
        )

    wanted = finite_difference(value, start)
    value(start)
    whole = log_marginal_likelihood(
        task.model,
        task.loss,
        task.data,
        precisions,
        hyperparameters=[name],
        create_graph=True,
        curvature=CurvatureOptions(**options),
        **passing,
    )
    (graph,) = torch.autograd.grad(whole, parameter)
    again, gradient = evidence_gradient(
        task.model,
        task.loss,
        task.data,
        [name],
        precisions,
        curvature=CurvatureOptions(**options),
        **passing,
    )
    assert float(again) == pytest.approx(float(whole.detach()), rel=1e-13)
    assert not again.requires_grad
    return wanted, float(graph), float(gradient[name])


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kind", TASKS)
def test_slopes_in_hyperparameters(twin: Any, kind: str, loss: str, structure: str) -> None:
    task, name = TASKS[kind](twin, loss)
    wanted, graph, by_batch = slopes_of(task, name, 0.6, structure=structure, batch_size=2)
    assert graph == pytest.approx(wanted, rel=1e-6)
    assert by_batch == pytest.approx(graph, rel=1e-11)


@pytest.mark.parametrize("sharing", ["reduce", "exact"])
@pytest.mark.parametrize("kind", TASKS)
def test_slopes_with_modes_of_sharing(twin: Any, kind: str, sharing: str) -> None:
    task, name = TASKS[kind](twin, "classification")
    wanted, graph, by_batch = slopes_of(task, name, 0.6, sharing=sharing, batch_size=3)
    assert graph == pytest.approx(wanted, rel=1e-6)
    assert by_batch == pytest.approx(graph, rel=1e-11)


@pytest.mark.parametrize("structure", ["kronecker", "full"])
@pytest.mark.parametrize("loss", LOSSES)
def test_slopes_with_random_signs(twin: Any, loss: str, structure: str) -> None:
    task, name = TASKS["activation"](twin, loss)
    wanted, graph, by_batch = slopes_of(
        task, name, 0.6, passes="signs", probes=2, seed=5, structure=structure, batch_size=2
    )
    assert graph == pytest.approx(wanted, rel=1e-6)
    assert by_batch == pytest.approx(graph, rel=1e-11)


def test_slopes_of_a_subset(twin: Any) -> None:
    task, name = TASKS["lengthscale"](twin, "regression")
    wanted, graph, by_batch = slopes_of(task, name, 0.6, subset=3, seed=1, batch_size=2)
    assert graph == pytest.approx(wanted, rel=1e-6)
    assert by_batch == pytest.approx(graph, rel=1e-11)


def test_slopes_of_several_hyperparameters_at_once_and_what_they_leave_behind(twin: Any) -> None:
    def build() -> nn.Module:
        layers = twin.BasisConvolution(1, 2, 3), twin.Swish(), nn.Flatten(), nn.Linear(18, 3)
        return nn.Sequential(*layers)

    task = twin.filled(build, (1, 3, 3))
    names = ["1.slope", "0.omega"]
    task.model.train()
    _, both = evidence_gradient(task.model, task.loss, task.data, names, 2.0)
    assert list(both) == names
    for name in names:
        other = next(n for n in names if n != name)
        task.model.get_parameter(other).requires_grad_(False)
        assert float(both[name]) == pytest.approx(slopes_of(task, name, 2.0)[0], rel=1e-6)
        task.model.get_parameter(other).requires_grad_(True)
    assert task.model.training
    assert all(parameter.grad is None for parameter in task.model.parameters())


def test_gradients_reach_given_parameters(twin: Any) -> None:
    """With a graph the evidence is a function of the parameters too, prior and all."""
    task = twin.made("mlp", "regression")
    values = task.parameters

    def value(at: Any, **options: Any) -> Tensor:
        shift = {"0.weight": values["0.weight"] * at}
        return log_marginal_likelihood(
            task.model,
            task.loss,
            task.data,
            0.5,
            params={**values, **shift},
            curvature=CurvatureOptions(**options),
        )

    at = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    others = {n: v.clone().requires_grad_() for n, v in values.items()}
    others["0.weight"] = values["0.weight"] * at
    with_graph = log_marginal_likelihood(
        task.model, task.loss, task.data, 0.5, params=others, create_graph=True
    )
    (slope,) = torch.autograd.grad(with_graph, at)
    assert float(slope) == pytest.approx(finite_difference(value, 1.0), rel=1e-7)


# --- what was wrong once ----------------------------------------------------------------------


def given(twin: Any) -> tuple[Any, str, dict[str, Tensor]]:
    task, name = TASKS["activation"](twin, "regression")
    return task, name, {n: p.clone() for n, p in task.parameters.items() if n != name}


def test_a_graph_with_given_values_that_have_none(twin: Any) -> None:
    task, name, values = given(twin)
    own = log_marginal_likelihood(
        task.model, task.loss, task.data, hyperparameters=[name], create_graph=True
    )
    other = log_marginal_likelihood(
        task.model, task.loss, task.data, params=values, create_graph=True
    )
    parameter = task.model.get_parameter(name)
    (right,), (ours,) = (torch.autograd.grad(value, parameter) for value in (own, other))
    assert float(ours) == pytest.approx(float(right))


def test_slopes_by_batch_with_given_values(twin: Any) -> None:
    task, name, values = given(twin)
    _, right = evidence_gradient(task.model, task.loss, task.data, [name])
    _, ours = evidence_gradient(task.model, task.loss, task.data, [name], params=values)
    assert float(ours[name]) == pytest.approx(float(right[name]))


def test_slopes_in_a_frozen_hyperparameter(twin: Any) -> None:
    task, name = TASKS["activation"](twin, "regression")
    _, right = evidence_gradient(task.model, task.loss, task.data, [name])
    task.model.get_parameter(name).requires_grad_(False)
    _, ours = evidence_gradient(task.model, task.loss, task.data, [name])
    assert float(ours[name]) == pytest.approx(float(right[name]))
