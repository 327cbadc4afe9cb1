"""Groups that hold exactly stand before larger ones that cost less than the margin."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from discovery.pieces import (
    ConfirmedGroups,
    FreePredictor,
    GroupProposal,
    PairGroup,
    Patience,
    PermutationClaim,
    TaskData,
    confirm_permutations,
)
from isotropy.data import load

SHIFT, TURN = np.roll(np.arange(5), -1), np.arange(5)[::-1].copy()
GIVEN = {"margin": 0.05, "level": 0.05, "seed": 0}


def around(x: torch.Tensor, odd: float) -> torch.Tensor:
    """A function of five positions that shifts leave, and reflections but for an odd part."""
    even = x.square().sum(1) + (x * x.roll(1, 1)).sum(1)
    twisted = (x.square() * (x.roll(1, 1) - x.roll(-1, 1))).sum(1)
    return (even + odd * twisted)[:, None]


def claimed_groups(odd: float, rows: int = 1500) -> ConfirmedGroups:
    """Reflections, shifts and both, tested with the true function and an error of its own."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 5))
    y = around(torch.as_tensor(x), odd)
    data = TaskData.of(load((x, y.numpy() + 0.1 * rng.normal(size=(rows, 1)))))
    bent = torch.as_tensor(rng.normal(size=5))
    free = FreePredictor(
        "by hand", lambda x: around(x, odd) + 0.3 * torch.sin(x @ bent)[:, None], y.mean(0), 0.01
    )
    stay = np.arange(1)
    groups = [
        PairGroup(tuple((p, stay) for p in moves), 5, 1)
        for moves in ([SHIFT, TURN], [SHIFT], [TURN])
    ]
    claims = [PermutationClaim.of(GroupProposal(group, "by hand", 0.0), data) for group in groups]
    for claim, test in zip(claims, confirm_permutations(claims, free, data, **GIVEN), strict=True):
        claim.test = test
    return ConfirmedGroups(claims, data, free, data, data, **GIVEN)


def test_a_larger_group_within_the_margin_gives_way_to_an_exact_one():
    groups = claimed_groups(odd=0.09)
    both, shifts, turn = groups.claims
    odd_share = (0.09**2 * 20) / (0.09**2 * 20 + 15)  # of the variance, for normal inputs
    assert both.test.effect == pytest.approx(odd_share, abs=0.015)
    assert all(claim.confirmed for claim in groups.claims)
    assert groups.shown(Patience(), with_networks=False) == [shifts]
    assert not both.confirmed
    assert not turn.confirmed
    assert both.note == "Z(5), cyclic shift, holds and costs less"


def test_the_larger_group_is_claimed_where_it_is_exact():
    groups = claimed_groups(odd=0.0)
    both, shifts, _ = groups.claims
    assert groups.shown(Patience(), with_networks=False) == [both]
    assert shifts.confirmed
    assert both.note == ""


def test_groups_that_were_not_joined_before_are_joined_only_if_that_is_exact():
    groups = claimed_groups(odd=0.0)
    both = groups.claims.pop(0)
    (joined,) = groups.shown(Patience(), with_networks=False)
    assert joined.group.equals(both.group)
    groups = claimed_groups(odd=0.09)
    _, shifts, _ = groups.claims
    groups.claims = groups.claims[1:]
    assert groups.shown(Patience(), with_networks=False) == [shifts]
