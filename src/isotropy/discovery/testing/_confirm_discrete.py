"""Single elements beyond a connected group, tested: what averaging over each of them costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from isotropy.discovery.proposing.generators._discrete_candidates import (
    DiscreteCandidate,
    candidates_for_rows,
    coset_candidates,
)
from isotropy.discovery.testing._claim_test import ConfirmOptions, Predictor, holm
from isotropy.discovery.testing._confirm_action import (
    ActionTest,
    cost_of_average,
    of_all_rows,
    row_labels,
    untested,
    why_untested,
)
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._orbit_average import evaluated
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

if TYPE_CHECKING:
    from isotropy.discovery.claims._generator_claim import GeneratorClaim


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
