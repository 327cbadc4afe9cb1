"""The translations in an affine group, and the linear group of what they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from isotropy.discovery.proposing.generators._charts import Array
from isotropy.discovery.proposing.generators._scaling_part import recognised, spanned
from isotropy.discovery.proposing.generators._spans import null_space
from isotropy.groups import Group, orthonormal_span
from isotropy.reps import Rep, Symmetry

_EXACT = 1e-9


@dataclass(frozen=True, eq=False)
class Translations:
    """Translations of rows, and what else a group does.

    Args:
        along: An orthonormal basis of them, ``(r, n)``.
        rest: The linear group that acts on what they leave; None where there is none.
    """

    along: Array
    rest: Symmetry | None


def translations_in(
    rows: Array, generators: Array, rep_in: Rep, rep_out: Rep
) -> Translations | None:
    """Take an affine group apart: x ↦ Px, P = 1 − TᵀT, removes its translations T.

    A function of Px has the whole group if it has the linear part, A for each [A | b], where P
    commutes with that and all b are along T.

    Returns:
        None where there is no such function.

    Example:
        >>> from isotropy.reps import Scalar, V
        >>> turn = np.zeros((3, 4))
        >>> turn[0, 1], turn[1, 0] = -1, 1
        >>> lift = np.zeros((3, 4))
        >>> lift[2, 3] = 1
        >>> both = np.array([turn, lift])
        >>> abs(translations_in(both, both[..., :3], V, Scalar).along).round(6)
        array([[0., 0., 1.]])
        >>> along = np.array([turn + lift])  # a screw: to turn is to rise
        >>> translations_in(along, along[..., :3], V, Scalar)
    """
    flat = rows[:, :, :-1].reshape(len(rows), -1)
    scale = max(float(np.abs(rows).max(initial=0.0)), 1e-300)
    still = null_space(flat.T / scale, _EXACT, size=1.0)  # combinations with no linear part
    if not len(still):
        return None
    along = orthonormal_span(still @ rows[:, :, -1], _EXACT)
    left = np.eye(rows.shape[1]) - along.T @ along
    linear = rows[:, :, :-1]
    tolerance = 1e-6 * scale
    if np.abs(rows[:, :, -1] @ left).max(initial=0.0) > tolerance:
        return None
    if np.abs(linear @ left - left @ linear).max(initial=0.0) > tolerance:
        return None
    turning = spanned(generators)
    if not len(turning):
        return Translations(along, None)
    group = recognised(Group(algebra=list(torch.as_tensor(turning))))
    return Translations(along, Symmetry(group, rep_in, rep_out))
