"""How far the simulator itself commutes with a symmetry, one step at a time."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._known_environments import (
    environment_symmetry,
    make_environment,
    require_gymnasium,
    space_size,
)
from isotropy.rl._simulators import Array, SetState, Simulator, changing_wrapper, simulator

Policy: TypeAlias = Callable[[Array], Any]
# states this many steps apart, in episodes of at most this many
_APART, _LONGEST = 5, 100
# steps that are taken again, and how far off they may be: a share of the step, and of rounding
_REPLAYED, _CLOSE, _ROUNDING = 5, 1e-3, 1e-5


@dataclass(frozen=True)
class DynamicsError:
    """What ``dynamics_error`` found, for each of n states and k elements.

    Args:
        name: The environment and the symmetry.
        errors: |ρ(g) f(s, a) − f(ρ(g) s, ρ(g) a)| / |f(s, a) − s|, shape (n, k).
        contact: Whether bodies touched at a state or after its step, shape (n,).
        rewards: The rewards of the steps, shape (n,).
        reward_differences: How far the transformed steps' differ, shape (n, k).
        termination_differs: Whether only one of the two steps ended the episode, shape (n, k).
    """

    name: str
    errors: Tensor
    contact: Tensor
    rewards: Tensor
    reward_differences: Tensor
    termination_differs: Tensor

    @property
    def count(self) -> int:
        """The number of pairs of a state and an element."""
        return self.errors.numel()

    @property
    def median(self) -> float:
        """The median of all errors."""
        return _median(self.errors)

    @property
    def maximum(self) -> float:
        """The largest error."""
        return float(self.errors.max())

    @property
    def free_median(self) -> float:
        """The median where nothing touched; nan if that never was."""
        return _median(self.errors[~self.contact])

    @property
    def free_maximum(self) -> float:
        """The largest error where nothing touched; nan if that never was."""
        return _maximum(self.errors[~self.contact])

    @property
    def contact_median(self) -> float:
        """The median where bodies touched; nan if they never did."""
        return _median(self.errors[self.contact])

    @property
    def contact_maximum(self) -> float:
        """The largest error where bodies touched; nan if they never did."""
        return _maximum(self.errors[self.contact])

    @property
    def reward_median(self) -> float:
        """The median difference of rewards."""
        return _median(self.reward_differences)

    @property
    def reward_maximum(self) -> float:
        """The largest difference of rewards."""
        return float(self.reward_differences.max())

    @property
    def reward_spread(self) -> float:
        """The standard deviation of rewards; of equal ones their size."""
        spread = float(self.rewards.std(correction=0))
        return spread or float(self.rewards.abs().max()) or 1.0

    @property
    def termination_disagreement(self) -> float:
        """The share of pairs of which only one step ended the episode."""
        return float(self.termination_differs.double().mean())

    def __str__(self) -> str:
        n, k = self.errors.shape
        of_group = "1 element" if k == 1 else f"{k} elements"
        lines = [f"{self.name}: {n} states, {of_group}", _line("", "median", "maximum")]
        lines.append(_line("dynamics", self.median, self.maximum))
        if bool(self.contact.any()):
            if not bool(self.contact.all()):
                lines.append(_line("  no contact", self.free_median, self.free_maximum))
            lines.append(_line("  contact", self.contact_median, self.contact_maximum))
        lines.append(_line("reward", self.reward_median, self.reward_maximum))
        spread = self.reward_spread
        lines.append(
            _line("  of its spread", self.reward_median / spread, self.reward_maximum / spread)
        )
        lines.append(f"ended differently: {int(self.termination_differs.sum())} of {self.count}")
        return "\n".join(lines)


def _line(*cells: str | float) -> str:
    shown = [cell if isinstance(cell, str) else f"{cell:.2g}" for cell in cells]
    return f"{shown[0]:16}{shown[1]:>9}{shown[2]:>9}".rstrip()


def _median(values: Tensor) -> float:
    return float(values.median()) if values.numel() else float("nan")


def _maximum(values: Tensor) -> float:
    return float(values.max()) if values.numel() else float("nan")


def dynamics_error(
    env: Any,
    symmetry: EnvironmentSymmetry | str | None = None,
    *,
    states: Any = None,
    n: int = 100,
    elements: int = 16,
    policy: Policy | None = None,
    set_state: SetState | None = None,
    seed: int = 0,
) -> DynamicsError:
    """How far a simulator commutes with a symmetry (thesis section 3.6, Table 3.2).

        |ρ(g) f(s, a) − f(ρ(g) s, ρ(g) a)| / |f(s, a) − s|

    over one step f of the environment, for states of random episodes and all elements of the
    group but the identity. The whole state counts, in double precision and without the clipping of
    observations; positions that are not observed start at 0, and solvers start afresh. An
    environment that is given, not named, is left in another state. Wrappers that change
    observations, actions or rewards are measured only through ``set_state``: it is checked first,
    on a few steps taken twice.

    Args:
        env: An id of ``known_environments()`` or a gymnasium environment.
        symmetry: The symmetry, or one of the names of ``known_environments()[id]``; by default
            ``environment_symmetry(env)``.
        states: Observations to start from, shape (n, width); by default from episodes.
        n: The number of states, where none are given.
        elements: The number of random elements of an infinite group.
        policy: An action for an observation; by default random ones.
        set_state: Puts an environment, given first, into the state of an observation, given
            second. Not needed for MuJoCo environments that observe positions and velocities, nor
            for CartPole, Pendulum, Reacher and InvertedDoublePendulum.
        seed: The seed of episodes, actions and elements.

    Raises:
        ValueError: If observations or actions do not fit the symmetry, there is no way to set the
            state, wrappers change what is seen, or ``set_state`` does not restore a state.
        TypeError: If it is no gymnasium environment.
        ImportError: If gymnasium is missing.

    Example:
        >>> found = dynamics_error("CartPole-v1", n=20)
        >>> found.maximum, found.reward_maximum
        (0.0, 0.0)
    """
    if n < 1 or elements < 1:
        raise ValueError(
            f"expected at least one state and one element, got n={n} and elements={elements}"
        )
    if isinstance(env, str):
        made = make_environment(env)
        try:
            return dynamics_error(
                made, symmetry, states=states, n=n, elements=elements, policy=policy,
                set_state=set_state, seed=seed,
            )  # fmt: skip
        finally:
            made.close()
    require_gymnasium(env)
    if set_state is None:
        _require_plain(env)
    if not isinstance(symmetry, EnvironmentSymmetry):
        symmetry = environment_symmetry(env, symmetry)
    _require_sizes(env, symmetry)
    on_observations, on_actions = _moving_elements(symmetry, elements, seed)
    if hasattr(env.action_space, "n"):
        _require_permutations(on_actions)
    simulated = simulator(env, set_state)
    if set_state is not None:
        _require_restored(simulated, seed)
    pairs = _started(simulated, states, n, policy, seed)
    on_states = simulated.on_states(on_observations)
    return _measured(_named(env, symmetry), simulated, pairs, on_states, on_actions)


def _named(env: Any, symmetry: EnvironmentSymmetry) -> str:
    id = getattr(getattr(env, "spec", None), "id", None) or type(env.unwrapped).__name__
    done = f" ({'; '.join(symmetry.generators)})" if symmetry.generators else ""
    return f"{id}, {symmetry.name}{done}"


def _measured(
    name: str,
    simulated: Simulator,
    pairs: list[tuple[Array, Any]],
    on_states: Array,
    on_actions: Array,
) -> DynamicsError:
    n, k = len(pairs), len(on_states)
    errors, differences = torch.zeros(2, n, k, dtype=torch.float64)
    ended = torch.zeros(n, k, dtype=torch.bool)
    contact, rewards = torch.zeros(n, dtype=torch.bool), torch.zeros(n, dtype=torch.float64)
    for i, (state, action) in enumerate(pairs):
        after, reward, terminated, touched = _stepped(simulated, state, action)
        contact[i], rewards[i] = touched, reward
        moved = float(np.linalg.norm(after - state))
        for j in range(k):
            image = _acted(on_actions[j], action)
            there, its_reward, its_end, _ = _stepped(simulated, on_states[j] @ state, image)
            apart = float(np.linalg.norm(on_states[j] @ after - there))
            errors[i, j] = apart / moved if moved else (0.0 if apart == 0 else np.inf)
            differences[i, j] = abs(its_reward - reward)
            ended[i, j] = its_end != terminated
    return DynamicsError(name, errors, contact, rewards, differences, ended)


def _stepped(simulated: Simulator, state: Array, action: Any) -> tuple[Array, float, bool, bool]:
    simulated.put(state)
    touching = simulated.in_contact()
    _, reward, terminated, _ = simulated.step(action)
    return simulated.state(), reward, terminated, touching or simulated.in_contact()


def _require_plain(env: Any) -> None:
    wrapper = changing_wrapper(env)
    if wrapper is not None:
        raise ValueError(
            "expected an environment that hands on the observations, actions and rewards of its "
            f"simulator, got one within {wrapper}: measure env.unwrapped, or give set_state=, by "
            "which steps go through the wrapper"
        )


def _require_restored(simulated: Simulator, seed: int) -> None:
    """Take a few steps of an episode again, each from its state."""
    space = deepcopy(simulated.env.action_space)
    space.seed(seed)
    seen, steps = simulated.reset(seed), []
    for _ in range(_REPLAYED):
        sampled = space.sample()
        action = int(sampled) if hasattr(space, "n") else np.asarray(sampled, dtype=np.float64)
        after, _, terminated, truncated = simulated.step(action)
        steps.append((seen, action, after))
        seen = after
        if terminated or truncated:
            break
    for before, action, after in steps:
        simulated.put(before)
        again, *_ = simulated.step(action)
        apart, moved = np.linalg.norm(again - after), np.linalg.norm(after - before)
        if not apart <= _CLOSE * moved + _ROUNDING * (1 + np.linalg.norm(after)):
            raise ValueError(
                "expected set_state to restore the state of an observation, got a next state "
                f"{apart:.2g} away from the one before, after a step of {moved:.2g}"
            )


def _started(
    simulated: Simulator, states: Any, n: int, policy: Policy | None, seed: int
) -> list[tuple[Array, Any]]:
    """States, with what is not observed at 0, and actions."""
    space = deepcopy(simulated.env.action_space)
    space.seed(seed)

    def act(seen: Array) -> Any:
        action = space.sample() if policy is None else policy(seen)
        # double precision, so that rewards of both steps are worked out in the same one
        return int(action) if hasattr(space, "n") else np.asarray(action, dtype=np.float64)

    seen = simulated.reset(seed)
    if states is not None:
        given = np.asarray(states, dtype=np.float64)
        if given.ndim != 2 or given.shape[1] != seen.size or not len(given):
            raise ValueError(f"expected states of shape (n, {seen.size}), got {list(given.shape)}")
        return [(simulated.of_observation(seen), act(seen)) for seen in given]
    pairs: list[tuple[Array, Any]] = []
    steps = 0
    for count in range(1, n * _APART + 1):
        action = act(seen)
        if count % _APART == 0:
            pairs.append((simulated.at_origin(simulated.state()), action))
        seen, _, terminated, truncated = simulated.step(action)
        steps += 1
        if terminated or truncated or steps == _LONGEST:
            seen, steps = simulated.reset(None), 0
    return pairs


def _moving_elements(
    symmetry: EnvironmentSymmetry, elements: int, seed: int
) -> tuple[Array, Array]:
    """The matrices of elements on observations and actions, without the identity."""
    found = symmetry.matrices(symmetry.elements(elements, generator=seed))
    on_observations, on_actions = (matrices.double().numpy() for matrices in found)
    if not symmetry.group.is_discrete:
        return on_observations, on_actions
    return on_observations[1:], on_actions[1:]


def _acted(matrix: Array, action: Any) -> Any:
    return int(np.argmax(matrix[:, action])) if isinstance(action, int) else matrix @ action


def _require_sizes(env: Any, symmetry: EnvironmentSymmetry) -> None:
    for what, space, size in (
        ("observations", env.observation_space, symmetry.observation_size),
        ("actions", env.action_space, symmetry.action_size),
    ):
        if space_size(space) != size:
            raise ValueError(f"expected {what} of {size} entries, as the symmetry has, got {space}")


def _require_permutations(on_actions: Array) -> None:
    whole = np.isin(on_actions, (0.0, 1.0)).all() and (on_actions.sum(axis=-1) == 1).all()
    if not whole or not (on_actions.sum(axis=-2) == 1).all():
        raise ValueError(
            "expected a symmetry that permutes discrete actions, got one that mixes them or "
            "changes signs"
        )
