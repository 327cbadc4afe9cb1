"""What a group is made of: its connected part, scalings, translations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._algebras import ClassResult
from isotropy.discovery.proposing.generators._closure import Array, commutant, null_space
from isotropy.groups import Group, Trivial, identify, orthonormal_span
from isotropy.reps import Rep, Symmetry

EQUAL = 1e-6  # floating point: matrices of a group that differ less are one


def in_connected_group(h: Array, basis: Array) -> bool:
    """Whether a matrix is a product of exponentials of a Lie algebra's elements.

    Steps g ← exp(a) g with a of the algebra bring the matrix as near to 1 as they can, from several
    starts: those that stall elsewhere are left by others.

    Args:
        h: The matrix, shape (d, d).
        basis: An orthonormal basis of the algebra, shape (D, d, d), in balanced coordinates.

    Example:
        >>> turn = np.array([[[0.0, -1.0], [1.0, 0.0]]]) / np.sqrt(2)
        >>> in_connected_group(-np.eye(2), turn), in_connected_group(np.diag([-1.0, 1.0]), turn)
        (True, False)
    """
    one = np.eye(len(h))
    if np.abs(h - one).max() < EQUAL:
        return True
    if not len(basis) or not _may_be_connected(h, basis):
        return False
    dtype = torch.complex128 if np.iscomplexobj(basis) or np.iscomplexobj(h) else torch.float64
    algebra = torch.from_numpy(np.ascontiguousarray(basis)).to(dtype)
    starts = ProposingThresholds.now().connected_starts
    weights = np.random.default_rng(0).standard_normal((starts, len(basis)))
    weights[0] = 0.0
    first = torch.matrix_exp(
        torch.einsum("sd,dij->sij", torch.from_numpy(weights).to(dtype), algebra)
    )
    return _nearest_to_one(first @ torch.from_numpy(h).to(dtype), algebra) < EQUAL


def _may_be_connected(h: Array, basis: Array) -> bool:
    """What a product of exponentials satisfies: it fixes what the algebra kills, and so on."""
    real = not (np.iscomplexobj(h) or np.iscomplexobj(basis))
    if real and np.linalg.det(h) < 0:
        return False
    d = len(h)
    killed = null_space(basis.reshape(-1, d), 1e-9).conj().T
    if np.abs(h @ killed - killed).max(initial=0.0) > EQUAL:
        return False
    commuting = commutant(basis)
    return bool(np.abs(h @ commuting - commuting @ h).max(initial=0.0) < EQUAL)


def _nearest_to_one(g: Tensor, algebra: Tensor) -> float:
    """The least distance from 1 that Levenberg-Marquardt steps g ← exp(a) g reach, over a batch."""
    count, d = len(algebra), g.shape[1]
    one = torch.eye(d, dtype=g.dtype)
    damping = torch.full((len(g),), 1e-2, dtype=torch.float64)
    sizes = torch.linalg.matrix_norm(g - one)
    for _ in range(ProposingThresholds.now().connected_steps):
        if float(sizes.min()) < EQUAL:
            break
        moves = (algebra @ g.unsqueeze(1)).flatten(2)  # (starts, D, d²)
        gram = (moves @ moves.mH).real
        wanted = (moves.conj() @ (one - g).flatten(1).unsqueeze(2)).real
        ridge = damping * gram.diagonal(dim1=1, dim2=2).mean(1)
        gram = gram + (ridge + 1e-12)[:, None, None] * torch.eye(count, dtype=gram.dtype)
        step = torch.einsum(
            "sd,dij->sij", torch.linalg.solve(gram, wanted).squeeze(2).to(g.dtype), algebra
        )
        length = torch.linalg.matrix_norm(step).clamp_min(1.0)
        trial = torch.matrix_exp(step / length[:, None, None]) @ g
        new_sizes = torch.linalg.matrix_norm(trial - one)
        better = new_sizes < sizes
        g = torch.where(better[:, None, None], trial, g)
        sizes = torch.where(better, new_sizes, sizes)
        damping = torch.where(better, damping / 4, damping * 8).clamp(1e-12, 1e8)
    return float(sizes.min())


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
