"""Transitions from the buffer are images of stored ones, all parts by the same element."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("gymnasium")
pytest.importorskip("stable_baselines3")

import gymnasium
from gymnasium import spaces
from stable_baselines3 import DQN, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from isotropy.rl import (
    EnvironmentSymmetry,
    SymmetricReplayBuffer,
    environment_symmetry,
    make_environment,
)

CART = EnvironmentSymmetry.of([-torch.eye(4)], [[1, 0]])


def filled(symmetry: EnvironmentSymmetry, rows: int, **options: Any) -> SymmetricReplayBuffer:
    sizes = symmetry.observation_size, symmetry.action_size
    boxes = [spaces.Box(-1, 1, (size,)) for size in sizes]
    buffer = SymmetricReplayBuffer(rows, *boxes, device="cpu", symmetry=symmetry, **options)
    rng = np.random.default_rng(0)
    for row in range(rows):
        s, following = rng.normal(size=(2, 1, sizes[0])).astype(np.float32)
        a = rng.uniform(-1, 1, size=(1, sizes[1])).astype(np.float32)
        buffer.add(s, following, a, np.array([float(row)]), np.zeros(1), [{}])
    return buffer


@pytest.mark.parametrize("id", ["Walker2d-v5", "Swimmer-v5", "Ant-v5"])
def test_all_parts_are_transformed_by_one_element(id: str) -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  # what stable-baselines3 draws from
    symmetry = environment_symmetry(id)
    buffer = filled(symmetry, 20)
    samples = buffer.sample(400)
    on_s, on_a = (m.float() for m in symmetry.matrices(symmetry.elements()))
    stored = samples.rewards.flatten().long()
    found = torch.cat([samples.observations, samples.actions, samples.next_observations], -1)
    parts = [
        torch.from_numpy(part[stored.numpy(), 0])
        for part in (buffer.observations, buffer.actions, buffer.next_observations)
    ]
    images = torch.cat(
        [torch.einsum("kij,bj->kbi", m, x) for m, x in zip((on_s, on_a, on_s), parts, strict=True)],
        -1,
    )
    errors = (images - found).abs().amax(-1)
    assert float(errors.amin(0).max()) < 1e-5
    counts = errors.argmin(0).bincount(minlength=len(on_s)).double()
    expected = 400 / len(on_s)
    assert float((counts - expected).square().sum() / expected) < 3 * len(on_s) + 10


def test_elements_may_be_chosen() -> None:
    symmetry = environment_symmetry("Walker2d-v5")
    turned = filled(symmetry, 5, elements=symmetry.elements()[1:])
    assert turned.n_elements == 1
    samples = turned.sample(10)
    stored = samples.rewards.flatten().long().numpy()
    on_s = symmetry.matrices(symmetry.elements())[0][1].float()
    torch.testing.assert_close(
        samples.observations, torch.from_numpy(turned.observations[stored, 0]) @ on_s.mT
    )


def test_discrete_actions_are_exchanged() -> None:
    buffer = SymmetricReplayBuffer(
        2, spaces.Box(-9, 9, (4,)), spaces.Discrete(2), device="cpu", symmetry=CART
    )
    for action in (0, 1):
        s = np.full((1, 4), 1.0 + action, np.float32)
        buffer.add(s, s, np.array([[action]]), np.zeros(1), np.zeros(1), [{}])
    samples = buffer.sample(60)
    assert samples.actions.dtype == torch.int64
    pairs = {
        (int(a), int(s[0])) for a, s in zip(samples.actions, samples.observations, strict=True)
    }
    assert pairs == {(0, 1), (1, 2), (1, -1), (0, -2)}


def test_normalised_after_it_is_transformed() -> None:
    symmetry = environment_symmetry("Walker2d-v5")
    envs = VecNormalize(DummyVecEnv([lambda: make_environment("Walker2d-v5")]))
    envs.seed(0)
    envs.reset()
    envs.obs_rms.mean = np.linspace(-1, 1, 17)  # type: ignore[attr-defined]
    buffer = filled(symmetry, 1, elements=symmetry.elements()[1:])
    raw, normalised = buffer.sample(1), buffer.sample(1, env=envs)
    for part in ("observations", "next_observations"):
        expected = envs.normalize_obs(getattr(raw, part).numpy())
        torch.testing.assert_close(getattr(normalised, part), torch.from_numpy(expected))
    assert torch.equal(normalised.actions, raw.actions)


@pytest.mark.parametrize("id", ["Walker2d-v5", "Swimmer-v5", "CartPole-v1"])
def test_buffers_go_from_device_to_device(id: str) -> None:
    """``load_replay_buffer`` of stable-baselines3 sets the device and knows no more of a buffer."""
    if id == "CartPole-v1":
        buffer = SymmetricReplayBuffer(
            2, spaces.Box(-9, 9, (4,)), spaces.Discrete(2), device="cpu", symmetry=CART
        )
        for action in (0, 1):
            s = np.full((1, 4), 1.0 + action, np.float32)
            buffer.add(s, s, np.array([[action]]), np.zeros(1), np.zeros(1), [{}])
    else:
        buffer = filled(environment_symmetry(id), 5)
    which = torch.tensor([0, 1, 1])
    stored = super(SymmetricReplayBuffer, buffer)._get_samples(np.array([0, 1, 1]))
    expected = buffer.transformed(stored, which)
    buffer.device = torch.device("meta")
    assert buffer.sample(4).observations.device.type == "meta"
    # numbers on this device are lost, so a buffer that saved them there could not come back
    loaded = pickle.loads(pickle.dumps(buffer))
    loaded.device = torch.device("cpu")
    for one in (loaded, buffer):
        found = one.transformed(stored, which)
        assert torch.equal(found.observations, expected.observations)
        assert torch.equal(found.actions, expected.actions)


def test_saved_buffers_are_loaded(tmp_path: Path) -> None:
    model = SAC(
        "MlpPolicy",
        make_environment("Pendulum-v1"),
        seed=0,
        device="cpu",
        learning_starts=100,
        replay_buffer_class=SymmetricReplayBuffer,
        replay_buffer_kwargs={"symmetry": "Pendulum-v1"},
        policy_kwargs={"net_arch": [8]},
        buffer_size=50,
    )
    model.learn(20)
    model.save_replay_buffer(tmp_path / "buffer.pkl")
    model.load_replay_buffer(tmp_path / "buffer.pkl")
    buffer = model.replay_buffer
    assert isinstance(buffer, SymmetricReplayBuffer)
    assert buffer.sample(8).observations.shape == (8, 3)


def test_algorithms_learn_from_it() -> None:
    options: dict[str, Any] = {"seed": 0, "device": "cpu", "learning_starts": 20, "batch_size": 16}
    options["replay_buffer_class"] = SymmetricReplayBuffer
    model = SAC(
        "MlpPolicy",
        make_environment("Walker2d-v5"),
        replay_buffer_kwargs={"symmetry": "Walker2d-v5"},
        policy_kwargs={"net_arch": [16]},
        buffer_size=100,
        **options,
    )
    assert model.learn(30)._n_updates > 0
    other = DQN(
        "MlpPolicy",
        gymnasium.make("CartPole-v1"),
        replay_buffer_kwargs={"symmetry": CART},
        buffer_size=100,
        **options,
    )
    assert other.learn(40)._n_updates > 0


def test_limits_at_infinity_are_compared_too() -> None:
    box = spaces.Box(-1, 1, (2,))
    swap_signed = EnvironmentSymmetry.of([-np.eye(2)], [[[0.0, -1.0], [-1.0, 0.0]]])
    inf = np.inf
    fit = [([-inf, -inf], [inf, inf]), ([-1, -inf], [inf, 1]), ([-inf, -2], [2, inf])]
    unfit = [([0, 0], [inf, inf]), ([-1, -inf], [inf, 2]), ([-1, -1], [inf, 1])]
    for low, high in fit:
        space = spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
        assert SymmetricReplayBuffer(5, box, space, symmetry=swap_signed).n_elements == 2
    for low, high in unfit:
        space = spaces.Box(np.array(low, np.float32), np.array(high, np.float32))
        with pytest.raises(ValueError, match="expected limits of actions"):
            SymmetricReplayBuffer(5, box, space, symmetry=swap_signed)
    flip = EnvironmentSymmetry.of([-np.eye(2)], [[[-1.0]]])
    with pytest.raises(ValueError, match="expected limits of actions"):
        SymmetricReplayBuffer(5, box, spaces.Box(0, inf, (1,)), symmetry=flip)


def test_what_does_not_fit_is_refused() -> None:
    symmetry = environment_symmetry("Hopper-v5")
    box = spaces.Box(-1, 1, (11,))
    with pytest.raises(ValueError, match=r"expected limits of actions that Z.2. keeps"):
        SymmetricReplayBuffer(5, box, spaces.Box(0, 1, (3,)), symmetry=symmetry)
    with pytest.raises(TypeError, match="expected a symmetry"):
        SymmetricReplayBuffer(5, box, spaces.Box(-1, 1, (3,)))
    turn = [[0.0, -1.0], [1.0, 0.0]]
    rotated = EnvironmentSymmetry.of([], [], observation_algebra=[turn], action_algebra=[turn])
    plane = spaces.Box(-1, 1, (2,))
    with pytest.raises(ValueError, match="a group that mixes them, SO"):
        SymmetricReplayBuffer(5, plane, plane, symmetry=rotated)
