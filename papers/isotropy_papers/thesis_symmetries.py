"""Representations that the published experiments used, where they are no symmetry of the body.

They act on the observations of gymnasium and hold poorly: ``dynamics_error`` measures how far the
simulator is from commuting with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isotropy.rl import EnvironmentSymmetry, environment_symmetry


def thesis_symmetries(id: str) -> dict[str, EnvironmentSymmetry]:
    """The published symmetries of an environment, by name; none where they are the body's own.

    Args:
        id: The id of the environment.

    Example:
        >>> list(thesis_symmetries("Swimmer-v5")), list(thesis_symmetries("Hopper-v5"))
        (['thesis', 'thesis front/back'], [])
    """
    makers = _PUBLISHED.get(id.rpartition("-")[0], {})
    names = environment_symmetry(id)
    return {
        name: replace(
            make(),
            observation_names=names.observation_names,
            action_names=names.action_names,
            holds="poorly",
        )
        for name, make in makers.items()
    }


def _swimmer_with_equal_velocities() -> EnvironmentSymmetry:
    """The mirror of the Swimmer as it was run: the sideways velocity keeps its sign.

    Example:
        >>> print(_swimmer_with_equal_velocities())
        Z(2): 6*Pseudoscalar+2*Scalar (observation), 2*Pseudoscalar (action)
    """
    return EnvironmentSymmetry.of(
        [_signed(range(8), [-1, -1, -1, 1, 1, -1, -1, -1])],
        [_signed(range(2), [-1, -1])],
        generators=["angles change sign, velocities do not"],
    )


def _swimmer_with_exchanged_joints() -> EnvironmentSymmetry:
    """Front and back of the Swimmer (thesis Table A.10): its two joints are exchanged.

    Example:
        >>> print(_swimmer_with_exchanged_joints())
        Z(2): 4*Scalar+2*V (observation), V (action)
    """
    return EnvironmentSymmetry.of(
        [[0, 2, 1, 3, 4, 5, 7, 6]], [[1, 0]], generators=["joint 1 <-> joint 2"]
    )


def _ant_without_signs() -> EnvironmentSymmetry:
    """Z(4) on the legs of the Ant (thesis Table A.10); the torso does not turn with them.

    Example:
        >>> _ant_without_signs().name
        'Z(4)'
    """
    joints = [6, 7, 0, 1, 2, 3, 4, 5]
    observation = [*range(5), *(5 + j for j in joints), *range(13, 19), *(19 + j for j in joints)]
    return EnvironmentSymmetry.of(
        [_signed(observation, [1] * 27)],
        [_signed(joints, [1] * 8)],
        generators=["leg 1 -> leg 2 -> leg 3 -> leg 4"],
    )


def _humanoid_with_exchanged_axes() -> EnvironmentSymmetry:
    """Left and right of the Humanoid as they were run: x and y of the world are exchanged.

    The orientation, there a matrix Q, becomes S Q Sᵀ with the exchange S; on quaternions that is
    (w, −y, −x, −z).

    Example:
        >>> _humanoid_with_exchanged_axes().observation_size
        45
    """
    legs, arms = [1 - 2 * (k == 0) for k in range(4)] * 2, [-1, 1, 1] * 2
    sides = [*range(7, 11), *range(3, 7), *range(14, 17), *range(11, 14)]
    joints, signs = [0, 1, 2, *sides], [1, 1, -1, *legs, *arms]
    observation = [
        *(0, 1, 3, 2, 4),
        *(5 + j for j in joints),
        *(23, 22, 24, 26, 25, 27),
        *(28 + j for j in joints),
    ]
    on_observation = [1, 1, -1, -1, -1, *signs, *[1] * 6, *signs]
    return EnvironmentSymmetry.of(
        [_signed(observation, on_observation)],
        [_signed(joints, signs)],
        generators=["x <-> y, left <-> right"],
    )


def _signed(index: Sequence[int], signs: Sequence[int]) -> Tensor:
    """The matrix with y[i] = signs[i] x[index[i]]."""
    rows = torch.eye(len(index), dtype=torch.float64)[list(index)]
    return rows * torch.tensor(signs, dtype=torch.float64)[:, None]


_PUBLISHED: Mapping[str, Mapping[str, Callable[[], EnvironmentSymmetry]]] = {
    "Swimmer": {
        "thesis": _swimmer_with_equal_velocities,
        "thesis front/back": _swimmer_with_exchanged_joints,
    },
    "Ant": {"thesis": _ant_without_signs},
    "Humanoid": {"thesis": _humanoid_with_exchanged_axes},
}
