"""Positions that the target ignores: any permutation of them is a symmetry, trivially."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding, tested_fields


def ignored_positions(
    positions: Sequence[int],
    free: FreePredictor,
    outside: TaskData,
    *,
    margin: float,
    level: float,
    seed: int,
) -> list[Finding]:
    """The finding that some positions do not matter: any permutation of them is a symmetry."""
    ignored = list(positions)
    a = outside.arrangement
    if len(ignored) < 2 or len(ignored) == a.inputs:
        return []
    rng = make_generator(seed)
    shuffled = outside.x.clone().unflatten(1, (a.channels, a.inputs))
    for position in ignored:
        order = torch.randperm(len(shuffled), generator=rng)
        shuffled[:, :, position] = shuffled[order][:, :, position]
    with torch.no_grad():
        predicted = free.predict(shuffled.flatten(1))
    test = outside.cost_test(predicted, free, margin=margin, level=level)
    if not test.confirmed:
        return []
    names = outside.input_names or tuple(f"x{p}" for p in range(a.inputs))
    listed = ", ".join(names[p] for p in ignored)
    return [
        Finding(
            name=f"S({len(ignored)}), positions that the target ignores",
            group=f"S({len(ignored)})",
            action=f"any permutation of {listed}",
            method="shuffled columns",
            order=int(np.prod(np.arange(1, len(ignored) + 1, dtype=object))),
            **tested_fields(test),
            trivial=f"the target does not depend on {listed}",
        )
    ]
