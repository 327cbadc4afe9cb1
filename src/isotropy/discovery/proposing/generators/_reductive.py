"""The nearest Lie algebra with a centre: a semisimple ideal, and the centre with simple weights.

The semisimple part is rigid and found by closing it under brackets; the centre lies in what
commutes with it and is found by its weights. The sum is exact by construction.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from isotropy.discovery.proposing.generators._closure import closed_near
from isotropy.discovery.proposing.generators._nearest_conjugate import nearest_conjugate
from isotropy.discovery.proposing.generators._spans import Array, commutant, largest_sine, rows_of
from isotropy.discovery.proposing.generators._toral_algebras import toral_candidates
from isotropy.groups import orthonormal_span

_TRIED = 4  # dimensions of the semisimple part
_LEAST_DROP = 0.6  # ratio of singular values after and before the dimension
_HOPELESS = 0.5  # sine from which no conjugation is tried


def reductive_near(target: Array, error: float) -> Array | None:
    """An orthonormal basis of the simplest reductive, not semisimple algebra near a span.

    Args:
        target: An orthonormal basis of the estimate, of shape (D, d, d).
        error: The greatest sine of a principal angle from it.
    """
    for semisimple, rest in _ideals(target):
        for centre in toral_candidates(rest, error):
            whole = orthonormal_span(np.concatenate([semisimple, centre]), 1e-9)
            if len(whole) < len(target) or largest_sine(target, whole) > min(
                _HOPELESS, 100.0 * error
            ):
                continue
            found = nearest_conjugate(whole, target)
            if largest_sine(target, found) <= error:
                return found
    return None


def _ideals(target: Array) -> Iterator[tuple[Array, Array]]:
    """Exact semisimple algebras near a part of the span, and a basis of the rest.

    The derived algebra is spanned by the brackets: its dimension is where their singular values
    fall most, among the dimensions that semisimple algebras have.
    """
    count = len(target)
    commutators = target[:, None] @ target[None] - target[None] @ target[:, None]
    constants = np.tensordot(commutators, target, ((2, 3), (1, 2))).reshape(-1, count)
    _, values, directions = np.linalg.svd(constants, full_matrices=False)
    padded = np.concatenate([[1.0], values])
    drops = {s: padded[s + 1] / max(padded[s], 1e-300) for s in range(count)}
    possible = [s for s in drops if (s in (0, 3, 6) or s >= 8) and drops[s] < _LEAST_DROP]
    for size in sorted(possible, key=lambda s: drops[s])[:_TRIED]:
        derived = np.tensordot(directions[:size], target, 1)
        semisimple = closed_near(derived) if size else derived
        if semisimple is None or not _is_semisimple(semisimple):
            continue
        yield semisimple, _commuting_part(semisimple, target)


def _is_semisimple(algebra: Array) -> bool:
    if not len(algebra):
        return True
    commutators = algebra[:, None] @ algebra[None] - algebra[None] @ algebra[:, None]
    constants = np.tensordot(commutators, algebra, ((2, 3), (1, 2)))
    killing = np.linalg.eigvalsh(np.einsum("ikl,jlk->ij", constants, constants, optimize=True))
    return bool(np.abs(killing).min() > 1e-7 * np.abs(killing).max())


def _commuting_part(semisimple: Array, target: Array) -> Array:
    """The rest of the span, as matrices that exactly commute with the semisimple part."""
    size = len(target) - len(semisimple)
    if not len(semisimple):
        return target
    moves = target[:, None] @ semisimple[None] - semisimple[None] @ target[:, None]
    _, vectors = np.linalg.eigh(rows_of(moves) @ rows_of(moves).T)
    rest = np.tensordot(vectors[:, :size].T, target, 1)
    basis = rows_of(commutant(semisimple))
    projected: Array = (rows_of(rest) @ basis.T @ basis).reshape(rest.shape)
    return projected
