"""Transitions from a simulator, or from what an agent remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.data import Transitions
from isotropy.rl._known_environments import make_environment

Array = NDArray[Any]


def collect_transitions(
    env: Any, n: int, *, policy: Any | Callable[[Array], Any] | None = None, seed: int = 0
) -> Transitions:
    """Run an environment and keep what happens.

    Args:
        env: A Gymnasium environment whose observations are vectors, or the id of a known one, as
            ``make_environment`` makes it; its actions are vectors, or numbered, which become
            columns of zeros with a one.
        n: How many transitions to collect, in as many episodes as that takes.
        policy: A function from an observation to an action, or a model of Stable-Baselines3 (which
            is asked for actions drawn at random); by default actions are uniform.
        seed: The seed of environment and actions, those among them that a policy draws from
            torch's own generator on the CPU, whose state is put back. What a policy draws
            elsewhere, on a GPU or from NumPy, is not seeded.

    Returns:
        The transitions in time order, in the precision of the simulator, with rewards and
        episodes.

    Raises:
        TypeError: If this is not one environment.
        ValueError: If the observations are no vectors, the actions neither vectors nor numbered,
            ``n`` is not positive, or the id is not known.

    Example:
        >>> steps = collect_transitions("CartPole-v1", 50, seed=1)
        >>> steps.observations.shape, steps.actions.shape
        (torch.Size([50, 4]), torch.Size([50, 2]))
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"expected a positive number of transitions, got {n!r}")
    if isinstance(env, str):
        made = make_environment(env)
        try:
            return collect_transitions(made, n, policy=policy, seed=seed)
        finally:
            made.close()
    _require_one_environment(env)
    choose = _chooser(env, policy, seed)
    with torch.random.fork_rng(devices=[]):
        # torch.manual_seed would seed the streams of GPUs too, which nothing puts back
        torch.default_generator.manual_seed(seed)
        kept = _steps(env, n, choose, seed)
    states, actions, following, rewards, episodes = (
        np.array(column) for column in zip(*kept, strict=True)
    )
    return Transitions(
        _table(states),
        _action_table(actions, env.action_space),
        _table(following),
        torch.from_numpy(rewards),
        torch.from_numpy(episodes),
    )


def _require_one_environment(env: Any) -> None:
    needed = ("reset", "step", "observation_space", "action_space")
    if hasattr(env, "num_envs") or not all(hasattr(env, name) for name in needed):
        many = ": collect from one of its environments at a time" * hasattr(env, "num_envs")
        raise TypeError(
            f"expected one gymnasium environment, or its id, got {type(env).__name__}{many}"
        )
    space, actions = env.observation_space, env.action_space
    if space.shape is None or len(space.shape) != 1:
        raise ValueError(
            f"expected an environment whose observations are vectors, got {space}: "
            "gymnasium.wrappers.FlattenObservation makes them vectors"
        )
    if actions.shape is None or (actions.shape == () and not hasattr(actions, "n")):
        raise ValueError(f"expected an environment whose actions are vectors, got {actions}")


def _steps(
    env: Any, n: int, choose: Callable[[Array], Any], seed: int
) -> list[tuple[Array, Array, Array, float, int]]:
    state, _ = env.reset(seed=seed)
    kept = []
    episode = 0
    for _ in range(n):
        action = choose(state)
        after, reward, terminated, truncated, _ = env.step(action)
        # a simulator may use its memory again
        kept.append((np.array(state), np.array(action), np.array(after), float(reward), episode))
        state = after
        if terminated or truncated:
            episode += 1
            state, _ = env.reset()
    return kept


def replay_transitions(remembered: Any) -> Transitions:
    """What is in the replay buffer of an agent of Stable-Baselines3, in time order.

    Actions, which the buffer keeps scaled to [−1, 1], are in the units of the environment again.
    Environments that ran side by side come one after another, and an episode that is not over
    ends where the buffer does.

    Args:
        remembered: The agent, such as an ``SAC``, or its buffer.

    Raises:
        TypeError: If its observations are dictionaries.
        ValueError: If the buffer is empty, or does not store next observations.

    Example:
        >>> import gymnasium
        >>> from stable_baselines3 import SAC
        >>> agent = SAC("MlpPolicy", gymnasium.make("Pendulum-v1"), learning_starts=100, seed=0)
        >>> steps = replay_transitions(agent.learn(20))
        >>> steps.observations.shape
        torch.Size([20, 3])
    """
    buffer = getattr(remembered, "replay_buffer", remembered)
    if getattr(buffer, "observations", None) is None or not hasattr(buffer, "dones"):
        raise ValueError(
            "expected an agent of Stable-Baselines3 with a replay buffer, or the buffer, "
            f"got {type(remembered).__name__}"
        )
    if isinstance(buffer.observations, dict):
        raise TypeError(
            f"expected a replay buffer of vectors, got {type(buffer).__name__}, whose observations "
            "are dictionaries: gymnasium.wrappers.FlattenObservation makes them vectors"
        )
    if getattr(buffer, "next_observations", None) is None:
        raise ValueError(
            "expected a replay buffer that stores next observations, got one with "
            "optimize_memory_usage=True"
        )
    if not buffer.full and buffer.pos == 0:
        raise ValueError("expected a replay buffer with transitions, got an empty one")
    order = np.arange(buffer.pos)
    if buffer.full:
        order = (np.arange(buffer.buffer_size) + buffer.pos) % buffer.buffer_size
    dones = buffer.dones[order] > 0
    # where one environment's rows end, the next one's begin
    dones[-1] = True
    ends = dones.T.reshape(-1).cumsum()
    actions = _in_turn(buffer.actions[order])
    return Transitions(
        _table(_in_turn(buffer.observations[order])),
        _action_table(_unscaled(actions, buffer.action_space), buffer.action_space),
        _table(_in_turn(buffer.next_observations[order])),
        torch.from_numpy(_in_turn(buffer.rewards[order]).copy()),
        torch.from_numpy(np.concatenate([[0], ends[:-1]])),
    )


def _in_turn(values: Array) -> Array:
    """(steps, environments, *) to (environments · steps, *), one environment after another."""
    turned: Array = np.swapaxes(values, 0, 1).reshape(-1, *values.shape[2:])
    return turned


def _chooser(env: Any, policy: Any, seed: int) -> Callable[[Array], Any]:
    if policy is None:
        env.action_space.seed(seed)
        return lambda _state: env.action_space.sample()
    predict = getattr(policy, "predict", None)
    if predict is not None:
        return lambda state: predict(state, deterministic=False)[0]
    if not callable(policy):
        raise TypeError(
            "expected a function from observations to actions or a model with predict, "
            f"got {type(policy).__name__}"
        )
    chosen: Callable[[Array], Any] = policy
    return chosen


def _table(values: Any) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(values))


def _action_table(actions: Any, space: Any) -> Tensor:
    count = getattr(space, "n", None)
    if count is None:
        values = np.asarray(actions)
        return _table(values.reshape(len(values), -1))
    first = int(getattr(space, "start", 0))
    numbers = torch.from_numpy(np.asarray(actions).reshape(-1).astype(np.int64)) - first
    return torch.nn.functional.one_hot(numbers, int(count)).double()


def _unscaled(actions: Array, space: Any) -> Array:
    """From [−1, 1] back to the range of the action space, as Stable-Baselines3 scales them."""
    if getattr(space, "n", None) is not None:
        return actions
    low, high = space.low, space.high
    scaled: Array = low + 0.5 * (actions + 1.0) * (high - low)
    return scaled
