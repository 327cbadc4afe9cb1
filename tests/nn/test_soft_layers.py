"""A softened EMLP is the sum of its paths, however it is computed and differentiated."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functional_call, stack_module_state, vmap

from isotropy.groups import SO, O, O2eR3, SO2eR3
from isotropy.nn import EMLP, PathSum, log_prior, record, soften
from isotropy.reps import Scalar, T, V

NETWORKS: dict[str, Callable[..., EMLP]] = {
    "O(3)": lambda **how: EMLP(2 * V + Scalar, V + Scalar, O(3), channels=60, layers=2, **how),
    "O(3) to tensors": lambda **how: EMLP(
        Scalar + V, T(2), O(3), channels=4 * Scalar + 5 * V + 2 * T(2) + T(3), layers=2, **how
    ),
    "SO(3), terms apart": lambda **how: EMLP(
        V + 2 * Scalar + V, V, SO(3), channels=V + 2 * Scalar + V + T(2), layers=2, **how
    ),
    "O2eR3": lambda **how: EMLP(2 * V, V + Scalar, O2eR3(), channels=40, layers=2, **how),
    "SO2eR3": lambda **how: EMLP(2 * V, V + Scalar, SO2eR3(), channels=40, layers=2, **how),
}


def softened(name: str, *, swish: bool = True, **how: bool) -> nn.Module:
    """A network whose flexible paths count as much as the strict ones."""
    torch.manual_seed(0)
    strict = NETWORKS[name](dtype=torch.float64, **how)
    return soften(strict, start=1.0, swish=swish)


def rows(model: nn.Module, *lead: int, seed: int = 1) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*lead, model.in_features, dtype=torch.float64, generator=rng)


def slow(model: EMLP, x: Tensor) -> Tensor:
    """The sum of what each path gives by itself, in the coordinates of the input."""
    for block in model.blocks:
        y = PathSum.forward(block.linear, x)
        if block.bilinear is not None:
            gates, values = y.split([block.gates, block.out_features], -1)
            y = torch.cat([gates, values + block.bilinear(values)], -1)
        x = block.nonlinearity(y)
    return PathSum.forward(model.head, x)


def gradients(model: nn.Module, y: Tensor) -> dict[str, Tensor]:
    rng = torch.Generator().manual_seed(2)
    above = torch.randn(y.shape, dtype=y.dtype, generator=rng)
    named = dict(model.named_parameters())
    found = torch.autograd.grad(y, list(named.values()), above)
    return dict(zip(named, found, strict=True))


def assert_same(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-9, atol=1e-10, msg=name)


# --- against the sum of paths -----------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"swish": False}, {"bilinear": False}], ids=str)
@pytest.mark.parametrize("name", NETWORKS)
def test_training_steps_are_those_of_the_sum_of_paths(name: str, how: dict[str, bool]) -> None:
    model = softened(name, **how)
    x = rows(model, 3, 2)
    y, wanted = model(x), slow(model, x)
    torch.testing.assert_close(y, wanted, rtol=1e-10, atol=1e-11)
    assert_same(gradients(model, y), gradients(model, wanted))


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_of_inputs_are_those_of_the_sum_of_paths(name: str) -> None:
    model = softened(name)
    x = rows(model, 4).requires_grad_()
    found, wanted = (
        torch.autograd.grad(f.square().sum(), x)[0] for f in (model(x), slow(model, x))
    )
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-10)


def test_no_samples_and_no_gradients_are_fine() -> None:
    model = softened("O(3)")
    assert model(rows(model, 0)).shape == (0, 4)
    with torch.no_grad():
        quiet = model(rows(model, 3))
    torch.testing.assert_close(quiet, model(rows(model, 3)).detach())


# --- other ways to differentiate --------------------------------------------------------------


@pytest.mark.parametrize("name", NETWORKS)
def test_a_gradient_of_a_gradient_of_weights_is_that_of_the_sum_of_paths(name: str) -> None:
    model = softened(name)
    x, found = rows(model, 3), []
    for y in (model(x), slow(model, x)):
        once = torch.autograd.grad(y.square().sum(), list(model.parameters()), create_graph=True)
        length = sum(g.square().sum() for g in once)
        twice = torch.autograd.grad(length, list(model.parameters()))
        found.append(dict(zip((n for n, _ in model.named_parameters()), twice, strict=True)))
    assert_same(*found)


def test_copies_run_together() -> None:
    models = [softened("O(3)") for _ in range(2)]
    with torch.no_grad():
        for parameter in models[1].parameters():
            parameter.mul_(0.7)
    stacked, buffers = stack_module_state(models)
    x = rows(models[0], 4)

    def loss(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        return functional_call(models[0], (parameters, buffers), (x,)).square().sum()

    together = vmap(torch.func.grad(loss))(stacked, buffers)
    for k, model in enumerate(models):
        named = dict(model.named_parameters())
        alone = torch.autograd.grad(model(x).square().sum(), list(named.values()))
        assert_same(
            {name: g[k] for name, g in together.items()}, dict(zip(named, alone, strict=True))
        )


def test_forward_mode_agrees_with_the_backward_pass() -> None:
    model = softened("SO2eR3")
    x, weight = rows(model, 4), model.blocks[0].linear.free.weight
    direction = torch.randn_like(weight)
    backward = (torch.autograd.grad(model(x).sum(), weight)[0] * direction).sum()
    name = "blocks.0.linear.paths.free.weight"
    with forward_ad.dual_level():
        dual = {name: forward_ad.make_dual(weight, direction)}
        tangent = forward_ad.unpack_dual(functional_call(model, dual, (x,)).sum()).tangent
    torch.testing.assert_close(tangent, backward)


def test_the_network_is_one_graph_and_leaves_as_a_program() -> None:
    model = softened("O(3)")
    x = rows(model, 4)
    whole = torch.compile(model, fullgraph=True, backend="eager")
    assert_same(gradients(model, whole(x)), gradients(model, slow(model, x)))
    program = torch.export.export(model, (x,)).module()
    torch.testing.assert_close(program(x), slow(model, x))


def test_autocast_lowers_the_precision_of_both_passes() -> None:
    model = softened("O(3)").float()
    x = rows(model, 4).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = model(x)
    wanted = slow(model, x)
    assert 0 < float((y - wanted).detach().abs().max()) < 0.2 * float(wanted.detach().abs().max())
    assert all(g.isfinite().all() for g in gradients(model, y.float()).values())


def test_records_have_the_gradients_of_all_weights() -> None:
    model = softened("O(3) to tensors")
    x = rows(model, 3)
    wanted = gradients(model, model(x))
    with record(model) as operations:
        y = model(x)
    rng = torch.Generator().manual_seed(2)
    above = torch.randn(y.shape, dtype=y.dtype, generator=rng)
    found = {name: torch.zeros_like(p).flatten() for name, p in model.named_parameters()}
    at = torch.autograd.grad(y, [op.output for op in operations], above)
    for op, g in zip(operations, at, strict=True):
        own = op.input_rows(), op.gradient_rows(g)
        if op.blocks:
            a, b = (v.flatten(0, -3) for v in own)
            product = torch.einsum("sbi,sbo->boi", a, b)
        else:
            a, b = (v.flatten(0, -2) for v in own)
            product = b.mT @ a
        places = torch.arange(product.numel()) if op.entries is None else op.entries.flatten()
        found[op.parameter].index_add_(0, places, product.flatten())
    assert_same({name: g.view_as(wanted[name]) for name, g in found.items()}, wanted)


# --- the prior --------------------------------------------------------------------------------


def test_the_prior_pulls_every_entry_towards_zero() -> None:
    model = softened("O(3)").double()
    value = log_prior(model, samples=10)
    named = dict(model.named_parameters())
    found = torch.autograd.grad(
        value, list(named.values()), create_graph=True, allow_unused=True, materialize_grads=True
    )
    for (name, theta), g in zip(named.items(), found, strict=True):
        owner, _, tensor = name.partition(".paths.")
        if not tensor:
            assert not g.any()  # bilinear weights have a flat prior
            continue
        layer = model.get_submodule(owner)
        c = layer.tensor_squared_lengths.get(f"paths.{tensor}", torch.ones((), dtype=torch.float64))
        precision = c / layer.tensor_variances[f"paths.{tensor}"] / 10
        torch.testing.assert_close(g, -theta * precision, msg=name)
        (curvature,) = torch.autograd.grad(g.sum(), theta, retain_graph=True)
        torch.testing.assert_close(curvature, -precision.expand_as(theta), msg=name)


def test_the_prior_is_the_same_under_transforms() -> None:
    model = softened("O(3)")
    named = dict(model.named_parameters())

    class Prior(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            return log_prior(self.model)

    def value(parameters: dict[str, Tensor]) -> Tensor:
        return functional_call(Prior(), {f"model.{n}": p for n, p in parameters.items()}, ())

    found = torch.func.grad(value)(named)
    wanted = torch.autograd.grad(
        log_prior(model), list(named.values()), allow_unused=True, materialize_grads=True
    )
    assert_same(found, dict(zip(named, wanted, strict=True)))
