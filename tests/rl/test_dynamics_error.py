from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isotropy.rl import (
    EnvironmentSymmetry,
    dynamics_error,
    environment_symmetry,
    make_environment,
)
from isotropy.rl._simulators import simulator

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

pytestmark = pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("id", "name"),
    [
        ("Walker2d-v5", None),
        ("Swimmer-v5", None),
        ("Ant-v5", "D(4)"),
        ("Reacher-v5", None),
        ("Reacher-v4", None),
        ("CartPole-v1", None),
        ("Pendulum-v1", None),
    ],
)
def test_exact(id: str, name: str | None) -> None:
    found = dynamics_error(id, name, n=60, elements=6)
    assert found.maximum < 1e-12
    assert found.reward_maximum < 1e-8
    assert found.termination_disagreement == 0
    assert float(found.rewards.std()) > 1e-3 or id == "CartPole-v1"
    if id in ("Walker2d-v5", "Ant-v5"):
        assert 5 <= int(found.contact.sum()) <= 55


@pytest.mark.parametrize(
    ("id", "name", "free", "contact"),
    [
        ("Walker2d-v4", None, (0, 1e-12), (5e-3, 0.15)),
        ("Hopper-v5", None, (0.4, 3), (0.8, 9)),
        ("HalfCheetah-v5", None, (0.05, 0.3), (0.1, 0.6)),
        ("HalfCheetah-v5", "front/back", (0.08, 0.35), (0.1, 0.6)),
        ("Humanoid-v5", None, (3e-3, 2e-2), (3e-3, 2e-2)),
        ("InvertedPendulum-v5", None, (3e-4, 1e-2), None),
        ("InvertedDoublePendulum-v5", None, (1e-8, 1e-5), None),
    ],
)
def test_broken(id: str, name: str, free: tuple[float, float], contact: Any) -> None:
    found = dynamics_error(id, name, n=60)
    assert free[0] <= found.free_median <= free[1]
    if contact is None:
        assert not found.contact.any()
        assert np.isnan(found.contact_median)
    else:
        assert contact[0] <= found.contact_median <= contact[1]


def test_unequal_feet_break_the_old_walker() -> None:
    env = make_environment("Walker2d-v4")
    env.unwrapped.model.geom_friction[:] = [0.9, 0.005, 0.0001]
    found = dynamics_error(env, n=60)
    assert found.contact.any()
    assert found.maximum < 1e-12


def test_limits_of_joints_break_the_hopper() -> None:
    env = make_environment("Hopper-v5")
    whole = dynamics_error(env, n=60).free_median
    env.unwrapped.model.jnt_limited[:] = 0
    assert dynamics_error(env, n=60).free_median < 0.1 * whole


def test_friction_pyramids_break_world_rotations() -> None:
    env = make_environment("Ant-v5")
    found = dynamics_error(env, "world rotation", n=200, elements=3)
    assert found.free_maximum < 1e-12
    assert found.contact_median < 1e-12
    assert 1e-6 < found.contact_maximum < 0.1
    assert found.reward_median > 0.1
    env.unwrapped.model.opt.cone = 1  # elliptic
    assert dynamics_error(env, "world rotation", n=200, elements=3).maximum < 1e-10


def test_the_measure_itself() -> None:
    """A negated action only, against a hand-made pair of steps."""
    env = make_environment("Swimmer-v5")
    wrong = EnvironmentSymmetry.of([torch.eye(8)], [-torch.eye(2)])
    state = np.linspace(-0.4, 0.5, 8)
    action = np.array([0.3, -0.8])
    found = dynamics_error(env, wrong, states=[state], policy=lambda seen: action)
    inner = env.unwrapped
    ends = []
    for push in (action, -action):
        inner.data.qacc_warmstart[:] = 0
        inner.set_state(np.array([0, 0, *state[:3]]), state[3:])
        reward = inner.step(push)[1]
        ends.append((np.concatenate([inner.data.qpos, inner.data.qvel]), reward))
    (one, reward), (other, another) = ends
    wanted = np.linalg.norm(one - other) / np.linalg.norm(one - [0, 0, *state])
    assert found.maximum == pytest.approx(wanted, rel=1e-9)
    assert found.maximum > 0.01
    assert found.reward_maximum == pytest.approx(abs(reward - another), rel=1e-9)


def test_unobserved_positions_move_with_their_velocities() -> None:
    swimmer = simulator(make_environment("Swimmer-v5"))
    symmetry = environment_symmetry("Swimmer-v5")
    (_, matrix) = symmetry.matrices(symmetry.elements())[0]
    whole = swimmer.on_states(matrix[None].numpy())[0]
    assert np.array_equal(whole[:2, :2], np.diag([1, -1]))
    assert np.array_equal(whole[2:, 2:], matrix.numpy())
    assert not whole[:2, 2:].any()


@pytest.mark.parametrize(
    "id", ["Ant-v5", "Reacher-v5", "InvertedDoublePendulum-v5", "Pendulum-v1", "CartPole-v1"]
)
def test_states_go_round(id: str) -> None:
    simulated = simulator(make_environment(id))
    simulated.reset(3)
    for _ in range(4):
        space = simulated.env.action_space
        simulated.step(space.sample() if hasattr(space, "n") else 0.3 * space.high)
    state = simulated.at_origin(simulated.state())
    simulated.put(state)
    # positions of bodies, such as Reacher's fingertip, lag behind those of joints after a step
    known = slice(8) if id == "Reacher-v5" else slice(None)
    assert np.allclose(simulated.state()[known], state[known], atol=1e-12)
    assert np.allclose(simulated.state(), state, atol=1e-4)


class Ball(gymnasium.Env):  # type: ignore[misc, name-defined]
    """A ball on a plane in a wind: its state is what is observed."""

    def __init__(self, wind: float) -> None:
        self.observation_space = gymnasium.spaces.Box(-9, 9, (4,), np.float64)
        self.action_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
        self.wind = np.array([wind, 0.0])
        self.at = np.zeros(4)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.at = self.np_random.standard_normal(4)
        return self.at.copy(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action)
        speed = 0.9 * self.at[2:] + 0.1 * action + self.wind
        self.at = np.concatenate([self.at[:2] + 0.1 * speed, speed])
        return self.at.copy(), -float(np.linalg.norm(self.at[:2])), False, False, {}


def put(env: Any, observation: np.ndarray) -> None:
    env.unwrapped.at = observation


def turned(signs: list[float]) -> EnvironmentSymmetry:
    flip = torch.tensor(signs).diag()
    return EnvironmentSymmetry.of([torch.block_diag(flip, flip)], [flip])


def test_an_environment_of_ones_own() -> None:
    still, windy = Ball(0.0), Ball(0.05)
    for env, signs, exact in (
        (still, [-1.0, 1.0], True),
        (windy, [1.0, -1.0], True),
        (windy, [-1.0, 1.0], False),
    ):
        found = dynamics_error(env, turned(signs), set_state=put, n=20)
        assert (found.maximum < 1e-6) is exact
    assert found.name == "Ball, Z(2)"


def test_an_environment_whose_state_cannot_be_set() -> None:
    with pytest.raises(ValueError, match=r"set_state= that puts it .*, got Ball"):
        dynamics_error(Ball(0.0), turned([-1.0, 1.0]))


def test_clear_errors() -> None:
    with pytest.raises(ValueError, match=r"observations of 4 entries, .* got Box\("):
        dynamics_error("Swimmer-v5", environment_symmetry("CartPole-v1"))
    with pytest.raises(ValueError, match="of 27 entries from Ant-v5, got 105: make it with"):
        dynamics_error(gymnasium.make("Ant-v5"))
    signs = EnvironmentSymmetry.of([-torch.eye(4)], [-torch.eye(2)])
    with pytest.raises(ValueError, match="expected a symmetry that permutes discrete actions"):
        dynamics_error("CartPole-v1", signs)
    with pytest.raises(ValueError, match=r"expected states of shape \(n, 4\), got \[3\]"):
        dynamics_error("CartPole-v1", states=[0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match=r"expected at least one state .*, got n=0 and elements"):
        dynamics_error("CartPole-v1", n=0)
    with pytest.raises(TypeError, match="expected an id or a gymnasium environment, got object"):
        dynamics_error(object())


def test_it_is_seeded() -> None:
    first, second, other = (dynamics_error("Hopper-v5", n=10, seed=k) for k in (1, 1, 2))
    assert torch.equal(first.errors, second.errors)
    assert not torch.equal(first.errors, other.errors)


def test_text() -> None:
    text = str(dynamics_error("Walker2d-v5", n=60)).splitlines()
    assert text[0] == "Walker2d-v5, Z(2) (mirror across y, left <-> right): 60 states, 1 element"
    assert text[1].split() == ["median", "maximum"]
    assert [line.split("  ")[0] or line.split()[0] for line in text[2:]] == [
        "dynamics", "no", "contact", "reward", "of", "ended differently: 0 of 60",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrapper", "options"),
    [
        ("NormalizeObservation", {}),
        ("NormalizeReward", {}),
        ("RescaleAction", {"min_action": np.float32(-2), "max_action": np.float32(2)}),
        ("TransformReward", {"func": abs}),
    ],
)
def test_wrappers_that_change_what_is_seen_are_refused(wrapper: str, options: Any) -> None:
    env = getattr(gymnasium.wrappers, wrapper)(make_environment("Swimmer-v5"), **options)
    symmetry = environment_symmetry("Swimmer-v5")
    with pytest.raises(ValueError, match=rf"got one within {wrapper}: measure env.unwrapped"):
        dynamics_error(env, symmetry)
    assert dynamics_error(env.unwrapped, symmetry, n=3).maximum < 1e-12


class Shifted(gymnasium.ObservationWrapper):  # type: ignore[misc, name-defined]
    """Positions from elsewhere: a mirror about the origin no longer holds."""

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation + np.array([1.0, 0, 0, 0])


def put_shifted(env: Any, observation: np.ndarray) -> None:
    env.unwrapped.at = observation - np.array([1.0, 0, 0, 0])


def test_steps_go_through_wrappers_with_set_state() -> None:
    symmetry = turned([-1.0, 1.0])
    windy = Ball(0.05)
    inner = dynamics_error(Ball(0.0), symmetry, set_state=put, n=10)
    outer = dynamics_error(Shifted(Ball(0.0)), symmetry, set_state=put_shifted, n=10)
    assert inner.maximum < 1e-6
    assert inner.reward_maximum < 1e-6
    # free motion does not know where it is; what is paid for the distance does
    assert outer.maximum < 1e-6
    assert outer.reward_maximum > 0.1
    with pytest.raises(ValueError, match="got one within Shifted"):
        dynamics_error(Shifted(windy), symmetry)


def test_a_wrong_set_state_is_noticed() -> None:
    def nothing(env: Any, observation: np.ndarray) -> None:
        pass

    def no_speed(env: Any, observation: np.ndarray) -> None:
        env.unwrapped.at = np.concatenate([observation[:2], [0.0, 0.0]])

    expected = "expected set_state to restore the state of an observation, got a next state"
    for wrong in (nothing, no_speed, put_shifted):
        with pytest.raises(ValueError, match=expected):
            dynamics_error(Ball(0.0), turned([-1.0, 1.0]), set_state=wrong)


def test_monitored_environments_are_measured() -> None:
    monitor = pytest.importorskip("stable_baselines3.common.monitor").Monitor
    env = monitor(make_environment("Walker2d-v5"))
    assert dynamics_error(env, n=10).maximum < 1e-12


def test_rows_without_states_are_left_out() -> None:
    found = dynamics_error("Walker2d-v5", n=60)
    touching = found.contact
    parts = (found.errors, found.contact, found.rewards, found.reward_differences)
    ended = found.termination_differs
    alone = type(found)("n", *(part[touching] for part in parts), ended[touching])  # type: ignore[call-arg]
    free = type(found)("n", *(part[~touching] for part in parts), ended[~touching])  # type: ignore[call-arg]
    assert "no contact" in str(found)
    assert "nan" not in str(alone)
    assert "no contact" not in str(alone)
    assert "  contact" in str(alone)
    assert "contact" not in str(free)
