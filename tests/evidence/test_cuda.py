"""A GPU finds what a processor finds, and takes columns together."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import (
    CurvatureOptions,
    LearningOptions,
    PriorOptions,
    evidence_gradient,
    laplace,
    learn_priors,
)
from isotropy.groups import O, S
from isotropy.nn import EMLP, HNN, MLP, Linear, PathSum, RecordedModule
from isotropy.reps import Scalar, V

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")


def convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 6, 3, padding=1, padding_mode="circular"),
        nn.ReLU(),
        nn.Conv2d(6, 4, 3, stride=2, groups=2),
        nn.GroupNorm(2, 4),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(36, 5),
    )


MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], str]] = {
    "convolutions": (convolutions, (2, 8, 8), "classification"),
    "EMLP": (lambda: EMLP(2 * V + Scalar, V, O(3), channels=40, layers=2), (7,), "regression"),
    "sets": (lambda: EMLP(2 * V, V, S(4), channels=40, layers=1), (8,), "regression"),
    "soft": (
        lambda: PathSum({"strict": Linear(V, V, O(3)), "free": nn.Linear(3, 3)}),
        (3,),
        "classification",
    ),
    "lengths": (
        lambda: PathSum(
            {"a": nn.Linear(3, 4), "b": nn.Linear(3, 4)},
            squared_lengths={"a": {"weight": torch.tensor([0.2, 1.0, 7.0]).expand(4, 3)}},
        ),
        (3,),
        "regression",
    ),
}


def made(name: str) -> tuple[nn.Module, str, tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    make, shape, loss = MODELS[name]
    model = make().double()
    x = torch.randn(50, *shape, dtype=torch.float64)
    out = model(x)
    y = torch.arange(50) % out.shape[1] if loss == "classification" else torch.randn_like(out)
    return model, loss, (x, y)


@pytest.mark.parametrize("structure", ["kronecker", "block", "diagonal", "full"])
@pytest.mark.parametrize("name", MODELS)
def test_a_gpu_finds_the_same_evidence(name: str, structure: str) -> None:
    model, loss, data = made(name)
    if structure in ("block", "full") and sum(p.numel() for p in model.parameters()) > 3000:
        pytest.skip("too many parameters for dense curvature")
    here = laplace(model, loss, data, curvature=CurvatureOptions(structure, batch_size=16))
    there = laplace(
        copy.deepcopy(model).cuda(),
        loss,
        data,
        curvature=CurvatureOptions(structure, batch_size=16),
    )
    expected = here.log_marginal_likelihood(0.7)
    torch.testing.assert_close(there.log_marginal_likelihood(0.7).cpu(), expected)
    counts = there.effective_parameters(0.7).counts
    assert counts == pytest.approx(here.effective_parameters(0.7).counts)


@pytest.mark.parametrize("passes", ["sampled", "signs"])
def test_random_passes_run_there(passes: str) -> None:
    model, loss, data = made("convolutions")
    cuda = copy.deepcopy(model).cuda()
    found = laplace(cuda, loss, data, curvature=CurvatureOptions(passes=passes, probes=400))
    exact = laplace(model, loss, data)
    name = "6.weight"
    there, here = found.blocks[name][0].dense().cpu(), exact.blocks[name][0].dense()
    assert float((there - here).norm() / here.norm()) < 0.2


def test_summed_passes_are_the_same_there() -> None:
    """Columns go backwards together there, with signs from the same generator."""
    torch.manual_seed(0)
    model = HNN(MLP(4, 1, channels=6, layers=2)).double()
    x, y = torch.randn(50, 4, dtype=torch.float64), torch.randn(50, 4, dtype=torch.float64)
    options = {"structure": "diagonal", "passes": "summed", "batch_size": 16}
    here = laplace(model, "regression", (x, y), curvature=CurvatureOptions(**options))
    there = laplace(
        copy.deepcopy(model).cuda(), "regression", (x, y), curvature=CurvatureOptions(**options)
    )
    assert here.blocks.keys() == there.blocks.keys()
    for name, (block,) in there.blocks.items():
        torch.testing.assert_close(block.values.cpu(), here.blocks[name][0].values)


def test_strong_and_weak_pulls_of_lengths_are_the_same_there() -> None:
    model, loss, data = made("lengths")
    found = []
    for device in ("cpu", "cuda"):
        trained = copy.deepcopy(model).to(device)
        precisions = {"paths.a": 900.0, "paths.b": 0.5}
        learned = learn_priors(
            trained,
            loss,
            data,
            epochs=4,
            batch_size=25,
            learning_rate=0.05,
            learning=LearningOptions(optimiser=torch.optim.SGD),
            priors=PriorOptions(precisions=precisions),
        )
        found.append((learned.losses, [p.detach().cpu() for p in trained.parameters()]))
    (here, expected), (there, values) = found
    assert there == pytest.approx(here, rel=1e-9)
    torch.testing.assert_close(values, expected, rtol=1e-8, atol=1e-10)


class Stretched(RecordedModule):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, dtype=torch.float64))
        self.scale = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        y = (x * self.scale) @ self.weight.mT
        self.note("weight", x, y, spread=lambda x: x * self.scale)
        return y


def test_gradients_of_hyperparameters_are_the_same() -> None:
    model = Stretched()
    x, y = torch.randn(30, 3, dtype=torch.float64), torch.randn(30, 2, dtype=torch.float64)
    value, here = evidence_gradient(model, "regression", (x, y), ["scale"], 2.0, noise=0.5)
    cuda = copy.deepcopy(model).cuda()
    other, there = evidence_gradient(cuda, "regression", (x, y), ["scale"], 2.0, noise=0.5)
    torch.testing.assert_close(other.cpu(), value)
    torch.testing.assert_close(there["scale"].cpu(), here["scale"])


@pytest.mark.parametrize("name", ["convolutions", "EMLP", "soft", "lengths"])
def test_captured_steps_train_as_eager_ones(name: str) -> None:
    """The last batch is a smaller one, and the noise of a regression changes on the way."""
    model, loss, data = made(name)
    found = []
    for cuda_graph in (False, True):
        trained = copy.deepcopy(model).cuda()
        learned = learn_priors(
            trained,
            loss,
            data,
            epochs=6,
            batch_size=16,
            learning=LearningOptions(burn_in=2, every=2, cuda_graph=cuda_graph),
        )
        found.append((learned.losses, [p.detach().cpu() for p in trained.parameters()]))
    (eager, expected), (captured, values) = found
    assert captured == pytest.approx(eager, rel=1e-8)
    torch.testing.assert_close(values, expected, rtol=1e-6, atol=1e-8)
