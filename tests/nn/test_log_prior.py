"""The prior of softened networks: Eq. 3.1 of the thesis, its density, and draws from it."""

from __future__ import annotations

from collections.abc import Callable
from math import log, pi
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.func import functional_call, jacrev

from isotropy.bases import equivariant_basis
from isotropy.groups import SL, SO, Group, O, S, SO13p, U, Z
from isotropy.nn import (
    EMLP,
    CircularConv2d,
    GroupConv2d,
    Linear,
    PathSum,
    SharedLinear,
    log_prior,
    make_equivariant,
    sample_prior,
    soften,
    tensor_priors,
)
from isotropy.reps import Rep, Scalar, V
from isotropy_papers.group_linear import GroupLinear

STRICT, FREE = 4.0, 0.25
DOUBLE = torch.float64
QUARTER_TURN = Group(discrete=[torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=DOUBLE)])


def rows(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=DOUBLE, generator=rng)


def randomised(model: nn.Module, seed: int = 0) -> nn.Module:
    with torch.no_grad():
        for k, parameter in enumerate(model.parameters()):
            parameter.copy_(rows(*parameter.shape, seed=seed + k))
    return model


# --- Eq. 3.1 ----------------------------------------------------------------------------------


def affine(layer: nn.Module, shape: tuple[int, ...]) -> Callable[[dict[str, Tensor]], Tensor]:
    """The matrix and the bias of a layer as functions of its parameters, shape (out, in + 1)."""
    size = torch.Size(shape).numel()
    x = torch.cat([torch.eye(size, dtype=DOUBLE), torch.zeros(1, size, dtype=DOUBLE)])

    def matrix(parameters: dict[str, Tensor]) -> Tensor:
        y = functional_call(layer, parameters, (x.unflatten(1, shape),)).flatten(1)
        return torch.cat([y[:-1] - y[-1], y[-1:]]).mT

    return matrix


def covariances(layer: nn.Module, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Those of all entries of the matrix, and of the bias, by the chain rule."""
    priors = {prior.name: prior for prior in tensor_priors(layer)}
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    assert priors.keys() == parameters.keys()
    weight, bias = torch.zeros(1, dtype=DOUBLE), torch.zeros(1, dtype=DOUBLE)
    for name, derivative in jacrev(affine(layer, shape))(parameters).items():
        prior = priors[name]
        c = torch.ones(()) if prior.squared_lengths is None else prior.squared_lengths
        variance = (prior.log_variance.double().exp() / c).expand(parameters[name].shape)
        by_entry = derivative.flatten(2)
        weighted = by_entry * variance.flatten()
        weight = weight + weighted[:, :-1].flatten(0, 1) @ by_entry[:, :-1].flatten(0, 1).mT
        bias = bias + weighted[:, -1] @ by_entry[:, -1].mT
    return weight, bias


def expected(q: Tensor) -> Tensor:
    """(σ_a² + σ_b²) QQᵀ + σ_b² PPᵀ."""
    inside = q @ q.mT
    outside = torch.eye(len(q), dtype=DOUBLE) - inside
    return (STRICT + FREE) * inside + FREE * outside


VECTORS: dict[str, tuple[Rep, Rep]] = {
    "permutations": ((V + 2 * Scalar + V)(S(4)), (Scalar + V * V)(S(4))),
    "shifts": (2 * V(Z(5)), V(Z(5))),
    "signed permutations": ((2 * V + Scalar)(QUARTER_TURN), (V + V * V)(QUARTER_TURN)),
    "orthogonal": ((V + 2 * Scalar + V)(O(3)), (V * V + Scalar)(O(3))),
    "of complex kind": ((2 * V + Scalar)(SO(2)), (V + V * V)(SO(2))),
    "unimodular": ((V + Scalar + V.T)(SL(3)), (V + V.T * V)(SL(3))),
    "Lorentz": ((V + Scalar)(SO13p()), (V.T + Scalar + V)(SO13p())),
}


def in_a_network(rep_in: Rep, rep_out: Rep) -> nn.Module:
    """A layer that works in the frame of a whole network."""
    hidden = 2 * Scalar + 2 * rep_in
    network = EMLP(rep_in, rep_out, channels=hidden, layers=1, bilinear=False, dtype=DOUBLE)
    return soften(network, variances=(STRICT, FREE)).head


MAKERS: dict[str, Callable[[Rep, Rep], nn.Module]] = {
    "alone": lambda a, b: soften(Linear(a, b, dtype=DOUBLE), variances=(STRICT, FREE)),
    "made": lambda a, b: soften(
        make_equivariant(nn.Linear(a.size(), b.size(), dtype=DOUBLE), a, b),
        variances=(STRICT, FREE),
    ),
    "head": in_a_network,
}


@pytest.mark.parametrize("name", VECTORS)
@pytest.mark.parametrize("made", MAKERS)
def test_weights_have_the_covariance_of_equation_3_1(name: str, made: str) -> None:
    rep_in, rep_out = VECTORS[name]
    layer = MAKERS[made](rep_in, rep_out)
    if made == "head":
        rep_in = layer.rep_in
    weight, bias = covariances(layer, (rep_in.size(),))
    torch.testing.assert_close(
        weight, expected(equivariant_basis(rep_in >> rep_out).dense().to(DOUBLE)), rtol=0, atol=1e-5
    )
    torch.testing.assert_close(
        bias, expected(equivariant_basis(rep_out).dense().to(DOUBLE)), rtol=0, atol=1e-5
    )


def test_shared_weights_have_it_too() -> None:
    labels = torch.tensor([[0, 1, 2, -1], [2, 0, 1, 1], [1, 2, 0, 3]])
    signs = torch.tensor([[1, 1, -1, 1], [-1, 1, 1, -1], [1, 1, 1, 1]])
    strict = SharedLinear(labels, signs, bias=torch.tensor([0, 0, 1]), dtype=DOUBLE)
    weight, bias = covariances(soften(strict, variances=(STRICT, FREE)), (4,))
    patterns = torch.stack([(labels == k) * signs for k in range(4)]).double()
    q = (patterns / patterns.norm(dim=(1, 2), keepdim=True)).flatten(1).mT
    torch.testing.assert_close(weight, expected(q), rtol=0, atol=1e-5)
    q = torch.tensor([[0.5**0.5, 0.5**0.5, 0], [0, 0, 1]], dtype=DOUBLE).mT
    torch.testing.assert_close(bias, expected(q), rtol=0, atol=1e-5)


def toeplitz(size: tuple[int, int], *, wraps: bool) -> Tensor:
    """Normalised matrices of the nine taps of a 3 × 3 filter, in loops: shape (places², 9)."""
    height, width = size
    found = torch.zeros(9, height, width, height, width, dtype=DOUBLE)
    for tap in range(9):
        down, right = tap // 3 - 1, tap % 3 - 1
        for i in range(height):
            for j in range(width):
                a, b = i + down, j + right
                if wraps:
                    found[tap, i, j, a % height, b % width] = 1
                elif 0 <= a < height and 0 <= b < width:
                    found[tap, i, j, a, b] = 1
    flat = found.flatten(1)
    return (flat / flat.norm(dim=1, keepdim=True)).mT


@pytest.mark.parametrize("wraps", [False, True], ids=["zeros", "circular"])
def test_convolutions_have_bi_toeplitz_matrices_for_q(wraps: bool) -> None:
    """Eq. 3.2: the basis is that of (bi-)Toeplitz matrices of 3 × 3 filters."""
    mode = "circular" if wraps else "zeros"
    strict = nn.Conv2d(1, 1, 3, padding=1, padding_mode=mode, dtype=DOUBLE)
    soft = soften(strict, rows(2, 1, 4, 3), variances=(STRICT, FREE))
    weight, bias = covariances(soft, (1, 4, 3))
    torch.testing.assert_close(weight, expected(toeplitz((4, 3), wraps=wraps)), rtol=0, atol=1e-5)
    torch.testing.assert_close(
        bias, expected(torch.full((12, 1), 12**-0.5, dtype=DOUBLE)), rtol=0, atol=1e-5
    )


def unit_matrices(layer: nn.Module, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Normalised matrices of single weights and vectors of single biases; unused ones left out."""
    parameters = {name: p.detach() for name, p in layer.named_parameters()}
    units: list[Tensor] = []
    shifts: list[Tensor] = []
    for name, derivative in jacrev(affine(layer, shape))(parameters).items():
        by_entry = derivative.flatten(2)
        found = by_entry[:, -1] if "bias" in name else by_entry[:, :-1].flatten(0, 1)
        lengths = found.norm(dim=0)
        used = lengths > 0
        (shifts if "bias" in name else units).append(found[:, used] / lengths[used])
    return torch.cat(units, 1), torch.cat(shifts, 1)


KIND = {"dtype": DOUBLE}
MAPS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "stride": (lambda: nn.Conv2d(2, 3, 3, stride=2, padding=1, **KIND), (2, 5, 4)),
    "dilation": (lambda: nn.Conv2d(1, 2, 3, dilation=2, padding=2, **KIND), (1, 5, 4)),
    "groups": (lambda: nn.Conv2d(4, 2, 3, groups=2, padding=1, **KIND), (4, 3, 3)),
    "same": (lambda: nn.Conv2d(1, 2, (5, 3), padding="same", **KIND), (1, 4, 4)),
    "valid": (lambda: nn.Conv2d(2, 2, 2, **KIND), (2, 3, 3)),
    "large kernel": (lambda: nn.Conv2d(1, 1, 7, padding=3, **KIND), (1, 3, 3)),
    "one axis": (lambda: nn.Conv1d(2, 3, 3, padding=1, **KIND), (2, 6)),
    "three axes": (lambda: nn.Conv3d(1, 2, 3, padding=1, **KIND), (1, 2, 3, 2)),
    "transposed": (
        lambda: nn.ConvTranspose2d(2, 1, 3, 2, padding=1, output_padding=1, **KIND),
        (2, 3, 2),
    ),
    "transposed on one axis": (lambda: nn.ConvTranspose1d(2, 2, 3, groups=2, **KIND), (2, 4)),
    "on a torus": (lambda: CircularConv2d(2, 2, 3, **KIND), (2, 3, 4)),
    "lifting": (lambda: GroupConv2d(1, 1, 3, group="p4m", lifts=True, **KIND), (1, 3, 3)),
    "p4": (lambda: GroupConv2d(1, 1, 3, **KIND), (1, 4, 3, 3)),
    "pointwise p4": (lambda: GroupConv2d(1, 1, 3, form="pointwise", **KIND), (1, 4, 3, 3)),
    "on a group": (lambda: GroupLinear(2, 1, "S(3)", **KIND), (2, 6)),
    "pointwise on a group": (
        lambda: GroupLinear(2, 2, "D(3)", form="pointwise", subgroup="Z(3)", **KIND),
        (2, 6),
    ),
}


@pytest.mark.parametrize("name", MAPS)
def test_maps_of_all_kinds_have_the_covariance_of_equation_3_1(name: str) -> None:
    build, shape = MAPS[name]
    strict = build()
    soft = soften(strict, rows(2, *shape), variances=(STRICT, FREE))
    for found, q in zip(covariances(soft, shape), unit_matrices(strict, shape), strict=True):
        torch.testing.assert_close(q.mT @ q, torch.eye(q.shape[1], dtype=DOUBLE))
        torch.testing.assert_close(found, expected(q), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("group", "lifts", "into", "rank"),
    [
        ("p4m", True, "translations", 8 * 9),
        ("p4m", True, "p4", 2 * 9),
        ("p4", False, "translations", 4 * 4 * 9),
    ],
    ids=["lifting", "lifting to p4", "p4"],
)
def test_a_broken_group_convolution_is_a_sum_over_both_spaces(
    group: Any, lifts: bool, into: str, rank: int
) -> None:
    """σ_a² QQᵀ + σ_b² RRᵀ, where R is a basis of the larger space."""
    strict = GroupConv2d(1, 1, 3, group=group, lifts=lifts, **KIND)
    shape = (1, 3, 3) if lifts else (1, 4, 3, 3)
    soft = soften(strict, rows(1, *shape), into=into, variances=(STRICT, FREE))
    q, _ = unit_matrices(soft.paths["strict"], shape)
    r, _ = unit_matrices(soft.paths["free"], shape)
    assert r.shape[1] == rank
    torch.testing.assert_close(r @ (r.mT @ q), q)  # the smaller space lies in the larger
    weight, _ = covariances(soft, shape)
    torch.testing.assert_close(weight, STRICT * q @ q.mT + FREE * r @ r.mT, rtol=0, atol=1e-5)


def test_a_group_broken_to_a_subgroup_is_a_sum_over_both_spaces() -> None:
    rep_in, rep_out = V + Scalar, V * V
    strict = Linear(rep_in, rep_out, O(3), dtype=DOUBLE)
    soft = soften(strict, into=SO(3), variances=(STRICT, FREE))
    q, r = (equivariant_basis(rep_in(g) >> rep_out(g)).dense().to(DOUBLE) for g in (O(3), SO(3)))
    weight, _ = covariances(soft, (4,))
    torch.testing.assert_close(weight, STRICT * q @ q.mT + FREE * r @ r.mT, rtol=0, atol=1e-5)


def layer_of_vectors() -> tuple[nn.Module, tuple[int, ...], Tensor]:
    rep_in, rep_out = (V + Scalar)(O(3)), V(O(3))
    layer = soften(Linear(rep_in, rep_out, dtype=DOUBLE), variances=(STRICT, FREE))
    return layer, (4,), equivariant_basis(rep_in >> rep_out).dense().to(DOUBLE)


def layer_of_frames() -> tuple[nn.Module, tuple[int, ...], Tensor]:
    layer = in_a_network(V(SO(2)), V(SO(2)))
    return layer, (6,), equivariant_basis(layer.rep_in >> V(SO(2))).dense().to(DOUBLE)


def layer_of_shifts() -> tuple[nn.Module, tuple[int, ...], Tensor]:
    layer = soften(Linear(V, V, Z(4), dtype=DOUBLE), variances=(STRICT, FREE))
    return layer, (4,), equivariant_basis((V >> V)(Z(4))).dense().to(DOUBLE)


def layer_of_maps() -> tuple[nn.Module, tuple[int, ...], Tensor]:
    strict = nn.Conv2d(1, 1, 3, padding=1, dtype=DOUBLE)
    layer = soften(strict, rows(1, 1, 2, 3), variances=(STRICT, FREE))
    q = toeplitz((2, 3), wraps=False)
    return layer, (1, 2, 3), q


@pytest.mark.parametrize(
    "build",
    [layer_of_vectors, layer_of_frames, layer_of_shifts, layer_of_maps],
    ids=["O(3)", "frame", "Z(4)", "convolution"],
)
def test_draws_have_the_covariance_of_equation_3_1(
    build: Callable[[], tuple[nn.Module, tuple[int, ...], Tensor]],
) -> None:
    layer, shape, q = build()
    generator = torch.Generator().manual_seed(3)
    matrix = affine(layer, shape)
    draws = []
    with torch.no_grad():
        for _ in range(500):
            parameters = dict(sample_prior(layer, generator=generator).named_parameters())
            draws.append(matrix(parameters)[:, :-1].flatten())
    sample = torch.stack(draws)
    wanted = expected(q)
    found = sample.mT @ sample / len(sample)
    variances = wanted.diagonal()
    # the variance of a product of two Gaussian numbers, over the number of draws
    error = ((variances[:, None] * variances + wanted.square()) / len(sample)).sqrt()
    assert float(((found - wanted) / error).abs().max()) < 4.8
    assert float((sample.mean(0) / (variances / len(sample)).sqrt()).abs().max()) < 4.5


# --- the density ------------------------------------------------------------------------------


def by_hand(model: nn.Module) -> float:
    """The log density of all parameters in paths, one number at a time."""
    total = 0.0
    for prior in tensor_priors(model):
        theta = prior.parameter.detach().flatten()
        c = torch.ones(()) if prior.squared_lengths is None else prior.squared_lengths
        c = c.expand(prior.parameter.shape).flatten()
        for value, length in zip(theta.tolist(), c.tolist(), strict=True):
            deviation = (float(prior.log_variance.exp()) / length) ** 0.5
            total += float(Normal(0.0, deviation).log_prob(torch.tensor(value, dtype=DOUBLE)))
    return total


DENSITIES: dict[str, Callable[[], nn.Module]] = {
    "network": lambda: soften(
        EMLP(Scalar + V, V, O(3), channels=8, layers=1, dtype=DOUBLE), variances=(30.0, 0.2)
    ),
    "permutations": lambda: soften(Linear(2 * V, V + V * V, S(3), dtype=DOUBLE)),
    "Lorentz": lambda: soften(Linear(V + Scalar, V, SO13p(), dtype=DOUBLE), variances=(2.0, 3.0)),
    "convolution": lambda: soften(
        nn.Conv2d(1, 2, 3, padding=1, dtype=DOUBLE), rows(1, 1, 3, 3), variances=(7.0, 0.1)
    ),
}


@pytest.mark.parametrize("name", DENSITIES)
def test_log_prior_is_the_sum_of_normal_densities(name: str) -> None:
    model = randomised(DENSITIES[name]())
    value = by_hand(model)
    assert float(log_prior(model).detach()) == pytest.approx(value, rel=1e-6)
    assert float(log_prior(model, samples=40).detach()) == pytest.approx(value / 40, rel=1e-6)
    own = [log_prior(m).detach() for m in model.modules() if isinstance(m, PathSum)]
    assert float(sum(own)) == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize("name", DENSITIES)
def test_its_gradient_pulls_to_zero_by_one_over_the_variance(name: str) -> None:
    """−c θ/σ², over N in a mean loss."""
    model = randomised(DENSITIES[name]())
    log_prior(model, samples=40).backward()
    for prior in tensor_priors(model):
        c = 1.0 if prior.squared_lengths is None else prior.squared_lengths
        pull = -c * prior.parameter.detach() / prior.log_variance.exp() / 40
        torch.testing.assert_close(prior.parameter.grad, pull, rtol=1e-6, atol=0, check_dtype=False)


def test_the_unscaled_form_is_a_sum_of_squares_over_variances() -> None:
    """The penalty of the thesis' code: w_a‖θ_a‖² + w_b‖θ_b‖² with w = 1/σ², whatever N."""
    soft = PathSum(
        {"strict": nn.Linear(3, 2), "free": nn.Linear(3, 2)},
        prior_variances={"strict": 1e3, "free": 1e-2},
    )
    strict, free = (
        sum(p.square().sum() for p in path.parameters()) for path in soft.paths.values()
    )
    wanted = float(-(1e-3 * strict + 1e2 * free).detach())
    for samples in (None, 1000):
        found = log_prior(soft, samples=samples, form="unscaled")
        assert float(found.detach()) == pytest.approx(wanted, rel=1e-5)


def test_the_unscaled_form_is_in_the_lengths_of_matrices() -> None:
    strict = Linear(V, V, Z(5), bias=False, dtype=DOUBLE)
    soft = soften(strict, variances=(0.5, 1.0), start=0.0)
    wanted = -2 * strict.weight.detach().square().sum()
    torch.testing.assert_close(log_prior(soft, form="unscaled").detach(), wanted)


def test_what_is_outside_of_all_sums_has_a_flat_prior() -> None:
    soft = PathSum({"a": nn.Linear(2, 2)})
    model = nn.Sequential(soft, nn.Linear(2, 2))
    torch.testing.assert_close(log_prior(model), log_prior(soft))
    log_prior(model).backward()
    assert model[1].weight.grad is None
    before = model[1].weight.clone()
    sample_prior(model, generator=0)
    torch.testing.assert_close(model[1].weight, before, rtol=0, atol=0)


def test_the_innermost_of_nested_sums_decides() -> None:
    inner = PathSum({"a": nn.Linear(2, 2, bias=False)}, prior_variances={"a": 4.0})
    outer = PathSum(
        {"inner": inner, "b": nn.Linear(2, 2, bias=False)},
        prior_variances={"inner": 100.0, "b": 9.0},
    )
    found = {prior.name: float(prior.log_variance.exp()) for prior in tensor_priors(outer)}
    assert found == pytest.approx(
        {"paths.inner.paths.a.weight": 4.0, "paths.b.weight": 9.0}, rel=1e-6
    )
    squares = {name: float(p.detach().square().sum()) for name, p in outer.named_parameters()}
    wanted = sum(-squares[name] / variance for name, variance in found.items())
    assert float(log_prior(outer, form="unscaled").detach()) == pytest.approx(wanted, rel=1e-5)


def test_a_shared_layer_counts_once() -> None:
    layer = Linear(V, V, Z(4))
    soft = soften(nn.Sequential(layer, nn.Tanh(), layer))
    assert len(list(tensor_priors(soft))) == 4  # weight and bias of two paths
    torch.testing.assert_close(log_prior(soft), log_prior(soft[0]))


def test_a_variance_of_zero_fixes_a_path_and_leaves_the_rest() -> None:
    strict = Linear(V, V, Z(4), bias=False)
    soft = soften(strict, variances=(2.0, 0.0))
    free = soft.paths["free"].weight
    assert not free.requires_grad
    assert not bool(free.any())
    beta = strict.coefficients.detach()
    wanted = float(-0.5 * (4 * beta.square().sum() / 2 + 4 * log(2 * pi * 2 / 4)))
    value = log_prior(soft)
    assert float(value.detach()) == pytest.approx(wanted, rel=1e-5)
    value.backward()
    assert bool(soft.paths["strict"].coefficients.grad.isfinite().all())
    sample_prior(soft, generator=0)
    assert not bool(free.any())
    assert bool(soft.paths["strict"].coefficients.any())


def test_draws_repeat_with_their_seed_and_happen_in_place() -> None:
    soft = soften(EMLP(V, V, SO(3), channels=8, layers=1))
    first = sample_prior(soft, generator=5)
    assert first is soft
    kept = {name: p.clone() for name, p in soft.named_parameters() if "bilinear" not in name}
    sample_prior(soft, generator=6)
    again = dict(sample_prior(soft, generator=torch.Generator().manual_seed(5)).named_parameters())
    for name, parameter in kept.items():
        torch.testing.assert_close(again[name], parameter, rtol=0, atol=0)


def test_densities_and_draws_of_complex_numbers_agree() -> None:
    """Real and imaginary parts are two numbers, each N(0, σ²)."""
    soft = soften(Linear(V, V, U(2), bias=False), variances=(4.0, 0.25))
    by_name = {prior.name: prior.parameter for prior in tensor_priors(soft)}
    free = by_name["paths.free.weight"]
    assert free.is_complex()
    drawn = []
    generator = torch.Generator().manual_seed(0)
    for _ in range(1000):
        sample_prior(soft, generator=generator)
        drawn.append(torch.view_as_real(free.detach().clone()))
    squares = torch.stack(drawn).square().mean((0, 1, 2))
    torch.testing.assert_close(squares, torch.full((2,), 0.25), rtol=0.08, atol=0)
    parts = {name: torch.view_as_real(p.detach()) for name, p in by_name.items()}
    wanted = float(Normal(0.0, 0.5).log_prob(parts["paths.free.weight"]).sum())
    # one unit of the strict path is the identity, of squared length two
    wanted += float(Normal(0.0, 2**0.5).log_prob(parts["paths.strict.coefficients"]).sum())
    assert float(log_prior(soft).detach()) == pytest.approx(wanted, rel=1e-5)


# --- bad input --------------------------------------------------------------------------------


def test_log_prior_refuses_what_it_cannot_be() -> None:
    soft = soften(Linear(V, V, Z(3)))
    with pytest.raises(ValueError, match=r"expected the form 'gaussian' or 'unscaled', got 'l2'"):
        log_prior(soft, form="l2")  # type: ignore[arg-type]
    for samples in (0, -3, True, "many", float("nan")):
        with pytest.raises(ValueError, match=r"expected a positive number of samples, got"):
            log_prior(soft, samples=samples)  # type: ignore[arg-type]
    plain = nn.Linear(2, 2)
    with pytest.raises(ValueError, match=r"expected a network with PathSum layers, got Linear"):
        log_prior(plain)
    with pytest.raises(ValueError, match=r"expected a network with PathSum layers, got Linear"):
        sample_prior(plain)


def test_a_shared_parameter_has_the_prior_of_the_first_layer() -> None:
    first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
    second.weight = first.weight
    model = nn.Sequential(
        PathSum({"a": first}, prior_variances={"a": 4.0}),
        PathSum({"a": second}, prior_variances={"a": 9.0}),
    )
    (prior,) = tensor_priors(model)
    assert prior.name in dict(model.named_parameters())
    assert float(prior.log_variance.exp()) == pytest.approx(4.0)
