"""Whether a symmetry fits the spaces of an environment."""

from __future__ import annotations

import warnings
from math import prod

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from isotropy.rl._environment_symmetry import EnvironmentSymmetry
from isotropy.rl._known_environments import environment_symmetry, how_to_narrow
from isotropy.rl._magnitudes import acts_by_permutations, acts_by_signed_permutations

_CLOSE = 1e-6


def fitting_symmetry(
    symmetry: EnvironmentSymmetry | str | None,
    observation_space: spaces.Space[np.ndarray],
    action_space: spaces.Space[np.ndarray] | None = None,
    *,
    strict: bool = False,
) -> EnvironmentSymmetry:
    """A symmetry of an environment with these spaces, or an error that says why it is none.

    Args:
        symmetry: The symmetry, or the id of a known environment, such as "Walker2d-v5".
        observation_space: A box with as many entries as the symmetry acts on.
        action_space: The same for actions: a box that the group maps to itself, or as many
            discrete actions as it permutes; not looked at where None.
        strict: Whether what is built takes the symmetry to hold, so that a warning is due where it
            is known not to.

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
        call = how_to_narrow(symmetry.observation_size)
        wider = call is not None and size > symmetry.observation_size
        hint = f": make it with {call}" if wider else ""
        raise ValueError(
            f"expected observations of {symmetry.observation_size} entries for {symmetry.name}, "
            f"got {size}{hint}"
        )
    if action_space is not None:
        _require_actions(symmetry, action_space)
    if strict and symmetry.holds not in (None, "exactly"):
        warnings.warn(
            f"{symmetry.name} holds {symmetry.holds}, and is here taken to hold exactly: policies "
            "such as RPPPolicy, without images in the replay buffer, can depart from it",
            UserWarning,
            stacklevel=4,
        )
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
    """Whether every generator takes the sides of a box to sides, those at infinity too."""
    if not acts_by_signed_permutations(symmetry.action):
        return True  # what mixes entries keeps no box; who needs it to says so
    low, high = (
        torch.from_numpy(np.array(side)).double().flatten() for side in (space.low, space.high)
    )
    _, discrete = symmetry.action.generators()
    for h in discrete:
        signed = h.dense()
        # a matrix times infinity is not a number, so entries are taken one by one
        source = signed.abs().argmax(-1)
        negative = signed.sum(-1) < 0
        moved_low = torch.where(negative, -high[source], low[source])
        moved_high = torch.where(negative, -low[source], high[source])
        if not (_close(moved_low, low) and _close(moved_high, high)):
            return False
    return True


def _close(x: Tensor, y: Tensor) -> bool:
    return bool(torch.isclose(x, y, rtol=_CLOSE, atol=_CLOSE).all())
