import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import equivariance_error
from isotropy.groups import O
from isotropy.nn import EMLP, GroupConv2d, PathSum, soften
from isotropy.reps import V
from isotropy_papers.deep_ensemble import DeepEnsemble


def plain() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


X = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))


def test_members_are_networks_built_after_these_seeds() -> None:
    ensemble = DeepEnsemble(plain(), 3, seed=7)
    assert len(ensemble) == 3
    for seed, member in zip((7, 8, 9), ensemble, strict=True):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            expected = plain()
        for name, weight in member.named_parameters():
            assert torch.equal(weight, expected.get_parameter(name))


def test_it_predicts_the_mean() -> None:
    ensemble = DeepEnsemble(plain(), 3)
    one, two, three = (member(X) for member in ensemble)
    torch.testing.assert_close(ensemble.predictions(X), torch.stack([one, two, three]))
    torch.testing.assert_close(ensemble(X), (one + two + three) / 3)


def test_model_and_global_seed_stay_as_they_are() -> None:
    model = plain()
    before, seed = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    ensemble = DeepEnsemble(model, 2)
    assert torch.equal(seed, torch.get_rng_state())
    with torch.no_grad():
        for weight in ensemble.parameters():
            weight.zero_()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_on_the_sum_of_losses_members_train_as_if_alone() -> None:
    def take_steps(parameters: Any, loss: Any) -> None:
        optimiser = torch.optim.Adam(parameters, lr=1e-2)
        for _ in range(5):
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()

    def error(y: Tensor) -> Tensor:
        return (y - X[:, :2]).square().mean()

    together, apart = DeepEnsemble(plain(), 2), DeepEnsemble(plain(), 2)
    take_steps(together.parameters(), lambda: sum(error(y) for y in together.predictions(X)))
    for member in apart:
        take_steps(member.parameters(), lambda member=member: error(member(X)))
    torch.testing.assert_close(together.predictions(X), apart.predictions(X))


def test_a_path_of_variance_zero_stays_zero() -> None:
    strict = EMLP(2 * V, V, group=O(3), channels=30, layers=1)
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    hard = DeepEnsemble(soften(strict, variances=(1.0, 0.0), swish=False), 2)
    assert all(equivariance_error(member, x) < 1e-5 for member in hard)
    one, two = hard.predictions(x)
    assert not torch.allclose(one, two)
    free = DeepEnsemble(soften(strict, variances=(1.0, 1.0), start=1.0), 2)
    assert all(equivariance_error(member, x) > 1e-3 for member in free)


def test_frozen_weights_stay() -> None:
    model = plain()
    model.get_parameter("0.weight").requires_grad_(False)
    for member in DeepEnsemble(model, 2, seed=5):
        assert torch.equal(member.get_parameter("0.weight"), model.get_parameter("0.weight"))
        assert not member.get_parameter("0.weight").requires_grad
        assert not torch.equal(member.get_parameter("0.bias"), model.get_parameter("0.bias"))


class Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.scale


class Drawn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales = nn.ParameterList([torch.zeros(3)])

    def reset_parameters(self) -> None:
        nn.init.normal_(self.scales[0])

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x * self.scales[0]
        return y


def test_a_layer_may_draw_what_its_lists_hold() -> None:
    one, two = DeepEnsemble(nn.Sequential(Drawn()), 2).predictions(torch.ones(1, 3))
    assert bool((one != two).all())
    assert bool((one != 0).all())


def test_a_frozen_layer_need_not_draw() -> None:
    scale = Scale().requires_grad_(False)
    ensemble = DeepEnsemble(nn.Sequential(nn.Linear(3, 3), scale), 2)
    assert torch.equal(ensemble.predictions(X)[1], next(iter(list(ensemble)[1].children()))(X))


def test_saved_weights_are_those_of_all_members() -> None:
    soft = PathSum({"strict": nn.Linear(3, 2), "free": nn.Linear(3, 2)})
    first, second = DeepEnsemble(soft, 2), DeepEnsemble(soft, 2, seed=5)
    assert not torch.allclose(first(X), second(X))
    second.load_state_dict(first.state_dict())
    assert torch.equal(first.predictions(X), second.predictions(X))


@pytest.mark.parametrize("members", [0, -1, True, 2.0, "3"], ids=repr)
def test_numbers_of_members(members: Any) -> None:
    with pytest.raises(ValueError, match=r"expected at least one member, got "):
        DeepEnsemble(plain(), members)


def test_what_is_no_network() -> None:
    with pytest.raises(TypeError, match=r"expected a network, got function"):
        DeepEnsemble(lambda x: x)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "name"),
    [(Scale(), "Scale ''"), (nn.Sequential(nn.Linear(3, 3), Scale()), "Scale '1'")],
    ids=["alone", "inside"],
)
def test_layers_that_cannot_draw(model: nn.Module, name: str) -> None:
    with pytest.raises(ValueError, match=rf"expected layers with reset_parameters, .*got {name}"):
        DeepEnsemble(model)


@pytest.mark.parametrize("into", ["p4", "translations"])
def test_flexible_paths_of_members_start_small(into: str) -> None:
    strict = GroupConv2d(1, 2, 3, group="p4m", lifts=True)
    soft = soften(strict, torch.randn(1, 1, 5, 5), into=into, start=1e-3)
    for member in DeepEnsemble(soft, 2):
        largest = max(float(p.detach().abs().max()) for p in member.paths["free"].parameters())
        assert 0 < largest < 1e-2
