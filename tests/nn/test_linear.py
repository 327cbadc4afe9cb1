"""Linear layers against the equation that defines them, for every group of the catalogue."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from isotropy.bases import equivariant_basis
from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import (
    FAMILIES,
    SE,
    SO,
    SU,
    C2d,
    D,
    Group,
    O,
    Operator,
    S,
    Scaling,
    SO13p,
    Sp,
    TimeReversal,
    Trivial,
    U,
    Z,
    embed,
    semidirect,
    wreath,
)
from isotropy.nn import Linear, SharedLinear, fixed_weights
from isotropy.reps import CustomRep, Pseudoscalar, Regular, Rep, Scalar, Symmetry, T, V

SIXTH_TURNS = Group([[[0.5, -(3**0.5) / 2], [3**0.5 / 2, 0.5]]], name="sixth turns")
SHEAR = [[2.0, 1.0, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]]


def small(family: Any) -> list[Group]:
    """The groups of a family with the smallest parameters, those of three dimensions included."""
    found = []
    for n in range(1, 4) if family.integers else [0]:
        try:
            found.append(family.kind(*(range(n, n + family.integers))))
        except ValueError:  # the family starts later
            continue
    return found


CATALOGUE = [group for family in FAMILIES for group in small(family)]
COMBINED = [
    SO(3) * S(3),
    SU(2) * U(1),
    Z(3) + O(2),
    S(2) + S(3) + Sp(1),
    semidirect(Z(5), D(5)),
    wreath(Z(2), S(3)),
    wreath(SO(2), Z(2)),
    embed(SO(2), 4, at=1),
    SO(3).conjugate(SHEAR),
    D(4).conjugate([2, 0, 3, 1]),
    SIXTH_TURNS,
]


def spaces(group: Group) -> tuple[Rep, Rep]:
    """Scalars, vectors and, where they are few, matrices."""
    if group.d > 9:
        return Scalar + 2 * V, V + 2 * Scalar
    if group.d > 4:
        return V + Scalar + T(1, 1), V + 2 * Scalar
    return 2 * Scalar + V + T(1, 1), T(1, 1) + V + Scalar


def in_double(layer: Linear) -> Linear:
    """The layer in float64; torch warns of every complex module that is cast."""
    if layer.coefficients.is_complex():
        return perturbed(Linear(layer.rep_in, layer.rep_out, dtype=torch.float64))
    return layer.double()


def rows(width: int, *batch: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*batch, width, dtype=dtype, generator=torch.Generator().manual_seed(1))


def perturbed(layer: Linear) -> Linear:
    """The layer away from its start, so that a bias is tested too."""
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return layer


def commuting_dimension(symmetry: Symmetry) -> int:
    """The dimension of {W : ρ_out(g) W = W ρ_in(g)} from its definition, over random elements."""
    dtype = torch.complex128 if symmetry.group.is_complex else torch.float64
    eye_in, eye_out = (
        torch.eye(rep.size(), dtype=dtype) for rep in (symmetry.rep_in, symmetry.rep_out)
    )
    drawn = symmetry.group.sample(6, generator=0)
    equations = []
    for g in [*symmetry.group.discrete, *(drawn.select(i) for i in range(6))]:
        rho_in, rho_out = symmetry.apply(g, eye_in).mT, symmetry.apply_out(g, eye_out).mT
        equations.append(torch.kron(rho_out.contiguous(), eye_in))
        equations[-1] -= torch.kron(eye_out, rho_in.mT.contiguous())
    singular = torch.linalg.svdvals(torch.cat(equations))
    return int((singular < 1e-9 * max(1.0, float(singular[0]))).sum())


def spanned(layer: Linear | SharedLinear) -> Tensor:
    """The matrices that belong to each coefficient alone, one to a column."""
    columns = []
    with torch.no_grad():
        for unit in torch.eye(len(layer.coefficients), dtype=layer.coefficients.dtype):
            layer.coefficients.copy_(unit)
            columns.append(layer.weight.flatten())
    return torch.stack(columns, 1)


# --- equivariance -----------------------------------------------------------------------------


@pytest.mark.parametrize("group", [*CATALOGUE, *COMBINED], ids=str)
def test_linear_layers_of_every_group_are_equivariant_to_rounding(group: Group) -> None:
    layer = perturbed(Linear(*spaces(group), group))
    assert_equivariant(layer, tolerance=1e-5, samples=4)
    assert_equivariant(in_double(layer), tolerance=1e-12, samples=4)
    assert layer.symmetry == Symmetry(group, *spaces(group))
    assert (layer.in_features, layer.out_features) == (
        layer.rep_in.size(),
        layer.rep_out.size(),
    )


def kronecker_square(g: Tensor) -> Tensor:
    return torch.kron(g, g)


PLACED = {
    "regular": Symmetry(D(3), Regular + V, Regular + Scalar),
    "regular to matrices": Symmetry(Z(4), Regular, T(2)),
    "pseudoscalar": Symmetry(O(3), V * V + Pseudoscalar, V * Pseudoscalar + Scalar),
    "pseudoscalar of a permutation": Symmetry(S(3), V + Pseudoscalar, V * Pseudoscalar + Scalar),
    "custom": Symmetry(SO(3), CustomRep("Double", kronecker_square) + V, T(2) + Scalar),
    "custom dual": Symmetry(SO13p(), CustomRep("Double", kronecker_square).T, T(0, 2)),
    "columns": Symmetry(SO(3), V.on([4, 0, 2], of=6), (2 * V).on([0, 2, 4, 1, 3, 5], of=7)),
    "columns of a permutation": Symmetry(S(3), V.on([3, 1, 0], of=4), V.on([2, 1, 0], of=3)),
    "another basis": Symmetry(SO(3), V.change_basis(SHEAR) + Scalar, V + T(2)),
    "another basis of both": Symmetry(
        Z(3), V.change_basis(SHEAR), V.change_basis(SHEAR) + V.change_basis([1, 2, 0])
    ),
    "one factor": Symmetry(SO(3) * S(3), V + V(SO(3)), V(SO(3)) + V(S(3)) + Scalar),
    "scattered sums": Symmetry(Sp(1), V + Scalar + V + T(1, 1), Scalar + V.T + Scalar + V),
    "products of sums": Symmetry(O(2), (V + Scalar) * (V + 2 * Scalar), (V + Scalar) * V),
    "duals": Symmetry(Scaling(2), V.T + T(1, 1), V.T + 2 * Scalar),
    "complex": Symmetry(SU(2), V + V.T + Scalar, V + T(1, 1)),
}


@pytest.mark.parametrize("symmetry", PLACED.values(), ids=PLACED.keys())
def test_layers_between_spaces_of_every_kind_are_equivariant(symmetry: Symmetry) -> None:
    layer = perturbed(Linear(symmetry.rep_in, symmetry.rep_out))
    assert_equivariant(layer, symmetry=symmetry, tolerance=1e-5)
    assert_equivariant(in_double(layer), symmetry=symmetry, tolerance=1e-12)
    assert layer.coefficients.numel() == commuting_dimension(symmetry)


def test_groups_of_operators_have_layers() -> None:
    reversal = Operator(5, lambda x: x.flip(-1), lambda x: x.flip(-1))
    layer = Linear(V + Scalar, V, Group([reversal], d=5), dtype=torch.float64)
    assert_equivariant(perturbed(layer))
    assert layer.coefficients.numel() == 13 + 3


# --- the space of weights ---------------------------------------------------------------------

COMPARED = [
    Symmetry(O(3), 2 * Scalar + V, T(2) + V),
    Symmetry(SO(3), V + T(2), V + Scalar),
    Symmetry(S(4), 2 * V, V + T(2)),
    Symmetry(D(4), V + T(2), V),
    Symmetry(C2d(3), V, T(2)),
    Symmetry(SO13p(), V + Scalar, V + V.T),
    Symmetry(Sp(1), V + T(2), V + Scalar),
    Symmetry(SE(2), V + Scalar, V + T(1, 1)),
    Symmetry(U(2), V + T(1, 1), V + Scalar),
    Symmetry(TimeReversal(), V, 2 * V),
    Symmetry(Trivial(2), V, V + Scalar),
    *(PLACED[name] for name in ("pseudoscalar", "columns", "another basis", "one factor")),
]


@pytest.mark.parametrize("symmetry", COMPARED, ids=str)
def test_the_weights_are_all_matrices_that_commute(symmetry: Symmetry) -> None:
    layer = Linear(symmetry.rep_in, symmetry.rep_out, dtype=torch.float64)
    basis = equivariant_basis(symmetry.maps)
    rank = layer.coefficients.numel()
    assert rank == basis.rank == commuting_dimension(symmetry)
    span = spanned(layer)
    assert torch.linalg.matrix_rank(span) == rank
    matrix = torch.randn(len(span), dtype=span.dtype)
    through_layer = span @ torch.linalg.pinv(span) @ matrix
    torch.testing.assert_close(through_layer, basis.project(matrix), rtol=0, atol=1e-10)


@pytest.mark.parametrize("symmetry", COMPARED, ids=str)
def test_the_matrix_commutes_and_the_bias_is_invariant(symmetry: Symmetry) -> None:
    layer = perturbed(Linear(symmetry.rep_in, symmetry.rep_out, dtype=torch.float64))
    g = symmetry.group.sample(3, generator=0)
    eye_in = torch.eye(layer.in_features, dtype=layer.coefficients.dtype)
    eye_out = torch.eye(layer.out_features, dtype=layer.coefficients.dtype)
    for i in range(3):
        rho_in = symmetry.apply(g.select(i), eye_in).mT
        rho_out = symmetry.apply_out(g.select(i), eye_out).mT
        left, right = rho_out @ layer.weight.detach(), layer.weight.detach() @ rho_in
        torch.testing.assert_close(left, right, rtol=0, atol=1e-11 * float(left.abs().max()))
        if layer.bias is not None:
            torch.testing.assert_close(rho_out @ layer.bias, layer.bias, rtol=1e-11, atol=1e-11)
    invariants = commuting_dimension(Symmetry(symmetry.group, Scalar, symmetry.rep_out))
    assert (layer.bias is None) == (invariants == 0)
    if layer.bias_coefficients is not None:
        assert layer.bias_coefficients.numel() == invariants


def test_the_layer_is_its_matrix_and_bias() -> None:
    layer = perturbed(Linear(2 * Scalar + V, V + 2 * Scalar, O(3), dtype=torch.float64))
    x = rows(5, 7)
    assert layer.bias is not None
    torch.testing.assert_close(layer(x), x @ layer.weight.mT + layer.bias)
    assert layer.weight.shape == (5, 5)


@pytest.mark.parametrize(
    ("symmetry", "coefficients", "biases"),
    [
        (Symmetry(O(3), 5 * Scalar + 5 * V, 2 * T(2)), 5 * 2, 2),
        (Symmetry(S(5), V, V), 2, 1),
        (Symmetry(S(5), T(2), V), 5, 1),
        (Symmetry(S(5), T(2), T(2)), 15, 2),  # Bell numbers
        (Symmetry(Z(7), 3 * V, 2 * V), 42, 2),
        (Symmetry(SO(2), V, V), 2, 0),
        (Symmetry(U(2), T(1, 1), T(1, 1)), 2, 1),
        (Symmetry(Trivial(3), V, V), 9, 3),
    ],
    ids=str,
)
def test_the_number_of_coefficients_is_that_of_the_textbook(
    symmetry: Symmetry, coefficients: int, biases: int
) -> None:
    layer = Linear(symmetry.rep_in, symmetry.rep_out)
    assert layer.coefficients.numel() == coefficients
    assert (0 if layer.bias_coefficients is None else layer.bias_coefficients.numel()) == biases


def test_no_bias_where_none_is_wanted() -> None:
    layer = Linear(V, V, S(4), bias=False)
    assert layer.bias is None
    assert layer.bias_coefficients is None
    assert not layer(torch.zeros(2, 4)).any()


def test_complex_groups_have_complex_coefficients() -> None:
    assert Linear(V, V, SU(2)).coefficients.dtype == torch.complex64
    assert Linear(V, V, SU(2), dtype=torch.float64).coefficients.dtype == torch.complex128
    assert Linear(V, V, SO(2), dtype=torch.float64).coefficients.dtype == torch.float64


# --- the start --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "symmetry",
    [
        Symmetry(O(3), 20 * Scalar + 20 * V + 5 * T(2), Scalar + V + T(2)),
        Symmetry(S(6), 8 * V + 3 * Scalar, V + Scalar),
        Symmetry(Z(5), 4 * V, V),
        Symmetry(SO13p(), 9 * V, V + Scalar.on([0], of=2)),
        Symmetry(SU(2), 9 * V, V),
    ],
    ids=str,
)
def test_unit_inputs_give_outputs_of_order_one_and_biases_start_at_zero(symmetry: Symmetry) -> None:
    layer = Linear(symmetry.rep_in, symmetry.rep_out)
    squares = torch.zeros(layer.out_features)
    draws = 60
    for _ in range(draws):
        layer.reset_parameters()
        x = torch.randn(40, layer.in_features, dtype=layer.coefficients.dtype)
        squares += layer(x).detach().abs().square().mean(0) / draws
    reached = spanned(layer).abs().sum(1).reshape(layer.weight.shape).sum(1) > 1e-6
    assert bool((squares[reached] > 0.1).all())
    assert bool((squares[reached] < 3).all())
    assert not bool(squares[~reached].any())
    if layer.bias is not None:
        assert not bool(layer.bias.any())


def test_two_layers_start_differently_and_a_seed_repeats_them() -> None:
    torch.manual_seed(3)
    first, second = (Linear(4 * V, 4 * V, O(3)).coefficients for _ in range(2))
    torch.manual_seed(3)
    again = Linear(4 * V, 4 * V, O(3)).coefficients
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


# --- fixed weights ----------------------------------------------------------------------------


def test_weights_are_assembled_once_within_the_context_and_anew_after_it() -> None:
    model = torch.nn.Sequential(Linear(V, V, S(4)), torch.nn.SiLU(), Linear(V, V, S(4)))
    first = model[0]
    x = rows(4, 3, dtype=torch.float32)
    expected = model(x)
    with fixed_weights(model):
        torch.testing.assert_close(model(x), expected)
        kept = first.weight
        assert first.weight is kept
        with fixed_weights(first):
            assert first.weight is kept
        assert first.weight is kept
        (model(x).sum() + model(2 * x).sum()).backward()
    within = first.coefficients.grad.clone()
    model.zero_grad()
    (model(x).sum() + model(2 * x).sum()).backward()
    torch.testing.assert_close(within, first.coefficients.grad)
    with torch.no_grad():
        first.coefficients.mul_(2)
    assert not torch.equal(first.weight, kept)


def test_weights_are_let_go_after_an_error() -> None:
    layer = Linear(V, V, S(4))
    with pytest.raises(ValueError, match=r"expected inputs of width 4"), fixed_weights(layer):
        layer(torch.ones(3))
    assert layer.weight is not layer.weight


# --- shared weights ---------------------------------------------------------------------------


def test_shared_weights_against_loops() -> None:
    labels = torch.tensor([[0, 2, -1, 1], [1, -1, 2, 2], [0, 0, 1, -1]])
    signs = torch.tensor([[1, -1, 1, 1], [-1, 1, 1, -1], [1, -1, 1, -1]])
    places = torch.tensor([1, -1, 0])
    layer = SharedLinear(labels, signs, bias=places, dtype=torch.float64)
    with torch.no_grad():
        layer.coefficients.copy_(torch.tensor([2.0, 3.0, 5.0]))
        layer.bias_coefficients.copy_(torch.tensor([7.0, 11.0]))
    x = rows(4, 6)
    expected = torch.zeros(6, 3, dtype=torch.float64)
    theta, beta = [2.0, 3.0, 5.0], [7.0, 11.0]
    for row in range(6):
        for i in range(3):
            for j in range(4):
                if labels[i, j] >= 0:
                    expected[row, i] += signs[i, j] * theta[labels[i, j]] * x[row, j]
            if places[i] >= 0:
                expected[row, i] += beta[places[i]]
    torch.testing.assert_close(layer(x), expected)
    layer(x).sum().backward()
    by_hand = torch.zeros(3, dtype=torch.float64)
    for i in range(3):
        for j in range(4):
            if labels[i, j] >= 0:
                by_hand[labels[i, j]] += signs[i, j] * x[:, j].sum()
    torch.testing.assert_close(layer.coefficients.grad, by_hand)
    torch.testing.assert_close(layer.bias_coefficients.grad, 6 * torch.ones(2).double())


def test_a_circulant_layer_commutes_with_shifts() -> None:
    labels = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]])
    layer = SharedLinear(labels, bias=torch.zeros(3, dtype=torch.int64), dtype=torch.float64)
    with torch.no_grad():
        layer.bias_coefficients.fill_(0.5)
    assert_equivariant(layer, rows(3, 5), Symmetry(Z(3), V, V))
    assert equivariance_error(layer, rows(3, 5), Symmetry(S(3), V, V)) > 1e-3


def test_shared_layers_have_a_free_bias_by_default() -> None:
    labels = torch.zeros(3, 2, dtype=torch.int32)
    assert SharedLinear(labels).bias_coefficients.shape == (3,)
    assert SharedLinear(labels, bias=False).bias is None


def test_shared_weights_start_at_order_one() -> None:
    labels = torch.arange(40).remainder(7).expand(5, 40)
    squares = torch.zeros(5)
    for _ in range(100):
        layer = SharedLinear(labels)
        squares += layer(torch.randn(20, 40)).detach().square().mean(0) / 100
    assert bool(((squares > 0.1) & (squares < 3)).all())


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (torch.zeros(3, 3), r"expected integer labels, got torch\.float32"),
        (torch.zeros(3, 3, dtype=torch.bool), r"expected integer labels, got torch\.bool"),
        (torch.tensor([[0, -2]]), r"expected a label 0, 1, … .* or -1 for zero, got -2"),
        (torch.tensor([[0, 2]]), r"expected every label up to 2 to be used, got none with 1"),
        (torch.tensor([[-1, -1]]), r"expected a label for at least one weight, got -1 for all"),
        (torch.tensor([0, 1]), r"expected labels of shape \(out, in\), got \(2,\)"),
        (torch.zeros(0, 3, dtype=torch.int64), r"expected a label 0, 1, … .*, got none"),
    ],
    ids=["floats", "booleans", "negative", "gap", "all zero", "one axis", "empty"],
)
def test_bad_labels_are_refused(labels: Tensor, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        SharedLinear(labels)


def test_bad_signs_and_bias_labels_are_refused() -> None:
    labels = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(ValueError, match=r"expected signs ±1 of shape \(2, 3\), got shape \(3,\)"):
        SharedLinear(labels, torch.ones(3))
    with pytest.raises(ValueError, match=r"expected signs ±1"):
        SharedLinear(labels, torch.full((2, 3), 2))
    with pytest.raises(ValueError, match=r"expected bias labels of shape \(2,\), got \(3,\)"):
        SharedLinear(labels, bias=torch.arange(3))
    with pytest.raises(ValueError, match=r"expected every label up to 3 to be used"):
        SharedLinear(labels, bias=torch.tensor([0, 3]))


# --- wrong arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rep_in", "rep_out", "group", "sentence"),
    [
        (V, Scalar, O(3), r"equivariant linear map between them, got V\(O\(3\)\) and Scalar: zero"),
        (V, Pseudoscalar, SO(3), r"got V\(SO\(3\)\) and Pseudoscalar\(SO\(3\)\): zero is the only"),
        (V, V, None, r"expected a group for V >> V, got none"),
        (V(SO(3)), V, O(3), r"expected a representation of O\(3\), got V\(SO\(3\)\) of SO\(3\)"),
        (V, V(SO(3)), S(3), r"expected a representation of S\(3\), got V\(SO\(3\)\) of SO\(3\)"),
    ],
    ids=["no map", "no map to a pseudoscalar", "no group", "another group", "another group out"],
)
def test_impossible_layers_are_refused(
    rep_in: Rep, rep_out: Rep, group: Group | None, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Linear(rep_in, rep_out, group)


def test_what_is_no_representation_is_refused() -> None:
    with pytest.raises(TypeError, match=r"expected a representation as rep_in, got int"):
        Linear(3, V, O(3))
    with pytest.raises(TypeError, match=r"expected a representation as rep_out, got Tensor"):
        Linear(V, torch.ones(3), O(3))


@pytest.mark.parametrize("shape", [(3, 5), (4,), ()], ids=str)
def test_inputs_of_the_wrong_width_are_refused(shape: tuple[int, ...]) -> None:
    layer = Linear(V, V, O(3))
    sentence = r"expected inputs of width 3 for V\(O\(3\)\), got shape \(.*\)"
    with pytest.raises(ValueError, match=sentence):
        layer(torch.ones(shape))
    with pytest.raises(ValueError, match=r"expected inputs of width 3, got shape"):
        SharedLinear(torch.zeros(2, 3, dtype=torch.int64))(torch.ones(shape))


def test_scalars_alone_need_no_group_and_have_no_symmetry() -> None:
    layer = Linear(2 * Scalar, Scalar)
    assert layer(torch.ones(4, 2)).shape == (4, 1)
    with pytest.raises(ValueError, match=r"expected a layer whose representations have a group"):
        _ = layer.symmetry
