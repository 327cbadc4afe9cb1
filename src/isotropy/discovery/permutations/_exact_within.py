"""Groups that hold exactly, within larger ones that hold only within the margin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery._task_data import TaskData
from isotropy.discovery.confirming._free_predictor import FreePredictor
from isotropy.discovery.permutations._average_test import average_test
from isotropy.discovery.permutations._permutation_claim import PermutationClaim, rows_to_test

# shares of what can be learned: what surely costs more is not exact, by itself or beside another
_EXACT, _DEARER = 0.005, 0.003
_ELEMENTS = 64


@torch.no_grad()
def without_dearer(
    claims: Sequence[PermutationClaim],
    free: FreePredictor,
    outside: TaskData,
    *,
    margin: float,
    seed: int,
) -> list[PermutationClaim]:
    """The claims, without those that surely cost something where another is exact.

    A group that is larger than that of the task may cost less than the margin: the reflections of
    a ring, where a function is nearly even. The shifts within it cost nothing, and they are what
    the task has. The predictor averaged over the smaller group takes the place of the free one: if
    the larger group holds, to average over that as well costs nothing.

    Args:
        claims: Those that are confirmed.
        free: The predictor that they were confirmed with.
        outside: The rows that they were confirmed on.
        margin: The largest cost that counts as a symmetry.
        seed: Of random elements.
    """
    rows = rows_to_test(outside, seed)
    averages: dict[int, Tensor] = {}

    def average(claim: PermutationClaim) -> Tensor:
        if id(claim) not in averages:
            averages[id(claim)] = claim.group.averages(
                free.predict,
                rows.x,
                rows.arrangement.channels,
                rows.arrangement.output_channels,
                elements=_ELEMENTS,
                generator=make_generator(seed),
            )
        return averages[id(claim)]

    exact = [
        one
        for one in claims
        if one.is_named and one.test is not None and one.test.interval[0] <= _EXACT
    ]
    kept = []
    for claim in claims:
        costs = claim.test is not None and claim.test.interval[0] > _EXACT
        better = exact[0] if costs and exact else None
        for one in exact if better is None else ():
            if not one.is_within(claim):
                continue
            test = average_test(
                average(one).mean(0),
                average(claim),
                rows.y,
                rows.task,
                constant=free.constant,
                margin=margin,
                groups=rows.groups,
            )
            if test.interval[0] > _DEARER:
                better = one
                break
        if better is None:
            kept.append(claim)
        elif claim.test is not None:
            claim.test = replace(claim.test, adjusted_p_value=1.0)
            claim.note = f"{better.name.name}, holds and costs surely less"
    return kept
