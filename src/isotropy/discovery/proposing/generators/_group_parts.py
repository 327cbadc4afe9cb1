"""What a group is made of, where a model has to take it apart.

The scaling of all that moves, where it is in a group, and the group without it.

The translations in an affine group, and the linear group of what they leave.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from isotropy.discovery.proposing.generators._algebras import ClassResult
from isotropy.discovery.proposing.generators._charts import Array
from isotropy.discovery.proposing.generators._closure import null_space
from isotropy.groups import Group, Trivial, identify, orthonormal_span
from isotropy.reps import Rep, Symmetry

_EXACT = 1e-9  # floating point: entries of exact generators that are zero


@dataclass(frozen=True)
class ScalingPart:
    """A scaling of all that moves, and the group without it.

    Args:
        columns: What is scaled.
        degree: Outputs grow by so many powers of it.
        rest: The group without scalings, and its actions.
    """

    columns: tuple[int, ...]
    degree: float
    rest: Symmetry


def scaling_in(
    result: ClassResult, generators: Array, rep_in: Rep, rep_out: Rep
) -> ScalingPart | None:
    """The scaling of all blocks, if it is among the generators."""
    columns, d = result.chart.columns, generators.shape[1]
    flat = generators.reshape(len(generators), -1)
    one = np.eye(d).ravel()
    if columns is None or np.abs(np.linalg.lstsq(flat.T, one)[0] @ flat - one).max() > 1e-9:
        return None
    traces = np.trace(generators, axis1=1, axis2=2)
    rest = spanned(generators - traces[:, None, None] / d * np.eye(d))
    group: Group = Trivial(d)
    if len(rest):
        group = recognised(Group(algebra=list(torch.as_tensor(rest))))
    degree = {"vector": 1.0, "matrix": 2.0}.get(result.output, 0.0)
    moved = tuple(column for block in columns for column in block)
    return ScalingPart(moved, degree, Symmetry(group, rep_in, rep_out))


def spanned(matrices: Array) -> Array:
    """An orthonormal basis of the span of matrices, of which some may be zero but for rounding.

    Example:
        >>> len(spanned(np.array([np.eye(2), 3 * np.eye(2), 1e-17 * np.ones((2, 2))])))
        1
    """
    sizes = np.abs(matrices).max(axis=(1, 2), initial=0.0)
    return orthonormal_span(matrices[sizes > _EXACT], _EXACT)


def recognised(group: Group) -> Group:
    """The catalogue's group in its place, where a group is one."""
    found = identify(group)
    if found.group is None:
        return group
    change = found.change.dense()
    if change.is_complex():
        return group
    plain = torch.allclose(change, torch.eye(len(change), dtype=change.dtype), atol=1e-12)
    return found.group if plain else found.group.conjugate(change)


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
