"""What is wrapped around an environment, and whether it changes what is seen, done or paid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# these hand observations, actions and rewards on as they are
_PLAIN = {
    "gymnasium": {
        "Autoreset", "HumanRendering", "OrderEnforcing", "PassiveEnvChecker",
        "RecordEpisodeStatistics", "RecordVideo", "RenderCollection", "TimeLimit",
    },
    "stable_baselines3": {"Monitor"},
}  # fmt: skip


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
