"""Which other components a group may have once its connected part is known.

The connected group is normal in the whole one, so an element of another component normalises the
Lie algebra, and one element of a component stands for all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy.discovery.proposing.generators._component_proposals import (
    proposals,
    unnamed_proposals,
)
from isotropy.discovery.proposing.generators._connected_group import in_connected_group
from isotropy.discovery.proposing.generators._spans import Array
from isotropy.groups import orthonormal_span, parse_group
from isotropy.groups._balanced_frame import balanced_frame
from isotropy.groups._intertwiners import outside

_EXACT = 1e-6
_MOST = 16  # candidates of one algebra


@dataclass(frozen=True, eq=False)
class DiscreteCandidate:
    """An element that may stand for a component of a symmetry group.

    Args:
        name: What it does.
        matrix: A matrix, shape (d, d); on rows of data also [A|b], shape (n, n+1).

    Example:
        >>> DiscreteCandidate("reflection", torch.diag(torch.tensor([-1.0, 1.0]))).name
        'reflection'
    """

    name: str
    matrix: Tensor


def coset_candidates(
    algebra: ArrayLike, expression: str | None, change: ArrayLike, *, homogeneous: bool = False
) -> list[DiscreteCandidate]:
    """Elements of components other than the connected one, each of another component.

    Args:
        algebra: A basis of the Lie algebra, shape (D, d, d).
        expression: The catalogue's string of a group with this algebra, None when not recognised.
        change: P, shape (d, d): the algebra is P · algebra of ``expression`` · P⁻¹.
        homogeneous: Whether matrices are homogeneous ones of affine maps: the last coordinate is
            1, and no candidate changes it.

    Returns:
        Those that normalise the algebra, are not in its connected group, and differ from one
        another by more than an element of it.

    Raises:
        ValueError: If shapes do not fit.

    Example:
        >>> boosts = [[[0.0, 1.0], [1.0, 0.0]]]
        >>> [c.name for c in coset_candidates(boosts, "SO11p", np.eye(2))]
        ['parity', 'time reversal', 'both']
        >>> turn = [[[0.0, -1.0], [1.0, 0.0]]]
        >>> [c.name for c in coset_candidates(turn, "SO(2)", np.eye(2))]
        ['reflection']
    """
    given, frame = _array(algebra), _array(change)
    if given.ndim != 3 or given.shape[1] != given.shape[2] or not given.shape[1]:
        raise ValueError(f"expected an algebra of shape (D, d, d), got {given.shape}")
    if frame.shape != given.shape[1:]:
        raise ValueError(
            f"expected a change of basis of shape {given.shape[1:]}, got {frame.shape}"
        )
    if expression is None and len(given):
        frame = balanced_frame(orthonormal_span(given, 0.0))
    basis = orthonormal_span(np.linalg.inv(frame) @ given @ frame, 1e-9)
    if expression is None:
        proposed = list(unnamed_proposals(basis))
    else:
        group = parse_group(expression)
        if group.d != len(frame):
            raise ValueError(f"expected a group on dimension {len(frame)}, got {expression}")
        proposed = list(proposals(group))
    found: list[tuple[str, Array]] = []
    for name, h in proposed:
        _keep_if_new(found, name, h, basis)
    for (first, g), (second, h) in combinations(tuple(found), 2):
        _keep_if_new(found, f"{first} and {second}", g @ h, basis)
    candidates = [DiscreteCandidate(name, _moved(frame, h)) for name, h in found]
    last = torch.eye(len(frame), dtype=torch.float64)[-1]
    return [
        c
        for c in candidates
        if not homogeneous or float((c.matrix[-1] - last).abs().max()) < _EXACT
    ]


def candidates_for_rows(
    candidates: Sequence[DiscreteCandidate], columns: Sequence[Sequence[int]], n: int
) -> list[DiscreteCandidate]:
    """The same elements on whole rows, with the exchanges of two blocks.

    Args:
        candidates: Elements on a block. Those one wider than a block are homogeneous, up to a
            factor.
        columns: The columns of each block, all of one width.
        n: The width of rows; columns in no block stay as they are.

    Returns:
        Matrices of shape (n, n), or [A|b] of shape (n, n+1) for affine ones.

    Raises:
        ValueError: If blocks differ in width, overlap or are not columns, or a matrix does not fit.

    Example:
        >>> flip = DiscreteCandidate("reflection", torch.tensor([[-1.0]]))
        >>> for found in candidates_for_rows([flip], [[0], [2]], 3):
        ...     print(found.name, found.matrix.diagonal().tolist())
        reflection [-1.0, 1.0, -1.0]
        swap of blocks 1 and 2 [0.0, 1.0, 0.0]
    """
    blocks = [list(block) for block in columns]
    flat = [column for block in blocks for column in block]
    if len({len(block) for block in blocks}) != 1 or not flat:
        raise ValueError(f"expected blocks of one width, got {blocks!r:.80}")
    if len(set(flat)) < len(flat) or not all(0 <= column < n for column in flat):
        raise ValueError(
            f"expected blocks of different columns from 0 to {n - 1}, got {blocks!r:.80}"
        )
    found = [
        DiscreteCandidate(one.name, _on_rows(one.matrix.double(), blocks, n)) for one in candidates
    ]
    for i, j in combinations(range(len(blocks)), 2):
        order = list(range(n))
        for a, b in zip(blocks[i], blocks[j], strict=True):
            order[a], order[b] = b, a
        swap = torch.eye(n, dtype=torch.float64)[order]
        found.append(DiscreteCandidate(f"swap of blocks {i + 1} and {j + 1}", swap))
    return found


def _on_rows(h: Tensor, blocks: Sequence[Sequence[int]], n: int) -> Tensor:
    """An element of blocks on whole rows, (n, n), or (n, n + 1) where it is homogeneous."""
    width = len(blocks[0])
    if h.shape not in ((width, width), (width + 1, width + 1)):
        raise ValueError(
            f"expected elements on blocks of width {width}, got shape {tuple(h.shape)}"
        )
    affine = len(h) > width
    if affine:
        if float(h[width, :width].abs().max()) > _EXACT * abs(float(h[width, width])):
            raise ValueError(
                f"expected affine elements, with a last row of zeros and a number, got "
                f"{h[width].tolist()!r:.80}"
            )
        h = h / h[width, width]
    rows = torch.eye(n, n + affine, dtype=torch.float64)
    for block in blocks:
        at = torch.tensor(block)
        rows[at.unsqueeze(1), at] = h[:width, :width]
        if affine:
            rows[at, n] = h[:width, width]
    return rows


def _keep_if_new(found: list[tuple[str, Array]], name: str, h: Array, basis: Array) -> None:
    """Add an element that normalises the algebra and is of a component not yet there."""
    if len(found) >= _MOST:
        return
    inverse = np.linalg.inv(h)
    if len(basis) and outside(h @ basis @ inverse, basis).max() > _EXACT * np.linalg.cond(h):
        return
    if in_connected_group(h, basis):
        return
    if any(in_connected_group(h @ np.linalg.inv(known), basis) for _, known in found):
        return
    found.append((name, h))


def _array(given: ArrayLike) -> Array:
    return np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)


def _moved(frame: Array, h: Array) -> Tensor:
    moved = frame @ h @ np.linalg.inv(frame)
    if np.abs(moved.imag).max() < 1e-9 * np.abs(moved).max():
        moved = moved.real
    return torch.from_numpy(np.ascontiguousarray(moved))
