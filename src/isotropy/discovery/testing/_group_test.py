"""The test of a group of signed permutations, on rows that found nothing and fitted nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.discovery.claims._signed_permutation import SignedPermutation, generated
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.testing._claim_test import SMALLEST_SAMPLE, ClaimTest, claim_test
from isotropy.discovery.testing._confirm_action import untested
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._displacement import (
    dependent_columns,
    displacements,
    errors_without,
    hardly_moved,
)
from isotropy.discovery.testing._stakes import (
    ColumnLosses,
    capped_errors,
    output_orbits,
    relevant_orbits,
)

# of the rows among many others, the share whose image must be among many others too; a swap of
# columns that go together looks like a symmetry where they are equal, and leads away elsewhere
KEPT = 0.6
_FEWEST = 0.2  # the share of rows that all elements must keep so
# of the margin, in single columns: averaging over two elements alone hides half of an error
_IN_COLUMNS = 0.5
# where rows are fewer, a predictor knows little
COVERAGE = 0.9


@dataclass(frozen=True)
class GroupTest:
    """How sure a group is.

    Args:
        test: Of the cost of averaging over all of it. The p-value is that of the weakest link: the
            largest over this test and those of single elements in single columns.
        share: Of the rows, those whose images all lie where there are data.
        weakest: The names of the columns with the largest p-value.
        reason: Why there is no test; empty where there is one.
    """

    test: ClaimTest
    share: float
    weakest: tuple[str, ...] = ()
    reason: str = ""


def group_test(
    elements: Sequence[SignedPermutation],
    free: FreePredictor,
    held: TransitionData,
    other: TransitionData,
    support: DataSupport,
    *,
    margin: float,
    level: float,
    seed: int,
) -> GroupTest:
    """Test that a group is a symmetry of transitions.

    Averaging the free predictor over the group must cost less than ``margin`` of what can be
    learned. That alone would let an element pass that moves little. So for each element g, and each
    orbit of columns of increments that depend on what g moves, averaging over g and the identity
    must cost less than half the margin of what is at stake there (``ColumnLosses``). The same for
    each orbit of inputs, in all columns that depend on these, against what they contribute, times
    how far g moves them (``displacements``). The
    claim stands if all of these tests do, so its p-value is the largest of theirs.
    """
    rows, share, samples, reason = _with_images(elements, held, support)
    if reason:
        return GroupTest(untested(margin, level, samples), share, (), reason)
    displaced = {
        element: displacements(element, rows, seed) for element in _up_to_inverse(elements)
    }
    for moved in displaced.values():
        still = hardly_moved(moved, free, other, seed)
        if still:
            names = tuple(held.names[i] for i in still)
            reason = (
                f"where it takes rows to others it hardly moves {', '.join(names)}, so that the "
                "log cannot tell"
            )
            return GroupTest(untested(margin, level, samples), share, names, reason)
    whole = _losses(elements, free, rows, seed)
    constant = capped_errors(free.constant, rows.increments, rows.spread).sum(1)
    options: dict[str, Any] = {"level": level, "groups": rows.groups}
    test = claim_test(
        whole.symmetrised.sum(1), whole.free.sum(1), constant, margin=margin, **options
    )
    largest, weakest = test.p_value, held.names[: held.n]
    one = SignedPermutation.identity(len(held.names))
    for element, moved in displaced.items():
        pair = _losses([one, element], free, rows, seed)
        cyclic = generated([element], len(elements)) or ()
        orbits = relevant_orbits(
            _losses([one, element], free, other, seed), output_orbits(cyclic, held.n)
        )
        if not orbits:
            refused = replace(test, p_value=1.0, adjusted_p_value=1.0)
            reason = "nothing that was learned depends on what it moves"
            return GroupTest(refused, share, (), reason)
        p_values = [
            (_in_columns(pair, orbit, pair.blind, margin, options), orbit) for orbit in orbits
        ]
        for orbit, far in moved:
            columns = dependent_columns(orbit, free, other, seed)
            if len(columns):  # else too little depends on these inputs to tell
                without = errors_without(orbit, free, rows, seed)
                p_values.append((_in_columns(pair, columns, without, far * margin, options), orbit))
        for p_value, orbit in p_values:
            if p_value > largest:
                largest, weakest = p_value, tuple(held.names[i] for i in orbit)
    return GroupTest(replace(test, p_value=largest, adjusted_p_value=largest), share, weakest)


def _with_images(
    elements: Sequence[SignedPermutation], held: TransitionData, support: DataSupport
) -> tuple[TransitionData, float, int, str]:
    """Rows with all images where there are data, their share and number; why they are too few."""
    base = support.contains(held.x).numpy()
    inside, kept = base, 1.0
    for element in elements:
        image = base & support.contains(element.as_map().apply(held.x)).numpy()
        inside = inside & image
        kept = min(kept, float(image.sum()) / max(1, int(base.sum())))
    share = float(inside.mean())
    rows = held.rows(np.flatnonzero(inside))
    samples = len(rows.x) if rows.groups is None else len(np.unique(rows.groups))
    reason = ""
    if kept < KEPT or share < _FEWEST or samples < SMALLEST_SAMPLE:
        reason = (
            f"it takes up to {1 - kept:.0%} of the rows to where there are few or none, so that "
            "the log cannot tell"
        )
    return rows, share, samples, reason


def _in_columns(
    pair: ColumnLosses,
    columns: NDArray[np.int64],
    blind: NDArray[np.float64],
    margin: float,
    options: dict[str, Any],
) -> float:
    """The p-value of the cost in some columns, against what a blind predictor loses there."""
    losses = (one[:, columns].sum(1) for one in (pair.symmetrised, pair.free, blind))
    return claim_test(*losses, margin=_IN_COLUMNS * margin, **options).p_value


def _losses(
    elements: Sequence[SignedPermutation], free: FreePredictor, rows: TransitionData, seed: int
) -> ColumnLosses:
    return ColumnLosses.of(
        free.predict,
        elements,
        rows.x,
        rows.increments,
        constant=free.constant,
        spread=rows.spread,
        seed=seed,
    )


def _up_to_inverse(elements: Sequence[SignedPermutation]) -> list[SignedPermutation]:
    chosen: dict[SignedPermutation, None] = {}
    for element in elements:
        if not element.is_identity and element.inverse() not in chosen:
            chosen[element] = None
    return list(chosen)
