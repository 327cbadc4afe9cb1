"""Softened networks on vectors: the function they start from, what they break, how they behave."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from functools import cache

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev
from torch.nn.utils import parametrize

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.evidence import CurvatureOptions, LearningOptions, laplace, learn_priors
from isotropy.groups import SL, SO, D, Group, O, O2eR3, S, SO13p, U, Z
from isotropy.nn import (
    EMLP,
    HNN,
    MLP,
    EMLPBlock,
    GatedNonlinearity,
    Linear,
    NormNonlinearity,
    PathSum,
    SharedLinear,
    fixed_weights,
    make_equivariant,
    record,
    sample_prior,
    soften,
)
from isotropy.nn._soften_vectors import pointwise_columns
from isotropy.reps import Regular, Rep, Scalar, Symmetry, T, V

DOUBLE = torch.float64
LABELS = torch.tensor([[0, 1, 2, -1], [2, 0, 1, 1], [1, 2, 0, 3]])


def rows(*shape: int, seed: int = 0, dtype: torch.dtype = DOUBLE) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=dtype, generator=rng)


def perturbed(model: nn.Module, size: float = 0.3) -> nn.Module:
    """With weights in all paths that are no longer small; fixed ones stay."""
    with torch.no_grad():
        for k, p in enumerate(p for p in model.parameters() if p.requires_grad):
            p.add_(size * rows(*p.shape, seed=k, dtype=p.dtype))
    return model


def network(group: Group, dtype: torch.dtype = DOUBLE, **kind: object) -> EMLP:
    options = {"channels": 2 * V + 3 * Scalar + T(2), "layers": 2, **kind}
    return EMLP(Scalar + 2 * V, V + Scalar, group, dtype=dtype, **options)  # type: ignore[arg-type]


MODELS: dict[str, Callable[[torch.dtype], nn.Module]] = {
    "O(3)": lambda dtype: network(O(3), dtype),
    "O(2) about an axis": lambda dtype: network(O2eR3(), dtype),
    "S(3)": lambda dtype: network(S(3), dtype),
    "SL(3)": lambda dtype: EMLP(2 * V + V.T, Scalar + V, SL(3), channels=18, layers=2, dtype=dtype),
    "by norm": lambda dtype: network(O(3), dtype, nonlinearity="norm"),
    "complex": lambda dtype: nn.Sequential(
        Linear(2 * V, V + V.T + V, U(2), dtype=dtype),
        NormNonlinearity(V + V.T + V, U(2), dtype=dtype),
        Linear(V + V.T + V, 3 * V, U(2), dtype=dtype),
    ),
    "linear layer": lambda dtype: Linear(V + Scalar, 2 * V, SO13p(), dtype=dtype),
    "layer in a frame": lambda dtype: Linear(V + Scalar, V + T(2), SO(3), dtype=dtype),
    "block": lambda dtype: EMLPBlock(2 * V, 3 * Scalar + V, O(3), dtype=dtype),
    "shared weights": lambda dtype: SharedLinear(LABELS, dtype=dtype),
    "made equivariant": lambda dtype: nn.Sequential(
        make_equivariant(nn.Linear(4, 4, dtype=dtype), V, V, Z(4)), nn.ReLU()
    ),
}


@cache
def kept(name: str, dtype: torch.dtype = DOUBLE) -> nn.Module:
    return MODELS[name](dtype)


def strict_model(name: str, dtype: torch.dtype = DOUBLE) -> nn.Module:
    return copy.deepcopy(kept(name, dtype))


def inputs(model: nn.Module, *batch: int) -> Tensor:
    first = next(m for m in model.modules() if hasattr(m, "in_features"))
    dtype = next(model.parameters()).dtype
    return rows(*batch, int(first.in_features), seed=7, dtype=dtype)  # type: ignore[arg-type]


def sums(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, PathSum)]


# --- what a softened network is ---------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_it_starts_as_the_function_of_the_strict_one(name: str) -> None:
    strict = perturbed(strict_model(name))
    before = copy.deepcopy(strict.state_dict())
    x = inputs(strict, 5)
    y = strict(x)
    torch.testing.assert_close(soften(strict, start=0.0)(x), y, rtol=1e-9, atol=1e-9)
    soft, larger = soften(strict), soften(strict, start=1.0)
    apart = [float((model(x) - y).abs().max().detach()) for model in (soft, larger)]
    scale = float(y.abs().max().detach())
    assert 0 < apart[0] < 0.01 * scale
    assert apart[1] > 10 * apart[0]
    # the original is as it was, and its weights are those of the strict paths
    assert all(torch.equal(strict.state_dict()[key], value) for key, value in before.items())
    assert not sums(strict)
    kept = {id(p) for p in strict.parameters()}
    assert not kept & {id(p) for p in soft.parameters()}
    found = {key.replace("paths.strict.", ""): p for key, p in soft.state_dict().items()}
    assert all(torch.equal(found[key], value) for key, value in before.items())


@pytest.mark.parametrize("name", MODELS)
def test_every_layer_has_a_strict_and_a_free_path(name: str) -> None:
    soft = soften(strict_model(name), variances=(1e4, 0.5))
    layers = [module for module in soft.modules() if isinstance(module, PathSum)]
    assert layers
    for layer in layers:
        assert list(layer.paths) == ["strict", "free"]
        assert layer.prior_variances == pytest.approx({"strict": 1e4, "free": 0.5}, rel=1e-5)
    linear = [m for m in strict_model(name).modules() if isinstance(m, Linear | SharedLinear)]
    free = [m for m in layers if m.paths["free"].weight.ndim == 2]
    assert len(free) == len(linear) or name == "made equivariant"


def test_free_paths_alone_are_a_multilayer_perceptron_with_swish() -> None:
    """Without strict weights: W x + b, then w ⊙ swish, then W x + b, in ordinary columns."""
    for group in (S(3), SL(3)):
        hidden = (2 * V + Scalar)(group)
        strict = EMLP(2 * V, V, group, channels=hidden, layers=1, bilinear=False, dtype=DOUBLE)
        soft = perturbed(soften(strict, variances=(0.0, 1.0)))
        block, head = soft.blocks[0], soft.head
        first, last = block.linear.paths["free"], head.paths["free"]
        swish = block.nonlinearity.paths["free"]
        x = rows(4, 6)
        gates = first.out_features - 7
        v = first(x)[:, gates:]
        bent = swish.weight * v * v.sigmoid()
        gated = block.nonlinearity.paths["strict"](first(x))
        torch.testing.assert_close(soft(x), last(bent + gated))


def test_a_softened_network_can_break_its_symmetry() -> None:
    for group in (O(3), S(3), SL(3)):
        strict = network(group) if group != SL(3) else strict_model("SL(3)")
        symmetry = strict.symmetry
        assert_equivariant(strict)
        assert equivariance_error(perturbed(soften(strict)), inputs(strict, 9), symmetry) > 1e-2
        # not where flexible paths are fixed at zero
        assert_equivariant(soften(strict, variances=(1.0, 0.0)), symmetry=symmetry)


@pytest.mark.parametrize("name", MODELS)
def test_the_sum_is_that_of_its_paths(name: str) -> None:
    """However a layer computes its sum, it is that of the two functions."""
    soft = perturbed(soften(strict_model(name)))
    for module in soft.modules():
        if isinstance(module, PathSum):
            x = rows(3, int(module.in_features), dtype=next(soft.parameters()).dtype)
            apart = sum(path(x) for path in module.paths.values())
            torch.testing.assert_close(module(x), apart)


def test_swish_can_be_left_out() -> None:
    soft = soften(network(O(3)), swish=False)
    assert sums(soft) == ["blocks.0.linear", "blocks.1.linear", "head"]
    with_swish = soften(network(O(3)))
    assert len(sums(with_swish)) == 5
    assert with_swish.blocks[0].nonlinearity.paths["free"].weight.shape == (18,)


def test_biases_are_free_where_the_strict_layer_may_have_none() -> None:
    soft = soften(Linear(V, V, SO(3)))  # zero is the only invariant vector
    assert soft.paths["strict"].bias is None
    assert soft.paths["free"].bias is not None
    assert soften(Linear(V, V, SO(3), bias=False)).paths["free"].bias is None
    assert soften(SharedLinear(LABELS, bias=False)).paths["free"].bias is None


def test_networks_within_others_are_softened() -> None:
    inner = EMLP(4 * V, Scalar, O2eR3(), channels=12, layers=2, dtype=DOUBLE)
    strict = HNN(inner)
    soft = soften(strict, start=0.0)
    assert len(sums(soft)) == 5
    x = rows(3, 12)
    torch.testing.assert_close(soft(x), strict(x))
    perturbed(soft)(x).square().sum().backward()
    assert all(p.grad is not None for p in soft.parameters() if p.ndim == 2)
    model = nn.Sequential(network(O(3)), nn.Tanh(), nn.Linear(4, 2, dtype=DOUBLE))
    soft = soften(model, start=0.0)
    assert len(sums(soft)) == 5
    assert type(soft[2]) is nn.Linear
    torch.testing.assert_close(soft(rows(3, 7)), model(rows(3, 7)))


def test_shared_layers_stay_shared() -> None:
    layer, whole = Linear(V, V, Z(7), dtype=DOUBLE), EMLP(V, V, Z(7), channels=21, layers=1)
    whole = whole.double()
    frame = EMLP(V, V, O(7), channels=16, layers=1, dtype=DOUBLE)
    swish = GatedNonlinearity(V, Z(7))
    strict = nn.ModuleDict(
        {
            "a": nn.Sequential(layer, swish, whole, frame),
            "b": nn.Sequential(frame, whole, swish, layer),
        }
    )
    soft = soften(strict, start=0.0)
    for k in range(4):
        assert soft["a"][k] is soft["b"][3 - k]
    x = rows(2, 7)
    for part in ("a", "b"):
        torch.testing.assert_close(soft[part](x), strict[part](x))


def test_modes_and_frozen_weights_are_kept() -> None:
    strict = network(O(3)).eval()
    strict.head.requires_grad_(False)
    soft = soften(strict)
    assert not any(module.training for module in soft.modules())
    mixed = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval())
    whole = soften(mixed, flexible={"": nn.Linear(3, 3)})
    assert whole.training
    assert not whole.paths["strict"][1].training
    assert not any(p.requires_grad for p in soft.head.paths["strict"].parameters())
    assert all(p.requires_grad for p in soft.head.paths["free"].parameters())


def test_complex_networks_get_no_swish() -> None:
    soft = soften(strict_model("complex"))
    assert sums(soft) == ["0", "2"]
    assert soft[0].paths["free"].weight.dtype == torch.complex128
    y = soft(inputs(soft, 4))
    y.abs().square().sum().backward()
    assert all(p.grad is not None for p in soft.parameters())


# --- a module like others ---------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_copies_and_states(name: str) -> None:
    soft = perturbed(soften(strict_model(name)))
    x = inputs(soft, 3)
    y = soft(x)
    torch.testing.assert_close(copy.deepcopy(soft)(x), y, rtol=0, atol=0)
    if not any(parametrize.is_parametrized(m) for m in soft.modules()):  # torch's cannot be
        torch.testing.assert_close(pickle.loads(pickle.dumps(soft))(x), y, rtol=0, atol=0)
    file = io.BytesIO()
    torch.save(soft.state_dict(), file)
    file.seek(0)
    other = perturbed(soften(strict_model(name), variances=(2.0, 3.0)), 0.1)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other(x), y, rtol=0, atol=0)
    variances = [m.prior_variances for m in other.modules() if isinstance(m, PathSum)]
    assert all(v == pytest.approx({"strict": 1e5, "free": 1.0}, rel=1e-4) for v in variances)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "complex"])
def test_precision_can_change_and_change_back(name: str) -> None:
    single = perturbed(soften(strict_model(name, torch.float32)))
    double = copy.deepcopy(single).to(DOUBLE)
    x = inputs(double, 3)
    y = double(x)
    assert y.dtype == DOUBLE
    # constants are those of double precision: the sum of paths agrees to its rounding
    for module in double.modules():
        if isinstance(module, PathSum):
            z = rows(3, int(module.in_features))
            apart = sum(path(z) for path in module.paths.values())
            torch.testing.assert_close(module(z), apart, rtol=1e-12, atol=1e-12)
    back = double.to(torch.float32)
    torch.testing.assert_close(back(x.float()), single(x.float()), rtol=0, atol=0)


@pytest.mark.parametrize("name", ["O(3)", "S(3)"])
def test_they_compile_as_one_graph(name: str) -> None:
    soft = perturbed(soften(strict_model(name)))
    x = inputs(soft, 3)
    compiled = torch.compile(soft, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x), soft(x))


@pytest.mark.parametrize("name", MODELS)
def test_weights_can_be_kept_for_many_calls(name: str) -> None:
    soft = perturbed(soften(strict_model(name)))
    x = inputs(soft, 3)
    y = soft(x)
    with fixed_weights(soft):
        kept = soft(x)
    torch.testing.assert_close(kept, y)
    (gradient,) = torch.autograd.grad(kept.abs().square().sum(), [next(soft.parameters())])
    (wanted,) = torch.autograd.grad(y.abs().square().sum(), [next(soft.parameters())])
    torch.testing.assert_close(gradient, wanted)


@pytest.mark.parametrize("name", MODELS)
def test_batches_of_any_shape(name: str) -> None:
    soft = perturbed(soften(strict_model(name)))
    x = inputs(soft, 2, 3)
    y = soft(x)
    torch.testing.assert_close(soft(x.flatten(0, 1)), y.flatten(0, 1))
    torch.testing.assert_close(soft(x[0, 0]), y[0, 0])


# --- breaking a group to a subgroup -----------------------------------------------------------

BROKEN: dict[str, tuple[Group, Group, Group]] = {
    # what is broken, to what, and a group between them that is no longer respected
    "reflections": (O(3), SO(3), O(3)),
    "to an axis": (O(3), O2eR3(), SO(3)),
    "to shifts": (S(4), Z(4), D(4)),
    "to shifts and flips": (S(4), D(4), S(4)),
}


@pytest.mark.parametrize(
    ("name", "nonlinearity"),
    [*((name, "gated") for name in BROKEN), ("reflections", "norm"), ("to shifts", "norm")],
)
def test_a_broken_group_leaves_exactly_the_subgroup(name: str, nonlinearity: str) -> None:
    group, subgroup, lost = BROKEN[name]
    strict = network(group, nonlinearity=nonlinearity)
    x = rows(4, strict.in_features)
    torch.testing.assert_close(soften(strict, into=subgroup, start=0.0)(x), strict(x))
    soft = sample_prior(soften(strict, into=subgroup, variances=(1.0, 1.0)), generator=0)
    rep_in, rep_out = Scalar + 2 * V, V + Scalar
    assert_equivariant(soft, symmetry=Symmetry(subgroup, rep_in(subgroup), rep_out(subgroup)))
    assert equivariance_error(soft, x, Symmetry(lost, rep_in(lost), rep_out(lost))) > 1e-4


def test_single_layers_and_made_ones_are_broken_too() -> None:
    for strict in (
        Linear(V, V, S(4), dtype=DOUBLE),
        make_equivariant(nn.Linear(4, 4, dtype=DOUBLE), V, V, S(4)),
    ):
        soft = sample_prior(soften(strict, into="Z(4)", variances=(1.0, 1.0)), generator=0)
        assert_equivariant(soft, symmetry=Symmetry(Z(4), V(Z(4)), V(Z(4))))
        assert soft.paths["free"].coefficients.shape == (4,)
    strict = Linear(2 * Regular, Regular, S(3), dtype=DOUBLE)
    soft = sample_prior(soften(strict, into=Z(3), variances=(1.0, 1.0)), generator=0)
    rep = soft.paths["free"]
    assert_equivariant(soft, symmetry=Symmetry(Z(3), rep.rep_in, rep.rep_out))


def test_a_broken_product_keeps_the_product_of_subgroups() -> None:
    strict = Linear(V, V, S(3) * S(2), dtype=DOUBLE)
    soft = sample_prior(soften(strict, into=Z(3) * S(2), variances=(1.0, 1.0)), generator=0)
    group = Z(3) * S(2)
    assert_equivariant(soft, symmetry=Symmetry(group, V(group), V(group)))
    assert sum(p.numel() for p in soft.paths["free"].parameters()) == 3 * 2 + 1


def test_the_vertical_axis_gets_a_swish_of_its_own() -> None:
    soft = soften(network(O(3)), into=O2eR3())
    swish = soft.blocks[0].nonlinearity.paths["free"]
    # three scalars, the third components of two vectors, the last one of a matrix
    assert swish.weight.shape == (6,)
    assert soften(network(O(3)), into=SO(3)).blocks[0].nonlinearity.paths["free"].weight.shape == (
        3,
    )


@pytest.mark.parametrize(
    ("rep", "labels"),
    [
        ((2 * V)(Z(3)), [0, 0, 0, 1, 1, 1]),
        ((V + Scalar + V)(Z(2)), [0, 0, 2, 1, 1]),
        ((V * V)(Z(2)), [0, 1, 1, 0]),
        (V(O(3)), [-1, -1, -1]),
        ((V + Scalar)(O2eR3()), [-1, -1, 0, 1]),
    ],
    ids=["shifts", "out of order", "pairs", "nothing", "an axis"],
)
def test_pointwise_columns_go_by_orbit(rep: Rep, labels: list[int]) -> None:
    found = pointwise_columns(rep)
    assert found.shape == (len(labels),)
    # labels may be numbered in any order: which columns share one is what counts
    same = found.unsqueeze(0) == found.unsqueeze(1)
    wanted = torch.tensor(labels)
    assert torch.equal(same, wanted.unsqueeze(0) == wanted.unsqueeze(1))
    assert torch.equal(found < 0, wanted < 0)
    used = sorted({label for label in found.tolist() if label >= 0})
    assert used == list(range(len(used)))


# --- paths of the user's own ------------------------------------------------------------------


def test_flexible_paths_by_name_and_by_function() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))
    wide = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 5))
    by_name = soften(model, flexible={"0": wide}, variances=(3.0, 2.0))
    assert sums(by_name) == ["0"]
    assert by_name[0].paths["free"] is wide
    assert by_name[0].prior_variances == pytest.approx({"strict": 3.0, "free": 2.0})
    x = torch.randn(4, 3)
    y = model[2](torch.relu(model[0](x) + wide(x)))
    torch.testing.assert_close(by_name(x), y)

    def beside(name: str, layer: nn.Module) -> nn.Module | None:
        return MLP(layer.in_features, layer.out_features) if name in ("0", "2") else None

    by_function = soften(model, flexible=beside)
    assert sums(by_function) == ["0", "2"]
    assert isinstance(by_function[2].paths["free"], MLP)


def test_a_whole_network_may_have_a_flexible_path() -> None:
    strict = network(O(3))
    free = MLP(7, 4, dtype=DOUBLE)
    soft = soften(strict, flexible={"": free})
    assert isinstance(soft, PathSum)
    x = rows(3, 7)
    torch.testing.assert_close(soft(x), strict(x) + free(x))


def test_layers_within_a_network_may_have_flexible_paths() -> None:
    strict = network(O(3))
    soft = soften(strict, rows(2, 7), flexible={"head": MLP(18, 4, dtype=DOUBLE)})
    assert sums(soft) == ["head"]
    x, hidden = rows(3, 7), []
    soft.head.register_forward_pre_hook(lambda _, given: hidden.append(given[0]))
    y = soft(x)
    torch.testing.assert_close(y, strict(x) + soft.head.paths["free"](hidden[0]))


def test_known_layers_keep_their_lengths_beside_paths_of_any_kind() -> None:
    soft = soften(Linear(V, V, Z(5), bias=False), flexible={"": nn.Linear(5, 5)})
    (lengths,) = soft.tensor_squared_lengths.values()
    torch.testing.assert_close(lengths, torch.full((5,), 5.0))


def test_an_example_leaves_statistics_and_modes_as_they_are() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    free = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    soft = soften(model, torch.randn(9, 3) + 5, flexible={"0": free})
    assert not bool(soft[1].running_mean.any())
    assert not bool(free[1].running_mean.any())
    assert soft.training
    assert free[1].training


# --- evidence ---------------------------------------------------------------------------------


def data(n: int = 24) -> tuple[Tensor, Tensor]:
    x = rows(n, 7)
    return x, torch.cat([x[:, 1:4] * x[:, :1], x[:, 4:].square().sum(1, keepdim=True)], 1)


EVIDENCE: dict[str, Callable[[], nn.Module]] = {
    "O(3)": lambda: soften(network(O(3), layers=1)),
    "by norm": lambda: soften(network(O(3), layers=1, nonlinearity="norm")),
    "S(3)": lambda: soften(network(S(3), layers=1)),
    "S(3) to Z(3)": lambda: soften(network(S(3), layers=1), into=Z(3)),
    "O(3) to O(2)": lambda: soften(network(O(3), layers=1), into=O2eR3()),
}


@pytest.mark.parametrize("name", EVIDENCE)
def test_recorded_operations_account_for_all_parameters(name: str) -> None:
    """``laplace`` refuses parameters whose influence they do not tell in full."""
    soft = perturbed(EVIDENCE[name](), 0.1)
    x, y = data(6)
    with record(soft) as operations:
        recorded = soft(x)
    torch.testing.assert_close(recorded, soft(x))
    assert {o.parameter for o in operations} == {name for name, _ in soft.named_parameters()}
    found = laplace(soft, "regression", (x, y), curvature=CurvatureOptions("diagonal"))
    assert bool(found.log_marginal_likelihood().isfinite())


def test_the_evidence_of_a_softened_layer_has_a_closed_form() -> None:
    """Outputs are jointly Gaussian, with the covariance of Eq. 3.1 between weights."""
    layer = Linear(V, V, Z(3), bias=False, dtype=DOUBLE)
    soft = soften(layer, variances=(2.0, 0.5))
    x, y = rows(4, 3), rows(4, 3, seed=1)
    eye = torch.eye(3, dtype=DOUBLE)
    q = torch.stack([eye.roll(k, 1) for k in range(3)]).flatten(1).mT / 3**0.5
    prior = 2.5 * q @ q.mT + 0.5 * (torch.eye(9, dtype=DOUBLE) - q @ q.mT)
    design = torch.kron(eye, x)  # from the rows of W to the columns of y
    marginal = design @ prior @ design.mT + 0.09 * torch.eye(12, dtype=DOUBLE)
    target = y.mT.flatten()
    pulled = (design.mT @ torch.linalg.solve(marginal, target)).reshape(3, 3)
    with torch.no_grad():  # to the mode, where the approximation is exact
        soft.paths["free"].weight.copy_(0.5 * pulled)
        soft.paths["strict"].coefficients.copy_(2.0 * layer.weight_space.coordinates(pulled))
    found = laplace(
        soft, "regression", (x, y), curvature=CurvatureOptions("full")
    ).log_marginal_likelihood(
        {"paths.strict.coefficients": 1 / 2.0, "paths.free.weight": 1 / 0.5}, noise=0.3
    )
    exact = torch.distributions.MultivariateNormal(torch.zeros_like(target), marginal)
    torch.testing.assert_close(found, exact.log_prob(target), rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["O(3)", "S(3) to Z(3)", "O(3) to O(2)"])
def test_the_curvature_of_a_swish_is_that_of_all_its_columns(name: str) -> None:
    """Gauss–Newton matrices by brute force; columns of one orbit share a weight."""
    soft = perturbed(EVIDENCE[name](), 0.1)
    x, y = data(5)
    weight = "blocks.0.nonlinearity.paths.free.weight"
    parameters = {key: p.detach() for key, p in soft.named_parameters()}
    derivatives = jacrev(lambda p: functional_call(soft, {**parameters, weight: p}, (x,)))
    jacobian = derivatives(parameters[weight]).flatten(0, 1)
    (block,) = laplace(soft, "regression", (x, y)).blocks[weight]
    torch.testing.assert_close(block.dense(), jacobian.mT @ jacobian)


@pytest.mark.parametrize("name", ["O(3)", "S(3) to Z(3)"])
def test_priors_can_be_learned(name: str) -> None:
    soft = EVIDENCE[name]().float()
    x, y = (part.float() for part in data())
    before = [m.prior_variances for m in soft.modules() if isinstance(m, PathSum)]
    learn_priors(soft, "regression", (x, y), epochs=4, learning=LearningOptions(burn_in=1, every=1))
    after = [m.prior_variances for m in soft.modules() if isinstance(m, PathSum)]
    assert before != after
    assert bool(soft(x).isfinite().all())
