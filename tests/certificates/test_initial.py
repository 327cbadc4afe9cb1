"""θ₀: the same numbers everywhere, at scales that keep activations alive."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import Tensor, nn

from certificate_parts import random_normals
from isotropy.certificates import Subspace, architecture, initial_parameters
from isotropy.nn import SharedLinear


def test_numbers_are_those_of_the_streams() -> None:
    model = architecture("lenet5").build((1, 28, 28), 10)
    start = initial_parameters(model, 7)
    assert list(start) == [name for name, _ in model.named_parameters()]
    fans = [25, 0, 500, 0, 800, 0, 500, 0]
    for place, (value, fan) in enumerate(zip(start.values(), fans, strict=True)):
        assert value.dtype == torch.float64
        drawn = random_normals(7, place, value.numel()).reshape(value.shape)
        wanted = drawn * sqrt(1 / fan) if fan else torch.zeros_like(value)
        torch.testing.assert_close(value, wanted, rtol=1e-15, atol=0)


def test_nothing_depends_on_torchs_generator() -> None:
    starts = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        starts.append(initial_parameters(architecture("convnet-4").build((3, 8, 8), 2), 5))
    assert all(torch.equal(starts[0][name], starts[1][name]) for name in starts[0])
    other = initial_parameters(architecture("convnet-4").build((3, 8, 8), 2), 6)
    assert not torch.equal(other["head.weight"], starts[0]["head.weight"])


class Users(nn.Module):
    """A bit of everything that a user's module may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Parameter(torch.randn(50, 30))
        self.temperature = nn.Parameter(torch.tensor(2.5))
        self.mask = nn.Parameter(torch.full((3, 4), 0.25))
        self.norm = nn.BatchNorm1d(30)
        self.phases = nn.Parameter(torch.randn(6))
        self.narrow = nn.Linear(30, 1)
        self.point = nn.Conv1d(1, 1, 1)
        self.shared = SharedLinear(torch.arange(40).reshape(1, 40).repeat(60, 1))
        self.last = nn.Linear(60, 40)
        self.after = nn.LayerNorm(40)


def test_any_module() -> None:
    model = Users()
    start = initial_parameters(model, 3)
    again = initial_parameters(Users(), 3)
    assert all(torch.equal(start[name], again[name]) for name in start)
    kept = {"temperature": 2.5, "mask": 0.25, "norm.weight": 1.0, "norm.bias": 0.0}
    for name, constant in kept.items():
        assert torch.equal(start[name], torch.full_like(start[name], constant))
    for name in ("phases", "narrow.bias", "point.bias", "last.bias", "shared.bias_coefficients"):
        assert not start[name].any(), name
    assert start["point.weight"].item() != 0
    for name, variance in (
        ("embedding", 1 / 30),
        ("shared.coefficients", 1 / 40),
        ("last.weight", 1 / 60),
    ):
        count = start[name].numel()
        assert abs(float(start[name].square().mean()) / variance - 1) < 5 * sqrt(2 / count), name


def test_tied_parameters_are_drawn_once() -> None:
    model = nn.Sequential(nn.Linear(5, 5), nn.ReLU(), nn.Linear(5, 5))
    model[2].weight = model[0].weight
    assert list(initial_parameters(model, 0)) == ["0.weight", "0.bias", "2.bias"]


def outputs(model: nn.Module, x: Tensor) -> list[float]:
    """The mean square of what each layer with weights gives at θ₀."""
    found: list[float] = []
    for module in model.modules():
        if any(p.ndim > 1 for p in module.parameters(recurse=False)):
            module.register_forward_hook(
                lambda _, __, y: found.append(float(y.detach().square().mean()))
            )
    model.load_state_dict(initial_parameters(model, 0))
    model(x)
    return found


@pytest.mark.parametrize(
    "variant", ["equivariant p4", "equivariant p4m", "shared p4", "shared p4m"]
)
def test_layers_start_as_large_as_plain_ones(variant: str) -> None:
    x = torch.rand(16, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    plain = outputs(architecture("lenet5").build((1, 28, 28), 10), x)
    other = outputs(architecture(f"lenet5 {variant}").build((1, 28, 28), 10), x)
    assert len(other) == len(plain) == 4
    # ten logits are too few for a mean
    for mine, theirs in zip(other[:3], plain[:3], strict=True):
        assert 1 / 1.7 < mine / theirs < 1.7


@pytest.mark.parametrize("group", ["SO(3)", "SO13p", "Sp(1)", "S(4)"])
def test_equivariant_perceptrons_start_alive(group: str) -> None:
    value = architecture(f"mlp-60-60-60 equivariant {group} 3*V+2*Scalar")
    assert value.group is not None
    width = 3 * value.group.d + 2
    x = torch.randn(64, width, generator=torch.Generator().manual_seed(0))
    assert all(0.02 < size < 20 for size in outputs(value.build((width,), 50), x))


# --- film -------------------------------------------------------------------------------


def film_names(model: nn.Module) -> list[str]:
    """The parameters that a FiLM subspace moves, in order."""
    space = Subspace(model, 1, projector="film")
    still, moved = (space.parameters_at(w) for w in (torch.zeros(1), torch.ones(1)))
    return [name for name in still if not torch.equal(still[name], moved[name])]


def test_film_trains_normalisations_and_the_head() -> None:
    model = architecture("convnet-4").build((3, 8, 8), 2)
    names = film_names(model)
    assert len(names) == 2 * 9 + 2
    assert names[-2:] == ["head.weight", "head.bias"]
    sizes = {name: value.numel() for name, value in model.named_parameters()}
    assert sum(sizes[name] for name in names) == 2 * (4 + 4 + 7 * 8) + 2 * 8 + 2
    assert film_names(architecture("lenet5").build((1, 28, 28), 10)) == names[-2:]


def test_film_of_any_module() -> None:
    names = ["norm.weight", "norm.bias", "last.weight", "last.bias", "after.weight", "after.bias"]
    assert film_names(Users()) == names
    shared = architecture("mlp-8 shared S(4)").build((4,), 2)
    assert film_names(shared) == ["head.coefficients", "head.bias_coefficients"]


# --- bad input --------------------------------------------------------------------------


def test_bad_models() -> None:
    with pytest.raises(ValueError, match=r"expected a model with parameters, got ReLU with none"):
        initial_parameters(nn.ReLU(), 0)
    with pytest.raises(ValueError, match=r"expected a model with parameters, got ReLU with none"):
        film_names(nn.ReLU())
    with pytest.raises(ValueError, match=r"expected real parameters, got weight of torch.complex6"):
        initial_parameters(nn.Linear(2, 2, dtype=torch.complex64), 0)
    with pytest.raises(ValueError, match=r"expected parameters with values, got weight without me"):
        initial_parameters(nn.Linear(2, 2, device="meta"), 0)
    with pytest.raises(ValueError, match=r"expected a seed from 0 to 2⁶⁴ - 1, got -1"):
        initial_parameters(nn.Linear(2, 2), -1)
