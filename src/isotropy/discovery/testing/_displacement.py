"""Whether a log can tell where entries go: only where an element moves them far enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._signed_permutation import SignedPermutation, generated
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.testing._stakes import (
    ColumnLosses,
    Floats,
    capped_errors,
    losses_without,
    output_orbits,
    relevant_orbits,
)

# of the squared distance to the image of another row: what is moved less is not moved at all
_SEEN = 0.05
_CONSTANT = 1e-30


def moved_orbits(element: SignedPermutation) -> list[NDArray[np.int64]]:
    """The entries that an element moves, those together that it exchanges.

    Example:
        >>> [
        ...     orbit.tolist()
        ...     for orbit in moved_orbits(SignedPermutation((1, 0, 2, 3), (1, 1, -1, 1)))
        ... ]
        [[0, 1], [2]]
    """
    orbits = output_orbits(generated([element], element.order) or (), len(element.index))
    return [orbit for orbit in orbits if len(orbit) > 1 or element.sign[orbit[0]] < 0]


def displacements(
    element: SignedPermutation, inside: TransitionData, seed: int
) -> list[tuple[NDArray[np.int64], float]]:
    """How far an element moves entries, and with them what it can cost.

    Two motors that are mostly switched on together can be exchanged on such rows at no cost,
    whatever they do. So the squared distance that the element moves them by is held against that
    to the image of another row.

    Returns:
        Orbits of entries that move, with a share of at most 1 each.
    """
    x = inside.x
    order = torch.randperm(len(x), generator=make_generator(seed))
    change, variance = element.as_map(), x.var(0).clamp_min(_CONSTANT)
    here = (change.apply(x) - x).square().mean(0) / variance
    there = (change.apply(x[order]) - x).square().mean(0) / variance
    return [
        (orbit, min(1.0, float(here[orbit].sum()) / max(float(there[orbit].sum()), _CONSTANT)))
        for orbit in moved_orbits(element)
    ]


def hardly_moved(
    displaced: Sequence[tuple[NDArray[np.int64], float]],
    free: FreePredictor,
    other: TransitionData,
    seed: int,
) -> list[int]:
    """Entries that matter, and that an element leaves where they were."""
    return [
        int(entry)
        for orbit, share in displaced
        if share < _SEEN and len(dependent_columns(orbit, free, other, seed))
        for entry in orbit
    ]


def dependent_columns(
    orbit: NDArray[np.int64], free: FreePredictor, other: TransitionData, seed: int
) -> NDArray[np.int64]:
    """The columns of increments that depend on some inputs."""
    known = capped_errors(free.predict(other.x), other.increments, other.spread)
    losses = ColumnLosses(known, known, errors_without(orbit, free, other, seed))
    chosen = relevant_orbits(losses, [np.array([i]) for i in range(other.n)])
    return np.concatenate([*chosen, np.empty(0, dtype=np.int64)])


def errors_without(
    orbit: NDArray[np.int64], free: FreePredictor, rows: TransitionData, seed: int
) -> Floats:
    """Losses of the free predictor with some inputs taken from other rows, shape (rows, n)."""
    return losses_without(
        free.predict,
        orbit,
        rows.x,
        rows.increments,
        constant=free.constant,
        spread=rows.spread,
        seed=seed,
    )
