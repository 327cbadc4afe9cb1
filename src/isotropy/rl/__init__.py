"""Symmetry in reinforcement learning: environments, policies, transition models.

What needs gymnasium or stable-baselines3 (the extra ``rl``) is loaded when used.
"""

from isotropy._run._lazy_names import lazy_names

_find, __dir__, __all__ = lazy_names(
    __name__,
    deprecated={
        "DynamicsError": "isotropy.rl._dynamics_figures:DynamicsError",
        "EntryLayout": "isotropy.rl._entry_layout:EntryLayout",
        "EquivariantScaler": "isotropy.rl._normalisation:EquivariantScaler",
        "Part": "isotropy.rl._parts:Part",
        "Transformation": "isotropy.rl._transformations:Transformation",
        "TransitionRecipe": "isotropy_papers.transition_training:TransitionRecipe",
        "described_symmetry": "isotropy.rl:EnvironmentSymmetry.described",
        "environment_symmetries": "isotropy.rl._known_environments:environment_symmetries",
        "fit_transition_model": "isotropy_papers.transition_training:fit_transition_model",
        "group_images": "isotropy_papers.transition_errors:group_images",
        "one_step_error": "isotropy_papers.transition_errors:one_step_error",
        "rollout_error": "isotropy_papers.transition_errors:rollout_error",
        "rollout_errors": "isotropy_papers.transition_errors:rollout_errors",
        "slide": "isotropy.rl._parts:slide",
        "symmetric_network": "isotropy.nn:symmetric_network",
        "transition_equivariance_error": (
            "isotropy_papers.transition_errors:transition_equivariance_error"
        ),
        "world_turn": "isotropy.rl._transformations:world_turn",
    },
)


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
