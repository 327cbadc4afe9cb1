"""Symmetry in reinforcement learning: environments, policies, transition models.

What needs gymnasium or stable-baselines3 (the extra ``rl``) is loaded when used.
"""

from isotropy._run._lazy_names import lazy_names

_find, __dir__, __all__ = lazy_names(__name__)


def __getattr__(name: str) -> object:
    try:
        return _find(name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("gymnasium", "stable_baselines3"):
            raise
        raise ImportError(
            f"expected gymnasium and stable-baselines3 for {name}, got no {error.name}: "
            'pip install "gymnasium[mujoco]" stable-baselines3'
        ) from error
