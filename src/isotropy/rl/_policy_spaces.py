"""Whether a symmetry fits the spaces of an environment."""

from __future__ import annotations

from math import prod

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from isotropy.reps import Rep
from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._known_environments import environment_symmetry
from isotropy.rl._magnitudes import (
    acts_by_permutations,
    acts_by_signed_permutations,
    magnitudes,
)

_CLOSE = 1e-6


def fitting_symmetry(
    symmetry: EnvironmentSymmetry | str | None,
    observation_space: spaces.Space[np.ndarray],
    action_space: spaces.Space[np.ndarray] | None = None,
) -> EnvironmentSymmetry:
    """A symmetry of an environment with these spaces, or an error that says why it is none.

    Args:
        symmetry: The symmetry, or the id of a known environment, such as "Walker2d-v5".
        observation_space: A box with as many entries as the symmetry acts on.
        action_space: The same for actions: a box that the group maps to itself, or as many
            discrete actions as it permutes; not looked at where None.

    Raises:
        TypeError: If something else is given.
        ValueError: If the sizes differ, or limits of actions are not symmetric.

    Example:
        >>> flip = EnvironmentSymmetry.of([[[-1.0, 0.0], [0.0, 1.0]]], [[[-1.0]]])
        >>> box = spaces.Box(-1, 1, (2,))
        >>> fitting_symmetry(flip, box, spaces.Box(-1, 1, (1,))) is flip
        True
        >>> fitting_symmetry(flip, box, spaces.Box(0, 1, (1,)))
        Traceback (most recent call last):
        ...
        ValueError: expected limits of actions that Z(2) keeps, got [0.] to [1.]: rescale the...
    """
    if isinstance(symmetry, str):
        symmetry = environment_symmetry(symmetry)
    if not isinstance(symmetry, EnvironmentSymmetry):
        raise TypeError(
            "expected a symmetry, symmetry=EnvironmentSymmetry(...) or the id of a known "
            f"environment, got {type(symmetry).__name__}"
        )
    if not isinstance(observation_space, spaces.Box):
        raise TypeError(f"expected a box of observations, got {observation_space}")
    size = prod(observation_space.shape)
    if size != symmetry.observation_size:
        hint = (
            ": isotropy.rl.make_environment leaves out what the symmetries of Ant-v5 and "
            "Humanoid-v5 do not describe"
        )
        raise ValueError(
            f"expected observations of {symmetry.observation_size} entries for {symmetry.name}, "
            f"got {size}{hint if size > symmetry.observation_size else ''}"
        )
    if action_space is not None:
        _require_actions(symmetry, action_space)
    return symmetry


def _require_actions(symmetry: EnvironmentSymmetry, space: spaces.Space[np.ndarray]) -> None:
    if isinstance(space, spaces.Discrete):
        size = int(space.n)
    elif isinstance(space, spaces.Box):
        size = prod(space.shape)
    else:
        raise TypeError(f"expected a box of actions or discrete ones, got {space}")
    if size != symmetry.action_size:
        raise ValueError(
            f"expected actions of {symmetry.action_size} entries for {symmetry.name}, got {size}"
        )
    if isinstance(space, spaces.Discrete):
        if not acts_by_permutations(symmetry.action):
            raise ValueError(
                f"expected a symmetry that exchanges discrete actions, got {symmetry.name} with "
                "signs or rotations"
            )
    elif not _keeps_box(symmetry, space):
        raise ValueError(
            f"expected limits of actions that {symmetry.name} keeps, got {space.low.flatten()} to "
            f"{space.high.flatten()}: rescale the actions (gymnasium.wrappers.RescaleAction)"
        )


def _keeps_box(symmetry: EnvironmentSymmetry, space: spaces.Box) -> bool:
    """Whether the middle of a box stays where it is, and its sides are exchanged."""
    if not acts_by_signed_permutations(symmetry.action):
        return True  # what mixes entries keeps no box; who needs it to says so
    sides = (
        torch.from_numpy(np.array(side)).double().flatten() for side in (space.low, space.high)
    )
    low, high = sides
    if not bool((low.isfinite() & high.isfinite()).all()):
        return True
    sizes = magnitudes(symmetry.action)
    return _is_kept(symmetry.action, low + high) and _is_kept(sizes, high - low)


def _is_kept(rep: Rep, x: Tensor) -> bool:
    _, discrete = rep.generators()
    return all(bool(((h.dense() @ x - x).abs() < _CLOSE).all()) for h in discrete)
