from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from isotropy.rl import collect_transitions, replay_transitions

gymnasium = pytest.importorskip("gymnasium")


def test_transitions_are_those_of_the_simulator() -> None:
    env = gymnasium.make("Hopper-v5")
    steps = collect_transitions(env, 80, seed=3)
    assert steps.episodes is not None
    assert steps.rewards is not None
    # the same actions in the same simulator, step by step
    state, _ = env.reset(seed=3)
    episode = 0
    for row in range(80):
        assert np.array_equal(steps.observations[row].numpy(), state)
        after, reward, terminated, truncated, _ = env.step(steps.actions[row].numpy())
        assert np.array_equal(steps.next_observations[row].numpy(), after)
        assert float(steps.rewards[row]) == reward
        assert int(steps.episodes[row]) == episode
        state = after
        if terminated or truncated:
            episode += 1
            state, _ = env.reset()
    assert episode >= 2


def test_policies_choose_the_actions() -> None:
    env = gymnasium.make("Pendulum-v1")
    steps = collect_transitions(env, 5, policy=lambda state: state[:1])
    assert torch.equal(steps.actions.double(), steps.observations[:, :1].double())

    class Still:
        def predict(self, state: Any, deterministic: bool) -> tuple[Any, None]:
            return np.zeros(1, np.float32), None

    assert not collect_transitions(env, 5, policy=Still()).actions.any()
    with pytest.raises(TypeError, match="function from observations"):
        collect_transitions(env, 5, policy=3)
    with pytest.raises(ValueError, match="positive number of transitions"):
        collect_transitions(env, 0)


def test_agents_are_seeded_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    baselines = pytest.importorskip("stable_baselines3")
    env = gymnasium.make("Pendulum-v1")
    agent = baselines.PPO("MlpPolicy", env, seed=0, device="cpu", n_steps=8, batch_size=8)
    touched: list[Any] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", touched.append)
    before = torch.get_rng_state()
    once, again, other = (
        collect_transitions(env, 12, policy=agent, seed=seed).actions for seed in (3, 3, 4)
    )
    assert torch.equal(once, again)
    assert not torch.equal(once, other)
    assert torch.equal(torch.get_rng_state(), before)
    assert not touched


def test_numbered_actions_become_columns() -> None:
    steps = collect_transitions(gymnasium.make("CartPole-v1"), 30, seed=0)
    assert steps.actions.shape == (30, 2)
    assert (steps.actions.sum(1) == 1).all()
    assert steps.actions.any(0).all()


def test_replay_buffer_in_time_order() -> None:
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    spaces = gymnasium.spaces
    states = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    actions = spaces.Box(-2.0, 4.0, (1,), np.float32)
    buffer = buffers.ReplayBuffer(8, states, actions, device="cpu", n_envs=2)  # 4 rows of each
    with pytest.raises(ValueError, match="empty"):
        replay_transitions(buffer)
    for step in range(6):
        s = np.array([[step, env] for env in range(2)], float)
        done = np.array([step == 3, step == 4])
        buffer.add(
            s, s + np.array([1, 0]), np.full((2, 1), -1.0 + step / 5), np.ones(2), done, [{}, {}]
        )
    steps = replay_transitions(buffer)
    assert steps.episodes is not None
    # six steps into four rows: 2, 3, 4 and 5 are left, of each environment
    assert steps.observations.tolist() == [[s, e] for e in (0, 1) for s in (2, 3, 4, 5)]
    assert torch.equal(steps.next_observations, steps.observations + torch.tensor([1.0, 0.0]))
    # from [-1, 1] to [-2, 4]
    expected = -2 + 3 * steps.observations[:, :1] / 5
    assert torch.allclose(steps.actions.double(), expected.double(), atol=1e-6)
    assert steps.episodes.tolist() == [0, 0, 1, 1, 2, 2, 2, 3]
    with pytest.raises(ValueError, match="replay buffer"):
        replay_transitions(3)


def test_buffers_of_dictionaries_are_refused() -> None:
    buffers = pytest.importorskip("stable_baselines3.common.buffers")
    spaces = gymnasium.spaces
    states = spaces.Dict({"goal": spaces.Box(-1, 1, (2,)), "observation": spaces.Box(-1, 1, (3,))})
    buffer = buffers.DictReplayBuffer(4, states, spaces.Box(-1, 1, (1,)), device="cpu")
    s = {"goal": np.zeros((1, 2)), "observation": np.zeros((1, 3))}
    buffer.add(s, s, np.zeros((1, 1)), np.zeros(1), np.zeros(1), [{}])
    with pytest.raises(TypeError, match="got DictReplayBuffer, whose observations are dictionar"):
        replay_transitions(buffer)


def test_an_id_is_the_environment_it_makes() -> None:
    by_id = collect_transitions("Pendulum-v1", 20, seed=5)
    made = collect_transitions(gymnasium.make("Pendulum-v1"), 20, seed=5)
    assert torch.equal(by_id.next_observations, made.next_observations)
    # of 105 entries without make_environment
    assert collect_transitions("Ant-v5", 2).observations.shape == (2, 27)
    with pytest.raises(ValueError, match="did you mean Pendulum-v1"):
        collect_transitions("Pendulum-v9", 2)


def test_what_is_not_one_environment_of_vectors_is_refused() -> None:
    many = gymnasium.make_vec("Pendulum-v1", 2)
    with pytest.raises(TypeError, match=r"expected one gymnasium environment, .* SyncVectorEnv: "):
        collect_transitions(many, 5)
    with pytest.raises(TypeError, match=r"expected one gymnasium environment, or its id, got int$"):
        collect_transitions(3, 5)
    box = gymnasium.spaces.Box(-1, 1, (2,))
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.observation_space = gymnasium.spaces.Dict(goal=box)
    with pytest.raises(ValueError, match=r"vectors, got Dict\('goal': Box.*FlattenObservation"):
        collect_transitions(env, 5)
    env.observation_space = box
    env.action_space = gymnasium.spaces.Tuple([box])
    with pytest.raises(ValueError, match=r"actions are vectors, got Tuple\(Box"):
        collect_transitions(env, 5)
