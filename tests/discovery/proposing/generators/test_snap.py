"""Exact algebras from noisy ones, against algebras written down from their defining equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from isotropy.bases import equivariant_basis
from isotropy.discovery.generators import snap
from isotropy.discovery.proposing.generators._closure import (
    closed_near,
    closure_error,
    may_be_closed,
    nearest_conjugate,
)
from isotropy.discovery.proposing.generators._simple_numbers import fractions, heights
from isotropy.groups import Group, orthonormal_span, parse_group
from isotropy.reps import T, V

Array = NDArray[Any]


# --- algebras from equations, frames and noise --------------------------------------------------


def solutions(d: int, equation: Any) -> Array:
    """A basis of the real matrices that a linear equation sends to zero."""
    units = np.eye(d * d).reshape(-1, d, d)
    images = np.array([np.ravel(equation(unit)) for unit in units]).T
    _, values, rows = np.linalg.svd(images)
    return rows[int((values > 1e-9).sum()) :].reshape(-1, d, d)


def preserving(form: Array, *more: Array) -> Array:
    """All A with Aᵀ M + M A = 0, and A J = J A for each further J."""
    return solutions(
        len(form),
        lambda a: np.array([a.T @ form + form @ a, *(a @ j - j @ a for j in more)]),
    )


def rotations(n: int) -> Array:
    return preserving(np.eye(n))


def beside(first: Array, second: Array) -> Array:
    a, b = first.shape[1], second.shape[1]
    return np.concatenate(
        [np.pad(first, ((0, 0), (0, b), (0, b))), np.pad(second, ((0, 0), (a, 0), (a, 0)))]
    )


def copies(algebra: Array, count: int) -> Array:
    return np.array([np.kron(a, np.eye(count)) for a in algebra])


def with_scalings(algebra: Array) -> Array:
    return np.concatenate([algebra, np.eye(algebra.shape[1])[None]])


OMEGA = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(2))
QUATERNIONS = preserving(
    np.eye(4),
    np.kron([[0.0, -1.0], [1.0, 0.0]], np.eye(2)),
    np.kron([[1, 0], [0, -1]], [[0, 1.0], [-1, 0]]),
)

# name: algebra, title, expression
ALGEBRAS: dict[str, tuple[Array, str, str | None]] = {
    "so(2)": (rotations(2), "SO(2)", "SO(2)"),
    "so(3)": (rotations(3), "SO(3)", "SO(3)"),
    "so(4)": (rotations(4), "SO(4)", "SO(4)"),
    "so(1,1)": (preserving(np.diag([1.0, -1.0])), "SO⁺(1,1)", "SO11p"),
    "so(1,2)": (preserving(np.diag([1.0, -1.0, -1.0])), "SO⁺(1,2)", "SOpq(1,2)"),
    "so(1,3)": (preserving(np.diag([1.0, -1.0, -1.0, -1.0])), "SO⁺(1,3)", "SO13p"),
    "sp(4)": (preserving(OMEGA), "Sp(4,R)", "Sp(2)"),
    "sl(2)": (solutions(2, np.trace), "SL(2,R)", "SL(2)"),
    "sl(3)": (solutions(3, np.trace), "SL(3,R)", "SL(3)"),
    "su(2)": (QUATERNIONS, "SU(2)", None),
    "u(2)": (preserving(np.eye(4), OMEGA), "U(2)", None),
    "scalings": (np.eye(3)[None], "scalings", "Scaling(3)"),
    "so(3), scalings": (with_scalings(rotations(3)), "SO(3) × scalings", "SO(3)*Scaling(1)"),
    "so(2), scalings": (with_scalings(rotations(2)), "SO(2) × scalings", "SO(2)*Scaling(1)"),
    "so(3) + so(2)": (beside(rotations(3), rotations(2)), "SO(3) × SO(2)", "SO(3)+SO(2)"),
    "so(2) + so(2)": (beside(rotations(2), rotations(2)), "SO(2) × SO(2)", "SO(2)+SO(2)"),
    "so(3) twice": (copies(rotations(3), 2), "SO(3)", "SO(3)*Trivial(2)"),
    "so(2) twice": (copies(rotations(2), 2), "SO(2)", "SO(2)*Trivial(2)"),
    "so(2) of 3": (beside(rotations(2), np.zeros((0, 1, 1))), "SO(2)", "SO(2)+Trivial(1)"),
    "se(2)": (solutions(3, lambda a: np.append((a + a.T)[:2, :2], a[2])), "SO(2) ⋉ R²", "SE(2)"),
}  # fmt: skip


def frame(rng: np.random.Generator, d: int, condition: float) -> Array:
    left, _ = np.linalg.qr(rng.standard_normal((d, d)))
    right, _ = np.linalg.qr(rng.standard_normal((d, d)))
    return np.asarray(left @ np.diag(np.geomspace(1.0, condition, d)) @ right)


def conjugated(algebra: Array, p: Array) -> Array:
    return p @ algebra @ np.linalg.inv(p)


def noisy(algebra: Array, error: float, rng: np.random.Generator) -> Array:
    """A basis of a space whose largest principal angle with the algebra has this sine."""
    rows = orthonormal_span(algebra, 0.0).reshape(len(algebra), -1)
    noise = rng.standard_normal(rows.shape)
    noise -= noise @ rows.T @ rows
    noise *= np.tan(np.arcsin(error)) / np.linalg.norm(noise, 2)
    mixing = rng.standard_normal((len(rows), len(rows)))
    return (mixing @ (rows + noise)).reshape(algebra.shape)


def sine(first: Array, second: Array) -> float:
    """Of the largest principal angle, by projections."""
    projections = [
        np.linalg.pinv(a.reshape(len(a), -1)) @ a.reshape(len(a), -1) for a in (first, second)
    ]
    return float(np.linalg.norm(projections[0] - projections[1], 2))


def bracket_error(generators: Array) -> float:
    rows = generators.reshape(len(generators), -1)
    inside = np.linalg.pinv(rows) @ rows
    commutators = [(a @ b - b @ a).ravel() for a in generators for b in generators]
    return max(float(np.abs(c - c @ inside).max()) for c in commutators)


def found(basis: Any, error: float, **options: Any) -> Any:
    result = snap(basis, error=error, **options)
    assert result is not None
    return result


# --- every kind, at every noise -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "condition"), [(1e-9, 10.0), (1e-3, 4.0), (3e-2, 1.6)], ids=lambda x: f"{x:g}"
)
@pytest.mark.parametrize("name", ALGEBRAS)
def test_in_a_hidden_basis(name: str, error: float, condition: float) -> None:
    algebra, title, expression = ALGEBRAS[name]
    rng = np.random.default_rng(1)
    truth = conjugated(algebra, frame(rng, algebra.shape[1], condition))
    result = found(noisy(truth, error, rng), error)
    assert (result.title, result.expression) == (title, expression)
    assert result.generators.shape == algebra.shape
    assert bracket_error(result.generators) < 1e-10
    assert sine(result.generators, truth) < 3.0 * error + 1e-12
    assert result.angle <= 1.25 * error + 1e-9
    if expression is not None:
        standard = np.array([a.dense().numpy() for a in parse_group(expression).algebra])
        assert sine(conjugated(standard, result.change), result.generators) < 1e-10


@pytest.mark.parametrize("error", [1e-9, 1e-3, 3e-2, 0.1], ids=lambda x: f"{x:g}")
@pytest.mark.parametrize("name", ALGEBRAS)
def test_in_standard_position(name: str, error: float) -> None:
    algebra, title, expression = ALGEBRAS[name]
    result = found(noisy(algebra, error, np.random.default_rng(2)), error)
    assert (result.title, result.expression) == (title, expression)
    assert sine(result.generators, algebra) < 1e-14
    assert set(np.unique(np.abs(result.generators))) <= {0.0, 1.0}
    if expression is not None:
        standard = np.array([a.dense().numpy() for a in parse_group(expression).algebra])
        np.testing.assert_array_equal(result.generators, standard)
        np.testing.assert_array_equal(result.change, np.eye(algebra.shape[1]))


def test_larger_spaces() -> None:
    algebra = copies(rotations(5), 2)
    rng = np.random.default_rng(3)
    truth = conjugated(algebra, frame(rng, 10, 1.5))
    assert found(noisy(truth, 0.03, rng), 0.03).expression == "SO(5)*Trivial(2)"


@pytest.mark.parametrize("error", [1e-9, 1e-3, 0.1])
@pytest.mark.parametrize(("d", "count"), [(3, 2), (3, 3), (3, 4), (4, 3), (4, 6)])
def test_random_spaces_are_no_algebra(d: int, count: int, error: float) -> None:
    for seed in range(3):
        basis = np.random.default_rng(seed).standard_normal((count, d, d))
        assert snap(basis, error=error) is None


def test_an_error_that_is_too_large_does_not_turn_rotations_into_their_limits() -> None:
    for n in (2, 3):
        rng = np.random.default_rng(n)
        truth = conjugated(rotations(n), frame(rng, n, 2.0))
        assert found(noisy(truth, 0.02, rng), 0.2).expression == f"SO({n})"


def test_an_algebra_farther_than_the_error_is_refused() -> None:
    estimate = noisy(rotations(4), 0.1, np.random.default_rng(4))
    assert snap(estimate, error=0.1) is not None
    assert snap(estimate, error=0.01) is None


# --- words, metrics, weights --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "title", "detail"),
    [
        ([1.0, -1.0, -1.0, -1.0], "SO⁺(1,3)", "metric (+,−,−,−)"),
        ([-1.0, -1.0, -1.0, 1.0], "SO⁺(1,3)", "metric (−,−,−,+)"),
        ([1.0, 1.0, -1.0], "SO⁺(1,2)", "metric (−,−,+)"),
        ([1.0, -4.0], "SO⁺(1,1)", "metric diag(1, −4)"),
        ([1.0, 2.0, 3.0], "SO(3)", "metric diag(1, 2, 3)"),
        ([1.0, 1.37, 3.21], "SO(3)", "metric diag(1, 1.37, 3.21)"),
        ([1.0, 1.0, 1.0], "SO(3)", ""),
    ],
)
def test_metric(metric: list[float], title: str, detail: str) -> None:
    algebra = preserving(np.diag(metric))
    result = found(noisy(algebra, 1e-5, np.random.default_rng(5)), 1e-5)
    assert (result.title, result.detail) == (title, detail)
    (form,) = result.symmetric_forms
    np.testing.assert_allclose(form / form[0, 0], np.diag(metric) / metric[0], atol=1e-4)
    assert np.abs(form).max() == 1.0


def test_weights_are_whole_numbers() -> None:
    result = found([[[1.0, 0.02], [-0.01, 2.03]]], 0.03)
    assert (result.title, result.detail) == ("scalings", "with weights (1, 2)")
    np.testing.assert_array_equal(result.generators, [np.diag([0.5, 1.0])])


def test_frequencies_in_a_hidden_basis_are_whole_numbers() -> None:
    rng = np.random.default_rng(6)
    slow, fast = beside(rotations(2), rotations(2))
    truth = conjugated((slow + 2.0 * fast)[None], frame(rng, 4, 3.0))
    result = found(noisy(truth, 1e-3, rng), 1e-3)
    values = np.linalg.eigvals(result.generators[0])
    np.testing.assert_allclose(values.real, 0.0, atol=1e-12)
    sizes = np.sort(np.abs(values))
    np.testing.assert_allclose(sizes / sizes[0], [1.0, 1.0, 2.0, 2.0], atol=1e-12)


def test_irrational_weights_stay_as_estimated() -> None:
    result = found([np.diag([1.0, np.sqrt(2.0)])], 1e-6)
    np.testing.assert_allclose(result.generators, [np.diag([np.sqrt(0.5), 1.0])], atol=1e-6)


def test_a_shear() -> None:
    result = found([[[0.0, 1.0], [0.01, 0.02]]], 0.03)
    assert result.title == "shears"
    np.testing.assert_array_equal(result.generators, [[[0.0, 1.0], [0.0, 0.0]]])


def test_symplectic_pairs() -> None:
    form = np.kron(np.eye(2), [[0.0, 1.0], [-1.0, 0.0]])  # q, p, q, p
    result = found(noisy(preserving(form), 0.02, np.random.default_rng(7)), 0.02)
    assert result.title == "Sp(4,R)"
    assert result.detail == "symplectic form pairs coordinates 0 and 1, 2 and 3"
    np.testing.assert_array_equal(np.abs(result.antisymmetric_forms), np.abs(form)[None])
    assert not len(result.symmetric_forms)


def test_everything_and_nothing() -> None:
    everything = found(np.random.default_rng(8).standard_normal((4, 2, 2)), 0.1)
    assert (everything.title, everything.expression) == ("GL(2,R)", "GL(2)")
    nothing = found(np.zeros((0, 3, 3)), 0.1)
    assert (nothing.title, nothing.expression) == ("the trivial group", "Trivial(3)")
    assert nothing.generators.shape == (0, 3, 3)
    assert len(nothing.symmetric_forms) == 6
    assert len(nothing.antisymmetric_forms) == 3


def test_closure_is_that_of_the_estimate() -> None:
    assert found(rotations(3), 0.1).closure < 1e-14
    estimate = noisy(rotations(3), 0.05, np.random.default_rng(9))
    assert 0.005 < found(estimate, 0.1).closure < 3.0 * np.sqrt(2.0) * 0.05


# --- units --------------------------------------------------------------------------------------


def test_scale_is_undone() -> None:
    scale = np.array([2.0, 2.0, 0.5])
    algebra = preserving(np.diag([1.0, 1.0, -1.0 / 4.0]))
    to_z = np.diag(1.0 / scale)
    estimate = noisy(conjugated(algebra, to_z), 1e-5, np.random.default_rng(10))
    result = found(estimate, 1e-5, scale=scale)
    assert result.detail == "metric diag(−4, −4, 1)"
    assert sine(result.generators, algebra) < 1e-12


# --- what it is for: equivariant bases ----------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["so(3)", "so(1,3)", "so(3) + so(2)", "so(3) twice", "so(2) twice"]
)
def test_equivariant_maps_have_the_true_rank(name: str) -> None:
    algebra, _, _ = ALGEBRAS[name]
    rng = np.random.default_rng(11)
    truth = conjugated(algebra, frame(rng, algebra.shape[1], 1.5))
    result = found(noisy(truth, 0.03, rng), 0.03)
    assert result.expression is not None
    by_name = parse_group(result.expression).conjugate(result.change)
    by_generators = Group(algebra=list(result.generators))
    maps = V >> (V if algebra.shape[1] > 4 else T(2))
    wanted = equivariant_basis(maps(Group(algebra=list(algebra)))).rank
    # the dimension of the commutant, or of T(3)'s invariants, from the equations themselves
    assert wanted == brute_rank(algebra, 2 if algebra.shape[1] > 4 else 3)
    assert equivariant_basis(maps(by_name)).rank == wanted
    assert equivariant_basis(maps(by_generators)).rank == wanted


def brute_rank(algebra: Array, power: int) -> int:
    """Dimension of the maps from V to a power of V that commute with the algebra."""
    d = algebra.shape[1]
    equations = []
    for a in algebra:
        total = np.kron(-a.T, np.eye(d ** (power - 1)))
        for place in range(power - 1):
            before, after = np.eye(d ** (place + 1)), np.eye(d ** (power - 2 - place))
            total = total + np.kron(np.kron(before, a), after)
        equations.append(total)
    return int(d**power - np.linalg.matrix_rank(np.vstack(equations), tol=1e-9))


# --- parts --------------------------------------------------------------------------------------


def test_closing_moves_an_algebra_nowhere_and_a_random_space_not_at_all() -> None:
    algebra = orthonormal_span(rotations(4), 0.0)
    closed = closed_near(algebra)
    assert closed is not None
    assert sine(closed, algebra) < 1e-12
    assert (
        closed_near(orthonormal_span(np.random.default_rng(0).standard_normal((6, 4, 4)), 0.0))
        is None
    )


def test_no_algebra_within_the_error_has_such_brackets() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        estimate = orthonormal_span(noisy(rotations(4), 0.2, rng), 0.0)
        assert closure_error(estimate) > 1e-3
        assert may_be_closed(estimate, 0.2)
        assert not may_be_closed(estimate, 1e-4)


def test_the_nearest_conjugate_is_no_farther_than_any_other() -> None:
    rng = np.random.default_rng(12)
    algebra = orthonormal_span(preserving(np.diag([1.0, 1.0, -1.0])), 0.0)
    target = orthonormal_span(noisy(conjugated(algebra, frame(rng, 3, 1.3)), 0.05, rng), 0.0)

    def distance(basis: Array) -> float:
        rows, span = (orthonormal_span(a, 0.0).reshape(3, -1) for a in (basis, target))
        return float(np.linalg.norm(rows - rows @ span.T @ span))

    best = nearest_conjugate(algebra, target)
    assert bracket_error(best) < 1e-12
    for _ in range(100):
        other = conjugated(best, np.eye(3) + 0.01 * rng.standard_normal((3, 3)))
        assert distance(other) >= distance(best) - 1e-4 * distance(best)


def test_fractions_are_those_of_a_height_and_told_apart_by_the_error() -> None:
    assert fractions(3).tolist()[8:] == pytest.approx([1 / 3, 1 / 2, 2 / 3, 1.0, 3 / 2, 2.0, 3.0])
    assert list(heights(0.3)) == [1]
    assert list(heights(0.03)) == [1, 2, 3, 4]
    assert max(heights(1e-9)) == 12


# --- bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("basis", "options", "words"),
    [
        (np.zeros((2, 2)), {}, r"expected matrices of shape \(D, d, d\), got shape \(2, 2\)"),
        (np.zeros((1, 2, 3)), {}, r"expected matrices of shape \(D, d, d\), got shape \(1, 2, 3\)"),
        ([["a"]], {}, r"expected matrices of shape \(D, d, d\), got \[\['a'\]\]"),
        ([[[np.nan]]], {}, r"expected finite matrices, got NaN or infinity"),
        ([np.eye(2), np.eye(2)], {}, r"expected independent matrices, got 2 that span 1"),
        ([np.zeros((2, 2))], {}, r"expected independent matrices, got 1 that span 0"),
        ([np.eye(2)], {"error": 1.0}, r"expected an error of at least 0 and less than 1, got 1.0"),
        ([np.eye(2)], {"error": np.nan}, r"expected an error of at least 0 .* got nan"),
        ([np.eye(2)], {"scale": [1.0]}, r"expected a scale of 2 positive numbers, got \[1.0\]"),
        ([np.eye(2)], {"scale": [1.0, 0.0]}, r"expected a scale of 2 positive numbers, got"),
    ],
)
def test_bad_input(basis: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        snap(basis, **{"error": 0.1, **options})
