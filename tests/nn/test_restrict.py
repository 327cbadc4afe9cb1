"""Networks loosened to a subgroup, and ordinary layers constrained to a group."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from isotropy.bases import equivariant_basis
from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import SO, SU, D, Group, O, S, SO2eR3, SO13p, Sp, Trivial, Z
from isotropy.nn import EMLP, MLP, Linear, NormNonlinearity, Symmetrised, make_equivariant, restrict
from isotropy.reps import Rep, Scalar, Symmetry, T, V


def rows(width: int, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, width, dtype=torch.float64, generator=rng)


def perturbed(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


# --- restrict ---------------------------------------------------------------------------------

PAIRS = [
    (Symmetry(O(3), 2 * Scalar + 2 * V, V + Scalar), SO2eR3()),
    (Symmetry(SO(3), 2 * V + T(2), T(2)), SO2eR3()),
    (Symmetry(O(3), V + T(2), V + Scalar), S(3)),
    (Symmetry(S(4), V + T(2), V + Scalar), D(4)),
    (Symmetry(D(5), V, V), Z(5)),
    (Symmetry(Sp(1), V + Scalar, V + V.T), SO(2)),
    (Symmetry(SO(2) * S(3), V + V(SO(2)), V), SO(2) * Z(3)),
]


@pytest.mark.parametrize(("symmetry", "subgroup"), PAIRS, ids=str)
def test_a_restricted_layer_is_the_same_function_in_a_larger_space(
    symmetry: Symmetry, subgroup: Group
) -> None:
    strict = perturbed(Linear(symmetry.rep_in, symmetry.rep_out, dtype=torch.float64))
    before = copy.deepcopy(strict.state_dict())
    loose = restrict(strict, subgroup)
    smaller = symmetry.restrict(subgroup)
    assert loose.symmetry == smaller
    x = rows(strict.in_features, 9)
    torch.testing.assert_close(loose(x), strict(x), rtol=1e-10, atol=1e-10)
    rank = equivariant_basis(smaller.maps).rank
    assert loose.coefficients.numel() == rank > strict.coefficients.numel()
    perturbed(loose)
    assert_equivariant(loose, x, subgroup)
    assert equivariance_error(loose, x, symmetry) > 1e-3
    # the original is left untouched
    assert strict.symmetry == symmetry
    for name, tensor in strict.state_dict().items():
        assert torch.equal(tensor, before[name])
    assert_equivariant(strict, x, symmetry)


NETWORKS = {
    "O(3) to turns about an axis": (Symmetry(O(3), 2 * V, V + Scalar), SO2eR3(), "gated"),
    "O(3) to S(3)": (Symmetry(O(3), 2 * V, V), S(3), "gated"),
    "O(3) by norm": (Symmetry(O(3), 2 * V, V), SO2eR3(), "norm"),
    "S(4) to Z(4)": (Symmetry(S(4), 2 * V, V), Z(4), "gated"),
    "Sp(1) to SO(2)": (Symmetry(Sp(1), 2 * V, V + Scalar), SO(2), "gated"),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_restricted_network_is_the_same_function_with_more_freedom(name: str) -> None:
    symmetry, subgroup, nonlinearity = NETWORKS[name]
    strict = EMLP(
        symmetry.rep_in, symmetry.rep_out, channels=12, layers=2, nonlinearity=nonlinearity
    ).double()
    perturbed(strict)
    x = rows(strict.in_features, 9)
    expected = strict(x)
    loose = restrict(strict, subgroup)
    torch.testing.assert_close(loose(x), expected, rtol=1e-10, atol=1e-10)
    assert count(loose) > count(strict)
    assert loose.symmetry == symmetry.restrict(subgroup)
    perturbed(loose)
    assert_equivariant(loose, x, tolerance=1e-12)
    assert equivariance_error(loose, x, symmetry) > 1e-4
    assert torch.equal(strict(x), expected)
    assert strict.symmetry == symmetry


def test_a_network_loosened_to_rotations_tells_left_from_right() -> None:
    symmetry = Symmetry(O(3), 2 * V, V)
    strict = EMLP(2 * V, V, O(3), channels=3 * Scalar + 3 * V + 3 * T(2) + T(3), layers=2)
    loose = perturbed(restrict(strict.double(), SO(3)))
    assert_equivariant(loose, rows(6, 9))
    assert equivariance_error(loose, rows(6, 9), symmetry) > 1e-4


def test_restrictions_follow_one_another() -> None:
    strict = perturbed(Linear(V + Scalar, V + Scalar, O(3), dtype=torch.float64))
    x = rows(4, 7)
    layers = [strict]
    for subgroup in (SO(3), SO2eR3(), Trivial(3)):
        layers.append(restrict(layers[-1], subgroup))
        torch.testing.assert_close(layers[-1](x), strict(x))
    assert [layer.coefficients.numel() for layer in layers] == [2, 2, 6, 16]
    torch.testing.assert_close(restrict(strict, Trivial(3)).weight, layers[-1].weight)


def test_nothing_is_left_of_the_trivial_group() -> None:
    strict = Linear(2 * V, V + T(2), D(3), dtype=torch.float64)
    loose = restrict(strict, Trivial(3))
    assert loose.coefficients.numel() == 6 * 12
    assert loose.bias_coefficients.numel() == 12
    wanted = rows(6, 12)
    optimizer = torch.optim.LBFGS([loose.coefficients], line_search_fn="strong_wolfe")

    def distance() -> Tensor:
        optimizer.zero_grad()
        value = (loose.weight - wanted).square().sum()
        value.backward()
        return value

    for _ in range(3):
        optimizer.step(distance)
    torch.testing.assert_close(loose.weight, wanted, rtol=1e-5, atol=1e-5)


def test_a_bias_is_gained_only_where_one_was_wanted() -> None:
    loose = restrict(Linear(V, V, O(3)), SO2eR3())
    assert loose.bias_coefficients.shape == (1,)
    assert not loose.bias.any()
    assert restrict(Linear(V, V, O(3), bias=False), SO2eR3()).bias is None


class Tower(nn.Module):
    """A user's module: equivariant layers between others."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(Linear(2 * V, 3 * V, O(3)), NormNonlinearity(3 * V, O(3)))
        self.blocks = nn.ModuleList([Linear(3 * V, 3 * V, O(3)), EMLP(3 * V, V, O(3), channels=12)])
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        y = self.blocks[0](y) + y
        return self.head(self.blocks[1](y))


def test_layers_are_found_wherever_they_are() -> None:
    tower = Tower().double()
    loose = restrict(tower, SO2eR3())
    x = rows(6, 5)
    torch.testing.assert_close(loose(x), tower(x), rtol=1e-10, atol=1e-10)
    assert type(loose) is Tower
    groups = {module.rep_in.group for module in loose.modules() if isinstance(module, Linear)}
    assert groups == {SO2eR3()}
    assert count(loose) > count(tower)
    assert torch.equal(loose.head.weight, tower.head.weight)
    assert loose.head.weight is not tower.head.weight
    assert not loose.eval().training
    assert tower.training


def test_modes_and_precision_are_kept() -> None:
    strict = Linear(V, V, O(3)).half().eval()
    loose = restrict(strict, SO2eR3())
    assert not loose.training
    assert loose.coefficients.dtype == torch.float16


@pytest.mark.parametrize(
    ("subgroup", "sentence"),
    [
        (O(2), r"expected a subgroup of SO\(3\), which acts on 3 dimensions, got O\(2\) on 2"),
        (O(3), r"expected a subgroup of SO\(3\), got O\(3\): its discrete generator 0 is outside"),
        (S(3), r"expected a subgroup of SO\(3\), got S\(3\): its discrete generator . is outside"),
    ],
    ids=["dimension", "larger", "odd permutations"],
)
def test_what_is_no_subgroup_is_refused(subgroup: Group, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        restrict(Linear(V, V, SO(3)), subgroup)
    with pytest.raises(ValueError, match=sentence):
        restrict(EMLP(V, V, SO(3), channels=6, layers=1), subgroup)


def test_modules_that_cannot_be_restricted_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a module with equivariant layers, got MLP"):
        restrict(MLP(3, 3, channels=4), SO(3))
    averaged = Symmetrised(nn.Linear(3, 3), Symmetry(S(3), V, V))
    with pytest.raises(ValueError, match=r"expected equivariant layers .*, got a Symmetrised"):
        restrict(nn.Sequential(averaged), Z(3))
    with pytest.raises(TypeError, match=r"expected a group, got str"):
        restrict(Linear(V, V, SO(3)), "SO(2)")


# --- make_equivariant -------------------------------------------------------------------------

CONSTRAINED = [
    Symmetry(Z(4), V, V),
    Symmetry(O(3), V + Scalar, V + 2 * Scalar),
    Symmetry(SO13p(), V + Scalar, V.T + Scalar),
    Symmetry(SO(3), Scalar + V, T(2)),
    Symmetry(S(3), V.on([0, 2, 3], of=4), V),
]


@pytest.mark.parametrize("symmetry", CONSTRAINED, ids=str)
def test_a_constrained_layer_is_the_nearest_equivariant_one(symmetry: Symmetry) -> None:
    widths = symmetry.rep_in.size(), symmetry.rep_out.size()
    layer = nn.Linear(*widths, dtype=torch.float64)
    weight, bias = layer.weight.detach().clone(), layer.bias.detach().clone()
    assert make_equivariant(layer, symmetry.rep_in, symmetry.rep_out) is layer
    basis = equivariant_basis(symmetry.maps)
    torch.testing.assert_close(layer.weight.flatten(), basis.project(weight.flatten()))
    invariant = equivariant_basis((Scalar >> symmetry.rep_out)(symmetry.group)).project(bias)
    torch.testing.assert_close(
        torch.zeros_like(bias) if layer.bias is None else layer.bias, invariant
    )
    assert_equivariant(layer, rows(widths[0], 6))
    learned = sum(p.numel() for name, p in layer.named_parameters() if "weight" in name)
    assert learned == basis.rank


def test_training_keeps_a_constrained_layer_equivariant() -> None:
    layer = make_equivariant(nn.Linear(4, 4), V, V, Z(4))
    network = nn.Sequential(layer, nn.SiLU(), make_equivariant(nn.Linear(4, 4), V, V, Z(4)))
    optimizer = torch.optim.Adam(network.parameters(), lr=0.1)
    x = torch.randn(20, 4)
    before = layer.weight.detach().clone()
    for _ in range(10):
        optimizer.zero_grad()
        (network(x) - x.roll(1, -1)).square().mean().backward()
        optimizer.step()
    assert float((layer.weight - before).detach().abs().max()) > 0.1
    assert_equivariant(network, x, Symmetry(Z(4), V, V))
    weight = layer.weight.detach()
    for shift in range(4):
        torch.testing.assert_close(weight[shift].roll(-shift), weight[0])


def test_the_constraint_may_be_lifted_and_the_layer_stays_what_it_is() -> None:
    layer = make_equivariant(nn.Linear(4, 4), V, V, S(4))
    x = torch.randn(5, 4)
    expected = layer(x)
    for name in ("weight", "bias"):
        parametrize.remove_parametrizations(layer, name)
    assert not parametrize.is_parametrized(layer)
    assert torch.equal(layer(x), expected)
    assert {name: tuple(p.shape) for name, p in layer.named_parameters()} == {
        "weight": (4, 4),
        "bias": (4,),
    }
    with torch.no_grad():
        layer.weight[0, 0] += 1
    assert equivariance_error(layer, x, Symmetry(S(4), V, V)) > 1e-3


def test_biases_that_cannot_be_invariant_are_dropped() -> None:
    assert make_equivariant(nn.Linear(3, 3), V, V, O(3)).bias is None
    assert make_equivariant(nn.Linear(3, 3, bias=False), V, V, S(3)).bias is None


def test_constants_of_a_constrained_layer_are_exact_after_any_change_of_precision() -> None:
    layer = nn.Linear(4, 9, dtype=torch.bfloat16)
    make_equivariant(layer, V + Scalar, T(2), SO(3))
    assert layer.weight.dtype == torch.bfloat16
    assert_equivariant(layer.double(), rows(4, 5), tolerance=1e-12)


@pytest.mark.parametrize(
    ("layer", "rep_in", "rep_out", "group", "sentence"),
    [
        (nn.Linear(3, 4), V, V, O(3), r"expected a layer of width 3 to 3 for .*, got 3 to 4"),
        (nn.Linear(3, 1), V, Scalar, O(3), r"got V\(O\(3\)\) and Scalar: zero is the only one"),
        (nn.Linear(3, 3), V, V, None, r"expected a group for V >> V, got none"),
        (nn.Linear(2, 2), V, V, SU(2), r"expected a complex layer for .*, got a real one"),
    ],
    ids=["width", "no map", "no group", "complex"],
)
def test_layers_that_do_not_fit_are_refused(
    layer: nn.Linear, rep_in: Rep, rep_out: Rep, group: Group | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        make_equivariant(layer, rep_in, rep_out, group)
    assert not parametrize.is_parametrized(layer)


def test_only_plain_linear_layers_are_constrained_and_only_once() -> None:
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Linear, got Conv1d"):
        make_equivariant(nn.Conv1d(3, 3, 1), V, V, O(3))
    layer = make_equivariant(nn.Linear(3, 3), V, V, O(3))
    with pytest.raises(ValueError, match=r"expected a layer without parametrisations"):
        make_equivariant(layer, V, V, O(3))
