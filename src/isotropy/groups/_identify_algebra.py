"""Which catalogue group a Lie algebra of matrices belongs to, and in which coordinates.

A name is proposed from structure (invariant forms, invariant subspaces, ideals) and then proven:
the named algebra, moved to the given coordinates, spans what the given matrices span. What cannot
be proven is left unnamed and described.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from isotropy.groups._balanced_frame import balanced_frame
from isotropy.groups._classical_algebras import Found, classical
from isotropy.groups._intertwiners import (
    Array,
    brackets,
    complex_structure,
    families,
    flattened,
    intertwiners,
    orthonormal_span,
    orthonormalised,
    outside,
    split,
)
from isotropy.groups._lie_structure import LieStructure
from isotropy.groups._standard_algebras import StandardAlgebra, product_of, sum_of


@dataclass(frozen=True)
class AlgebraIdentity:
    """What `identify_algebra` found.

    Attributes:
        expression: The catalogue's string of a group with this Lie algebra, such as "SO(3)+SO(2)";
            None when not recognised.
        change: P, real or complex: the given matrices span P · algebra of ``expression`` · P⁻¹.
            The identity when not recognised.
        dimension: The dimension of the Lie algebra.
        name: The same in prose; for an algebra without a name, its structure.
    """

    expression: str | None
    change: Tensor
    dimension: int
    name: str


def identify_algebra(
    matrices: Iterable[Any], tolerance: float = 1e-8, *, d: int | None = None
) -> AlgebraIdentity:
    """Say which Lie algebra some matrices span, whatever the basis of it and of the space.

    Recognised are so(n), so(p,q), sp(2n,R), sl(n,R), gl(n,R), su(n), u(n), se(n) and scalings,
    several of them side by side (+), one of them on several copies of its space (*Trivial(k)), with
    scalings (*Scaling(k)) and on tensor products (*), and these nested. Of several names of one
    algebra the one with the fewest parts is given: SOpq(2,2), not SL(2)*SL(2). ``tolerance`` is the
    relative error up to which the matrices are exact; ``d`` is needed where there are none.

    Raises:
        ValueError: If the matrices are not square, finite and of one size, or if a bracket of two
            of them is not in their span.

    Example:
        >>> boost = [[0.0, 2.0], [0.5, 0.0]]  # preserves x² - 4y²
        >>> found = identify_algebra([boost])
        >>> found.expression, found.name
        ('SO11p', 'so(1,1), metric signature (1,1)')
        >>> spin = [[[0, 0, 0], [0, 0, -1], [0, 1, 0]], [[0, 0, 1], [0, 0, 0], [-1, 0, 0]]]
        >>> identify_algebra(spin)
        Traceback (most recent call last):
        ...
        ValueError: expected matrices that span a Lie algebra, got a bracket [A_0, A_1] outside \
their span by 7.1e-01
    """
    if not 0.0 < tolerance < 1.0:
        raise ValueError(f"expected a tolerance between 0 and 1, got {tolerance}")
    given = _as_matrices(matrices, d, tolerance)
    algebra = orthonormal_span(given, tolerance)
    _require_closed(given, algebra, tolerance)
    size = algebra.shape[1]
    field = "C" if np.iscomplexobj(algebra) else "R"
    found = _proven(algebra, classical(algebra, tolerance), tolerance)
    if found is None:
        balance = balanced_frame(algebra)
        moved = orthonormal_span(np.linalg.inv(balance) @ algebra @ balance, 0.0)
        found = _recognise(moved, tolerance)
        if found is not None:
            found = _proven(algebra, (found[0], balance @ found[1]), tolerance)
    if found is not None:
        standard, change = found[0], torch.from_numpy(np.ascontiguousarray(found[1]))
        return AlgebraIdentity(str(standard), change, len(algebra), standard.prose(field))
    name = _complex_name(moved, tolerance) or _structure(moved, field, tolerance)
    return AlgebraIdentity(None, torch.eye(size, dtype=torch.float64), len(algebra), name)


def _as_matrices(matrices: Iterable[Any], d: int | None, tolerance: float) -> Array:
    """The matrices as one array, each of norm one unless it is zero."""
    arrays = [_as_array(matrix, i) for i, matrix in enumerate(matrices)]
    if not arrays and (d is None or d < 1):
        raise ValueError(f"expected matrices, or d >= 1 for the trivial algebra, got d = {d}")
    size = d if d is not None else arrays[0].shape[-1] if arrays[0].ndim else 0
    for i, array in enumerate(arrays):
        if array.dtype.kind not in "biufc" or array.shape != (size, size) or not size:
            expected = f"{size} x {size} matrices" if size else "square matrices"
            got = f"shape {array.shape} of {array.dtype}"
            raise ValueError(f"expected {expected}, got matrix {i} of {got}")
        if not np.isfinite(array).all():
            raise ValueError(f"expected finite matrices, got NaN or infinity in matrix {i}")
    stacked: Array = np.array(arrays, dtype=complex).reshape(len(arrays), size, size)
    for order in (np.inf, None):  # by the largest row first, so that no square over- or underflows
        norms = np.linalg.norm(stacked, order, axis=(1, 2), keepdims=True)
        stacked = stacked / np.where(norms > 0, norms, 1.0)
    return stacked.real if (np.abs(stacked.imag) <= tolerance).all() else stacked


def _as_array(matrix: Any, i: int) -> Array:
    if isinstance(matrix, Tensor):
        matrix = matrix.detach().cpu().resolve_conj()
    try:
        return np.asarray(matrix)
    except ValueError as error:
        raise ValueError(f"expected square matrices, got matrix {i} = {matrix!r:.80}") from error


def _require_closed(given: Array, algebra: Array, tolerance: float) -> None:
    if not len(algebra):
        return
    count, d = len(algebra), algebra.shape[1]
    distances = outside(brackets(algebra, algebra).reshape(count**2, d, d), algebra)
    if distances.max() > tolerance:
        rows = outside(brackets(given, given).reshape(-1, d, d), algebra)
        i, j = sorted(divmod(int(rows.argmax()), len(given)))
        raise ValueError(
            f"expected matrices that span a Lie algebra, got a bracket [A_{i}, A_{j}] outside "
            f"their span by {rows.max():.1e}"
        )


def _proven(algebra: Array, found: Found | None, tolerance: float) -> Found | None:
    """What was found, if in its frame it is all of the given algebra and no more; else None."""
    if found is None:
        return None
    standard, frame = found
    moved = frame @ standard.matrices() @ np.linalg.inv(frame)
    moved = orthonormal_span(moved.astype(np.result_type(moved, algebra)), 0.0)
    if len(moved) != len(algebra):
        return None
    given = algebra.astype(moved.dtype)
    distances = np.concatenate([outside(moved, given), outside(given, moved)])
    return None if (distances > tolerance).any() else found


# --- recognition, in balanced coordinates -------------------------------------------------------


def _recognise(algebra: Array, tolerance: float) -> Found | None:
    """The name of the algebra with this orthonormal basis, and the frame that puts it in place."""
    found = classical(algebra, tolerance)
    if found is not None:
        return found
    commutant = intertwiners(algebra, algebra, tolerance)
    pieces = split(commutant)
    blocks = _independent_blocks(algebra, pieces)
    if len(blocks) > 1:
        return _side_by_side(algebra, blocks, tolerance)
    return (
        _copies(algebra, families(commutant, pieces), tolerance)
        or _with_scalings(algebra, tolerance)
        or _tensor_product(algebra, tolerance)
    )


def _independent_blocks(algebra: Array, pieces: list[Array]) -> list[Array]:
    """Frames of the finest sums of pieces on which the algebra acts independently.

    The algebra is a direct sum over blocks of pieces exactly when the projection to it, written
    on pairs of pieces, has no entries between the blocks. Pieces that it fixes go together.
    """
    frame = np.hstack(pieces)
    ends = np.cumsum([piece.shape[1] for piece in pieces])
    moved = orthonormal_span(np.linalg.inv(frame) @ algebra @ frame, 0.0)
    starts = [0, *ends[:-1]]
    blocks = [flattened(moved[:, a:b, a:b]) for a, b in zip(starts, ends, strict=True)]
    fixed = np.array([np.linalg.norm(block) < 1e-6 for block in blocks])
    tied = np.outer(fixed, fixed)
    for i, j in combinations(range(len(pieces)), 2):
        tied[i, j] |= np.abs(blocks[i].T @ blocks[j]).max() > 1e-6
    _, labels = connected_components(tied, directed=False)
    grouped = [
        np.hstack([piece for piece, label in zip(pieces, labels, strict=True) if label == block])
        for block in range(labels.max() + 1)
    ]
    return [orthonormalised(group) for group in grouped]


def _side_by_side(algebra: Array, blocks: list[Array], tolerance: float) -> Found | None:
    ends = np.cumsum([block.shape[1] for block in blocks])
    coframes = np.split(np.linalg.inv(np.hstack(blocks)), ends[:-1])
    terms = []
    for block, coframe in zip(blocks, coframes, strict=True):
        restricted = coframe @ algebra @ block
        acts = np.linalg.norm(restricted) > 1e-6
        part = orthonormal_span(restricted if acts else restricted[:0], tolerance)
        found = _recognise(part, tolerance)
        if found is None:
            return None
        terms.append((found[0], block @ found[1]))
    return sum_of(terms)


def _copies(algebra: Array, copies: list[list[Array]], tolerance: float) -> Found | None:
    """V ⊗ R^k: every piece of V occurs k times, as the j-th of its family in copy j."""
    count = len(copies[0])
    if count == 1 or any(len(family) != count for family in copies):
        return None
    frame = _tensor_frame([np.hstack(copy) for copy in zip(*copies, strict=True)])
    first = (np.linalg.inv(frame) @ algebra @ frame)[:, ::count, ::count]
    found = _recognise(orthonormal_span(first, tolerance), tolerance)
    if found is None:
        return None
    frame = frame @ np.kron(found[1], np.eye(count))
    return product_of((found[0], StandardAlgebra("Trivial", (count,))), frame)


def _with_scalings(algebra: Array, tolerance: float) -> Found | None:
    """The multiples of 1, and the rest of the algebra, which is traceless."""
    d = algebra.shape[1]
    one = np.eye(d, dtype=algebra.dtype)[None] / np.sqrt(d)
    if outside(one, algebra)[0] > tolerance:
        return None
    traces = np.trace(algebra, axis1=1, axis2=2).real
    rest = algebra - traces[:, None, None] / d * np.eye(d)
    found = _recognise(orthonormal_span(rest, 1e-6), tolerance)
    if found is None:
        return None
    return product_of((found[0], StandardAlgebra("Scaling", (1,))), found[1])


def _tensor_product(algebra: Array, tolerance: float) -> Found | None:
    """Ideals g ⊗ 1 and 1 ⊗ h on V ⊗ W, which for g consists of copies of V."""
    found: list[Found] = []
    for inner, outer in _complementary_ideals(algebra, tolerance):
        commutant = intertwiners(inner, inner, tolerance)
        copies = families(commutant, split(commutant))
        count = len(copies[0])
        if len(copies) > 1 or len(commutant) != count**2:
            continue  # not copies of one piece, or copies that mix over more than the field
        frame = _tensor_frame(copies[0])
        coframe = np.linalg.inv(frame)
        on_pieces = (coframe @ inner @ frame)[:, ::count, ::count]
        on_copies = (coframe @ outer @ frame)[:, :count, :count]
        first = _recognise(orthonormal_span(on_pieces, tolerance), tolerance)
        second = _recognise(orthonormal_span(on_copies, tolerance), tolerance) if first else None
        if first and second:
            frame = frame @ np.kron(first[1], second[1])
            found.append(product_of((first[0], second[0]), frame))
    return min(found, key=lambda product: len(product[0].parts), default=None)


def _complementary_ideals(algebra: Array, tolerance: float) -> Iterator[tuple[Array, Array]]:
    """Pairs of ideals that make up the algebra, the first of simple ones; each pair once."""
    simple, rest = LieStructure.of_matrices(algebra, tolerance).simple_ideals()
    everything = [*simple, rest] if len(rest) else simple
    for size in range(1, len(everything)):
        for chosen in combinations(range(len(simple)), size):
            if not len(rest) and 0 not in chosen:
                continue
            others = [part for i, part in enumerate(everything) if i not in chosen]
            inner = np.vstack([everything[i] for i in chosen])
            yield np.tensordot(inner, algebra, 1), np.tensordot(np.vstack(others), algebra, 1)


def _tensor_frame(copies: list[Array]) -> Array:
    """The frame of V ⊗ R^k from aligned frames of the copies: column v·k + j is v of copy j."""
    frame: Array = np.stack(copies, axis=2).reshape(len(copies[0]), -1)
    return frame


# --- algebras without a name --------------------------------------------------------------------


def _complex_name(algebra: Array, tolerance: float) -> str | None:
    """The name over the complex numbers of a real algebra that commutes with some J, J² = -1."""
    d = algebra.shape[1]
    if np.iscomplexobj(algebra) or d % 2:
        return None
    j = complex_structure(intertwiners(algebra, algebra, tolerance))
    if j is None:
        return None
    _, vectors = np.linalg.eigh(-1j * j)  # J = i on the second half
    frame = vectors[:, d // 2 :]
    restricted = orthonormal_span(frame.conj().T @ algebra @ frame, tolerance)
    found = _recognise(restricted, tolerance)
    found = _proven(restricted, found, tolerance)
    return None if found is None else f"{found[0].prose('C')}, acting on R^{d} as on C^{d // 2}"


def _structure(algebra: Array, field: str, tolerance: float) -> str:
    structure = LieStructure.of_matrices(algebra, tolerance)
    pieces = sorted(piece.shape[1] for piece in split(intertwiners(algebra, algebra, tolerance)))
    space = f"{field}^{algebra.shape[1]}"
    if len(pieces) > 1:
        space += " = " + " ⊕ ".join(f"{field}^{size}" for size in pieces)
    flags = structure.flags()
    name = f"Lie algebra of dimension {structure.dimension}: {structure.parts()}, acting on {space}"
    return f"{name} ({flags})" if flags else name
