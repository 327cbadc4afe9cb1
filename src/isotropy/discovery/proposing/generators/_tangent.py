"""What of gradients the data can tell: the part along the surface that they lie on."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

_INDEPENDENT = 1e-3  # unit normals with a smaller singular value do not span a direction


def tangent(jacobian: ArrayLike, normals: ArrayLike) -> Array:
    """The part of gradients that is tangent to the surface with these normals.

    Args:
        jacobian: m gradients at each of N points, (N, m, n).
        normals: c normals at each point, of any length, dependent or zero ones too, (N, c, n).

    Raises:
        ValueError: If shapes do not match.

    Example:
        >>> tangent(np.array([[[3.0, 4.0]]]), np.array([[[0.0, 9.0]]])).tolist()
        [[[3.0, 0.0]]]
    """
    jacobian, normals = np.asarray(jacobian, np.float64), np.asarray(normals, np.float64)
    if jacobian.ndim != 3 or normals.ndim != 3 or jacobian.shape[::2] != normals.shape[::2]:
        raise ValueError(
            "expected gradients (N, m, n) and normals (N, c, n), "
            f"got {jacobian.shape} and {normals.shape}"
        )
    if 0 in normals.shape:
        return jacobian.copy()
    lengths = np.linalg.norm(normals, axis=2, keepdims=True)
    least = 1e-9 * lengths.max(axis=0, keepdims=True)
    unit = np.where(lengths > least, normals / np.maximum(lengths, 1e-300), 0.0)
    _, sizes, directions = np.linalg.svd(unit, full_matrices=False)
    directions = directions * (sizes > _INDEPENDENT)[:, :, None]
    along: Array = (jacobian @ directions.transpose(0, 2, 1)) @ directions
    return jacobian - along
