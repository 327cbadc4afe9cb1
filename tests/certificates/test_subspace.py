"""θ = θ₀ + P w: any module, left as it is."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.func import functional_call

from isotropy.certificates import PROJECTORS, Subspace


def _network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 3)
    )


@pytest.mark.parametrize("kind", PROJECTORS)
def test_the_network_is_start_plus_projection(kind: str) -> None:
    model = _network()
    size = sum(p.numel() for p in model.parameters())
    d = size if kind == "identity" else 7
    space = Subspace(model, d, projector=kind, seed=5, dtype=torch.float64)
    w = torch.randn(d, dtype=torch.float64)
    flat = space.start + space.projection.dense().double() @ w
    by_hand, at = {}, 0
    for name, parameter in model.named_parameters():
        by_hand[name] = flat[at : at + parameter.numel()].view(parameter.shape)
        at += parameter.numel()
    x = torch.randn(6, 1, 8, 8, dtype=torch.float64)
    expected = functional_call(model.double(), by_hand, (x,))
    torch.testing.assert_close(space(x, weights=w), expected)


def test_only_the_weights_are_trained_and_the_model_stays() -> None:
    model = _network()
    before = copy.deepcopy(model.state_dict())
    space = Subspace(model, 5)
    assert [name for name, _ in space.named_parameters()] == ["weights"]
    with torch.no_grad():
        space.weights.fill_(0.3)
    space(torch.randn(2, 1, 8, 8)).sum().backward()
    assert space.weights.grad is not None
    assert bool((space.weights.grad != 0).all())
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_start_depends_on_the_seed_alone_not_on_torch() -> None:
    torch.manual_seed(1)
    one = Subspace(_network(), 3, seed=2).start
    torch.manual_seed(99)
    assert torch.equal(one, Subspace(_network(), 3, seed=2).start)
    assert not torch.equal(one, Subspace(_network(), 3, seed=3).start)


def test_running_statistics_never_move() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2))
    model[1].running_mean.fill_(0.5)
    space = Subspace(model, 4).train()
    x = torch.randn(50, 4) * 10
    first = space(x)
    for _ in range(3):
        space(x)
    # one row alone gives what it gave among others: nothing depends on the batch
    torch.testing.assert_close(space(x[:1]), first[:1])
    assert float(model[1].running_mean.sum()) == 4.0


def test_given_and_zero_starts() -> None:
    model = nn.Linear(3, 2)
    x = torch.randn(5, 3)
    torch.testing.assert_close(Subspace(model, 0, start="given")(x), model(x))
    assert float(Subspace(model, 0, start="zero")(x).abs().max()) == 0
    tensors = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)}
    torch.testing.assert_close(
        Subspace(model, 0, start=tensors)(x), x.sum(1, keepdim=True).expand(-1, 2)
    )


def test_a_start_may_bring_buffers() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    start = dict(model.state_dict().items())
    start["1.running_mean"] = torch.tensor([3.0, 4.0])
    space = Subspace(model, 0, start=start).eval()
    moved = Subspace(model, 0, start="given").eval()
    gap = moved(torch.zeros(1, 3)) - space(torch.zeros(1, 3))
    torch.testing.assert_close(gap, torch.tensor([[3.0, 4.0]]), rtol=1e-4, atol=1e-4)


def test_training_lowers_a_loss_in_few_dimensions() -> None:
    torch.manual_seed(0)
    x = torch.randn(400, 10)
    y = (x[:, 0] > 0).long()
    space = Subspace(nn.Sequential(nn.Linear(10, 50), nn.ReLU(), nn.Linear(50, 2)), 20)
    optimiser = torch.optim.Adam(space.parameters(), lr=0.3)
    for _ in range(100):
        optimiser.zero_grad()
        nn.functional.cross_entropy(space(x), y).backward()
        optimiser.step()
    assert float((space(x).argmax(1) == y).float().mean()) > 0.9


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"model": nn.ReLU()}, r"expected a model with parameters, got ReLU with none"),
        ({"d": 9}, r"expected .*8.*, got 9"),
        ({"d": -1}, r"expected .*got -1"),
        ({"projector": "magic"}, r"expected .*kronecker.*, got 'magic'"),
        ({"start": "fresh"}, r"expected start None, 'zero', 'given' or tensors, got 'fresh'"),
        ({"start": {"weight": torch.ones(2, 3)}}, r"shape \(2,\) for bias, got nothing"),
    ],
    ids=["no parameters", "d too large", "d negative", "projector", "start", "start tensors"],
)
def test_bad_input(change: dict[str, object], sentence: str) -> None:
    arguments = {"model": nn.Linear(3, 2), "d": 2, **change}
    with pytest.raises(ValueError, match=sentence):
        Subspace(**arguments)  # type: ignore[arg-type]


def test_complex_parameters_are_refused() -> None:
    model = nn.Linear(2, 2)
    model.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match=r"expected parameters of real numbers, got weight"):
        Subspace(model, 1)
