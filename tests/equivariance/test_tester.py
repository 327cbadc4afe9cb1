"""The tester against errors in closed form, and against functions that must not pass."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import assert_equivariant, equivariance_error
from isotropy.groups import (
    GL,
    O13,
    SL,
    SO,
    SU,
    D,
    Group,
    O,
    Operator,
    S,
    Scaling,
    SO13p,
    U,
    Z,
)
from isotropy.reps import Pseudoscalar, Regular, Rep, Scalar, Symmetry, T, V


def rows(width: int, *batch: int) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randn(*batch, width, dtype=torch.float64, generator=rng)


def outer(x: Tensor) -> Tensor:
    return (x.unsqueeze(-1) * x.unsqueeze(-2)).flatten(-2)


def cross(x: Tensor) -> Tensor:
    return torch.linalg.cross(x[..., :3], x[..., 3:])


def minkowski(x: Tensor) -> Tensor:
    return (x * x * torch.tensor([1.0, -1.0, -1.0, -1.0], dtype=x.dtype)).sum(-1, keepdim=True)


class WithReps(nn.Module):
    """x ↦ W x, saying how it transforms."""

    def __init__(self, weight: Tensor, rep_in: Rep, rep_out: Rep) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.rep_in, self.rep_out = rep_in, rep_out
        self.dropout = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x @ self.weight.mT)


EQUIVARIANT = [
    (outer, Symmetry(O(3), V, T(2))),
    (outer, Symmetry(SO13p(), V, T(2))),
    (outer, Symmetry(GL(4), V, T(2))),
    (outer, Symmetry(Scaling(2), V, T(2))),
    (cross, Symmetry(SO(3), 2 * V, V)),
    (cross, Symmetry(O(3), 2 * V, V * Pseudoscalar)),
    (minkowski, Symmetry(O13(), V, Scalar)),
    (
        lambda x: torch.linalg.det(x.unflatten(-1, (3, 3))).unsqueeze(-1),
        Symmetry(SL(3), 3 * V, Scalar),
    ),
    (torch.sin, Symmetry(S(6), V, V)),
    (torch.sin, Symmetry(D(3), Regular, Regular)),
    (lambda x: x.unflatten(-1, (3, 4)).mean(-1), Symmetry(SO(3) * S(4), V, V(SO(3)))),
    (lambda x: x.unflatten(-1, (3, 2)).mean(-1), Symmetry(Z(3) * Z(2), V, V(Z(3)))),
    (lambda x: x * x.abs().square().sum(-1, keepdim=True), Symmetry(SU(2), V, V)),
    (lambda x: x.abs().square().sum(-1, keepdim=True), Symmetry(U(2), V, Scalar)),
]


@pytest.mark.parametrize(
    ("function", "symmetry"), EQUIVARIANT, ids=lambda p: getattr(p, "__name__", str(p)[:30])
)
def test_known_equivariant_functions_pass(function: nn.Module, symmetry: Symmetry) -> None:
    assert_equivariant(function, symmetry=symmetry)
    x = rows(symmetry.rep_in.size(), 2, 3)  # more batch dimensions
    x = x.to(torch.complex128) * (1 + 0.5j) if symmetry.rep_in.is_complex else x
    assert equivariance_error(function, x, symmetry) < 1e-13
    single = torch.complex64 if symmetry.rep_in.is_complex else torch.float32
    assert equivariance_error(function, x.to(single), symmetry) < 1e-5


WRONG = [
    (torch.relu, Symmetry(SO(3), V, V)),
    (outer, Symmetry(O(3), V, T(2) * Pseudoscalar)),  # equivariant to SO(3) only
    (cross, Symmetry(O(3), 2 * V, V)),
    (minkowski, Symmetry(O(4), V, Scalar)),
    (minkowski, Symmetry(GL(4), V, Scalar)),
    (lambda x: x.roll(1, -1), Symmetry(S(4), V, V)),  # equivariant to Z(4) only
    (lambda x: x.roll(1, -1), Symmetry(D(4), V, V)),
    (lambda x: x + 1, Symmetry(Scaling(2), V, V)),
    (lambda x: x + 1, Symmetry(O(3), V, V)),
]


@pytest.mark.parametrize(
    ("function", "symmetry"), WRONG, ids=lambda p: getattr(p, "__name__", str(p)[:30])
)
def test_functions_of_another_symmetry_fail(function: nn.Module, symmetry: Symmetry) -> None:
    with pytest.raises(AssertionError, match=r"at most 1.0e-12, got \d"):
        assert_equivariant(function, symmetry=symmetry)
    assert equivariance_error(function, rows(symmetry.rep_in.size(), 6), symmetry) > 1e-2


def test_the_number_is_the_formula() -> None:
    # the flip of R² by -1, and f(x) = x + c: ‖2c‖ / (‖c - x‖ + ‖-x - c‖), over the whole batch
    x = rows(2, 5)
    constant = torch.tensor([0.3, -0.2], dtype=torch.float64)
    symmetry = Symmetry(Group([[[-1.0, 0.0], [0.0, -1.0]]]), V, V)
    expected = math.sqrt(5) * 2 * constant.norm() / ((constant - x).norm() + (x + constant).norm())
    found = equivariance_error(lambda x: x + constant, x, symmetry)
    assert found == pytest.approx(float(expected), rel=1e-12)
    # the largest over all elements: rotations by k quarter turns of f(x) = (x₀, 0)
    quarter = Symmetry(Z(4), V, V)
    x = rows(4, 3)
    weight = torch.diag(torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64))
    errors = []
    for k in (1, 2, 3):
        a, b = x.roll(k, -1) @ weight, (x @ weight).roll(k, -1)
        errors.append(float((a - b).norm() / (a.norm() + b.norm())))
    found = equivariance_error(lambda x: x @ weight, x, quarter)
    assert found == pytest.approx(max(errors), rel=1e-12)
    assert max(errors) > min(errors)


def test_the_model_is_called_in_its_own_precision_and_left_as_it_was() -> None:
    seen: list[tuple[torch.dtype, bool, bool]] = []
    model = WithReps(torch.eye(3), V(O(3)), V(O(3)))
    model.register_forward_hook(
        lambda m, i, y: seen.append((i[0].dtype, m.dropout.training, torch.is_grad_enabled()))
    )
    model.train()
    model.dropout.eval()
    assert equivariance_error(model, rows(3, 4).float()) < 1e-6
    assert equivariance_error(model, torch.arange(12).reshape(4, 3)) < 1e-6
    assert_equivariant(model)
    assert set(seen) == {(torch.float32, False, False)}
    assert model.training
    assert not model.dropout.training
    model.dropout.train()
    assert_equivariant(model)  # the dropout is off while it is tested
    assert model.dropout.training


def test_the_mode_comes_back_after_an_error() -> None:
    model = WithReps(torch.ones(2, 3), V(O(3)), V(O(3)))
    with pytest.raises(ValueError, match=r"expected outputs of shape \(16, 3\) .* \(16, 2\)"):
        assert_equivariant(model)
    assert model.training
    assert torch.is_grad_enabled()


def test_symmetries_are_read_off_the_model() -> None:
    eye = torch.eye(3, dtype=torch.float64)
    swap = eye[[1, 0, 2]]
    assert_equivariant(WithReps(eye, V(O(3)), V(O(3))))
    assert_equivariant(WithReps(eye, V, V), symmetry=O(3))
    assert_equivariant(WithReps(eye, V(O(3)), V(O(3))), symmetry=SO(3))  # restricted
    assert_equivariant(nn.Identity(), symmetry=O(3), rep_in=V, rep_out=V)
    assert_equivariant(nn.Identity(), rep_in=V(O(3)), rep_out=V)
    assert_equivariant(WithReps(swap, V(O(3)), V(O(3))), rep_out=V(O(3)).change_basis(swap))
    with pytest.raises(AssertionError, match=r"WithReps to be equivariant to SO\(3\): V >> V"):
        assert_equivariant(WithReps(swap, V, V), symmetry=SO(3))
    parts = WithReps(torch.ones(1, 3, dtype=torch.float64), V(S(3)), Scalar)
    assert_equivariant(parts)
    with pytest.raises(AssertionError, match=r"got \d"):
        assert_equivariant(WithReps(eye[:1], V(S(3)), Scalar))


def test_which_elements_are_tried() -> None:
    def tried(symmetry: Symmetry, samples: int) -> list[Tensor]:
        """The inputs that a map is given."""
        calls: list[Tensor] = []
        equivariance_error(
            lambda x: (calls.append(x), x + x.sin())[1],
            rows(symmetry.rep_in.size(), 2),
            symmetry,
            samples=samples,
        )
        return calls

    def count(symmetry: Symmetry, samples: int) -> int:
        return len(tried(symmetry, samples))

    # x itself, all but the identity, and one other input to see that it matters
    assert count(Symmetry(Z(5), V, V), 8) == 1 + 4 + 1
    assert count(Symmetry(S(5), V, V), 8) == 1 + len(S(5).discrete) + 8 + 1
    assert count(Symmetry(SO(3), V, V), 3) == 1 + 3
    product = S(3) * Z(2)
    listed = tried(Symmetry(product, V, V), 12)
    assert len(listed) == 1 + 11 + 1
    assert len({x.numpy().tobytes() for x in listed[:12]}) == 12  # each element once
    assert count(Symmetry(product, V, V), 11) == 1 + len(product.discrete) + 11 + 1
    assert count(Symmetry(SO(2), V, V), 99) == 1 + 99
    doubling = Group([[[2.0]]])  # not finite
    assert count(Symmetry(doubling, V, V), 9) == 1 + 1 + 9


def test_a_worst_element_is_named() -> None:
    rotation = Symmetry(SO(3), V, V)
    with pytest.raises(AssertionError, match=r"expected relu .* SO\(3\): V >> V .* random element"):
        assert_equivariant(torch.relu, symmetry=rotation)
    with pytest.raises(AssertionError, match=r"at element [12] of 3"):
        assert_equivariant(lambda x: x.cumsum(-1), symmetry=Symmetry(Z(3), V, V))
    mirrored = Symmetry(S(9), V, V)
    with pytest.raises(AssertionError, match=r"discrete generator|random element"):
        assert_equivariant(lambda x: x.cumsum(-1), symmetry=mirrored)
    assert_equivariant(torch.relu, symmetry=rotation, tolerance=1.0)


def test_outputs_that_show_nothing_do_not_pass() -> None:
    symmetry = Symmetry(SO(3), V, Scalar)
    x = rows(3, 4)

    def zero(x: Tensor) -> Tensor:
        return 0 * x[..., :1]

    def constant(x: Tensor) -> Tensor:
        return torch.ones_like(x[..., :1])

    def broken(x: Tensor) -> Tensor:
        return x[..., :1] / 0.0

    def sometimes(x: Tensor) -> Tensor:
        y = x.norm(dim=-1, keepdim=True)
        return torch.where(x[..., :1] > 1.0, y / 0.0, y)

    for function, problem in (
        (zero, "an output that is zero"),
        (constant, "an output that does not depend on the input"),
        (broken, "an output that is not finite"),
        (sometimes, "an output that is not finite"),
    ):
        assert math.isnan(equivariance_error(function, x, symmetry))
        with pytest.raises(AssertionError, match=problem):
            assert_equivariant(function, x, symmetry)
        with pytest.raises(AssertionError, match=problem):
            assert_equivariant(function, x, symmetry, tolerance=1.0)
    # a constant that is not invariant has an error of its own
    vectors = Symmetry(SO(3), V, V)
    assert equivariance_error(torch.ones_like, x, vectors) > 0.1
    # zero at x, but not at g x
    assert equivariance_error(torch.relu, -x.abs(), Symmetry(O(3), V, V)) == 1.0


def test_low_precision_has_room() -> None:
    layer = nn.Linear(3, 3, bias=False)
    with torch.no_grad():
        layer.weight.copy_(1.7 * torch.eye(3))
    symmetry = Symmetry(O(3), V, V)
    for dtype in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        assert_equivariant(layer.to(dtype), symmetry=symmetry)
    with torch.no_grad():
        layer.weight[0, 1] += 0.5
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        with pytest.raises(AssertionError, match=r"Linear to be equivariant"):
            assert_equivariant(layer.to(dtype), symmetry=symmetry)
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():  # the output's precision counts
        layer.weight.copy_(1.7 * torch.eye(3))
        assert_equivariant(layer.float(), symmetry=symmetry)


def test_elements_of_large_condition_number_are_avoided() -> None:
    conditions: list[float] = []

    def fourth(x: Tensor) -> Tensor:
        conditions.append(float(torch.linalg.cond(x)))  # with x = 1, rows are those of gᵀ
        return outer(outer(x))

    group, largest = SL(4), 1.5
    symmetry = Symmetry(group, V, T(4))
    eye = torch.eye(4, dtype=torch.float64)
    assert equivariance_error(fourth, eye, symmetry, max_condition=largest) < 1e-14
    tested = conditions[1:9]
    assert len(conditions) == 1 + 8 + 1
    assert 1.01 < max(tested) ** 4 <= largest + 1e-9
    drawn = [float(torch.linalg.cond(g)) ** 4 for g in group.sample(64, generator=0).dense()]
    assert min(drawn) > largest  # none would do as drawn
    conditions.clear()
    equivariance_error(fourth, eye, symmetry, max_condition=1e6)
    assert max(conditions[1:9]) ** 4 > 10
    # the same within a product, whose elements keep their factors
    conditions.clear()
    product = Symmetry(group * Z(2), V(group), T(4)(group))
    assert equivariance_error(fourth, eye, product, max_condition=1.1) < 1e-14
    assert max(conditions[1:-1]) ** 4 <= 1.1 + 1e-9


def test_opaque_operators_are_tested_by_their_generators() -> None:
    group = Group([Operator(6, lambda x: x.roll(1, -1))])
    assert_equivariant(torch.sin, symmetry=Symmetry(group, V, V))
    with pytest.raises(AssertionError, match=r"discrete generator 0"):
        assert_equivariant(lambda x: x.cumsum(-1), symmetry=Symmetry(group, V, V))


def test_it_repeats() -> None:
    symmetry = Symmetry(SO(3), V, V)

    def bent(x: Tensor) -> Tensor:
        return x + 0.1 * x**2

    first = equivariance_error(bent, rows(3, 2), symmetry)
    assert equivariance_error(bent, rows(3, 2), symmetry) == first
    assert equivariance_error(bent, rows(3, 2), symmetry, generator=1) != first


def test_bad_input() -> None:
    symmetry = Symmetry(SO(3), V, V)
    x = rows(3, 2)
    with pytest.raises(ValueError, match=r"inputs of width 3 for V\(SO\(3\)\), got shape \(2, 4\)"):
        equivariance_error(torch.relu, torch.ones(2, 4), symmetry)
    with pytest.raises(ValueError, match=r"inputs of width 3 .* got shape \(0, 3\)"):
        equivariance_error(torch.relu, torch.ones(0, 3), symmetry)
    with pytest.raises(TypeError, match=r"expected a tensor of inputs, got list"):
        equivariance_error(torch.relu, [1.0, 2.0, 3.0], symmetry)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"outputs of shape \(2, 3\) .* got shape \(2, 9\)"):
        equivariance_error(outer, x, symmetry)
    with pytest.raises(TypeError, match=r"expected a tensor from the model, got tuple"):
        equivariance_error(lambda x: (x, x), x, symmetry)  # type: ignore[arg-type,return-value]
    for samples in (0, True, 1.5):
        with pytest.raises(ValueError, match=r"expected at least one sample"):
            equivariance_error(torch.relu, x, symmetry, samples=samples)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a condition number of at least 1, got 0.5"):
        equivariance_error(torch.relu, x, symmetry, max_condition=0.5)
    with pytest.raises(ValueError, match=r"expected a symmetry or representations, got both"):
        equivariance_error(torch.relu, x, symmetry, rep_in=V)
    with pytest.raises(TypeError, match=r"expected a symmetry, a group or None, got str"):
        equivariance_error(torch.relu, x, "SO(3)")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected rep_in, or a model that has one"):
        equivariance_error(torch.relu, x, SO(3))
    with pytest.raises(ValueError, match=r"expected a group, or representations bound to one"):
        equivariance_error(torch.relu, x, rep_in=V, rep_out=V)
    with pytest.raises(ValueError, match=r"expected a subgroup of SO\(3\), got O\(3\)"):
        equivariance_error(WithReps(torch.eye(3), V(SO(3)), V(SO(3))), x, O(3))
    stretch = Symmetry(Group([[[100.0, 0.0], [0.0, 1.0]]]), V, V)
    with pytest.raises(ValueError, match=r"condition number of at most 10, got 100 for discrete"):
        equivariance_error(torch.relu, rows(2, 2), stretch)
    skewed = V.change_basis([[1.0, 0.0], [0.0, 1000.0]])
    with pytest.raises(ValueError, match=r"at most 10, got none below \d.*; raise max_condition"):
        equivariance_error(torch.relu, rows(2, 2), Symmetry(SO(2), skewed, V))
