"""Which other components of a group hold once its connected part is known.

The connected group is normal in the whole one, so an element of another component normalises the
Lie algebra, and one element of a component stands for all of it. Candidates are natural ones:
reflections, parity and time reversal, complex conjugation, reversal of a piece, exchange of pieces
or of blocks of columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy.discovery.confirming._claim_test import Loss, Predictor, holm
from isotropy.discovery.confirming._orbit_average import (
    ActionTest,
    DataSupport,
    cost_of_average,
    evaluated,
    row_labels,
    untested,
    why_untested,
)
from isotropy.discovery.generators._spans import Array, commutant, null_space
from isotropy.groups import (
    GL,
    SE,
    SL,
    SO,
    DirectProduct,
    Group,
    SideBySide,
    SO11p,
    SO13p,
    SOpq,
    Sp,
    Trivial,
    balanced_frame,
    orthonormal_span,
    parse_group,
)
from isotropy.groups._intertwiners import complex_structure, outside, split

_EXACT = 1e-6
_MOST = 16  # candidates of one algebra
_MOST_AXES = 4  # of a fixed space, to be reversed one by one
_STARTS = 12
_STEPS = 60


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
        proposed = list(_unnamed_proposals(basis))
    else:
        group = parse_group(expression)
        if group.d != len(frame):
            raise ValueError(f"expected a group on dimension {len(frame)}, got {expression}")
        proposed = list(_proposals(group))
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
    width = len(blocks[0])
    found = []
    for candidate in candidates:
        h = candidate.matrix.double()
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
        found.append(DiscreteCandidate(candidate.name, rows))
    for i, j in combinations(range(len(blocks)), 2):
        order = list(range(n))
        for a, b in zip(blocks[i], blocks[j], strict=True):
            order[a], order[b] = b, a
        swap = torch.eye(n, dtype=torch.float64)[order]
        found.append(DiscreteCandidate(f"swap of blocks {i + 1} and {j + 1}", swap))
    return found


@torch.no_grad()
def confirm_discrete(
    predict: Predictor,
    x: Tensor,
    y: Tensor,
    candidates: Sequence[DiscreteCandidate],
    outputs: Sequence[Tensor | None] | None = None,
    *,
    support: DataSupport,
    constant: Tensor,
    loss: Loss = "squared",
    margin: float = 0.05,
    level: float = 0.05,
    groups: ArrayLike | None = None,
) -> list[tuple[DiscreteCandidate, ActionTest]]:
    """Test single elements: f_sym(x) = ½ (f(x) + ρ_out(h)⁻¹ f(h x)) against f.

    Only inputs whose image lies where there are data count. Where these are fewer than 20 or than
    half, or the images are all near by, it cannot be told. P-values are Holm's over all that can.

    Args:
        predict: The free predictor, (N, n) to (N, k), fitted to other samples.
        x: Inputs, shape (N, n).
        y: Targets, shape (N, k) or (N,).
        candidates: Elements on rows, as ``candidates_for_rows`` gives them.
        outputs: ρ_out(h) of each, shape (k, k), None for outputs that stay; all stay by default.
        support: Where the data are that the predictor was fitted to.
        constant: What a constant predictor predicts, shape (k,).
        loss: As ``confirm`` takes it.
        margin: The largest effect that still counts as a symmetry.
        level: The chance of confirming anything false.
        groups: Which samples belong together, shape (N,).

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.

    Example:
        >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> predict = lambda x: (x[:, :1] + 1) ** 2 + x[:, 1:] ** 2
        >>> flips = [DiscreteCandidate(c, torch.eye(2)) for c in "ab"]
        >>> flips[0].matrix[0, 0] = flips[1].matrix[1, 1] = -1
        >>> found = confirm_discrete(
        ...     predict, x, predict(x), flips, support=DataSupport(x), constant=torch.tensor([3.0])
        ... )
        >>> [action.test.confirmed for _, action in found]
        [False, True]
    """
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    if x.ndim != 2 or len(x) != len(y):
        raise ValueError(f"expected as many targets as inputs (N, n), got {y.shape} and {x.shape}")
    back = [None] * len(candidates) if outputs is None else list(outputs)
    if len(back) != len(candidates):
        raise ValueError(f"expected {len(candidates)} maps of outputs, got {len(back)}")
    labels = row_labels(groups, len(x))
    free = evaluated(predict, x, x.double())
    found: list[ActionTest] = []
    for candidate, rho in zip(candidates, back, strict=True):
        images = _images(candidate, x)
        tested = support.contains(images)
        share = float(tested.double().mean())
        reach = _reach(candidate, support.directions_of(images - x.cpu())[tested])
        told = ActionTest(untested(margin, level, int(tested.sum())), share, share, reach)
        reason = why_untested(tested, labels, reach)
        if reason:
            found.append(replace(told, reason=reason))
            continue
        there = evaluated(predict, x, images[tested])
        if rho is not None:
            there = torch.linalg.solve(_output_map(rho, there), there.T).T
        test = cost_of_average(
            free[tested],
            (free[tested] + there).unsqueeze(0) / 2,
            y[tested],
            constant=constant,
            loss=loss,
            margin=margin,
            level=level,
            groups=None if labels is None else labels[tested],
        )
        found.append(replace(told, test=test))
    adjusted = iter(holm([action.test.p_value for action in found if action.told]))
    found = [
        replace(a, test=replace(a.test, adjusted_p_value=float(next(adjusted)))) if a.told else a
        for a in found
    ]
    return list(zip(candidates, found, strict=True))


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
    if np.abs(h - one).max() < _EXACT:
        return True
    if not len(basis) or not _may_be_connected(h, basis):
        return False
    dtype = torch.complex128 if np.iscomplexobj(basis) or np.iscomplexobj(h) else torch.float64
    algebra = torch.from_numpy(np.ascontiguousarray(basis)).to(dtype)
    weights = np.random.default_rng(0).standard_normal((_STARTS, len(basis)))
    weights[0] = 0.0
    starts = torch.matrix_exp(
        torch.einsum("sd,dij->sij", torch.from_numpy(weights).to(dtype), algebra)
    )
    return _nearest_to_one(starts @ torch.from_numpy(h).to(dtype), algebra) < _EXACT


def _may_be_connected(h: Array, basis: Array) -> bool:
    """What a product of exponentials satisfies: it fixes what the algebra kills, and so on."""
    real = not (np.iscomplexobj(h) or np.iscomplexobj(basis))
    if real and np.linalg.det(h) < 0:
        return False
    d = len(h)
    killed = null_space(basis.reshape(-1, d), 1e-9).conj().T
    if np.abs(h @ killed - killed).max(initial=0.0) > _EXACT:
        return False
    commuting = commutant(basis)
    return bool(np.abs(h @ commuting - commuting @ h).max(initial=0.0) < _EXACT)


def _nearest_to_one(g: Tensor, algebra: Tensor) -> float:
    """The least distance from 1 that Levenberg-Marquardt steps g ← exp(a) g reach, over a batch."""
    count, d = len(algebra), g.shape[1]
    one = torch.eye(d, dtype=g.dtype)
    damping = torch.full((len(g),), 1e-2, dtype=torch.float64)
    sizes = torch.linalg.matrix_norm(g - one)
    for _ in range(_STEPS):
        if float(sizes.min()) < _EXACT:
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


# --- proposals, in standard coordinates ---------------------------------------------------------

_Named = tuple[str, Array]


def _proposals(group: Group) -> Iterator[_Named]:
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


def _of_metric(p: int, q: int) -> Iterator[_Named]:
    """All of an odd number of axes are reversed, one of an even number: -1 is then connected."""
    first = range(p) if p % 2 else range(1)
    second = range(p, p + q) if q % 2 else range(p, p + 1)
    names = ["parity", "time reversal"]
    if p > 1:
        names = [f"reversal among the {n} {sign} axes" for n, sign in ((q, "−"), (p, "+"))]
    yield names[0], _reversal(p + q, *second)
    yield names[1], _reversal(p + q, *first)
    yield "both", _reversal(p + q, *first, *second)


def _of_fixed(d: int, what: str) -> Iterator[_Named]:
    if d == 1:
        yield f"reversal of the {what}", -np.eye(1)
    elif d <= _MOST_AXES:
        for i in range(d):
            yield f"reversal of {what} {i + 1}", _reversal(d, i)


def _of_sum(group: SideBySide) -> Iterator[_Named]:
    texts = [str(term) for term in group.terms]
    ends = np.cumsum([term.d for term in group.terms])
    starts = ends - [term.d for term in group.terms]
    axis = texts == ["SO(2)", "Trivial(1)"]
    for at, term in enumerate(group.terms):
        label = texts[at]
        if texts.count(label) > 1:
            label += f" number {texts[: at + 1].count(label)}"
        for name, h in _proposals(term):
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


def _of_product(group: DirectProduct) -> Iterator[_Named]:
    before = 1
    for factor in group.factors:
        after = group.d // before // factor.d
        copies = isinstance(factor, Trivial)
        inner = _of_fixed(factor.d, "copy") if copies else _proposals(factor)
        for name, h in inner:
            yield name, np.kron(np.kron(np.eye(before), h), np.eye(after))
        before *= factor.d


def _unnamed_proposals(basis: Array) -> Iterator[_Named]:
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


# --- small things -------------------------------------------------------------------------------


def _array(given: ArrayLike) -> Array:
    return np.asarray(given.detach().cpu() if isinstance(given, Tensor) else given)


def _moved(frame: Array, h: Array) -> Tensor:
    moved = frame @ h @ np.linalg.inv(frame)
    if np.abs(moved.imag).max() < 1e-9 * np.abs(moved).max():
        moved = moved.real
    return torch.from_numpy(np.ascontiguousarray(moved))


def _images(candidate: DiscreteCandidate, x: Tensor) -> Tensor:
    n, h = x.shape[1], candidate.matrix.double()
    if h.shape not in ((n, n), (n, n + 1)) or h.is_complex():
        raise ValueError(
            f"expected real elements on rows of shape ({n}, {n}) or ({n}, {n + 1}), "
            f"got {candidate.matrix.dtype} of {tuple(h.shape)}"
        )
    images: Tensor = x.detach().cpu().double() @ h[:, :n].T + (h[:, n] if h.shape[1] > n else 0.0)
    return images


def _reach(candidate: DiscreteCandidate, moves: Tensor) -> float:
    """How far images are, in distances between data along as many directions as move."""
    if not len(moves):
        return 0.0
    h = candidate.matrix.double()
    moving = h - torch.eye(*h.shape).to(h)
    rank = max(1, int(torch.linalg.matrix_rank(moving)))
    return math.sqrt(float(moves.square().sum(1).mean()) / (2 * rank))


def _output_map(rho: Tensor, outputs: Tensor) -> Tensor:
    k = outputs.shape[1]
    matrix = torch.as_tensor(rho).cpu().double()
    if matrix.shape != (k, k):
        raise ValueError(f"expected maps of outputs of shape ({k}, {k}), got {tuple(matrix.shape)}")
    return matrix
