"""Continuous symmetries confirmed: how often the test errs, and when it says nothing."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from isotropy.discovery import ConfirmOptions, DataSupport, claim_test, confirm_action
from isotropy.discovery.testing._confirm_action import ActionTest, cost_of_average, why_untested

TURN = torch.tensor([[[0.0, -1.0, 0.0], [1.0, 0.0, 0.0]]]).double()


def normal(n: int, width: int, seed: int) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).double()


def linear(*matrices: Tensor, copies: int = 1) -> Tensor:
    """Generators on rows of several copies."""
    rows = torch.stack([torch.block_diag(*[m.double()] * copies) for m in matrices])
    return nn.functional.pad(rows, (0, 1))


def plane(d: int, i: int, j: int, sign: float = -1.0) -> Tensor:
    matrix = torch.zeros(d, d)
    matrix[i, j], matrix[j, i] = sign, 1.0
    return matrix


def scaling(n: int) -> Tensor:
    return linear(torch.eye(n))


def quadratic_fit(x: Tensor, y: Tensor) -> object:
    def features(x: Tensor) -> Tensor:
        i, j = torch.triu_indices(x.shape[1], x.shape[1])
        return torch.cat([torch.ones(len(x), 1).double(), x, x[:, i] * x[:, j]], 1)

    weights = torch.linalg.lstsq(features(x), y).solution
    return lambda rows: features(rows) @ weights


def confirmations(tilt: float, repeats: int, positive: bool) -> int:
    """Claims of so(2) for |x|² + tilt·x₀, from 100 noisy rows to fit and 100 to confirm."""
    count = 0
    for seed in range(repeats):
        x = normal(200, 2, seed) + torch.tensor([2.0, 0.0])
        x = x.abs() if positive else x
        y = x.square().sum(1, keepdim=True) + tilt * x[:, 1:]
        y = y + 1.5 * normal(200, 1, seed + 10**6)
        predict = quadratic_fit(x[:100], y[:100])
        test = confirm_action(
            predict,  # type: ignore[arg-type]
            x[100:],
            y[100:],
            TURN,
            support=DataSupport(x[:100]),
            constant=y[:100].mean(0),
            options=ConfirmOptions(elements=32),
            seed=seed,
        )
        count += test.test.confirmed
    return count


@pytest.mark.parametrize("positive", [False, True])
def test_power_and_false_claims(positive: bool) -> None:
    assert confirmations(0.0, 20, positive) >= 18
    # x₁ varies by about 1 (by 0.6 where it is positive) along an orbit; f by 4.7, so that this is
    # 8 % of its variance, where the margin is 5 %
    assert confirmations(2.2 if positive else 1.6, 40, positive) <= 4


def test_gain_by_evening_out_errors_does_not_hide_a_cost() -> None:
    even, odd, error = (normal(400, 1, seed) for seed in range(3))
    y = even + 0.35 * odd  # 11 % of the variance
    free = y + 0.6 * error
    losses = [(p - y).square()[:, 0] for p in (even, free, 0 * y)]
    assert claim_test(*losses).confirmed
    assert not cost_of_average(free, even[None], y, constant=torch.zeros(1)).confirmed
    y = even
    free = y + 0.2 * error
    assert cost_of_average(free, even[None], y, constant=torch.zeros(1)).confirmed


def test_chance_in_the_mean_does_not_count_as_cost() -> None:
    even, error, *chance = (normal(2000, 1, seed) for seed in range(4))
    means = torch.stack([even + 0.25 * c for c in chance])
    free = even + 0.4 * error
    cost = cost_of_average(free, means, even, constant=torch.zeros(1)).effect
    both = cost_of_average(free, means.mean(0, keepdim=True), even, constant=torch.zeros(1)).effect
    assert abs(cost) < 0.02
    assert both > 0.025  # half of 0.25², as a share of 1 − 0.4²


def test_logits_and_groups() -> None:
    x = normal(600, 2, 0)
    logits = torch.cat([x.square().sum(1, keepdim=True) - 2, torch.zeros(600, 1)], 1)
    chances = logits.softmax(1)
    y = torch.multinomial(chances, 1, generator=torch.Generator().manual_seed(0))[:, 0]
    for tilt, confirmed in ((0.0, True), (2.0, False)):

        def predict(x: Tensor, tilt: float = tilt) -> Tensor:
            first = x.square().sum(1, keepdim=True) - 2 + tilt * x[:, :1]
            return torch.cat([first, torch.zeros(len(x), 1)], 1)

        y = torch.multinomial(predict(x).softmax(1), 1, generator=torch.Generator().manual_seed(0))[
            :, 0
        ]
        action = confirm_action(
            predict,
            x,
            y,
            TURN,
            support=DataSupport(x),
            constant=(torch.bincount(y) / len(y)).log(),
            options=ConfirmOptions(loss="cross-entropy", margin=0.1),
            groups=np.repeat(np.array([f"g{i}" for i in range(300)]), 2),
        )
        assert action.test.confirmed is confirmed
        assert 250 < action.test.samples <= 300


def confirmed_for(x: Tensor, generators: Tensor, **given: object) -> ActionTest:
    y = x[:, -1:]
    return confirm_action(
        lambda x: x[:, -1:],
        x,
        y,
        generators,
        support=DataSupport(x),
        constant=y.mean(0),
        **given,  # type: ignore[arg-type]
    )


def test_nothing_is_claimed_where_nothing_was_averaged() -> None:
    direction = normal(300, 3, 0)
    sphere = direction / direction.norm(dim=1, keepdim=True)
    assert not (off := confirmed_for(sphere, scaling(3))).testable
    assert (off.test.p_value, off.test.confirmed) == (1.0, False)
    # a column that is twice another one, moved alone
    line = torch.cat([direction[:, :1], 2 * direction[:, :1]], 1)
    shift = torch.tensor([[[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]])
    assert confirmed_for(line, shift).reason == (
        "0 inputs have images within the data, fewer than 20"
    )
    # rotations of two columns that are zero, beside one that can be shifted
    flat = torch.cat([0 * direction[:, :2], direction[:, 2:]], 1)
    turn_and_shift = linear(plane(3, 0, 1), torch.zeros(3, 3))
    turn_and_shift[1, 2, 3] = 1.0
    refused = confirmed_for(flat, turn_and_shift)
    assert refused.reach == 0.0
    assert refused.reason.startswith("images within the data are too near to tell: 0 of the dist")


def test_why_untested() -> None:
    tested = torch.arange(100) < 60
    assert why_untested(tested, None, 0.5) == ""
    assert why_untested(tested, torch.arange(100) // 5, 0.5) == (
        "12 groups of inputs have images within the data, fewer than 20"
    )
    assert "40% of the inputs" in why_untested(torch.arange(100) < 40, None, 0.5)
    assert "0.1 of the distance between data" in why_untested(tested, None, 0.1)


def test_confirm_errors() -> None:
    x = normal(60, 2, 0)
    given = {"support": DataSupport(x), "constant": torch.zeros(1)}

    def first(x: Tensor) -> Tensor:
        return x[:, :1]

    with pytest.raises(ValueError, match=r"as many targets as inputs, got 59 and 60"):
        confirm_action(first, x, x[1:, :1], TURN, **given)
    with pytest.raises(ValueError, match=r"expected a group for each of 60 samples, got \(3,\)"):
        confirm_action(first, x, x[:, :1], TURN, groups=[1, 2, 3], **given)
    with pytest.raises(
        ValueError, match=r"expected a constant prediction of shape \(1,\), got \(2"
    ):
        confirm_action(first, x, x[:, :1], TURN, support=given["support"], constant=torch.zeros(2))
    with pytest.raises(ValueError, match=r"averages of shape \(1 or 2, 60, 1\), got \(60, 1\)"):
        cost_of_average(x[:, :1], x[:, :1], x[:, :1], constant=torch.zeros(1))
