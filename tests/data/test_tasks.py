"""Regression tasks: their formulas, their symmetry, their splits and their scaling."""

from __future__ import annotations

import dataclasses
import math
import pickle
from collections import Counter, defaultdict
from fractions import Fraction

import numpy as np
import pytest
import torch

from isotropy.data import Standardisation, Task, inertia, lorentz_scattering, o5_invariant
from isotropy.groups import O13, SO, SO13, Group, O, SO13p
from isotropy.reps import Pseudoscalar, Rep, Scalar, Symmetry, T, V

TASKS = [
    o5_invariant(),
    inertia(),
    inertia(2),
    lorentz_scattering(),
    lorentz_scattering("reference"),
]
NAMES = [task.name for task in TASKS]
METRIC = [1, -1, -1, -1]


def mild_elements(group: Group, n: int) -> torch.Tensor:
    g = group.sample(2 * n, generator=7).dense()
    mild = g[torch.linalg.cond(g) <= 10][:n]
    assert len(mild) == n
    return mild


# --- the targets -----------------------------------------------------------------------------


def o5_by_hand(row: np.ndarray) -> list[float]:
    a, b = row[:5].tolist(), row[5:].tolist()
    length_a, length_b = math.hypot(*a), math.hypot(*b)
    dot = sum(u * v for u, v in zip(a, b, strict=True))
    return [math.sin(length_a) - length_b**3 / 2 + dot / (length_a * length_b)]


def inertia_by_hand(row: np.ndarray) -> list[float]:
    points = len(row) // 4
    total = [[0.0] * 3 for _ in range(3)]
    for i in range(points):
        r = row[points + 3 * i : points + 3 * i + 3]
        for a in range(3):
            for b in range(3):
                square = sum(r[c] ** 2 for c in range(3)) if a == b else 0.0
                total[a][b] += row[i] * (square - r[a] * r[b])
    return [entry for line in total for entry in line]


def scattering_by_hand(row: np.ndarray, *, symmetrised: bool) -> list[float]:
    p, q, p_out, q_out = (row[4 * k : 4 * k + 4] for k in range(4))
    eta = [[METRIC[u] if u == v else 0 for v in range(4)] for u in range(4)]

    def dot(a: np.ndarray, b: np.ndarray) -> float:
        return sum(eta[u][v] * a[u] * b[v] for u in range(4) for v in range(4))

    def lowered(a: np.ndarray) -> list[float]:
        return [sum(eta[u][v] * a[v] for v in range(4)) for u in range(4)]

    low, low_out = lowered(q), lowered(q_out)
    total = 0.0
    for u in range(4):
        for v in range(4):
            upper, lower = p[u] * p_out[v], low[u] * low_out[v]
            if symmetrised:
                upper = (upper + p[v] * p_out[u]) / 2
                lower = (lower + low[v] * low_out[u]) / 2
            upper -= (dot(p, p_out) - dot(p, p)) * eta[u][v]
            lower -= (dot(q, q_out) - dot(q, q)) * eta[u][v]
            total += upper * lower
    return [4 * total]


BY_HAND = [
    o5_by_hand,
    inertia_by_hand,
    inertia_by_hand,
    lambda row: scattering_by_hand(row, symmetrised=True),
    lambda row: scattering_by_hand(row, symmetrised=False),
]


@pytest.mark.parametrize(("task", "by_hand"), list(zip(TASKS, BY_HAND, strict=True)), ids=NAMES)
def test_targets_are_the_formulas(task: Task, by_hand) -> None:
    x, y = task.draw(40, generator=1)
    expected = np.array([by_hand(row) for row in x.numpy()])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_targets_are_equivariant(task: Task) -> None:
    x, y = task.draw(300, generator=2)
    for group in (task.symmetry.group, *task.also):
        g = mild_elements(group, 300)
        moved = task.target(task.symmetry.apply(g, x))
        assert (moved - task.symmetry.apply_out(g, y)).abs().max() < 1e-10


def test_symmetries_are_the_full_ones_and_the_subgroups_those_of_the_paper() -> None:
    found = {task.name: (str(task.symmetry), task.also) for task in TASKS}
    assert found["o5_invariant()"] == ("O(5): 2*V >> Scalar", (SO(5),))
    assert found["inertia(5)"] == ("O(3): 5*Scalar+5*V >> T(2)", (SO(3),))
    assert found["lorentz_scattering('text')"] == ("O13: 4*V >> Scalar", (SO13p(), SO13()))
    for task in TASKS:
        for subgroup in task.also:
            task.symmetry.restrict(subgroup)


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_targets_take_any_leading_shape_and_keep_precision(task: Task) -> None:
    x, y = task.draw(6, generator=3)
    assert torch.equal(task.target(x.reshape(2, 3, -1)), y.reshape(2, 3, -1))
    single = task.target(x.float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), y, rtol=1e-4, atol=1e-4)


# --- the distributions -----------------------------------------------------------------------

Polynomial = dict[tuple[int, ...], Fraction]


def combination(*terms: tuple[Fraction | int, Polynomial]) -> Polynomial:
    total: Polynomial = defaultdict(Fraction)
    for factor, polynomial in terms:
        for monomial, coefficient in polynomial.items():
            total[monomial] += factor * coefficient
    return total


def product(a: Polynomial, b: Polynomial) -> Polynomial:
    total: Polynomial = defaultdict(Fraction)
    for m, c in a.items():
        for n, d in b.items():
            total[tuple(sorted(m + n))] += c * d
    return total


def gaussian_mean(polynomial: Polynomial) -> Fraction:
    """E over independent N(0, 1/16) variables: E x^2k = (2k-1)!! / 16^k."""
    total = Fraction(0)
    for monomial, coefficient in polynomial.items():
        powers = Counter(monomial).values()
        if all(power % 2 == 0 for power in powers):
            odd = math.prod(math.prod(range(1, power, 2)) for power in powers)
            total += coefficient * odd / Fraction(4) ** len(monomial)
    return total


def scattering_polynomial(formula: str) -> Polynomial:
    """The target through invariants alone, a derivation apart from the tensor code."""

    def dot(i: int, j: int) -> Polynomial:
        return combination(*((s, {(4 * i + u, 4 * j + u): 1}) for u, s in enumerate(METRIC)))

    p, q, p_out, q_out = range(4)
    a = combination((1, dot(p, p_out)), (-1, dot(p, p)))
    b = combination((1, dot(q, q_out)), (-1, dot(q, q)))
    direct = product(dot(p, q), dot(p_out, q_out))
    crossed = product(dot(p, q_out), dot(p_out, q))
    half = Fraction(1, 2)
    weights = {"text": (half, half, 1), "reference": (1, 0, 1), "sum": (2, 2, 2)}[formula]
    return combination(
        (4 * weights[0], direct),
        (4 * weights[1], crossed),
        (-4 * weights[2], product(b, dot(p, p_out))),
        (-4 * weights[2], product(a, dot(q, q_out))),
        (16, product(a, b)),
    )


@pytest.mark.parametrize(
    ("formula", "variance"),
    [("text", Fraction(1501, 2048)), ("reference", Fraction(47, 64)), ("sum", Fraction(81, 128))],
)
def test_the_stated_variances_of_scattering_are_exact(formula: str, variance: Fraction) -> None:
    y = scattering_polynomial(formula)
    mean = gaussian_mean(y)
    assert mean == Fraction(1, 4)
    assert gaussian_mean(product(y, y)) - mean**2 == variance


@pytest.mark.parametrize("formula", ["text", "reference"])
def test_scattering_data_follow_the_polynomial(formula: str) -> None:
    x, y = lorentz_scattering(formula).draw(5, generator=4)
    polynomial = scattering_polynomial(formula)
    for row, value in zip(x, y, strict=True):
        by_hand = sum(float(c) * math.prod(float(row[i]) for i in m) for m, c in polynomial.items())
        assert float(value) == pytest.approx(by_hand, rel=1e-10)


def test_inputs_have_the_stated_distributions() -> None:
    n = 100_000
    x, _ = o5_invariant().draw(n, generator=5)
    assert torch.allclose(x.mean(0), torch.zeros(10).double(), atol=0.02)
    assert torch.allclose(x.std(0), torch.ones(10).double(), atol=0.02)
    x, _ = lorentz_scattering().draw(n, generator=5)
    assert torch.allclose(x.std(0), torch.full((16,), 0.25).double(), atol=0.005)
    x, _ = inertia().draw(n, generator=5)
    assert x[:, :5].min() > 0
    # the median of softplus(N(0, 1)) is softplus(0)
    assert torch.allclose(
        x[:, :5].median(0).values, torch.full((5,), math.log(2)).double(), atol=0.02
    )
    assert torch.allclose(x[:, 5:].std(0), torch.ones(15).double(), atol=0.02)


# --- drawing and splitting -------------------------------------------------------------------


@pytest.mark.parametrize("task", TASKS, ids=NAMES)
def test_draws_repeat_with_the_seed(task: Task) -> None:
    x, y = task.draw(7, generator=0)
    again, _ = task.draw(7, generator=torch.Generator().manual_seed(0))
    other, _ = task.draw(7, generator=1)
    assert x.dtype == y.dtype == torch.float64
    assert x.shape == (7, task.symmetry.rep_in.size())
    assert y.shape == (7, task.symmetry.rep_out.size())
    assert torch.equal(x, again)
    assert not torch.equal(x, other)


def test_test_and_validation_rows_do_not_depend_on_the_training_size() -> None:
    few, many = (inertia().splits(n, validation=20, test=30, generator=0) for n in (10, 500))
    assert len(few.train[0]) == 10
    assert len(many.train[0]) == 500
    for a, b in zip((*few.test, *few.validation), (*many.test, *many.validation), strict=True):
        assert torch.equal(a, b)
    rows = torch.cat([many.train[0], many.validation[0], many.test[0]])
    assert len(rows.unique(dim=0)) == 550


def test_default_sizes_are_those_of_the_paper() -> None:
    splits = o5_invariant().splits(30, generator=0)
    assert [len(x) for x, _ in (splits.train, splits.validation, splits.test)] == [30, 1000, 5000]


def test_tasks_are_values() -> None:
    assert inertia() == inertia(5) != inertia(4)
    assert lorentz_scattering() != lorentz_scattering("reference")
    assert len({inertia(), inertia(5)}) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        inertia().name = "other"  # type: ignore[misc]
    kept = pickle.loads(pickle.dumps(lorentz_scattering()))
    x, y = lorentz_scattering().draw(3, generator=0)
    assert torch.equal(kept.target(x), y)


# --- scaling ---------------------------------------------------------------------------------


def test_scaling_by_hand() -> None:
    x = torch.tensor([[1.0, 5.0, 1.0, 2.0, 3.0, 4.0], [3.0, 5.0, -1.0, 0.0, 1.0, 2.0]])
    y = torch.tensor([[3.0, 1.0], [-4.0, 5.0]])
    scaling = Standardisation.of(Symmetry(O(2), 2 * Scalar + 2 * V, Pseudoscalar + Scalar), x, y)
    rms = math.sqrt((1 + 4 + 9 + 16 + 1 + 0 + 1 + 4) / 8)
    assert scaling.input_offset.tolist() == [2.0, 5.0, 0.0, 0.0, 0.0, 0.0]
    # the second column is constant: its scale is one
    assert scaling.input_scale.tolist() == pytest.approx([1.0, 1.0, rms, rms, rms, rms])
    assert scaling.output_offset.tolist() == [0.0, 3.0]
    assert scaling.output_scale.tolist() == pytest.approx([math.sqrt(12.5), 2.0])
    assert torch.equal(scaling.original_outputs(scaling.outputs(y)), y)
    assert scaling.inputs(x).dtype == torch.float32


def test_a_column_constant_up_to_rounding_is_not_blown_up() -> None:
    x = torch.full((1000, 1), 0.1, dtype=torch.float64)
    scaling = Standardisation.of(Symmetry(O(2), Scalar, Scalar), x, x)
    assert scaling.input_scale.tolist() == [1.0]


@pytest.mark.parametrize(
    ("group", "rep"),
    [
        (O13(), 4 * V + 3 * Scalar),
        (O13(), V + Scalar + V.T + V),
        (O(3), 2 * (V + Scalar) + T(2) + Pseudoscalar),
        (O(3), (V + Scalar).on([4, 0, 2, 1], of=6)),
    ],
    ids=str,
)
def test_scaling_commutes_with_the_group(group: Group, rep: Rep) -> None:
    symmetry = Symmetry(group, rep, rep)
    rng = torch.Generator().manual_seed(0)
    columns = torch.rand(symmetry.rep_in.size(), dtype=torch.float64, generator=rng)
    x = 3 + columns * torch.randn(50, symmetry.rep_in.size(), dtype=torch.float64, generator=rng)
    scaling = Standardisation.of(symmetry, x, x)
    g = mild_elements(group, 50)
    moved = symmetry.apply(g, x)
    torch.testing.assert_close(
        scaling.inputs(moved), symmetry.apply(g, scaling.inputs(x)), rtol=1e-11, atol=1e-11
    )
    torch.testing.assert_close(
        scaling.outputs(moved), symmetry.apply_out(g, scaling.outputs(x)), rtol=1e-11, atol=1e-11
    )


def test_copies_of_one_type_share_a_scale_wherever_they_stand() -> None:
    x = torch.randn(20, 7, generator=torch.Generator().manual_seed(0)) * torch.arange(1, 8)
    scaling = Standardisation.of(Symmetry(O(3), V + Scalar + V, Scalar), x, x[:, :1])
    assert scaling.input_scale[[0, 1, 2, 4, 5, 6]].unique().numel() == 1
    assert scaling.input_scale[3] != scaling.input_scale[0]


def test_scaled_tasks_have_unit_size() -> None:
    for task in TASKS:
        x, y = task.draw(2000, generator=0)
        scaling = task.standardisation(x, y)
        assert scaling.inputs(x).square().mean().item() == pytest.approx(1.0)
        assert scaling.outputs(y).square().mean().item() == pytest.approx(1.0)


def test_complex_columns() -> None:
    x = torch.tensor([[1 + 1j, 3j], [3 - 1j, 4.0]])
    scaling = Standardisation.of(Symmetry(O(2), 2 * Scalar, Scalar), x, x[:, :1])
    assert scaling.input_offset.tolist() == [2 + 0j, 2 + 1.5j]
    assert scaling.input_scale.tolist() == pytest.approx([math.sqrt(2), 2.5])
    assert scaling.inputs(x).dtype == torch.complex64


# --- bad input -------------------------------------------------------------------------------


def test_bad_input() -> None:
    task = inertia()
    for n in (0, -1, True, 2.0):
        with pytest.raises(ValueError, match=r"expected a number of rows of at least 1, got"):
            task.draw(n)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"number of rows of at least 1, got 0"):
        task.splits(10, validation=0)
    with pytest.raises(ValueError, match=r"expected a number of points of at least 1, got 0"):
        inertia(0)
    with pytest.raises(ValueError, match=r"expected the formula 'text' or 'reference', got 'x'"):
        lorentz_scattering("x")  # type: ignore[arg-type]
    for shape in ((3, 19), ()):
        with pytest.raises(ValueError, match=r"expected inputs of width 20 for inertia\(5\), got"):
            task.target(torch.ones(shape))


def test_bad_input_for_scaling() -> None:
    x, y = inertia().draw(3, generator=0)
    scale = inertia().standardisation
    with pytest.raises(ValueError, match=r"expected inputs of shape \(n, 20\) .* got \(3, 9\)"):
        scale(y, y)
    with pytest.raises(ValueError, match=r"expected outputs of shape \(n, 9\) .* got \(0, 9\)"):
        scale(x, y[:0])
    with pytest.raises(ValueError, match=r"expected as many outputs as inputs, got 2 and 3"):
        scale(x, y[:2])
    with pytest.raises(ValueError, match=r"expected finite inputs, got NaN or infinity"):
        scale(x * torch.nan, y)
