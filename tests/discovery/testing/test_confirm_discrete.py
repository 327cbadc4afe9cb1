"""Components beyond the connected one: which the data confirm."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from discovery.pieces import DiscreteCandidate, candidates_for_rows
from isotropy.discovery import DataSupport
from isotropy.discovery.testing._confirm_action import confirm_discrete


def normal(n: int, width: int, seed: int) -> Tensor:
    return torch.randn(n, width, generator=torch.Generator().manual_seed(seed)).double()


def flips(*signs: list[float]) -> list[DiscreteCandidate]:
    return [DiscreteCandidate(str(s), torch.diag(torch.tensor(s))) for s in signs]


def test_parity_is_told_from_time_reversal_and_swaps() -> None:
    x = normal(400, 6, 0)

    def triple(x: Tensor) -> Tensor:  # odd in the first column, even in the second, a·b
        return x[:, :1] ** 3 + x[:, 1:2] ** 2 + (x[:, 2:4] * x[:, 4:]).sum(1, keepdim=True)

    candidates = [
        *flips([-1.0, 1, 1, 1, 1, 1], [1.0, -1, 1, 1, 1, 1]),
        *candidates_for_rows([], [[2, 3], [4, 5]], 6),
        *candidates_for_rows([], [[0], [1]], 6),
    ]
    y = triple(x) + 0.3 * normal(400, 1, 1)
    found = confirm_discrete(triple, x, y, candidates, support=DataSupport(x), constant=y.mean(0))
    assert [candidate for candidate, _ in found] == candidates
    assert [action.test.confirmed for _, action in found] == [False, True, True, False]
    for _, action in found:
        assert action.testable
        assert action.share > 0.8
        assert action.test.adjusted_p_value >= action.test.p_value


def test_outputs_move_too() -> None:
    x = normal(300, 2, 0)
    flip = torch.diag(torch.tensor([-1.0, 1.0]))

    def field(x: Tensor) -> Tensor:
        return torch.stack([x[:, 0] * x[:, 1], x[:, 0] ** 2], 1)

    given = {"support": DataSupport(x), "constant": field(x).mean(0)}
    reflected = DiscreteCandidate("reflection", flip)
    ((_, moved),) = confirm_discrete(field, x, field(x), [reflected], [flip], **given)
    ((_, fixed),) = confirm_discrete(field, x, field(x), [reflected], [None], **given)
    assert moved.test.confirmed
    assert moved.test.effect == pytest.approx(0)
    # exactly the odd output is lost, on the rows whose image is within the data
    y = field(x)[DataSupport(x).contains(x @ flip.double())]
    expected = y[:, 0].square().mean() / (y - field(x).mean(0)).square().sum(1).mean()
    assert not fixed.test.confirmed
    assert fixed.test.effect == pytest.approx(float(expected), rel=1e-6)


def test_affine_reflection() -> None:
    x = normal(300, 1, 0) + 3
    mirror = DiscreteCandidate("mirror", torch.tensor([[-1.0, 6.0]]))
    wrong = DiscreteCandidate("wrong", torch.tensor([[-1.0, 5.0]]))

    def bowl(x: Tensor) -> Tensor:
        return (x - 3) ** 2

    found = confirm_discrete(
        bowl, x, bowl(x), [mirror, wrong], support=DataSupport(x), constant=torch.ones(1)
    )
    assert [action.test.confirmed for _, action in found] == [True, False]


def test_what_cannot_be_told_is_not_claimed() -> None:
    x = normal(300, 2, 0).abs() + 0.1
    still = torch.cat([x, 0 * x[:, :1]], 1)

    def plus(x: Tensor) -> Tensor:
        return x[:, :1] + x[:, 1:2]

    given = {"constant": plus(x).mean(0)}
    ((_, away),) = confirm_discrete(
        plus, x, plus(x), flips([-1.0, 1.0]), support=DataSupport(x), **given
    )
    assert not away.testable
    assert away.test.p_value == away.test.adjusted_p_value == 1.0
    assert "of the inputs have images within the data" in away.reason or "fewer" in away.reason
    found = confirm_discrete(
        plus,
        still,
        plus(still),
        [*flips([1.0, 1.0, -1.0]), *candidates_for_rows([], [[0], [1]], 3)],
        support=DataSupport(still),
        **given,
    )
    (_, nothing), (_, swap) = found
    assert nothing.reason.startswith("images within the data are too near to tell: 0 of")
    assert swap.test.confirmed
    # what was not tested does not count for Holm
    assert swap.test.adjusted_p_value == swap.test.p_value


def test_groups_count_once() -> None:
    x = normal(200, 1, 0)
    given = {"support": DataSupport(x), "constant": torch.ones(1), "groups": np.arange(200) // 20}
    ((_, action),) = confirm_discrete(lambda x: x**2, x, x**2, flips([-1.0]), **given)
    assert action.reason == "10 groups of inputs have images within the data, fewer than 20"


def test_confirm_errors() -> None:
    x = normal(30, 2, 0)
    given = {"support": DataSupport(x), "constant": torch.zeros(1)}

    def first(x: Tensor) -> Tensor:
        return x[:, :1]

    with pytest.raises(ValueError, match=r"expected as many targets as inputs"):
        confirm_discrete(first, x, x[1:, :1], [], **given)
    with pytest.raises(ValueError, match=r"expected 1 maps of outputs, got 0"):
        confirm_discrete(first, x, x[:, :1], flips([1.0, -1.0]), [], **given)
    with pytest.raises(ValueError, match=r"a group for each of 30 samples, got \(2,\)"):
        confirm_discrete(first, x, x[:, :1], [], groups=[1, 2], **given)
    with pytest.raises(ValueError, match=r"rows of shape \(2, 2\) or \(2, 3\), got .* of \(1, 1\)"):
        confirm_discrete(first, x, x[:, :1], flips([-1.0]), **given)
    with pytest.raises(ValueError, match=r"maps of outputs of shape \(1, 1\), got \(2, 2\)"):
        confirm_discrete(first, x, x[:, :1], flips([1.0, -1.0]), [torch.eye(2)], **given)
