"""Nonlinearities against their formulas, written out for small spaces."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import SL, SO, SU, D, Group, O, S, Scaling, SO13p, Sp, U, Z
from isotropy.nn import GatedNonlinearity, NormNonlinearity, gated
from isotropy.reps import Pseudoscalar, Regular, Rep, Scalar, Symmetry, T, V


def rows(width: int, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(1)
    return torch.randn(*batch, width, dtype=torch.float64, generator=rng)


def swish(x: Tensor) -> Tensor:
    return x / (1 + torch.exp(-x))


def sigmoid(x: Tensor) -> Tensor:
    return 1 / (1 + torch.exp(-x))


# --- gated ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rep", "group", "gates"),
    [
        (4 * Scalar + 2 * V + T(2), O(3), 3),
        (V, SO13p(), 1),
        (3 * Scalar, O(3), 0),
        (2 * V + T(2) + Regular, S(3), 0),
        (V + Pseudoscalar, S(3), 1),
        (V + Pseudoscalar, Z(3), 0),  # all shifts of three places are even
        (V + V.T, O(3), 2),
        (V.on([0, 2, 4], of=5), O(3), 1),
        (Scalar + V + Scalar, SO(2), 1),
    ],
    ids=["tensors", "vector", "scalars", "permutations", "sign", "even", "dual", "columns", "sums"],
)
def test_there_is_a_gate_for_each_object_that_needs_one(rep: Rep, group: Group, gates: int) -> None:
    rep = rep(group)
    assert gated(rep).size() == rep.size() + gates
    assert gated(rep) == (gates * Scalar + rep if gates else rep)


def test_objects_are_scaled_by_their_gates_and_scalars_go_through_swish() -> None:
    layer = GatedNonlinearity(2 * Scalar + 2 * V + T(2), O(2))
    x = rows(3 + 2 + 4 + 4, 7)
    gates, scalars, vectors, matrix = x.split([3, 2, 4, 4], 1)
    expected = torch.cat(
        [
            swish(scalars),
            vectors[:, :2] * sigmoid(gates[:, :1]),
            vectors[:, 2:] * sigmoid(gates[:, 1:2]),
            matrix * sigmoid(gates[:, 2:]),
        ],
        1,
    )
    torch.testing.assert_close(layer(x), expected)


def test_columns_keep_their_places() -> None:
    layer = GatedNonlinearity(V + Scalar + V, SO(2))
    x = rows(2 + 5, 4)
    expected = torch.cat(
        [x[:, 2:4] * sigmoid(x[:, :1]), swish(x[:, 4:5]), x[:, 5:] * sigmoid(x[:, 1:2])], 1
    )
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(
    ("rep", "group"),
    [(2 * V + T(2) + Scalar, S(3)), (Regular, D(3)), (V, Z(5)), (3 * Scalar, O(3))],
    ids=["tensors of S(3)", "regular", "shifts", "scalars"],
)
def test_permutation_representations_go_through_swish_entry_by_entry(
    rep: Rep, group: Group
) -> None:
    layer = GatedNonlinearity(rep, group)
    x = rows(layer.in_features, 5)
    assert layer.in_features == layer.out_features
    torch.testing.assert_close(layer(x), swish(x))


MIXED = [
    Symmetry(O(3), Scalar, 2 * Scalar + V + T(2)),
    Symmetry(SO13p(), Scalar, V + V.T + T(1, 1)),
    Symmetry(Sp(1), Scalar, 2 * V + Scalar),
    Symmetry(S(3), Scalar, V + Pseudoscalar + T(2)),
    Symmetry(O(2) * S(3), Scalar, V + V(O(2)) + V(S(3))),
    Symmetry(Z(3) + O(2), Scalar, V + T(2)),
    Symmetry(SO(3), Scalar, V.on([3, 1, 0], of=5)),
]


@pytest.mark.parametrize("symmetry", MIXED, ids=str)
def test_gated_nonlinearities_are_equivariant(symmetry: Symmetry) -> None:
    layer = GatedNonlinearity(symmetry.rep_out)
    x = rows(layer.in_features, 9)
    assert_equivariant(layer, x, tolerance=1e-12)
    assert_equivariant(layer, x.float(), tolerance=1e-5)


def test_what_is_pointwise_does_not_do_for_rotations() -> None:
    assert equivariance_error(swish, rows(3, 9), Symmetry(O(3), V, V)) > 1e-2


def test_gated_nonlinearities_need_a_real_representation_and_its_width() -> None:
    with pytest.raises(ValueError, match=r"expected a real representation .*, got V\(SU\(2\)\)"):
        GatedNonlinearity(V, SU(2))
    with pytest.raises(ValueError, match=r"expected inputs of width 4 for .*, got shape \(2, 3\)"):
        GatedNonlinearity(V, O(3))(torch.ones(2, 3))


# --- norm -------------------------------------------------------------------------------------


def test_objects_are_scaled_by_their_length() -> None:
    layer = NormNonlinearity(Scalar + 2 * V, SO(3), dtype=torch.float64)
    offsets = torch.tensor([0.3, -0.7], dtype=torch.float64)
    (parameter,) = layer.parameters()
    with torch.no_grad():
        parameter.copy_(offsets)
    x = rows(7, 6)
    lengths = x[:, 1:].reshape(6, 2, 3).norm(dim=-1)
    factors = swish(lengths + offsets) / lengths
    vectors = x[:, 1:].reshape(6, 2, 3) * factors[..., None]
    expected = torch.cat([swish(x[:, :1]), vectors.flatten(1)], 1)
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize(
    "symmetry",
    [
        Symmetry(O(3), V, 2 * Scalar + V + T(2)),
        Symmetry(S(3), V, V + Pseudoscalar),
        Symmetry(SO(2) * S(3), V, V + V(SO(2))),
        Symmetry(O(2), V, V.on([3, 0], of=4)),
    ],
    ids=str,
)
def test_norm_nonlinearities_are_equivariant(symmetry: Symmetry) -> None:
    layer = NormNonlinearity(symmetry.rep_out, dtype=torch.float64)
    with torch.no_grad():
        for offsets in layer.parameters():
            offsets.normal_()
    assert_equivariant(layer, rows(layer.in_features, 9), tolerance=1e-12)
    assert_equivariant(layer.float(), rows(layer.in_features, 9).float(), tolerance=1e-5)


def test_norms_of_complex_vectors_are_real() -> None:
    layer = NormNonlinearity(2 * V, U(2), dtype=torch.float64)
    assert_equivariant(layer, torch.complex(rows(4, 9), rows(4, 10)[1:]), tolerance=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_the_gradient_at_zero_is_finite(dtype: torch.dtype) -> None:
    layer = NormNonlinearity(Scalar + 2 * V, SO(3), dtype=dtype)
    x = torch.zeros(2, 7, dtype=dtype, requires_grad=True)
    y = layer(x)
    assert not bool(y.any())
    y.sum().backward()
    for tensor in (x, *layer.parameters()):
        assert bool(torch.isfinite(tensor.grad).all())


@pytest.mark.parametrize("group", [SO13p(), Scaling(2), Sp(1), SL(3)], ids=str)
def test_groups_that_do_not_preserve_lengths_are_refused(group: Group) -> None:
    with pytest.raises(ValueError, match=r"expected a representation that preserves lengths"):
        NormNonlinearity(V, group)


def test_a_skewed_basis_does_not_preserve_lengths() -> None:
    with pytest.raises(ValueError, match=r"expected a representation that preserves lengths"):
        NormNonlinearity(V.change_basis([[2.0, 1.0], [0.0, 1.0]]), SO(2))
