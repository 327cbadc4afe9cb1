"""The Lie derivative against closed forms, finite differences and functions that have none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import (
    Action,
    group_action,
    image_action,
    lie_derivative,
    point_cloud_action,
    sequence_action,
)
from isotropy.groups import SO, O, SO13p
from isotropy.reps import Scalar, Symmetry, T, V

SHIFT = image_action("translation_x", boundary="periodic")


def normal(*shape: int, seed: int = 0) -> Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, dtype=torch.float64, generator=rng)


@pytest.fixture(params=[True, False], ids=["grad", "no_grad"])
def gradients(request: pytest.FixtureRequest) -> Any:
    """With and without gradients the derivative is taken in different ways."""
    with torch.set_grad_enabled(request.param):
        yield request.param


def by_differences(f: Any, x: Tensor, action: Action, eps: float = 1e-6) -> Tensor:
    """For invariant outputs: the change of f itself."""
    with torch.no_grad():
        return (f(action.transform(x, eps)) - f(action.transform(x, -eps))) / (2 * eps)


class Attention(nn.Module):
    """Patches, one layer of attention, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(2, 8, 4, 4)
        self.qkv = nn.Linear(8, 24)
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).mT
        q, k, v = self.qkv(tokens).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.head(tokens + mixed.transpose(1, 2).flatten(2)).mean(1)


def convolutional() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1),
        nn.BatchNorm2d(6),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout(0.5),
        nn.Flatten(),
        nn.Linear(6 * 16, 3),
        nn.Softmax(-1),
    )


class CubeWithoutForwardRule(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


class CubeDifferentiableOnce(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


# --- equivariant functions --------------------------------------------------------------------


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize("name", ["translation_x", "translation_y"])
def test_circular_convolutions_are_equivariant(name: str) -> None:
    torch.manual_seed(0)
    action = image_action(name, boundary="periodic")
    for options in ({}, {"dilation": 2, "padding": 2}, {"groups": 2}):
        given = {"padding": 1, "padding_mode": "circular", **options}
        conv = nn.Conv2d(2, 4, 3, **given).double()
        x = normal(2, 2, 7, 8)
        assert float(lie_derivative(conv, x, action).detach().abs().max()) < 1e-11
    zeros = nn.Conv2d(2, 4, 3, padding=1).double()
    assert float(lie_derivative(zeros, x, action).detach().abs().max()) > 0.1


@pytest.mark.usefixtures("gradients")
def test_global_pooling_is_invariant_to_translation_and_the_rest_is_not() -> None:
    x = normal(2, 3, 6, 6)
    for y in ("mean", "square"):
        f = {"mean": lambda x: x.mean((2, 3)), "square": lambda x: x.square().mean((2, 3))}[y]
        assert float(lie_derivative(f, x, SHIFT).abs().max()) < 1e-11
    # a cube has frequencies that six pixels do not hold
    assert float(lie_derivative(lambda x: (x**3).mean((2, 3)), x, SHIFT).abs().max()) > 0.1


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize("name", ["rotation_x", "rotation_z", "translation_y", "scale"])
def test_point_clouds(name: str) -> None:
    action = point_cloud_action(name)
    x = normal(2, 6, 3)
    square = name == "scale"

    def distances(x: Tensor) -> Tensor:
        return (x[:, :, None] - x[:, None]).square().sum(-1).flatten(1)

    found = lie_derivative(distances, x, action)
    # squared distances grow by 2 with the scale
    torch.testing.assert_close(found, 2 * distances(x) if square else torch.zeros_like(found))
    centre = lie_derivative(lambda x: x.mean(1, keepdim=True), x, action)
    assert float(centre.abs().max()) < 1e-14
    arrows = lie_derivative(lambda x: x - x.mean(1, keepdim=True), x, action, output="vectors")
    assert float(arrows.abs().max()) < 1e-14
    assert float(lie_derivative(torch.sin, x, action).abs().max()) > 0.1


@pytest.mark.usefixtures("gradients")
def test_sequences() -> None:
    torch.manual_seed(0)
    x = normal(2, 3, 9)
    along = sequence_action("translation", boundary="periodic")
    conv = nn.Conv1d(3, 4, 3, padding=1, padding_mode="circular").double()
    assert float(lie_derivative(conv, x, along).detach().abs().max()) < 1e-11
    assert float(lie_derivative(torch.relu, x, along).abs().max()) > 0.1
    last = sequence_action("translation", boundary="periodic", channels_last=True)
    dense = nn.Linear(3, 4).double()
    found = lie_derivative(dense, x.mT.contiguous(), last, output="NLC")
    assert float(found.detach().abs().max()) < 1e-11


# --- closed forms -----------------------------------------------------------------------------


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize("symmetry", [Symmetry(SO(3), V, T(2)), Symmetry(SO13p(), 2 * V, V)])
def test_linear_maps_of_vectors(symmetry: Symmetry) -> None:
    rep_in, rep_out = symmetry.rep_in, symmetry.rep_out
    weight = normal(rep_out.size(), rep_in.size())
    x = normal(4, rep_in.size(), seed=1)
    for i, a in enumerate(symmetry.group.algebra):
        matrices = [rep.drho(a).dense() for rep in (rep_in, rep_out)]
        expected = weight @ matrices[0] - matrices[1] @ weight
        found = lie_derivative(lambda x: x @ weight.T, x, group_action(symmetry, i))
        torch.testing.assert_close(found, x @ expected.T)


@pytest.mark.usefixtures("gradients")
def test_norms_are_invariant() -> None:
    x = normal(4, 3)
    for i in range(3):
        turn = group_action(Symmetry(O(3), V, Scalar), i)
        found = lie_derivative(lambda x: x.norm(dim=-1, keepdim=True), x, turn)
        assert float(found.abs().max()) < 1e-14
        assert float(lie_derivative(lambda x: x[:, :2], x, turn, output="invariant").norm()) > 0.1


@pytest.mark.usefixtures("gradients")
def test_a_square_of_a_wave() -> None:
    # 4 pixels of the wave 1: its square is the Nyquist frequency, whose slope is not seen after
    place = torch.arange(4, dtype=torch.float64) / 4
    wave = torch.cos(2 * torch.pi * place + 0.3).expand(1, 1, 4, 4)
    found = lie_derivative(torch.square, wave, SHIFT)
    # −∂(h²) by the chain rule, 2π sin 2(2πx + 0.3), minus zero
    expected = 2 * torch.pi * torch.sin(2 * (2 * torch.pi * place + 0.3))
    torch.testing.assert_close(found, expected.expand(1, 1, 4, 4))


# --- networks ---------------------------------------------------------------------------------


@pytest.mark.usefixtures("gradients")
@pytest.mark.parametrize("make", [convolutional, Attention])
@pytest.mark.parametrize("name", ["translation_x", "rotation", "brightness"])
def test_networks_against_differences(name: str, make: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = make().double().eval()
    x = normal(3, 2, 8, 8)
    action = image_action(name)
    found = lie_derivative(model, x, action)
    expected = by_differences(model, x, action)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
    assert float(found.detach().norm()) > 1e-3
    alone = torch.cat([lie_derivative(model, x[i : i + 1], action) for i in range(3)])
    torch.testing.assert_close(found, alone)
    single = lie_derivative(model.float(), x.float(), action)
    assert single.dtype == torch.float32
    assert float((single.double() - found).detach().norm() / found.detach().norm()) < 1e-3


@pytest.mark.usefixtures("gradients")
def test_outputs_that_are_pictures_against_differences() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.Tanh(), nn.AvgPool2d(2)).double()
    x = normal(2, 1, 8, 10)
    for name in ("translation_y", "rotation", "scale"):
        action = image_action(name, boundary="periodic")
        place = action.named_place("NCHW", (2, 2, 4, 5), action.input_place(x))
        eps = 1e-6
        with torch.no_grad():
            ends = [action.move(model(action.transform(x, t)), -t, place) for t in (eps, -eps)]
        expected = (ends[0] - ends[1]) / (2 * eps)
        for output in ("NCHW", None):
            found = lie_derivative(model, x, action, output=output)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("gradients")
def test_functions_without_a_forward_rule() -> None:
    x = normal(2, 2, 6, 6)
    weight = normal(2, 3, seed=1)

    def with_rule(x: Tensor) -> Tensor:
        return (x**3).mean((2, 3)) @ weight

    def without(x: Tensor) -> Tensor:
        return CubeWithoutForwardRule.apply(x).mean((2, 3)) @ weight  # type: ignore[no-any-return]

    torch.testing.assert_close(
        lie_derivative(without, x, SHIFT), lie_derivative(with_rule, x, SHIFT)
    )


def test_functions_that_cannot_be_differentiated_twice() -> None:
    x = normal(2, 2, 6, 6)
    with pytest.raises(RuntimeError, match=r"a function that can be differentiated, forwards or"):
        lie_derivative(lambda x: CubeDifferentiableOnce.apply(x).mean((2, 3)), x, SHIFT)
    with torch.no_grad():  # the operations inside are seen, and have their own rules
        found = lie_derivative(lambda x: CubeDifferentiableOnce.apply(x).mean((2, 3)), x, SHIFT)
    expected = lie_derivative(lambda x: (x**3).mean((2, 3)), x, SHIFT)
    torch.testing.assert_close(found, expected)


@pytest.mark.usefixtures("gradients")
def test_constants_have_no_derivative() -> None:
    x = normal(2, 2, 6, 6)
    found = lie_derivative(lambda x: torch.ones(2, 3, dtype=torch.float64), x, SHIFT)
    assert torch.equal(found, torch.zeros(2, 3, dtype=torch.float64))


# --- manners ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("gradients")
def test_the_model_is_as_it_was() -> None:
    torch.manual_seed(0)
    model = convolutional()
    model[4].eval()
    model[0].weight.requires_grad_(False)
    modes = [module.training for module in model.modules()]
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    x = normal(2, 2, 8, 8).float()
    before, state = x.clone(), torch.get_rng_state()
    first = lie_derivative(model, x, "rotation")
    assert torch.equal(lie_derivative(model, x, "rotation"), first)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert [p.requires_grad for p in model.parameters()][:2] == [False, True]
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(x, before)
    assert not x.requires_grad
    assert torch.equal(torch.get_rng_state(), state)
    model[6] = nn.Linear(5, 3)
    with pytest.raises(RuntimeError):
        lie_derivative(model, x, "rotation")
    assert [module.training for module in model.modules()][:6] == modes[:6]


def test_gradients_flow_to_parameters_and_inputs() -> None:
    weight = normal(3, 3).requires_grad_()
    x = normal(4, 3, seed=1).requires_grad_()
    symmetry = Symmetry(SO(3), V, V)
    a = symmetry.group.algebra[0].dense()
    found = lie_derivative(lambda x: x @ weight.T, x, group_action(symmetry, 0)).square().sum()
    expected = (x @ (weight @ a - a @ weight).T).square().sum()
    for got, want in zip(
        torch.autograd.grad(found, (weight, x)),
        torch.autograd.grad(expected, (weight, x)),
        strict=True,
    ):
        torch.testing.assert_close(got, want)


def test_integers_are_cast_to_the_models_type() -> None:
    torch.manual_seed(0)
    model = convolutional().double().eval()
    x = torch.randint(0, 256, (2, 2, 8, 8), dtype=torch.uint8)
    torch.testing.assert_close(
        lie_derivative(model, x, "rotation"), lie_derivative(model, x.double(), "rotation")
    )


@pytest.mark.usefixtures("gradients")
def test_bad_input() -> None:
    x = normal(2, 2, 6, 6)
    with pytest.raises(TypeError, match=r"expected a tensor of inputs, got list"):
        lie_derivative(torch.relu, [1.0], SHIFT)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected a tensor from the model, got tuple"):
        lie_derivative(lambda x: (x, x), x, SHIFT)
    with pytest.raises(TypeError, match=r"expected real or complex outputs, got torch.int64"):
        lie_derivative(lambda x: x.mean((2, 3)).argmax(1), x, SHIFT)
    with pytest.raises(ValueError, match=r"an action on images among .*, got 'spin'"):
        lie_derivative(torch.relu, x, "spin")
    with pytest.raises(ValueError, match=r"expected inputs of shape \(N, C, H, W\)"):
        lie_derivative(torch.relu, x[0], SHIFT)
    with pytest.raises(ValueError, match=r"on which translation_x is known to act, got shape"):
        lie_derivative(lambda x: torch.linalg.qr(x.flatten(1, 2)[:, :3]).R, x, SHIFT)
    with pytest.raises(ValueError, match=r"a layout among invariant, NCHW, .*, got 'CHW'"):
        lie_derivative(torch.relu, x, SHIFT, output="CHW")
    with pytest.raises(ValueError, match=r"expected one direction, translation_x or"):
        lie_derivative(torch.relu, x, "translation")
