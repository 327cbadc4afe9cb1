import sys
from collections.abc import Sequence
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isotropy.rl import (
    dynamics_error,
    environment_symmetry,
    known_environments,
    make_environment,
)
from isotropy.rl._environment_descriptions import descriptions

gymnasium = pytest.importorskip("gymnasium")
pytest.importorskip("mujoco")

pytestmark = pytest.mark.filterwarnings("ignore:.*out of date:DeprecationWarning")
MUJOCO = [id for id in known_environments() if not id.startswith(("CartPole", "Pendulum"))]
# the joints of each model, by the names of the parts that describe them
JOINTS = {
    "torso": "rooty", "front": "free_body_rot", "joint 1": "motor1_rot", "joint 2": "motor2_rot",
    "thigh": "thigh_joint", "leg": "leg_joint", "foot": "foot_joint", "pole": "hinge",
    "lower pole": "hinge", "upper pole": "hinge2", "shoulder": "joint0", "elbow": "joint1",
    "forearm": "joint1",
}  # fmt: skip


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo writes its warnings to a file in the current folder."""
    monkeypatch.chdir(tmp_path)


def signed(index: Sequence[int], signs: Sequence[int] | None = None) -> torch.Tensor:
    rows = torch.eye(len(index), dtype=torch.float64)[list(index)]
    return rows * torch.tensor(signs or [1] * len(index), dtype=torch.float64)[:, None]


def the_one(id: str, name: str | None = None) -> tuple[torch.Tensor, torch.Tensor]:
    """What the only other element of Z(2) does."""
    symmetry = environment_symmetry(id, name)
    observation, action = symmetry.matrices(symmetry.elements())
    assert len(observation) == 2
    return observation[1], action[1]


def joint_name(id: str, part: str) -> str:
    words = part.removesuffix(" rate").split()
    if id.startswith("Ant") and words[0] == "leg":
        return f"{words[2]}_{words[1]}"
    if id.startswith("HalfCheetah") and len(words) == 2:
        return words[0][0] + words[1]
    if id.startswith("Walker2d") and len(words) == 2:
        return f"{words[1]}_{'left_' if words[0] == 'left' else ''}joint"
    if id.startswith("Humanoid"):
        return "_".join(words).replace("shoulder_", "shoulder")
    return JOINTS[" ".join(words)]


@pytest.mark.parametrize("id", MUJOCO)
def test_axes_are_those_of_the_model(id: str) -> None:
    model = make_environment(id).unwrapped.model
    description = descriptions()[id]
    checked = 0
    for part in [*description.observation, *description.action]:
        if part.kind not in ("hinge", "direction"):
            continue
        joint = model.joint(joint_name(id, part.name))
        axis = joint.axis / np.linalg.norm(joint.axis)
        assert np.allclose(axis, part.axes[0]), part.name
        checked += 1
    assert checked >= 2


@pytest.mark.parametrize("id", [id for id in MUJOCO if "Pendulum" not in id])
def test_actions_drive_the_described_joints(id: str) -> None:
    model = make_environment(id).unwrapped.model
    driven = [model.joint(int(joint)).name for joint in model.actuator_trnid[:, 0]]
    assert driven == [joint_name(id, part.name) for part in descriptions()[id].action]
    assert (model.actuator_gear[:, 0] > 0).all()


@pytest.mark.parametrize("id", known_environments())
def test_sizes_and_finite_orders(id: str) -> None:
    env = make_environment(id)
    names = known_environments()[id]
    assert environment_symmetry(env).name == environment_symmetry(env, names[0]).name
    for name in names:
        symmetry = environment_symmetry(env, name)
        size = symmetry.observation_size, symmetry.action_size
        discrete = hasattr(env.action_space, "n")
        actions = env.action_space.n if discrete else env.action_space.shape[0]
        assert size == (env.observation_space.shape[0], actions), name
        assert len(symmetry.observation_names or ()) == size[0]


def test_walker() -> None:
    observation, action = the_one("Walker2d-v5")
    order = [0, 1, 5, 6, 7, 2, 3, 4, 8, 9, 10, 14, 15, 16, 11, 12, 13]
    assert torch.equal(observation, signed(order))
    assert torch.equal(action, signed([3, 4, 5, 0, 1, 2]))


def test_hopper_and_cheetah_are_those_of_the_thesis() -> None:
    """Table A.10: R + P^5 + R + P^4 and P^3, R + P^8 + R + P^7 and P^6."""
    for id, first, second, actions in (("Hopper-v5", 5, 4, 3), ("HalfCheetah-v5", 8, 7, 6)):
        observation, action = the_one(id)
        signs = [1, *[-1] * first, 1, *[-1] * second]
        assert torch.equal(observation, signed(range(len(signs)), signs))
        assert torch.equal(action, -torch.eye(actions, dtype=torch.float64))


def test_cheetah_front_back() -> None:
    _, action = the_one("HalfCheetah-v5", "front/back")
    assert torch.equal(action, -signed([3, 4, 5, 0, 1, 2]))


def test_swimmer() -> None:
    observation, action = the_one("Swimmer-v5")
    assert torch.equal(observation, signed(range(8), [-1, -1, -1, 1, -1, -1, -1, -1]))
    assert torch.equal(action, -torch.eye(2, dtype=torch.float64))


def test_ant_mirror() -> None:
    observation, action = the_one("Ant-v5", "mirror")
    legs = [6, 7, 4, 5, 2, 3, 0, 1]
    signs = [-1, 1] * 4
    order = [*range(5), *(5 + k for k in legs), *range(13, 19), *(19 + k for k in legs)]
    torso, speed = [1, 1, -1, 1, -1], [1, -1, 1, -1, 1, -1]
    assert torch.equal(observation, signed(order, [*torso, *signs, *speed, *signs]))
    # actions begin with leg 4: that and leg 1 are exchanged, 2 and 3
    assert torch.equal(action, signed([2, 3, 0, 1, 6, 7, 4, 5], signs))


def test_ant_turn() -> None:
    """The generator worked out by hand: q r⁻¹, spin turned by 90 degrees, leg j from leg j − 1."""
    symmetry = environment_symmetry("Ant-v5")
    generator = symmetry.group.discrete[0]
    h = sqrt(0.5)
    wanted = torch.zeros(27, 27, dtype=torch.float64)
    wanted[0, 0] = 1
    wanted[1:5, 1:5] = h * torch.tensor([[1, 0, 0, 1], [0, 1, -1, 0], [0, 1, 1, 0], [-1, 0, 0, 1]])
    legs = signed([6, 7, 0, 1, 2, 3, 4, 5], [1, 1, 1, -1, 1, 1, 1, -1])
    wanted[5:13, 5:13] = wanted[19:, 19:] = legs
    wanted[13:16, 13:16] = torch.eye(3)
    wanted[16:19, 16:19] = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    found = symmetry.observation.rho(generator).dense()
    assert torch.allclose(found, wanted, atol=1e-12)
    assert symmetry.name == "D(4)"
    assert len(symmetry.elements().dense()) == 16


def test_humanoid_mirror() -> None:
    observation, action = the_one("Humanoid-v5")
    sides = [7, 8, 9, 10, 3, 4, 5, 6, 14, 15, 16, 11, 12, 13]
    pairs = [1] * 8 + [-1, -1, 1] * 2
    order = [*range(5), *(5 + k for k in [0, 1, 2, *sides])]
    order += [*range(22, 28), *(28 + k for k in [0, 1, 2, *sides])]
    signs = [1, 1, -1, 1, -1, -1, 1, -1, *pairs, 1, -1, 1, -1, 1, -1, -1, 1, -1, *pairs]
    assert torch.equal(observation, signed(order, signs))
    assert torch.equal(action, signed([0, 1, 2, *sides], [1, -1, -1, *pairs]))


def test_classic_control() -> None:
    observation, action = the_one("CartPole-v1")
    assert torch.equal(observation, -torch.eye(4, dtype=torch.float64))
    assert torch.equal(action, signed([1, 0]))
    observation, action = the_one("Pendulum-v1")
    assert torch.equal(observation, signed(range(3), [1, -1, -1]))
    assert float(action) == -1


def test_reacher_turns_as_its_kinematics() -> None:
    """The observation of the arm at a turned shoulder, with a turned target."""
    env = make_environment("Reacher-v5").unwrapped
    env.reset(seed=0)
    angle = 0.7
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    positions, velocities = np.array([0.3, -1.1, 0.05, 0.12]), np.array([0.2, 0.4, 0, 0])
    env.set_state(positions, velocities)
    before = env._get_obs()
    turned = np.concatenate([[positions[0] + angle, positions[1]], turn @ positions[2:]])
    env.set_state(turned, velocities)
    symmetry = environment_symmetry("Reacher-v5", "world rotation")
    (generator,) = symmetry.group.algebra
    moved = torch.linalg.matrix_exp(angle * symmetry.observation.drho(generator).dense())
    assert np.allclose(moved.numpy() @ before, env._get_obs())


def test_names_of_symmetries() -> None:
    assert known_environments()["Ant-v5"] == [
        "D(4)", "mirror", "world rotation", "D(4) with world rotation",
    ]  # fmt: skip
    assert environment_symmetry("Ant-v5", "world rotation").name == "SO(2)"
    assert environment_symmetry("Reacher-v5").name == "O(2)"


@pytest.mark.parametrize(
    ("id", "options", "expected"),
    [
        (
            "Ant-v5", {},
            r"of 27 entries from Ant-v5, got 105: make it with "
            r'gymnasium.make\("Ant-v5", include_cfrc_ext_in_observation=False\)',
        ),
        ("Humanoid-v5", {}, "of 45 entries from Humanoid-v5, got 348: .*include_cvel_in_obs"),
        (
            "Walker2d-v5", {"exclude_current_positions_from_observation": False},
            r'of 17 entries from Walker2d-v5, got 18: make it with gymnasium.make\("Walker2d-v5"\)'
            ", without exclude_current_positions_from_observation=False",
        ),
        ("Ant-v4", {"use_contact_forces": True}, r'got 111: make .*make\("Ant-v4"\)'),
    ],
)  # fmt: skip
def test_observations_that_do_not_fit(id: str, options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        environment_symmetry(gymnasium.make(id, **options))


def test_wrapped_and_unregistered_environments() -> None:
    made = make_environment("Swimmer-v5")
    assert environment_symmetry(made.unwrapped).name == "Z(2)"
    plain = type(made.unwrapped)()
    assert plain.spec is None
    assert environment_symmetry(plain).observation_size == 8
    with pytest.raises(ValueError, match=r"of 8 entries from Swimmer-v5, got Box\("):
        environment_symmetry(gymnasium.wrappers.ReshapeObservation(made, (2, 4)))


def test_unknown() -> None:
    with pytest.raises(
        ValueError, match=r"among Ant-v4, Ant-v5, .*, got 'Pong': .*Symmetry.described"
    ):
        environment_symmetry("Pong")
    for id, meant in (
        ("Walker2d", "Walker2d-v5"),
        ("Walker2d-v3", "Walker2d-v5"),
        ("Humanoid-v4", "Humanoid-v5"),
        ("Cartpole-v0", "CartPole-v1"),
    ):
        with pytest.raises(ValueError, match=rf"got '{id}': did you mean {meant}\? Else describe"):
            environment_symmetry(id)
    with pytest.raises(ValueError, match="got 'LunarLander-v3': describe its observation"):
        environment_symmetry("LunarLander-v3")
    with pytest.raises(ValueError, match="got 'MountainCar-v0'"):
        environment_symmetry(gymnasium.make("MountainCar-v0"))
    with pytest.raises(ValueError, match="symmetry of Hopper-v5 among mirror, got 'turn'"):
        environment_symmetry("Hopper-v5", "turn")
    with pytest.raises(TypeError, match="expected an id or a gymnasium environment, got int: 3"):
        environment_symmetry(3)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    assert environment_symmetry("Ant-v5").name == "D(4)"
    with pytest.raises(ImportError, match=r"for Ant-v5, got none: pip install \"gymnasium\[m"):
        make_environment("Ant-v5")


@pytest.mark.parametrize(
    ("id", "name"), [(id, name) for id, names in known_environments().items() for name in names]
)
def test_each_holds_as_it_says(id: str, name: str) -> None:
    """Against the simulator: steps and rewards."""
    holds = environment_symmetry(id, name).holds
    found = dynamics_error(id, name, n=40, elements=3)
    rewards = found.reward_maximum / found.reward_spread
    if holds == "exactly":
        assert found.maximum < 1e-5
        assert rewards < 1e-8
    elif holds == "in dynamics only":
        assert found.free_maximum < 1e-9
        assert rewards > 0.1
    elif holds == "approximately":
        assert max(found.free_maximum, found.contact_maximum) > 1e-3
        assert found.median < 0.4
    else:
        assert holds == "poorly"
        assert found.median > 0.4


def test_what_holds_is_not_known_of_other_observations_or_models() -> None:
    env = make_environment("Swimmer-v5")
    assert environment_symmetry(env).holds == "exactly"
    wrapped = gymnasium.wrappers.RecordEpisodeStatistics(env)
    assert environment_symmetry(wrapped).holds == "exactly"
    assert environment_symmetry(gymnasium.wrappers.NormalizeObservation(env)).holds is None
    rescaled = gymnasium.wrappers.RescaleAction(env, np.float32(-2), np.float32(2))
    assert environment_symmetry(rescaled).holds is None
    other = make_environment("Swimmer-v5", xml_file="swimmer.xml")
    assert environment_symmetry(other).holds is None


def test_wrappers_that_widen_are_named() -> None:
    env = make_environment("Swimmer-v5")
    expected = "of 8 entries from Swimmer-v5, got 9: leave out TimeAwareObservation, which changes"
    with pytest.raises(ValueError, match=expected):
        environment_symmetry(gymnasium.wrappers.TimeAwareObservation(env))
    with pytest.raises(ValueError, match=r"got Box\(.*: leave out FrameStackObservation, which"):
        environment_symmetry(gymnasium.wrappers.FrameStackObservation(env, 3))
