"""Sparse convolutions beside sums over pixels, and their evidence beside brute force."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev
from torch.nn import functional

from isotropy.evidence import CurvatureOptions, evidence_gradient, laplace, log_marginal_likelihood
from isotropy.nn import SparseConv2d, SparseLinear, record

KINDS = pytest.mark.parametrize("basis", ["normalised", "interpolating", "plain"])


def made(*args: Any, **options: Any) -> SparseConv2d:
    torch.manual_seed(3)
    layer = SparseConv2d(*args, dtype=torch.float64, **options)
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer


def maps(*shape: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*shape, generator=rng, dtype=torch.float64)


@KINDS
@pytest.mark.parametrize("kernel_size", [1, 3, (2, 3), (1, 4)], ids=str)
def test_the_layer_is_a_sum_over_pixels_that_goes_round(
    kernel_size: int | tuple[int, int], basis: Any
) -> None:
    layer = made(2, 3, kernel_size, basis=basis)
    x = maps(2, 2, 3, 4)
    weight, bias = layer.weight.detach(), layer.bias.detach()
    rows, columns = weight.shape[2:]
    torch.testing.assert_close(weight.flatten(2), (layer.u @ layer.basis()).detach())
    expected = torch.zeros(2, 3, 3, 4, dtype=torch.float64) + bias[:, None, None]
    for p, q in np.ndindex(3, 4):
        for i, j in np.ndindex(rows, columns):
            seen = x[:, :, (p + i - (rows - 1) // 2) % 3, (q + j - (columns - 1) // 2) % 4]
            expected[:, :, p, q] += seen @ weight[:, :, i, j].mT
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("kernel_size", [3, (2, 5)], ids=str)
def test_the_layer_commutes_with_shifts_up_to_the_border(
    kernel_size: int | tuple[int, int],
) -> None:
    layer, x = made(2, 3, kernel_size), maps(2, 2, 5, 4)
    for shift in ((1, 0), (0, 1), (3, 2)):
        moved = layer(x.roll(shift, (2, 3)))
        torch.testing.assert_close(moved, layer(x).roll(shift, (2, 3)), rtol=1e-13, atol=1e-13)


@KINDS
def test_without_a_lengthscale_filters_are_constant(basis: Any) -> None:
    layer = made(2, 3, omega=0.0, basis=basis)
    nn.init.normal_(layer.u)
    weight, x = layer.weight, maps(2, 2, 5, 5)
    assert float(weight.detach().abs().min()) > 1e-3
    torch.testing.assert_close(weight, weight[:, :, :1, :1].expand_as(weight), rtol=1e-10, atol=0)
    turned = layer(x.rot90(1, (2, 3)))  # a constant square is the same from all sides
    torch.testing.assert_close(turned, layer(x).rot90(1, (2, 3)), rtol=1e-10, atol=1e-10)


def test_filters_start_as_the_best_fit_to_those_of_a_convolution() -> None:
    anchors = torch.tensor([[-0.7, 0.2], [0.1, 0.9], [0.8, -0.5], [0.0, 0.0]])
    torch.manual_seed(5)
    layer = SparseConv2d(4, 6, anchors=anchors, dtype=torch.float64)
    torch.manual_seed(5)
    target = torch.empty(6, 4, 3, 3, dtype=torch.float64)
    nn.init.kaiming_uniform_(target, nonlinearity="relu")
    phi = layer.basis().detach().numpy()
    expected = np.linalg.lstsq(phi.T, target.reshape(24, 9).numpy().T, rcond=None)[0].T
    np.testing.assert_allclose(layer.u.detach().reshape(24, 4).numpy(), expected, rtol=1e-8)
    assert torch.equal(layer.bias, torch.zeros(6, dtype=torch.float64))


# --- parameters of Table 2 ------------------------------------------------------------------

CHANNELS = [(3, 10), (10, 20), (20, 20), (20, 40), (40, 40), (40, 80), (80, 80), (80, 160)]
SIZES = [(32, 32), (32, 16), (16, 16), (16, 8), (8, 8), (8, 4), (4, 2), (2, 1)]


@pytest.mark.parametrize(
    ("paths", "expected"),
    [(("conv",), 237_050), (("linear",), 831_820), (("conv", "linear"), 959_420)],
    ids=["S-CONV", "S-FC", "S-FC+S-CONV"],
)
def test_numbers_of_parameters_are_those_of_the_paper(
    paths: tuple[str, ...], expected: int
) -> None:
    layers: list[nn.Module] = [
        nn.Linear(160, 640, device="meta"),
        nn.Linear(640, 10, device="meta"),
    ]
    for (into, out), (before, after) in zip(CHANNELS, SIZES, strict=True):
        if "conv" in paths:
            layers.append(SparseConv2d(into, out, device="meta"))
        if "linear" in paths:
            layers.append(SparseLinear(into, out, before, after, device="meta"))
    named = [(name, p) for layer in layers for name, p in layer.named_parameters()]
    lengthscales = [p for name, p in named if name.endswith("omega")]
    assert len(lengthscales) == 8 * ("conv" in paths) + 16 * ("linear" in paths)
    # the paper does not count the lengthscales
    assert sum(p.numel() for _, p in named) - len(lengthscales) == expected


# --- evidence -------------------------------------------------------------------------------


def network(**options: Any) -> nn.Module:
    return nn.Sequential(
        made(2, 3, omega=0.8, **options), nn.Tanh(), nn.Flatten(), nn.Linear(36, 3).double()
    )


def data(samples: int = 6) -> tuple[Tensor, Tensor]:
    return maps(samples, 2, 3, 4), torch.arange(samples) % 3


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
    layer, x = made(2, 3, basis=basis), maps(4, 2, 3, 4)
    weights = maps(4, 3, 3, 4)
    with record(layer) as operations:
        (layer(x) * weights).sum()
    assert [o.parameter for o in operations] == ["u", "basis.omega", "bias"]
    parameters = dict(layer.named_parameters())
    for operation in operations:
        twice = torch.cat([weights, 2 * weights])  # gradients of two passes at once
        a, g = operation.input_rows(), operation.gradient_rows(twice)
        assert g.shape[:-1] == (8, *a.shape[1:-1])
        torch.testing.assert_close(g[4:], 2 * g[:4])
        found = torch.einsum("nro,nri->noi", g[:4], a)
        for n in range(4):
            loss = (layer(x[n : n + 1]) * weights[n]).sum()
            (expected,) = torch.autograd.grad(loss, parameters[operation.parameter])
            torch.testing.assert_close(found[n].reshape(expected.shape), expected)


@KINDS
def test_blocks_are_those_of_brute_force(basis: Any) -> None:
    model, (x, y) = network(basis=basis), data()
    found = laplace(model, "classification", (x, y), curvature=CurvatureOptions("block"))
    factored = laplace(model, "classification", (x, y))
    for name in ("0.u", "0.bias", "0.basis.omega"):
        expected = brute_force(model, x, name)
        (block,) = found.blocks[name]
        torch.testing.assert_close(block.dense().detach(), expected, rtol=1e-9, atol=1e-12)
    # a single number has no factors: its curvature is exact whatever the structure
    (block,) = factored.blocks["0.basis.omega"]
    torch.testing.assert_close(block.dense().detach(), expected, rtol=1e-9, atol=1e-12)
    precisions = dict.fromkeys(factored.parameters, 1.0) | {"0.basis.omega": 25.0}
    assert bool(factored.log_marginal_likelihood(precisions).isfinite())


@pytest.mark.parametrize("samples", [5, 13], ids=["from rows", "from correlations"])
def test_the_input_factor_is_that_of_patches_in_the_basis(samples: int) -> None:
    layer, x = made(2, 3), maps(samples, 2, 3, 4)
    with record(layer) as operations:
        layer(x)
    around = functional.pad(x, (1, 1, 1, 1), mode="circular")
    rows = functional.unfold(around, 3).mT.unflatten(-1, (2, 9))
    rows = (rows @ layer.basis().mT).flatten(-2)
    torch.testing.assert_close(operations[0].input_rows(), rows)
    assert (operations[0].gram is None) == (samples == 5)
    model = nn.Sequential(layer, nn.Flatten(), nn.Linear(36, 3).double())
    found = laplace(model, "classification", (x, torch.arange(samples) % 3))
    (block,) = found.blocks["0.u"]
    expected = torch.einsum("npi,npj->ij", rows, rows) / (samples * 12)
    torch.testing.assert_close(block.input[0].detach(), expected.detach())


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
@pytest.mark.parametrize("samples", [5, 13], ids=["from rows", "from correlations"])
def test_slopes_of_the_evidence_in_lengthscale_and_anchors(samples: int, basis: Any) -> None:
    names = ["0.basis.omega", "0.basis.anchors"]
    model = network(basis=basis, learn_anchors=True)

    def value(**options: Any) -> Tensor:
        return log_marginal_likelihood(
            model, "classification", data(samples), 2.0, hyperparameters=names, **options
        )

    parameters = [model.get_parameter(name) for name in names]
    graph = torch.autograd.grad(value(create_graph=True), parameters)
    _, batched = evidence_gradient(
        model,
        "classification",
        data(samples),
        names,
        2.0,
        curvature=CurvatureOptions(batch_size=max(4, samples - 3)),
    )
    places = {names[0]: [()], names[1]: [(0, 0), (3, 1)]}
    for name, parameter, by_graph in zip(names, parameters, graph, strict=True):
        for place in places[name]:  # type: ignore[attr-defined]
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


def test_learned_anchors_have_to_be_hyperparameters() -> None:
    with pytest.raises(ValueError, match=r"whose operations are recorded, got 0\.basis\.anchors"):
        laplace(network(learn_anchors=True), "classification", data())


# --- manners --------------------------------------------------------------------------------


def test_copies_states_and_compilation() -> None:
    layer, x = made(2, 3), maps(2, 2, 4, 4)
    other = SparseConv2d(2, 3, dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for twin in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), compiled):
        torch.testing.assert_close(twin(x), layer(x), rtol=1e-13, atol=1e-13)
    assert layer.float()(x.float()).dtype == torch.float32
    assert SparseConv2d(2, 3, device="meta")(x.float().to("meta")).shape == (2, 3, 4, 4)
    assert "bias=False" in repr(SparseConv2d(2, 3, bias=False))


@pytest.mark.parametrize("lengthscale", ["learned", "fixed"])
def test_gradients_reach_every_parameter(lengthscale: str) -> None:
    layer = made(2, 3, learn_anchors=True, bias=False)
    layer.basis.omega.requires_grad_(lengthscale == "learned")
    layer(maps(2, 2, 4, 4)).square().sum().backward()
    for name, parameter in layer.named_parameters():
        reached = parameter.grad is not None and bool(parameter.grad.any())
        assert reached == (name != "basis.omega" or lengthscale == "learned")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: SparseConv2d(0, 3),
            r"expected channels and a kernel of positive sizes, got 0, 3 and 3",
        ),
        (
            lambda: SparseConv2d(2, 3, (3, 3, 3)),
            r"expected channels and a kernel of positive sizes, got 2, 3 and \(3, 3, 3\)",
        ),
        (
            lambda: SparseConv2d(2, 3, anchors=torch.zeros(4, 3)),
            r"expected anchors of shape \(m, 2\) as the targets have, got \(4, 3\)",
        ),
        (
            lambda: SparseConv2d(2, 3)(torch.zeros(1, 3, 4, 4)),
            r"expected maps of shape \(n, 2, h, w\), got \(1, 3, 4, 4\)",
        ),
        (
            lambda: SparseConv2d(2, 3, (3, 6))(torch.zeros(1, 2, 4, 2)),
            r"expected maps of at least \(1, 3\) for a kernel of \(3, 6\), got \(4, 2\)",
        ),
    ],
    ids=["channels", "kernel", "anchors", "shape", "small"],
)
def test_bad_input(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
