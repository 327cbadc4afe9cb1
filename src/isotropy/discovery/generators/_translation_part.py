"""The translations in an affine group, and the linear group of what they leave."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from isotropy.discovery.generators._charts import Array
from isotropy.discovery.generators._scaling_part import recognised, spanned
from isotropy.discovery.generators._spans import null_space
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

    Args:
        rows: Generators on whole inputs, [A | b], ``(D, n, n + 1)``.
        generators: Their linear parts as they act on a block, ``(D, d, d)``.
        rep_in: How the linear group acts on inputs.
        rep_out: How it acts on outputs.

    Returns:
        None where there is no such function.

    Example:
        >>> from isotropy.reps import Scalar, V
        >>> turn = np.array([[0.0, -1, 0], [1, 0, 0]])
        >>> shift = np.array([[0.0, 0, 1], [0, 0, 0]])
        >>> translations_in(turn[None], turn[None, :, :2], V, Scalar).along.shape
        (0, 2)
        >>> translations_in(np.array([turn, shift]), np.array([turn, shift])[..., :2], V, Scalar)
    """
    flat = rows[:, :, :-1].reshape(len(rows), -1)
    scale = float(np.abs(rows).max(initial=0.0))
    still = null_space(flat.T / max(scale, 1e-300), _EXACT)  # combinations with no linear part
    shifts = still @ rows[:, :, -1]
    n = rows.shape[1]
    along = orthonormal_span(shifts, _EXACT) if len(shifts) else np.zeros((0, n))
    left = np.eye(n) - along.T @ along
    linear = rows[:, :, :-1]
    tolerance = 1e-6 * max(scale, 1e-300)
    if np.abs(rows[:, :, -1] @ left).max(initial=0.0) > tolerance:
        return None
    if np.abs(linear @ left - left @ linear).max(initial=0.0) > tolerance:
        return None
    turning = spanned(generators)
    if not len(turning):
        return Translations(along, None)
    group = recognised(Group(algebra=list(torch.as_tensor(turning))))
    return Translations(along, Symmetry(group, rep_in, rep_out))
