"""Continuous symmetries end to end: planted in exact data, found, named, exact, confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from discovery.pieces import PredictorThresholds, replaced, three_way_split
from isotropy.data import Dataset
from isotropy.discovery import Finding, Findings, GeneratorOptions
from isotropy.discovery.generators import find_generators

Array = NDArray[np.float64]
Function = Callable[[Array], Array]
METRIC = np.diag([1.0, -1.0, -1.0, -1.0])
NAMES = ("E1", "px1", "py1", "pz1", "E2", "px2", "py2", "pz2")


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def found_in(x: Any, y: Any, **options: Any) -> Any:
    return find_generators(x, y, **{"fit_models": False, **options})


def the_finding(found: Any) -> Finding:
    finding = found.finding
    assert finding is not None
    assert finding.confirmed
    assert not finding.trivial
    assert found.chosen is not None
    assert finding.dimension == found.chosen.dimension
    assert finding.name.startswith(found.chosen.title)
    return finding


# --- what is asked of every finding -------------------------------------------------------------


def flows(rows: Array, count: int, size: float = 0.3) -> Array:
    """Random elements exp(Σ c_i [A_i | b_i]) on homogeneous rows, (count, n + 1, n + 1)."""
    c = size * normal(count, len(rows), seed=99) / np.abs(rows).max()
    algebra = np.pad(np.tensordot(c, rows, 1), ((0, 0), (0, 1), (0, 0)))
    return np.asarray(torch.linalg.matrix_exp(torch.as_tensor(algebra)))


def close(got: Array, expected: Array, *, rtol: float = 1e-10) -> bool:
    return bool(np.abs(got - expected).max() <= rtol * max(1.0, np.abs(expected).max()))


def check_rows(found: Any, f: Function, x: Array) -> None:
    """The generators on rows, exponentiated, leave the true function as it is."""
    assert found.chosen is not None
    rows, n = found.chosen.on_rows(), x.shape[1]
    g = flows(rows, len(x))
    moved = np.einsum("Nij,Nj->Ni", g[:, :n, :n], x) + g[:, :n, n]
    assert np.abs(moved - x).max() > 0.1
    y = f(x)
    out = found.chosen.on_outputs(y.shape[1]) if y.ndim == 2 else None
    if out is not None:
        c = 0.3 * normal(len(x), len(rows), seed=99) / np.abs(rows).max()
        b = torch.linalg.matrix_exp(torch.as_tensor(np.tensordot(c, out, 1))).numpy()
        y = np.einsum("Nij,Nj->Ni", b, y)
    assert close(f(moved), y)


def check_symmetry(found: Any, f: Function, x: Array, blocks: Sequence[Sequence[int]] = ()) -> None:
    """Elements of the group, as the finding's ``Symmetry`` acts, leave the true function too."""
    finding = the_finding(found)
    symmetry = finding.symmetry
    assert symmetry is not None
    assert found.chosen is not None
    assert found.chosen.snapped is not None
    group, n = symmetry.group, x.shape[1]
    assert len(group.algebra) == finding.dimension
    shape = None if finding.generators is None else finding.generators.shape
    assert shape is not None
    assert shape[0] == finding.dimension
    centre = np.zeros(n)
    given = x
    if blocks and symmetry.rep_in.size() > n:
        given = np.concatenate([np.c_[x[:, list(b)], np.ones(len(x))] for b in blocks], 1)
    elif found.chosen.snapped.centre is not None:
        centre = np.tile(found.chosen.snapped.centre, len(blocks) or 1)
        given = x - centre
    g = group.sample(len(x), generator=1)
    after = symmetry.apply(g, torch.as_tensor(given)).numpy()
    assert np.abs(after - given).max() > 0.1
    if given.shape[1] > n:
        d = len(blocks[0])
        parts = after.reshape(len(x), len(blocks), d + 1)
        assert np.allclose(parts[:, :, d], 1.0)
        after = np.zeros_like(x)
        for part, block in zip(parts[:, :, :d].transpose(1, 0, 2), blocks, strict=True):
            after[:, list(block)] = part
    y = f(x)
    if y.ndim == 2:
        y = symmetry.apply_out(g, torch.as_tensor(y)).numpy()
    assert close(f(after + centre), y)


# --- functions whose algebra is known -----------------------------------------------------------


def square(x: Array) -> Array:
    return np.asarray((x**2).sum(-1))


def inner(a: Array, b: Array) -> Array:
    return np.asarray(np.einsum("ni,ij,nj->n", a, METRIC, b))


def distance(x: Array) -> Array:
    half = x.shape[1] // 2
    return square(x[:, :half] - x[:, half:])


def two_vectors(x: Array) -> Array:
    a, b = x[:, :3], x[:, 3:]
    return np.asarray((a * b).sum(1) + 2 * square(a) - square(b))


def invariant_mass(x: Array) -> Array:
    total = x[:, :4] + x[:, 4:]
    return np.sqrt(inner(total, total))


def products(x: Array) -> Array:
    a, b = x[:, :4], x[:, 4:]
    return 2 * inner(a, a) + inner(a, b)


def lorentz(x: Array) -> Array:
    return np.sin(products(x)) + 0.1 * inner(x[:, 4:], x[:, 4:]) ** 2


def torque(x: Array) -> Array:
    return np.cross(x[:, :3], x[:, 3:]) + x[:, :3]


def inertia(x: Array) -> Array:
    p = x.reshape(len(x), -1, 3)
    both = square(p).sum(1)[:, None, None] * np.eye(3) - np.einsum("nki,nkj->nij", p, p)
    return np.asarray(both.reshape(-1, 9))


HIDDEN = np.array([[1.0, 0.4, -0.2], [0.3, 1.5, 0.6], [-0.5, 0.2, 0.8]])


def hidden(x: Array) -> Array:
    return square(x @ HIDDEN.T) ** 2 + 0.5 * square(x @ HIDDEN.T)


def momenta(count: int, masses: tuple[float, float] | None, seed: int = 0) -> Array:
    """Two four-momenta in each row, of given masses, or of masses that vary."""
    rng = np.random.default_rng(seed)
    p = rng.normal(size=(count, 2, 3))
    m = rng.uniform(0.5, 2.0, size=(count, 2)) if masses is None else np.array(masses)
    return np.concatenate([np.sqrt(m**2 + square(p))[..., None], p], 2).reshape(count, 8)


@dataclass(frozen=True)
class Planted:
    f: Function
    x: Array
    title: str
    dimension: int
    options: dict[str, Any]
    blocks: tuple[tuple[int, ...], ...] = ()


TWO = ((0, 1, 2), (3, 4, 5))
POINT = np.array([1.0, -2.0, 0.5])
PLANTED = {
    "so2": Planted(lambda x: np.exp(-square(x)), 0.8 * normal(300, 2), "SO(2)", 1, {}),
    "so3 on two vectors": Planted(two_vectors, normal(300, 6), "SO(3)", 3, {"blocks": 2}, TWO),
    "about a point": Planted(lambda x: square(x - POINT), normal(300, 3), "SO(3)", 3, {}),
    "se2": Planted(distance, normal(300, 4), "SO(2) ⋉ R²", 3, {"blocks": 2}, ((0, 1), (2, 3))),
    "se3": Planted(distance, normal(400, 6), "SO(3) ⋉ R³", 6, {"blocks": 2}, TWO),
    "translations": Planted(
        lambda x: (x[:, 0] - x[:, 2]) ** 3 + (x[:, 1] - x[:, 3]) ** 2 + x[:, 0] - x[:, 2],
        normal(400, 4),
        "translations",
        2,
        {"blocks": 2},
        ((0, 1), (2, 3)),
    ),
    "weights": Planted(
        lambda x: x[:, 0] ** 2 * x[:, 1],
        np.random.default_rng(0).uniform(0.5, 2.0, size=(300, 2)),
        "scalings",
        1,
        {},
    ),
    "vector": Planted(torque, normal(400, 6), "SO(3)", 3, {"blocks": 2}, TWO),
    "vector, asked for": Planted(
        torque,
        normal(400, 6),
        "SO(3)",
        3,
        {"blocks": 2, "options": GeneratorOptions(output="vector")},
        TWO,
    ),
    "vector, unnamed": Planted(torque, normal(400, 6), "SO(3)", 3, {}, TWO),
    "matrix": Planted(inertia, normal(400, 6), "SO(3) × scalings", 4, {"blocks": 2}, TWO),
    "hidden basis": Planted(hidden, normal(500, 3), "SO(3)", 3, {}),
    "lorentz": Planted(products, momenta(400, None), "SO⁺(1,3)", 6, {"blocks": 2}),
    "so4 in bad units": Planted(
        lambda x: square(x / [1, 1, 50, 50]), normal(300, 4) * [1, 1, 50, 50], "SO(4)", 6, {}
    ),
    "beside an ignored column": Planted(
        lambda x: square(x[:, [0, 2, 3]]), normal(300, 4), "SO(3)", 3, {}
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_the_planted_symmetry_is_found(case: str) -> None:
    planted = PLANTED[case]
    found = found_in(planted.x, planted.f(planted.x), **planted.options)
    finding = the_finding(found)
    assert found.chosen is not None
    assert found.chosen.title == planted.title
    assert finding.dimension == planted.dimension
    assert abs(finding.effect) < 1e-6
    assert not finding.approximate
    assert finding.p_value < 0.05
    points = planted.x[:60]
    check_rows(found, planted.f, points)
    check_symmetry(found, planted.f, points, planted.blocks)


def test_the_details_of_names_and_generators() -> None:
    about = the_finding(
        found_in(PLANTED["about a point"].x, square(PLANTED["about a point"].x - POINT))
    )
    assert "about (1, −2, 0.5)" in about.name
    weights = PLANTED["weights"]
    finding = the_finding(found_in(weights.x, weights.f(weights.x)))
    assert "weights (1, −2)" in finding.name
    assert finding.generators is not None
    a = finding.generators[0]
    assert a[1, 1] == -2 * a[0, 0] != 0
    assert a[0, 1] == a[1, 0] == 0
    se2 = the_finding(found_in(normal(300, 4), distance(normal(300, 4)), blocks=2))
    assert se2.generators is not None
    assert se2.generators.shape == (3, 3, 3)
    assert set(np.unique(se2.generators)) <= {-1.0, 0.0, 1.0}
    assert str(se2.symmetry) == "SE(2): 2*V >> Scalar"
    lorentz_found = the_finding(
        found_in(momenta(400, None), invariant_mass(momenta(400, None)), blocks=2)
    )
    metric = lorentz_found.metric
    assert metric is not None
    assert np.array_equal(metric / metric[0, 0], METRIC)
    assert lorentz_found.generators is not None
    for a in lorentz_found.generators:
        assert np.array_equal(a.T @ METRIC + METRIC @ a, np.zeros((4, 4)))


# --- four-momenta -------------------------------------------------------------------------------


def test_four_momenta_in_a_table_with_names() -> None:
    pandas = pytest.importorskip("pandas")
    x = momenta(500, None)
    finding = the_finding(found_in(pandas.DataFrame(x, columns=NAMES), invariant_mass(x)))
    assert finding.name.startswith("SO⁺(1,3), metric (+,−,−,−), acting on 2 four-vectors")
    assert finding.coordinates == ("E", "px", "py", "pz")
    assert finding.input_names == NAMES
    assert str(finding.symmetry) == "SO13p: 2*V >> Scalar"


def test_four_momenta_in_a_data_set_with_columns_in_any_order() -> None:
    x = momenta(500, None)
    order = [3, 5, 0, 6, 1, 4, 7, 2]
    data = Dataset(
        torch.as_tensor(x[:, order]),
        torch.as_tensor(invariant_mass(x)).unsqueeze(1),
        x_names=tuple(NAMES[i] for i in order),
    )
    found = find_generators(data, fit_models=False)
    finding = the_finding(found)
    assert finding.name.startswith("SO⁺(1,3)")
    back = np.argsort(order)

    def f(shuffled: Array) -> Array:
        return invariant_mass(shuffled[:, back])

    check_rows(found, f, x[:60, order])
    check_symmetry(found, f, x[:60, order])


def test_four_momenta_without_names() -> None:
    x = momenta(500, None)
    found = found_in(x, invariant_mass(x))
    assert the_finding(found).name == "SO⁺(1,3), metric (+,−,−,−), acting on 2 four-vectors"
    # that only the sum matters is a symmetry of its own
    assert any("translations R⁴" in f.name and "x0 + x4" in f.name for f in found.findings)


def rounded(values: Array, digits: int) -> Array:
    text = [float(f"{value:.{digits - 1}e}") for value in values.ravel()]
    return np.array(text).reshape(values.shape)


@pytest.mark.parametrize(
    "how", ["blocks", "names", "nothing", "blocks, 5 digits", "names, 5 digits"]
)
def test_four_momenta_on_their_mass_shells(how: str) -> None:
    x = momenta(500, (0.5, 1.5))
    y = invariant_mass(x)
    if how.endswith("digits"):
        x, y = rounded(x, 5), rounded(y, 5)
    data = Dataset(
        torch.as_tensor(x),
        torch.as_tensor(y).unsqueeze(1),
        x_names=NAMES if how.startswith("names") else None,
    )
    found = find_generators(data, blocks=2 if how.startswith("blocks") else None, fit_models=False)
    finding = the_finding(found)
    assert finding.name.startswith("SO⁺(1,3), metric (+,−,−,−), acting on 2 four-vectors")
    assert any("surface" in note and "= 0.25" in note for note in found.notes)
    # exactly the group, though the data lie on a thin surface, and are rounded
    check_rows(found, lorentz, momenta(60, None, seed=1))
    check_symmetry(found, lorentz, momenta(60, None, seed=1))


# --- Hamiltonians -------------------------------------------------------------------------------

OMEGA = np.kron([[0.0, 1.0], [-1.0, 0.0]], np.eye(2))


@pytest.mark.parametrize(
    ("energy", "title", "dimension"),
    [
        (lambda q, p: (square(q) + square(p)) / 2, "U(2)", 4),
        (lambda q, p: square(p) / 2 + square(q) ** 2 / 4, "SO(2)", 1),
        (lambda q, p: square(p) / 2 + q[:, 0] ** 2 / 2 + 2 * q[:, 1] ** 2, "SO(2) × SO(2)", 2),
    ],
    ids=["oscillator", "central quartic", "anisotropic oscillator"],
)
def test_canonical_symmetries_of_hamiltonians(
    energy: Callable[[Array, Array], Array], title: str, dimension: int
) -> None:
    def f(x: Array) -> Array:
        return energy(x[:, :2], x[:, 2:])

    x = normal(500, 4)
    found = found_in(x, f(x), options=GeneratorOptions(symplectic=True))
    assert found.chosen is not None
    assert (found.chosen.title, the_finding(found).dimension) == (title, dimension)
    for row in found.chosen.on_rows():
        a = row[:, :4]
        assert np.abs(a.T @ OMEGA + OMEGA @ a).max() < 1e-9 * np.abs(a).max()
    check_rows(found, f, x[:60])
    check_symmetry(found, f, x[:60], found.chosen.chart.columns or ())


def test_without_the_symplectic_form_more_is_found() -> None:
    x = normal(500, 4)
    found = found_in(x, square(x) / 2)
    assert found.chosen is not None
    assert (found.chosen.title, found.chosen.dimension) == ("SO(4)", 6)


# --- other shapes and sources -------------------------------------------------------------------


def test_points_of_three_coordinates() -> None:
    x = normal(400, 2, 3)
    found = found_in(x, torque(x.reshape(-1, 6)))
    finding = the_finding(found)
    assert found.chosen is not None
    assert found.chosen.title == "SO(3)"
    assert finding.dimension == 3
    assert "2 three-vectors" in finding.name
    flat = x[:60].transpose(0, 2, 1).reshape(60, 6)  # channel by channel, as models take them

    def f(rows: Array) -> Array:
        return torque(rows.reshape(-1, 3, 2).transpose(0, 2, 1).reshape(-1, 6))

    check_rows(found, f, flat)
    check_symmetry(found, f, flat)


class Radial(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.square().sum(1, keepdim=True).sqrt().sin()


def test_a_module_of_ones_own_is_looked_at_instead() -> None:
    x = normal(300, 3)
    found = found_in(x, square(x), model=Radial())  # of another function with the same symmetry
    assert found.fitted == "the model given"
    assert the_finding(found).name.startswith("SO(3)")
    # what the module says is tested on the data, which say otherwise
    wrong = found_in(x, x[:, 0] ** 2 + 3 * x[:, 1] ** 2 + x[:, 2], model=Radial())
    assert len(wrong.findings) == 0
    (tried,) = (one for one in wrong.findings.tried if isinstance(one, dict))
    assert tried["name"].startswith("SO(3)")
    assert not tried["confirmed"]
    assert tried["effect"] > 0.05
    # a function that returns a number for each row will do
    flat = found_in(x, square(x), model=lambda x: x.square().sum(1))
    assert the_finding(flat).name.startswith("SO(3)")


def test_classes_by_distance_from_the_origin() -> None:
    x = normal(900, 2)
    found = found_in(x, np.where(square(x) > 1.2, "out", "in"))
    finding = the_finding(found)
    assert finding.name.startswith("SO(2)")
    assert str(finding.symmetry) == "SO(2): V >> 2*Scalar"
    assert finding.effect < 0.05


# --- what is no discovery -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("f", "why"),
    [
        (lambda x: x @ [1.0, 2.0, -1.0, 0.5], "depends on 0.5·x0 + x1 − 0.5·x2 + 0.25·x3 alone"),
        (lambda x: (x @ [1.0, 1.0, 0.0, -1.0]) ** 3, "depends on x0 + x1 − x3 alone"),
        (lambda x: x[:, 2] ** 2, "depends on x2 alone"),
        (lambda x: x @ normal(4, 4, seed=3), "is linear"),
    ],
    ids=["linear", "single index", "one column", "linear vector"],
)
def test_trivial_symmetries_are_said_to_be_so(f: Function, why: str) -> None:
    x = normal(300, 4)
    found = found_in(x, f(x))
    assert len(found.findings) == 0
    (trivial,) = found.findings.trivial
    assert why in trivial.trivial
    assert trivial.confirmed
    assert found.chosen is None


def test_ignored_columns_are_no_symmetry() -> None:
    x = normal(400, 4)
    found = found_in(x, x[:, 0] ** 2 + x[:, 1] ** 3 - x[:, 0] * x[:, 1])
    assert len(found.findings) == 0
    assert found.chosen is None


def test_a_generic_polynomial_has_none() -> None:
    x = normal(600, 3)
    monomials = np.stack(
        [x[:, i] * x[:, j] * x[:, k] for i in range(3) for j in range(3) for k in range(3)], 1
    )
    for seed in range(5):
        found = found_in(x, monomials @ normal(27, seed=seed) + x @ normal(3, seed=seed + 50))
        assert len(found.findings) == 0


def test_noise_has_none() -> None:
    # more steps do not learn it either
    with replaced(PredictorThresholds(smooth_steps=200)):
        for seed in range(2):
            found = found_in(normal(200, 3, seed=seed), normal(200, seed=seed + 10))
            assert len(found.findings) == 0


# --- symmetry that is broken --------------------------------------------------------------------


def broken(size: float) -> Any:
    x = normal(1000, 3)
    return found_in(x, square(x) + size * x.prod(1))


def test_slightly_broken_is_approximate_with_the_size_of_it() -> None:
    effects = []
    for size in (0.1, 0.2):
        finding = broken(size).finding
        assert finding is not None
        assert finding.approximate
        assert finding.name.startswith("SO(3)")
        # averaging takes x y z, of variance 1, from the square, of variance 6
        assert finding.effect == pytest.approx(size**2 / 6, rel=0.4)
        assert finding.interval[0] <= finding.effect <= finding.interval[1]
        effects.append(finding.effect)
    assert effects[1] == pytest.approx(4 * effects[0], rel=0.2)


@pytest.mark.parametrize("size", [0.8, 2.0])
def test_broken_beyond_the_margin_is_not_confirmed(size: float) -> None:
    assert len(broken(size).findings) == 0


def test_a_larger_margin_allows_more() -> None:
    x = normal(1000, 3)
    y = square(x) + 0.2 * x.prod(1)  # costs half a per cent
    strict = found_in(x, y, options=GeneratorOptions(margin=0.001))
    assert len(strict.findings) == 0
    assert len(found_in(x, y, options=GeneratorOptions(margin=0.05)).findings) == 1


# --- groups of rows, seeds, files ---------------------------------------------------------------


def test_groups_are_never_split(monkeypatch: pytest.MonkeyPatch) -> None:
    x = normal(400, 3)
    groups = np.random.default_rng(1).permutation(np.repeat(np.arange(100), 4))
    parts: list[NDArray[np.int64]] = []

    def spied(*given: Any, **options: Any) -> Any:
        parts.extend(three_way_split(*given, **options))
        return tuple(parts)

    monkeypatch.setattr("isotropy.discovery.reading._read_problem.three_way_split", spied)
    finding = the_finding(found_in(x, square(x), groups=groups))
    assert sum(len(np.unique(groups[rows])) for rows in parts) == 100
    assert finding.samples <= len(np.unique(groups[parts[2]]))
    with pytest.raises(ValueError, match=r"at least 66 groups of samples to find.* got 10"):
        found_in(x, square(x), groups=np.repeat(np.arange(10), 40))


def test_a_seed_repeats_everything() -> None:
    x = normal(300, 3)
    y = square(x) + 0.2 * x.prod(1)
    first, second, other = (
        found_in(x, y, seed=seed).findings.to_json() | {"seconds": 0} for seed in (0, 0, 1)
    )
    assert first == second
    assert first != other


@pytest.mark.parametrize("case", ["weights", "about a point", "vector", "hidden basis", "se2"])
def test_findings_come_back_from_files(case: str, tmp_path: Path) -> None:
    planted = PLANTED[case]
    found = found_in(planted.x, planted.f(planted.x), **planted.options)
    back = Findings.load(found.findings.save(tmp_path))
    assert back.to_json() == found.findings.to_json()
    first, again = the_finding(found), back[0]
    assert again.symmetry == first.symmetry
    assert np.array_equal(again.generators, first.generators)  # type: ignore[arg-type]
    assert again.coordinates == first.coordinates
    assert again.classes == first.classes
    assert any(one["chosen"] for one in again.classes)


# --- the model ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", ["about a point", "vector", "weights", "se3", "translations"])
def test_the_model_has_the_symmetry_and_comes_back(case: str, tmp_path: Path) -> None:
    planted = PLANTED[case]
    y = planted.f(planted.x)
    found = find_generators(planted.x, y, **planted.options)
    finding = the_finding(found)
    assert finding.model is not None
    points = planted.x[:60]
    again = Finding.load(finding.save(tmp_path))
    assert np.array_equal(again.predict(points), finding.predict(points))
    learned = finding.predict(points).reshape(y[:60].shape)
    assert np.mean((learned - y[:60]) ** 2) < 0.05 * np.var(y[:60])
    model = finding.model.double()

    def predict(x: Array) -> Array:
        with torch.no_grad():
            return np.asarray(model(torch.as_tensor(x)))

    check_rows(found, predict, points)  # in the units of the data, centre included


# --- bad input ----------------------------------------------------------------------------------


def test_fewer_rows_than_unknowns() -> None:
    x = normal(100, 12)
    with pytest.raises(ValueError, match=r"at least 144 rows to find as many unknowns .* got 40"):
        found_in(x, square(x), blocks=1, model=lambda x: x.square().sum(1))
    with pytest.raises(ValueError, match=r"expected at least 66 samples .* got 30"):
        found_in(x[:30], square(x[:30]))


def test_constant_targets() -> None:
    with pytest.raises(ValueError, match=r"expected targets that vary, got the same in every row"):
        found_in(normal(100, 3), np.ones(100))


def test_collinear_inputs_are_named() -> None:
    x = normal(200, 4)
    y = square(x)
    x[:, 3] = x[:, 0] - 2 * x[:, 1]
    with pytest.raises(
        ValueError, match=r"vary independently, got 1 that do not: x3 − x0 \+ 2 x1 is constant"
    ):
        found_in(x, y)
    x[:, 3] = 7.0
    with pytest.raises(ValueError, match=r"x3 is constant; symmetries along them cannot be told"):
        found_in(x, y)


def test_units_of_wildly_different_size() -> None:
    x = normal(200, 3)
    with pytest.raises(ValueError, match=r"units differ by a factor of 1.*x1 has .*e-10"):
        found_in(x * [1.0, 1e-9, 1.0], square(x))


@pytest.mark.parametrize(
    ("blocks", "kind", "words"),
    [
        (3, ValueError, r"expected a number of blocks that divides 4 columns, got 3"),
        (0, ValueError, r"expected a number of blocks that divides 4 columns, got 0"),
        ([[0, 1], [1, 2]], ValueError, r"expected each column in one block at most, got b twice"),
        ([["a", "q"], ["c", "d"]], ValueError, r"expected one of a, b, c, d, got 'q' in a block"),
        ([[0, 1], [2]], ValueError, r"expected blocks of one length, .* got 1 and 2"),
        ([[0, 1], [2, 9]], ValueError, r"expected a column from 0 to 3 in a block, got 9"),
        ("ab", TypeError, r"expected a number of blocks or lists of columns, got 'ab'"),
    ],
)
def test_blocks_that_are_none(blocks: Any, kind: type[Exception], words: str) -> None:
    x = normal(100, 4)
    y = torch.as_tensor(square(x)).unsqueeze(1)
    data = Dataset(torch.as_tensor(x), y, x_names=("a", "b", "c", "d"))
    with pytest.raises(kind, match=words):
        find_generators(data, blocks=blocks)


def test_names_for_columns_without_names() -> None:
    with pytest.raises(ValueError, match=r"expected names for the columns, got 'a' in a block"):
        found_in(normal(100, 2), square(normal(100, 2)), blocks=[["a"], ["b"]])


def test_numbers_that_are_not_finite() -> None:
    x = normal(100, 3)
    y = square(x)
    x[4, 1] = np.nan
    with pytest.raises(ValueError, match=r"expected finite inputs, got .* in row 5"):
        found_in(x, y)
    with pytest.raises(ValueError, match=r"expected finite targets, got .* in row 3"):
        found_in(normal(100, 3), np.where(np.arange(100) == 2, np.inf, y))


def test_outputs_that_do_not_fit() -> None:
    x = normal(200, 3)
    outputs: tuple[Any, ...] = ("matrix", "vector")
    for output in outputs:
        with pytest.raises(ValueError, match=rf"outputs that can move as a {output} .* got 1 out"):
            found_in(x, square(x), options=GeneratorOptions(output=output))
    tensor = GeneratorOptions(output="tensor")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"an output among invariant, .*, got 'tensor'"):
        found_in(x, square(x), options=tensor)


def test_momenta_without_positions() -> None:
    x = normal(200, 3)
    with pytest.raises(ValueError, match=r"as many momenta as positions, got 3 columns"):
        found_in(x, square(x), options=GeneratorOptions(symplectic=True))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (GeneratorOptions(margin=-1.0), r"expected a margin between 0 and 1, got -1"),
        (GeneratorOptions(level=2.0), r"expected a level between 0 and 1, got 2"),
    ],
)
def test_margins_and_levels_out_of_range(options: GeneratorOptions, words: str) -> None:
    x = normal(200, 3)
    with pytest.raises(ValueError, match=words):
        found_in(x, square(x), options=options)


def test_keywords_that_became_options_still_work() -> None:
    x = normal(200, 3)
    with (
        pytest.warns(DeprecationWarning, match=r"options=GeneratorOptions\(symplectic=…\)"),
        pytest.raises(ValueError, match=r"as many momenta as positions, got 3 columns"),
    ):
        find_generators(x, square(x), symplectic=True)  # type: ignore[call-arg]


def test_no_targets() -> None:
    with pytest.raises(ValueError, match=r"expected targets y beside the inputs, got none"):
        find_generators(normal(100, 3))


# --- actions that are more than a matrix on columns ---------------------------------------------


def test_a_shear_joined_to_a_translation_keeps_both() -> None:
    x = normal(400, 2)
    finding = the_finding(found_in(x, x[:, 0] - x[:, 1] ** 2 / 2, fit_models=True))
    group = finding.symmetry.group if finding.symmetry is not None else None
    assert group is not None
    moved = group.sample(5, generator=0).apply(torch.tensor([1.0, 2.0, 1.0], dtype=torch.float64))
    assert torch.allclose(moved[:, 0] - moved[:, 1] ** 2 / 2, torch.tensor(-1.0).double())
    assert finding.model is None
    assert "translations" in finding.notes[-1]


def test_the_centre_is_in_the_finding() -> None:
    centre = np.array([1.0, -2.0, 0.5])
    x = normal(500, 3) + centre
    finding = the_finding(found_in(x, square(x - centre) ** 2))
    assert finding.group == "SO(3)"
    np.testing.assert_allclose(finding.centre, centre, atol=1e-9)


@pytest.mark.parametrize(
    ("energy", "scale", "blocks", "affine", "title"),
    [
        # a relative oscillation, and the free motion of the centre
        (lambda q, p, r, s: (r**2 + s**2) / 2 + (q - p) ** 2, 1, None, True, "SO(2) × shears"),
        (lambda q, p, r, s: q * r + (p * s) ** 2, 1, [[0, 2], [1, 3]], True, "SO⁺(1,1)"),
        (lambda q, p, r, s: q**2 + p**2 + r**2 + s**2, 20, None, True, "U(2)"),
        # all of a class of one dimension
        (
            lambda q, p, r, s: (r**2 + s**2) / 2 + (q**2 + p**2) ** 2 / 4,
            1,
            2,
            False,
            "SO(2)",
        ),
    ],
    ids=["cyclic", "blocks out of order", "scales", "whole class"],
)
def test_canonical_transformations_pair_columns_in_their_units(
    energy: Any, scale: float, blocks: Any, affine: bool, title: str
) -> None:
    x = normal(500, 4) * [1.0, scale, 1.0, 1.0]
    options = GeneratorOptions(affine=affine, symplectic=True)
    finding = the_finding(found_in(x, energy(*x.T), blocks=blocks, options=options))
    assert finding.name.startswith(title)


def test_vectors_at_points_come_out_whole() -> None:
    x = normal(600, 3, 3)
    y = np.stack([np.cross(x[:, 0], x[:, 1]), np.cross(x[:, 1] + 2 * x[:, 0], x[:, 2])], 1)
    finding = the_finding(found_in(x, y))
    assert finding.name.startswith("SO(3), acting on 3 three-vectors")
    assert finding.symmetry is not None
    turn = finding.symmetry.group.sample(1, generator=0)
    flat = torch.as_tensor(x).transpose(1, 2).flatten(1)
    out = torch.as_tensor(y).transpose(1, 2).flatten(1)
    moved = finding.symmetry.apply(turn, flat).unflatten(1, (3, 3)).transpose(1, 2).numpy()
    again = np.stack(
        [np.cross(moved[:, 0], moved[:, 1]), np.cross(moved[:, 1] + 2 * moved[:, 0], moved[:, 2])],
        1,
    )
    expected = finding.symmetry.apply_out(turn, out).unflatten(1, (3, 2)).transpose(1, 2).numpy()
    np.testing.assert_allclose(again, expected, atol=1e-10)


def test_one_vector_in_a_row() -> None:
    x = normal(300, 1, 3)
    assert the_finding(found_in(x, square(x[:, 0]) ** 2)).group == "SO(3)"


def test_a_larger_symmetry_that_nearly_holds_gives_way_to_the_exact_one() -> None:
    x = normal(1000, 3)
    found = found_in(x, square(x) + 0.02 * x[:, 0] ** 3)
    names = [(finding.name.split(",")[0], finding.approximate) for finding in found.findings]
    assert names == [("SO(2)", False)]
    (larger,) = (
        one for one in found.findings.tried if isinstance(one, dict) and not one["confirmed"]
    )
    assert larger["name"].startswith("SO(3)")
    assert 1e-5 < larger["effect"] < 0.05
    assert larger["note"] == "it is approximate, and others hold exactly"


def test_noise_is_not_called_linear() -> None:
    found = found_in(normal(300, 3), normal(300, seed=1))
    assert not len(found.findings)
    assert not found.findings.trivial


def test_models_given_are_looked_at_in_their_precision() -> None:
    net = nn.Sequential(nn.Linear(3, 1))
    found = found_in(normal(300, 3), square(normal(300, 3)), model=net)
    assert found.fitted == "the model given"
    with pytest.raises(ValueError, match=r"a differentiable model from 3 inputs to 1 outputs, got"):
        found_in(normal(300, 3), square(normal(300, 3)), model=lambda x: x)
    with pytest.raises(ValueError, match=r"expected finite outputs of the model, got NaN"):
        found_in(normal(300, 3), square(normal(300, 3)), model=lambda x: x[:, :1] * torch.nan)


def test_a_scaling_is_in_the_model(tmp_path: Path) -> None:
    """Of degree two, with rotations: y(s R x) = s² R y(x) Rᵀ, and so for the model loaded."""
    x = normal(600, 6)
    outer = x[:, :3, None] * x[:, None, 3:] + 2 * x[:, :3, None] * x[:, None, :3]
    found = found_in(
        x,
        outer.reshape(600, 9),
        blocks=2,
        options=GeneratorOptions(output="matrix"),
        fit_models=True,
    )
    finding = the_finding(found)
    assert finding.name.startswith("GL(3,R)")
    points = normal(5, 3, seed=3)
    pairs = np.hstack([points, points[::-1]])
    loaded = Finding.load(finding.save(tmp_path))
    np.testing.assert_allclose(loaded.predict(3 * pairs), 9 * finding.predict(pairs), rtol=1e-3)


def test_scalings_and_translations_are_in_the_model() -> None:
    """The angle at which one point is seen from another: neither place nor size matter."""
    x = normal(600, 4)
    seen = x[:, 2:] - x[:, :2]
    finding = the_finding(
        found_in(x, seen[:, 0] / np.sqrt(square(seen)), blocks=2, fit_models=True)
    )
    assert finding.model is not None
    assert finding.equivariance_error is not None
    assert finding.equivariance_error < 1e-4
    np.testing.assert_allclose(finding.predict(2 * x + 1.5), finding.predict(x), atol=1e-4)


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_models_with_translations_of_rows_far_away(offset: float) -> None:
    x = normal(400, 3)
    y = np.sin(x[:, 0] - x[:, 1]) * x[:, 2] + 0.3 * (x[:, 0] - x[:, 1]) ** 2
    far = x + offset * np.array([1.0, 1.0, 0.0])
    finding = found_in(far, y, fit_models=True).findings[0]
    assert np.mean((finding.predict(far)[:, 0] - y) ** 2) < 0.1 * np.var(y)


def test_what_translations_leave_may_be_far_from_zero() -> None:
    x = normal(400, 3)
    s = x[:, 0] + x[:, 1]
    y = np.sin(s) * x[:, 2] + 0.3 * s**2
    finding = found_in(x + 1000, y, fit_models=True).findings[0]
    assert np.mean((finding.predict(x + 1000)[:, 0] - y) ** 2) < 0.1 * np.var(y)


def test_a_symmetry_with_translations_says_how_exact_its_model_is() -> None:
    x = normal(400, 6)
    finding = the_finding(found_in(x, distance(x), blocks=2, fit_models=True))
    assert finding.equivariance_error is not None
    assert finding.equivariance_error < 1e-5


def test_columns_that_are_too_many_to_move_at_once() -> None:
    x = normal(150, 37)
    with pytest.raises(ValueError, match=r"at most 32 columns, or blocks of them, got 37 columns"):
        found_in(x, x[:, 0] * x[:, 1])
