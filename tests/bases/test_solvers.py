"""Solvers against each other, against characters, and under bad input."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy import Pseudoscalar, Regular, Rep, Scalar, Symmetry, T, V, equivariant_basis
from isotropy.bases import Basis, DenseBasis, OrbitBasis, solve_dense, solved_anew
from isotropy.groups import (
    O13,
    SL,
    SO,
    SU,
    D,
    D2d,
    Group,
    Inversion,
    O,
    Operator,
    S,
    SO13p,
    Sp,
    Trivial,
    U,
    Z,
    p4,
    wreath,
)


def projector(basis: Basis) -> torch.Tensor:
    q = basis.dense()
    return q @ q.mH


def assert_same_space(fast: Basis, slow: Basis) -> None:
    assert fast.rank == slow.rank
    torch.testing.assert_close(projector(fast), projector(slow), rtol=0, atol=1e-9)


def assert_is_a_basis(basis: Basis) -> None:
    """The contract, each call against the matrix Q."""
    q = basis.dense()
    assert q.shape == (basis.size, basis.rank)
    torch.testing.assert_close(q.mH @ q, torch.eye(basis.rank, dtype=basis.dtype))
    rng = torch.Generator().manual_seed(0)
    beta = torch.randn(2, 3, basis.rank, dtype=basis.dtype, generator=rng)
    v = torch.randn(2, 3, basis.size, dtype=basis.dtype, generator=rng)
    torch.testing.assert_close(basis.combine(beta), beta @ q.mT)
    torch.testing.assert_close(basis.coordinates(v), v @ q.conj())
    torch.testing.assert_close(basis.project(v), basis.combine(basis.coordinates(v)))
    assert basis.residual() < 1e-12


# --- orbits against the dense twin ---------------------------------------------------------

permutations = st.integers(2, 5).flatmap(
    lambda n: st.lists(st.permutations(range(n)), min_size=1, max_size=3)
)


@st.composite
def signed_groups(draw: st.DrawFn) -> Group:
    generators = []
    indices = draw(permutations)
    for index in indices:
        n = len(index)
        signs = draw(st.lists(st.sampled_from([-1.0, 1.0]), min_size=n, max_size=n))
        generators.append(np.eye(n)[:, np.argsort(index)] * np.array(signs))
    return Group(generators)


SMALL_REPS = [V, T(2), V + Scalar, T(2) * Pseudoscalar, V * Pseudoscalar + 2 * V, (V + Scalar) >> V]


@settings(max_examples=60)
@given(permutations.map(Group), st.sampled_from([*SMALL_REPS, T(3), T(1, 2)]))
def test_permutation_groups(group: Group, rep: Rep) -> None:
    basis = equivariant_basis(rep(group), method="orbits", cache=False)
    assert_same_space(basis, solve_dense(rep(group)))
    assert basis.residual() == 0.0


@settings(max_examples=60)
@given(signed_groups(), st.sampled_from(SMALL_REPS))
def test_signed_permutation_groups(group: Group, rep: Rep) -> None:
    basis = equivariant_basis(rep(group), method="orbits", cache=False)
    assert_same_space(basis, solve_dense(rep(group)))
    assert basis.residual() == 0.0


@settings(max_examples=30)
@given(
    permutations.map(Group),
    permutations.map(Group),
    st.sampled_from(["product", "sum", "wreath"]),
    st.sampled_from([V, V + Scalar, V >> V, V * Pseudoscalar]),
)
def test_products_of_permutation_groups(g: Group, h: Group, how: str, rep: Rep) -> None:
    group = {"product": lambda: g * h, "sum": lambda: g + h, "wreath": lambda: wreath(g, h)}[how]()
    if rep(group).size() > 300:
        rep = V
    basis = equivariant_basis(rep(group), method="orbits", cache=False)
    assert_same_space(basis, solve_dense(rep(group)))


@pytest.mark.parametrize(
    "rep",
    [
        Regular(S(3)) >> Regular(S(3)),
        Regular(S(3)).restrict(Z(3)) * V(Z(3)),
        V(Z(2)) * V(Z(3)) + V(Z(3)),
        (V(S(3)) * V(Z(2))) >> V(S(3)),
        T(2)(wreath(Inversion(1), S(3))),
        V(Inversion(2) * Z(3)) ** 2,
        V(Z(3)).change_basis([2, 0, 1]) * V(Z(3)),
        (2 * V + Scalar)(Z(2)).on([4, 0, 2, 5, 1], of=7) >> V(Z(2)).on([2, 0], of=3),
    ],
    ids=str,
)
def test_other_permutation_representations(rep: Rep) -> None:
    basis = equivariant_basis(rep, method="orbits", cache=False)
    assert_is_a_basis(basis)
    assert_same_space(basis, solve_dense(rep))


def burnside(group: Group, power: int) -> float:
    """(1/|G|) Σ χ(g)^power over all elements."""
    return float((group.elements().trace() ** power).mean())


@pytest.mark.parametrize(
    "group", [D(5), D2d(5), p4(3), wreath(Z(3), Z(2)), wreath(Inversion(1), S(3)), D(4) + Z(2)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("power", [1, 2, 3])
def test_finite_groups_against_burnside(group: Group, power: int) -> None:
    assert equivariant_basis(T(power)(group)).rank == pytest.approx(burnside(group, power))


@pytest.mark.parametrize(
    ("group", "rank"),
    [(wreath(Z(3), Z(3)), 5), (wreath(Z(3), Z(2)), 4), (wreath(Trivial(2), Z(2)), 8)],
    ids=str,
)
def test_wreath_products(group: Group, rank: int) -> None:
    """Where the rule of thesis A.1.7 counts 6, 5 and at most 6."""
    assert equivariant_basis((V >> V)(group)).rank == rank


# --- dense: closed forms --------------------------------------------------------------------


def double_factorial(n: int) -> int:
    return prod(range(n, 0, -2))


@pytest.mark.parametrize(
    ("rep", "rank"),
    [
        *((T(k)(SO(3)), r) for k, r in enumerate([1, 0, 1, 1, 3, 6])),  # Riordan numbers
        *((T(k)(O(4)), double_factorial(k - 1)) for k in (2, 4)),
        *((T(k)(Sp(1)), r) for k, r in [(2, 1), (4, 2), (6, 5)]),  # Catalan numbers
        (T(4)(SO13p()), 4),
        (T(2, 2)(O13()), 3),
        (T(2, 2)(SU(2)), 2),
        (T(3, 0)(SU(3)), 1),
        (T(2, 2)(SU(3)), 2),
        (T(3, 0)(SU(2)), 0),
        (T(2)(U(2)), 0),
        (T(3)(SL(3)), 1),
        (T(1, 1)(SL(3)), 1),
        ((T(3) * Pseudoscalar)(O(3)), 1),
        (V(O(3)) * V(S(4)) >> V(O(3)), 1),
    ],
    ids=str,
)
def test_lie_groups(rep: Rep, rank: int) -> None:
    basis = equivariant_basis(rep, cache=False)
    assert basis.rank == rank
    assert_is_a_basis(basis)


def test_a_finite_group_whose_elements_are_no_permutations() -> None:
    assert equivariant_basis(T(2)(D2d(3))).method == "dense"
    assert equivariant_basis(T(2)(D2d(4))).method == "orbits"
    assert equivariant_basis(T(3)(D2d(3))).rank == pytest.approx(burnside(D2d(3), 3))


SCALES = st.sampled_from([1e-6, 1e-3, 1.0, 1e3, 1e6])


@settings(max_examples=40)
@given(
    st.sampled_from([SO(3), SO13p(), Sp(1), SU(2), O(3), SO(2) + Z(2)]),
    st.lists(SCALES, min_size=10, max_size=10),
    st.sampled_from([T(2), T(3), T(1, 1), T(2, 2)]),
)
def test_the_scale_of_generators_does_not_matter(
    group: Group, scales: list[float], rep: Rep
) -> None:
    scaled = Group(
        group.discrete, [a.scaled(s) for a, s in zip(group.algebra, scales, strict=False)]
    )
    assert scaled == group or any(s != 1.0 for s in scales)
    expected = equivariant_basis(rep(group), cache=False)
    found = equivariant_basis(rep(scaled), cache=False)
    assert found.rank == expected.rank
    torch.testing.assert_close(projector(found), projector(expected), rtol=0, atol=1e-8)


def test_bad_coordinates_are_solved_without_eigenvectors() -> None:
    """Eigenvectors of condition 2·10⁵: to the fourth power, rounding is all that is left."""
    group = Group([[1, 0]], algebra=[[[1e-5, 0], [1, 1e-7]]])
    basis = equivariant_basis((T(2) >> T(2))(group))
    assert basis.rank == solve_dense((T(2) >> T(2))(group)).rank == 2
    assert basis.residual() < 1e-12


def rotation_and_almost_the_same(small: float) -> Group:
    return Group(algebra=[[[0.0, -1.0], [1.0, 0.0]], [[0.0, -1.0], [1.0, small]]])


def test_ranks_that_rounding_decides_are_refused_on_request() -> None:
    group = rotation_and_almost_the_same(1e-9)
    assert equivariant_basis((V >> V)(group)).rank in (1, 2)
    with solved_anew(clear_ranks=True), pytest.raises(ValueError, match="that rounding decides"):
        equivariant_basis((V >> V)(group))


@pytest.mark.parametrize(("small", "rank"), [(1e-6, 1), (1e-13, 2)])
def test_ranks_that_are_clear_are_those_of_the_dense_solver(small: float, rank: int) -> None:
    group = rotation_and_almost_the_same(small)
    with solved_anew(clear_ranks=True):
        basis = equivariant_basis((V >> V)(group))
    assert (basis.method, basis.rank) == ("dense", rank)


def test_limits_hold_within_others() -> None:
    group = rotation_and_almost_the_same(1e-9)
    with solved_anew():
        equivariant_basis((V >> V)(group), method="dense")  # kept, and no answer for what follows
        with solved_anew(clear_ranks=True):
            with solved_anew(), pytest.raises(ValueError, match="that rounding decides"):
                equivariant_basis((V >> V)(group))
            with pytest.raises(ValueError, match="that rounding decides"):
                equivariant_basis((V >> V)(group), method="dense")
        with solved_anew(most_work=1), pytest.raises(ValueError, match="within the work allowed"):
            equivariant_basis((V >> V)(group), method="krylov")


def test_clear_ranks_of_generators_in_large_spaces_are_refused() -> None:
    group = Group(algebra=[np.diag([1.0, *range(2, 18)])])
    with solved_anew(clear_ranks=True), pytest.raises(ValueError, match="at most 4096 dimensions"):
        equivariant_basis((T(2) >> V)(group))


def test_opaque_operators_are_solved() -> None:
    group = Group([Operator(6, lambda x: x.roll(2, -1))])
    assert equivariant_basis((V >> V)(group)).rank == 12
    stretch = Operator(2, lambda x: x * torch.tensor([1.0, 2.0], dtype=x.dtype))
    assert equivariant_basis(T(2)(Group(algebra=[stretch]))).rank == 0
    assert equivariant_basis(T(1, 1)(Group(algebra=[stretch]))).rank == 2


# --- blocks ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rep",
    [
        (2 * V + 3 * Scalar)(SO(3)) >> (V + T(2))(SO(3)),
        (V + Scalar)(SU(2)) * (V.T + 2 * Scalar)(SU(2)),
        (2 * (V + Scalar) + V)(Z(3)) >> (V + 2 * Pseudoscalar)(Z(3)),
        (V * (V + Scalar) + Scalar)(SO(2)) * (V + V * (V + Scalar))(SO(2)),
        (V + Scalar)(SO(2)).on([3, 1, 0], of=5) >> (2 * V)(SO(2)).on([1, 3, 0, 2], of=4),
        (V + Scalar)(SO(3)),
        V(SO(3)) + V(Z(2)) * V(SO(3)),
    ],
    ids=str,
)
def test_blocks_against_the_whole(rep: Rep) -> None:
    basis = equivariant_basis(rep, cache=False)
    assert type(basis).__name__ == "BlockBasis"
    assert_is_a_basis(basis)
    assert_same_space(basis, solve_dense(rep))


def test_each_distinct_pair_is_solved_once() -> None:
    basis: Any = equivariant_basis(((5 * Scalar + 4 * V + 2 * T(2)) >> (3 * Scalar + 7 * V))(SO(3)))
    assert type(basis).__name__ == "BlockBasis"
    assert len(basis.blocks) == 6
    by_rep: dict[Rep, Basis] = {}
    for block in basis.blocks:
        assert by_rep.setdefault(block.basis.rep, block.basis) is block.basis
    assert basis.rank == 5 * 3 + 4 * 7 * 1 + 2 * 3 * 1 + 2 * 7 * 1


def test_blocks_of_orbits_are_one_label_array() -> None:
    rep = ((2 * V + Scalar) >> (V * Pseudoscalar + V))(S(3)).on(range(42)[::-1], of=42)
    blocks: Any = equivariant_basis(rep, cache=False)
    assert type(blocks).__name__ == "BlockBasis"
    orbits = blocks.orbits()
    assert orbits is not None
    assert_same_space(orbits, blocks)
    torch.testing.assert_close(orbits.dense(), blocks.dense())
    assert equivariant_basis((V + Scalar)(SO(3))).orbits() is None  # type: ignore[attr-defined]


def test_gradients_flow_through_a_basis() -> None:
    for rep in ((V >> V)(Z(3)), (V >> V + Scalar)(SO(3))):
        basis = equivariant_basis(rep)
        beta = torch.randn(basis.rank, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(basis.combine, beta)
        v = torch.randn(basis.size, dtype=torch.float64, requires_grad=True)
        assert torch.autograd.gradcheck(basis.coordinates, v)


def test_float32_in_float32_out() -> None:
    for rep in ((V >> V)(Z(3)), (V >> V + Scalar)(SO(3)), T(4)(SO(3))):
        basis = equivariant_basis(rep)
        assert basis.combine(torch.ones(basis.rank)).dtype == torch.float32


# --- the public call --------------------------------------------------------------------------


def test_symmetries_are_solved_for_their_maps() -> None:
    assert equivariant_basis(Symmetry(O(3), 2 * V, V + Scalar)).rank == 2


def test_duals_of_orthogonal_groups_share_an_answer() -> None:
    basis = equivariant_basis(T(1, 1)(SO(3)))
    assert basis.rank == equivariant_basis(T(2)(SO(3))).rank == 1
    assert str(basis.rep) == "T(1,1)(SO(3))"


def test_groups_without_generators_leave_everything() -> None:
    for rep in (T(2)(Trivial(3)), V(Z(1)), Scalar):
        basis = equivariant_basis(rep)
        assert basis.rank == basis.size
        assert_is_a_basis(basis)
    assert equivariant_basis(T(2)(Trivial(3)), method="dense").rank == 9


def test_a_wrong_basis_has_a_large_residual() -> None:
    rep = T(2)(SO(3))
    assert DenseBasis(rep, torch.eye(9, 1).double()).residual() > 0.1
    assert OrbitBasis(T(2)(Z(3)), torch.arange(9) // 3).residual() > 0.1
    assert equivariant_basis(V(SO(3))).residual() == 0.0  # rank 0


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="expected a representation with its group, got T"):
        equivariant_basis(V >> V)
    with pytest.raises(TypeError, match="expected a representation or a symmetry, got str"):
        equivariant_basis("V>>V")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="expected a method among auto"):
        equivariant_basis(V(Z(3)), method="magic")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"\(signed\) permutations for the orbit solver"):
        equivariant_basis(T(2)(SO(3)), method="orbits")
    basis = equivariant_basis((V >> V)(Z(3)))
    with pytest.raises(ValueError, match=r"coordinates of width 3 .* got shape \(4,\)"):
        basis.combine(torch.ones(4))
    with pytest.raises(ValueError, match="a vector of width 9"):
        basis.coordinates(torch.ones(3))


def test_what_does_not_fit_in_memory_says_how_much_it_wants() -> None:
    with pytest.raises(ValueError, match=r"needs \d+\.\d GB .* method='krylov'"):
        equivariant_basis(T(8)(SO(7)), method="dense")
    with pytest.raises(ValueError, match=r"zero weights needs \d+\.\d GB .* method='krylov'"):
        equivariant_basis(T(14)(SO(9)))
    shear = Group(algebra=[[[0.0, 1.0], [0.0, 0.0]]])
    with pytest.raises(ValueError, match=r"needs \d+\.\d GB .* rep\.rho\(g\)\.apply\(v\)"):
        equivariant_basis(T(32)(shear))
    with pytest.raises(ValueError, match=r"labelling the orbits .* needs \d+\.\d GB"):
        equivariant_basis(T(12)(S(9)))
    with pytest.raises(ValueError, match=r"dense basis .* needs .* \.combine\(beta\)"):
        equivariant_basis(T(7)(Z(8))).dense()
