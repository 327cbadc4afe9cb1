"""Natural elements beyond a connected group, in standard coordinates: proposals, with names.

Reflections, parity and time reversal, complex conjugation, reversal of a piece, exchange of pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from isotropy.discovery.proposing.generators._spans import Array, commutant
from isotropy.groups import GL, SE, SL, SO, DirectProduct, Group, SO11p, SO13p, SOpq, Sp, Trivial
from isotropy.groups._intertwiners import complex_structure, split
from isotropy.groups._products import SideBySide

_MOST_AXES = 4  # of a fixed space, to be reversed one by one
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
    elif d <= _MOST_AXES:
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
