"""Spaces of matrices: orthonormal bases, angles between them, what commutes with one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.groups import orthonormal_span

Array = NDArray[Any]  # real or complex floating point


def rows_of(matrices: Array) -> Array:
    """One row for each matrix."""
    rows: Array = matrices.reshape(len(matrices), int(np.prod(matrices.shape[1:])))
    return rows


def largest_sine(first: Array, second: Array) -> float:
    """The sine of the largest principal angle between the spans of two orthonormal bases.

    Example:
        >>> x, y = np.eye(2).reshape(2, 1, 1, 2)
        >>> round(largest_sine(x, (x + y) / np.sqrt(2)), 6)
        0.707107
    """
    if len(first) != len(second):
        return 1.0
    if not len(first):
        return 0.0
    a, b = rows_of(first), rows_of(second)
    return float(np.linalg.norm(b - (b @ a.T) @ a, 2))


def moved_span(frame: Array, matrices: Array) -> Array:
    """An orthonormal basis of the span of P A P⁻¹."""
    return orthonormal_span(frame @ matrices @ np.linalg.inv(frame), 0.0)


def null_space(rows: Array, tolerance: float, *, size: float | None = None) -> Array:
    """Orthonormal rows that span {v : rows v = 0}.

    Args:
        rows: Of shape (m, n).
        tolerance: Singular values up to tolerance · size are zero.
        size: The largest singular value, unless given.
    """
    width = rows.shape[1]
    if len(rows) > width:
        rows = np.linalg.qr(rows)[1]
    _, values, vectors = np.linalg.svd(rows)
    largest = values.max(initial=0.0) if size is None else size
    rank = int((values > tolerance * largest).sum())
    null: Array = vectors[rank:]
    return null


def commutant(matrices: Array, tolerance: float = 1e-9) -> Array:
    """An orthonormal basis of the X with A X = X A for all the matrices.

    Example:
        >>> len(commutant(np.array([[[0.0, -1.0], [1.0, 0.0]]])))
        2
    """
    d = matrices.shape[1]
    one = np.eye(d)
    if not len(matrices):
        return np.eye(d * d).reshape(-1, d, d)
    equations = np.vstack([np.kron(a, one) - np.kron(one, a.T) for a in matrices])
    return null_space(equations, tolerance).reshape(-1, d, d)


def invariant_forms(matrices: Array, sign: int, tolerance: float = 1e-9) -> Array:
    """A basis of the M = sign · Mᵀ with Aᵀ M + M A = 0 for all the matrices.

    Args:
        matrices: Of shape (D, d, d).
        sign: 1 for symmetric forms, -1 for antisymmetric ones.
        tolerance: Relative size of a singular value that counts as zero.

    Example:
        >>> rotation = np.array([[[0.0, -1.0], [1.0, 0.0]]])
        >>> len(invariant_forms(rotation, 1)), len(invariant_forms(rotation, -1))
        (1, 1)
    """
    d = matrices.shape[1]
    units = np.eye(d * d).reshape(d, d, d, d)
    i, j = np.triu_indices(d, 0 if sign > 0 else 1)
    candidates = units[i, j] + sign * units[j, i]
    candidates /= np.linalg.norm(candidates, axis=(1, 2), keepdims=True)
    if not len(candidates):
        return np.zeros((0, d, d))
    scaled = matrices / np.maximum(np.linalg.norm(matrices, axis=(1, 2), keepdims=True), 1e-300)
    images = [rows_of(a.T @ candidates + candidates @ a) for a in scaled]
    if not images:
        return candidates
    null = null_space(np.hstack(images).T, tolerance)
    forms: Array = np.tensordot(null, candidates, 1)
    return forms
