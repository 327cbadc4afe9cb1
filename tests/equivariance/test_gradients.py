"""Gradients through the Lie derivative: against differences, where PyTorch's own are wrong too."""

import pytest
import torch
from torch import Tensor, nn

from isotropy.equivariance import lee_penalty, lie_derivative
from isotropy_papers._vision_models import Mixer, ViT


class Attentive(nn.Module):
    """Attention without normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(1, 6, 2, 2)
        self.qkv = nn.Linear(6, 18)
        self.head = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).mT
        q, k, v = self.qkv(tokens).chunk(3, -1)
        return self.head(nn.functional.scaled_dot_product_attention(q, k, v).mean(1))


def convolutional(norm: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        norm,
        nn.Softplus(),
        nn.AvgPool2d(2),
        nn.Conv2d(4, 4, 3),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(16, 3),
    )


MODELS = {
    "layer norm, attention": lambda: ViT(8, 2, 6, 2, 2, classes=3, channels=1),
    "mixer": lambda: Mixer(8, 2, 6, 1, 5, 7, 3, 1),
    "attention alone": Attentive,
    "batch norm": lambda: convolutional(nn.BatchNorm2d(4)),
    "batch statistics": lambda: convolutional(nn.BatchNorm2d(4, track_running_stats=False)),
    "gated": lambda: nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.GLU(1), nn.Flatten(), nn.Hardsigmoid(), nn.Linear(72, 2)
    ),
    "group norm": lambda: convolutional(nn.GroupNorm(2, 4)),
    "instance norm": lambda: convolutional(nn.InstanceNorm2d(4, affine=True)),
    "no norm": lambda: convolutional(nn.Identity()),
}


@pytest.mark.parametrize("way", ["module", "function", "holds a constant"])
@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_parameters_and_inputs_are_those_of_differences(name: str, way: str) -> None:
    torch.manual_seed(0)
    model = MODELS[name]().double().eval()
    constant = [torch.ones(1, dtype=torch.float64)]
    ways = {"module": model, "function": lambda x: model(x), "holds a constant": None}
    f = ways[way] or (lambda x: model(x * constant[0]))
    x = torch.rand(2, 1, 8, 8, dtype=torch.float64, requires_grad=True)

    def square() -> Tensor:
        return lie_derivative(f, x, "rotation").square().sum()

    leaves = [x, *model.parameters()]
    gradients = torch.autograd.grad(square(), leaves, allow_unused=True)
    generator = torch.Generator().manual_seed(1)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        direction = torch.randn(leaf.shape, generator=generator, dtype=torch.float64)
        values = []
        with torch.no_grad():
            for step in (1e-5, -2e-5):
                leaf += step * direction
                values.append(float(square()))
            leaf += 1e-5 * direction
        expected = (values[0] - values[1]) / 2e-5
        found = 0.0 if gradient is None else float((gradient * direction).sum())
        assert found == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_penalty_reaches_parameters_of_a_model_that_works_in_place() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(72, 2))
    lee_penalty(model, torch.rand(2, 1, 8, 8), "translation").backward()
    assert all(parameter.grad is not None for parameter in (model[0].weight, model[3].weight))
