"""Recorded operations give back the outputs and the gradients of the network they are from."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from isotropy.groups import O, S, SO13p
from isotropy.nn import (
    EMLP,
    BiLinear,
    Linear,
    LinearOperation,
    SharedLinear,
    fixed_weights,
    record,
)
from isotropy.reps import Scalar, T, V

MODELS: dict[str, Callable[[], nn.Module]] = {
    "orthogonal": lambda: Linear(V + 2 * Scalar + T(2), Scalar + V, O(3)),
    "Lorentz": lambda: Linear(V + Scalar, V.T + Scalar, SO13p()),
    "permutations": lambda: Linear(2 * V, V + Scalar, S(3)),
    "shared": lambda: SharedLinear(torch.tensor([[0, 1, -1], [1, 0, 2]])),
    "bilinear": lambda: BiLinear(2 * V + T(2), Scalar + V, O(3)),
    "orthogonal network": lambda: EMLP(2 * V, V + Scalar, O(3), channels=18, layers=2),
    "Lorentz network": lambda: EMLP(2 * V, V + Scalar, SO13p(), channels=16, layers=2),
    "permutation network": lambda: EMLP(2 * V, V, S(3), channels=18, layers=2),
    "norm network": lambda: EMLP(2 * V, V, O(3), channels=18, layers=1, nonlinearity="norm"),
}


def built(name: str) -> nn.Module:
    model = MODELS[name]().double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def rows(model: nn.Module, n: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(n, model.in_features, dtype=torch.float64, generator=rng)


def weight_of(operation: LinearOperation, parameter: Tensor) -> Tensor:
    weight = parameter if operation.space is None else operation.space(parameter)
    return (weight.mT if operation.transposed else weight) * operation.scale


def bias_of(operation: LinearOperation, parameters: dict[str, Tensor]) -> Tensor | float:
    if operation.bias is None:
        return 0.0
    bias = parameters[operation.bias]
    return bias if operation.bias_space is None else operation.bias_space(bias)


@pytest.mark.parametrize("name", MODELS)
def test_every_output_is_its_input_times_the_weight(name: str) -> None:
    model = built(name)
    x = rows(model, 5)
    with record(model) as operations:
        y = model(x)
    parameters = dict(model.named_parameters())
    assert operations
    for operation in operations:
        assert operation.parameter in parameters
        weight = weight_of(operation, parameters[operation.parameter])
        expected = operation.input @ weight.mT + bias_of(operation, parameters)
        torch.testing.assert_close(operation.output, expected)
    torch.testing.assert_close(y, model(x))
    if isinstance(model, Linear | SharedLinear):
        (operation,) = operations
        assert torch.equal(operation.output, y)
        assert torch.equal(operation.input, x)
        torch.testing.assert_close(
            weight_of(operation, parameters[operation.parameter]), model.weight
        )


@pytest.mark.parametrize("name", MODELS)
def test_every_weight_is_recorded_under_its_name(name: str) -> None:
    model = nn.ModuleDict({"inner": nn.Sequential(nn.Identity(), built(name))})
    layer = model["inner"]
    with record(model) as operations:
        layer(rows(layer[1], 5))
    named = {o.parameter for o in operations} | {o.bias for o in operations if o.bias}
    every = {key for key, p in model.named_parameters() if p.numel()}
    assert named <= every
    # offsets of a norm nonlinearity are no weights of a linear operation
    left = {key for key in every - named if "nonlinearity" not in key}
    assert not left


@pytest.mark.parametrize("name", MODELS)
def test_inputs_and_gradients_at_outputs_give_the_gradient_of_each_weight(name: str) -> None:
    """What curvature is made of: dL/dW = Σ g xᵀ, pulled back to the coefficients."""
    model = built(name)
    with record(model) as operations:
        loss = model(rows(model, 5)).square().sum()
    parameters = dict(model.named_parameters())
    expected = torch.autograd.grad(
        loss, tuple(parameters.values()), retain_graph=True, allow_unused=True
    )
    at_outputs = torch.autograd.grad(loss, [o.output for o in operations])
    found: dict[str, Tensor] = {}
    for operation, g in zip(operations, at_outputs, strict=True):
        matrix = torch.einsum("...i,...j->ij", g, operation.input)
        parameter = parameters[operation.parameter]
        (pulled,) = torch.autograd.grad(
            (weight_of(operation, parameter) * matrix.detach()).sum(), parameter
        )
        found[operation.parameter] = found.get(operation.parameter, 0) + pulled
        if operation.bias is not None:
            bias = parameters[operation.bias]
            total = g.reshape(-1, g.shape[-1]).sum(0).detach()
            (pulled,) = torch.autograd.grad((bias_of(operation, parameters) * total).sum(), bias)
            found[operation.bias] = found.get(operation.bias, 0) + pulled
    for (key, _), gradient in zip(parameters.items(), expected, strict=True):
        if key in found:
            torch.testing.assert_close(found[key], gradient)
    assert len(found) == len(
        {o.parameter for o in operations} | {o.bias for o in operations} - {None}
    )


def test_operations_come_in_the_order_in_which_they_happened() -> None:
    first, second = Linear(V, V, S(3)), Linear(V, V, S(3))
    model = nn.ModuleDict({"b": second, "a": first})
    x = torch.randn(2, 3)
    with record(model) as operations:
        second(first(first(x)))
    names = [operation.parameter for operation in operations]
    assert names == ["a.coefficients", "a.coefficients", "b.coefficients"]
    assert torch.equal(operations[0].output, operations[1].input)


def test_nothing_is_recorded_outside_and_nothing_of_torch_itself() -> None:
    layer = Linear(V, V, S(3))
    model = nn.Sequential(layer, nn.SiLU(), nn.Linear(3, 3))
    model(torch.randn(2, 3))
    with record(model) as operations:
        assert operations == []
        model(torch.randn(2, 3))
    assert [operation.parameter for operation in operations] == ["0.coefficients"]
    model(torch.randn(2, 3))
    layer(torch.randn(2, 3))
    assert len(operations) == 1


def test_layers_are_recorded_within_fixed_weights() -> None:
    model = built("permutation network")
    x = rows(model, 4)
    with record(model) as free:
        expected = model(x)
    with fixed_weights(model), record(model) as fixed:
        torch.testing.assert_close(model(x), expected)
    assert [o.parameter for o in fixed] == [o.parameter for o in free]


def test_a_record_within_another_gives_way_after_it() -> None:
    model = nn.Sequential(Linear(V, V, S(3)), Linear(V, V, S(3)))
    x = torch.randn(2, 3)
    with record(model) as outer:
        model(x)
        with record(model[1]) as inner:
            model(x)
        model(x)
    assert [o.parameter for o in inner] == ["coefficients"]
    assert [o.parameter for o in outer] == [
        "0.coefficients",
        "1.coefficients",
        "0.coefficients",  # the other layer was with the inner record
        "0.coefficients",
        "1.coefficients",
    ]
    model(x)
    assert len(outer) == 5


def in_vain(layer: nn.Module, x: Tensor, kept: list[LinearOperation]) -> None:
    """Record one call that works and one that fails."""
    with record(layer) as operations:
        layer(x)
        kept += operations
        layer(x[:, :1])


def test_records_are_put_back_after_an_error() -> None:
    model = nn.Sequential(Linear(V, V, S(3)))
    x = torch.randn(2, 3)
    inner: list[LinearOperation] = []
    with record(model) as outer:
        with pytest.raises(ValueError, match=r"expected inputs of width 3"):
            in_vain(model[0], x, inner)
        model(x)
    model(x)
    assert [o.parameter for o in inner] == ["coefficients"]
    assert [o.parameter for o in outer] == ["0.coefficients"]


def test_a_record_without_gradients_keeps_no_graph() -> None:
    model = built("orthogonal network")
    with torch.no_grad(), record(model) as operations:
        model(rows(model, 3))
    assert not any(operation.output.requires_grad for operation in operations)
    with record(model) as operations:
        model(rows(model, 3))
    assert all(operation.output.requires_grad for operation in operations)


def test_operations_cannot_be_changed() -> None:
    with record(layer := Linear(V, V, S(3))) as operations:
        layer(torch.randn(2, 3))
    with pytest.raises(AttributeError, match=r"cannot assign to field"):
        operations[0].parameter = "another"
