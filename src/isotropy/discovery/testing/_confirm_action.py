"""A claimed continuous symmetry as a test: what the mean over orbits costs a free predictor."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import spawn
from isotropy._run._moved_keywords import moved_keywords
from isotropy.discovery.testing._claim_test import (
    SMALLEST_SAMPLE,
    ClaimTest,
    ConfirmOptions,
    Loss,
    Predictor,
    _sample_losses,
    claim_test,
    targets_and_constant,
)
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._orbit_average import evaluated, orbit_average
from isotropy.discovery.testing._testing_thresholds import TestingThresholds


@dataclass(frozen=True)
class ActionTest:
    """A test of one claimed action, or why there is none.

    Args:
        test: The test; its p-value is 1 where there is none.
        share: The share of inputs that could be tested on.
        kept: How many images of an input were averaged over, on average.
        reach: How far the images lie from the inputs, in distances between data.
        reason: Why there is no test; empty where there is one.

    Example:
        >>> nothing = ActionTest(untested(0.05, 0.05), 0.0, 0.0, 0.0, "no image is within the data")
        >>> nothing.test.confirmed, nothing.testable
        (False, False)
    """

    test: ClaimTest
    share: float
    kept: float
    reach: float
    reason: str = ""

    @property
    def testable(self) -> bool:
        """Whether the data could tell."""
        return not self.reason


@moved_keywords(options=ConfirmOptions)
@torch.no_grad()
def confirm_action(
    predict: Predictor,
    x: Tensor,
    y: Tensor,
    generators_in: ArrayLike,
    generators_out: ArrayLike | None = None,
    *,
    support: DataSupport,
    constant: Tensor,
    options: ConfirmOptions | None = None,
    groups: ArrayLike | None = None,
    seed: int | torch.Generator | None = 0,
) -> ActionTest:
    """Test a continuous symmetry on samples that neither found nor fitted anything.

    The predictor that has the symmetry is the mean over orbits of the one that has not
    (``orbit_average``), compared with it by ``cost_of_average`` on those inputs that have images
    within the data. Where these are fewer than 20, or the images are all near by, nothing is
    claimed.

    Args:
        predict: The free predictor, (N, n) to (N, k), fitted to other samples.
        x: Inputs, shape (N, n).
        y: Targets, shape (N, k) or (N,).
        generators_in: Affine actions [A|b] on whole rows, shape (D, n, n+1).
        generators_out: How outputs move with them, shape (D, k, k); not at all by default.
        support: Where the data are that the predictor was fitted to.
        constant: What a constant predictor predicts, shape (k,).
        options: The loss, the margin and the level, over how many group elements to average and
            on how many samples to test.
        groups: Which samples belong together, shape (N,).
        seed: Seed or generator of the samples, where there are more, and of group elements.

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.

    Example:
        >>> x = torch.randn(400, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> turn = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]])
        >>> given = {"support": DataSupport(x), "constant": torch.zeros(1)}
        >>> square = lambda x: x.square().sum(1, keepdim=True)
        >>> confirm_action(square, x, square(x), turn, **given).test.confirmed
        True
        >>> tilted = lambda x: square(x) + x[:, :1]
        >>> confirm_action(tilted, x, tilted(x), turn, **given).test.confirmed
        False
    """
    options = options or ConfirmOptions()
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    if len(x) != len(y):
        raise ValueError(f"expected as many targets as inputs, got {len(y)} and {len(x)}")
    choosing, walking = spawn(make_generator(seed), 2)
    labels = row_labels(groups, len(x))
    if len(x) > options.most:
        chosen = torch.randperm(len(x), generator=choosing)[: options.most]
        x, y = x[chosen], y[chosen]
        labels = None if labels is None else labels[chosen]
    average = orbit_average(
        predict,
        x,
        generators_in,
        generators_out,
        support=support,
        elements=options.elements,
        seed=walking,
    )
    tested = average.tested
    outcome = ActionTest(
        untested(options.margin, options.level, int(tested.sum())),
        average.share,
        float(average.kept.double().mean()),
        average.reach,
    )
    reason = why_untested(tested, labels, average.reach)
    if reason:
        return replace(outcome, reason=reason)
    test = cost_of_average(
        evaluated(predict, x, x[tested]),
        average.halves[:, tested],
        y[tested],
        constant=constant,
        loss=options.loss,
        margin=options.margin,
        level=options.level,
        groups=None if labels is None else labels[tested],
    )
    return replace(outcome, test=of_all_rows(test, tested))


def of_all_rows(test: ClaimTest, tested: Tensor) -> ClaimTest:
    """The test without its values where some rows were not tested: they stand beside no others."""
    return test if bool(tested.all()) else replace(test, values=None)


def cost_of_average(
    free: Tensor,
    averaged: Tensor,
    y: Tensor,
    *,
    constant: Tensor,
    loss: Loss = "squared",
    margin: float = 0.05,
    level: float = 0.05,
    groups: ArrayLike | None = None,
) -> ClaimTest:
    """Test that averaging costs less than a margin, whatever it gains by evening out errors.

    With d = f − f_sym, averaging costs E[l(f_sym) − l(f)], but a predictor with errors gains by
    it, which can make up for a symmetry that does not hold. Errors do not know of the targets, so
    E[l(f_sym − d/2) − l(f_sym + d/2)] / 2, which for squared losses is E[(y − f_sym) d], is what
    it costs without that gain. Where f_sym is a mean over random elements, d is taken with other
    ones than f_sym, so that their chance does not count as cost. The claim must pass both tests,
    and the one that it passes with more difficulty is returned.

    Raises:
        ValueError: If shapes do not fit, or there are fewer than 20 samples or groups.

    Example:
        >>> rng = torch.Generator().manual_seed(0)
        >>> even, odd, error = torch.randn(3, 500, 1, generator=rng)
        >>> y = even + 0.3 * odd  # the odd part is 8 % of the variance
        >>> cost_of_average(y + 0.3 * error, even[None], y, constant=torch.zeros(1)).confirmed
        False
    """
    y, flat = targets_and_constant(free, y, constant, loss)
    if averaged.ndim != free.ndim + 1 or averaged.shape[1:] != free.shape:
        raise ValueError(
            f"expected averages of shape (1 or 2, {', '.join(map(str, free.shape))}), "
            f"got {tuple(averaged.shape)}"
        )
    losses_free = _sample_losses(loss, free, y)
    halves = (free - averaged.flip(0)) / 2
    slopes = [
        _sample_losses(loss, mean - half, y) - _sample_losses(loss, mean + half, y)
        for mean, half in zip(averaged, halves, strict=True)
    ]
    costs = (
        _sample_losses(loss, averaged.mean(0), y) - losses_free,
        sum(slopes) / (2 * len(slopes)),
    )
    losses_constant = _sample_losses(loss, flat, y)
    tests = [
        claim_test(
            losses_free + cost,
            losses_free,
            losses_constant,
            margin=margin,
            level=level,
            groups=groups,
        )
        for cost in costs
    ]
    return max(tests, key=lambda test: test.p_value)


def untested(margin: float, level: float, samples: int = 0) -> ClaimTest:
    """The test of a claim of which the data tell nothing: it is not confirmed.

    Example:
        >>> untested(0.05, 0.05).p_value
        1.0
    """
    limits = (-math.inf, math.inf)
    return ClaimTest(1.0, math.nan, limits, margin, 1.0, samples, 1.0, level)


def why_untested(tested: Tensor, groups: Tensor | None, reach: float) -> str:
    """Why too little of the data has images within the data, or nothing.

    Example:
        >>> why_untested(torch.arange(100) < 30, None, 1.0)
        '30% of the inputs have images within the data, less than 50%'
    """
    limits = TestingThresholds.now()
    count, what = int(tested.sum()), "inputs"
    if groups is not None:
        count, what = len(groups[tested].unique()), "groups of inputs"
    if count < SMALLEST_SAMPLE:
        return f"{count} {what} have images within the data, fewer than {SMALLEST_SAMPLE}"
    share = float(tested.double().mean())
    if share < limits.least_share:
        least = f"{limits.least_share:.0%}"
        return f"{share:.0%} of the inputs have images within the data, less than {least}"
    if reach < limits.least_reach:
        return (
            f"images within the data are too near to tell: {reach:.2g} of the distance between "
            f"data, less than {limits.least_reach}"
        )
    return ""


def row_labels(groups: ArrayLike | None, count: int) -> Tensor | None:
    """The groups of rows as numbers, whatever labels they have."""
    if groups is None:
        return None
    labels = np.asarray(groups)
    if labels.shape != (count,):
        raise ValueError(f"expected a group for each of {count} samples, got {labels.shape}")
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1])
