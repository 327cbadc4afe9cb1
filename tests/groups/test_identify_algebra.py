"""Names of Lie algebras, against algebras written down here from their defining equations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from isotropy.groups import orthonormal_span, parse_group
from isotropy.groups._identify_algebra import (
    AlgebraIdentity,
    LieStructure,
    StandardAlgebra,
    balanced_frame,
    identify_algebra,
)

Array = NDArray[Any]


# --- algebras from equations --------------------------------------------------------------------


@dataclass(frozen=True)
class Algebra:
    """A basis, of shape (dimension, d, d), and its standard expression."""

    basis: Array
    expression: str

    @property
    def d(self) -> int:
        return int(self.basis.shape[1])

    def __add__(self, other: Algebra) -> Algebra:
        first = np.pad(self.basis, ((0, 0), (0, other.d), (0, other.d)))
        second = np.pad(other.basis, ((0, 0), (self.d, 0), (self.d, 0)))
        return Algebra(np.concatenate([first, second]), f"{self.expression}+{other.expression}")

    def __mul__(self, other: Algebra) -> Algebra:
        first = np.array([np.kron(a, np.eye(other.d)) for a in self.basis])
        second = np.array([np.kron(np.eye(self.d), b) for b in other.basis])
        parts = [part for part in (first, second) if len(part)]
        return Algebra(np.concatenate(parts), f"{self.expression}*{other.expression}")

    def __repr__(self) -> str:
        return self.expression


def solutions(n: int, equation: Any, field: type = float) -> Array:
    """A basis of the matrices that a real-linear equation sends to zero."""
    units: list[Array] = list(np.eye(n * n).reshape(-1, n, n))
    units += [1j * unit for unit in units] if field is complex else []
    images = np.array([np.ravel(equation(unit)) for unit in units])
    images = np.hstack([images.real, images.imag])
    _, values, rows = np.linalg.svd(images.T)
    null = rows[int((values > 1e-9).sum()) :]
    return np.tensordot(null, np.array(units), 1)


def preserving(metric: Array) -> Array:
    return solutions(len(metric), lambda a: a.T @ metric + metric @ a)


def so(p: int, q: int = 0) -> Algebra:
    names = {(1, 1): "SO11p", (1, 3): "SO13p"}
    name = names.get((p, q), f"SOpq({p},{q})" if q else f"SO({p})")
    return Algebra(preserving(np.diag([1.0] * p + [-1.0] * q)), name)


def sp(n: int) -> Algebra:
    omega = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(n))
    return Algebra(preserving(omega), f"Sp({n})")


def gl(n: int) -> Algebra:
    return Algebra(np.eye(n * n).reshape(-1, n, n), f"GL({n})")


def sl(n: int) -> Algebra:
    return Algebra(solutions(n, np.trace), f"SL({n})")


def u(n: int) -> Algebra:
    return Algebra(solutions(n, lambda a: a + a.conj().T, complex), f"U({n})")


def su(n: int) -> Algebra:
    def equation(a: Array) -> Array:
        return np.append((a + a.conj().T).ravel(), np.trace(a))

    return Algebra(solutions(n, equation, complex), f"SU({n})")


def se(n: int) -> Algebra:
    def equation(a: Array) -> Array:
        return np.concatenate([(a + a.T)[:n, :n].ravel(), a[n]])

    return Algebra(solutions(n + 1, equation), f"SE({n})")


def scaling(n: int) -> Algebra:
    return Algebra(np.eye(n)[None], f"Scaling({n})")


def trivial(n: int) -> Algebra:
    return Algebra(np.zeros((0, n, n)), f"Trivial({n})")


def renamed(algebra: Algebra, expression: str) -> Algebra:
    return Algebra(algebra.basis, expression)


def unit(n: int, *places: tuple[int, int]) -> Array:
    matrix = np.zeros((n, n))
    for place in places:
        matrix[place] = 1.0
    return matrix


def realified(basis: Array) -> Array:
    return np.array([np.block([[a.real, -a.imag], [a.imag, a.real]]) for a in basis])


def spin(j: float) -> Array:
    """so(3) on the space of spin j, from the ladder operators."""
    m = np.arange(j, -j - 1, -1)
    raising = np.diag(np.sqrt(j * (j + 1) - m[1:] * (m[1:] + 1)), 1)
    return np.array(
        [0.5j * (raising + raising.T), 0.5 * (raising - raising.T) + 0j, 1j * np.diag(m)]
    )


def traceless_symmetric(basis: Array) -> Array:
    """The action S -> A S + S Aᵀ on traceless symmetric matrices: so(3) on R^5."""
    n = basis.shape[1]
    space = solutions(n, lambda s: np.append((s - s.T).ravel(), np.trace(s))).reshape(-1, n * n)
    action = np.array([np.kron(a, np.eye(n)) + np.kron(np.eye(n), a) for a in basis])
    moved: Array = space @ action @ space.T
    return moved


# --- other coordinates, another spanning set ----------------------------------------------------


def frame(rng: np.random.Generator, d: int, condition: float, field: type) -> Array:
    def unitary() -> Array:
        draw = rng.standard_normal((d, d))
        return np.linalg.qr(draw + 1j * rng.standard_normal((d, d)) if field is complex else draw)[
            0
        ]

    drawn: Array = unitary() * np.geomspace(1.0, condition, d) @ unitary()
    return drawn


def disguised(basis: Array, seed: int, condition: float = 100.0, field: type = float) -> Array:
    """A redundant spanning set of random combinations, of scales 1e-6 to 1e6, in a random basis."""
    rng = np.random.default_rng(seed)
    field = complex if np.iscomplexobj(basis) else field
    p = frame(rng, basis.shape[1], condition, field)
    count = len(basis)
    mixed = np.tensordot(rng.standard_normal((count + 1, count)), p @ basis @ np.linalg.inv(p), 1)
    scales = 10.0 ** rng.uniform(-6, 6, count + 1)
    spanning: Array = mixed * scales[:, None, None]
    return spanning


def span(basis: Array) -> Array:
    """The orthogonal projection to the real span of some matrices."""
    rows = basis.reshape(len(basis), basis.shape[1] ** 2)
    rows = np.hstack([rows.real, rows.imag])
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    _, values, basis_rows = np.linalg.svd(rows, full_matrices=False)
    kept = basis_rows[values > 1e-9 * values[0]] if len(rows) else basis_rows
    projection: Array = kept.T @ kept
    return projection


def assert_identified(found: AlgebraIdentity, matrices: Array, standard: Algebra) -> None:
    """The expression is right, and P · standard · P⁻¹ spans what was given."""
    assert found.expression == standard.expression
    assert found.dimension == len(standard.basis)
    p = found.change.numpy()
    if len(standard.basis):
        moved = p @ standard.basis @ np.linalg.inv(p)
        assert np.abs(span(moved) - span(matrices)).max() < 1e-8


CLASSICAL = [
    *(so(n) for n in (2, 3, 4, 5, 8)),
    *(so(p, q) for p, q in ((1, 1), (1, 2), (1, 3), (2, 2), (2, 3), (3, 3), (1, 5))),
    *(sp(2), sp(3), sl(2), sl(3), sl(5), gl(2), gl(4)),
    *(se(1), se(2), se(3), se(5), scaling(1), scaling(3), trivial(2)),
]
UNITARY = [su(2), su(3), su(5), u(1), u(2), u(4)]
SUMS = [
    so(3) + so(2),
    so(3) + trivial(2),
    so(3) + so(3) + so(2) + so(1, 3) + trivial(1),
    so(1, 1) + so(1, 1),
    so(1, 2) + sp(2) + sl(2) + gl(2) + scaling(2) + scaling(1),
    so(2) + se(3) + se(2) + trivial(2),
]
PRODUCTS = [
    so(3) * trivial(2),
    so(3) * trivial(4),
    so(2) * trivial(3),
    so(1, 3) * trivial(2),
    so(1, 1) * trivial(2),
    gl(2) * trivial(3),
    se(2) * trivial(2),
    so(3) * scaling(1),
    so(1, 3) * scaling(2),
    se(2) * scaling(1),
    so(3) * so(2),
    so(2) * sl(2),
    so(3) * so(3),
    so(4) * so(3),
    so(3) * so(1, 1),
    so(3) * sl(2) * trivial(2),
    so(3) * gl(2),
    so(3) * se(2),
    so(3) * renamed(so(2) + scaling(1), "(SO(2)+Scaling(1))"),
    renamed(so(3) + so(2), "(SO(3)+SO(2))") * scaling(1),
    so(3) * so(2) + so(3) * trivial(2) + so(2),
]
COMPLEX = [
    so(3) + su(2),
    u(2) + u(1) + trivial(1),
    su(2) + se(2),
    su(2) * trivial(2),
    u(1) * trivial(3),
    u(2) * scaling(1),
    su(3) * su(2),
    so(3) * u(1),
]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("standard", [*CLASSICAL, *UNITARY, *SUMS, *PRODUCTS, *COMPLEX], ids=str)
def test_standard_algebras_in_other_coordinates(standard: Algebra, seed: int) -> None:
    matrices = disguised(standard.basis, seed)
    assert_identified(identify_algebra(list(matrices), d=standard.d), matrices, standard)


@pytest.mark.parametrize("standard", [*CLASSICAL[:-1], *SUMS, *PRODUCTS[:14]], ids=str)
def test_real_algebras_in_complex_coordinates(standard: Algebra) -> None:
    matrices = disguised(standard.basis, 5, condition=20.0, field=complex)
    assert_identified(identify_algebra(matrices), matrices, standard)


@pytest.mark.parametrize(
    "expression",
    [
        *("SO(3)", "SO11p", "SO13p", "Sp(2)", "SU(3)", "U(2)", "SL(3)", "GL(2)", "SE(3)"),
        *("SOpq(1,2)", "SOpq(2,3)"),
        *("Scaling(3)", "SO(3)+SO(2)", "SO(3)+Trivial(2)", "SO(3)*Trivial(2)", "SO(3)*SO(2)"),
        *("SO(3)*Scaling(1)", "SO(2)*SL(2)", "SO(3)*(SO(2)+Scaling(1))", "SO(2)+SE(3)"),
    ],
)
def test_the_expression_means_what_the_catalogue_says(expression: str) -> None:
    group = parse_group(expression)
    basis = np.array([a.dense().numpy() for a in group.algebra])
    matrices = disguised(basis, 1)
    found = identify_algebra(matrices)
    assert found.expression == expression
    moved = group.conjugate(found.change).algebra
    assert np.abs(span(np.array([a.dense().numpy() for a in moved])) - span(matrices)).max() < 1e-8


ATOMS = [so(3), so(2), so(1, 3), so(1, 1), so(1, 2), sp(2), sl(2), sl(3), gl(2), se(1), se(2)]
ATOMS += [scaling(1), scaling(2), so(3) * trivial(2), so(2) * trivial(2), so(3) * so(2)]


@settings(max_examples=40)
@given(
    terms=st.lists(st.sampled_from(ATOMS), min_size=2, max_size=4),
    fixed=st.integers(0, 2),
    seed=st.integers(0, 2**32 - 1),
)
def test_sums_of_any_terms(terms: list[Algebra], fixed: int, seed: int) -> None:
    whole = sum(terms[1:], start=terms[0])
    if fixed:
        whole = whole + trivial(fixed)
    matrices = disguised(whole.basis, seed, condition=30.0)
    found = identify_algebra(matrices)
    assert found.expression is not None
    assert sorted(found.expression.split("+")) == sorted(whole.expression.split("+"))
    named = {str(term): term for term in (*ATOMS, trivial(1), trivial(2))}
    standard = [named[term] for term in found.expression.split("+")]
    assert_identified(found, matrices, sum(standard[1:], start=standard[0]))


# --- one algebra, several names -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("basis", "expression"),
    [
        (sp(1).basis, "SL(2)"),
        (so(3, 1).basis, "SO13p"),
        (so(2, 1).basis, "SOpq(1,2)"),
        ((sl(2) * sl(2)).basis, "SOpq(2,2)"),
        ((su(2) * su(2)).basis, "SO(4)"),
        ((so(2) * so(2)).basis, "SO(2)+SO(2)"),
        ((scaling(1) * trivial(3)).basis, "Scaling(3)"),
        ((so(3) * scaling(1) * trivial(2)).basis, "SO(3)*Scaling(2)"),
        ((so(3) * sl(2) * scaling(1)).basis, "SO(3)*GL(2)"),
        ((so(3) * su(2) * u(1)).basis, "SO(3)*U(2)"),
        (spin(1), "SO(3)"),
        (spin(0.5), "SU(2)"),
        (np.kron(np.diag([1.0, -1.0]), [[0.0, -1.0], [1.0, 0.0]])[None], "SO(2)*Trivial(2)"),
        (unit(3, (0, 2))[None], "SE(1)+Trivial(1)"),
        (np.zeros((2, 3, 3)), "Trivial(3)"),
    ],
)
def test_coincidences_have_one_name(basis: Array, expression: str) -> None:
    assert identify_algebra(basis).expression == expression
    assert identify_algebra(disguised(basis, 2)).expression == expression


@pytest.mark.parametrize(
    ("standard", "name"),
    [
        (so(3), "so(3)"),
        (so(1, 3), "so(1,3), metric signature (1,3)"),
        (sp(2), "sp(4,R)"),
        (se(3), "se(3)"),
        (scaling(2), "scalings of R^2"),
        (trivial(2), "trivial algebra on R^2"),
        (so(3) + so(1, 3) + trivial(1), "so(3) on R^3, so(1,3) on R^4 and R^1 fixed"),
        (so(1, 3) * trivial(2), "so(1,3) on 2 copies of R^4"),
        (so(3) * scaling(1), "so(3) × scalings on R^3"),
        (su(3) * su(2), "su(3) × su(2) on C^3 ⊗ C^2"),
        (so(3) * u(1), "so(3) × u(1) on C^3"),
    ],
    ids=str,
)
def test_prose(standard: Algebra, name: str) -> None:
    assert identify_algebra(standard.basis, d=standard.d).name == name


# --- the change of basis ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "standard",
    [so(3), so(1, 3), so(2, 3), sp(2), su(3), se(2), so(3) + so(2), so(3) * so(2)],
    ids=str,
)
def test_standard_coordinates_stay_as_they_are(standard: Algebra) -> None:
    p = identify_algebra(standard.basis).change.numpy()
    assert np.abs(p - np.eye(standard.d)).max() < 1e-6


def test_orthonormal_coordinates_give_an_orthogonal_change() -> None:
    rotation = frame(np.random.default_rng(0), 5, 1.0, float)
    for standard in (so(5), so(2, 3), so(3) + so(2), so(3) + trivial(2)):
        p = identify_algebra(rotation @ standard.basis @ rotation.T).change.numpy()
        assert np.abs(p.T @ p - np.eye(5)).max() < 1e-6


def test_the_change_is_no_worse_conditioned_than_the_coordinates() -> None:
    for standard in (*SUMS, *PRODUCTS):
        p = identify_algebra(disguised(standard.basis, 3)).change.numpy()
        assert np.linalg.cond(p) < 300


def test_balanced_coordinates_close_a_reductive_algebra_under_transposes() -> None:
    bad = frame(np.random.default_rng(4), 11, 100.0, float)
    basis = bad @ (so(1, 3) + sl(3) + sp(2)).basis @ np.linalg.inv(bad)
    basis = orthonormal_span(basis, 1e-9)
    p = balanced_frame(basis)
    moved = np.linalg.inv(p) @ basis @ p
    assert np.abs(span(moved) - span(moved.transpose(0, 2, 1))).max() < 1e-8


# --- algebras without a name --------------------------------------------------------------------

PLANE = np.array([[0.0, -1.0], [1.0, 0.0]])
POINCARE = np.concatenate(
    [np.pad(so(1, 3).basis, ((0, 0), (0, 1), (0, 1))), [unit(5, (i, 4)) for i in range(4)]]
)
TIED = np.array(  # so(3) on R^3 and at once on R^5
    [
        np.block([[a, np.zeros((3, 5))], [np.zeros((5, 3)), b]])
        for a, b in zip(so(3).basis, traceless_symmetric(so(3).basis), strict=True)
    ]
)
UNNAMED: list[tuple[Sequence[Array] | Array, list[str]]] = [
    (
        [unit(3, (0, 1)), unit(3, (1, 2)), unit(3, (0, 2))],
        ["dimension 3", "nilpotent", "derived algebra of dimension 1", "centre 1"],
    ),
    ([unit(3, (0, 1), (1, 2))], ["dimension 1", "abelian", "R^3"]),
    ([unit(4, (i, 3)) for i in range(3)], ["dimension 3", "abelian"]),
    ([np.triu(unit(2, (i, j))) for i, j in ((0, 0), (0, 1))], ["dimension 2", "solvable"]),
    (traceless_symmetric(so(3).basis), ["dimension 3", "so(3)", "R^5", "simple, compact"]),
    (spin(2), ["dimension 3", "so(3)", "C^5", "simple, compact"]),
    (TIED, ["dimension 3", "so(3)", "R^8 = R^3 ⊕ R^5"]),
    (POINCARE, ["dimension 10", "so(1,3) acting on a 4-dimensional abelian radical"]),
    ([np.diag([1.0, 2.0])], ["abelian", "R^2 = R^1 ⊕ R^1"]),
    ([np.kron(np.diag([1.0, 2.0]), PLANE)], ["abelian", "R^4 = R^2 ⊕ R^2"]),
    ([PLANE + 0.3 * np.eye(2)], ["abelian"]),
    (np.concatenate([su(2).basis, 1j * su(2).basis]), ["dimension 6", "so(1,3)", "not compact"]),
    (realified(su(2).basis), ["su(2), acting on R^4 as on C^2"]),
    (realified(u(3).basis), ["u(3), acting on R^6 as on C^3"]),
    (
        np.concatenate([TIED, [np.diag([1.0] * 3 + [-1.0] * 5)]]),
        ["dimension 4", "so(3) plus a 1-dimensional centre"],
    ),
]


@pytest.mark.parametrize(("basis", "words"), UNNAMED)
def test_other_algebras_are_described(basis: Sequence[Array] | Array, words: list[str]) -> None:
    for matrices in (np.array(basis), disguised(np.array(basis), 6, condition=20.0)):
        found = identify_algebra(matrices)
        assert found.expression is None
        assert found.dimension == len(basis)
        assert torch.equal(found.change, torch.eye(len(basis[0]), dtype=torch.float64))
        assert all(word in found.name for word in words), found.name


@pytest.mark.parametrize(
    ("algebra", "dimensions", "compact"),
    [
        (so(4), [3, 3], True),
        (so(1, 3), [6], False),
        (so(3) + sl(3) + sp(2), [3, 8, 10], False),
        (su(3) * su(2), [3, 8], True),
    ],
    ids=str,
)
def test_simple_ideals(algebra: Algebra, dimensions: list[int], compact: bool) -> None:
    p = frame(np.random.default_rng(7), algebra.d, 5.0, float)
    basis = orthonormal_span(p @ algebra.basis @ np.linalg.inv(p), 1e-9)
    structure = LieStructure.of_matrices(basis, 1e-8)
    ideals, rest = structure.simple_ideals()
    assert sorted(map(len, ideals)) == dimensions
    assert not len(rest)
    assert structure.is_compact == compact
    assert not len(structure.radical)


def test_a_proper_subalgebra_is_not_taken_for_the_whole() -> None:
    dual = {(0, 1): (2, 3), (0, 2): (3, 1), (0, 3): (1, 2)}
    half = [
        unit(4, (i, j), (k, m)) - unit(4, (j, i), (m, k)) for (i, j), (k, m) in dual.items()
    ]  # the self-dual half of so(4)
    found = identify_algebra(half)
    assert found.expression is None
    assert found.name == "su(2), acting on R^4 as on C^2"


def test_what_is_not_proven_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = StandardAlgebra("SO", (3,)), np.eye(3)
    monkeypatch.setattr("isotropy.groups._identify_algebra.classical", lambda *_: wrong)
    assert identify_algebra(so(3).basis).expression == "SO(3)"
    found = identify_algebra(so(1, 2).basis)
    assert found.expression is None
    assert "sl(2,R)" in found.name


# --- bad input ----------------------------------------------------------------------------------


def test_a_bracket_outside_the_span_is_refused() -> None:
    rotations = [unit(3, (1, 0)) - unit(3, (0, 1)), unit(3, (2, 1)) - unit(3, (1, 2))]
    with pytest.raises(
        ValueError, match=r"span a Lie algebra, got a bracket \[A_1, A_2\] outside "
    ):
        identify_algebra([np.zeros((3, 3)), *rotations])
    wrong = [*so(3).basis, unit(3, (0, 1), (1, 0))]
    with pytest.raises(ValueError, match="outside their span by"):
        identify_algebra(wrong)


@pytest.mark.parametrize(
    ("matrices", "message"),
    [
        ([], "expected matrices, or d >= 1 for the trivial algebra, got d = None"),
        ([np.zeros((2, 3))], "expected 3 x 3 matrices, got matrix 0 of shape \\(2, 3\\)"),
        ([np.eye(2), np.eye(3)], "expected 2 x 2 matrices, got matrix 1 of shape \\(3, 3\\)"),
        ([np.eye(2), [[1.0, np.nan], [0.0, 0.0]]], "got NaN or infinity in matrix 1"),
        ([[[1.0, 2.0], [3.0]]], "expected square matrices, got matrix 0"),
        ([3.0], "expected square matrices, got matrix 0 of shape \\(\\)"),
        ([[["a", "b"], ["c", "d"]]], "expected 2 x 2 matrices, got matrix 0 of shape"),
    ],
)
def test_bad_matrices_are_refused(matrices: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        identify_algebra(matrices)


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a tolerance between 0 and 1, got 0"):
        identify_algebra([PLANE], tolerance=0.0)
    with pytest.raises(ValueError, match="expected 3 x 3 matrices, got matrix 0"):
        identify_algebra([PLANE], d=3)


def test_tensors_lists_and_extreme_scales_are_read() -> None:
    tensor = torch.tensor(PLANE, requires_grad=True)
    for plane in (tensor, PLANE.tolist(), PLANE * 1e-200, PLANE * 1e200, PLANE.astype(int)):
        assert identify_algebra([plane]).expression == "SO(2)"


def test_the_tolerance_says_what_counts_as_exact() -> None:
    rng = np.random.default_rng(0)
    noisy = so(1, 3).basis + 1e-6 * rng.standard_normal((6, 4, 4))
    with pytest.raises(ValueError, match="outside their span by"):
        identify_algebra(noisy)
    assert identify_algebra(noisy, tolerance=1e-4).expression == "SO13p"
