"""Fully-connected layers over maps, against ``torch.nn.Linear`` between flat vectors."""

from __future__ import annotations

import copy
import io
import pickle
from math import prod
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from isotropy.evidence import CurvatureOptions, laplace
from isotropy.nn import MapLinear, record

SIZES: dict[str, tuple[Any, Any, tuple[int, ...], tuple[int, ...]]] = {
    "square": (4, None, (4, 4), (4, 4)),
    "to a smaller square": (4, 2, (4, 4), (2, 2)),
    "not square": ((3, 5), (2, 4), (3, 5), (2, 4)),
    "one axis": ((6,), None, (6,), (6,)),
    "three axes to one": ([2, 3, 2], (5,), (2, 3, 2), (5,)),
}


def filled(layer: nn.Module) -> Any:
    for parameter in layer.parameters():
        nn.init.normal_(parameter, std=0.5)
    return layer


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
@pytest.mark.parametrize("name", SIZES)
def test_it_is_a_linear_layer_between_flat_maps(name: str, bias: bool) -> None:
    size_in, size_out, before, after = SIZES[name]
    layer = filled(MapLinear(2, 3, size_in, size_out, bias=bias, dtype=torch.float64))
    assert (layer.size_in, layer.size_out) == (before, after)
    plain = nn.Linear(2 * prod(before), 3 * prod(after), bias=bias, dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    x = torch.randn(5, 2, *before, dtype=torch.float64)
    y = layer(x)
    assert y.shape == (5, 3, *after)
    torch.testing.assert_close(y, plain(x.reshape(5, -1)).reshape(y.shape))
    assert layer(x[:0]).shape == (0, 3, *after)


def test_every_weight_has_its_place() -> None:
    layer = MapLinear(2, 2, (2, 3), (3, 1), bias=True, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.zero_()
        layer.weight[1 * 3 + 2, 1 * 6 + 0 * 3 + 2] = 5.0  # (c', h', w') = 1 2 0, (c, h, w) = 1 0 2
        layer.bias[0 * 3 + 1] = 7.0
    x = torch.randn(4, 2, 2, 3, dtype=torch.float64)
    expected = torch.zeros(4, 2, 3, 1, dtype=torch.float64)
    expected[:, 1, 2, 0] = 5 * x[:, 1, 0, 2]
    expected[:, 0, 1, 0] = 7.0
    torch.testing.assert_close(layer(x), expected)


def test_weights_start_as_those_of_a_linear_layer_and_biases_at_zero() -> None:
    torch.manual_seed(0)
    layer = MapLinear(3, 4, 8, 6)
    torch.manual_seed(0)
    plain = nn.Linear(3 * 64, 4 * 36)
    torch.testing.assert_close(layer.weight, plain.weight, rtol=0, atol=0)
    assert not layer.bias.any()


# --- evidence ---------------------------------------------------------------------------------


def pair() -> tuple[nn.Module, nn.Module, Tensor, Tensor]:
    """A network with map layers, and the same with those of torch."""
    torch.manual_seed(1)
    ours = filled(
        nn.Sequential(
            MapLinear(2, 2, (2, 3), 2, dtype=torch.float64),
            nn.Tanh(),
            MapLinear(2, 3, 2, 1, dtype=torch.float64),
            nn.Flatten(),
        )
    )
    plain = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    plain.load_state_dict(
        {f"{int(k[0]) + 1}{k[1:]}": value for k, value in ours.state_dict().items()}
    )
    return ours, plain, torch.randn(6, 2, 2, 3, dtype=torch.float64), torch.arange(6) % 3


@pytest.mark.parametrize("structure", ["kronecker", "block", "diagonal", "full"])
def test_evidence_is_that_of_linear_layers(structure: Any) -> None:
    ours, plain, x, y = pair()
    found = laplace(ours, "classification", (x, y), curvature=CurvatureOptions(structure))
    twin = laplace(plain, "classification", (x, y), curvature=CurvatureOptions(structure))
    torch.testing.assert_close(
        found.log_marginal_likelihood(0.7), twin.log_marginal_likelihood(0.7)
    )
    for blocks, others in zip(found.blocks.values(), twin.blocks.values(), strict=True):
        torch.testing.assert_close(blocks[0].dense(), others[0].dense())


def test_blocks_are_those_of_the_curvature() -> None:
    model, _, x, y = pair()
    found = laplace(model, "classification", (x, y), curvature=CurvatureOptions("block"))
    values = {name: p.detach() for name, p in model.named_parameters()}
    p = model(x).detach().softmax(1)
    hessian = torch.diag_embed(p) - p[:, :, None] * p[:, None]
    for name, value in values.items():

        def outputs(value: Tensor, name: str = name) -> Tensor:
            return functional_call(model, {**values, name: value}, (x,))

        j = jacrev(outputs)(value).flatten(2)
        truth = torch.einsum("nkp,nkl,nlq->pq", j, hessian, j)
        torch.testing.assert_close(found.blocks[name][0].dense(), truth)


def test_nothing_is_kept_unless_a_recording_is_on() -> None:
    layer, x = MapLinear(2, 3, 2), torch.randn(4, 2, 2, 2)
    with record(layer) as operations:
        layer(x)
    layer(x)
    assert [operation.parameter for operation in operations] == ["weight", "bias"]
    with record(bare := MapLinear(2, 3, 2, bias=False)) as operations:
        bare(x)
    assert [operation.parameter for operation in operations] == ["weight"]


# --- manners ----------------------------------------------------------------------------------


def test_copies_and_files_give_the_same_map() -> None:
    layer, x = filled(MapLinear(2, 3, (2, 3), 2)), torch.randn(4, 2, 2, 3)
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    planned = MapLinear(2, 3, (2, 3), 2, device="meta").to_empty(device="cpu")
    planned.load_state_dict(torch.load(file, weights_only=True))
    for other in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer)), planned):
        torch.testing.assert_close(other(x), layer(x), rtol=0, atol=0)


def test_it_is_one_graph() -> None:
    layer, x = filled(MapLinear(2, 3, (2, 3), 2)), torch.randn(4, 2, 2, 3)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), layer(x))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS")  # the first in its thread
def test_evidence_on_a_gpu() -> None:
    model, _, x, y = pair()
    expected = laplace(model, "classification", (x, y)).log_marginal_likelihood()
    found = laplace(model.cuda(), "classification", (x.cuda(), y.cuda())).log_marginal_likelihood()
    torch.testing.assert_close(found.cpu(), expected)


def test_it_prints_its_sizes() -> None:
    assert repr(MapLinear(2, 3, 4, (2, 1), bias=False)) == (
        "MapLinear(2, 3, size_in=(4, 4), size_out=(2, 1), bias=False)"
    )


# --- bad input --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((5, 2, 4, 3), r"expected maps of shape \(n, 2, 3, 4\), got \(5, 2, 4, 3\)"),
        ((5, 3, 3, 4), r"expected maps of shape \(n, 2, 3, 4\), got \(5, 3, 3, 4\)"),
        ((2, 3, 4), r"expected maps of shape \(n, 2, 3, 4\), got \(2, 3, 4\)"),
        ((5, 24), r"expected maps of shape \(n, 2, 3, 4\), got \(5, 24\)"),
    ],
    ids=["another size", "another channel count", "no samples", "flat"],
)
def test_other_maps_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MapLinear(2, 1, (3, 4))(torch.zeros(shape))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 1, 3), r"expected a positive whole number of in_channels, got 0"),
        ((1, 1.5, 3), r"expected a positive whole number of out_channels, got 1\.5"),
        ((1, True, 3), r"expected a positive whole number of out_channels, got True"),
        ((1, 1, 0), r"expected one or more positive whole numbers as size_in, got 0"),
        ((1, 1, (3, -1)), r"expected one or more positive whole numbers as size_in, got \(3, -1\)"),
        ((1, 1, 2.0), r"expected one or more positive whole numbers as size_in, got 2\.0"),
        ((1, 1, 3, ()), r"expected one or more positive whole numbers as size_out, got \(\)"),
        ((1, 1, 3, "3"), r"expected one or more positive whole numbers as size_out, got '3'"),
    ],
    ids=["none", "half", "bool", "nothing", "negative", "fraction", "no axes", "text"],
)
def test_sizes_that_are_none_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MapLinear(*arguments)
