"""Convolutions over finite groups against sums over matrices, and brute-force curvature."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from functools import partial
from itertools import product
from math import log, pi, sin, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, hessian, jacrev

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.evidence import (
    CurvatureOptions,
    LearningOptions,
    PriorOptions,
    evidence_gradient,
    laplace,
    learn_priors,
    log_marginal_likelihood,
)
from isotropy.groups import SO, A, D, D2d, GridShifts, Group, S, Trivial, Z, p4
from isotropy.nn import (
    FactoredLinear,
    GroupConv2d,
    Linear,
    MapLinear,
    PathSum,
    SparseLinear,
    record,
)
from isotropy.reps import Regular
from isotropy_papers.group_linear import GroupLinear
from isotropy_papers.group_table import GroupTable, _in_frame
from isotropy_papers.sparse_group_linear import AnchorOptions, SparseGroupLinear

I = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]  # noqa: E741
J = [[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]]
SKEWED = [[1.0, 0.5], [0.0, 2.0]]
# a group, one of its subgroups, and the order of both
GROUPS: dict[str, tuple[Group, Group, int, int]] = {
    "trivial": (Trivial(2), Trivial(2), 1, 1),
    "cyclic": (Z(6), Group([[2, 3, 4, 5, 0, 1]]), 6, 3),
    "permutations": (S(3), A(3), 6, 3),
    "dihedral": (D(4), Group([[0, 3, 2, 1]]), 8, 2),  # not normal
    "product": (Z(2) * S(3), Z(2) * Trivial(3), 12, 2),
    "quaternions": (Group([I, J]), Group([I]), 8, 4),  # without a complement
    "not orthogonal": (D2d(3).conjugate(SKEWED), D2d(1).conjugate(SKEWED), 6, 2),
}
FORMS: Any = ("full", "separable", "depthwise", "pointwise")
KINDS = pytest.mark.parametrize("basis", ["normalised", "interpolating", "plain"])


def maps(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


def drawn(model: Any) -> Any:
    """Random parameters everywhere, in float64: constants would hide mistakes."""
    rng = torch.Generator().manual_seed(5)
    for parameter in model.double().parameters():
        parameter.data = 0.5 * torch.randn(parameter.shape, dtype=torch.float64, generator=rng)
    return model


def made(name: str, form: Any = "full", *, subgroup: bool = True, **kind: Any) -> GroupLinear:
    group, inside, _, _ = GROUPS[name]
    chosen = inside if subgroup and form != "full" else None
    return drawn(GroupLinear(2, 3, group, form=form, subgroup=chosen, **kind))


def sparse(*args: Any, **options: Any) -> SparseGroupLinear:
    torch.manual_seed(3)
    layer = SparseGroupLinear(*args, dtype=torch.float64, **options)
    if layer.bias is not None:
        nn.init.normal_(layer.bias)
    return layer


def flat(layer: Any) -> Callable[[Tensor], Tensor]:
    """The layer between vectors, as the tester takes it."""
    return lambda x: layer(x.unflatten(1, (layer.in_channels, -1))).flatten(1)


def require_equivariant(layer: Any, x: Tensor) -> None:
    assert_equivariant(flat(layer), x.flatten(1), layer.symmetry, tolerance=1e-12)


# --- the table, by matrices -------------------------------------------------------------------


def matrices(group: Group) -> list[Tensor]:
    return list(group.elements().dense())


def place(elements: list[Tensor], element: Tensor) -> int:
    (found,) = (k for k, other in enumerate(elements) if torch.allclose(other, element, atol=1e-8))
    return found


@pytest.mark.parametrize("name", GROUPS)
def test_tables_are_those_of_matrices(name: str) -> None:
    group, inside, order, size = GROUPS[name]
    table, elements = GroupTable(group), matrices(group)
    assert table.order == len(elements) == order
    assert torch.equal(elements[0], torch.eye(group.d).to(elements[0]))
    for (i, a), (j, b) in product(enumerate(elements), repeat=2):
        assert table.products[i, j] == place(elements, a @ b)
        assert table.quotients[j, i] == place(elements, a.inverse() @ b)
    found = table.places(inside)
    assert found.tolist() == sorted(place(elements, n) for n in matrices(inside))
    assert len(found) == size
    firsts = table.representatives(found)
    assert firsts[0] == 0
    reached = [int(table.products[n, t]) for n, t in product(found, firsts)]
    assert sorted(reached) == list(range(order))
    for n, t in product(found, firsts):  # none of its coset comes before
        assert table.products[n, t] >= t


@pytest.mark.parametrize("name", GROUPS)
def test_to_move_maps_is_the_regular_representation(name: str) -> None:
    group = GROUPS[name][0]
    table, regular = GroupTable(group), Regular(group)
    x = maps(2, 3, table.order)
    for k in range(table.order):
        assert torch.equal(table.move(x, k), regular.rho(group.elements()[k]).apply(x))


# --- points -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [3, 4, 7, 12])
def test_points_of_cyclic_groups_are_regular_polygons(n: int) -> None:
    table = GroupTable(Z(n))
    points, steps = table.points(), table.products[1]
    assert points.shape == (n, 2)
    at = 0
    for k in range(n):
        distance = float((points[at] - points[0]).norm())
        assert distance == pytest.approx(sin(pi * k / n) / sin(pi / n), abs=1e-12)
        at = int(steps[at])


@pytest.mark.parametrize("name", GROUPS)
def test_points_tell_elements_apart_and_move_rigidly(name: str) -> None:
    table = GroupTable(GROUPS[name][0])
    points = table.points()
    apart = (points[:, None] - points).norm(dim=-1)
    if table.order > 1:
        assert float((apart + 9 * torch.eye(table.order)).min()) == pytest.approx(1)
    for moved in table.products:
        torch.testing.assert_close(apart[moved][:, moved], apart, rtol=0, atol=1e-12)


def test_neighbours_differ_by_a_generator() -> None:
    """Waves on a torus: k steps along Z(n) add (2 − 2 cos 2πjk/n)/λ_j for every frequency j.

    λ_j = 2 − 2 cos 2πj/n. To tell elements of Z(3) apart takes λ = 3; λ_1, λ_2 of Z(8) are less.
    """
    table = GroupTable(Z(8) * Z(3))
    points = table.points()
    squares = points.square().sum(1)
    along, across = (int(table.group.element_table.find(h)) for h in table.group.discrete)
    twice, both = int(table.products[along, along]), int(table.products[along, across])
    assert points.shape == (24, 6)
    assert float(squares[across]) == pytest.approx(1)
    assert float(squares[along]) == pytest.approx(2)
    assert float(squares[both]) == pytest.approx(3)
    assert float(squares[twice]) == pytest.approx(4 + sqrt(2))


def test_points_do_not_depend_on_how_eigenvectors_are_chosen() -> None:
    points = GroupTable(D(5)).points()
    turn = torch.linalg.qr(maps(points.shape[1], points.shape[1])).Q
    torch.testing.assert_close(_in_frame(points @ turn), points, rtol=0, atol=1e-10)
    assert not points[0].any()


# --- what the layers compute ------------------------------------------------------------------


def summed(group: Group, x: Tensor, theta: Tensor) -> Tensor:
    """Σ_c Σ_g θ(c', c, g⁻¹h) x(c, g), term by term."""
    elements = matrices(group)
    y = x.new_zeros(x.shape[0], theta.shape[0], len(elements))
    for (at, g), (to, h) in product(enumerate(elements), repeat=2):
        y[..., to] += x[..., at] @ theta[..., place(elements, g.inverse() @ h)].T
    return y


def whole_filter(layer: GroupLinear, name: str, *, subgroup: bool) -> Tensor:
    """θ(c', c, k) of a layer of any form, from its definition."""
    group, inside, order, _ = GROUPS[name]
    elements = matrices(group)
    if layer.form == "full":
        return layer.filter.weight
    within = [place(elements, n) for n in matrices(inside)] if subgroup else [0]
    within.sort()
    products = GroupTable(group).products
    theta = torch.zeros(3, 2, order, dtype=torch.float64)
    if layer.form == "pointwise":
        theta[..., within] = layer.filter.weight
        return theta
    cosets: list[int] = []
    for k in range(order):
        if not any(int(products[n, t]) == k for n in within for t in cosets):
            cosets.append(k)
    for (i, n), (j, t) in product(enumerate(within), enumerate(cosets)):
        first = layer.within.weight[:, 0, i] if subgroup else 1.0
        if layer.form == "separable":
            theta[..., products[n, t]] = first * layer.across.weight[..., j]
        else:
            both = first * layer.across.weight[:, 0, j]
            theta[..., products[n, t]] = both * layer.channels.weight[..., 0]
    return theta


class Reversed(nn.Module):
    """Something that does not commute with the group."""

    def forward(self, x: Tensor) -> Tensor:
        return x.flip(-1)


CASES = [
    (name, form, subgroup)
    for name, form, subgroup in product(GROUPS, FORMS, (True, False))
    if subgroup or form in ("depthwise", "pointwise")
]


@pytest.mark.parametrize(("name", "form", "subgroup"), CASES)
def test_outputs_are_sums_over_the_group(name: str, form: Any, subgroup: bool) -> None:
    layer = made(name, form, subgroup=subgroup)
    theta = whole_filter(layer, name, subgroup=subgroup).detach()
    x = maps(4, 2, GROUPS[name][2])
    (bias,) = (value.detach() for key, value in layer.named_parameters() if "bias" in key)
    expected = summed(GROUPS[name][0], x, theta) + bias[:, None]
    torch.testing.assert_close(layer(x).detach(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("name", "form", "subgroup"), CASES)
def test_layers_commute_with_the_group(name: str, form: Any, subgroup: bool) -> None:
    layer = made(name, form, subgroup=subgroup)
    order = GROUPS[name][2]
    x = maps(4, 2, order)
    y = layer(x)
    for k in range(order):
        error = layer(layer.table.move(x, k)) - layer.table.move(y, k)
        assert float(error.detach().abs().max()) <= 1e-12
    require_equivariant(layer, x)
    if order > 1:
        backwards = nn.Sequential(Reversed(), layer)
        backwards.in_channels = 2
        assert equivariance_error(flat(backwards), x.flatten(1), layer.symmetry) > 0.05


@pytest.mark.parametrize("name", ["permutations", "dihedral", "product", "quaternions"])
def test_the_full_form_has_the_maps_between_regular_representations(name: str) -> None:
    group, _, order, _ = GROUPS[name]
    twin = drawn(Linear(2 * Regular, 3 * Regular, group))
    layer = made(name)
    assert layer.filter.weight.numel() == twin.coefficients.numel() == 2 * 3 * order
    identity = torch.zeros(2, 2, order, dtype=torch.float64)
    identity[:, :, 0] = torch.eye(2)
    with torch.no_grad():
        response = twin(identity.flatten(1)) - twin.bias
        layer.filter.weight.copy_(response.reshape(2, 3, order).transpose(0, 1))
        layer.filter.bias.copy_(twin.bias.reshape(3, order)[:, 0])
    x = maps(4, 2, order)
    torch.testing.assert_close(layer(x).flatten(1), twin(x.flatten(1)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("form", FORMS)
def test_layers_on_p4_are_convolutions_of_images(form: Any) -> None:
    """A kernel of 3 by 3 covers a torus of 3 by 3, and shifts are the subgroup."""
    twin = drawn(GroupConv2d(2, 3, group="p4", form=form, bias=False))
    shifts = None if form == "full" else GridShifts(3)
    layer = GroupLinear(2, 3, p4(3), form=form, subgroup=shifts, bias=False).double()
    stages = list(zip(layer.children(), twin.children(), strict=True))
    for ours, theirs in stages:
        # the response to the identity is the filter; depthwise, all channels answer at once
        into = 1 if ours.depthwise else 2
        x = torch.zeros(into, 2, 36, dtype=torch.float64)
        x[:, :, 0] = 1.0 if ours.depthwise else torch.eye(2)
        response = theirs(x.unflatten(2, (4, 3, 3))).detach().flatten(2).transpose(0, 1)
        support = ours.sources.argsort(0)[0]  # hk⁻¹ is the identity at h = k
        assert response.count_nonzero() == response[..., support].count_nonzero()
        ours.weight.data.copy_(response[..., support])
        seen = maps(4, 2, 36)
        expected = theirs(seen.unflatten(2, (4, 3, 3))).flatten(2)
        torch.testing.assert_close(ours(seen), expected, rtol=0, atol=1e-12)
    x = maps(4, 2, 36)
    expected = twin(x.unflatten(2, (4, 3, 3))).flatten(2)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=1e-12)


def test_how_weights_start() -> None:
    torch.manual_seed(0)
    x = torch.randn(50, 128, 12)
    group, inside, _, _ = GROUPS["product"]
    for form in FORMS:
        chosen = None if form == "full" else inside
        layer = GroupLinear(128, 20, group, form=form, subgroup=chosen)
        # rectified, outputs have half of this: a mean square of one, as inputs have
        assert float(layer(x).detach().square().mean()) == pytest.approx(2, rel=0.2)
        before = copy.deepcopy(layer.state_dict())
        assert not any(value.any() for key, value in before.items() if "bias" in key)
        layer.reset_parameters()
        changed = {
            key for key, now in layer.state_dict().items() if not torch.equal(before[key], now)
        }
        assert changed == {key for key in before if "weight" in key}


# --- smooth filters ---------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("name", ["permutations", "dihedral", "product", "quaternions"])
def test_sparse_layers_convolve_with_functions_of_the_basis(name: str, basis: Any) -> None:
    group, _, order, _ = GROUPS[name]
    layer = sparse(2, 3, group, basis=basis, omega=0.7)
    assert layer.u.shape == (3, 2, (order + 1) // 2)
    points = GroupTable(group).points()
    torch.testing.assert_close(layer.basis.targets, points)
    x = maps(4, 2, order)
    theta = (layer.u @ layer.basis()).detach()
    torch.testing.assert_close(layer.weight.detach(), theta)
    expected = summed(group, x, theta) + layer.bias.detach()[:, None]
    torch.testing.assert_close(layer(x).detach(), expected, rtol=0, atol=1e-12)
    require_equivariant(layer, x)


@KINDS
def test_without_a_lengthscale_filters_are_constant(basis: Any) -> None:
    layer = sparse(2, 3, D(4), basis=basis, omega=0.0)
    nn.init.normal_(layer.u)
    y = layer(maps(4, 2, 8))
    torch.testing.assert_close(layer.weight, layer.weight[..., :1].expand_as(layer.weight))
    torch.testing.assert_close(y, y[..., :1].expand_as(y), rtol=0, atol=1e-11)
    assert float((y[0] - y[1]).detach().abs().max()) > 1e-2


def test_filters_are_smoother_with_a_smaller_lengthscale() -> None:
    torch.manual_seed(0)
    table = GroupTable(Z(16))
    neighbours = table.products[:, 1]

    def roughness(omega: float) -> float:
        layer = SparseGroupLinear(8, 8, Z(16), anchors=1.0, omega=omega, basis="normalised")
        theta = nn.init.normal_(layer.u) @ layer.basis()
        steps = (theta - theta[..., neighbours]).square().mean()
        return float((steps / theta.var()).detach())

    rough = [roughness(omega) for omega in (0.1, 0.4, 3.0)]
    assert rough[0] < 0.5 * rough[1] < 0.25 * rough[2]
    assert rough[2] == pytest.approx(2, rel=0.2)  # independent neighbours


def test_points_and_anchors_of_ones_own() -> None:
    elements = S(3).elements().dense().flatten(1)
    learned = AnchorOptions(elements, learn_anchors=True)
    layer = sparse(2, 3, S(3), anchors=elements[[0, 4]], options=learned)
    torch.testing.assert_close(layer.basis.targets, elements)
    torch.testing.assert_close(layer.get_parameter("basis.anchors").detach(), elements[[0, 4]])
    assert layer.u.shape == (3, 2, 2)
    require_equivariant(layer, maps(4, 2, 6))
    assert sparse(2, 3, "S(3)", anchors=0.2, bias=False).u.shape == (3, 2, 2)


def test_values_start_with_filters_for_rectified_inputs() -> None:
    layer = sparse(24, 40, D(5), basis="normalised")
    expected = 2 / (24 * 10)
    assert float(layer.weight.detach().square().mean()) == pytest.approx(expected, rel=0.1)
    before = copy.deepcopy(layer.state_dict())
    layer.reset_parameters()
    changed = {n for n, value in layer.state_dict().items() if not torch.equal(value, before[n])}
    assert changed == {"u", "bias"}


# --- what layers tell -------------------------------------------------------------------------

NETWORKS: dict[str, Callable[[], nn.Module]] = {
    **{form: partial(made, "dihedral", form) for form in FORMS},
    "pointwise by element": partial(made, "permutations", "pointwise", subgroup=False),
    "depthwise by element": partial(made, "permutations", "depthwise", subgroup=False),
    **{
        kind: partial(sparse, 2, 3, "S(3)", omega=0.8, basis=kind)
        for kind in ("normalised", "interpolating", "plain")
    },
}


def network(name: str) -> nn.Module:
    layer = NETWORKS[name]()
    head = drawn(nn.Linear(3 * layer.table.order, 3))
    return nn.Sequential(layer, nn.Tanh(), nn.Flatten(), head)


def data(model: Any, samples: int = 5) -> tuple[Tensor, Tensor]:
    return maps(samples, 2, model[0].table.order), torch.arange(samples) % 3


def brute_force(model: nn.Module, x: Tensor) -> tuple[list[str], Tensor]:
    """Σ JᵀΛJ of all parameters together, and the name of each of its rows."""
    parameters = {name: p.detach() for name, p in model.named_parameters()}
    names = [name for name, p in parameters.items() for _ in range(p.numel())]
    jacobians = jacrev(lambda given: functional_call(model, given, (x,)))(parameters)
    j = torch.cat([value.reshape(*value.shape[:2], -1) for value in jacobians.values()], -1)
    outputs = model(x).detach()
    curvature = torch.stack([hessian(lambda f: f.logsumexp(0))(f) for f in outputs])
    return names, torch.einsum("nkp,nkl,nlq->pq", j, curvature, j)


@pytest.mark.parametrize("name", NETWORKS)
def test_curvature_is_that_of_brute_force(name: str) -> None:
    model = network(name)
    x, y = data(model)
    names, expected = brute_force(model, x)
    found = laplace(model, "classification", (x, y), curvature=CurvatureOptions("block"))
    assert set(found.blocks) == set(names)
    for key, (block,) in found.blocks.items():
        own = torch.tensor([other == key for other in names])
        within = expected[own][:, own]
        torch.testing.assert_close(block.dense().detach(), within, rtol=0, atol=1e-10)
    full = laplace(model, "classification", (x, y), curvature=CurvatureOptions("full"))
    likelihood = model(x).log_softmax(1)[torch.arange(len(y)), y].sum()
    squares = sum(p.square().sum() for p in model.parameters())
    scaled = torch.eye(len(names), dtype=torch.float64) + expected / 2
    value = likelihood - squares - torch.logdet(scaled) / 2
    evidence = full.log_marginal_likelihood(2.0)
    torch.testing.assert_close(evidence.detach(), value.detach(), rtol=0, atol=1e-10)
    for sharing in ("expand", "reduce", "exact"):
        options = CurvatureOptions(sharing={"group": sharing})
        kronecker = laplace(model, "classification", (x, y), curvature=options)
        assert bool(torch.isfinite(kronecker.log_marginal_likelihood()))
        if sharing == "exact":
            for key, (block,) in found.blocks.items():
                if key.startswith("0."):
                    (ours,) = kronecker.blocks[key]
                    torch.testing.assert_close(ours.dense(), block.dense(), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", NETWORKS)
def test_rows_are_derivatives_and_gram_matrices_theirs(name: str) -> None:
    layer: Any = NETWORKS[name]()
    x = maps(4, 2, layer.table.order)
    weights = maps(4, 3, layer.table.order, seed=1)
    with record(layer) as operations:
        y = layer(x)
    assert torch.equal(y, layer(x))
    parameters = dict(layer.named_parameters())
    assert sorted(o.parameter for o in operations) == sorted(parameters)
    assert {o.axes for o in operations} == {("group",)}
    gradients = torch.autograd.grad((y * weights).sum(), [o.output for o in operations])
    for operation, gradient in zip(operations, gradients, strict=True):
        twice = torch.cat([gradient, 2 * gradient])  # gradients of two passes at once
        a, g = operation.input_rows(), operation.gradient_rows(twice)
        assert g.shape[:-1] == (8, *a.shape[1:-1])
        outer = (g[:4].unsqueeze(-1) * a.unsqueeze(-2)).sum(1).flatten(1)
        for n in range(4):
            alone = (layer(x[n : n + 1]) * weights[n]).sum()
            (expected,) = torch.autograd.grad(alone, parameters[operation.parameter])
            torch.testing.assert_close(outer[n], expected.flatten(), rtol=0, atol=1e-12)
        if operation.gram is not None:
            columns = a.flatten(0, 1).movedim(0, -1)
            torch.testing.assert_close(operation.gram(operation.input), columns @ columns.mT)


def test_gram_matrices_are_noted_for_filters_on_the_whole_group() -> None:
    def has_gram(layer: nn.Module) -> list[bool]:
        with record(layer) as operations:
            layer(maps(4, 2, 8))
        return [o.gram is not None for o in operations if "bias" not in o.parameter]

    assert has_gram(made("dihedral")) == [True]
    assert has_gram(made("dihedral", "depthwise", subgroup=False)) == [True, False]
    assert has_gram(made("dihedral", "separable")) == [False, False]
    assert has_gram(sparse(2, 3, D(4))) == [True, False]


@KINDS
def test_the_slope_of_the_evidence_in_the_lengthscale(basis: Any) -> None:
    model: Any = network(basis)
    x, y = data(model)
    name = "0.basis.omega"
    _, found = evidence_gradient(model, "classification", (x, y), [name], 2.0)
    omega = model[0].basis.omega

    def at(step: float) -> float:
        with torch.no_grad():
            omega.add_(step)
            value = log_marginal_likelihood(
                model, "classification", (x, y), 2.0, hyperparameters=[name]
            )
            omega.sub_(step)
        return float(value)

    slope = (8 * (at(1e-3) - at(-1e-3)) - (at(2e-3) - at(-2e-3))) / 12e-3
    assert float(found[name]) == pytest.approx(slope, rel=1e-5)


def test_parameters_that_stand_in_for_those_of_the_layer() -> None:
    """Rows are made after the call, when the layer has its own parameters again."""
    for name in ("separable", "interpolating"):
        model, other = network(name), network(name)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.add_(0.1 * torch.randn_like(parameter))
        given = {key: p.detach() for key, p in other.named_parameters()}
        found = laplace(model, "classification", data(model), params=given)
        expected = laplace(other, "classification", data(model))
        for key, (block,) in found.blocks.items():
            torch.testing.assert_close(block.dense(), expected.blocks[key][0].dense())


# --- which layer the data need ----------------------------------------------------------------


def observations(free: bool) -> tuple[Tensor, Tensor]:
    """From a random map that commutes with S(3), or from one that does not, with noise of 0.5."""
    weight = 0.5 * maps(6, 6, seed=7)
    if not free:
        weight = summed(S(3), torch.eye(6, dtype=torch.float64)[:, None], weight[None, :1])[:, 0].T
    x = maps(100, 1, 6, seed=8)
    return x, x[:, 0] @ weight.T + 0.5 * maps(100, 6, seed=9)


@pytest.mark.parametrize("free", [False, True], ids=["equivariant", "free"])
def test_the_exact_evidence_tells_which_layer_made_the_data(free: bool) -> None:
    """A linear layer is a Gaussian process; log N(y | 0, σ² + JJᵀ/δ) beside that at the mode."""
    x, y = observations(free)
    found = {}
    for layer in (GroupLinear(1, 1, "S(3)", bias=False), MapLinear(1, 1, (6,), bias=False)):
        model = nn.Sequential(layer, nn.Flatten()).double()
        (name, parameter), *_ = model.named_parameters()
        j = jacrev(lambda value: functional_call(model, {name: value}, (x,)))(parameter)  # noqa: B023
        j = j.detach().flatten(2).flatten(0, 1)
        precision = torch.eye(j.shape[1]).double() * 4 * 0.25
        mode = torch.linalg.solve(j.T @ j + precision, j.T @ y.flatten())
        parameter.data.copy_(mode.reshape(parameter.shape))
        ours = laplace(model, "regression", (x, y), curvature=CurvatureOptions("full"))
        value = float(ours.log_marginal_likelihood(4.0, noise=0.5))
        covariance = 0.25 * torch.eye(600).double() + j @ j.T / 4
        fit = y.flatten() @ torch.linalg.solve(covariance, y.flatten())
        expected = -(fit + torch.logdet(covariance) + 600 * log(2 * pi)) / 2
        assert value == pytest.approx(float(expected), abs=1e-8)
        found[type(layer)] = value
    gain = found[GroupLinear] - found[MapLinear]
    assert gain < -100 if free else gain > 20


@pytest.mark.parametrize("free", [False, True], ids=["equivariant", "free"])
def test_a_sum_of_layers_learns_which_one_the_data_need(free: bool) -> None:
    torch.manual_seed(0)
    options: Any = {"bias": False, "dtype": torch.float64}
    paths = PathSum(
        {
            "group": GroupLinear(1, 1, S(3), **options),
            "factored": FactoredLinear(1, 1, (6,), **options),
            "fc": MapLinear(1, 1, (6,), **options),
        }
    )
    learned = learn_priors(
        nn.Sequential(paths, nn.Flatten()),
        "regression",
        observations(free),
        epochs=200,
        batch_size=100,
        learning_rate=0.05,
        learning=LearningOptions(
            optimiser=partial(torch.optim.SGD, momentum=0.9), every=10, hyper_learning_rate=0.5
        ),
        priors=PriorOptions(noise=0.5),
    )
    used = {path: learned.effective.normalised[f"0.paths.{path}"] for path in paths.paths}
    x, _ = observations(free)
    sizes = {name: float(path(x).detach().square().mean()) for name, path in paths.paths.items()}
    if free:
        assert used["fc"] > 0.9 > 0.3 > used["group"]
        assert sizes["fc"] > 100 * sizes["group"]
    else:
        assert used["group"] > 0.9 > 0.2 > used["fc"]
        assert sizes["group"] > 100 * (sizes["fc"] + sizes["factored"])


def test_layers_on_a_group_fit_together() -> None:
    points = GroupTable(S(3)).points()
    layers = {
        "group": GroupLinear(2, 3, S(3)),
        "sparse": SparseGroupLinear(2, 3, S(3)),
        "fc": MapLinear(2, 3, (6,)),
        "factored": FactoredLinear(2, 3, (6,)),
        "sparse factored": SparseLinear(2, 3, points),
    }
    paths = PathSum(layers)
    x = torch.randn(4, 2, 6)
    torch.testing.assert_close(paths(x), sum(layer(x) for layer in layers.values()))
    assert (paths.rep_in, paths.rep_out) == (2 * Regular(S(3)), 3 * Regular(S(3)))
    strict = PathSum({name: layers[name] for name in ("group", "sparse")}).double()
    for k in range(6):
        move = partial(layers["group"].table.move, element=k)
        error = strict(move(x.double())) - move(strict(x.double()))
        assert float(error.detach().abs().max()) <= 1e-12


# --- manners ----------------------------------------------------------------------------------

BUILDERS: dict[str, Callable[..., Any]] = {
    "full": partial(GroupLinear, 2, 3, "D(4)"),
    "separable": partial(GroupLinear, 2, 3, "D(4)", form="separable", subgroup="Z(4)"),
    "depthwise": partial(GroupLinear, 2, 3, "D(4)", form="depthwise"),
    "pointwise": partial(GroupLinear, 2, 3, "D(4)", form="pointwise"),
    "sparse": partial(SparseGroupLinear, 2, 3, "D(4)"),
}


@pytest.mark.parametrize("name", BUILDERS)
def test_manners_of_a_module(name: str) -> None:
    torch.manual_seed(0)
    layer, x = BUILDERS[name](), torch.randn(5, 2, 8)
    for parameter in layer.parameters():
        nn.init.uniform_(parameter, 0.1, 0.5)
    y = layer(x)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert torch.equal(twin(x), y)
        assert twin.group == layer.group
    kept = {key for key, _ in layer.named_parameters()}
    assert set(layer.state_dict()) == kept | ({"basis.anchors"} if name == "sparse" else set())
    planned = BUILDERS[name](device="meta")
    assert planned(x.to("meta")).shape == y.shape
    planned = planned.to_empty(device="cpu")
    planned.load_state_dict(layer.state_dict())
    assert torch.equal(planned(x), y)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="eager")(x), y)
    with torch.autocast("cpu", torch.bfloat16):
        low = layer(x)
    assert low.dtype == torch.bfloat16
    torch.testing.assert_close(low.float(), y, rtol=0.1, atol=0.1)
    again = copy.deepcopy(layer).half().double()
    torch.testing.assert_close(again(x.double()).float(), y, rtol=2e-2, atol=2e-2)
    require_equivariant(again, x.double())
    assert layer(x[:0]).shape == (0, 3, 8)
    plain = BUILDERS[name](bias=False)
    assert not any("bias" in key for key in plain.state_dict())
    assert not plain(torch.zeros(1, 2, 8)).any()
    assert f"2, 3, D(4), {'bias=True' if name == 'sparse' else f'form={name!r}'}" in repr(layer)


@pytest.mark.parametrize("name", BUILDERS)
def test_gradients_and_ensembles(name: str) -> None:
    layers = [BUILDERS[name](dtype=torch.float64) for _ in range(2)]
    if name == "sparse":
        layers[1].basis.anchors.copy_(layers[0].basis.anchors)
    x = maps(2, 2, 8)
    own = [dict(layer.named_parameters()) for layer in layers]
    stacked = {key: torch.stack([one[key] for one in own]) for key in own[0]}
    together = torch.vmap(lambda given: functional_call(layers[0], given, (x,)))(stacked)
    torch.testing.assert_close(together, torch.stack([layer(x) for layer in layers]))

    def call(x: Tensor, *values: Tensor) -> Tensor:
        return functional_call(layers[0], dict(zip(own[0], values, strict=True)), (x,))

    inputs = (x[:1].requires_grad_(), *layers[0].parameters())
    assert torch.autograd.gradcheck(call, inputs, fast_mode=True)
    assert torch.autograd.gradgradcheck(call, inputs, fast_mode=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", BUILDERS)
def test_layers_run_on_a_gpu(name: str) -> None:
    layer, x = BUILDERS[name](dtype=torch.float64), maps(5, 2, 8)
    there = copy.deepcopy(layer).cuda()
    torch.testing.assert_close(there(x.cuda()).cpu(), layer(x))
    model, y = nn.Sequential(layer, nn.Flatten()), maps(5, 24)
    moved = nn.Sequential(there, nn.Flatten())
    expected = laplace(model, "regression", (x, y)).log_marginal_likelihood()
    evidence = laplace(moved, "regression", (x.cuda(), y.cuda())).log_marginal_likelihood()
    torch.testing.assert_close(evidence.cpu(), expected)
    assert BUILDERS[name](device="cuda")(x.float().cuda()).is_cuda


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: GroupLinear(2, 3, SO(3)), r"expected a finite group, got SO\(3\)"),
        (
            lambda: GroupLinear(2, 3, Group([[[1.0, 1.0], [0.0, 1.0]]])),
            r"expected a finite group, got Group",
        ),
        (
            lambda: GroupLinear(2, 3, S(7)),
            r"expected a group of at most 2048 elements, .* got S\(7\) with 5040",
        ),
        (
            lambda: GroupLinear(2, 3, S(3), form="sparse"),
            r"expected form 'full', 'separable', 'depthwise', 'pointwise', got 'sparse'",
        ),
        (
            lambda: GroupLinear(2, 3, S(3), subgroup=A(3)),
            r"expected no subgroup for the form 'full', got A\(3\)",
        ),
        (
            lambda: GroupLinear(2, 3, S(3), form="separable"),
            r"expected a subgroup for the form 'separable', got none",
        ),
        (
            lambda: GroupLinear(2, 3, A(4), form="pointwise", subgroup=S(4)),
            r"expected a subgroup of A\(4\), got S\(4\)",
        ),
        (lambda: GroupLinear(0, 3, S(3)), r"expected in_channels of at least 1, got 0"),
        (lambda: GroupLinear(2, 1.5, S(3)), r"expected out_channels of at least 1, got 1\.5"),
        (
            lambda: GroupLinear(2, 3, S(3))(torch.zeros(1, 2, 5)),
            r"expected maps of shape \(n, 2, 6\), got \(1, 2, 5\)",
        ),
        (
            lambda: GroupLinear(2, 3, S(3))(torch.zeros(2, 6)),
            r"expected maps of shape \(n, 2, 6\), got \(2, 6\)",
        ),
        (
            lambda: GroupLinear(2, 3, S(3))(torch.zeros(1, 2, 6).double()),
            r"expected maps of the layer's own torch\.float32, got torch\.float64",
        ),
        (
            lambda: SparseGroupLinear(2, 3, S(3))(torch.zeros(1, 3, 6)),
            r"expected maps of shape \(n, 2, 6\), got \(1, 3, 6\)",
        ),
        (
            lambda: SparseGroupLinear(2, 3, S(3), options=AnchorOptions(torch.zeros(5, 2))),
            r"expected points of shape \(6, d\), one for each element of S\(3\), got \(5, 2\)",
        ),
        (
            lambda: SparseGroupLinear(2, 3, S(3), anchors=7),
            r"expected anchor points, .* above zero and at most 6, got 7",
        ),
    ],
    ids=[
        "continuous",
        "infinite",
        "large",
        "form",
        "subgroup not wanted",
        "subgroup missing",
        "no subgroup",
        "in_channels",
        "out_channels",
        "shape",
        "axes",
        "precision",
        "sparse shape",
        "points",
        "anchors",
    ],
)
def test_bad_input(build: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize("build", [partial(GroupLinear, 2, 3), GroupTable], ids=["layer", "table"])
def test_what_is_no_group(build: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError, match=r"expected a finite group, got int"):
        build(6)
    with pytest.raises(TypeError, match=r"expected a group, got int"):
        GroupTable(S(3)).places(2)
