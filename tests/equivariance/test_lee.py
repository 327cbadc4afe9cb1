"""Local equivariance error: its definition, the data it takes, and training with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isnan, sqrt
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from isotropy.data import Dataset
from isotropy.equivariance import group_action, image_action, lee, lee_penalty, lie_derivative
from isotropy.groups import SO
from isotropy.reps import Scalar, Symmetry, V


def images(count: int = 5, size: int = 8, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(count, 1, size, size, generator=generator, dtype=torch.float64)


def network(outputs: int = 3) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(144, outputs), nn.Softmax(-1)
    ).double()


def slopes(model: Callable[[Tensor], Tensor], x: Tensor, name: str) -> Tensor:
    """L f for invariant outputs, from values of f alone."""
    tangent, h = image_action(name).tangent(x), 1e-6
    with torch.no_grad():
        return (model(x + h * tangent) - model(x - h * tangent)) / (2 * h)


# --- the definition ---------------------------------------------------------------------------


def test_definition() -> None:
    model, x = network(), images()
    found = lee(model, x, "rotation")
    derivative = slopes(model, x, "rotation")
    squares, sizes = derivative.square().mean(1), derivative.abs().mean(1)
    assert found.lee == pytest.approx(float(squares.mean()), rel=1e-7)
    assert found.stderr == pytest.approx(float(squares.std() / sqrt(5)), rel=1e-6)
    assert found.lee_abs == pytest.approx(float(sizes.mean()), rel=1e-7)
    assert found.stderr_abs == pytest.approx(float(sizes.std() / sqrt(5)), rel=1e-6)
    assert (found.action, found.inputs) == ("rotation", 5)
    assert float(found) == found.lee
    assert found.data()["lee_abs"] == found.lee_abs


def test_closed_form_on_vectors() -> None:
    """f(x) = w·x under a rotation A has L = w·Ax: its mean square is known for given inputs."""
    w = torch.tensor([[2.0], [-1.0]], dtype=torch.float64)
    x = torch.tensor([[1.0, 0.0], [0.0, 3.0]], dtype=torch.float64)
    found = lee(lambda x: x @ w, x, group_action(Symmetry(SO(2), V, Scalar)))
    # A (1, 0) = ±(0, 1) and A (0, 3) = ∓(3, 0)
    assert found.lee == pytest.approx((1.0 + 36.0) / 2)
    assert found.lee_abs == pytest.approx((1.0 + 6.0) / 2)


def test_several_directions_are_averaged() -> None:
    model, x = network(), images()
    both = lee(model, x, "translation")
    one, other = lee(model, x, "translation_x"), lee(model, x, "translation_y")
    assert both.lee == pytest.approx((one.lee + other.lee) / 2)
    assert both.lee_abs == pytest.approx((one.lee_abs + other.lee_abs) / 2)


def test_one_input_has_no_standard_error() -> None:
    found = lee(network(), images(1), "rotation")
    assert isnan(found.stderr)
    assert found.inputs == 1


def test_standard_error_is_calibrated() -> None:
    """Means over parts of a large set scatter as their standard errors say."""
    model = network()
    whole = lee(model, images(480), "rotation", batch_size=160)
    parts = [lee(model, part, "rotation", batch_size=40) for part in images(480).split(40)]
    scores = torch.tensor([(part.lee - whole.lee) / part.stderr for part in parts])
    assert 0.5 < float(scores.square().mean().sqrt()) < 1.7


def test_batches_and_precision_do_not_matter() -> None:
    model, x = network(), images(16)
    exact = lee(model, x, "scale", batch_size=16)
    assert lee(model, x, "scale", batch_size=1).lee == pytest.approx(exact.lee, rel=1e-12)
    assert lee(model, x, "scale", batch_size=5).stderr == pytest.approx(exact.stderr, rel=1e-9)
    single = lee(model.float(), x, "scale")
    assert single.lee == pytest.approx(exact.lee, rel=1e-3)


def test_complex_outputs() -> None:
    x = images()
    found = lee(lambda x: torch.fft.fft2(x).flatten(1), x, "rotation")
    derivative = slopes(lambda x: torch.fft.fft2(x).flatten(1), x, "rotation")
    assert found.lee == pytest.approx(float(derivative.abs().square().mean()), rel=1e-7)


# --- data -------------------------------------------------------------------------------------


def generated(x: Tensor) -> Iterator[Tensor]:
    yield from x.split(2)


def given_in(x: Tensor) -> dict[str, Any]:
    labels = torch.arange(len(x))
    return {
        "data set": Dataset(x, labels, classes=tuple("abcdef"[: len(x)])),
        "loader of pairs": DataLoader(TensorDataset(x, labels), batch_size=4),
        "loader": DataLoader(x, batch_size=4),  # type: ignore[arg-type]
        "generator": generated(x),
        "list": list(x.split(2)),
        "two equal batches": list(x.split(3)),
        "two equal batches in a tuple": x.split(3),
        "inputs and labels": (x, labels),
        "inputs and targets": [x, labels[:, None].double()],
        "uneven": [x[:1], x[1:]],
        "array": x.numpy(),
        "PyTorch's data set": TensorDataset(x, labels),
        "with empty batches": [x[:0], x, x[:0]],
    }


@pytest.mark.parametrize("way", given_in(images(6)))
def test_all_ways_to_give_data(way: str) -> None:
    model, x = network(), images(6)
    expected, found = lee(model, x, "rotation"), lee(model, given_in(x)[way], "rotation")
    assert found.inputs == 6
    assert found.lee == pytest.approx(expected.lee, rel=1e-12)
    assert found.stderr == pytest.approx(expected.stderr, rel=1e-9)


def test_images_of_whole_numbers() -> None:
    x = (images() * 255).to(torch.uint8)
    assert lee(network(), x, "rotation").lee == lee(network(), x.double(), "rotation").lee


def test_progress_is_told() -> None:
    steps: list[Any] = []
    lee(network(), images(5), "rotation", batch_size=2, progress=steps.append)
    assert [(step.done, step.total) for step in steps] == [(0, 3), (1, 3), (2, 3)]
    steps.clear()
    lee(network(), generated(images(4)), "rotation", progress=steps.append)
    assert [step.total for step in steps] == [None, None]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        ([], ValueError, r"expected at least one input, got none"),
        (iter(()), ValueError, r"expected at least one input, got none"),
        (images()[:0], ValueError, r"expected at least one input, got none"),
        (torch.tensor(1.0), ValueError, r"expected at least one input, got none"),
        (3, TypeError, r"a data set or an iterable of batches, got int"),
        (["a.png"], TypeError, r"expected batches of tensors, got str"),
        ([([1.0], 2)], TypeError, r"expected batches of tensors, got list"),
    ],
)
def test_wrong_data_are_refused(data: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lee(network(), data, "rotation")


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected a batch size of at least 1, got 0"):
        lee(network(), images(), "rotation", batch_size=0)
    with pytest.raises(TypeError, match=r"expected an action or its name, got int"):
        lee(network(), images(), 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected images or sequences for the action"):
        lee(nn.Identity(), torch.rand(3, 4), "rotation")


@pytest.mark.parametrize("scale", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(scale: float) -> None:
    x = images()
    x[2] *= scale
    with pytest.raises(ValueError, match=r"finite outputs and derivatives under rotation, got one"):
        lee(network(), x, "rotation")
    with pytest.raises(ValueError, match=r"finite outputs and derivatives under rotation, got one"):
        lee(lambda x: (x - x.amax((2, 3), True)).sqrt().mean((2, 3)), images(), "rotation")


def test_gradients_are_not_kept_and_nothing_is_left() -> None:
    model = nn.Sequential(
        nn.BatchNorm2d(1), nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 2)
    ).double()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    lee(model.train(), images(), "rotation")
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), drawn)


# --- the regulariser --------------------------------------------------------------------------


def test_penalty_is_the_mean_over_actions() -> None:
    model, x = network(), images()
    names = ["rotation", "translation", "scale"]
    expected = sum(lee(model, x, name).lee for name in names) / 3
    assert float(lee_penalty(model, x, names).detach()) == pytest.approx(expected)
    one = lee_penalty(model, x, "rotation")
    assert float(one.detach()) == pytest.approx(lee(model, x, "rotation").lee)


def test_penalty_has_the_right_gradient() -> None:
    """Against differences of LEE itself, parameter by parameter, and for the inputs."""
    model, x = network(), images(2).requires_grad_()
    lee_penalty(model, x, "rotation").backward()
    h = 1e-5
    for parameter in model.parameters():
        assert parameter.grad is not None
        at = int(parameter.grad.abs().argmax())
        flat = parameter.data.view(-1)
        values = []
        for step in (h, -2 * h):
            flat[at] += step
            values.append(lee(model, x, "rotation").lee)
        flat[at] += h
        difference = (values[0] - values[1]) / (2 * h)
        assert float(parameter.grad.view(-1)[at]) == pytest.approx(difference, rel=1e-6)
    assert x.grad is not None
    direction = torch.randn_like(x)
    above, below = (lee(model, x.detach() + s * h * direction, "rotation").lee for s in (1, -1))
    slope = float((x.grad * direction).sum())
    assert slope == pytest.approx((above - below) / (2 * h), rel=1e-5)


def test_stopped_gradients_stay_stopped() -> None:
    """A detached value moves with the input, but its parameters get no gradient."""
    torch.manual_seed(0)
    inner, outer = nn.Linear(64, 3).double(), nn.Linear(3, 2).double()

    def model(x: Tensor) -> Tensor:
        return outer(inner(x.flatten(1)).detach())  # type: ignore[no-any-return]

    x = images()
    penalty = lee_penalty(model, x, "rotation")
    expected = slopes(model, x, "rotation").square().mean()
    assert float(penalty.detach()) == pytest.approx(float(expected), rel=1e-6)
    penalty.backward()
    assert inner.weight.grad is None or not inner.weight.grad.any()
    assert outer.weight.grad is not None
    assert outer.weight.grad.any()


def test_training_with_the_penalty_lowers_lee() -> None:
    model, x = network(), images(8)
    before = lee(model, x, "rotation").lee
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(25):
        optimiser.zero_grad()
        lee_penalty(model, x, "rotation").backward()
        optimiser.step()
    assert lee(model, x, "rotation").lee < 0.3 * before


def test_penalty_is_the_consistency_loss_of_small_shifts() -> None:
    """The mean of ‖f(ρ(a)x) − f(ρ(b)x)‖² is 2σ² ‖L f‖² for shifts a, b of variance σ² (A.3.2.1)."""
    model, x = network(), images(1)
    shift, sigma, draws = image_action("translation_x", boundary="periodic"), 1e-3, 400
    generator = torch.Generator().manual_seed(1)
    t = sigma * torch.randn(draws, 2, generator=generator, dtype=torch.float64)
    with torch.no_grad():
        values = torch.stack(
            [model(shift.transform(x, float(s)))[0] for s in t.flatten()]
        ).reshape(draws, 2, 3)  # fmt: skip
    losses = (values[:, 0] - values[:, 1]).square().sum(-1)
    expected = 2 * sigma**2 * lee(model, x, shift).lee * 3
    error = float(losses.std()) / sqrt(draws)
    assert abs(float(losses.mean()) - expected) < 3 * error
    assert error < 0.1 * expected


def test_no_actions_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected at least one action, got none"):
        lee_penalty(network(), images(), [])


def test_outputs_may_be_declared_invariant() -> None:
    x = images()
    picture = lee(nn.Identity(), x, "rotation")
    assert picture.lee < 1e-24
    declared = lee(nn.Identity(), x, "rotation", output="invariant")
    assert declared.lee == pytest.approx(float(image_action("rotation").tangent(x).square().mean()))
    whole = lie_derivative(nn.Identity(), x, "rotation", output="invariant")
    assert declared.lee == pytest.approx(float(whole.square().mean()))
