"""The fast count against the slow one."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from certificate_parts import Examples
from isotropy.certificates import Goal, Subspace, certify
from isotropy.certificates._counting import count_errors
from isotropy.certificates._row_work import row_work


def counted(net: Subspace, goal: Goal, sample: Examples, scale: float | None = None) -> int:
    """Once and twice, in large batches and in small ones."""
    whole = row_work(net, sample.x[:1].double())
    small = replace(whole, bytes=whole.bytes + 10**7)
    found = {
        count_errors(net, goal, sample, work=work, input_scale=scale, twice=twice)
        for work in (whole, small)
        for twice in (None, b"any")
    }
    assert len(found) == 1
    return found.pop()


def slow(net: Subspace, goal: Goal, sample: Examples, scale: float = 1.0) -> int:
    with torch.no_grad():
        return int(goal.wrong(net(sample.x.double() / scale), sample.y).sum())


def network(outputs: int, seed: int = 0, d: int = 10) -> Subspace:
    net = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, outputs))
    space = Subspace(net, d, seed=seed, dtype=torch.float64)
    with torch.no_grad():
        space.weights.normal_(generator=torch.Generator().manual_seed(seed))
    return space.eval()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("outputs", [1, 2, 10])
def test_classes(outputs: int, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    sample = Examples(
        torch.randn(1234, 6, generator=draw), torch.randint(0, outputs, (1234,), generator=draw)
    )
    net, goal = network(outputs, seed), Goal("classification", outputs)
    assert counted(net, goal, sample, 0.5) == slow(net, goal, sample, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_numbers(seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    sample = Examples(
        torch.randn(777, 6, generator=draw), torch.randn(777, 2, generator=draw).double()
    )
    net, goal = network(2, seed), Goal("regression", 2, tolerance=0.5, scale=0.25)
    assert 0 < counted(net, goal, sample) == slow(net, goal, sample) < 777


class Cancelling(nn.Module):
    """What float32 cannot see: a small difference of large numbers decides."""

    def __init__(self) -> None:
        super().__init__()
        self.big = nn.Parameter(torch.tensor(1e9, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        small = (x[:, :1] + self.big) - self.big
        return torch.cat([small, -small], 1)


def test_cancelling_numbers_are_counted_in_float64() -> None:
    x = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))
    sample = Examples(x, (x[:, 0] < 0).long())
    net = Subspace(Cancelling(), 0, start="given", dtype=torch.float64)
    goal = Goal("classification", 2)
    assert counted(net, goal, sample) == slow(net, goal, sample) == 0


class Gated(nn.Module):
    """Off by rounding on few rows alone: those where a term of 60000² comes and goes."""

    def __init__(self) -> None:
        super().__init__()
        self.big = nn.Parameter(torch.tensor(60_000.0**2, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        rare = torch.relu(x[:, :1] - 2.0).sign() * self.big
        small = (x[:, 1:2] + rare) - rare
        return torch.cat([small, -small], 1)


def test_few_rows_that_cancel_are_counted_in_float64() -> None:
    x = torch.randn(3000, 6, generator=torch.Generator().manual_seed(0))
    sample = Examples(x, (x[:, 1] < 0).long())
    net = Subspace(Gated(), 0, start="given", dtype=torch.float64)
    goal = Goal("classification", 2)
    assert counted(net, goal, sample) == slow(net, goal, sample) == 0
    flipped = Examples(x, 1 - sample.y)
    assert counted(net, goal, flipped) == 3000


def test_rows_that_are_almost_ties_are_run_again() -> None:
    """Outputs that differ in the eighth digit: float32 would toss a coin."""
    net = Subspace(nn.Linear(6, 2, bias=False), 0, start="zero", dtype=torch.float64)
    weight = torch.randn(6, generator=torch.Generator().manual_seed(0)).double()
    tilt = torch.randn(6, generator=torch.Generator().manual_seed(1)).double() * 1e-8
    net.start.copy_(torch.cat([weight, weight + tilt]))
    x = torch.randn(2000, 6, generator=torch.Generator().manual_seed(2))
    sample = Examples(x, (x.double() @ tilt > 0).long())
    goal = Goal("classification", 2)
    assert counted(net, goal, sample) == slow(net, goal, sample) == 0
    rounded = Subspace(nn.Linear(6, 2, bias=False), 0, start="zero")
    rounded.start.copy_(net.start.float())
    with torch.no_grad():
        assert int(goal.wrong(rounded(x), sample.y).sum()) > 100


def test_rows_that_rounding_decides_are_errors() -> None:
    goal = Goal("classification", 2)
    outputs = torch.tensor(
        [[1.0, 1.0 - 1e-13], [1.0, 1.0 - 1e-11], [1e6, 1e6 - 1e-7]], dtype=torch.float64
    )
    assert goal.wrong(outputs, torch.zeros(3, dtype=torch.int64)).tolist() == [True, False, True]
    within = Goal("regression", 1, tolerance=0.5)
    near = torch.tensor([[0.5], [0.5 - 1e-13], [0.5 - 1e-11]], dtype=torch.float64)
    assert within.wrong(near, torch.zeros(3, 1)).tolist() == [True, True, False]


class Centred(nn.Module):
    """Looks at the other rows."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x - x.mean(0))


@pytest.mark.parametrize(
    "module",
    [
        Centred(),
        nn.Sequential(nn.Linear(6, 2), nn.BatchNorm1d(2, track_running_stats=False)),
    ],
    ids=["centred", "batch statistics"],
)
def test_a_network_that_looks_at_other_rows_is_refused(module: nn.Module) -> None:
    x = torch.randn(600, 6, generator=torch.Generator().manual_seed(0))
    sample = Examples(x, (x[:, 1] < 0).long())
    net = Subspace(module, 3, dtype=torch.float64).eval()
    with pytest.raises(ValueError, match=r"not a function of one input|more than 1 value"):
        counted(net, Goal("classification", 2), sample)
    with pytest.raises(ValueError, match=r"not a function of one input|takes one row alone"):
        certify(module, (x, sample.y), d=3, epochs=1)
