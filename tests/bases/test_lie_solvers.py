"""Zero weights, Krylov, product rules and the wreath rule against the dense twin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy import (
    CustomRep,
    Pseudoscalar,
    Regular,
    Rep,
    Scalar,
    T,
    V,
    equivariant_basis,
    parse_group,
)
from isotropy.bases import Basis, BasisCache, solve_dense
from isotropy.bases._null_space import null_space, project_on_null_space
from isotropy.groups import (
    GL,
    O11,
    O13,
    SE,
    SL,
    SO,
    SU,
    D2d,
    E,
    Group,
    O,
    S,
    Scaling,
    SO11p,
    SO13p,
    Sp,
    Trivial,
    U,
    Z,
    embed,
    wreath,
)


def projector(basis: Basis) -> torch.Tensor:
    q = basis.dense()
    return q @ q.mH


def assert_solves(basis: Basis, rep: Rep) -> None:
    """The right space, orthonormal columns, and every call of the contract."""
    q = basis.dense()
    torch.testing.assert_close(projector(basis), projector(solve_dense(rep)), rtol=0, atol=1e-9)
    torch.testing.assert_close(q.mH @ q, torch.eye(basis.rank, dtype=basis.dtype))
    rng = torch.Generator().manual_seed(0)
    v = torch.randn(2, 3, basis.size, dtype=basis.dtype, generator=rng)
    beta = torch.randn(2, 3, basis.rank, dtype=basis.dtype, generator=rng)
    torch.testing.assert_close(basis.combine(beta), beta @ q.mT)
    torch.testing.assert_close(basis.coordinates(v), v @ q.conj())
    assert basis.residual() <= 1e-10


LIE = [
    *(T(k)(SO(3)) for k in range(1, 6)),
    *(T(k)(SO(2)) for k in (1, 3, 6)),
    *(T(4)(g) for g in (SO(4), O(2), O(3), SO13p(), O13(), O11(), Sp(1), Sp(2))),
    *(T(2, 2)(g) for g in (SO11p(), SL(2), GL(2), U(2), SU(2), SU(3), SE(2), Scaling(2))),
    *(T(1, 1)(g) for g in (SE(3), E(3), U(3), GL(4))),
    *(T(3)(g) for g in (SL(3), SU(3), SO(3))),
    (T(3) * Pseudoscalar)(O(3)),
    (T(2) * Pseudoscalar.T)(GL(2)),
    V.change_basis([[1.0, 0.5], [0.0, 2.0]])(SO(2)) * V(SO(2)),
    T(2, 1)(SO(3).conjugate([[1.0, 0.5, 0.0], [0.0, 2.0, 0.0], [0.0, 0.3, 1.0]])),
    T(1, 1)(SO13p().conjugate(np.eye(4) + 0.1 * np.arange(16).reshape(4, 4) / 16)),
    T(2)(Group([[[0.0, 1.0], [1.0, 0.0]]], [[[1.0, 0.0], [0.0, -1.0]]])),
    T(2)(Group(algebra=[SO(3).algebra[0], SO(3).algebra[1]])),  # generates SO(3), is not closed
]


@pytest.mark.parametrize("rep", LIE, ids=str)
def test_zero_weight_reduction(rep: Rep) -> None:
    assert_solves(equivariant_basis(rep, method="zero-weight", cache=False), rep)


@pytest.mark.parametrize("rep", [r for r in LIE if r.size() <= 81], ids=str)
def test_krylov(rep: Rep) -> None:
    assert_solves(equivariant_basis(rep, method="krylov", cache=False), rep)


def test_krylov_on_permutations_and_shears() -> None:
    for rep in (T(3)(S(3)), T(2)(Group(algebra=[[[0.0, 1.0], [0.0, 0.0]]])), T(3)(D2d(5))):
        assert_solves(equivariant_basis(rep, method="krylov", cache=False), rep)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([SO(3), SO13p(), Sp(1), SL(2), SE(2), O(2)]))
def test_zero_weight_in_any_basis(seed: int, group: Group) -> None:
    """Where the eigenvectors are not orthonormal, and generators of any scale."""
    rng = np.random.default_rng(seed)
    change = rng.normal(size=(group.d, group.d)) + 2 * np.eye(group.d)
    if np.linalg.cond(change) > 50:
        change = np.eye(group.d)
    moved = group.conjugate(change)
    scaled = Group(
        moved.discrete, [a.scaled(float(10 ** rng.uniform(-6, 6))) for a in moved.algebra]
    )
    rep = T(1, 1)(scaled)
    basis = equivariant_basis(rep, cache=False)
    expected = solve_dense(rep)
    assert basis.rank == expected.rank
    torch.testing.assert_close(projector(basis), projector(expected), rtol=0, atol=1e-7)


def test_the_same_answer_on_every_run() -> None:
    for rep in (T(6)(SO(3)), T(4)(O13()), T(2, 2)(SU(3)), T(7)(SO(3))):
        first, second = (equivariant_basis(rep, cache=False) for _ in range(2))
        assert torch.equal(first.dense(), second.dense())


def test_no_torus_falls_back() -> None:
    shear = Group(algebra=[[[0.0, 1.0], [0.0, 0.0]]])
    assert equivariant_basis(T(2)(shear)).method == "dense"
    assert equivariant_basis(T(2)(shear)).rank == 2
    with pytest.raises(ValueError, match="diagonalisable"):
        equivariant_basis(T(2)(shear), method="zero-weight", cache=False)
    with pytest.raises(ValueError, match="diagonalisable"):
        equivariant_basis(T(2)(S(3)), method="zero-weight", cache=False)


def test_large_ones_take_the_matrix_free_way() -> None:
    basis = equivariant_basis(T(7)(D2d(5)), cache=False)
    assert basis.method == "dense"
    rep = T(5)(D2d(3)) * Regular(Z(40))
    assert equivariant_basis(rep, cache=False).method == "dense*orbits"
    finite = equivariant_basis(T(11)(D2d(3)), cache=False)
    assert finite.method == "krylov"
    chi = D2d(3).elements().trace() ** 11
    assert finite.rank == round(float(chi.mean()))


def test_sums_of_many_representations() -> None:
    rep = 100 * T(0) + 30 * T(1) + 10 * T(2) + 3 * T(3)
    basis = equivariant_basis((rep >> rep)(SO(3)), cache=False)
    assert basis.rank == 15435
    assert basis.residual() <= 1e-10


# --- null spaces --------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [0, 1, 15, 16, 17, 50, 60])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_null_space(rank: int, dtype: type) -> None:
    rng = np.random.default_rng(rank)
    q = np.linalg.qr(rng.normal(size=(60, 60)).astype(dtype) * (1 if dtype == np.float64 else 1j))[
        0
    ]
    values = np.concatenate([np.zeros(rank), rng.uniform(0.01, 1, 60 - rank)])
    gram = (q * values) @ q.conj().T
    found = null_space(lambda x: gram @ x, 60, dtype)
    assert found.shape == (60, rank)
    np.testing.assert_allclose(found.conj().T @ found, np.eye(rank), atol=1e-12)
    np.testing.assert_allclose(
        found @ found.conj().T, q[:, :rank] @ q[:, :rank].conj().T, atol=1e-9
    )


def test_gradient_descent_converges_exponentially_and_conjugate_gradients_faster() -> None:
    """Thesis A.1.3 and Figure A.1: a straight line on a logarithmic scale."""
    gram = np.diag([0.0, 0.0, 1.0, 2.0, 3.0, 4.0])
    x = np.random.default_rng(0).normal(size=(6, 3))
    history, moved = [], x
    for _ in range(60):  # Algorithm 1 as printed
        history.append(np.linalg.norm(gram @ moved))
        moved = moved - 0.4 * gram @ moved
    rates = np.array(history[31:60]) / np.array(history[30:59])
    np.testing.assert_allclose(rates, 0.6, atol=1e-3)
    fast: list[float] = []
    projected = project_on_null_space(lambda v: gram @ v, x, history=fast)
    np.testing.assert_allclose(projected[2:], 0.0, atol=1e-12)
    np.testing.assert_allclose(projected[:2], x[:2], atol=1e-12)
    assert len(fast) <= 6


# --- product rules --------------------------------------------------------------------------


PRODUCTS = [
    (V >> V)(S(4) * SE(2)),
    (V >> V)(SO(3) + Z(2)),
    (V >> V)(SO(2) * SO(2)),
    (V >> V)((SO(2) + SO(2)) * Z(2)),
    (T(2) * Pseudoscalar)(O(2) + O(2)),
    (T(2) * Pseudoscalar)(O(2) * Z(3)),
    (T(2) * Pseudoscalar)(GL(2) * Z(2)),
    (V >> V + Scalar)(embed(SO(2), 4, 1)),
    (V * Pseudoscalar)(embed(O(2), 3)),
    (V >> V)(U(2) * SU(2)),
    V(SO(3)) * V(S(4)) >> V(SO(3)),
    Regular(Z(3)) * V(SO(2)) >> V(SO(2)),
    (V >> V)(D2d(3) + D2d(3)),
    T(3)(SO(2) + Trivial(2)),
]


@pytest.mark.parametrize("rep", PRODUCTS, ids=str)
def test_product_rules(rep: Rep) -> None:
    assert_solves(equivariant_basis(rep, cache=False), rep)


def test_equal_factors_are_independent() -> None:
    """Rotations of two planes are not one rotation of both."""
    assert equivariant_basis((V >> V)(SO(2) + SO(2))).rank == 4
    assert equivariant_basis((V >> V)(SO(2) * Trivial(2))).rank == 8
    assert equivariant_basis((V >> V)(SO(2) * SO(2))).rank == 4


def test_a_factor_is_solved_alone() -> None:
    basis: Any = equivariant_basis((V >> V)(S(4) * SE(3)))
    assert type(basis).__name__ == "KronBasis"
    assert basis.rank == 2
    assert {part.method for _, part in basis.parts} == {"orbits", "zero-weight"}
    assert basis.residual() <= 1e-10


@settings(max_examples=25)
@given(
    st.sampled_from([SO(2), O(2), D2d(3), SL(2), Z(2), Trivial(2), SE(1)]),
    st.sampled_from([Z(2), S(3), Z(2) + Trivial(1), Trivial(2), Z(3)]),
    st.sampled_from([V, T(2), T(1, 1), V.T, T(3)]),
)
def test_wreath_rule(inner: Group, outer: Group, rep: Rep) -> None:
    bound = rep(wreath(inner, outer))
    if bound.size() > 230:
        bound = T(1, 1)(wreath(inner, outer))
    assert_solves(equivariant_basis(bound, cache=False), bound)


def test_wreath_examples() -> None:
    basis = equivariant_basis((V >> V)(wreath(O(2), S(3))))
    assert type(basis).__name__ == "WreathBasis"
    assert basis.rank == 1
    assert equivariant_basis((V >> V)(wreath(Z(3), Z(3)))).rank == 5
    # the same through the rule: pretend that Z(3) is no permutation group
    turned = Z(3).conjugate(np.linalg.qr(np.arange(9).reshape(3, 3) + np.eye(3))[0])
    assert equivariant_basis((V >> V)(wreath(turned, Z(3)))).rank == 5
    assert equivariant_basis((V >> V)(wreath(turned, Z(2)))).rank == 4


# --- theorem A.1 ------------------------------------------------------------------------------


@settings(max_examples=40)
@given(
    st.sampled_from(
        [
            *("SO(3)", "O(3)", "SO13p", "O13", "Sp(1)", "SL(2)", "GL(2)", "SU(2)", "SE(2)"),
            *("D2d(3)", "S(3)", "wreath(O(2),Z(2))", "SO(2)*S(3)", "SO(2)+Z(3)", "p4(3)"),
        ]
    ),
    st.sampled_from([V, T(2), T(1, 1), V + Scalar]),
    st.integers(0, 1000),
)
def test_fixed_by_the_generators_is_fixed_by_the_group(text: str, rep: Rep, seed: int) -> None:
    """Sufficiency, and necessity: nothing else is fixed by sampled elements."""
    group = parse_group(text)
    basis = equivariant_basis(rep(group))
    elements = group.sample(30, generator=seed)
    images = rep(group).rho(elements)
    if basis.rank:
        v = basis.combine(torch.randn(basis.rank, dtype=basis.dtype))
        moved = images.apply(v.expand(30, -1))
        scale = images.dense().abs().amax((-1, -2)).clamp_min(1.0)
        assert float(((moved - v).abs().amax(-1) / scale).max()) < 1e-9
    stacked = images.dense() - torch.eye(basis.size, dtype=images.dense().dtype)
    singular = torch.linalg.svdvals(stacked.reshape(-1, basis.size))
    assert int((singular <= 1e-9 * singular[0]).sum()) == basis.rank


def test_zero_weight_bases_are_cached_on_disk(
    tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isotropy.bases import _cache

    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path))
    monkeypatch.setattr(_cache, "WORTH_A_FILE", 0.0)
    first = equivariant_basis(T(4)(SO(3)), cache=BasisCache())
    second = equivariant_basis(T(4)(SO(3)), cache=BasisCache())
    assert second.method == "zero-weight"
    assert second is not first
    assert torch.equal(first.dense(), second.dense())


# --- answers that were once wrong ---------------------------------------------------------------

TURN = np.array([[0.0, -1.0], [1.0, 0.0]])
Q4 = np.linalg.qr(np.random.default_rng(3).normal(size=(4, 4)))[0]
Q3 = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
TWICE = Q4 @ np.kron(np.eye(2), TURN) @ Q4.T
UPPER = Q3 @ np.array([[1.0, 1e-8, 1e-8], [0.0, -1.0, 1e-8], [0.0, 0.0, 0.5]]) @ Q3.T
UNITARY = np.linalg.qr(np.array([[1.0, 1j], [0.3j, 2.0]]))[0]


def in_units(scale: float) -> Group:
    change = np.diag([1.0, 1.0, scale])
    return Group(
        algebra=[change @ a.dense().numpy() @ np.linalg.inv(change) for a in SO(3).algebra]
    )


@pytest.mark.parametrize(
    ("rep", "rank"),
    [
        (Pseudoscalar(Group(algebra=[Q4 @ np.kron(np.diag([1.0, 2.0]), TURN) @ Q4.T])), 1),
        (T(2)(Group(algebra=[TWICE, 2 * TWICE])), 8),
        ((Pseudoscalar * V.T)(SE(2).conjugate(Q3)), 1),
        ((Pseudoscalar * V.T)(Group(algebra=SE(2).conjugate(Q3).algebra)), 1),
        (T(3)(Group([np.diag([1, 1, 1, 100, 0.01])], embed(SO(3), 5).algebra)), 1),
        (T(3)(in_units(100.0)), 1),
        (T(2, 2)(in_units(30.0)), 3),
        (T(5)(in_units(30.0)), 6),
        (T(2)(Group(algebra=[UPPER])), 2),
        (T(1, 1)(U(1) * SO(2)), 2),
        (T(2)(SU(2).conjugate(UNITARY) * SO(2)), 2),
        ((V + Scalar)(SO(3)), 1),
    ],
)
def test_ranks_that_were_once_wrong(rep: Rep, rank: int) -> None:
    basis = equivariant_basis(rep, cache=False)
    assert basis.rank == rank
    if rank:
        q = basis.dense()
        torch.testing.assert_close(q.mH @ q, torch.eye(rank, dtype=basis.dtype))
        assert basis.residual() < 1e-8


@pytest.mark.parametrize(
    "rep", [T(1, 1)(SO(3)), T(2)(wreath(SO(2), S(2))), (V >> V + Scalar)(SO(2))], ids=str
)
def test_real_bases_of_complex_vectors(rep: Rep) -> None:
    basis = equivariant_basis(rep, cache=False)
    beta = torch.randn(basis.rank, dtype=torch.complex128)
    expected = torch.complex(basis.combine(beta.real), basis.combine(beta.imag))
    torch.testing.assert_close(basis.combine(beta), expected)
    torch.testing.assert_close(basis.coordinates(expected), beta)


@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_large_tensors_in_bad_units(scale: float) -> None:
    """Beyond the size of a dense decomposition, where a Gram matrix alone sees false zeros."""
    basis = equivariant_basis(T(8)(in_units(scale)), cache=False)
    assert basis.rank == 91
    assert basis.residual() <= 1e-10


def test_factors_without_an_eigenbasis_fall_back() -> None:
    def shear(g: torch.Tensor) -> torch.Tensor:
        one, zero = torch.ones_like(g[0, 0]), torch.zeros_like(g[0, 0])
        return torch.stack([torch.stack([one, g[0, 0].log()]), torch.stack([zero, one])])

    log = CustomRep("Log", shear)
    basis = equivariant_basis((log * V)(Scaling(1)), cache=False)
    assert basis.method == "dense"
    assert basis.rank == 0
    assert equivariant_basis((log * log)(Scaling(1)), cache=False).rank == 2
    conjugate = CustomRep("Conjugate", lambda g: g.conj())
    assert equivariant_basis((conjugate * V)(U(2)), cache=False).rank == 1


def test_a_custom_factor_of_a_product_beside_one_of_a_factor() -> None:
    whole = CustomRep("Whole", lambda g: g)
    rep = whole(SO(2) * SO(3)) * V(SO(2))
    basis = equivariant_basis(rep, cache=False)
    torch.testing.assert_close(projector(basis), projector(solve_dense(rep)))


def test_one_solver_for_all_blocks_leaves_scalars_alone() -> None:
    for method in ("zero-weight", "krylov", "dense", "invariant-theory"):
        assert equivariant_basis((V + Scalar >> V + Scalar)(SO(3)), method=method).rank == 2


def test_representations_that_do_not_keep_adjoints_need_all_roots() -> None:
    """The spin-one representation in coordinates that only one rotation finds orthogonal."""
    change = torch.diag(torch.tensor([1.0, 1.0, 3.0], dtype=torch.float64))

    def stretched(g: torch.Tensor) -> torch.Tensor:
        return change @ g @ torch.linalg.inv(change)

    group = Group(algebra=SO(3).algebra)
    rep = (CustomRep("Stretched", stretched) * V * V)(group)
    assert_solves(equivariant_basis(rep, method="zero-weight", cache=False), rep)
