"""Hamiltonian systems: the field, the flow, what is conserved, chunks, and rollout errors."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import solve_ivp

from isotropy.groups import SO, DkeR3, O2eR3, SO2eR3
from isotropy.reps import Scalar, Symmetry, V
from isotropy_papers.hamiltonian_systems import HamiltonianSystem, double_spring_pendulum
from isotropy_papers.rollout_errors import geometric_mean, relative_error

FORMULAS = {"text": 0.5, "reference": 1.0}


def oscillator() -> HamiltonianSystem:
    return HamiltonianSystem(
        "oscillator",
        Symmetry(SO(2), V, V),
        lambda z: z.square().sum(-1) / 2,
        lambda n, rng: torch.randn(n, 2, dtype=torch.float64, generator=rng),
    )


def energy_by_hand(z: np.ndarray, second: float) -> float:
    x1, x2, p1, p2 = z.reshape(4, 3)
    stretch1, stretch2 = np.sqrt(x1 @ x1) - 1, np.sqrt((x1 - x2) @ (x1 - x2)) - 1
    springs = stretch1**2 / 2 + second * stretch2**2
    return (p1 @ p1 + p2 @ p2) / 2 + springs + x1[2] + x2[2]


def field_by_hand(z: np.ndarray, second: float) -> np.ndarray:
    """Newton's equations: velocities are momenta, forces those of springs and weight."""
    x1, x2, p1, p2 = z.reshape(4, 3)
    weight = np.array([0.0, 0.0, -1.0])
    length1, length2 = np.linalg.norm(x1), np.linalg.norm(x2 - x1)
    on_first = -(length1 - 1) * x1 / length1
    on_second = -2 * second * (length2 - 1) * (x2 - x1) / length2
    return np.concatenate([p1, p2, on_first - on_second + weight, on_second + weight])


# --- the equations ---------------------------------------------------------------------------


@pytest.mark.parametrize(("formula", "second"), FORMULAS.items())
def test_energy_and_field_are_those_by_hand(formula: str, second: float) -> None:
    system = double_spring_pendulum(formula)
    z = system.initial(30, generator=0) * 1.3
    energies = [energy_by_hand(row, second) for row in z.numpy()]
    fields = np.stack([field_by_hand(row, second) for row in z.numpy()])
    np.testing.assert_allclose(system.hamiltonian(z).numpy(), energies, rtol=1e-13)
    np.testing.assert_allclose(system.field(z).numpy(), fields, rtol=1e-12, atol=1e-13)
    np.testing.assert_array_equal(system._quick_field(z.clone()).numpy(), system.field(z).numpy())


@pytest.mark.parametrize("formula", FORMULAS)
def test_energy_is_invariant_and_the_field_equivariant(formula: str) -> None:
    system = double_spring_pendulum(formula)
    z = system.initial(200, generator=1)
    for group in (system.symmetry.group, *system.also):
        g = group.sample(200, generator=2)
        moved = system.symmetry.apply(g, z)
        torch.testing.assert_close(
            system.hamiltonian(moved), system.hamiltonian(z), rtol=0, atol=1e-12
        )
        expected = system.symmetry.apply_out(g, system.field(z))
        torch.testing.assert_close(system.field(moved), expected, rtol=0, atol=1e-12)


def test_groups_are_those_of_the_paper() -> None:
    system = double_spring_pendulum()
    assert system.symmetry == Symmetry(O2eR3(), 4 * V, 4 * V)
    assert system.also == (SO2eR3(), DkeR3(6), DkeR3(2))


def test_the_field_keeps_shape_and_precision_and_can_be_differentiated() -> None:
    system = double_spring_pendulum()
    z = system.initial(6, generator=0)
    assert torch.equal(system.field(z.reshape(2, 3, 12)), system.field(z).reshape(2, 3, 12))
    assert system.field(z.float()).dtype == torch.float32
    jacobian = torch.func.jacrev(system.field)(z[0])
    # a Hamiltonian field has J⁻¹ DF symmetric: it is the Hessian
    hessian = torch.cat([-jacobian[6:], jacobian[:6]])
    torch.testing.assert_close(hessian, hessian.T, rtol=0, atol=1e-12)
    state = z.clone().requires_grad_()
    system.field(state).sum().backward()
    assert state.grad is not None
    assert state.grad.abs().sum() > 0


def test_initial_states_have_the_stated_distribution() -> None:
    z = double_spring_pendulum().initial(40_000, generator=0)
    mean, std = torch.zeros(12).double(), torch.tensor([0.2] * 6 + [0.4] * 6).double()
    mean[2], mean[5] = -1.5, -3.0
    assert torch.allclose(z.mean(0), mean, atol=0.01)
    assert torch.allclose(z.std(0), std, atol=0.01)


# --- the flow --------------------------------------------------------------------------------


def test_the_oscillator_turns() -> None:
    times = torch.tensor([0.0, 0.3, 1.0, 7.5, 20.0], dtype=torch.float64)
    z = oscillator().trajectories(3, times, generator=0)
    q, p = z[:, :1, 0], z[:, :1, 1]
    expected = torch.stack(
        [q * times.cos() + p * times.sin(), p * times.cos() - q * times.sin()], -1
    )
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("formula", "second"), FORMULAS.items())
def test_trajectories_agree_with_another_integrator(formula: str, second: float) -> None:
    system = double_spring_pendulum(formula)
    times = torch.linspace(0, 5, 4, dtype=torch.float64)
    z0 = system.initial(2, generator=3)
    z = system.flow(z0, times)
    peer = solve_ivp(
        lambda _, state: field_by_hand(state, second),
        (0, 5),
        z0[1].numpy(),
        method="LSODA",
        t_eval=times.numpy(),
        rtol=1e-11,
        atol=1e-11,
    )
    np.testing.assert_allclose(z[1].numpy(), peer.y.T, rtol=0, atol=1e-8)


def test_energy_and_angular_momentum_are_conserved_for_thirty_seconds() -> None:
    system = double_spring_pendulum()
    z = system.trajectories(20, torch.arange(0, 31, 6), generator=0)
    assert (z[:, -1] - z[:, 0]).norm(dim=-1).min() > 0.1
    for name in ("energy", "angular momentum"):
        value = system.conserved[name](z)
        assert (value - value[:, :1]).abs().max() < 1e-9


def test_angular_momentum_is_that_of_cross_products() -> None:
    z = double_spring_pendulum().initial(5, generator=0)
    x1, x2, p1, p2 = (part.numpy() for part in z.split(3, -1))
    expected = (np.cross(x1, p1) + np.cross(x2, p2))[:, 2]
    actual = double_spring_pendulum().conserved["angular momentum"](z)
    np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-12)


def test_time_runs_backwards_when_momenta_are_reversed() -> None:
    system = double_spring_pendulum()
    times = torch.tensor([0.0, 6.0])
    flip = torch.tensor([1.0] * 6 + [-1.0] * 6, dtype=torch.float64)
    z0 = system.initial(4, generator=5)
    there = system.flow(z0, times)[:, -1]
    back = system.flow(there * flip, times)[:, -1] * flip
    torch.testing.assert_close(back, z0, rtol=0, atol=1e-9)


def test_flow_takes_any_leading_shape_and_leaves_its_input_alone() -> None:
    system, times = oscillator(), torch.tensor([2.0, 2.5, 4.0])
    z0 = torch.randn(2, 3, 2, generator=torch.Generator().manual_seed(0))
    kept = z0.clone()
    z = system.flow(z0, times)
    assert z.shape == (2, 3, 3, 2)
    assert z.dtype == torch.float64
    assert torch.equal(z[..., 0, :], z0.double())
    assert torch.equal(z0, kept)
    torch.testing.assert_close(z[1, 2], system.flow(z0[1, 2], times), rtol=0, atol=1e-10)
    assert system.flow(z0, times[:1]).shape == (2, 3, 1, 2)


# --- chunks ----------------------------------------------------------------------------------


def test_chunks_are_stretches_of_one_trajectory() -> None:
    system = oscillator()
    z0, times, z = system.chunks(200, length=4, step=0.5, horizon=9.0, generator=0)
    assert torch.equal(times, torch.tensor([0.0, 0.5, 1.0, 1.5], dtype=torch.float64))
    assert torch.equal(z0, z[:, 0])
    torch.testing.assert_close(z, system.flow(z0, times), rtol=0, atol=1e-10)
    # 18 states make four stretches of four; the phase tells which one a chunk is
    start = system.initial(200, generator=0)
    angle = torch.atan2(start[:, 1], start[:, 0]) - torch.atan2(z0[:, 1], z0[:, 0])
    turned = (angle + 0.1) % (2 * torch.pi) - 0.1
    begins = torch.tensor([0.0, 2.0, 4.0, 6.0], dtype=torch.float64)
    distance = (turned[:, None] - begins).abs()
    assert distance.min(1).values.max() < 1e-9
    assert (distance.argmin(1).bincount(minlength=4) > 25).all()


def test_default_chunks_are_those_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def still(self: HamiltonianSystem, z0: torch.Tensor, times: torch.Tensor, **_: float):
        asked.append(times)
        return z0.unsqueeze(-2).expand(-1, len(times), -1)

    monkeypatch.setattr(HamiltonianSystem, "flow", still)
    splits = double_spring_pendulum().splits(generator=0)
    assert [len(times) for times in asked] == [150, 150, 150]
    assert asked[0][-1].item() == pytest.approx(29.8)
    for part in (splits.train, splits.validation, splits.test):
        assert part.z.shape == (500, 5, 12)
        assert part.times.tolist() == pytest.approx([0.0, 0.2, 0.4, 0.6, 0.8])


def test_test_chunks_do_not_depend_on_the_training_size() -> None:
    few, many = (
        oscillator().splits(n, validation=4, test=5, horizon=3.0, generator=0) for n in (2, 30)
    )
    assert torch.equal(few.test.z, many.test.z)
    assert torch.equal(few.validation.z, many.validation.z)
    assert many.train.z.shape == (30, 5, 2)
    assert not torch.equal(many.train.z[:5], many.test.z)


def test_systems_repeat_compare_and_pickle() -> None:
    assert double_spring_pendulum() == double_spring_pendulum("text")
    assert double_spring_pendulum() != double_spring_pendulum("reference")
    assert hash(double_spring_pendulum()) == hash(double_spring_pendulum())
    kept = pickle.loads(pickle.dumps(double_spring_pendulum("reference")))
    z = kept.initial(2, generator=0)
    assert torch.equal(z, double_spring_pendulum().initial(2, generator=0))
    assert torch.equal(kept.field(z), double_spring_pendulum("reference").field(z))


# --- errors of rollouts ----------------------------------------------------------------------


@given(st.lists(st.floats(-10, 10), min_size=4, max_size=4))
def test_relative_error_is_symmetric_and_at_most_one(values: list[float]) -> None:
    a, b = torch.tensor(values, dtype=torch.float64).reshape(2, 2)
    error = relative_error(a, b)
    assert error == relative_error(b, a)
    assert 0 <= error <= 1 + 1e-12
    size = np.hypot(*a.tolist()) + np.hypot(*b.tolist())
    expected = np.hypot(*(a - b).tolist()) / size if size > 1e-150 else 0.0
    if size > 1e-150 or size == 0:
        assert error.item() == pytest.approx(expected)


def test_relative_error_along_the_last_axis() -> None:
    a, b = torch.zeros(5, 3, 2), torch.zeros(5, 3, 2)
    a[1, 2] = torch.tensor([3.0, 4.0])
    b[4] = -1.0
    expected = torch.zeros(5, 3)
    expected[1, 2] = 1.0
    expected[4] = 1.0
    assert torch.equal(relative_error(a, b), expected)


def test_geometric_mean_weights_all_alike_with_a_floor() -> None:
    errors = torch.tensor([[0.0, 0.1, 0.2], [1e-9, 0.4, 0.5]], dtype=torch.float64)
    by_hand = (1e-5 * 0.1 * 0.2 * 1e-5 * 0.4 * 0.5) ** (1 / 6)
    assert geometric_mean(errors).item() == pytest.approx(by_hand)
    assert geometric_mean(errors, floor=0.3).item() == pytest.approx((0.3**4 * 0.2) ** (1 / 6))


def test_geometric_mean_over_uneven_times_is_an_integral() -> None:
    # log error = -t: its mean over [0, 4] is -2 and the trapezoid rule is exact
    times = torch.tensor([0.0, 0.1, 3.0, 4.0], dtype=torch.float64)
    errors = torch.exp(-times).expand(5, -1)
    assert geometric_mean(errors, times).item() == pytest.approx(np.exp(-2))
    assert geometric_mean(errors).item() != pytest.approx(np.exp(-2))


# --- bad input -------------------------------------------------------------------------------


def test_bad_input() -> None:
    system = oscillator()
    times = torch.tensor([0.0, 1.0])
    with pytest.raises(ValueError, match=r"expected the formula 'text' or 'reference', got 'x'"):
        double_spring_pendulum("x")  # type: ignore[arg-type]
    for symmetry in (Symmetry(SO(3), V, V), Symmetry(SO(2), V, Scalar)):
        with pytest.raises(ValueError, match=r"as many positions as momenta.* got widths"):
            HamiltonianSystem("odd", symmetry, lambda z: z.sum(-1), lambda n, _: torch.ones(n, 3))
    for call in (system.field, lambda z: system.flow(z, times)):
        with pytest.raises(ValueError, match=r"expected states of width 2 for oscillator, got"):
            call(torch.ones(4, 3))
    with pytest.raises(ValueError, match=r"expected a number of trajectories of at least 1, got 0"):
        system.trajectories(0, times)
    for state in (torch.tensor([1.0, torch.nan]), torch.ones(0, 2)):
        with pytest.raises(ValueError, match=r"expected at least one state, all finite, got"):
            system.flow(state, times)
    for wrong in ([1.0, 0.0], [0.0, 0.0], [0.0, torch.inf], [], [[0.0, 1.0]]):
        with pytest.raises(ValueError, match=r"expected increasing finite times of shape \(m,\)"):
            system.flow(torch.ones(2), torch.tensor(wrong))
    with pytest.raises(ValueError, match=r"expected rtol >= 2\.2e-14 and atol > 0, got 1e-15"):
        system.flow(torch.ones(2), times, rtol=1e-15)
    with pytest.raises(ValueError, match=r"expected rtol .* and atol > 0, got 0\.001 and 0"):
        system.flow(torch.ones(2), times, rtol=1e-3, atol=0)


def test_bad_input_for_chunks() -> None:
    with pytest.raises(ValueError, match=r"number of states in a chunk of at least 1, got 0"):
        oscillator().chunks(3, length=0)
    for wrong in ({"horizon": 0.9}, {"step": 0.0}, {"step": -1.0}, {"horizon": torch.inf}):
        with pytest.raises(ValueError, match=r"expected a positive step and a horizon of at least"):
            oscillator().chunks(3, **wrong)


def test_a_solution_that_ends_is_reported() -> None:
    # q' = q² leaves every bound at t = 1
    system = HamiltonianSystem(
        "blow-up",
        Symmetry(SO(2), V, V),
        lambda z: z[..., 0] ** 2 * z[..., 1],
        lambda n, _: torch.ones(n, 2, dtype=torch.float64),
    )
    with pytest.raises(
        RuntimeError, match=r"of blow-up could not be followed past t = (1\.0|0\.9)"
    ):
        system.trajectories(1, torch.tensor([0.0, 2.0]))


def test_bad_input_for_the_geometric_mean() -> None:
    for errors in (torch.ones(0, 3), torch.tensor(1.0), -torch.ones(2), torch.tensor([torch.nan])):
        with pytest.raises(ValueError, match=r"expected errors of shape \(\*, m\), none of them"):
            geometric_mean(errors)
    with pytest.raises(ValueError, match=r"expected a positive floor, got 0"):
        geometric_mean(torch.ones(2), floor=0.0)
    for times in (torch.arange(3), torch.arange(1)):
        with pytest.raises(ValueError, match=r"expected at least 2 times, one for each error, got"):
            geometric_mean(torch.ones(2), times)
