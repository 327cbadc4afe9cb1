"""Entries that nothing depends on: any change of them is a symmetry, trivially."""

from __future__ import annotations

import numpy as np
import torch

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.telling._finding import Finding, tested_fields
from isotropy.discovery.testing._claim_test import claim_test
from isotropy.discovery.testing._stakes import capped_errors

_IGNORED = 1e-3  # of the variance of increments


def ignored_entries(
    other: TransitionData,
    free: FreePredictor,
    held: TransitionData,
    *,
    margin: float,
    level: float,
    seed: int,
) -> list[Finding]:
    """A trivial finding of the entries that no increment depends on; none where all are needed."""
    varies = other.x.std(0) > 0
    needed = _errors(free, other, (), seed)
    constant = capped_errors(free.constant, other.increments, other.spread)
    if needed.mean() > (1 - 10 * _IGNORED) * constant.mean():
        return []  # nothing was learned of any entry
    ignored = [
        i
        for i in range(len(other.names))
        if bool(varies[i])
        and (_errors(free, other, (i,), seed) - needed).mean() < _IGNORED * constant.mean()
        and (i >= other.n or needed[:, i].mean() > 0.98 * constant[:, i].mean())
    ]
    if not ignored:
        return []
    losses = [
        _errors(free, held, tuple(ignored), seed).sum(1),
        _errors(free, held, (), seed).sum(1),
        capped_errors(free.constant, held.increments, held.spread).sum(1),
    ]
    test = claim_test(*losses, margin=margin, level=level, groups=held.groups)
    if not test.confirmed:
        return []
    listed = ", ".join(held.names[i] for i in ignored)
    return [
        Finding(
            name="signs and permutations of entries that nothing depends on",
            group=f"wreath(Z(2),S({len(ignored)}))" if len(ignored) > 1 else "Z(2)",
            action=f"any change of {listed}",
            method="shuffled columns",
            **tested_fields(test),
            trivial=f"no increment depends on {listed}",
        )
    ]


@torch.no_grad()
def _errors(
    free: FreePredictor, rows: TransitionData, columns: tuple[int, ...], seed: int
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Errors with some columns taken from other rows."""
    x = rows.x.clone()
    order = torch.randperm(len(x), generator=make_generator(seed))
    for column in columns:
        x[:, column] = rows.x[order, column]
    return capped_errors(free.predict(x), rows.increments, rows.spread)
