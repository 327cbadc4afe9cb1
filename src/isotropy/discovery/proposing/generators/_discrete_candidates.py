"""Which other components a group may have once its connected part is known.

The connected group is normal in the whole one, so an element of another component normalises the
Lie algebra, and one element of a component stands for all of it.

Natural elements beyond a connected group, in standard coordinates: proposals, with names.

Reflections, parity and time reversal, complex conjugation, reversal of a piece, exchange of pieces.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._closure import Array, commutant
from isotropy.discovery.proposing.generators._group_parts import EQUAL, in_connected_group
from isotropy.groups import (
    GL,
    SE,
    SL,
    SO,
    DirectProduct,
    Group,
    SO11p,
    SO13p,
    SOpq,
    Sp,
    Trivial,
    orthonormal_span,
    parse_group,
)
from isotropy.groups._balanced_frame import balanced_frame
from isotropy.groups._intertwiners import complex_structure, outside, split
from isotropy.groups._products import SideBySide

NamedElement = tuple[str, Array]


def proposals(group: Group) -> Iterator[NamedElement]:
    """For a group of the catalogue, some of which may be in its connected part."""
    match group:
        case SideBySide():
            yield from _of_sum(group)
        case DirectProduct():
            yield from _of_product(group)
        case SO13p() | SO11p():
            yield from _of_metric(1, group.d - 1)
        case SOpq():
            yield from _of_metric(group.p, group.q)
        case Trivial():
            yield from _of_fixed(group.d, "fixed direction")
        case SO() | SL() | GL() | SE():
            yield "reflection", _reversal(group.d, 0)
        case Sp():
            half = group.d // 2
            yield "reversal of momenta", _reversal(group.d, *range(half, group.d))
    if not isinstance(group, SE):  # where the last coordinate stays 1
        yield "reversal", -np.eye(group.d)


def unnamed_proposals(basis: Array) -> Iterator[NamedElement]:
    """For an algebra without a name: on each invariant piece, and a complex conjugation."""
    d = basis.shape[1]
    commuting = commutant(basis) if len(basis) else np.eye(d * d).reshape(-1, d, d)
    if not np.iscomplexobj(basis) and d % 2 == 0 and len(basis):
        structure = complex_structure(commuting)
        if structure is not None:
            yield "complex conjugation", _conjugation(structure)
    pieces = split(commuting) if len(basis) else [np.eye(d)]
    frame = np.hstack(pieces)
    coframe = np.linalg.inv(frame)
    start = 0
    for number, piece in enumerate(pieces):
        label = f" on piece {number + 1}" if len(pieces) > 1 else ""
        size = piece.shape[1]
        yield f"reflection{label}", frame @ _reversal(d, start) @ coframe
        yield f"reversal{label}", frame @ _reversal(d, *range(start, start + size)) @ coframe
        start += size
    yield "reversal", -np.eye(d)


def _of_metric(p: int, q: int) -> Iterator[NamedElement]:
    """All of an odd number of axes are reversed, one of an even number: -1 is then connected."""
    first = range(p) if p % 2 else range(1)
    second = range(p, p + q) if q % 2 else range(p, p + 1)
    names = ["parity", "time reversal"]
    if p > 1:
        names = [f"reversal among the {n} {sign} axes" for n, sign in ((q, "−"), (p, "+"))]
    yield names[0], _reversal(p + q, *second)
    yield names[1], _reversal(p + q, *first)
    yield "both", _reversal(p + q, *first, *second)


def _of_fixed(d: int, what: str) -> Iterator[NamedElement]:
    if d == 1:
        yield f"reversal of the {what}", -np.eye(1)
    elif d <= ProposingThresholds.now().reversed_axes:
        for i in range(d):
            yield f"reversal of {what} {i + 1}", _reversal(d, i)


def _of_sum(group: SideBySide) -> Iterator[NamedElement]:
    texts = [str(term) for term in group.terms]
    ends = np.cumsum([term.d for term in group.terms])
    starts = ends - [term.d for term in group.terms]
    axis = texts == ["SO(2)", "Trivial(1)"]
    for at, term in enumerate(group.terms):
        label = texts[at]
        if texts.count(label) > 1:
            label += f" number {texts[: at + 1].count(label)}"
        for name, h in proposals(term):
            whole = np.eye(group.d)
            whole[starts[at] : ends[at], starts[at] : ends[at]] = h
            full = name if isinstance(term, Trivial) else f"{name} on {label}"
            yield _about_axis(term) if axis else full, whole
    for i, j in combinations(range(len(texts)), 2):
        if texts[i] == texts[j] and not isinstance(group.terms[i], Trivial):
            order = np.arange(group.d)
            order[starts[i] : ends[i]] = np.arange(starts[j], ends[j])
            order[starts[j] : ends[j]] = np.arange(starts[i], ends[i])
            yield f"swap of two {texts[i]}", np.eye(group.d)[order]


def _about_axis(term: Group) -> str:
    across = isinstance(term, Trivial)
    return f"reflection in {'the plane across' if across else 'a plane through'} the axis"


def _of_product(group: DirectProduct) -> Iterator[NamedElement]:
    before = 1
    for factor in group.factors:
        after = group.d // before // factor.d
        copies = isinstance(factor, Trivial)
        inner = _of_fixed(factor.d, "copy") if copies else proposals(factor)
        for name, h in inner:
            yield name, np.kron(np.kron(np.eye(before), h), np.eye(after))
        before *= factor.d


def _conjugation(structure: Array) -> Array:
    """K with K J = -J K and K² = 1, for an orthogonal J with J² = -1."""
    d = len(structure)
    real: list[Array] = []
    while 2 * len(real) < d:
        taken = np.array([v for x in real for v in (x, structure @ x)]).reshape(-1, d)
        rest = np.eye(d) - taken.T @ taken
        x = rest[:, int(np.argmax(np.diag(rest)))]
        real.append(x / np.linalg.norm(x))
    columns = np.array(real).T
    conjugation: Array = 2 * columns @ columns.T - np.eye(d)
    return conjugation


def _reversal(d: int, *axes: int) -> Array:
    signs = np.ones(d)
    signs[list(axes)] = -1.0
    return np.diag(signs)


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
        c for c in candidates if not homogeneous or float((c.matrix[-1] - last).abs().max()) < EQUAL
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
        if float(h[width, :width].abs().max()) > EQUAL * abs(float(h[width, width])):
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
    if len(found) >= ProposingThresholds.now().components_tried:
        return
    inverse = np.linalg.inv(h)
    if len(basis) and outside(h @ basis @ inverse, basis).max() > EQUAL * np.linalg.cond(h):
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
