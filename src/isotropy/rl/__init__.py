"""Symmetry in reinforcement learning: environments, policies, transition models.

What needs gymnasium or stable-baselines3 (the extra ``rl``) is loaded when used.
"""

from isotropy._run._lazy_names import lazy_names

_MOVED = {
    "isotropy.nn": "symmetric_network",
    "isotropy.rl": "described_symmetry=EnvironmentSymmetry.described",
    "isotropy.rl._dynamics_error": "DynamicsError",
    "isotropy.rl._entry_layout": "EntryLayout",
    "isotropy.rl._known_environments": "environment_symmetries>known_environments",
    "isotropy.rl._normalisation": "EquivariantScaler",
    "isotropy.rl._parts": "Part slide>vector",
    "isotropy.rl._transformations": "Transformation world_turn>world_rotation",
    "isotropy_papers.transition_errors": (
        "group_images one_step_error rollout_error rollout_errors transition_equivariance_error"
    ),
    "isotropy_papers.transition_training": "TransitionRecipe fit_transition_model",
}
_find, __dir__, __all__ = lazy_names(__name__, _MOVED)


def __getattr__(name: str) -> object:
    try:
        return _find(name, 4)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in ("gymnasium", "stable_baselines3"):
            raise
        raise ImportError(
            f"expected gymnasium and stable-baselines3 for {name}, got no {error.name}: "
            'pip install "gymnasium[mujoco]" stable-baselines3'
        ) from error
