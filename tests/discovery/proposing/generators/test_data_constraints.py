from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from discovery.pieces import ColumnBlocks, blocks_from_names, blocks_of_width, condition, tangent
from isotropy.discovery.generators import find_constraints

Array = NDArray[np.float64]
NAMES = ["E1", "px1", "py1", "pz1", "E2", "px2", "py2", "pz2"]
TWO = blocks_of_width(8, 2)
METRIC = np.diag([1.0, -1.0, -1.0, -1.0])


def on_shell(masses: tuple[float, ...], count: int, seed: int) -> Array:
    """Particles as detectors see them: falling transverse momentum, flat in angle."""
    rng = np.random.default_rng(seed)
    parts = []
    for mass in masses:
        across = rng.exponential(15.0, count) + 3.0
        along, angle = rng.uniform(-2.0, 2.0, count), rng.uniform(-np.pi, np.pi, count)
        p = across * np.stack([np.cos(angle), np.sin(angle), np.sinh(along)])
        parts += [np.sqrt(mass**2 + (p**2).sum(0)), *p]
    return np.stack(parts, 1)


def stored(x: Array, how: str) -> Array:
    if how == "single":
        return x.astype(np.float32).astype(np.float64)
    if how == "4 decimals, single":
        return np.round(x, 4).astype(np.float32).astype(np.float64)
    if how.endswith("digits"):
        text = [float(f"{value:.{int(how[0]) - 1}e}") for value in x.ravel()]
        return np.array(text).reshape(x.shape)
    return x


def found(
    x: Array, blocks: ColumnBlocks | None, names: list[str], rounding: bool = True
) -> tuple[Any, tuple[str, ...]]:
    z = condition(x, blocks)
    constraints = find_constraints(z.x, blocks, rounding=z.rounding if rounding else None)
    return constraints, constraints.sentences(names, z.shift, z.scale)


@pytest.mark.parametrize("blocks", [TWO, None], ids=["blocks", "no blocks"])
@pytest.mark.parametrize("rounding", [True, False])
@pytest.mark.parametrize("how", ["double", "single", "4 decimals, single", "5 digits", "4 digits"])
@pytest.mark.parametrize("masses", [(0.5, 0.5), (0.5, 4.0), (0.0, 0.0), (0.106, 0.106)])
def test_two_particles_on_shell(
    masses: tuple[float, float], how: str, rounding: bool, blocks: ColumnBlocks | None
) -> None:
    x = stored(on_shell(masses, 400, 0), how)
    constraints, sentences = found(x, blocks, NAMES, rounding)
    assert constraints.count == 2
    for particle, (sentence, mass) in enumerate(zip(sentences, masses, strict=True), 1):
        left, right = sentence.split(" = ")
        assert left == "E1² − px1² − py1² − pz1²".replace("1", str(particle))
        # what the digits leave of the square of the mass
        error = {"double": 1e-6, "single": 1e-4, "4 decimals, single": 1e-3}.get(how, 0.1)
        assert float(right) == pytest.approx(mass**2, abs=error, rel=1e-3)


def test_muons_with_four_decimals_have_their_mass() -> None:
    x = np.round(on_shell((0.1057, 0.1057), 2000, 1), 4)
    _, sentences = found(x, blocks_from_names(NAMES)[0], NAMES)
    for sentence in sentences:
        assert sentence.split(" = ")[1][:5] == "0.011"


@pytest.mark.parametrize("how", ["double", "5 digits"])
def test_normals_are_those_of_the_mass_shell(how: str) -> None:
    x = on_shell((0.5, 4.0), 400, 2)
    z = condition(stored(x, how), TWO)
    constraints = find_constraints(z.x, TWO, rounding=z.rounding)
    normals = constraints.gradients(z.x)
    assert normals.shape == (400, 2, 8)
    for particle in range(2):
        expected = np.zeros((400, 8))
        own = slice(4 * particle, 4 * particle + 4)
        expected[:, own] = 2.0 * x[:, own] @ METRIC * z.scale[own]
        got = normals[:, particle]
        cosine = (got * expected).sum(1) / np.linalg.norm(got, axis=1)
        cosine /= np.linalg.norm(expected, axis=1)
        assert np.abs(np.abs(cosine) - 1.0).max() < 1e-6


def test_only_lorentz_transformations_keep_two_mass_shells() -> None:
    z = condition(on_shell((0.5, 4.0), 300, 3), TWO)
    constraints = find_constraints(z.x, TWO, rounding=z.rounding)
    blocks = (z.x * z.scale + z.shift).reshape(-1, 2, 4)
    normals = (constraints.gradients(z.x) / z.scale).reshape(-1, 2, 2, 4)
    # the change of each constraint along x ↦ A x on both blocks, linear in A
    rows = np.einsum("scka,skb->scab", normals, blocks).reshape(-1, 16)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    _, sizes, vectors = np.linalg.svd(rows, full_matrices=False)
    assert int((sizes < 1e-6 * sizes[0]).sum()) == 6
    for generator in vectors[-6:].reshape(6, 4, 4):
        np.testing.assert_allclose(generator.T @ METRIC + METRIC @ generator, 0.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_gaussian_inputs_have_no_constraints(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for count in (30, 140, 200):
        x = rng.normal(size=(count, 8))
        for seen in (x, np.round(x, 1), 50.0 + 3.0 * x):
            z = condition(seen, TWO)
            assert find_constraints(z.x, TWO, rounding=z.rounding).count == 0
            assert find_constraints(z.x).count == 0


@pytest.mark.parametrize(
    "kind", ["uniform", "counts", "log-normal", "cauchy", "correlated", "noisy shell", "two masses"]
)
def test_other_inputs_without_constraints(kind: str) -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(300, 8))
        if kind == "uniform":
            x = rng.uniform(size=x.shape)
        elif kind == "counts":
            x = rng.poisson(3.0, x.shape).astype(np.float64)
        elif kind == "log-normal":
            x = np.exp(2.0 * x)
        elif kind == "cauchy":
            x = rng.standard_cauchy((1000, 8))
        elif kind == "correlated":
            # the square of the difference is tiny beside the squares, but no surface
            x[:, 1] = x[:, 0] + 0.01 * x[:, 1]
        elif kind == "noisy shell":
            x = on_shell((0.5, 0.5), 300, seed)
            x[:, ::4] *= 1.0 + 0.02 * rng.normal(size=(300, 2))
        else:
            heavy = on_shell((10.0, 10.0), 300, seed + 50)
            which = np.repeat(rng.random((300, 2)) < 0.5, 4, axis=1)
            x = np.where(which, heavy, on_shell((0.1, 0.1), 300, seed))
        for blocks in (None, TWO):
            assert found(x, blocks, NAMES)[0].count == 0


def test_one_block_of_two_may_be_thin() -> None:
    x = on_shell((0.5, 0.5), 300, 4)
    x[:, 4:] = np.random.default_rng(4).normal(size=(300, 4)) * 20.0
    assert found(x, TWO, NAMES)[1] == ("E1² − px1² − py1² − pz1² = 0.25",)


def test_blocks_need_fewer_samples() -> None:
    # 14 terms in a block, 44 in all columns, 16 without products
    x = on_shell((0.5, 4.0), 30, 5)
    assert found(x, TWO, NAMES)[0].count == 2
    # products matter in another frame; the same for both particles
    frame = np.linalg.qr(np.random.default_rng(5).normal(size=(4, 4)))[0]
    turned = np.hstack([x[:, :4] @ frame, x[:, 4:] @ frame])
    assert found(turned, TWO, NAMES)[0].count == 2
    assert found(turned, None, NAMES)[0].count == 0


def test_too_few_samples_say_nothing() -> None:
    assert found(on_shell((0.5, 4.0), 7, 6), TWO, NAMES)[0].count == 0
    assert find_constraints(np.ones((2, 3))).count == 0


def sphere(count: int, seed: int, d: int = 3) -> Array:
    x = np.random.default_rng(seed).normal(size=(count, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("scale", "shift", "sentence"),
    [
        ((1, 1, 1), (0, 0, 0), "x² + y² + z² = 1"),
        ((2, 2, 2), (3, 4, 0), "x² + y² + z² − 6 x − 8 y = −21"),
        ((1, 2, 0.5), (0, 0, 0), "4 x² + y² + 16 z² = 4"),
        ((1, 1, 3**0.5), (0, 0, 0), "3 x² + 3 y² + z² = 3"),
        ((1, 1.234, 1), (0, 0, 0), "x² + 0.6567 y² + z² = 1"),
        ((1e-9, 1e-9, 1e-9), (0, 0, 0), "x² + y² + z² = 1e-18"),
    ],
)
def test_spheres_in_the_units_of_the_user(
    scale: tuple[float, ...], shift: tuple[float, ...], sentence: str
) -> None:
    assert found(sphere(300, 7) * scale + shift, None, list("xyz"))[1] == (sentence,)


def test_orthonormal_pairs_and_rotations() -> None:
    rng = np.random.default_rng(8)
    rotations = np.linalg.qr(rng.normal(size=(600, 3, 3)))[0]
    rotations *= np.linalg.det(rotations)[:, None, None]
    pair = rotations[:, :2].reshape(600, 6)
    assert found(pair, blocks_of_width(6, 2), [f"x{i}" for i in range(6)])[1] == (
        "x0² + x1² + x2² = 1",
        "x3² + x4² + x5² = 1",
        "x0·x3 + x1·x4 + x2·x5 = 0",
    )
    # twenty quadrics contain the rotations, six normals span what they are orthogonal to
    z = rotations.reshape(600, 9)
    constraints = find_constraints(z)
    assert constraints.count == 6
    generator = np.array([[0.0, 1.0, -2.0], [-1.0, 0.0, 0.5], [2.0, -0.5, 0.0]])
    along = (rotations @ generator).reshape(600, 1, 9)
    normals = constraints.gradients(z)
    np.testing.assert_allclose(tangent(along, normals), along, atol=1e-9)
    across = (rotations @ (generator @ generator)).reshape(600, 1, 9)
    sizes = np.linalg.norm(tangent(across, normals), axis=2)
    assert np.median(sizes) < 1e-9


def test_linear_relations_leave_no_copies() -> None:
    p = np.random.default_rng(9).normal(size=(400, 3)) * 5.0
    squares = (p**2).sum(1, keepdims=True)
    x = np.hstack([np.sqrt(1.0 + squares), p, np.sqrt(4.0 + squares), -p])
    assert set(found(x, TWO, NAMES)[1]) == {
        "px1 + px2 = 0",
        "py1 + py2 = 0",
        "pz1 + pz2 = 0",
        "E1² − px1² − py1² − pz1² = 1",
        "E2² − px2² − py2² − pz2² = 4",
    }


def test_conserved_momentum_of_four_particles() -> None:
    three = on_shell((0.5, 0.5, 0.5), 600, 10)
    x = np.hstack([three, three[:, :4] + three[:, 4:8] - three[:, 8:]])
    names = [f"{c}{i}" for i in range(1, 5) for c in ("E", "px", "py", "pz")]
    constraints, sentences = found(x, blocks_from_names(names)[0], names)
    assert constraints.count == 7
    assert {s for s in sentences if "²" not in s} == {
        f"{c}1 + {c}2 − {c}3 − {c}4 = 0" for c in ("E", "px", "py", "pz")
    }


def test_columns_of_two_values_and_constants() -> None:
    rng = np.random.default_rng(11)
    x = np.stack([rng.random(300) < 0.3, np.full(300, 0.1), rng.normal(size=300)], 1)
    assert found(x, None, ["b", "k", "x"])[1] == ("k = 0.1", "b² − b = 0")


@pytest.mark.parametrize("blocks", [blocks_of_width(4, 2), None])
def test_columns_that_are_all_constant_or_all_equal(blocks: ColumnBlocks | None) -> None:
    x = np.full((50, 4), 0.25)
    assert found(x, blocks, list("abcd"))[1] == tuple(f"{name} = 0.25" for name in "abcd")
    equal = np.repeat(np.random.default_rng(14).normal(size=(60, 1)), 4, axis=1)
    assert found(equal, blocks, list("abcd"))[0].count == 3


def test_tolerance_is_the_thickness() -> None:
    rng = np.random.default_rng(12)
    z = sphere(500, 12) * (1.0 + 3e-3 * rng.normal(size=(500, 1)))
    assert find_constraints(z).count == 0
    assert find_constraints(z, tolerance=0.03).count == 1
    assert find_constraints(z, rounding=np.full(3, 3e-3 / 3**0.5)).count == 1


def test_bad_inputs() -> None:
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, n\), got \(4,\)"):
        find_constraints(np.zeros(4))
    with pytest.raises(ValueError, match=r"expected finite inputs, got nan or .* in column 1"):
        find_constraints([[0.0, np.nan]])
    with pytest.raises(ValueError, match=r"expected inputs of 8 columns for these blocks, got 3"):
        find_constraints(np.zeros((9, 3)), TWO)
    with pytest.raises(ValueError, match=r"expected a tolerance between 0 and 1, got 2\.0"):
        find_constraints(np.zeros((9, 3)), tolerance=2.0)
    with pytest.raises(ValueError, match=r"expected rounding of shape \(9, 3\), got \(4,\)"):
        find_constraints(np.zeros((9, 3)), rounding=np.zeros(4))
    with pytest.raises(ValueError, match=r"expected rounding that is finite and not negative"):
        find_constraints(np.zeros((9, 3)), rounding=np.full(3, -1.0))
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, 3\), got \(2, 4\)"):
        find_constraints(sphere(50, 0)).gradients(np.zeros((2, 4)))
