from isotropy.rl._actor_critic_policies import EquivariantActorCriticPolicy, RPPActorCriticPolicy
from isotropy.rl._collect import collect_transitions, replay_transitions
from isotropy.rl._dynamics_error import dynamics_error
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._known_environments import (
    environment_symmetry,
    known_environments,
    make_environment,
)
from isotropy.rl._parts import axial, choice, direction, hinge, quaternion, scalar, vector
from isotropy.rl._sac_policies import EquivariantPolicy, RPPPolicy
from isotropy.rl._symmetric_replay import SymmetricReplayBuffer
from isotropy.rl._td3_policies import EquivariantTD3Policy, RPPTD3Policy
from isotropy.rl._transformations import body_turn, mirror, world_rotation
from isotropy.rl._transition_models import TransitionModel
from isotropy.rl._vec_normalise import VecEquivariantNormalize

__all__ = [
    "EnvironmentSymmetry",
    "EquivariantActorCriticPolicy",
    "EquivariantPolicy",
    "EquivariantTD3Policy",
    "RPPActorCriticPolicy",
    "RPPPolicy",
    "RPPTD3Policy",
    "SymmetricReplayBuffer",
    "TransitionModel",
    "VecEquivariantNormalize",
    "axial",
    "body_turn",
    "choice",
    "collect_transitions",
    "direction",
    "dynamics_error",
    "environment_symmetry",
    "hinge",
    "known_environments",
    "make_environment",
    "mirror",
    "quaternion",
    "replay_transitions",
    "scalar",
    "vector",
    "world_rotation",
]
