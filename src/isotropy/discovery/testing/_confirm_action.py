"""A claimed continuous symmetry as a test: what averaging over orbits costs a free predictor.

Single elements beyond the connected group are tested in the same way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import spawn
from isotropy._run._moved_keywords import moved_keywords
from isotropy.discovery.proposing.generators._discrete_candidates import (
    DiscreteCandidate,
    candidates_for_rows,
    coset_candidates,
)
from isotropy.discovery.testing._claim_test import (
    SMALLEST_SAMPLE,
    ClaimTest,
    ConfirmOptions,
    Loss,
    Predictor,
    _sample_losses,
    claim_test,
    holm,
    targets_and_constant,
)
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._orbit_average import evaluated, orbit_average
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

if TYPE_CHECKING:
    from isotropy.discovery.claims._generator_claim import GeneratorClaim


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


@torch.no_grad()
def confirm_discrete(
    predict: Predictor,
    x: Tensor,
    y: Tensor,
    candidates: Sequence[DiscreteCandidate],
    outputs: Sequence[Tensor | None] | None = None,
    *,
    support: DataSupport,
    constant: Tensor,
    options: ConfirmOptions | None = None,
    groups: ArrayLike | None = None,
) -> list[tuple[DiscreteCandidate, ActionTest]]:
    """Test single elements: f_sym(x) = ½ (f(x) + ρ_out(h)⁻¹ f(h x)) against f.

    Only inputs whose image lies where there are data count. Where these are fewer than 20 or than
    half, or the images are all near by, it is not tested. P-values are Holm's over all that can.
    Of the options loss, margin and level matter.

    Raises:
        ValueError: If shapes do not fit, or a number is not finite.

    Example:
        >>> x = torch.randn(300, 2, generator=torch.Generator().manual_seed(0)).double()
        >>> predict = lambda x: (x[:, :1] + 1) ** 2 + x[:, 1:] ** 2
        >>> flips = [DiscreteCandidate(c, torch.eye(2)) for c in "ab"]
        >>> flips[0].matrix[0, 0] = flips[1].matrix[1, 1] = -1
        >>> found = confirm_discrete(
        ...     predict, x, predict(x), flips, support=DataSupport(x), constant=torch.tensor([3.0])
        ... )
        >>> [action.test.confirmed for _, action in found]
        [False, True]
    """
    options = options or ConfirmOptions()
    x, y = torch.as_tensor(x), torch.as_tensor(y)
    if x.ndim != 2 or len(x) != len(y):
        raise ValueError(f"expected as many targets as inputs (N, n), got {y.shape} and {x.shape}")
    back = [None] * len(candidates) if outputs is None else list(outputs)
    if len(back) != len(candidates):
        raise ValueError(f"expected {len(candidates)} maps of outputs, got {len(back)}")
    labels = row_labels(groups, len(x))
    free = evaluated(predict, x, x.double())
    found: list[ActionTest] = []
    for candidate, rho in zip(candidates, back, strict=True):
        images = _images(candidate, x)
        tested = support.contains(images)
        share = float(tested.double().mean())
        reach = _reach(candidate, support.directions_of(images - x.cpu())[tested])
        none = untested(options.margin, options.level, int(tested.sum()))
        outcome = ActionTest(none, share, share, reach)
        reason = why_untested(tested, labels, reach)
        if reason:
            found.append(replace(outcome, reason=reason))
            continue
        there = evaluated(predict, x, images[tested])
        if rho is not None:
            there = torch.linalg.solve(_output_map(rho, there), there.T).T
        test = cost_of_average(
            free[tested],
            (free[tested] + there).unsqueeze(0) / 2,
            y[tested],
            constant=constant,
            loss=options.loss,
            margin=options.margin,
            level=options.level,
            groups=None if labels is None else labels[tested],
        )
        found.append(replace(outcome, test=of_all_rows(test, tested)))
    adjusted = iter(holm([action.test.p_value for action in found if action.testable]))
    found = [
        replace(a, test=replace(a.test, adjusted_p_value=float(next(adjusted))))
        if a.testable
        else a
        for a in found
    ]
    return list(zip(candidates, found, strict=True))


def _images(candidate: DiscreteCandidate, x: Tensor) -> Tensor:
    n, h = x.shape[1], candidate.matrix.double()
    if h.shape not in ((n, n), (n, n + 1)) or h.is_complex():
        raise ValueError(
            f"expected real elements on rows of shape ({n}, {n}) or ({n}, {n + 1}), "
            f"got {candidate.matrix.dtype} of {tuple(h.shape)}"
        )
    images: Tensor = x.detach().cpu().double() @ h[:, :n].T + (h[:, n] if h.shape[1] > n else 0.0)
    return images


def _reach(candidate: DiscreteCandidate, moves: Tensor) -> float:
    """How far images are, in distances between data along as many directions as move."""
    if not len(moves):
        return 0.0
    h = candidate.matrix.double()
    moving = h - torch.eye(*h.shape).to(h)
    rank = max(1, int(torch.linalg.matrix_rank(moving)))
    return math.sqrt(float(moves.square().sum(1).mean()) / (2 * rank))


def _output_map(rho: Tensor, outputs: Tensor) -> Tensor:
    k = outputs.shape[1]
    matrix = torch.as_tensor(rho).cpu().double()
    if matrix.shape != (k, k):
        raise ValueError(f"expected maps of outputs of shape ({k}, {k}), got {tuple(matrix.shape)}")
    return matrix


def element_candidates(
    claim: GeneratorClaim, n: int
) -> tuple[list[DiscreteCandidate], list[Tensor | None]]:
    """Single elements to try with a claim, on rows, and what they do to outputs."""
    result = claim.result
    columns = None if result is None else result.chart.columns
    if result is None or result.snapped is None or columns is None:
        return [], []
    found = result.snapped
    d = len(columns[0])
    small = coset_candidates(
        found.generators, found.expression, found.change, homogeneous=result.affine
    )
    rows = candidates_for_rows(small, columns, n)
    if len(columns) > TestingThresholds.now().most_paired:
        swaps = [f"swap of blocks {i} and {i + 1}" for i in range(1, len(columns))]
        rows = rows[: len(small)] + [c for c in rows[len(small) :] if c.name in swaps]
    moved: list[Tensor | None] = [None] * len(rows)
    if claim.outputs is not None:
        for at, candidate in enumerate(small):
            h = candidate.matrix[:d, :d].double()
            copies = len(claim.outputs[0]) // d
            moved[at] = (
                torch.kron(h, h)
                if result.output == "matrix"
                else torch.kron(torch.eye(copies, dtype=torch.float64), h)
            )
    return rows, moved
