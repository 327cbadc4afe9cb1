"""Groups that hold exactly stand before larger ones that cost less than the margin."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from discovery.given_claims import bench_of, groups_tested, orders
from discovery.pieces import FreePredictor, PairGroup, Tested

SHIFT, TURN = np.roll(np.arange(5), -1), np.arange(5)[::-1].copy()


def around(x: torch.Tensor, odd: float) -> torch.Tensor:
    """A function of five positions that shifts leave, and reflections but for an odd part."""
    even = x.square().sum(1) + (x * x.roll(1, 1)).sum(1)
    twisted = (x.square() * (x.roll(1, 1) - x.roll(-1, 1))).sum(1)
    return (even + odd * twisted)[:, None]


def claimed(odd: float, left_out: int | None = None) -> tuple[list[Tested], list[Tested]]:
    """Reflections, shifts and both, tested with the true function and an error of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 5))
    y = around(torch.as_tensor(x), odd)
    bent = torch.as_tensor(rng.normal(size=5))
    free = FreePredictor(
        "by hand", lambda x: around(x, odd) + 0.3 * torch.sin(x @ bent)[:, None], y.mean(0), 0.01
    )
    # the draws of the rows come before those of the noise
    bent_noise = 0.1 * rng.normal(size=(1500, 1))
    bench = bench_of(x, y.numpy() + bent_noise, free)
    stay = np.arange(1)
    moves = [[SHIFT, TURN], [SHIFT], [TURN]]
    groups = [PairGroup(tuple((p, stay) for p in some), 5, 1) for some in moves]
    return groups_tested(bench, [g for k, g in enumerate(groups) if k != left_out])


def test_a_larger_group_within_the_margin_gives_way_to_an_exact_one():
    every, left = claimed(odd=0.09)
    odd_share = (0.09**2 * 20) / (0.09**2 * 20 + 15)  # of the variance, for normal inputs
    assert every[0].test.effect == pytest.approx(odd_share, abs=0.015)
    assert all(one.confirmed for one in every)
    assert orders(left) == [5]
    both, _, turn = left
    assert not both.confirmed
    assert not turn.confirmed
    assert both.note == "Z(5), cyclic shift, holds and costs less"


def test_the_larger_group_is_claimed_where_it_is_exact():
    _, left = claimed(odd=0.0)
    assert orders(left) == [10]
    both, shifts, _ = left
    assert shifts.confirmed
    assert both.note == ""


def test_groups_that_were_not_joined_before_are_joined_only_if_that_is_exact():
    assert orders(claimed(odd=0.0, left_out=0)[1]) == [10]
    assert orders(claimed(odd=0.09, left_out=0)[1]) == [5]


def test_equal_outputs_are_no_reason_to_drop_what_costs_something():
    """Which outputs are equal says nothing of the inputs: it holds exactly, and trivially."""
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(1500, 5)))
    both = around(x, 0.14).expand(-1, 2)
    bent = torch.as_tensor(rng.normal(size=5))
    free = FreePredictor(
        "by hand",
        lambda x: around(x, 0.14).expand(-1, 2) + 0.3 * torch.sin(x @ bent)[:, None],
        both.mean(0),
        0.01,
    )
    bench = bench_of(x.numpy(), both.numpy() + 0.1 * rng.normal(size=(1500, 2)), free)
    swap, stay = np.array([1, 0]), np.arange(2)
    dearer = PairGroup(((SHIFT, stay), (TURN, stay)), 5, 2)
    equal = PairGroup(((np.arange(5), swap),), 5, 2)
    every, left = groups_tested(bench, [dearer, equal])
    assert every[0].approximate
    assert [one.confirmed for one in left] == [True, True]
    assert [bool(one.claim.statement.trivial) for one in left] == [False, True]
