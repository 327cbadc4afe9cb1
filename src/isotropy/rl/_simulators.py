"""Putting an environment into a state, and reading its state without clipping or rounding.

What is wrapped around it may change what is seen, done or paid, and is refused then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# these hand observations, actions and rewards on as they are
_PLAIN = {
    "gymnasium": {
        "Autoreset", "HumanRendering", "OrderEnforcing", "PassiveEnvChecker",
        "RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "TimeLimit",
    },
    "stable_baselines3": {"Monitor"},
}  # fmt: skip
Array: TypeAlias = NDArray[np.float64]
SetState: TypeAlias = Callable[[Any, Array], None]


def wrappers(env: Any) -> Iterator[Any]:
    """The wrappers of an environment, the outermost first.

    Example:
        >>> import gymnasium
        >>> [type(wrapper).__name__ for wrapper in wrappers(gymnasium.make("CartPole-v1"))]
        ['TimeLimit', 'OrderEnforcing', 'PassiveEnvChecker']
    """
    from gymnasium import Wrapper

    while isinstance(env, Wrapper):
        yield env
        env = env.env


def changing_wrapper(env: Any) -> str | None:
    """The first wrapper that may change observations, actions or rewards, by its name.

    Example:
        >>> import gymnasium
        >>> cart = gymnasium.make("CartPole-v1")
        >>> changing_wrapper(gymnasium.wrappers.NormalizeObservation(cart))
        'NormalizeObservation'
    """
    from gymnasium import Wrapper

    for wrapper in wrappers(env):
        kind = type(wrapper)
        if kind.__name__ in _PLAIN.get(kind.__module__.split(".")[0], ()):
            continue
        if kind.step is not Wrapper.step or kind.reset is not Wrapper.reset:
            return kind.__name__
    return None


def resizing_wrapper(env: Any, space: str) -> str | None:
    """The first wrapper whose observations or actions have another shape than those within.

    Args:
        env: The environment.
        space: "observation_space" or "action_space".
    """
    for wrapper in wrappers(env):
        if getattr(wrapper, space).shape != getattr(wrapper.env, space).shape:
            return type(wrapper).__name__
    return None


class Simulator:
    """An environment whose state can be set: here one that says by itself how.

    A state is a vector on which a group acts; by default, what is observed.

    Args:
        env: The environment.
        set_state: Puts the environment, given first, into the state of an observation.
    """

    def __init__(self, env: Any, set_state: SetState | None = None) -> None:
        self.env = env
        self._set_state = set_state
        self._seen: Array = np.zeros(0)

    def reset(self, seed: int | None) -> Array:
        """Start an episode; its first observation."""
        self._seen = _vector(self.env.reset(seed=seed)[0])
        return self._seen

    def step(self, action: Any) -> tuple[Array, float, bool, bool]:
        """The next observation, the reward, and whether the episode ended or was cut."""
        if self._set_state is not None and not isinstance(action, int):
            # a user's own environment may insist on the precision of its actions
            action = action.astype(self.env.action_space.dtype)
        seen, reward, terminated, truncated, _ = self.env.step(action)
        self._seen = _vector(seen)
        return self._seen, float(reward), bool(terminated), bool(truncated)

    def state(self) -> Array:
        """The state now."""
        return self._seen

    def put(self, state: Array) -> None:
        """Go to a state."""
        assert self._set_state is not None
        self._set_state(self.env, state.copy())

    def of_observation(self, observation: Array) -> Array:
        """The state of an observation; what is not observed is 0."""
        return observation

    def at_origin(self, state: Array) -> Array:
        """The same state with positions that are not observed at 0."""
        return state.copy()

    def on_states(self, matrices: Array) -> Array:
        """How a group acts on states, from how it acts on observations, (k, n, n)."""
        return matrices

    def in_contact(self) -> bool:
        """Whether bodies touch."""
        return bool(getattr(getattr(self.env.unwrapped, "data", None), "ncon", 0))


class MujocoSimulator(Simulator):
    """A MuJoCo environment that observes positions, but for those of the root, and velocities.

    Its state is all of them: unobserved positions first, which a group moves as it does the
    velocities of the same coordinates.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env.unwrapped)
        self.positions, self.velocities = int(self.env.model.nq), int(self.env.model.nv)
        self.unobserved = self.positions + self.velocities - env.observation_space.shape[0]

    def fits(self) -> bool:
        """Whether the environment observes just that."""
        if not 0 <= self.unobserved < self.positions:
            return False
        seen = _vector(self.env.reset(seed=0)[0])
        return bool(np.allclose(seen, self.state()[self.unobserved :], atol=1e-6))

    def state(self) -> Array:
        return np.concatenate([self.env.data.qpos, self.env.data.qvel])

    def put(self, state: Array) -> None:
        self._put(state[: self.positions], state[self.positions :])

    def _put(self, positions: Array, velocities: Array) -> None:
        data = self.env.data
        # what the solver starts from and what was pushed last are no part of the state
        data.time, data.ctrl[:], data.qacc_warmstart[:] = 0.0, 0.0, 0.0
        self.env.set_state(positions, velocities)
        data.qacc_warmstart[:] = 0.0

    def of_observation(self, observation: Array) -> Array:
        return np.concatenate([np.zeros(self.unobserved), observation])

    def at_origin(self, state: Array) -> Array:
        return self.of_observation(state[self.unobserved :])

    def on_states(self, matrices: Array) -> Array:
        n = self.unobserved
        moved = slice(self.positions - n, self.positions)
        whole = np.zeros((len(matrices), *[matrices.shape[1] + n] * 2))
        whole[:, :n, :n] = matrices[:, moved, moved]
        whole[:, n:, n:] = matrices
        return whole


class ReacherSimulator(MujocoSimulator):
    """Reacher: cosines and sines of two angles, the target, rates, the way to the target."""

    def fits(self) -> bool:
        return type(self.env).__module__.rpartition(".")[2] in ("reacher_v4", "reacher_v5")

    def state(self) -> Array:
        return _vector(self.env._get_obs())

    def put(self, state: Array) -> None:
        angles = np.arctan2(state[2:4], state[:2])
        self._put(np.concatenate([angles, state[4:6]]), np.concatenate([state[6:8], np.zeros(2)]))

    def of_observation(self, observation: Array) -> Array:
        return observation

    def at_origin(self, state: Array) -> Array:
        return state

    def on_states(self, matrices: Array) -> Array:
        return matrices


class DoublePendulumSimulator(MujocoSimulator):
    """InvertedDoublePendulum: the forces that it also observes are no part of the state."""

    def fits(self) -> bool:
        return type(self.env).__module__.endswith("inverted_double_pendulum_v5")

    def state(self) -> Array:
        positions, velocities = self.env.data.qpos, self.env.data.qvel
        angles = positions[1:]
        return np.concatenate([positions[:1], np.sin(angles), np.cos(angles), velocities])

    def put(self, state: Array) -> None:
        angles = np.arctan2(state[1:3], state[3:5])
        self._put(np.concatenate([state[:1], angles]), state[5:])

    def of_observation(self, observation: Array) -> Array:
        return observation[:8]

    def at_origin(self, state: Array) -> Array:
        return state

    def on_states(self, matrices: Array) -> Array:
        return matrices[:, :8, :8]


class CartPoleSimulator(Simulator):
    """CartPole, in double precision."""

    def __init__(self, env: Any) -> None:
        super().__init__(env.unwrapped)

    def fits(self) -> bool:
        """Whether it is that environment."""
        return type(self.env).__name__ == "CartPoleEnv"

    def state(self) -> Array:
        return np.array(self.env.state, dtype=np.float64)

    def put(self, state: Array) -> None:
        self.env.state = state.copy()
        self.env.steps_beyond_terminated = None


class PendulumSimulator(Simulator):
    """Pendulum, in double precision."""

    def __init__(self, env: Any) -> None:
        super().__init__(env.unwrapped)

    def fits(self) -> bool:
        """Whether it is that environment."""
        return type(self.env).__name__ == "PendulumEnv"

    def state(self) -> Array:
        angle, rate = self.env.state
        return np.array([np.cos(angle), np.sin(angle), rate], dtype=np.float64)

    def put(self, state: Array) -> None:
        self.env.state = np.array([np.arctan2(state[1], state[0]), state[2]])


def simulator(env: Any, set_state: SetState | None = None) -> Simulator:
    """The simulator behind an environment.

    Args:
        env: A gymnasium environment.
        set_state: Puts an environment, given first, into the state of an observation, given
            second; by default known of CartPole, Pendulum, Reacher, InvertedDoublePendulum and of
            MuJoCo environments that observe positions and velocities.

    Raises:
        ValueError: If there is no way to set its state.

    Example:
        >>> from isotropy.rl._known_environments import make_environment
        >>> swimmer = simulator(make_environment("Swimmer-v5"))
        >>> swimmer.put(swimmer.of_observation(np.arange(8.0)))
        >>> swimmer.state()[:4]
        array([0., 0., 0., 1.])
    """
    if set_state is not None:
        return Simulator(env, set_state)
    for kind in (CartPoleSimulator, PendulumSimulator):
        classic = kind(env)
        if classic.fits():
            return classic
    model = getattr(env.unwrapped, "model", None)
    if model is not None and hasattr(env.unwrapped, "set_state") and hasattr(model, "nq"):
        for known in (ReacherSimulator, DoublePendulumSimulator, MujocoSimulator):
            found = known(env)
            if found.fits():
                return found
    raise ValueError(
        "expected an environment whose observation is its positions and velocities, or set_state="
        f" that puts it into the state of an observation, got {type(env.unwrapped).__name__}"
    )


def _vector(values: Any) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(-1)
