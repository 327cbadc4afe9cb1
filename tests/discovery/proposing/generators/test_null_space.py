"""The dimension of a null space by test: against planted ranks, and where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.linalg import subspace_angles

from isotropy.discovery.generators import null_spaces

Array = NDArray[np.float64]


def orthogonal(size: int, rng: np.random.Generator) -> Array:
    return np.asarray(np.linalg.qr(rng.normal(size=(size, size)))[0])


def planted(
    count: int, unknowns: int, null: int, noise: float, seed: int
) -> tuple[Array, Array, Array]:
    """Two estimates of a matrix with a null space, and an orthonormal basis of that as rows."""
    rng = np.random.default_rng(seed)
    frame = orthogonal(unknowns, rng)
    rows = rng.normal(size=(count, unknowns - null)) @ frame[:, null:].T
    first, second = (rows + noise * rng.normal(size=rows.shape) for _ in range(2))
    return first, second, frame[:, :null].T


@pytest.mark.parametrize("noise", [0.0, 1e-6, 0.03, 0.3])
@pytest.mark.parametrize(("unknowns", "null"), [(4, 1), (9, 3), (16, 6), (20, 19)])
def test_the_planted_dimension_and_space(unknowns: int, null: int, noise: float) -> None:
    first, second, basis = planted(600, unknowns, null, noise, unknowns)
    found = null_spaces(first, second, margin=0.05, floor=1e-13 if noise == 0 else 1e-20)
    space = found[0]
    assert space.exact
    assert space.dimension == null
    assert space.gap > 3
    assert np.allclose(space.basis @ space.basis.T, np.eye(null), atol=1e-12)
    angle = float(np.sin(subspace_angles(space.basis.T, basis.T).max()))
    assert angle <= 0.3 * noise + 1e-6
    # what it says of its own error is right within a small factor
    rounding = 4 * np.finfo(float).eps  # of the basis and of the angle itself
    assert space.error >= (angle - rounding) / 3
    assert space.error <= 0.8 * noise + 1e-6
    assert np.all(np.diff(space.energy) >= 0)
    assert np.all(np.diff(space.ratios) >= 0)
    assert float((space.energy**2).mean()) == pytest.approx(1.0)


def test_ratios_of_noise_are_about_one_and_others_grow_with_the_signal() -> None:
    first, second, _ = planted(4000, 8, 4, 0.1, 0)
    ratios = null_spaces(first, second, margin=0.05)[0].ratios
    assert np.abs(ratios[:4] - 1.0).max() < 0.2
    # T is 1 + noise²/2 there, S is noise²/2
    assert ratios[4:] == pytest.approx(np.full(4, 1 / (0.1**2 / 2)), rel=0.3)


def test_noise_need_not_be_alike_in_all_directions() -> None:
    """A null direction with more energy than one that is not: no threshold tells them apart."""
    rng = np.random.default_rng(1)
    loud = np.array([0.03, 0.6, 0.03, 0.03, 0.03])
    rows = rng.normal(size=(1000, 5)) * [0.0, 0.0, 0.4, 1.0, 1.0]
    first, second = (rows + loud * rng.normal(size=rows.shape) for _ in range(2))
    spaces = [s for s in null_spaces(first, second, margin=0.05) if s.exact]
    assert len(spaces) == 1
    assert spaces[0].dimension == 2
    # in the span of the first two directions, whatever the noise of each
    assert np.linalg.norm(spaces[0].basis[:, 2:]) < 0.1


@pytest.mark.parametrize("unknowns", [2, 4, 9, 16])
@pytest.mark.parametrize("count", [60, 400])
def test_nothing_is_found_in_matrices_of_full_rank(unknowns: int, count: int) -> None:
    false = 0
    for seed in range(50):
        first, second, _ = planted(count, unknowns, 0, 0.3, seed)
        false += len(null_spaces(first, second, margin=0.05, seed=seed)) > 0
    assert false == 0


@pytest.mark.parametrize("unknowns", [2, 4, 9, 16])
def test_nothing_is_found_in_noise_alone(unknowns: int) -> None:
    false = 0
    for seed in range(50):
        rng = np.random.default_rng(seed)
        first, second = rng.normal(size=(2, 100, unknowns))
        false += len(null_spaces(first, second, margin=0.05, seed=seed)) > 0
    assert false <= 1


@pytest.mark.parametrize(("noise", "least"), [(0.45, 38), (0.7, 0)])
def test_much_noise_costs_power_and_does_not_make_errors(noise: float, least: int) -> None:
    dimensions = []
    for seed in range(40):
        first, second, _ = planted(400, 9, 3, noise, seed)
        found = [s for s in null_spaces(first, second, margin=0.05, seed=seed) if s.exact]
        dimensions += [space.dimension for space in found]
    assert set(dimensions) <= {3}
    assert len(dimensions) >= least


def test_a_rotation_of_coordinates_changes_nothing_but_the_coordinates() -> None:
    first, second, _ = planted(300, 6, 2, 0.1, 3)
    turn = orthogonal(6, np.random.default_rng(4))
    (plain,) = (s for s in null_spaces(first, second, margin=0.05) if s.exact)
    (turned,) = (s for s in null_spaces(first @ turn, second @ turn, margin=0.05) if s.exact)
    assert turned.ratios == pytest.approx(plain.ratios, rel=1e-9)
    assert turned.energy == pytest.approx(plain.energy, rel=1e-9)
    assert turned.gap == pytest.approx(plain.gap, rel=1e-9)
    assert turned.error == pytest.approx(plain.error, rel=1e-6)
    projector = turned.basis.T @ turned.basis
    assert np.allclose(projector, turn.T @ plain.basis.T @ plain.basis @ turn, atol=1e-9)


def test_units_and_the_order_of_estimates_do_not_matter() -> None:
    first, second, _ = planted(300, 6, 2, 0.1, 5)
    plain = null_spaces(first, second, margin=0.05)[0]
    other = null_spaces(1e5 * second, 1e5 * first, margin=0.05)[0]
    assert other.dimension == plain.dimension
    assert other.gap == pytest.approx(plain.gap, rel=1e-9)
    assert other.ratios == pytest.approx(plain.ratios, rel=1e-9)


def test_samples_of_several_rows_are_the_same_as_their_rows() -> None:
    first, second, _ = planted(800, 5, 2, 0.1, 6)
    flat = null_spaces(first, second, margin=0.05)[0]
    # as many parts of the samples hold the same rows either way
    deep = null_spaces(first.reshape(400, 2, 5), second.reshape(400, 2, 5), margin=0.05)[0]
    assert deep.dimension == flat.dimension == 2
    assert deep.ratios == pytest.approx(flat.ratios, rel=1e-9)


def test_a_space_that_is_only_small_is_found_and_said_to_be_so() -> None:
    rng = np.random.default_rng(7)
    sizes = np.array([0.05, 0.05, 1.0, 1.0, 1.0])
    rows = rng.normal(size=(600, 5)) * sizes
    first, second = (rows + 1e-3 * rng.normal(size=rows.shape) for _ in range(2))
    (space,) = null_spaces(first, second, margin=0.05)
    assert not space.exact
    assert space.dimension == 2
    assert np.linalg.norm(space.basis[:, 2:]) < 0.02
    assert space.energy[:2] == pytest.approx(0.05 / np.sqrt(3 / 5), rel=0.1)
    assert null_spaces(first, second, margin=0.001) == []


def test_both_an_exact_space_and_a_wider_small_one() -> None:
    rng = np.random.default_rng(8)
    sizes = np.array([0.0, 0.1, 1.0, 1.0, 1.0])
    rows = rng.normal(size=(600, 5)) * sizes
    first, second = (rows + 0.03 * rng.normal(size=rows.shape) for _ in range(2))
    exact, small = null_spaces(first, second, margin=0.05)
    assert (exact.dimension, exact.exact) == (1, True)
    assert (small.dimension, small.exact) == (2, False)


def test_a_matrix_of_zeros_tells_nothing() -> None:
    assert null_spaces(np.zeros((10, 3)), np.zeros((10, 3)), margin=0.05) == []
