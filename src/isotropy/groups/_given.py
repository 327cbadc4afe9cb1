"""From what a user gives, a permutation, a matrix or a map, to a linear map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from isotropy.groups._maps import Dense, LinearMap, Monomial

MapLike: TypeAlias = LinearMap | Tensor | np.ndarray[Any, Any] | Sequence[Any]


def as_linear_map(given: MapLike, what: str = "a generator") -> LinearMap:
    """Turn what a user may give into a linear map.

    A list of integers is a permutation (i ↦ given[i]), a square array a matrix; a matrix that
    is a signed permutation is kept as one. Linear maps pass through.

    Raises:
        ValueError: If it is none of these, is not square, or has NaN or infinite entries.

    Example:
        >>> as_linear_map([1, 2, 0])
        Monomial(size=3)
        >>> as_linear_map([[0.0, -1.0], [1.0, 0.0]])
        Monomial(size=2)
        >>> as_linear_map([[1.0, 1.0], [0.0, 1.0]])
        Dense(size=2)
    """
    if isinstance(given, Dense) and not given.batch:
        given = given.matrix
    if isinstance(given, LinearMap):
        return given
    try:
        # numpy reads Python floats as float64; torch would round them to float32
        array = (
            given.detach().cpu().clone()
            if isinstance(given, Tensor)
            else torch.tensor(np.array(given))
        )
    except (TypeError, ValueError, RuntimeError) as error:
        raise ValueError(
            f"expected {what} as a permutation, a square matrix or a linear map, got {given!r:.80}"
        ) from error
    if array.ndim == 1:
        return _as_permutation(array, what)
    matrix = _as_square(array, what)
    monomial = _matrix_as_monomial(matrix)
    return Dense(matrix) if monomial is None else monomial


def as_algebra_element(given: MapLike, what: str = "a Lie algebra element") -> LinearMap:
    """Turn what a user may give into an element of a Lie algebra: a matrix or a linear map."""
    if isinstance(given, LinearMap) and not given.is_monomial:
        if given.batch:
            raise ValueError(f"expected {what} as a single map, got a batch")
        return given if not given.by_value else Dense(given.dense())
    element = as_linear_map(given, what)
    if not isinstance(given, LinearMap) and np.ndim(given) != 2:
        raise ValueError(f"expected {what} as a square matrix, got a permutation")
    return Dense(element.dense())


def as_monomial(g: LinearMap) -> Monomial | None:
    """A map as a signed permutation if it is one, by construction or by its entries."""
    return g.monomial() if g.is_monomial else as_linear_map(g.dense()).monomial()


def _as_square(array: Tensor, what: str) -> Tensor:
    if array.ndim != 2 or array.shape[0] != array.shape[1] or array.shape[0] == 0:
        raise ValueError(f"expected {what} as a square matrix, got shape {tuple(array.shape)}")
    matrix = array.to(torch.complex128 if array.is_complex() else torch.float64)
    if not bool(torch.isfinite(matrix).all()):
        raise ValueError(f"expected {what} with finite entries, got NaN or infinity")
    if array.dtype in _LOW_PRECISION and bool((matrix * 1024 != _rounded(matrix * 1024)).any()):
        # rounding error of 1e-7 is a broken symmetry, and would cost ranks in silence
        raise ValueError(f"expected {what} in float64, got {array.dtype} with rounded entries")
    return matrix


_LOW_PRECISION = (torch.float32, torch.float16, torch.bfloat16, torch.complex64)


def _rounded(matrix: Tensor) -> Tensor:
    if matrix.is_complex():
        return torch.complex(matrix.real.round(), matrix.imag.round())
    return matrix.round()


def _as_permutation(array: Tensor, what: str) -> Monomial:
    size = array.numel()
    if array.is_floating_point() or array.is_complex() or size == 0:
        raise ValueError(
            f"expected {what} as a permutation (a list of the integers 0..n-1) or a square "
            f"matrix, got {array.tolist()!r:.80}"
        )
    if not bool((array.sort().values == torch.arange(size)).all()):
        raise ValueError(
            f"expected {what} as a permutation with each of 0..{size - 1} once, "
            f"got {array.tolist()!r:.80}"
        )
    return Monomial(array)


def _matrix_as_monomial(matrix: Tensor) -> Monomial | None:
    if matrix.is_complex():
        return None
    nonzero = matrix != 0
    ones = matrix.abs() == 1
    one_each = bool((nonzero.sum(0) == 1).all()) and bool((nonzero.sum(1) == 1).all())
    if not one_each or not bool((nonzero == ones).all()):
        return None
    return Monomial(nonzero.int().argmax(0), matrix.sum(0))
