"""Softened convolutions, group convolutions and what they are broken to; words for bad input."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import weight_norm

from isotropy.evidence import CurvatureOptions, LearningOptions, laplace, learn_priors
from isotropy.groups import SO, O, Z
from isotropy.nn import (
    EMLP,
    BlurPool2d,
    CircularConv2d,
    FactoredLinear,
    GroupConv2d,
    Lift,
    Linear,
    MapLinear,
    PathSum,
    record,
    sample_prior,
    soften,
)
from isotropy.reps import V
from isotropy_papers.group_linear import GroupLinear

DOUBLE = torch.float64
KIND: dict[str, Any] = {"dtype": DOUBLE}


def rows(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=DOUBLE, generator=rng)


def perturbed(model: nn.Module, size: float = 0.3) -> nn.Module:
    with torch.no_grad():
        for k, p in enumerate(p for p in model.parameters() if p.requires_grad):
            p.add_(size * rows(*p.shape, seed=k).to(p.dtype))
    return model


def sums(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, PathSum)]


def net(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(2, dtype=DOUBLE))


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "stride": (lambda: net(nn.Conv2d(2, 3, 3, stride=2, padding=1, **KIND)), (2, 5, 4)),
    "dilation": (lambda: net(nn.Conv2d(2, 3, 2, dilation=2, **KIND)), (2, 5, 4)),
    "groups": (lambda: net(nn.Conv2d(4, 2, 3, groups=2, padding="same", **KIND)), (4, 3, 3)),
    "reflecting": (
        lambda: net(nn.Conv2d(1, 2, 3, padding=1, padding_mode="reflect", **KIND)),
        (1, 4, 4),
    ),
    "one axis": (lambda: net(nn.Conv1d(2, 3, 3, bias=False, **KIND)), (2, 6)),
    "transposed": (lambda: net(nn.ConvTranspose2d(2, 1, 3, 2, padding=1, **KIND)), (2, 3, 2)),
    "normalised weights": (lambda: net(weight_norm(nn.Conv2d(1, 2, 3, **KIND))), (1, 4, 4)),
    "two layers": (
        lambda: net(
            nn.Conv2d(1, 3, 3, **KIND), nn.BatchNorm2d(3, **KIND), CircularConv2d(3, 2, **KIND)
        ),
        (1, 5, 5),
    ),
    "p4": (
        lambda: net(GroupConv2d(1, 2, lifts=True, **KIND), nn.ReLU(), GroupConv2d(2, 1, **KIND)),
        (1, 3, 3),
    ),
    "separable p4m": (
        lambda: net(GroupConv2d(1, 2, group="p4m", form="separable", **KIND)),
        (1, 8, 3, 3),
    ),
    "on a group": (lambda: net(GroupLinear(2, 3, "S(3)", **KIND)), (2, 6)),
    "factored": (lambda: net(FactoredLinear(2, 1, (3, 2), **KIND)), (2, 3, 2)),
}


def made(name: str) -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    build, shape = MODELS[name]
    model, x = build(), rows(3, *shape, seed=5)
    model(x)  # lazy layers learn their width
    return perturbed(model).eval(), x


@pytest.mark.parametrize("name", MODELS)
def test_it_starts_as_the_function_of_the_strict_one(name: str) -> None:
    strict, x = made(name)
    before = copy.deepcopy(strict.state_dict())
    y = strict(x)
    torch.testing.assert_close(soften(strict, x, start=0.0)(x), y)
    soft, larger = soften(strict, x), soften(strict, x, start=1.0)
    apart = [float((model(x) - y).abs().max().detach()) for model in (soft, larger)]
    assert 0 < apart[0] < 0.01 * float(y.abs().max().detach())
    assert apart[1] > 10 * apart[0]
    assert all(torch.equal(strict.state_dict()[key], value) for key, value in before.items())
    found = {key.replace("paths.strict.", ""): p for key, p in soft.state_dict().items()}
    assert all(torch.equal(found[key], value) for key, value in before.items())


@pytest.mark.parametrize("name", MODELS)
def test_a_free_path_reaches_every_linear_map(name: str) -> None:
    strict, x = made(name)
    soft = soften(strict, x)
    for place in sums(soft):
        layer = soft.get_submodule(place)
        free = layer.paths["free"]
        assert isinstance(free, MapLinear)
        bias = any("bias" in part for part, _ in layer.paths["strict"].named_parameters())
        assert (free.bias is not None) == bias
        maps = rows(2, free.in_channels, *free.size_in)
        torch.testing.assert_close(layer(maps), layer.paths["strict"](maps) + free(maps))


@pytest.mark.parametrize("name", MODELS)
def test_copies_and_states(name: str) -> None:
    strict, x = made(name)
    soft = perturbed(soften(strict, x))
    y = soft(x)
    torch.testing.assert_close(copy.deepcopy(soft)(x), y, rtol=0, atol=0)
    if name != "normalised weights":  # torch's parametrisations cannot be pickled
        torch.testing.assert_close(pickle.loads(pickle.dumps(soft))(x), y, rtol=0, atol=0)
    file = io.BytesIO()
    torch.save(soft.state_dict(), file)
    file.seek(0)
    other = soften(strict, x)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other(x), y, rtol=0, atol=0)
    single = copy.deepcopy(soft).float()
    torch.testing.assert_close(single(x.float()), y.float(), rtol=1e-4, atol=1e-4)
    back = single.double()(x)
    torch.testing.assert_close(back, y, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["p4", "on a group"])
def test_they_compile_as_one_graph(name: str) -> None:
    strict, x = made(name)
    soft = perturbed(soften(strict, x))
    compiled = torch.compile(soft, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), soft(x))


def test_layers_around_convolutions_stay() -> None:
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        BlurPool2d(2),
        nn.Flatten(),
        nn.Linear(8, 3),
    )
    x = torch.randn(4, 1, 6, 6) + 5
    soft = soften(model, x)
    assert sums(soft) == ["0"]
    assert not bool(soft[1].running_mean.any())  # the example left no trace
    assert soft.training
    assert all(module.training for module in soft.modules())


def test_a_shared_convolution_stays_shared() -> None:
    layer = nn.Conv2d(2, 2, 3, padding=1)
    soft = soften(nn.Sequential(layer, nn.ReLU(), nn.Sequential(layer)), torch.randn(1, 2, 4, 4))
    assert soft[0] is soft[2][0]
    assert isinstance(soft[0], PathSum)


def test_networks_of_vectors_and_maps_are_softened_together() -> None:
    model = nn.Sequential(
        nn.Conv1d(1, 1, 3, padding=1), nn.Flatten(), EMLP(V, V, Z(5), channels=10, layers=1)
    )
    soft = soften(model, torch.randn(2, 1, 5))
    assert set(sums(soft)) == {"0", "2.blocks.0.linear", "2.blocks.0.nonlinearity", "2.head"}


# --- breaking ---------------------------------------------------------------------------------


def group_network(group: Any) -> nn.Module:
    return nn.Sequential(
        GroupConv2d(2, 3, group=group, lifts=True, **KIND),
        nn.ReLU(),
        GroupConv2d(3, 2, group=group, form="separable", **KIND),
        nn.ReLU(),
        GroupConv2d(2, 2, group=group, **KIND),
    )


def turned_error(model: nn.Module, x: Tensor, group: Any, k: int) -> float:
    error = model(group.turn(x, k)) - group.turn_slices(model(x), k)
    return float((error.norm() / model(x).norm()).detach())


@pytest.mark.parametrize(
    ("group", "into", "kept"),
    [
        ("p4", "translations", []),
        ("p4m", "translations", []),
        ("p4m", "p4", [1, 2, 3]),
        ("p4m", None, []),
    ],
    ids=["p4 to shifts", "p4m to shifts", "p4m to p4", "p4m to nothing"],
)
def test_a_broken_group_leaves_exactly_the_subgroup(
    group: Any, into: str | None, kept: list[int]
) -> None:
    strict, x = perturbed(group_network(group), 0.1), rows(2, 2, 4, 4)
    everything = Lift(group).group
    torch.testing.assert_close(soften(strict, x, into=into, start=0.0)(x), strict(x))
    soft = sample_prior(soften(strict, x, into=into, variances=(1.0, 1.0)), generator=0)
    for k in range(1, everything.order):
        assert turned_error(strict, x, everything, k) < 1e-12
        error = turned_error(soft, x, everything, k)
        assert error < 1e-12 if k in kept else error > 1e-2
    shifted = soft(x.roll((1, 2), (-2, -1)))
    apart = (shifted - soft(x).roll((1, 2), (-2, -1))).norm() / shifted.norm()
    assert float(apart.detach()) > 1e-2 if into is None else float(apart.detach()) < 1e-12


def test_looser_convolutions_reach_the_strict_ones() -> None:
    """A group convolution is one of the functions of either."""
    x = rows(40, 2, 8, 4, 4)
    strict = GroupConv2d(2, 1, group="p4m", **KIND)
    y = strict(x)
    for into in ("translations", "p4"):
        soft: Any = soften(nn.Sequential(copy.deepcopy(strict)), x, into=into)
        loose = soft[0].paths["free"]
        optimiser = torch.optim.LBFGS(
            loose.parameters(), max_iter=200, line_search_fn="strong_wolfe"
        )

        def loss(model: nn.Module = loose, best: Any = optimiser) -> Tensor:
            best.zero_grad()
            value = (model(x) - y.detach()).square().mean()
            value.backward()
            return value

        optimiser.step(loss)
        assert float(loss().detach()) < 1e-8 * float(y.square().mean().detach())


def test_breaking_leaves_other_layers_alone() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), GroupConv2d(2, 1, lifts=True), nn.Flatten())
    soft = soften(model, torch.randn(1, 1, 6, 6), into="translations")
    assert sums(soft) == ["1"]


# --- paths of the user's own ------------------------------------------------------------------


def test_any_pair_of_layers_with_one_signature_will_do() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.ReLU())
    free = nn.Sequential(nn.Flatten(), nn.Linear(16, 32), nn.Unflatten(1, (2, 4, 4)))
    x = torch.randn(3, 1, 4, 4)
    for example in (x, None):
        soft = soften(model, example, flexible={"0": free})
        torch.testing.assert_close(soft(x), torch.relu(model[0](x) + free(x)))
    wide = soften(model, x, flexible={"0": nn.Conv2d(1, 2, 5, padding=2)})
    lengths = wide[0].tensor_squared_lengths  # how often taps are used, of both paths
    assert lengths["paths.strict.weight"][0, 0].tolist() == [[9, 12, 9], [12, 16, 12], [9, 12, 9]]
    assert lengths["paths.free.weight"][0, 0, 0].tolist() == [4, 6, 8, 6, 4]


# --- evidence ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in MODELS if n != "normalised weights"])
def test_recorded_operations_account_for_all_parameters(name: str) -> None:
    """``laplace`` refuses parameters whose influence they do not tell in full."""
    strict, x = made(name)
    soft = perturbed(soften(strict, x), 0.1)
    with record(soft) as operations:
        recorded = soft(x)
    torch.testing.assert_close(recorded, soft(x))
    assert {o.parameter for o in operations} == {name for name, _ in soft.named_parameters()}
    found = laplace(soft, "regression", (x, rows(3, 2)), curvature=CurvatureOptions("diagonal"))
    assert bool(found.log_marginal_likelihood().isfinite())


@pytest.mark.parametrize("into", ["translations", "p4"])
def test_those_of_broken_convolutions_do_too(into: str) -> None:
    strict = net(GroupConv2d(1, 1, group="p4m", lifts=True, **KIND))
    x = rows(3, 1, 3, 3)
    strict(x)
    soft = perturbed(soften(strict, x, into=into), 0.1)
    found = laplace(soft, "regression", (x, rows(3, 2)), curvature=CurvatureOptions("diagonal"))
    assert set(found.blocks) == {name for name, _ in soft.named_parameters()}


def test_priors_can_be_learned() -> None:
    strict, x = made("two layers")
    soft = soften(strict, x).train()
    before = [soft.get_submodule(place).prior_variances for place in sums(soft)]
    x = rows(20, 1, 5, 5)
    learn_priors(
        soft, "regression", (x, rows(20, 2)), epochs=4, learning=LearningOptions(burn_in=1, every=1)
    )
    after = [soft.get_submodule(place).prior_variances for place in sums(soft)]
    assert before != after
    assert bool(soft(x).isfinite().all())


# --- bad input --------------------------------------------------------------------------------

LAYER = Linear(V, V, Z(3))
PLAIN = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
CONV = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU())
IMAGES = torch.randn(2, 1, 5, 5)
BAD: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "no network": (
        lambda: soften("EMLP"),  # type: ignore[arg-type]
        TypeError,
        r"expected a network to soften, got str",
    ),
    "softened twice": (
        lambda: soften(nn.Sequential(soften(LAYER))),
        ValueError,
        r"expected a network with hard constraints, got a PathSum at '0'",
    ),
    "nothing to soften": (
        lambda: soften(PLAIN),
        ValueError,
        r"expected a network with equivariant layers, shared weights or convolutions to soften, "
        r"got Sequential without any",
    ),
    "negative variance": (
        lambda: soften(LAYER, variances=(1.0, -1.0)),
        ValueError,
        r"expected finite variances of zero or more, got \(1\.0, -1\.0\)",
    ),
    "variance nan": (
        lambda: soften(LAYER, variances=(float("nan"), 1.0)),
        ValueError,
        r"expected finite variances of zero or more, got \(nan, 1\.0\)",
    ),
    "infinite variance": (
        lambda: soften(LAYER, variances=(float("inf"), 1.0)),
        ValueError,
        r"expected finite variances of zero or more, got \(inf, 1\.0\)",
    ),
    "variance of words": (
        lambda: soften(LAYER, variances=("a", 1.0)),  # type: ignore[arg-type]
        ValueError,
        r"expected finite variances of zero or more, got \('a', 1\.0\)",
    ),
    "one variance": (
        lambda: soften(LAYER, variances=1.0),  # type: ignore[arg-type]
        TypeError,
        r"expected two variances, strict and flexible, got 1\.0",
    ),
    "three variances": (
        lambda: soften(LAYER, variances=(1.0, 2.0, 3.0)),  # type: ignore[arg-type]
        TypeError,
        r"expected two variances, strict and flexible, got \(1\.0, 2\.0, 3\.0\)",
    ),
    "no variance": (
        lambda: soften(LAYER, variances=(0.0, 0.0)),
        ValueError,
        r"expected a variance above zero for one of the paths, got 0 for both",
    ),
    "negative start": (
        lambda: soften(LAYER, start=-1.0),
        ValueError,
        r"expected a finite start of zero or more, got -1\.0",
    ),
    "no example": (
        lambda: soften(CONV),
        ValueError,
        r"expected example inputs to learn the sizes of maps from, got none for the Conv2d '0'",
    ),
    "example of words": (
        lambda: soften(CONV, "images"),  # type: ignore[arg-type]
        TypeError,
        r"expected a tensor as the example, got str",
    ),
    "example without samples": (
        lambda: soften(CONV, IMAGES[0]),
        ValueError,
        r"expected maps with an axis of samples at '0', got shape \(1, 5, 5\)",
    ),
    "maps of two sizes": (
        lambda: soften(nn.Sequential(twice := nn.Conv2d(1, 1, 3), twice), IMAGES),
        ValueError,
        r"expected inputs of one shape at '0', got \(2, 1, 5, 5\) and \(2, 1, 3, 3\)",
    ),
    "no subgroup": (
        lambda: soften(Linear(V, V, SO(3)), into=O(3)),
        ValueError,
        r"expected a subgroup of SO\(3\), got O\(3\)",
    ),
    "other dimension": (
        lambda: soften(Linear(V, V, SO(3)), into="SO(2)"),
        ValueError,
        r"expected a subgroup of SO\(3\), which acts on 3 dimensions, got SO\(2\) on 2",
    ),
    "the same group": (
        lambda: soften(Linear(V, V, SO(3)), into=SO(3)),
        ValueError,
        r"expected a subgroup of SO\(3\) to break it to, got the whole of it",
    ),
    "group of words": (
        lambda: soften(LAYER, into="p6"),
        ValueError,
        r"unknown group 'p6'",
    ),
    "no group": (
        lambda: soften(LAYER, into=3),  # type: ignore[arg-type]
        TypeError,
        r"expected a group to break to, got int",
    ),
    "a group for convolutions": (
        lambda: soften(CONV, IMAGES, into=Z(3)),
        ValueError,
        r"expected a network with equivariant linear layers to break to Z\(3\), got Sequential",
    ),
    "shifts of vectors": (
        lambda: soften(LAYER, into="translations"),
        ValueError,
        r"got Linear without any whose symmetry can be broken to translations",
    ),
    "shifts of convolutions": (
        lambda: soften(CONV, IMAGES, into="translations"),
        ValueError,
        r"got Sequential without any whose symmetry can be broken to translations",
    ),
    "p4 to itself": (
        lambda: soften(GroupConv2d(1, 1, lifts=True), IMAGES, into="p4"),
        ValueError,
        r"expected to break a group convolution over p4 to 'translations', got 'p4'",
    ),
    "both kinds": (
        lambda: soften(LAYER, into="Z(3)", flexible={"": nn.Linear(3, 3)}),
        ValueError,
        r"expected flexible paths or a group to break to, got both",
    ),
    "flexible words": (
        lambda: soften(PLAIN, flexible="0"),  # type: ignore[arg-type]
        TypeError,
        r"expected flexible paths by name, or a function of name and layer, got str",
    ),
    "no flexible path": (
        lambda: soften(PLAIN, flexible=lambda name, layer: None),
        ValueError,
        r"expected at least one flexible path, got none",
    ),
    "unknown layer": (
        lambda: soften(PLAIN, flexible={"7": nn.Linear(3, 5)}),
        ValueError,
        r"expected names of layers \('', '0', '1', '2'\), got '7'",
    ),
    "no module beside": (
        lambda: soften(PLAIN, flexible={"0": torch.relu}),  # type: ignore[dict-item]
        TypeError,
        r"expected a module beside '0', got builtin_function_or_method",
    ),
    "a part of another": (
        lambda: soften(PLAIN, flexible={"": nn.Linear(3, 2), "0": nn.Linear(3, 5)}),
        ValueError,
        r"expected layers of which none is a part of another, got flexible paths beside '' and '0'",
    ),
    "other width": (
        lambda: soften(PLAIN, flexible={"0": nn.Linear(3, 6)}),
        ValueError,
        r"expected a flexible path with out_features=5 beside '0', got 6",
    ),
    "other channels": (
        lambda: soften(CONV, flexible={"0": nn.Conv2d(3, 2, 3)}),
        ValueError,
        r"expected a flexible path with in_channels=1 beside '0', got 3",
    ),
    "other size": (
        lambda: soften(CONV, IMAGES, flexible={"0": nn.Conv2d(1, 2, 5)}),
        ValueError,
        r"expected a flexible path beside '0' from shape \(2, 1, 5, 5\) to \(2, 2, 3, 3\), got "
        r"Conv2d to \(2, 2, 1, 1\)",
    ),
    "other inputs": (
        lambda: soften(CONV, IMAGES, flexible={"0": nn.Sequential(nn.Linear(7, 3))}),
        ValueError,
        r"expected a flexible path beside '0' that takes inputs of shape \(2, 1, 5, 5\), got "
        r"Sequential, which does not",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(name: str) -> None:
    call, kind, words = BAD[name]
    with pytest.raises(kind, match=words):
        call()


def test_a_map_too_large_for_memory_is_refused() -> None:
    with torch.device("meta"):
        model, x = nn.Conv2d(3, 64, 3, padding=1), torch.randn(1, 3, 4096, 4096)
    with pytest.raises((ValueError, MemoryError), match=r"a free map from \(3, 4096, 4096\)"):
        soften(model, x)
