"""The null space of a matrix that is only known by its products: thesis Algorithm 1, accelerated.

Algorithm 1 takes gradient steps on ‖CX‖² from a random X; they leave the null-space part of X
alone and shrink the rest. We take conjugate-gradient steps instead: the same Krylov space, the
best point in it, so a spectrum of few distinct values (a Casimir operator's) is done in as many
steps. Both are here, for Figure A.1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import inf
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Gram: TypeAlias = Callable[[Array], Array]

FIRST_BLOCK = 16
MOST_STEPS = 3000
_TOLERANCE = 1e-13
_RANK = 1e-7

# singular values, as shares of the largest, so near to the tolerance of 1e-9 that rounding, or
# another scaling of the constraints, decides whether they are zero
UNCLEAR = (1e-11, 1e-8)

_WORK_LEFT: ContextVar[float] = ContextVar("numbers that iterations may still go over", default=inf)
_RANKS_CLEAR: ContextVar[bool] = ContextVar("whether ranks must be clear", default=False)


@contextmanager
def strict_solving(most_work: float, clear_ranks: bool) -> Iterator[None]:
    """Let iterations go over so many numbers in all, and refuse ranks that rounding decides.

    Within another one, the stricter of both hold.
    """
    work = _WORK_LEFT.set(min(most_work, _WORK_LEFT.get()))
    ranks = _RANKS_CLEAR.set(clear_ranks or _RANKS_CLEAR.get())
    try:
        yield
    finally:
        _WORK_LEFT.reset(work)
        _RANKS_CLEAR.reset(ranks)


def ranks_must_be_clear() -> bool:
    """Whether solving stands under ``strict_solving`` with clear ranks."""
    return _RANKS_CLEAR.get()


def require_clear(shares: Array, unclear: tuple[float, float] = UNCLEAR) -> None:
    """Refuse singular values that another machine could take for zero, or not, where asked to.

    Raises:
        ValueError: If there are such.
    """
    between = (shares > unclear[0]) & (shares < unclear[1])
    if ranks_must_be_clear() and between.any():
        raise ValueError(
            "expected generators whose symmetric vectors are clear, got some that rounding "
            f"decides: a singular value is {shares[between].min():.0e} of the largest"
        )


def null_space(
    gram: Gram, size: int, dtype: type = np.float64, *, seed: int = 0, most: int | None = None
) -> Array:
    """An orthonormal basis of the null space of a positive semi-definite matrix.

    Random vectors are projected on the null space, block by block, each block twice as large
    as the one before, until a block brings fewer new directions than it has vectors.

    Args:
        gram: X ↦ C†C X for X of shape (size, any number of columns).
        size: The number of rows.
        dtype: float64 or complex128.
        seed: Of the random vectors: the same answer on every run.
        most: Stop when so many directions are found.

    Returns:
        Orthonormal columns, shape (size, rank).

    Raises:
        ValueError: If the steps do not converge, or take more work than is allowed.
    """
    rng = np.random.default_rng(seed)
    found: Array = np.zeros((size, 0), dtype=dtype)
    block = FIRST_BLOCK
    while found.shape[1] < size:
        width = min(block, size - found.shape[1])
        x = _gaussian(rng, size, width, dtype)
        size_of_gradient = float(np.linalg.norm(gram(x)))
        projected = project_on_null_space(gram, x)
        # a second projection removes what the first left behind
        projected = project_on_null_space(gram, projected, against=size_of_gradient)
        fresh = _new_directions(projected, found, float(np.sqrt(size)))
        found = np.concatenate([found, fresh], axis=1)
        if fresh.shape[1] < width or (most is not None and found.shape[1] >= most):
            break
        block = 2 * block
    return found


def project_on_null_space(
    gram: Gram, x: Array, *, against: float | None = None, history: list[float] | None = None
) -> Array:
    """The projection of each column on the null space, by conjugate gradients.

    Solves G y = G x from y = 0; y is then the part of x outside the null space.

    Args:
        gram: X ↦ G X, positive semi-definite.
        x: Columns to project, shape (size, columns).
        against: The norm of a gradient to judge convergence by; that of ``x`` by default.
        history: Receives ‖G x‖/‖x‖ over all columns after every step.

    Raises:
        ValueError: If it does not converge, or not within the work allowed.
    """
    x = x.copy()
    scale = np.linalg.norm(x)
    residual = gram(x)
    first = float(np.linalg.norm(residual)) if against is None else against
    direction = residual.copy()
    power = _dots(residual, residual)
    best, stalled = np.inf, 0
    for _ in range(MOST_STEPS):
        error = float(np.sqrt(power.sum()))
        if history is not None:
            history.append(error / float(scale))
        if error <= _TOLERANCE * first or first <= 1e-300:
            return x
        stalled = stalled + 1 if error > 0.9 * best else 0
        best = min(best, error)
        if stalled > 20 and best <= 1e-9 * first:
            return x  # rounding error: the steps no longer help
        left = _WORK_LEFT.get() - x.size
        if left < 0:
            raise ValueError(
                "expected a null space that is found within the work allowed, got one that takes "
                "more iterations"
            )
        _WORK_LEFT.set(left)
        moved = gram(direction)
        step = _divide(power, _dots(direction, moved))
        x -= step * direction
        residual = residual - step * moved
        new_power = _dots(residual, residual)
        direction = residual + _divide(new_power, power) * direction
        power = new_power
    raise ValueError(
        f"expected the iteration to converge within {MOST_STEPS} steps, got a residual of "
        f"{best / first:.1e}"
    )


def largest_eigenvalue(gram: Gram, size: int, *, steps: int = 30, seed: int = 0) -> float:
    """The largest eigenvalue of a positive semi-definite matrix, by power iteration."""
    x = np.random.default_rng(seed).normal(size=(size, 1))
    for _ in range(steps):
        moved = gram(x)
        norm = float(np.linalg.norm(moved))
        if norm == 0.0:
            return 0.0
        x = moved / norm
    return norm


def _new_directions(projected: Array, found: Array, scale: float) -> Array:
    """Orthonormal directions of the columns outside those found, most significant first."""
    for _ in range(2):  # twice is enough
        projected = projected - found @ (found.conj().T @ projected)
    left, singular, _ = np.linalg.svd(projected, full_matrices=False)
    fresh: Array = left[:, singular > _RANK * min(scale, max(float(singular[0]), 1.0))]
    return fresh


def _gaussian(rng: np.random.Generator, size: int, width: int, dtype: type) -> Array:
    x: Array = rng.normal(size=(size, width)).astype(dtype)
    if np.issubdtype(dtype, np.complexfloating):
        x = (x + 1j * rng.normal(size=(size, width))) / np.sqrt(2)
    return x


def _dots(a: Array, b: Array) -> Array:
    products: Array = np.einsum("ij,ij->j", a.conj(), b).real
    return products


def _divide(a: Array, b: Array) -> Array:
    """A / b, and zero where b vanishes: that column has converged."""
    return np.divide(a, b, out=np.zeros_like(a), where=b > 0)
