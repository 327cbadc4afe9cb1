"""Contraction patterns against published ranks, Young tableaux and the dense solver."""

from __future__ import annotations

from collections.abc import Iterator
from math import comb, factorial, prod

import numpy as np
import pytest
import torch

from isotropy import Pseudoscalar, Rep, Scalar, T, V
from isotropy.bases import Basis, solve_dense
from isotropy.bases._contractions import gram, independent, nonzero_entries, splits
from isotropy.bases._invariant_theory import (
    ContractionBasis,
    contraction_patterns,
    invariant_rank,
    solve_invariant_theory,
)
from isotropy.groups import (
    GL,
    O11,
    O13,
    SE,
    SL,
    SO,
    SO13,
    SU,
    Group,
    O,
    SO11p,
    SO13p,
    Sp,
    U,
    Z,
)

# --- ranks, as printed in the thesis; None where the cell is blank -------------------------

B = None
TABLE_A4 = {
    2: [2, 1, 1, 1, 1, 1],
    3: [0, 1, 0, 0, 0, 0],
    4: [6, 3, 4, 3, 3, 3],
    5: [0, 6, 0, 1, 0, 0],
    6: [20, 15, 25, 15, 16, 15],
    7: [0, 36, 0, 15, B, B],
    8: [70, 91, 196, B, B, B],
}
TABLE_A5 = {
    2: [1, 1, 1, 1, 1, 1],
    3: [0, 0, 0, 0, 0, 0],
    4: [3, 3, 3, 3, 3, 3],
    5: [0, 0, 0, 0, 0, 0],
    6: [10, 15, 15, 15, 15, 15],
    7: [0, 0, 0, 0, B, B],
    8: [35, 91, 105, B, B, B],
}
TABLE_A6 = {
    SO13p(): [1, 0, 4, 0, 25, 0, 196],
    SO13(): [1, 0, 4, 0, 25, 0, 196],
    O13(): [1, 0, 3, 0, 15, 0, 105],
}
TABLE_A7 = {
    2: [1, 1, 1, 1, 1, 1],
    3: [0, 0, 0, 0, 0, 0],
    4: [2, 3, 3, 3, 3, 3],
    5: [0, 0, 0, 0, 0, 0],
    6: [5, 14, 15, 15, B, B],
    7: [0, 0, 0, B, B, B],
    8: [14, 84, B, B, B, B],
}
TABLE_A8_TYPES = [(3, 0), (3, 1), (3, 2), (3, 3), (4, 0), (4, 1), (4, 2)]
TABLE_A8 = {
    2: [0, 2, 0, 5, 2, 0, 5],
    3: [1, 0, 0, 6, 0, 3, 0],
    4: [0, 0, 0, 6, 1, 0, 0],
}


def partitions(k: int, rows: int, longest: int | None = None) -> Iterator[tuple[int, ...]]:
    """The partitions of k into at most so many parts, padded with zeros."""
    if rows == 0:
        if k == 0:
            yield ()
        return
    for part in range(min(k, k if longest is None else longest), -1, -1):
        for rest in partitions(k - part, rows - 1, part):
            yield (part, *rest)


def tableaux(shape: tuple[int, ...]) -> int:
    """The number of standard Young tableaux, by the hook length formula."""
    columns = [sum(part > j for part in shape) for j in range(shape[0] if shape else 0)]
    hooks = prod(part - j + columns[j] - i - 1 for i, part in enumerate(shape) for j in range(part))
    return factorial(sum(shape)) // hooks


def orthogonal_rank(n: int, k: int, *, special: bool) -> int:
    """S_λ(Rⁿ) has one invariant of O(n) if all parts of λ are even, one of det if all are odd."""
    total = 0
    for shape in partitions(k, n):
        odd = sum(part % 2 for part in shape)
        total += tableaux(shape) * (odd == 0 or (special and odd == n))
    return total


def symplectic_rank(n: int, k: int) -> int:
    """S_λ(R²ⁿ) has one invariant of Sp(n) if the rows of λ come in equal pairs."""
    return sum(tableaux(s) for s in partitions(k, 2 * n) if s[::2] == s[1::2])


def unitary_rank(n: int, p: int, q: int, *, special: bool) -> int:
    """Pairs S_λ ⊗ S_μ* where λ is μ with full columns added: none but for SU(n)."""
    columns, left = divmod(abs(p - q), n)
    if left or (columns and not special):
        return 0
    return sum(
        tableaux(s) * tableaux(tuple(part + columns for part in s))
        for s in partitions(min(p, q), n)
    )


@pytest.mark.parametrize("k", TABLE_A4)
def test_tables_a4_and_a5(k: int) -> None:
    for n, (special, full) in enumerate(zip(TABLE_A4[k], TABLE_A5[k], strict=True), start=2):
        assert invariant_rank(T(k)(SO(n))) == orthogonal_rank(n, k, special=True)
        assert invariant_rank(T(k)(O(n))) == orthogonal_rank(n, k, special=False)
        assert special in (B, orthogonal_rank(n, k, special=True))
        assert full in (B, orthogonal_rank(n, k, special=False))


@pytest.mark.parametrize("group", TABLE_A6, ids=str)
def test_table_a6(group: Group) -> None:
    for k, printed in enumerate(TABLE_A6[group], start=2):
        for q in (0, 1, k // 2, k):
            assert invariant_rank(T(k - q, q)(group)) == printed


@pytest.mark.parametrize("k", TABLE_A7)
def test_table_a7(k: int) -> None:
    for n, printed in enumerate(TABLE_A7[k], start=1):
        assert invariant_rank(T(k)(Sp(n))) == symplectic_rank(n, k)
        assert printed in (B, symplectic_rank(n, k))


@pytest.mark.parametrize("n", TABLE_A8)
def test_table_a8(n: int) -> None:
    for (p, q), printed in zip(TABLE_A8_TYPES, TABLE_A8[n], strict=True):
        assert invariant_rank(T(p, q)(SU(n))) == invariant_rank(T(q, p)(SL(n))) == printed
        assert printed == unitary_rank(n, p, q, special=True)


def test_closed_forms() -> None:
    riordan = [1, 0, 1, 1, 3, 6, 15, 36, 91]
    assert [invariant_rank(T(k)(SO(3))) for k in range(9)] == riordan
    for k in (2, 4, 6, 8):
        assert invariant_rank(T(k)(O(max(2, k // 2)))) == prod(range(k - 1, 0, -2))
        assert invariant_rank(T(k)(Sp(1))) == comb(k, k // 2) // (k // 2 + 1)
        assert invariant_rank(T(k)(SO11p())) == comb(k, k // 2)  # the boosts of weight zero
    for p in (1, 2, 3, 4):
        assert invariant_rank(T(p, p)(U(p))) == invariant_rank(T(p, p)(GL(p))) == factorial(p)


@pytest.mark.parametrize(
    ("n", "p", "q"),
    [(2, 8, 0), (2, 5, 3), (2, 0, 6), (3, 6, 0), (3, 1, 7), (3, 4, 4), (4, 8, 0), (5, 5, 0)],
)
def test_several_determinants(n: int, p: int, q: int) -> None:
    assert invariant_rank(T(p, q)(SU(n))) == unitary_rank(n, p, q, special=True)
    assert invariant_rank(T(p, q)(U(n))) == unitary_rank(n, p, q, special=False)


def test_the_rank_needs_no_vector() -> None:
    assert invariant_rank(T(8)(O(100))) == 105
    assert invariant_rank(T(30)(SL(30))) == 1
    with pytest.raises(ValueError, match=r"needs .* GB of memory but .* use \.rank"):
        solve_invariant_theory(T(8)(O(30))).combine(torch.zeros(105))
    with pytest.raises(ValueError, match="use tensors of lower order"):
        solve_invariant_theory(T(24)(O(3)))


# --- inner products --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rep",
    [
        *(T(6)(g) for g in (O(1), O(3), SO(1), SO(2), SO(4), SO(6), Sp(1), Sp(2))),
        *(T(5)(g) for g in (SO(3), SO(5), SL(1))),
        T(2, 3)(SO13p()),
        T(3, 3)(SO13p()),
        T(3, 3)(Sp(2)),
        T(3, 3)(GL(2)),
        T(5, 1)(SL(2)),
        T(6)(SU(2)),
        T(6)(SU(3)),
        T(0, 7)(SL(1)),
    ],
    ids=str,
)
def test_inner_products_from_graphs_are_those_of_the_tensors(rep: Rep) -> None:
    duals = [factor.dual for factor in rep.factors]  # type: ignore[attr-defined]
    for patterns in contraction_patterns(rep):
        places, signs = nonzero_entries(patterns, duals)
        assert places.shape == signs.shape == (len(patterns), patterns.entries)
        tensors = np.zeros((len(patterns), rep.size()))
        np.put_along_axis(tensors, places, signs, axis=1)
        d = patterns.form.d
        coefficients, loops = gram(patterns)
        scale = factorial(d) if patterns.epsilons else 1
        np.testing.assert_array_equal(scale * coefficients * float(d) ** loops, tensors @ tensors.T)
        few, root = independent(patterns)
        assert len(few) == np.linalg.matrix_rank(tensors)
        assert root.shape == (len(few), len(few))


@pytest.mark.parametrize(("slots", "size", "number"), [(8, 2, 105), (6, 3, 10), (0, 4, 1)])
def test_splits(slots: int, size: int, number: int) -> None:
    found = list(splits(range(slots), size))
    as_sets = {frozenset(frozenset(s[i : i + size]) for i in range(0, slots, size)) for s in found}
    assert len(found) == len(as_sets) == number
    assert all(sorted(s) == list(range(slots)) for s in found)


# --- spaces ----------------------------------------------------------------------------------


def projector(basis: Basis) -> torch.Tensor:
    q = basis.dense()
    return q @ q.mH


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
    torch.testing.assert_close(basis.project(v), v @ projector(basis).mT)
    assert basis.residual() < 1e-10


MIXED = [
    Scalar,
    V,
    V.T,
    T(2),
    T(1, 1),
    V.T * V,
    T(0, 2),
    T(3),
    V * V.T * V,
    T(0, 3),
    T(4),
    V.T * V * V * V.T,
    V.T * V * V.T * V.T,
    T(2) * Pseudoscalar,
    V.T * Pseudoscalar.T * V,
    Pseudoscalar * T(1, 2),
    T(3) * Pseudoscalar.T,
]
GROUPS: list[Group] = [
    *(SO(1), SO(2), SO(3), O(1), O(2), O(3), Sp(1), SL(1), SL(2), SL(3), GL(1), GL(2), GL(3)),
    *(U(1), U(2), SU(2), SO13p(), SO13(), O13(), SO11p(), O11()),
]


@pytest.mark.parametrize("group", GROUPS, ids=str)
def test_the_same_space_as_the_dense_solver(group: Group) -> None:
    compared = 0
    for plan in MIXED:
        rep = plan(group)
        if rep.size() <= 81:
            found, slow = solve_invariant_theory(rep), solve_dense(rep)
            assert found.rank == slow.rank, rep
            torch.testing.assert_close(projector(found), projector(slow), rtol=0, atol=1e-9)
            compared += 1
    assert compared >= 12


@pytest.mark.parametrize(
    "rep",
    [
        V.T(SO13p()) * T(2)(SO13p()) * V.T(SO13p()),
        T(2, 2)(O13()),
        T(4)(SO(4)),
        T(5)(SO(3)),
        V.T(Sp(1)) * T(3, 2)(Sp(1)),
        T(3, 3)(SL(2)),
        T(2, 4)(SO11p()),
        T(1, 4)(SL(3)),
        T(2, 2)(SU(3)),
        T(6)(SU(2)),
    ],
    ids=str,
)
def test_larger_spaces(rep: Rep) -> None:
    found = solve_invariant_theory(rep)
    assert found.rank > 0
    assert_is_a_basis(found)
    torch.testing.assert_close(projector(found), projector(solve_dense(rep)), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    "rep",
    [
        *(T(6)(SO(4)), T(4, 2)(SO13p()), T(8)(SO(2)), T(3, 3)(SU(3)), T(6)(SL(3))),
        *(T(2, 4)(Sp(2)), V.T(Sp(2)) * T(2)(Sp(2)) * V.T(Sp(2))),
    ],
    ids=str,
)
def test_spaces_beyond_the_dense_solver(rep: Rep) -> None:
    assert_is_a_basis(solve_invariant_theory(rep))


# --- the contract ----------------------------------------------------------------------------


def test_an_answer_has_a_name_and_is_the_same_on_every_run() -> None:
    first, second = (solve_invariant_theory(T(6)(SO(4))) for _ in range(2))
    assert isinstance(first, ContractionBasis)
    assert repr(first) == "ContractionBasis(T(6)(SO(4)), rank=25, method='invariant-theory')"
    assert torch.equal(first.dense(), second.dense())
    assert first.dtype == torch.float64
    assert solve_invariant_theory(V(U(2))).dtype == torch.complex128


def test_a_renamed_answer_keeps_its_tensors() -> None:
    basis = solve_invariant_theory(T(3)(SO(3)))
    renamed = basis.of(T(1, 2)(SO(3)))
    assert renamed.rep == T(1, 2)(SO(3))
    assert torch.equal(renamed.dense(), basis.dense())


@pytest.mark.parametrize("rep", [T(4)(SO(4)), T(2, 1)(SO13p()), T(2, 2)(Sp(1))], ids=str)
def test_gradients_flow(rep: Rep) -> None:
    basis = solve_invariant_theory(rep)
    beta = torch.randn(2, basis.rank, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(basis.combine, beta)
    v = torch.randn(2, basis.size, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(basis.coordinates, v)


def test_precision_follows_the_input() -> None:
    real, unitary = solve_invariant_theory(T(4)(SO(4))), solve_invariant_theory(T(2, 2)(U(2)))
    assert real.combine(torch.ones(real.rank)).dtype == torch.float32
    assert real.coordinates(torch.ones(real.size)).dtype == torch.float32
    assert real.combine(torch.ones(real.rank, dtype=torch.complex128)).dtype == torch.complex128
    assert unitary.combine(torch.ones(unitary.rank)).dtype == torch.complex64
    assert unitary.coordinates(torch.ones(unitary.size).double()).dtype == torch.complex128
    values = torch.randn(real.rank, dtype=torch.float64)
    torch.testing.assert_close(real.combine(values.float()).double(), real.combine(values))


def test_a_basis_of_nothing() -> None:
    basis = solve_invariant_theory(T(3)(O(3)))
    assert basis.rank == 0
    assert basis.dense().shape == (27, 0)
    assert not basis.combine(torch.zeros(5, 0)).any()
    assert basis.coordinates(torch.ones(5, 27)).shape == (5, 0)


@pytest.mark.parametrize(
    "rep",
    [
        T(2),
        V(Z(3)),
        V(SE(2)),
        V(SO(3)) * V(O(3)),
        V(SO(3)) * V(SO(2)),
        (V + Scalar)(SO(3)),
        V(SO(3)).on([0, 1, 2], of=4),
        V(SO(2) * SO(2)),
        T(2)(Group(algebra=[[[0.0, 1.0], [-1.0, 0.0]]])),
    ],
    ids=str,
)
def test_other_representations_are_refused(rep: Rep) -> None:
    for solve in (solve_invariant_theory, invariant_rank, contraction_patterns):
        with pytest.raises(ValueError, match=r"^expected a product of V.*classical.*, got "):
            solve(rep)


def test_every_classical_group_is_accepted() -> None:
    assert all(contraction_patterns(plan(g)) is not None for g in GROUPS for plan in MIXED)


def test_vectors_of_another_width_are_refused() -> None:
    basis = solve_invariant_theory(T(2)(SO(3)))
    with pytest.raises(ValueError, match="expected coordinates of width 1"):
        basis.combine(torch.ones(2))
    with pytest.raises(ValueError, match="expected a vector of width 9"):
        basis.coordinates(torch.ones(8))
