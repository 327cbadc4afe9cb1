"""Groups that hold exactly, within larger ones that hold only within the margin."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from isotropy.discovery.claims._permutation_claim import PermutationClaim, rows_to_test
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._average_test import costs_of_average
from isotropy.discovery.testing._claim_test import mean_below

_DEARER = 0.003  # a share of what can be learned: what costs no more is next to nothing
_SIGNIFICANT = 1e-3  # there are many pairs of groups


@torch.no_grad()
def without_dearer(
    claims: Sequence[PermutationClaim], free: FreePredictor, outside: TaskData, *, seed: int
) -> list[PermutationClaim]:
    """The claims, without those with a significant cost where another is exact.

    A group that is larger than that of the task may cost less than the margin: the reflections of
    a ring, where a function is almost even. The shifts within it cost nothing, and they are what
    the task has. The predictor averaged over the smaller group takes the place of the free one: if
    the larger group holds, and inputs are distributed equally along its orbits, averaging over that
    as well costs nothing.
    """
    rows = rows_to_test(outside, seed)
    exact = [one for one in claims if one.is_named and not one.approximate]
    exact.sort(key=_effect)
    given_way: list[tuple[PermutationClaim, PermutationClaim]] = []
    for claim in claims:
        # by itself, or because it costs something where a smaller group is averaged over already
        better = [
            one
            for one in exact
            if (claim.approximate and _effect(one) < _effect(claim))
            or (one.is_within(claim) and _p_dearer(one, claim, rows, free.constant) <= _SIGNIFICANT)
        ]
        if better:
            given_way.append((claim, better[0]))
    for claim, one in given_way:
        claim.withdraw(f"{one.name.name}, holds and costs less")
    return [claim for claim in claims if all(claim is not lost for lost, _ in given_way)]


def _effect(claim: PermutationClaim) -> float:
    return claim.test.effect if claim.test is not None else 0.0


def _p_dearer(
    smaller: PermutationClaim, larger: PermutationClaim, rows: TaskData, constant: Tensor
) -> float:
    """The p-value of the null hypothesis that averaging further costs next to nothing."""
    assert smaller.averages is not None
    assert larger.averages is not None
    predictions = smaller.averages.mean(0)
    free, flat = (
        sample_losses(one, rows.y, rows.task).numpy()
        for one in (predictions, constant.expand_as(predictions))
    )
    costs = costs_of_average(predictions, larger.averages, rows.y, rows.task)
    return mean_below(_DEARER * (flat - free) - costs, rows.groups)
