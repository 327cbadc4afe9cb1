"""Whether a matrix is in the connected group of a Lie algebra."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import Array, commutant, null_space

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
