"""The layer-wise network: the published parameter counts, its strict limits, and its evidence."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import laplace
from isotropy.nn import LayerwiseNetwork, Lift, PathSum, RadialBasis

FORMS: Any = ("full", "separable", "depthwise", "pointwise")
SHIFTS = ((1, 0), (0, 1), (5, 18), (31, 30))


def images(n: int, channels: int = 1, size: int = 32, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    # large, for a mean with paths at zero makes what is left smaller in every layer
    return 1000 * torch.randn(n, channels, size, size, dtype=torch.float64, generator=rng)


def network(*paths: Any, alpha: int = 2, **options: Any) -> LayerwiseNetwork:
    """In float64, all of it drawn: what starts as a constant would hide mistakes."""
    return copy.deepcopy(_drawn(*paths, alpha=alpha, **options))


@cache
def _drawn(*paths: Any, alpha: int, **options: Any) -> LayerwiseNetwork:
    torch.manual_seed(1)
    net = LayerwiseNetwork(1, 3, paths=paths, alpha=alpha, dtype=torch.float64, **options)
    for name, parameter in net.named_parameters():
        if "bias" in name:
            nn.init.normal_(parameter, std=0.1)
        if "mixing.weight" in name:
            parameter.data *= 2 * torch.randn_like(parameter)
    return net


def sums(net: LayerwiseNetwork) -> Iterator[PathSum]:
    for layer in net.layers:
        assert isinstance(layer, PathSum)
        yield layer


@torch.no_grad()
def without(net: LayerwiseNetwork, *paths: str) -> LayerwiseNetwork:
    """With the parameters of some paths at zero, where priors of no variance hold them."""
    for layer in sums(net):
        for path in paths:
            for parameter in layer.paths[path].parameters():
                parameter.zero_()
    return net


def change(net: nn.Module, x: Tensor, moved: Tensor) -> float:
    """How far outputs move, relative to how far they are apart for different images."""
    with torch.no_grad():
        y, z = net(torch.cat([x, moved])).split([len(x), len(moved)])
    spread = (y - y.mean(0)).abs().max()
    # a network that says the same of all images would pass any test
    assert spread > 1e-2 * y.abs().max()
    return float((z.unflatten(0, (-1, len(x))) - y).abs().max() / spread)


def change_by_shifts(net: nn.Module) -> float:
    x = images(3)
    moved = torch.cat([x.roll(shift, (-2, -1)) for shift in SHIFTS])
    return change(net, x, moved)


# --- parameter counts of Tables 1, 2, 3 and 7 ---------------------------------------------------


def count(*paths: Any, lengthscales: bool = True, **options: Any) -> int:
    net = LayerwiseNetwork(paths=paths, device="meta", **options)
    named = net.named_parameters()
    return sum(p.numel() for name, p in named if lengthscales or not name.endswith("omega"))


@pytest.mark.parametrize(
    ("paths", "cifar", "mnist", "quadrant"),
    [
        (("conv",), 338_770, 338_590, 357_820),
        (("fc",), 133_635_690, 112_664_170, 112_683_400),
        (("factored",), 1_542_625, 1_501_665, 1_520_895),
        (("factored", "conv"), 1_771_945, 1_730_805, 1_750_035),
    ],
    ids=["conv", "fc", "factored", "factored+conv"],
)
def test_parameters_of_tables_1_and_2(
    paths: tuple[str, ...], cifar: int, mnist: int, quadrant: int
) -> None:
    assert count(*paths, in_channels=3, classes=10) == cifar
    assert count(*paths, in_channels=1, classes=10) == mnist
    assert count(*paths, in_channels=1, classes=40) == quadrant


@pytest.mark.parametrize(
    ("paths", "expected"),
    [
        (("fc", "conv"), 133_865_010),
        (("sparse_fc",), 831_820),
        (("sparse_conv",), 237_050),
        (("sparse_fc", "sparse_conv"), 959_420),
    ],
    ids=["fc+conv", "sparse_fc", "sparse_conv", "sparse_fc+sparse_conv"],
)
def test_further_parameters_of_table_2(paths: tuple[str, ...], expected: int) -> None:
    assert count(*paths, in_channels=3, classes=10, lengthscales=False) == expected
    scales = 8 * (2 * ("sparse_fc" in paths) + ("sparse_conv" in paths))
    assert count(*paths, in_channels=3, classes=10) == expected + scales


@pytest.mark.parametrize(("channels", "expected"), [(3, 1_237_527), (1, 1_105_843)], ids=str)
def test_parameters_of_table_3(channels: int, expected: int) -> None:
    paths = ("factored", "conv", "group_conv")
    assert count(*paths, in_channels=channels, classes=10, alpha=2) == expected


@pytest.mark.parametrize(
    ("form", "alpha", "expected"),
    [
        ("full", 10, 1_025_380),
        ("separable", 10, 214_550),
        ("depthwise", 10, 139_725),  # printed as 139 735
        ("full", 6, 371_200),
        ("separable", 13, 358_463),
        ("depthwise", 16, 346_215),
        ("pointwise", 10, 338_770),
    ],
)
def test_parameters_of_table_7(form: Any, alpha: int, expected: int) -> None:
    found = count("group_conv", in_channels=3, classes=10, alpha=alpha, form=form)
    assert found == expected


# --- strict limits ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths",
    [
        ("conv",),
        ("sparse_conv",),
        ("conv", "group_conv"),
        ("sparse_conv", "group_conv"),
        ("conv", "sparse_conv"),
    ],
    ids="+".join,
)
def test_convolutions_are_invariant_to_every_shift(paths: tuple[str, ...]) -> None:
    assert change_by_shifts(network(*paths)) < 1e-12


def test_all_the_shifts_of_one_image() -> None:
    net, x = network("conv", "group_conv", alpha=1), images(1)
    by = torch.arange(0, 32, 3)
    moved = torch.cat([x.roll((int(i), int(j)), (-2, -1)) for i in by for j in by])
    with torch.no_grad():
        y = net(moved)
        assert (y - net(x)).abs().max() < 1e-12 * y.abs().max()


@pytest.mark.parametrize("path", ["fc", "factored", "sparse_fc"])
def test_paths_at_zero_leave_an_invariant_network(path: str) -> None:
    net = network(path, "conv", alpha=1)
    assert change_by_shifts(net) > 1e-2
    assert change_by_shifts(without(net, path)) < 1e-12


def test_one_layer_that_is_not_equivariant_is_enough() -> None:
    net = without(network("factored", "conv"), "factored")
    assert change_by_shifts(net) < 1e-12
    net.layers[-1].paths["factored"].reset_parameters()
    assert change_by_shifts(net) > 1e-2


def test_long_lengthscales_leave_an_invariant_network() -> None:
    net = network("sparse_fc", "conv", alpha=1)
    changes = []
    for omega in (1.0, 1e-6, 1e-7, 0.0):
        for name, parameter in net.named_parameters():
            if name.endswith("omega"):
                nn.init.constant_(parameter, omega)
        changes.append(change_by_shifts(net))
    far, small, smaller, none = changes
    assert far > 1e-2
    assert small / smaller == pytest.approx(100, rel=0.05)  # ω matters by its square
    assert none < 1e-12


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["p4", "p4m"])
def test_group_convolutions_are_invariant_to_shifts_and_turns(name: Any, form: Any) -> None:
    net, x = network("group_conv", group=name, form=form), images(3)
    assert change_by_shifts(net) < 1e-12
    group = Lift("p4m").group
    for k in range(1, group.order):
        found = change(net, x, group.turn(x, k).roll((3, 6), (-2, -1)))
        assert found < 1e-12 if k < Lift(name).group.order else found > 1e-3


def test_group_convolutions_beside_other_paths_at_zero() -> None:
    paths = ("factored", "conv", "group_conv")
    net, x = network(*paths, alpha=1), images(3)
    without(net, "factored")
    assert change_by_shifts(net) < 1e-12
    assert change(net, x, x.rot90(1, (-2, -1))) > 1e-3
    without(net, "conv")
    assert change(net, x, x.rot90(1, (-2, -1)).roll((1, 4), (-2, -1))) < 1e-12


@pytest.mark.parametrize(
    "paths",
    [("conv",), ("factored", "conv"), ("group_conv",), ("factored", "conv", "group_conv")],
    ids="+".join,
)
def test_an_image_does_not_depend_on_the_batch(paths: tuple[str, ...]) -> None:
    net, x = network(*paths, alpha=1), images(5)
    with torch.no_grad():
        y = net(x)
        one_by_one = torch.cat([net(image) for image in x.split(1)])
        shuffled = net(torch.cat([x[[3, 1, 4]], images(2, seed=9)]))
    torch.testing.assert_close(one_by_one, y, rtol=0, atol=1e-12)
    torch.testing.assert_close(shuffled[:3], y[[3, 1, 4]], rtol=0, atol=1e-12)


# --- what it computes ---------------------------------------------------------------------------


def test_layers_are_means_of_paths_with_convolutions_halved_together() -> None:
    net, x = network("factored", "conv", "group_conv").requires_grad_(False), images(2)
    features = net.lift(x)
    for layer in sums(net):
        fc, conv, group_conv = layer.paths.values()
        own = conv(features) + group_conv(features)
        other = fc(features)
        if own.shape[-1] != other.shape[-1]:
            halved = []
            for sample in own:
                phases = [sample[..., i::2, j::2] for i in range(2) for j in range(2)]
                halved.append(max(phases, key=lambda phase: float(phase.abs().max())))
            own = torch.stack(halved)
        features = ((own + other) / 3).relu()
    assert features.shape == (2, 32, 4, 1, 1)
    y = net.head(net.hidden(features.amax(2).flatten(1)).relu())
    torch.testing.assert_close(net(x), y, rtol=1e-12, atol=1e-12)


def test_slices_are_further_channels_to_other_paths() -> None:
    net = LayerwiseNetwork(3, 10, paths=("conv", "group_conv"), alpha=2, group="p4m")
    shapes = [tuple(layer.paths["conv"].path.weight.shape) for layer in sums(net)]
    expected = [(2, 3), (4, 2), (4, 4), (8, 4), (8, 8), (16, 8), (16, 16), (32, 16)]
    assert shapes == [(8 * out, 8 * into, 3, 3) for out, into in expected]


def test_biases_start_at_zero_and_every_path_has_a_prior_of_its_own() -> None:
    net = LayerwiseNetwork(1, 10, paths=("factored", "conv", "sparse_conv"), alpha=1)
    biases = [p for name, p in net.named_parameters() if "bias" in name]
    assert len(biases) == 4 * 8 + 2  # a factored path has two
    assert not any(bool(bias.any()) for bias in biases)
    names = ("factored", "conv", "sparse_conv")
    assert [tuple(layer.prior_variances) for layer in sums(net)] == [names] * 8
    assert net.paths == names


def test_the_kind_of_bases_is_that_of_the_layers_or_the_one_asked_for() -> None:
    def kinds(basis: Any) -> set[tuple[str, str]]:
        net = LayerwiseNetwork(
            1, 10, paths=("sparse_fc", "sparse_conv"), alpha=1, basis=basis, device="meta"
        )
        return {
            (name.split(".")[3], module.kind)
            for name, module in net.named_modules()
            if isinstance(module, RadialBasis)
        }

    assert kinds(None) == {("sparse_fc", "normalised"), ("sparse_conv", "interpolating")}
    assert kinds("plain") == {("sparse_fc", "plain"), ("sparse_conv", "plain")}


def test_larger_images_leave_larger_maps() -> None:
    net = network("factored", "conv", alpha=1, size=64)
    x = images(2, size=64)
    assert net(x).shape == (2, 3)
    assert net.hidden.in_features == 16 * 2 * 2
    without(net, "factored")
    with torch.no_grad():
        assert (net(x.roll(32, -1)) - net(x)).abs().max() > 1e-6


# --- evidence -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths",
    [
        ("fc",),
        ("factored",),
        ("conv",),
        ("sparse_conv",),
        ("group_conv",),
        ("fc", "conv"),
        ("factored", "conv"),
        ("sparse_fc", "sparse_conv"),
        ("conv", "sparse_conv"),
        ("sparse_conv", "group_conv"),
        ("factored", "conv", "sparse_conv", "group_conv"),
    ],
    ids="+".join,
)
def test_evidence_accounts_for_every_parameter(paths: tuple[str, ...]) -> None:
    net = network(*paths, alpha=1)
    found = laplace(net, "classification", (images(3), torch.tensor([0, 2, 1])))
    assert set(found.blocks) == {name for name, _ in net.named_parameters()}
    last = found.blocks["head.weight"][0].dense()
    assert bool(last.isfinite().all())
    assert bool(last.any())


@pytest.mark.parametrize("form", FORMS)
def test_evidence_of_all_forms(form: Any) -> None:
    net = network("conv", "group_conv", alpha=1, form=form)
    found = laplace(net, "classification", (images(3), torch.tensor([0, 2, 1])))
    assert set(found.blocks) == {name for name, _ in net.named_parameters()}
    assert found.log_marginal_likelihood().isfinite()


# --- manners ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths", [("fc", "conv"), ("factored", "sparse_conv", "group_conv")], ids="+".join
)
def test_copies_and_states(paths: tuple[str, ...]) -> None:
    net, x = network(*paths, alpha=1), images(2)
    y = net(x)
    torch.manual_seed(7)
    other = LayerwiseNetwork(1, 3, paths=paths, alpha=1, dtype=torch.float64)
    assert not torch.allclose(other(x), y)
    other.load_state_dict(net.state_dict())
    for twin in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert torch.equal(twin(x), y)


def test_compiled_networks_do_the_same() -> None:
    net, x = network("factored", "conv", "group_conv", alpha=1), images(2)
    compiled = torch.compile(net, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), net(x), rtol=1e-12, atol=1e-12)


def test_every_parameter_learns() -> None:
    net = network("factored", "conv", "group_conv")
    net(images(8)).square().sum().backward()
    still = [n for n, p in net.named_parameters() if p.grad is None or not bool(p.grad.any())]
    assert still == []


def test_a_network_is_wholly_on_its_device() -> None:
    net = LayerwiseNetwork(1, 3, paths=("sparse_fc", "group_conv"), alpha=1, device="meta")
    assert {tensor.device.type for tensor in net.state_dict().values()} == {"meta"}
    assert net(torch.empty(2, 1, 32, 32, device="meta")).shape == (2, 3)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize(
    "paths",
    [("fc", "conv"), ("sparse_fc", "sparse_conv"), ("factored", "conv", "group_conv")],
    ids="+".join,
)
def test_networks_run_on_a_gpu(paths: tuple[str, ...]) -> None:
    net, x = network(*paths, alpha=1), images(2)
    there = copy.deepcopy(net).cuda()
    torch.testing.assert_close(there(x.cuda()).cpu(), net(x), rtol=1e-9, atol=1e-9)
    born = LayerwiseNetwork(1, 3, paths=paths, alpha=1, device="cuda")
    assert {tensor.device.type for tensor in born.state_dict().values()} == {"cuda"}


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: LayerwiseNetwork(1, 10, size=28),
            r"expected images of a size that can be halved five times \(32, 64, …\), got 28",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, size=16),
            r"expected images of a size that can be halved five times .*, got 16",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, size=32.0),  # type: ignore[arg-type]
            r"expected a positive whole number as size, got 32\.0",
        ),
        (
            lambda: LayerwiseNetwork(0, 10),
            r"expected a positive whole number as in_channels, got 0",
        ),
        (
            lambda: LayerwiseNetwork(1, -1),
            r"expected a positive whole number as classes, got -1",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, alpha=True),
            r"expected a positive whole number as alpha, got True",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=("conv", "dense")),  # type: ignore[arg-type]
            r"expected paths of fc, factored, sparse_fc, .*, got 'dense'",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=("conv", "conv")),
            r"expected one or more paths, each once, got \['conv', 'conv'\]",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=()),
            r"expected one or more paths, each once, got \[\]",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=["group_conv"], group="p6"),  # type: ignore[arg-type]
            r"expected a group of p4, p4m and .*, got 'p6' and 'pointwise'",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=["group_conv"], form="wide"),  # type: ignore[arg-type]
            r"expected .* a form of full, .*, got 'p4' and 'wide'",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=["sparse_fc"], basis="smooth"),  # type: ignore[arg-type]
            r"expected a basis of the kind .*, got 'smooth'",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=["conv"], alpha=1)(torch.zeros(2, 1, 28, 28)),
            r"expected images of shape \(n, 1, 32, 32\), got \(2, 1, 28, 28\)",
        ),
        (
            lambda: LayerwiseNetwork(1, 10, paths=["conv"], alpha=1)(torch.zeros(1, 32, 32)),
            r"expected images of shape \(n, 1, 32, 32\), got \(1, 32, 32\)",
        ),
    ],
    ids=[
        "not a multiple",
        "too small",
        "a float",
        "no channels",
        "no classes",
        "a truth value",
        "unknown path",
        "path twice",
        "no path",
        "unknown group",
        "unknown form",
        "unknown basis",
        "smaller images",
        "one image",
    ],
)
def test_bad_inputs(build: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


def test_a_single_name_is_no_sequence_of_paths() -> None:
    sentence = r"expected a sequence of paths, got 'conv': write \['conv'\]"
    with pytest.raises(TypeError, match=sentence):
        LayerwiseNetwork(1, 10, paths="conv")  # type: ignore[arg-type]


def test_slices_that_choose_alone_make_one_network_pooled_over_turns() -> None:
    torch.manual_seed(0)
    kind: dict[str, Any] = {"alpha": 1, "dtype": torch.float64}
    net = LayerwiseNetwork(1, 3, paths=("group_conv",), per_slice=True, **kind)
    plain = LayerwiseNetwork(1, 3, paths=("conv",), **kind)
    weights = {
        name.replace("group_conv.filter", "conv"): tensor
        for name, tensor in net.state_dict().items()
    }
    plain.load_state_dict(weights)
    x = torch.randn(5, 1, 32, 32, dtype=torch.float64)
    with torch.no_grad():
        slices = []
        for k in range(4):
            maps = x.rot90(k, (2, 3))
            for layer in plain.layers:
                maps = layer(maps).relu()
            slices.append(maps)
        pooled = torch.stack(slices).amax(0)
        expected = plain.head(plain.hidden(pooled.flatten(1)).relu())
        assert torch.allclose(net(x), expected, rtol=0, atol=1e-12)
    with pytest.raises(ValueError, match=r"expected the path 'group_conv' alone and the form 'p"):
        LayerwiseNetwork(1, 3, paths=("conv", "group_conv"), per_slice=True)


@pytest.mark.parametrize("options", [{"group": "p5"}, {"form": "fulll"}], ids=["group", "form"])
def test_unknown_groups_and_forms_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected a group of p4, p4m and a form of full, sep"):
        LayerwiseNetwork(1, 3, paths=("conv",), **options)
