"""Columns that go backwards together give what they give one by one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, laplace
from isotropy.evidence._curvature_pass import CurvaturePass
from isotropy.groups import O, S, SO13p
from isotropy.nn import EMLP, Linear, SharedLinear
from isotropy.reps import Scalar, V

MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular"),
            nn.ReLU(),
            nn.ConvTranspose2d(4, 4, 3, stride=2, groups=2),
            nn.GroupNorm(2, 4),
            nn.Flatten(),
            nn.Linear(324, 4),
        ),
        (2, 4, 4),
    ),
    "positions": (
        lambda: nn.Sequential(
            Linear(2 * V, V + 2 * Scalar, O(3)), nn.Tanh(), nn.Flatten(), nn.Linear(10, 3)
        ),
        (2, 6),
    ),
    "orthogonal": (lambda: EMLP(2 * V, V, O(3), channels=20, layers=1), (6,)),
    "norm": (
        lambda: EMLP(2 * V, V, O(3), channels=20, layers=1, nonlinearity="norm"),
        (6,),
    ),
    "Lorentz": (lambda: EMLP(2 * V, V, SO13p(), channels=12, layers=1), (8,)),
    "sets": (lambda: EMLP(2 * V, V, S(4), channels=12, layers=1), (8,)),
    "shared": (lambda: SharedLinear(torch.tensor([[0, 1, 2], [2, 0, 1], [1, 2, 0]])), (3,)),
}


def problem(name: str) -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    make, shape = MODELS[name]
    model = make().double()
    x = torch.randn(6, *shape, dtype=torch.float64)
    return model, (x, torch.arange(6) % model(x).shape[1])


@pytest.mark.filterwarnings("ignore:expected samples of all")
@pytest.mark.parametrize("structure", ["kronecker", "diagonal"])
@pytest.mark.parametrize("name", MODELS)
def test_together_as_one_by_one(name: str, structure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = problem(name)
    expected = laplace(model, "classification", data, curvature=CurvatureOptions(structure))
    monkeypatch.setattr(CurvaturePass, "_columns_at_once", lambda self, outputs: 2)
    found = laplace(model, "classification", data, curvature=CurvatureOptions(structure))
    for key, blocks in expected.blocks.items():
        for one, other in zip(blocks, found.blocks[key], strict=True):
            torch.testing.assert_close(other.dense(), one.dense())


class Cubed(torch.autograd.Function):
    """An operation without a rule for batches of gradients."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)  # type: ignore[attr-defined]
        return x**3

    @staticmethod
    def backward(ctx: object, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors  # type: ignore[attr-defined]
        if type(g.data_ptr()) is int:  # what is batched has no address
            return 3 * x**2 * g
        raise AssertionError


class Cube(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return Cubed.apply(x)


def test_what_cannot_be_batched_is_done_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), Cube(), nn.Linear(4, 4)).double()
    data = torch.randn(8, 3, dtype=torch.float64), torch.arange(8) % 4
    expected = laplace(model, "classification", data).log_marginal_likelihood()
    monkeypatch.setattr(CurvaturePass, "_columns_at_once", lambda self, outputs: 3)
    found = laplace(model, "classification", data).log_marginal_likelihood()
    torch.testing.assert_close(found, expected)
