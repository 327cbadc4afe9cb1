from isotropy.nn._symmetric_network import symmetric_network
from isotropy.rl._actor_critic_policies import EquivariantActorCriticPolicy, RPPActorCriticPolicy
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
from isotropy.rl._sac_policies import EquivariantPolicy, RPPPolicy
from isotropy.rl._symmetric_replay import SymmetricReplayBuffer
from isotropy.rl._td3_policies import EquivariantTD3Policy, RPPTD3Policy
from isotropy.rl._transformations import (
    Transformation,
    body_turn,
    mirror,
    world_rotation,
    world_turn,
)
from isotropy.rl._transition_models import TransitionModel, group_images
from isotropy.rl._vec_normalise import VecEquivariantNormalize

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
