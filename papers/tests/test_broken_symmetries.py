"""Tasks and systems whose symmetry is broken a little, or was never there."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch

from isotropy.data import Task, inertia, o5_invariant
from isotropy.groups import SL, SO, Group, O, O2eR3, SO2eR3
from isotropy.reps import Scalar, Symmetry, V
from isotropy_papers.broken_symmetries import modified_inertia, windy_pendulum
from isotropy_papers.hamiltonian_systems import HamiltonianSystem, double_spring_pendulum

FORMULAS = ["text", "reference"]


def mean_square(x: torch.Tensor) -> float:
    return float(x.square().sum(-1).mean())


def violation(task: Task, group: Group, n: int = 4000) -> torch.Tensor:
    """f(ρ(g) x) − ρ(g) f(x), a new g for each row."""
    points = task.symmetry.rep_in.size() // 4
    symmetry = Symmetry(group, points * Scalar + points * V, V * V)
    x, y = task.draw(n, generator=1)
    g = group.sample(n, generator=2).dense()
    return task.target(symmetry.apply(g, x)) - symmetry.apply_out(g, y)


def field_violation(system: HamiltonianSystem, group: Group, n: int = 4000) -> torch.Tensor:
    symmetry = Symmetry(group, 4 * V, 4 * V)
    z = system.initial(n, generator=1)
    g = group.sample(n, generator=2).dense()
    return system.field(symmetry.apply(g, z)) - symmetry.apply_out(g, system.field(z))


# --- modified inertia ------------------------------------------------------------------------


def modified_by_hand(row: np.ndarray, formula: str, strength: float) -> np.ndarray:
    points = len(row) // 4
    tensor = np.zeros((3, 3))
    for mass, r in zip(row[:points], row[points:].reshape(points, 3), strict=True):
        tensor += mass * (r @ r * np.eye(3) - np.outer(r, r))
    projector = np.diag([0.0, 0.0, 1.0])
    left, right = (tensor @ tensor, tensor) if formula == "text" else (tensor, np.eye(3))
    return (tensor + strength * left @ projector @ right).reshape(-1)


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize(("points", "strength"), [(5, 0.3), (2, -1.5)])
def test_modified_inertia_is_the_formula(formula: str, points: int, strength: float) -> None:
    task = modified_inertia(formula, points, strength)
    x, y = task.draw(30, generator=0)
    expected = np.stack([modified_by_hand(row, formula, strength) for row in x.numpy()])
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-11, atol=1e-11)
    assert torch.equal(task.target(x.reshape(5, 6, -1)), y.reshape(5, 6, 9))
    assert task.target(x.float()).dtype == torch.float32


def test_the_reference_term_lies_in_the_last_column() -> None:
    # one mass on the x axis: I = diag(0, 18, 18), and row-major entry (2, 2) is the last
    x = torch.tensor([2.0, 3.0, 0.0, 0.0])
    assert modified_inertia("reference", 1, 0.5).target(x)[-1] == 18 + 9
    assert modified_inertia("text", 1, 0.5).target(x)[-1] == 18 + 0.5 * 18**3
    # I ẑẑᵀ is not symmetric: of the matrix only the last column changes
    x = torch.tensor([1.0, 1.0, 2.0, 3.0])
    change = modified_inertia("reference", 1, 1.0).target(x) - inertia(1).target(x)
    assert change.reshape(3, 3).tolist() == [[0, 0, -3], [0, 0, -6], [0, 0, 5]]


@pytest.mark.parametrize("formula", FORMULAS)
def test_what_keeps_the_axis_is_exact(formula: str) -> None:
    task = modified_inertia(formula, strength=0.01)
    assert str(task.symmetry) == "O(2)+O(1): 5*Scalar+5*V >> T(2)"
    assert task.also == (O2eR3(), SO2eR3())
    for group in (task.symmetry.group, *task.also):
        assert violation(task, group, 300).abs().max() < 1e-8
        Symmetry(O(3), 5 * Scalar + 5 * V, V * V).restrict(group)
        task.symmetry.restrict(group)
    assert Symmetry.parse(str(task.symmetry)) == task.symmetry


@pytest.mark.parametrize("formula", FORMULAS)
def test_no_other_element_of_the_broken_group_is_a_symmetry(formula: str) -> None:
    task = modified_inertia(formula)
    (broken,) = task.approximately
    assert broken == O(3)
    x, y = task.draw(50, generator=0)
    symmetry = Symmetry(broken, 5 * Scalar + 5 * V, V * V)
    for g in broken.sample(20, generator=0).dense():
        off_axis = 1 - g[2, 2].abs()
        error = (task.target(symmetry.apply(g, x)) - symmetry.apply_out(g, y)).norm()
        assert error > 0.1 * off_axis * inertia().target(x).norm()
        assert off_axis > 0


def test_how_far_the_reference_formula_is_from_the_broken_group() -> None:
    # uuᵀ − ẑẑᵀ for u uniform on the sphere: the mean square of I(uuᵀ − ẑẑᵀ) is (4/9) tr I²
    n, s = 40_000, 0.3
    task = modified_inertia("reference")
    size = mean_square(inertia().draw(n, generator=1)[1])
    assert mean_square(violation(task, O(3), n)) == pytest.approx(4 / 9 * s**2 * size, rel=0.02)
    # the nearest equivariant function is the mean over the group, I (1 + s/3)
    x, y = task.draw(n, generator=1)
    share = mean_square(y - (1 + s / 3) * inertia().target(x)) / mean_square(y)
    assert share == pytest.approx(2 * s**2 / 9 / (1 + 2 * s / 3 + s**2 / 3), rel=0.02)
    assert share == pytest.approx(0.0163, abs=0.0005)


def test_how_far_the_text_formula_is_from_the_broken_group() -> None:
    shares = {}
    for s in (0.0005, 0.3):
        x, y = modified_inertia("text", strength=s).draw(40_000, generator=1)
        tensor = inertia().target(x).reshape(-1, 3, 3)
        cube = tensor @ tensor @ tensor
        out_of_reach = y.reshape(-1, 3, 3) - tensor - s / 3 * cube
        shares[s] = float(out_of_reach.square().mean() / y.square().mean())
        # the same through moments of the sphere, E uᵢuⱼuₖuₗ = (δδ + δδ + δδ)/15
        square = tensor @ tensor
        traces = [m.diagonal(dim1=-2, dim2=-1).sum(-1) for m in (square, square @ square)]
        sixth = cube.square().sum((-1, -2))
        moments = s**2 * (3 * traces[0] * traces[1] + sixth).mean() / 45
        assert float(out_of_reach.square().sum((-1, -2)).mean()) == pytest.approx(
            float(moments), rel=0.15
        )
    assert shares[0.0005] < 0.02
    assert shares[0.3] > 0.5


def test_without_strength_it_is_the_inertia_task() -> None:
    assert modified_inertia("text", 3, 0) == inertia(3)
    assert modified_inertia("reference", 3, 0.0).misspecified == (SL(3),)
    assert o5_invariant().approximately == o5_invariant().misspecified == ()


def test_modified_inertia_is_a_task_like_others() -> None:
    task = modified_inertia("reference")
    assert task.name == "modified_inertia('reference', 5, 0.3)"
    assert task == modified_inertia("reference") != modified_inertia()
    assert hash(task) == hash(modified_inertia("reference"))
    x, y = task.draw(200, generator=0)
    assert torch.equal(x, inertia().draw(200, generator=0)[0])
    assert torch.equal(pickle.loads(pickle.dumps(task)).target(x), y)
    scaling = task.standardisation(x, y)
    g = task.symmetry.group.sample(200, generator=0).dense()
    torch.testing.assert_close(
        scaling.outputs(task.symmetry.apply_out(g, y)),
        task.symmetry.apply_out(g, scaling.outputs(y)),
        rtol=1e-10,
        atol=1e-10,
    )
    assert len(task.splits(7, validation=2, test=3, generator=0).train[0]) == 7


# --- the wind --------------------------------------------------------------------------------


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_wind_is_a_constant_force(formula: str) -> None:
    calm, windy = double_spring_pendulum(formula), windy_pendulum(0.02, formula)
    z = calm.initial(20, generator=0)
    force = 0.02 * torch.tensor([-8.0, -5.0, 0.0], dtype=torch.float64)
    expected = calm.field(z) + torch.cat([torch.zeros(6, dtype=torch.float64), force, force])
    torch.testing.assert_close(windy.field(z), expected, rtol=0, atol=1e-12)
    x1, x2 = z[:, :3], z[:, 3:6]
    torch.testing.assert_close(
        windy.hamiltonian(z), calm.hamiltonian(z) - (x1 + x2) @ force, rtol=0, atol=1e-12
    )
    assert windy.field(z.float()).dtype == torch.float32


def test_the_reflection_along_the_wind_is_exact() -> None:
    system = windy_pendulum()
    group = system.symmetry.group
    assert group.order() == 2
    (mirror,) = (h.dense() for h in group.discrete)
    across = torch.tensor([-5.0, 8.0, 0.0], dtype=torch.float64) / math.sqrt(89)
    expected = torch.eye(3, dtype=torch.float64) - 2 * torch.outer(across, across)
    torch.testing.assert_close(mirror, expected, rtol=0, atol=1e-15)
    z = system.initial(50, generator=0)
    moved = system.symmetry.apply(mirror, z)
    assert (moved - z).abs().max() > 0.1
    torch.testing.assert_close(system.hamiltonian(moved), system.hamiltonian(z), rtol=0, atol=1e-13)
    torch.testing.assert_close(
        system.field(moved),
        system.symmetry.apply_out(mirror, system.field(z)),
        rtol=0,
        atol=1e-13,
    )
    Symmetry(O2eR3(), 4 * V, 4 * V).restrict(group)


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_wind_breaks_the_rotations_by_the_stated_little(formula: str) -> None:
    system = windy_pendulum(formula=formula)
    assert system.approximately == (O2eR3(),)
    error = field_violation(system, O2eR3())
    assert mean_square(error) == pytest.approx(4 * 0.01**2 * 89, rel=0.05)
    size = math.sqrt(mean_square(system.field(system.initial(4000, generator=1))))
    assert 0.05 < math.sqrt(mean_square(error)) / size < 0.2
    # each element by itself: a turn by θ moves w by 2 |w| sin(θ/2), for both masses
    angle = torch.tensor(0.7, dtype=torch.float64)
    turn = torch.eye(3, dtype=torch.float64)
    turn[:2, :2] = torch.stack([angle.cos(), -angle.sin(), angle.sin(), angle.cos()]).view(2, 2)
    z = system.initial(5, generator=0)
    act = Symmetry(O2eR3(), 4 * V, 4 * V)
    change = system.field(act.apply(turn, z)) - act.apply_out(turn, system.field(z))
    stated = 0.01 * math.sqrt(2 * 89) * 2 * math.sin(0.35)
    assert change.norm(dim=-1).tolist() == pytest.approx([stated] * 5, rel=1e-9)


def test_energy_stays_and_angular_momentum_does_not() -> None:
    system, times = windy_pendulum(0.05), torch.linspace(0, 5, 4, dtype=torch.float64)
    z = system.flow(system.initial(5, generator=0), times)
    assert sorted(system.conserved) == ["energy"]
    energy = system.conserved["energy"](z)
    assert (energy - energy[:, :1]).abs().max() < 1e-9
    spin = double_spring_pendulum().conserved["angular momentum"](z)
    assert (spin - spin[:, :1]).abs().max() > 0.1


def test_windy_chunks_and_splits() -> None:
    system = windy_pendulum()
    splits = system.splits(4, validation=2, test=3, horizon=1.0, generator=0)
    assert splits.train.z.shape == (4, 5, 12)
    assert splits.test.z.shape == (3, 5, 12)
    torch.testing.assert_close(
        system.flow(splits.test.z0, splits.test.times), splits.test.z, rtol=0, atol=1e-9
    )
    still = double_spring_pendulum().splits(4, validation=2, test=3, horizon=1.0, generator=0)
    assert 1e-6 < (still.test.z - splits.test.z).abs().max() < 0.2


def test_without_wind_it_is_the_double_spring_pendulum() -> None:
    assert windy_pendulum(0, "reference") == double_spring_pendulum("reference")
    assert windy_pendulum(0.0) == double_spring_pendulum()
    assert windy_pendulum() == windy_pendulum(0.01, "text") != windy_pendulum(0.02)
    assert windy_pendulum(2).name == "windy_pendulum(2, 'text')"
    z = windy_pendulum().initial(3, generator=0)
    kept = pickle.loads(pickle.dumps(windy_pendulum()))
    assert torch.equal(kept.field(z), windy_pendulum().field(z))


# --- groups that are no symmetry -------------------------------------------------------------


def test_inertia_has_nothing_of_the_special_linear_group() -> None:
    task = inertia()
    assert task.misspecified == (SL(3),)
    # a unit mass on the y axis: I = diag(1, 0, 1), and g = diag(2, 1/2, 1) moves it to y = 1/2
    x = torch.tensor([1.0, 0.0, 1.0, 0.0])
    g = torch.tensor([2.0, 0.5, 1.0]).diag()
    act = Symmetry(SL(3), Scalar + V, V * V)
    assert inertia(1).target(act.apply(g, x)).tolist() == [0.25, 0, 0, 0, 0, 0, 0, 0, 0.25]
    assert act.apply_out(g, inertia(1).target(x)).tolist() == [4, 0, 0, 0, 0, 0, 0, 0, 1]
    size = mean_square(task.draw(4000, generator=1)[1])
    assert mean_square(violation(task, SL(3))) > 0.25 * size
    assert mean_square(violation(task, SO(3))) < 1e-20 * size


@pytest.mark.parametrize("formula", FORMULAS)
def test_the_pendulum_knows_which_way_is_down(formula: str) -> None:
    system = double_spring_pendulum(formula)
    assert system.misspecified == (SO(3),)
    error = field_violation(system, SO(3))
    # only the weight is left: √2 ‖e − ge‖, of mean square 4 over the rotations
    assert mean_square(error) == pytest.approx(4.0, rel=0.05)
    size = mean_square(system.field(system.initial(4000, generator=1)))
    assert mean_square(error) > 0.5 * size
    if formula == "text":
        assert math.sqrt(size) == pytest.approx(1.6, abs=0.05)
    assert error[:, :6].abs().max() < 1e-12


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, True, "1", None], ids=str)
def test_strengths_are_finite_numbers(value: object) -> None:
    with pytest.raises(ValueError, match=r"expected a finite number as the strength, got"):
        modified_inertia("text", 5, value)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a finite number as the wind, got"):
        windy_pendulum(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("amount", [0, 0.1], ids=str)
def test_formulas_and_points_are_checked(amount: float) -> None:
    with pytest.raises(ValueError, match=r"expected the formula 'text' or 'reference', got 'x'"):
        modified_inertia("x", 5, amount)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected the formula 'text' or 'reference', got 'x'"):
        windy_pendulum(amount, "x")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a number of points of at least 1, got 0"):
        modified_inertia("text", 0, amount)
