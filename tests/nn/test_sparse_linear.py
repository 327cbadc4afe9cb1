"""Sparse factored layers beside sums over positions, and their evidence beside brute force."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from math import cos, pi, sin
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev

from isotropy.evidence import CurvatureOptions, evidence_gradient, laplace, log_marginal_likelihood
from isotropy.nn import SparseLinear, record

KINDS = pytest.mark.parametrize("basis", ["normalised", "interpolating", "plain"])
OMEGAS = ["0.inner_basis.omega", "0.outer_basis.omega"]


def made(*args: Any, **options: Any) -> SparseLinear:
    torch.manual_seed(3)
    layer = SparseLinear(*args, dtype=torch.float64, **options)
    if layer.inner_bias is not None:
        nn.init.normal_(layer.inner_bias)
    return layer


def maps(*shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


def circle(n: int) -> Tensor:
    """The elements of Z(n)."""
    return torch.tensor([[cos(2 * pi * k / n), sin(2 * pi * k / n)] for k in range(n)])


@KINDS
def test_the_layer_is_two_sums(basis: Any) -> None:
    layer, x = made(2, 3, (3, 4), (2, 2), basis=basis), maps(5, 2, 3, 4)
    inner = (layer.inner @ layer.inner_basis()).detach()
    outer = (layer.outer @ layer.outer_basis()).detach()
    bias = layer.inner_bias.detach()
    expected = torch.zeros(5, 3, 4, dtype=torch.float64)
    for out, into in np.ndindex(3, 2):
        middle = (x[:, into].reshape(5, 12) * inner[out, into]).sum(1) + bias[out]
        expected[:, out] += middle[:, None] * outer[out, into]
    torch.testing.assert_close(layer(x), expected.reshape(5, 3, 2, 2))


def test_the_map_written_out_is_the_layer_without_its_bias() -> None:
    layer, x = made(2, 3, (3, 4), (2, 2), bias=False), maps(5, 2, 3, 4)
    matrix = layer.weight.reshape(12, 24)
    torch.testing.assert_close(layer(x).flatten(1), x.flatten(1) @ matrix.mT)
    ranks = torch.linalg.matrix_rank(layer.weight.permute(0, 2, 1, 3).detach())
    assert torch.equal(ranks, torch.ones(3, 2, dtype=torch.int64))


def test_half_as_many_anchors_as_positions_rounded_upwards() -> None:
    layer = made(2, 3, (3, 3), (1, 1))
    shapes = {name: tuple(p.shape) for name, p in layer.named_parameters()}
    assert shapes == {
        "inner": (3, 2, 5),
        "outer": (3, 2, 1),
        "inner_bias": (3,),
        "inner_basis.omega": (),
        "outer_basis.omega": (),
    }
    fewer = made(2, 3, (4, 4), anchors_in=0.2, anchors_out=torch.zeros(3, 2))
    assert fewer.inner.shape == (3, 2, 4)
    assert fewer.outer.shape == (3, 2, 3)


def test_factors_start_as_the_best_fit_to_those_of_a_factored_layer() -> None:
    torch.manual_seed(5)
    at = torch.rand(5, 2)
    layer = SparseLinear(
        8, 16, 3, anchors_in=at, anchors_out=at, basis="interpolating", dtype=torch.float64
    )
    torch.manual_seed(5)
    torch.rand(5, 2)
    phi = layer.inner_basis().detach().numpy()
    for u, summands in ((layer.inner, 9), (layer.outer, 8)):
        bound = (3 / summands) ** 0.5
        target = torch.empty(16, 8, 9, dtype=torch.float64).uniform_(-bound, bound)
        expected = np.linalg.lstsq(phi.T, target.reshape(128, 9).numpy().T, rcond=None)[0].T
        np.testing.assert_allclose(u.detach().reshape(128, 5).numpy(), expected, rtol=1e-7)
    assert torch.equal(layer.inner_bias, torch.zeros(16, dtype=torch.float64))


def test_factors_of_other_bases_start_with_the_same_mean_square() -> None:
    layer = made(24, 40, (5, 6), (4, 3))
    assert (layer.inner_basis.kind, layer.outer_basis.kind) == ("normalised", "normalised")
    for u, phi, summands in (
        (layer.inner, layer.inner_basis(), 30),
        (layer.outer, layer.outer_basis(), 24),
    ):
        assert float((u @ phi).detach().square().mean()) == pytest.approx(1 / summands, rel=0.05)


# --- limits ---------------------------------------------------------------------------------


@KINDS
def test_without_lengthscales_the_layer_is_strictly_equivariant(basis: Any) -> None:
    layer = made(2, 3, (4, 5), omega=0.0, basis=basis)
    for u in (layer.inner, layer.outer):
        nn.init.normal_(u)
    x = maps(2, 2, 4, 5)
    y = layer(x)
    torch.testing.assert_close(y, y[:, :, :1, :1].expand_as(y), rtol=1e-10, atol=1e-12)
    for shift in ((1, 0), (0, 1), (2, 3)):
        torch.testing.assert_close(layer(x.roll(shift, (2, 3))), y, rtol=1e-10, atol=1e-10)
    assert float((y[0] - y[1]).detach().abs().max()) > 1e-3  # and not constant altogether


@pytest.mark.parametrize("side", ["inner", "outer"])
def test_each_lengthscale_rules_one_side(side: str) -> None:
    layer, x = made(2, 3, (4, 5)), maps(2, 2, 4, 5)
    nn.init.zeros_(layer.get_parameter(f"{side}_basis.omega"))
    y = layer(x)
    same_in = torch.allclose(layer(x.roll(1, 2)), y, rtol=1e-9, atol=1e-11)
    same_out = torch.allclose(y, y[:, :, :1, :1].expand_as(y), rtol=1e-9, atol=1e-11)
    assert (same_in, same_out) == (side == "inner", side == "outer")


# --- positions that are not those of a grid ---------------------------------------------------


def test_positions_may_be_elements_of_a_group() -> None:
    layer, x = made(2, 3, circle(8)), maps(2, 2, 8)
    assert layer(x).shape == (2, 3, 8)
    assert {tuple(z) for z in layer.inner_basis.anchors.tolist()} <= {
        tuple(z) for z in circle(8).double().tolist()
    }
    # neighbours on the circle are neighbours, the last and the first too
    values = layer.inner_basis()
    nearest = torch.cdist(layer.inner_basis.anchors, circle(8).double())
    correlation = torch.corrcoef(torch.stack([values.flatten(), -nearest.flatten()]))
    assert float(correlation[0, 1].detach()) > 0
    with torch.no_grad():
        layer.inner_basis.omega.zero_()
        layer.outer_basis.omega.zero_()
    shifted = layer(x.roll(3, 2))
    torch.testing.assert_close(shifted, layer(x).roll(3, 2), rtol=1e-10, atol=1e-10)


def test_a_side_may_be_a_grid_and_the_other_a_group() -> None:
    assert made(2, 3, (4, 5), circle(6))(maps(1, 2, 4, 5)).shape == (1, 3, 6)
    assert made(2, 3, circle(6), (4, 5))(maps(1, 2, 6)).shape == (1, 3, 4, 5)


# --- evidence -------------------------------------------------------------------------------


def network(**options: Any) -> nn.Module:
    return nn.Sequential(
        made(2, 3, (2, 3), (2, 2), omega=0.8, **options),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(12, 3).double(),
    )


def data(samples: int = 6) -> tuple[Tensor, Tensor]:
    return maps(samples, 2, 2, 3), torch.arange(samples) % 3


def brute_force(model: nn.Module, x: Tensor, name: str) -> Tensor:
    """Σ JᵀΛJ of the block of one parameter, a sample at a time."""
    parameters = {n: p.detach() for n, p in model.named_parameters()}
    total = 0
    for sample in x:

        def outputs(value: Tensor, sample: Tensor = sample) -> Tensor:
            return functional_call(model, {**parameters, name: value}, (sample[None],))[0]

        jacobian = jacrev(outputs)(parameters[name]).reshape(3, -1)
        curvature = hessian(lambda f: f.logsumexp(0))(outputs(parameters[name]))
        total = total + jacobian.mT @ curvature @ jacobian
    return total


@KINDS
def test_operations_give_the_gradient_of_every_parameter_for_every_sample(
    basis: Any,
) -> None:
    layer, x = made(2, 3, (2, 3), (2, 2), basis=basis), maps(4, 2, 2, 3)
    weights = maps(4, 3, 2, 2)
    with record(layer) as operations:
        loss = (layer(x) * weights).sum()
    parameters = dict(layer.named_parameters())
    assert sorted(o.parameter for o in operations) == sorted(parameters)
    gradients = torch.autograd.grad(loss, [o.output for o in operations])
    for operation, gradient in zip(operations, gradients, strict=True):
        twice = torch.cat([gradient, 2 * gradient])  # gradients of two passes at once
        a, g = operation.input_rows(), operation.gradient_rows(twice)
        assert g.shape[:-1] == (8, *a.shape[1:-1])
        torch.testing.assert_close(g[4:], 2 * g[:4])
        outer = g[:4].unsqueeze(-1) * a.unsqueeze(-2)
        found = outer if operation.blocks else outer.reshape(4, -1, *outer.shape[-2:]).sum(1)
        whole = torch.zeros(4, parameters[operation.parameter].numel(), dtype=torch.float64)
        if operation.entries is None:
            whole += found.flatten(1)
        else:
            whole[:, operation.entries.flatten()] += found.flatten(1)
        for n in range(4):
            alone = (layer(x[n : n + 1]) * weights[n]).sum()
            (expected,) = torch.autograd.grad(alone, parameters[operation.parameter])
            torch.testing.assert_close(whole[n].reshape(expected.shape), expected)


@KINDS
def test_blocks_are_those_of_brute_force(basis: Any) -> None:
    model, (x, y) = network(basis=basis), data()
    found = laplace(model, "classification", (x, y), curvature=CurvatureOptions("block"))
    factored = laplace(model, "classification", (x, y))
    for name in ("0.inner", "0.outer", "0.inner_bias", *OMEGAS):
        expected = brute_force(model, x, name)
        (block,) = found.blocks[name]
        torch.testing.assert_close(block.dense().detach(), expected, rtol=1e-9, atol=1e-12)
        if name in OMEGAS:  # a single number has no factors
            (block,) = factored.blocks[name]
            torch.testing.assert_close(block.dense().detach(), expected, rtol=1e-9, atol=1e-12)


def test_factors_are_those_of_the_factored_layer_in_the_basis() -> None:
    """A block of size M × M for each input channel, and one of C × C for each output channel."""
    model, (x, y) = network(), data()
    layer = model[0]
    found = laplace(model, "classification", (x, y))
    (inner,), (outer,) = found.blocks["0.inner"], found.blocks["0.outer"]
    assert inner.input.shape == (2, 3, 3)
    assert outer.input.shape == (3, 2, 2)
    rows = x.flatten(2) @ layer.inner_basis().mT
    expected = torch.einsum("nci,ncj->cij", rows, rows) / len(x)
    torch.testing.assert_close(inner.input.detach(), expected.detach())
    middle = torch.einsum("ncm,dcm->ncd", rows, layer.inner) + layer.inner_bias
    expected = torch.einsum("ncd,ned->dce", middle, middle) / len(x)
    torch.testing.assert_close(outer.input.detach(), expected.detach())


@pytest.mark.filterwarnings("ignore:expected samples of all 3 classes")
def test_one_datum_has_exact_factors() -> None:
    """With a single row for each block, Kronecker factors leave nothing out within it."""
    model, (x, y) = network(), data(1)
    found = laplace(model, "classification", (x, y))
    for name, axis in (("0.inner", 1), ("0.outer", 0)):
        (block,) = found.blocks[name]
        size = model.get_parameter(name).shape
        places = torch.arange(size.numel()).reshape(size).movedim(axis, 0).flatten(1)
        ours, expected = block.dense().detach(), brute_force(model, x, name)
        for own in places:
            within = own[:, None], own
            torch.testing.assert_close(ours[within], expected[within], rtol=1e-9, atol=1e-13)


def slope_by_differences(value: Callable[[], Tensor], entry: Tensor, step: float = 1e-4) -> float:
    """Of fourth order, so that rounding and truncation are both far below 1e-5."""

    def at(shift: float) -> float:
        with torch.no_grad():
            entry.add_(shift)
            found = float(value())
            entry.sub_(shift)
        return found

    return (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)


@KINDS
@pytest.mark.parametrize("loss", ["classification", "regression"])
def test_slopes_of_the_evidence_in_lengthscales_and_anchors(loss: str, basis: Any) -> None:
    names = [*OMEGAS, "0.outer_basis.anchors", "0.inner_basis.anchors"]
    model = network(basis=basis, learn_anchors=True)
    x, y = data()
    target = y if loss == "classification" else maps(6, 3)

    def value(**options: Any) -> Tensor:
        return log_marginal_likelihood(
            model, loss, (x, target), 2.0, hyperparameters=names, **options
        )

    parameters = [model.get_parameter(name) for name in names]
    graph = torch.autograd.grad(value(create_graph=True), parameters)
    _, batched = evidence_gradient(
        model, loss, (x, target), names, 2.0, curvature=CurvatureOptions(batch_size=4)
    )
    for name, parameter, by_graph in zip(names, parameters, graph, strict=True):
        place = (0, 1) if parameter.ndim else ()
        expected = slope_by_differences(value, parameter.data[place])
        assert float(by_graph[place]) == pytest.approx(expected, rel=1e-5)
        assert float(batched[name][place]) == pytest.approx(expected, rel=1e-5)


def test_parameters_that_stand_in_for_those_of_the_layer() -> None:
    """Rows are made after the call, when the layer has its own parameters again."""
    model, other = network(), network()
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    given = {name: p.detach() for name, p in other.named_parameters()}
    found = laplace(model, "classification", data(), params=given)
    expected = laplace(other, "classification", data())
    for name, blocks in found.blocks.items():
        (block,), (twin,) = blocks, expected.blocks[name]
        torch.testing.assert_close(block.dense().detach(), twin.dense().detach())


def test_the_evidence_holds_at_the_limit_too() -> None:
    model = network()
    for name in OMEGAS:
        nn.init.zeros_(model.get_parameter(name))
    found = laplace(model, "classification", data())
    for name in OMEGAS:
        (block,) = found.blocks[name]
        assert float(block.dense()) == 0
    assert bool(found.log_marginal_likelihood(1.0).isfinite())
    _, gradient = evidence_gradient(model, "classification", data(), OMEGAS)
    assert all(float(slope) == pytest.approx(0, abs=1e-9) for slope in gradient.values())


# --- manners --------------------------------------------------------------------------------


def test_copies_states_and_compilation() -> None:
    layer, x = made(2, 3, (4, 3)), maps(2, 2, 4, 3)
    other = SparseLinear(2, 3, (4, 3), dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for twin in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), compiled):
        torch.testing.assert_close(twin(x), layer(x), rtol=1e-13, atol=1e-13)
    assert layer.float()(x.float()).dtype == torch.float32
    planned = SparseLinear(2, 3, (4, 3), device="meta")
    assert planned(x.float().to("meta")).shape == (2, 3, 4, 3)
    assert "size_in=(4, 3), size_out=(4, 3), bias=True" in repr(layer)


def test_a_layer_without_memory_takes_on_a_state() -> None:
    layer, x = made(2, 3, circle(6)), maps(2, 2, 6)
    planned = SparseLinear(2, 3, circle(6), device="meta", dtype=torch.float64)
    planned = planned.to_empty(device="cpu")
    planned.load_state_dict(layer.state_dict())
    torch.testing.assert_close(planned(x), layer(x))


def test_drawing_anew_leaves_lengthscales_and_anchors() -> None:
    layer = made(2, 3, (4, 3), omega=0.7)
    before = copy.deepcopy(layer.state_dict())
    layer.reset_parameters()
    changed = {n for n, value in layer.state_dict().items() if not torch.equal(value, before[n])}
    assert changed == {"inner", "outer", "inner_bias"}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SparseLinear(2, 0, 3),
            r"expected a positive whole number of out_channels, got 0",
        ),
        (
            lambda: SparseLinear(2, 3, (3, 0)),
            r"expected one or more positive whole numbers as size_in, got \(3, 0\)",
        ),
        (
            lambda: SparseLinear(2, 3, torch.zeros(4)),
            r"expected coordinates of shape \(n, d\), got \(4,\)",
        ),
        (
            lambda: SparseLinear(2, 3, 3, circle(4) / 0),
            r"expected finite coordinates, got some that are not",
        ),
        (
            lambda: SparseLinear(2, 3, circle(4), anchors_in=5),
            r"expected anchor points, .* above zero and at most 4, got 5",
        ),
        (
            lambda: SparseLinear(2, 3, 3)(torch.zeros(1, 2, 3, 4)),
            r"expected maps of shape \(n, 2, 3, 3\), got \(1, 2, 3, 4\)",
        ),
    ],
    ids=["channels", "size", "coordinates", "infinite", "anchors", "shape"],
)
def test_bad_input(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
