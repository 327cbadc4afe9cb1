"""What averaging a predictor over permutations costs, as a test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.discovery.predictors._free_predictor import Task, sample_losses
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ClaimTest, claim_test, mean_below
from isotropy.discovery.testing._confirm_action import cost_of_average
from isotropy.discovery.testing._tested import Tested
from isotropy.discovery.testing._testing_thresholds import TestingThresholds


def average_test(
    predicted: Tensor,
    averages: Tensor,
    y: Tensor,
    task: Task,
    *,
    constant: Tensor,
    margin: float,
    level: float = 0.05,
    groups: NDArray[np.int64] | None = None,
) -> ClaimTest:
    """Test that averaging costs less than a margin.

    Of numbers, what averaging gains by evening out errors does not count (``cost_of_average``). Of
    classes it does: where they are almost separable logits have no scale, and what a cross-entropy
    would lose without that gain is anybody's guess.

    Example:
        >>> import torch
        >>> y = torch.randn(90, 1, generator=torch.Generator().manual_seed(0)).double()
        >>> options = {"constant": torch.zeros(1).double(), "margin": 0.05}
        >>> average_test(y + 0.1, y[None], y, "regression", **options).confirmed
        True
    """
    if task == "regression":
        return cost_of_average(
            predicted, averages, y, constant=constant, margin=margin, level=level, groups=groups
        )
    compared = (averages.mean(0), predicted, constant.expand(len(predicted), -1))
    losses = [sample_losses(one, y, task).numpy() for one in compared]
    return claim_test(*losses, margin=margin, level=level, groups=groups)


def costs_of_average(
    predicted: Tensor, averages: Tensor, y: Tensor, task: Task
) -> NDArray[np.float64]:
    """What averaging costs each row; of numbers, without the gain of evening out errors.

    Of numbers that is (y − f_sym)·(f − f_sym), which is zero on average where the symmetry holds,
    whatever the errors of f, if inputs are distributed equally along orbits. Where f_sym is a mean
    over random elements, its two factors have different ones.

    Example:
        >>> import torch
        >>> y = torch.tensor([[1.0], [2.0]])
        >>> costs_of_average(y + 1, (y - 1)[None], y, "regression").tolist()
        [2.0, 2.0]
    """
    if task == "classification":
        losses = [sample_losses(compared, y, task) for compared in (averages.mean(0), predicted)]
        costs = losses[0] - losses[1]
    else:
        costs = ((y - averages) * (predicted - averages.flip(0))).sum(-1).mean(0)
    values: NDArray[np.float64] = costs.double().numpy()
    return values


@torch.no_grad()
def without_dearer(tested: Sequence[Tested], bench: Bench) -> list[Tested]:
    """The claims, those with a significant cost withdrawn where another is exact.

    A group that is larger than that of the task may cost less than the margin: the reflections of
    a ring, where a function is almost even. The shifts within it cost nothing, and they are what
    the task has. The predictor averaged over the smaller group takes the place of the free one: if
    the larger group holds, and inputs are distributed equally along its orbits, averaging over that
    as well costs nothing.
    """
    level = TestingThresholds.now().dearer_level
    standing = [one for one in tested if one.confirmed]
    exact = [one for one in standing if one.claim.is_named and not one.approximate]
    exact.sort(key=lambda one: one.test.effect)
    better: dict[Tested, Tested] = {}
    for one in standing:
        for other in exact:
            # by itself, or where a smaller group is averaged over already
            cheaper = one.approximate and other.test.effect < one.test.effect
            if cheaper or (
                other.claim.is_within(one.claim) and _p_dearer(other, one, bench) <= level
            ):
                better[one] = other
                break
    return [
        one.withdrawn(f"{better[one].claim.label}, holds and costs less") if one in better else one
        for one in tested
    ]


def _p_dearer(smaller: Tested, larger: Tested, bench: Bench) -> float:
    """The p-value of the null hypothesis that averaging further costs next to nothing."""
    assert smaller.averages is not None
    assert larger.averages is not None
    rows, predictions = bench.some_rows, smaller.averages.mean(0)
    constant = bench.free.constant.expand_as(predictions)
    free, flat = (sample_losses(one, rows.y, rows.task).numpy() for one in (predictions, constant))
    costs = costs_of_average(predictions, larger.averages, rows.y, rows.task)
    return mean_below(TestingThresholds.now().dearer * (flat - free) - costs, rows.groups)
