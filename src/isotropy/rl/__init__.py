"""Symmetry in reinforcement learning: environments, policies, transition models.

What needs gymnasium or stable-baselines3 (the extra ``rl``) is loaded when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from isotropy.nn import symmetric_network
from isotropy.rl._collect import collect_transitions, replay_transitions
from isotropy.rl._dynamics_error import dynamics_error
from isotropy.rl._dynamics_figures import DynamicsError
from isotropy.rl._environment_symmetry import EnvironmentSymmetry, described_symmetry
from isotropy.rl._fit_transitions import TransitionRecipe, fit_transition_model
from isotropy.rl._known_environments import (
    environment_symmetries,
    environment_symmetry,
    known_environments,
    make_environment,
)
from isotropy.rl._layout import EntryLayout
from isotropy.rl._normalisation import EquivariantScaler
from isotropy.rl._parts import (
    Part,
    axial,
    choice,
    direction,
    hinge,
    quaternion,
    scalar,
    slide,
    vector,
)
from isotropy.rl._rollouts import (
    one_step_error,
    rollout_error,
    rollout_errors,
    transition_equivariance_error,
)
from isotropy.rl._transformations import (
    Transformation,
    body_turn,
    mirror,
    world_rotation,
    world_turn,
)
from isotropy.rl._transition_models import TransitionModel, group_images

if TYPE_CHECKING:
    from isotropy.rl._actor_critic_policies import (
        EquivariantActorCriticPolicy,
        RPPActorCriticPolicy,
    )
    from isotropy.rl._sac_policies import EquivariantPolicy, RPPPolicy
    from isotropy.rl._symmetric_replay import SymmetricReplayBuffer
    from isotropy.rl._td3_policies import EquivariantTD3Policy, RPPTD3Policy
    from isotropy.rl._vec_normalise import VecEquivariantNormalize

_OF_BASELINES = {
    "EquivariantActorCriticPolicy": "_actor_critic_policies",
    "EquivariantPolicy": "_sac_policies",
    "EquivariantTD3Policy": "_td3_policies",
    "RPPActorCriticPolicy": "_actor_critic_policies",
    "RPPPolicy": "_sac_policies",
    "RPPTD3Policy": "_td3_policies",
    "SymmetricReplayBuffer": "_symmetric_replay",
    "VecEquivariantNormalize": "_vec_normalise",
}

__all__ = [
    "DynamicsError",
    "EntryLayout",
    "EnvironmentSymmetry",
    "EquivariantActorCriticPolicy",
    "EquivariantPolicy",
    "EquivariantScaler",
    "EquivariantTD3Policy",
    "Part",
    "RPPActorCriticPolicy",
    "RPPPolicy",
    "RPPTD3Policy",
    "SymmetricReplayBuffer",
    "Transformation",
    "TransitionModel",
    "TransitionRecipe",
    "VecEquivariantNormalize",
    "axial",
    "body_turn",
    "choice",
    "collect_transitions",
    "described_symmetry",
    "direction",
    "dynamics_error",
    "environment_symmetries",
    "environment_symmetry",
    "fit_transition_model",
    "group_images",
    "hinge",
    "known_environments",
    "make_environment",
    "mirror",
    "one_step_error",
    "quaternion",
    "replay_transitions",
    "rollout_error",
    "rollout_errors",
    "scalar",
    "slide",
    "symmetric_network",
    "transition_equivariance_error",
    "vector",
    "world_rotation",
    "world_turn",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_BASELINES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = getattr(import_module(f"isotropy.rl.{_OF_BASELINES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("gymnasium", "stable_baselines3"):
            raise
        raise ImportError(
            f"expected gymnasium and stable-baselines3 for {name}, got no {error.name}: "
            'pip install "gymnasium[mujoco]" stable-baselines3'
        ) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
