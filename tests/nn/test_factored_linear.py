"""Factored layers, against the map that their factors stand for and brute-force curvature."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable, Iterator
from itertools import product
from math import log, prod, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from isotropy.evidence import CurvatureOptions, laplace
from isotropy.nn import FactoredLinear, MapLinear, record

# with more and with fewer places in the output than channels in the input
SHAPES: dict[str, tuple[int, int, Any, Any]] = {
    "square": (2, 3, 3, None),
    "to a smaller square": (3, 4, 4, 2),
    "to a single place": (4, 3, 2, 1),
    "not square": (3, 2, (2, 3), (5, 1)),
    "one channel": (1, 2, 2, (3, 2)),
    "a group": (2, 3, (6,), None),
    "three axes to one": (3, 2, [2, 1, 3], (2,)),
}


def filled(model: nn.Module) -> Any:
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model.double()


def made(name: str, **options: Any) -> tuple[FactoredLinear, Tensor]:
    torch.manual_seed(0)
    into, out, size_in, size_out = SHAPES[name]
    layer = filled(FactoredLinear(into, out, size_in, size_out, **options))
    return layer, torch.randn(5, into, *layer.size_in, dtype=torch.float64)


# --- the map ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SHAPES)
def test_the_written_out_map_has_the_products_of_the_factors(name: str) -> None:
    layer, _ = made(name)
    into, out, before, after = layer.in_channels, layer.out_channels, layer.size_in, layer.size_out
    assert layer.weight.shape == (out, prod(after), into, prod(before))
    inner, outer, weight = (t.tolist() for t in (layer.inner, layer.outer, layer.weight))
    for d, q, c, p in product(*map(range, layer.weight.shape)):
        assert weight[d][q][c][p] == pytest.approx(outer[d][c][q] * inner[d][c][p], rel=1e-14)


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", SHAPES)
def test_it_is_the_written_out_map(name: str, bias: bool) -> None:
    layer, x = made(name, bias=bias)
    y = layer(x)
    assert y.shape == (5, layer.out_channels, *layer.size_out)
    weight = layer.weight.flatten(2).flatten(0, 1)
    expected = (x.flatten(1) @ weight.mT).reshape(5, layer.out_channels, -1)
    if bias:
        for d in range(layer.out_channels):
            expected[:, d] += layer.inner_bias[d] * layer.outer[d].sum(0) + layer.outer_bias
    else:
        assert layer.inner_bias is None
        assert layer.outer_bias is None
    torch.testing.assert_close(y.flatten(2), expected)
    assert layer(x[:0]).shape == (0, *y.shape[1:])


@pytest.mark.parametrize("name", ["to a smaller square", "to a single place"])
def test_gradients_of_both_modes_are_right_twice(name: str) -> None:
    layer, x = made(name)
    names = [key for key, _ in layer.named_parameters()]

    def call(x: Tensor, *given: Tensor) -> Tensor:
        return functional_call(layer, dict(zip(names, given, strict=True)), (x,))

    inputs = (x[:1], *(p.detach().clone() for p in layer.parameters()))
    inputs = tuple(t.clone().requires_grad_() for t in inputs)
    assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.parametrize("size_out", [8, 1], ids=["many places", "one place"])
def test_weights_start_uniform_and_keep_the_variance(size_out: int) -> None:
    torch.manual_seed(0)
    layer = FactoredLinear(32, 40, 16, size_out)
    assert not layer.inner_bias.any()
    assert not layer.outer_bias.any()
    for factor, bound in ((layer.inner, sqrt(3 / 256)), (layer.outer, sqrt(3 / 32))):
        largest = float(factor.detach().abs().max())
        assert 0.99 * bound < largest <= bound
        assert float(factor.detach().std()) == pytest.approx(bound / sqrt(3), rel=0.05)
    y = layer(torch.randn(400, 32, 16, 16))
    assert float(y.detach().std()) == pytest.approx(1, abs=0.1)


# --- the paper's networks ---------------------------------------------------------------------

Path = Callable[[int, int, int, int], nn.Module]


def network(path: Path, channels: int, classes: int, width: int = 10) -> Iterator[nn.Module]:
    """The layers of appendix F: in and out channels in units of ``width``, sides in and out."""
    rows = [(0, 1, 32, 32), (1, 2, 32, 16), (2, 2, 16, 16), (2, 4, 16, 8)]
    rows += [(4, 4, 8, 8), (4, 8, 8, 4), (8, 8, 4, 2), (8, 16, 2, 1)]
    for into, out, before, after in rows:
        yield path(width * into or channels, width * out, before, after)
    yield nn.Linear(16 * width, 64 * width, device="meta")
    yield nn.Linear(64 * width, classes, device="meta")


def fully_connected(*shape: int) -> nn.Module:
    return MapLinear(*shape, device="meta")


def factored(*shape: int) -> nn.Module:
    return FactoredLinear(*shape, device="meta")


def convolution(into: int, out: int, *_: int) -> nn.Module:
    return nn.Conv2d(into, out, 3, device="meta")


def beside(*paths: Path) -> Path:
    return lambda *shape: nn.ModuleList(path(*shape) for path in paths)


COUNTS: dict[str, tuple[Path, tuple[int | None, ...]]] = {
    "FC": (fully_connected, (133_635_690, 112_664_170, 112_683_400)),
    "CONV": (convolution, (338_770, 338_590, 357_820)),
    "F-FC": (factored, (1_542_625, 1_501_665, 1_520_895)),
    "FC+CONV": (beside(fully_connected, convolution), (133_865_010, None, None)),
    "F-FC+CONV": (beside(factored, convolution), (1_771_945, 1_730_805, 1_750_035)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_networks_of_the_paper_have_its_numbers_of_parameters(name: str) -> None:
    """On CIFAR-10, MNIST, and MNIST in quadrants."""
    path, counts = COUNTS[name]
    for (channels, classes), count in zip(((3, 10), (1, 10), (1, 40)), counts, strict=True):
        if count is not None:
            layers = network(path, channels, classes)
            assert sum(p.numel() for layer in layers for p in layer.parameters()) == count


# --- curvature --------------------------------------------------------------------------------


def task(shape: str = "to a smaller square", **options: Any) -> tuple[Any, Tensor, Tensor]:
    """A classifier with three classes that begins with a factored layer, and data for it."""
    layer, x = made(shape, **options)
    width = layer.out_channels * prod(layer.size_out)
    head = filled(nn.Linear(width, 3))
    model = nn.Sequential(layer, nn.Tanh(), nn.Flatten(), head)
    return model, torch.cat([x, -x[:2]]), torch.arange(7) % 3


def output_curvature(model: nn.Module, x: Tensor) -> Tensor:
    p = model(x).detach().softmax(1)
    return torch.diag_embed(p) - p[:, :, None] * p[:, None]


def in_plain_einsums(x: Tensor, given: dict[str, Tensor], size_in: int) -> Tensor:
    """The network of ``task`` by its equations, with nothing of ours."""
    positions = x.reshape(len(x), -1, size_in)
    middle = torch.einsum("ncp,dcp->ndc", positions, given["0.inner"])
    middle = middle + given["0.inner_bias"][:, None]
    y = torch.einsum("ndc,dcq->ndq", middle, given["0.outer"]) + given["0.outer_bias"]
    return y.flatten(1).tanh() @ given["3.weight"].mT + given["3.bias"]


def jacobians(model: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """Of every sample in every parameter, shape (samples, outputs, entries)."""
    values = {name: p.detach() for name, p in model.named_parameters()}
    size_in = prod(model[0].size_in)
    found = jacrev(lambda given: in_plain_einsums(x, given, size_in))(values)
    return {name: j.flatten(2) for name, j in found.items()}


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_and_diagonals_are_those_of_the_curvature(shape: str) -> None:
    model, x, y = task(shape)
    torch.testing.assert_close(
        model(x), in_plain_einsums(x, dict(model.named_parameters()), prod(model[0].size_in))
    )
    hessian = output_curvature(model, x)
    blocks = laplace(model, "classification", (x, y), curvature=CurvatureOptions("block")).blocks
    diagonals = laplace(
        model, "classification", (x, y), curvature=CurvatureOptions("diagonal")
    ).blocks
    for name, j in jacobians(model, x).items():
        truth = torch.einsum("nkp,nkl,nlq->pq", j, hessian, j)
        torch.testing.assert_close(blocks[name][0].dense(), truth)
        torch.testing.assert_close(diagonals[name][0].values, truth.diagonal())


def test_evidence_is_that_of_plain_einsums() -> None:
    """Log p(D|θ) − ½ δ‖θ‖² − ½ log det(1 + H/δ), with H of all parameters together."""
    model, x, y = task()
    j = torch.cat(list(jacobians(model, x).values()), 2)
    curvature = torch.einsum("nkp,nkl,nlq->pq", j, output_curvature(model, x), j)
    values = torch.cat([p.detach().flatten() for p in model.parameters()])
    fit = -nn.functional.cross_entropy(model(x), y, reduction="sum").detach()
    size, precision = len(values), 0.3
    truth = fit - precision * values.square().sum() / 2
    eye = torch.eye(size, dtype=torch.float64)
    truth -= torch.linalg.slogdet(precision * eye + curvature).logabsdet / 2
    truth += size * log(precision) / 2
    found = laplace(model, "classification", (x, y), curvature=CurvatureOptions("full"))
    torch.testing.assert_close(found.log_marginal_likelihood(precision), truth)


def rows_at_both_products(model: Any, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Inputs x and x₁, shape (n, channels, …), and J√Λ at x₁ and at y, (n, k, channels, …)."""
    layer, head = model[0], model[3]
    positions = x.flatten(2)
    middle = torch.stack(
        [torch.einsum("ncp,cp->nc", positions, theta) for theta in layer.inner.detach()], 1
    )
    middle = middle + layer.inner_bias.detach()[:, None]

    def outward(middle: Tensor) -> Tensor:
        y = torch.einsum("ndc,dcq->ndq", middle, layer.outer.detach())
        return y + layer.outer_bias.detach()

    def onward(y: Tensor) -> Tensor:
        return y.tanh().flatten(1) @ head.weight.detach().mT + head.bias.detach()

    def by_sample(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
        rows = [jacrev(lambda a: function(a[None])[0])(a) for a in at]
        return torch.stack(rows)

    at_middle = by_sample(lambda m: onward(outward(m)), middle)  # n k d c
    at_output = by_sample(onward, outward(middle))  # n k d q
    values, vectors = torch.linalg.eigh(output_curvature(model, x))
    roots = vectors * values.clamp_min(0).sqrt()[:, None]
    at_middle = torch.einsum("nkr,nkdc->nrcd", roots, at_middle)
    at_output = torch.einsum("nkr,nkdq->nrdq", roots, at_output)
    return positions, middle, at_middle, at_output


@pytest.mark.parametrize("shape", ["to a smaller square", "to a single place", "a group"])
def test_factors_are_small_ones_for_each_channel(shape: str) -> None:
    model, x, y = task(shape)
    positions, middle, at_middle, at_output = rows_at_both_products(model, x)
    samples, into, before = positions.shape
    out, after = at_output.shape[2:]
    blocks = laplace(model, "classification", (x, y)).blocks
    (inner,), (outer,) = blocks["0.inner"], blocks["0.outer"]
    assert inner.input.shape == (into, before, before)
    assert inner.output.shape == (into, out, out)
    for c in range(into):
        torch.testing.assert_close(inner.input[c], positions[:, c].mT @ positions[:, c] / samples)
        gradients = at_middle[:, :, c].flatten(0, 1)
        torch.testing.assert_close(inner.output[c], gradients.mT @ gradients)
    assert outer.input.shape == (out, into, into)
    assert outer.output.shape == (out, after, after)
    for d in range(out):
        torch.testing.assert_close(outer.input[d], middle[:, d].mT @ middle[:, d] / samples)
        gradients = at_output[:, :, d].flatten(0, 1)
        torch.testing.assert_close(outer.output[d], gradients.mT @ gradients)
    for name, at in (("0.inner_bias", at_middle), ("0.outer_bias", at_output)):
        gradients = at.flatten(0, 2)
        (block,) = blocks[name]
        torch.testing.assert_close(block.dense(), gradients.mT @ gradients)


def test_with_expanded_channels_factors_are_those_of_the_paper() -> None:
    """Appendix C.1: inputs on a diagonal, 1/(NC) Σ aaᵀ ⊗ Σ gΛgᵀ over samples and channels.

    There θ₂ is a matrix (C', C·P) and θ₁ a matrix (P', C'·C).
    """
    model, x, y = task()
    positions, middle, at_middle, at_output = rows_at_both_products(model, x)
    blocks = laplace(
        model, "classification", (x, y), curvature=CurvatureOptions(sharing={"channel": "expand"})
    ).blocks
    layer = model[0]
    out, into, before = layer.inner.shape
    after = layer.outer.shape[2]
    inner_order = torch.arange(layer.inner.numel()).reshape(out, into * before)
    outer_order = torch.arange(layer.outer.numel()).reshape(out * into, after).mT
    for name, inputs, gradients, order in (
        ("0.inner", positions, at_middle, inner_order),
        ("0.outer", middle, at_output, outer_order),
    ):
        samples, channels = inputs.shape[:2]
        on_diagonal = torch.cat([torch.block_diag(*a[:, None]) for a in inputs])
        gradients = gradients.flatten(0, 2)
        first = on_diagonal.mT @ on_diagonal / (samples * channels)
        paper = torch.kron(gradients.mT @ gradients, first)
        place = order.flatten().argsort()
        (block,) = blocks[name]
        assert block.output.shape[0] == 1
        torch.testing.assert_close(block.dense(), paper[place][:, place])


def test_gradients_of_several_passes_go_back_together() -> None:
    model, x, _ = task()
    with record(model) as operations:
        outputs = model(x)
    ends = [operation.output for operation in operations]
    columns = torch.randn(2, *outputs.shape, dtype=torch.float64)
    together = torch.autograd.grad(outputs, ends, columns, retain_graph=True, is_grads_batched=True)
    single = [torch.autograd.grad(outputs, ends, v, retain_graph=True) for v in columns]
    for k, operation in enumerate(operations):
        rows = operation.gradient_rows(together[k].flatten(0, 1))
        expected = torch.cat([operation.gradient_rows(found[k]) for found in single])
        torch.testing.assert_close(rows, expected)


def test_nothing_is_kept_unless_a_recording_is_on() -> None:
    layer, x = made("square")
    with record(layer) as operations:
        layer(x)
    layer(x)
    assert [o.parameter for o in operations] == ["inner", "outer", "inner_bias", "outer_bias"]
    layer, x = made("square", bias=False)
    with record(layer) as operations:
        layer(x)
    assert [o.parameter for o in operations] == ["inner", "outer"]


def test_without_biases_there_is_evidence_too() -> None:
    model, x, y = task(bias=False)
    found = laplace(model, "classification", (x, y))
    assert list(found.parameters) == ["0.inner", "0.outer", "3.weight", "3.bias"]
    assert bool(found.log_marginal_likelihood().isfinite())


# --- manners ----------------------------------------------------------------------------------

LAYOUTS = ["to a smaller square", "to a single place"]


@pytest.mark.parametrize("name", LAYOUTS)
def test_copies_and_files_give_the_same_map(name: str) -> None:
    layer, x = made(name)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    into, out, size_in, size_out = SHAPES[name]
    planned = FactoredLinear(into, out, size_in, size_out, device="meta", dtype=torch.float64)
    planned = planned.to_empty(device="cpu")
    planned.load_state_dict(torch.load(file, weights_only=True))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), planned):
        torch.testing.assert_close(other(x), layer(x), rtol=0, atol=0)


@pytest.mark.parametrize("name", LAYOUTS)
def test_it_is_one_graph(name: str) -> None:
    layer, x = made(name)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.parametrize("name", LAYOUTS)
def test_an_ensemble_runs_under_vmap(name: str) -> None:
    layers = [filled(copy.deepcopy(made(name)[0])) for _ in range(3)]
    x = made(name)[1]
    stacked, _ = torch.func.stack_module_state(layers)

    def call(given: dict[str, Tensor]) -> Tensor:
        return functional_call(layers[0], given, (x,))

    expected = torch.stack([layer(x) for layer in layers])
    torch.testing.assert_close(torch.vmap(call)(stacked), expected)


@pytest.mark.parametrize("name", LAYOUTS)
def test_autocast_lowers_the_precision(name: str) -> None:
    layer, x = made(name)
    layer, x = layer.float(), x.float()
    with torch.autocast("cpu", torch.bfloat16):
        y = layer(x)
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y.float(), layer(x), rtol=0.1, atol=0.1)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # the first in its thread
@pytest.mark.parametrize("name", LAYOUTS)
def test_map_and_evidence_on_a_gpu(name: str) -> None:
    model, x, y = task(name)
    expected = laplace(model, "classification", (x, y)).log_marginal_likelihood()
    moved = copy.deepcopy(model).cuda()
    torch.testing.assert_close(moved(x.cuda()).cpu(), model(x))
    found = laplace(moved, "classification", (x.cuda(), y.cuda())).log_marginal_likelihood()
    torch.testing.assert_close(found.cpu(), expected)


def test_it_prints_its_sizes() -> None:
    assert repr(FactoredLinear(2, 3, 4, (6,))) == (
        "FactoredLinear(2, 3, size_in=(4, 4), size_out=(6,), bias=True)"
    )


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 2, 4, 3), r"expected maps of shape \(n, 2, 3, 4\), got \(5, 2, 4, 3\)"),
        ((5, 3, 3, 4), r"expected maps of shape \(n, 2, 3, 4\), got \(5, 3, 3, 4\)"),
        ((5, 2, 12), r"expected maps of shape \(n, 2, 3, 4\), got \(5, 2, 12\)"),
    ],
    ids=["another size", "another channel count", "flat"],
)
def test_other_maps_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FactoredLinear(2, 1, (3, 4))(torch.zeros(shape))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, 1, 3), r"expected a positive whole number of in_channels, got -1"),
        ((1, 0, 3), r"expected a positive whole number of out_channels, got 0"),
        ((1, 1, 3, (2, 0)), r"expected one or more positive whole numbers as size_out, got \(2, 0"),
    ],
    ids=["negative", "none", "nothing"],
)
def test_sizes_that_are_none_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FactoredLinear(*arguments)
