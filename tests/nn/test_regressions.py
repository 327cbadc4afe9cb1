"""Mistakes that were made once."""

import numpy as np
import pytest
import torch
from torch import nn

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import O13, SO, DirectProduct, Group, O, S, SO2eR3, Z
from isotropy.nn import EMLP, HNN, MLP, BiLinear, Linear, make_equivariant, restrict
from isotropy.reps import Pseudoscalar, Scalar, Symmetry, V


def test_a_hidden_pseudoscalar_of_rotations_is_a_scalar() -> None:
    channels = 4 * Scalar + 3 * Pseudoscalar + 3 * V
    model = EMLP(2 * V, V, SO(3), channels=channels, layers=1, dtype=torch.float64)
    assert_equivariant(model)


def test_high_tensors_keep_double_precision() -> None:
    rep = (V**4)(SO(3))
    layer = Linear(rep, rep, dtype=torch.float64)
    x = torch.randn(4, 81, dtype=torch.float64)
    assert max(equivariance_error(layer, x, generator=seed) for seed in range(5)) < 1e-12


def test_elements_of_a_group_given_by_its_algebra_lie_in_it() -> None:
    i = torch.tensor([[0.0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]])
    j = torch.tensor([[0.0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]])
    quaternions = Group(algebra=[i, j, i @ j])
    layer = Linear(V, V, quaternions, dtype=torch.float64)
    assert layer.coefficients.numel() == 4
    assert_equivariant(layer)


def test_restriction_keeps_shared_layers_shared() -> None:
    layer = Linear(V, V, O(3))
    loose = restrict(nn.Sequential(layer, layer), SO2eR3())
    assert isinstance(loose, nn.Sequential)
    assert loose[0] is loose[1]
    assert str(loose[1].rep_in) == "V(SO2eR3)"


def test_restriction_reaches_constrained_plain_layers() -> None:
    plain = make_equivariant(nn.Linear(3, 3), V, V, O(3))
    x = torch.randn(5, 3)
    expected = plain(x)
    loose = restrict(nn.Sequential(plain), SO2eR3())
    assert isinstance(loose, nn.Sequential)
    torch.testing.assert_close(loose(x), expected)
    assert str(loose[0].rep_in) == "V(SO2eR3)"
    assert loose[0].parametrizations.weight.original.numel() == 3


def test_restriction_of_a_product_reaches_layers_of_one_factor() -> None:
    hidden = 4 * V(SO(3)) + 5 * Scalar
    model = EMLP(V(SO(3)) * V(S(4)), V(SO(3)), SO(3) * S(4), channels=[hidden] * 2)
    x = torch.randn(5, 12)
    loose = restrict(model, SO(3) * Z(4))
    torch.testing.assert_close(loose(x), model(x))
    symmetry = Symmetry(DirectProduct(SO(3), Z(4)), V(SO(3)) * V(Z(4)), V(SO(3)))
    assert_equivariant(loose, x, symmetry)


def test_the_field_of_a_lorentz_invariant_energy_transforms_by_the_dual() -> None:
    energy = EMLP(4 * V, Scalar, O13(), channels=40, layers=1, dtype=torch.float64)
    assert_equivariant(HNN(energy))


def test_scalars_in_other_coordinates_do_not_act() -> None:
    mixed = (2 * Scalar).change_basis(torch.tensor([[1.0, 1], [0, 1]])) + V(O(3))
    assert_equivariant(BiLinear(mixed, Scalar(O(3)), dtype=torch.float64))


def test_texts_name_groups_and_representations() -> None:
    assert str(EMLP("2*V", "V", "O(3)", channels=12).symmetry) == "O(3): 2*V >> V"


@pytest.mark.parametrize(
    ("x", "error", "sentence"),
    [
        (np.zeros((5, 6)), TypeError, r"expected a tensor of width 6, got ndarray"),
        ([0.0] * 6, TypeError, r"expected a tensor of width 6, got list"),
        (torch.zeros(5, 6, dtype=torch.float64), ValueError, r"own torch\.float32, got torch\.fl"),
        (torch.zeros(5, 6, dtype=torch.int64), ValueError, r"own torch\.float32, got torch\.int64"),
    ],
    ids=["array", "list", "double", "integers"],
)
@pytest.mark.parametrize("kind", ["EMLP", "Linear", "MLP"])
def test_inputs_of_another_kind_get_a_sentence(
    kind: str, x: torch.Tensor, error: type[Exception], sentence: str
) -> None:
    models = {
        "EMLP": lambda: EMLP(2 * V, V, O(3), channels=12),
        "Linear": lambda: Linear(2 * V, V, O(3)),
        "MLP": lambda: MLP(6, 3, channels=4),
    }
    with pytest.raises(error, match=sentence):
        models[kind]()(x)


@pytest.mark.parametrize(
    ("channels", "layers", "sentence"),
    [
        (64.0, None, r"expected channels as a number, a representation or a list .* got 64\.0"),
        ("64", None, r"expected channels as a number, a representation or a list .* got '64'"),
        ([12, 12], 3, r"expected channels for each of 3 hidden layers, got a list of 2"),
    ],
    ids=["float", "text", "another number of layers"],
)
def test_channels_of_another_kind_get_a_sentence(
    channels: object, layers: int | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        EMLP(2 * V, V, O(3), channels=channels, layers=layers)  # type: ignore[arg-type]


def test_two_groups_on_one_space_are_a_mistake() -> None:
    with pytest.raises(ValueError, match=r"expected representations of one group, got .*SO\(3\)"):
        EMLP((2 * V)(O(3)), V(SO(3)))


def test_the_tester_leaves_the_inputs_alone() -> None:
    x = torch.randn(5, 3, dtype=torch.float64)
    before = x.clone()
    symmetry = Symmetry(SO(3), V, V)
    assert equivariance_error(lambda v: v.mul_(2), x, symmetry) < 1e-12
    assert torch.equal(x, before)


def test_a_plain_network_can_be_tested_by_its_representations() -> None:
    model = MLP(2 * V, V, O(3), channels=8)
    assert equivariance_error(model, torch.randn(5, 6)) > 0.01
