"""The symmetries of the usual environments, by id or environment."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from isotropy.rl._environment_descriptions import Description, descriptions
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._simulators import changing_wrapper, resizing_wrapper


def environment_symmetry(env: Any, name: str | None = None) -> EnvironmentSymmetry:
    """The symmetry of a known environment.

    Locomotion of the thesis (section 3.6, Table 3.2) and classic control. An id stands for the
    environment as ``make_environment`` makes it: Ant-v5 without contact forces, Humanoid-v5 with
    positions and velocities only. How far a symmetry holds is in ``holds``, as ``dynamics_error``
    measured it; of a model of one's own, or behind wrappers that change what is seen, done or
    paid, it is not known.

    Args:
        env: An id such as "Walker2d-v5", or a gymnasium environment.
        name: One of ``known_environments()[id]``; by default the first.

    Raises:
        ValueError: If the environment or the name is not known, or the observation or action of
            the environment is not the one described.
        TypeError: If it is neither an id nor a gymnasium environment.

    Example:
        >>> print(environment_symmetry("Swimmer-v5"))
        Z(2): 7*Pseudoscalar+Scalar (observation), 2*Pseudoscalar (action); holds exactly
        >>> environment_symmetry("Ant-v5").name, environment_symmetry("Hopper-v5").holds
        ('D(4)', 'poorly')
    """
    id, description = _described(env)
    if name is not None and name not in description.names:
        raise ValueError(
            f"expected a symmetry of {id} among {', '.join(description.names)}, got {name!r}"
        )
    symmetry = description.symmetry(description.names[0] if name is None else name)
    if not isinstance(env, str):
        _require_fit(env, id, description, symmetry)
        if changing_wrapper(env) or "xml_file" in _options_of(env):
            return replace(symmetry, holds=None)
    return symmetry


def environment_symmetries(env: Any) -> dict[str, EnvironmentSymmetry]:
    """All symmetries known of an environment, by name, the default first.

    Args:
        env: An id such as "Walker2d-v5", or a gymnasium environment.

    Raises:
        ValueError: As ``environment_symmetry`` does.

    Example:
        >>> list(environment_symmetries("HalfCheetah-v5"))
        ['mirror', 'front/back']
    """
    _, description = _described(env)
    return {name: environment_symmetry(env, name) for name in description.names}


def known_environments() -> dict[str, list[str]]:
    """The ids that ``environment_symmetry`` knows, with the names of their symmetries.

    Example:
        >>> print(*known_environments()["HalfCheetah-v5"])
        mirror front/back
    """
    return {id: description.names for id, description in descriptions().items()}


def make_environment(id: str, **options: Any) -> Any:
    """An environment whose observation is the one that ``environment_symmetry(id)`` describes.

    Args:
        id: Its id.
        options: More of what ``gymnasium.make`` takes.

    Raises:
        ValueError: If the environment is not known.
        ImportError: If gymnasium is missing.

    Example:
        >>> make_environment("Ant-v5").observation_space.shape
        (27,)
    """
    _, description = _described(id)
    gymnasium = _gymnasium(id)
    return gymnasium.make(id, **{**description.options, **options})


def _described(env: Any) -> tuple[str, Description]:
    known = descriptions()
    id = env if isinstance(env, str) else _id_of(env)
    if id in known:
        return id, known[id]
    # the latest version first
    near = get_close_matches(id, sorted(known, reverse=True), n=1, cutoff=0.7)
    meant = f"did you mean {near[0]}? Else " if near else ""
    raise ValueError(
        f"expected an environment among {', '.join(known)}, got {id!r}: {meant}describe its "
        "observation and action with EnvironmentSymmetry.described"
    )


def _id_of(env: Any) -> str:
    """The id it was made by, or one that makes the same class."""
    require_gymnasium(env)
    id = getattr(getattr(env, "spec", None), "id", None)
    if id in descriptions():
        return str(id)
    registry = _gymnasium("environments").registry
    kind = type(env.unwrapped)
    entry = f"{kind.__module__}:{kind.__qualname__}"
    for known in descriptions():
        if known in registry and registry[known].entry_point == entry:
            return known
    return str(id or kind.__qualname__)


def _options_of(env: Any) -> dict[str, Any]:
    """With what it was made."""
    return dict(getattr(getattr(env, "spec", None), "kwargs", None) or {})


def _require_fit(
    env: Any, id: str, description: Description, symmetry: EnvironmentSymmetry
) -> None:
    for what, size in (
        ("observation", symmetry.observation_size),
        ("action", symmetry.action_size),
    ):
        space = getattr(env, f"{what}_space")
        got = space_size(space)
        if got == size:
            continue
        wrapper = resizing_wrapper(env, f"{what}_space")
        if wrapper is not None:
            advice = f"leave out {wrapper}, which changes them"
        else:
            advice = f"make it with {_call(id, description)}"
            given = [
                f"{key}={value}"
                for key, value in _options_of(env).items()
                if key not in description.options and isinstance(value, bool)
            ]
            advice += f", without {', '.join(given)}" if given else ""
        raise ValueError(
            f"expected {what}s of {size} entries from {id}, got {space if got is None else got}: "
            f"{advice}"
        )


def how_to_narrow(size: int) -> str | None:
    """How the environment is made whose observation has this many entries with options only.

    Example:
        >>> print(how_to_narrow(27), how_to_narrow(11))
        gymnasium.make("Ant-v5", include_cfrc_ext_in_observation=False) None
    """
    for id, description in descriptions().items():
        if description.options and sum(part.size for part in description.observation) == size:
            return _call(id, description)
    return None


def _call(id: str, description: Description) -> str:
    options = "".join(f", {key}={value}" for key, value in description.options.items())
    return f'gymnasium.make("{id}"{options})'


def space_size(space: Any) -> int | None:
    """The entries of a vector, or the number of discrete choices; None of another space."""
    if hasattr(space, "n") and getattr(space, "start", 0) == 0 and space.shape == ():
        return int(space.n)
    shape = getattr(space, "shape", None)
    if shape is None or len(shape) != 1 or hasattr(space, "n"):
        return None
    return int(shape[0])


def require_gymnasium(env: Any) -> None:
    """Raise where this is no single environment of gymnasium."""
    if not isinstance(env, _gymnasium("environments").Env):
        raise TypeError(
            f"expected an id or a gymnasium environment, got {type(env).__name__}: {env!r:.80}"
        )


def _gymnasium(what: str) -> Any:
    try:
        import gymnasium
    except ImportError:
        raise ImportError(
            f"expected gymnasium and stable-baselines3 for {what}, got none: "
            'pip install "gymnasium[mujoco]" stable-baselines3'
        ) from None
    return gymnasium
