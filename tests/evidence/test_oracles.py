"""Our curvature and evidence beside those of laplace-torch and curvlinops, on what they know."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Literal

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from isotropy.evidence import CurvatureOptions, laplace

N, BATCH = 23, 8  # the last batch is a smaller one
OUTPUTS = 3


@dataclass(frozen=True)
class Task:
    """A network in float64 and data for it."""

    model: nn.Module
    loss: str
    x: Tensor
    y: Tensor

    @property
    def batches(self) -> list[tuple[Tensor, Tensor]]:
        return list(zip(self.x.split(BATCH), self.y.split(BATCH), strict=True))

    def laplace(self, **options: Any) -> Any:
        return laplace(
            self.model,
            self.loss,
            (self.x, self.y),
            curvature=CurvatureOptions(batch_size=BATCH, **options),
        )


def mlp() -> tuple[nn.Module, Tensor]:
    model = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, OUTPUTS))
    return model, torch.randn(N, 4)


def conv() -> tuple[nn.Module, Tensor]:
    model = nn.Sequential(
        nn.Conv2d(2, 3, 3, stride=2, padding=1),
        nn.Tanh(),
        nn.Conv2d(3, 4, (2, 3), padding=(0, 1), bias=False),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, OUTPUTS),
    )
    return model, torch.randn(N, 2, 6, 5)


def shared() -> tuple[nn.Module, Tensor]:
    """A layer that is applied to four positions of every sample."""
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Flatten(), nn.Linear(16, OUTPUTS))
    return model, torch.randn(N, 4, 3)


NETWORKS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mlp": mlp,
    "conv": conv,
    "shared": shared,
}
LOSSES = ("classification", "regression", "binary")


def made(network: str, loss: str) -> Task:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model, x = NETWORKS[network]()
        for parameter in model.parameters():
            nn.init.normal_(parameter, std=0.6)
        labels = torch.arange(N) % OUTPUTS
        values = torch.randn(N, OUTPUTS)
    targets = {"classification": labels, "regression": values, "binary": values.gt(0)}[loss]
    y = targets if loss == "classification" else targets.double()
    return Task(model.double().eval(), loss, x.double(), y)


def assert_same(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-10, atol=1e-10)


# --- laplace-torch ----------------------------------------------------------------------------


class StandIn(ModuleType):
    """A module that has every name; for those that laplace-torch imports and we never reach."""

    def __getattr__(self, name: str) -> type[nn.Module]:
        if name.startswith("__"):
            raise AttributeError(name)
        return nn.Module


@pytest.fixture
def peer() -> Iterator[Any]:
    """laplace-torch, without the metrics and the back end that it has no use for here.

    Its full curvature is as precise as torch's default.
    """
    asdl = ("fisher", "grad_maker", "gradient", "hessian", "matrices")
    needless = {"torchmetrics": (), "asdl": asdl}
    with pytest.MonkeyPatch.context() as patch:
        for package, parts in needless.items():
            if find_spec(package) is None:
                for name in (package, *(f"{package}.{part}" for part in parts)):
                    patch.setitem(sys.modules, name, StandIn(name))
        pytest.importorskip("curvlinops", reason="curvlinops is not installed")
        found = pytest.importorskip("laplace", reason="laplace-torch is not installed")
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)
        yield found
        torch.set_default_dtype(before)


STRUCTURES = {"kronecker": "KronLaplace", "diagonal": "DiagLaplace", "full": "FullLaplace"}


def fitted(peer: Any, task: Task, structure: str, **options: Any) -> Any:
    """The approximation of laplace-torch: exact GGN, sums over all data."""
    kind = getattr(peer, STRUCTURES[structure])
    found = kind(task.model, task.loss, backend=peer.curvature.CurvlinopsGGN, **options)
    found.fit(DataLoader(TensorDataset(task.x, task.y), batch_size=BATCH))
    return found


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_evidence_of_classes_is_that_of_laplace_torch(
    peer: Any, network: str, structure: str
) -> None:
    task = made(network, "classification")
    ours = task.laplace(structure=structure)
    for temperature in (1.0, 1.25):
        theirs = fitted(peer, task, structure, temperature=temperature)
        assert_same(ours.log_likelihood(temperature=temperature), theirs.log_likelihood)
        for delta in (1.0, 0.25):
            assert_same(
                ours.log_marginal_likelihood(delta, temperature=temperature),
                theirs.log_marginal_likelihood(torch.tensor(delta).double()),
            )


# laplace-torch does not divide the normaliser of a Gaussian by the temperature, so that is one here
@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_evidence_of_regression_is_that_of_laplace_torch(
    peer: Any, network: str, structure: str
) -> None:
    task = made(network, "regression")
    ours, theirs = task.laplace(structure=structure), fitted(peer, task, structure)
    for delta, noise in ((1.0, 1.0), (0.25, 0.5), (3.0, 2.0)):
        assert_same(
            ours.log_marginal_likelihood(delta, noise=noise),
            theirs.log_marginal_likelihood(
                torch.tensor(delta).double(), torch.tensor(noise).double()
            ),
        )


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("loss", ["classification", "regression"])
def test_the_slope_in_each_precision_is_that_of_laplace_torch(
    peer: Any, loss: str, structure: str
) -> None:
    task = made("conv", loss)
    names = [name for name, _ in task.model.named_parameters()]
    theirs_at = torch.linspace(0.5, 2, len(names), dtype=torch.float64, requires_grad=True)
    ours_at = [value.clone().requires_grad_() for value in theirs_at.detach()]
    ours = task.laplace(structure=structure).log_marginal_likelihood(
        dict(zip(names, ours_at, strict=True))
    )
    theirs = fitted(peer, task, structure).log_marginal_likelihood(theirs_at)
    assert_same(ours, theirs)
    slopes = torch.autograd.grad(ours, ours_at)
    assert_same(torch.stack(slopes), torch.autograd.grad(theirs, theirs_at)[0])


# laplace-torch takes patches as if a convolution padded with zeros; one that does not pad is safe
@pytest.mark.parametrize(
    ("mode", "module"),
    [
        ("circular", nn.CircularPad2d),
        ("reflect", nn.ReflectionPad2d),
        ("replicate", nn.ReplicationPad2d),
    ],
)
def test_padding_by_the_convolution_or_before_it_is_the_same(
    peer: Any, mode: Literal["circular", "reflect", "replicate"], module: type[nn.Module]
) -> None:
    task, rng = made("conv", "classification"), torch.Generator().manual_seed(0)

    def network(*first: nn.Module) -> nn.Module:
        return nn.Sequential(*first, nn.Tanh(), nn.Flatten(), nn.Linear(72, OUTPUTS)).double()

    mine = network(nn.Conv2d(2, 3, (3, 2), stride=(1, 2), padding=(2, 1), padding_mode=mode))
    its = network(module((1, 1, 2, 2)), nn.Conv2d(2, 3, (3, 2), stride=(1, 2)))
    for ours, theirs in zip(mine.parameters(), its.parameters(), strict=True):
        theirs.data.copy_(nn.init.normal_(ours, std=0.6, generator=rng))
    right = fitted(peer, replace(task, model=its), "kronecker").log_marginal_likelihood()
    assert_same(replace(task, model=mine).laplace().log_marginal_likelihood(), right)


# --- curvlinops -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def curvlinops() -> Any:
    return pytest.importorskip("curvlinops", reason="curvlinops is not installed")


LOSS_MODULES = {
    "classification": nn.CrossEntropyLoss,
    "regression": nn.MSELoss,
    "binary": nn.BCEWithLogitsLoss,
}


def scale(loss: str, reduction: str) -> float:
    """What their curvature is to be multiplied by, for that of −log p summed over all data.

    Theirs is of the loss: with "mean" it is divided by the number of samples, for the elementwise
    losses by the number of outputs too. The squared error is twice −log p at unit noise.
    """
    samples = 1 if reduction == "sum" else N
    outputs = 1 if reduction == "sum" or loss == "classification" else OUTPUTS
    return samples * outputs / (2 if loss == "regression" else 1)


def dense(operator: Any) -> Tensor:
    columns: Tensor = operator @ torch.eye(operator.shape[1], dtype=torch.float64)
    return columns


@pytest.mark.parametrize("sharing", ["expand", "reduce"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("network", NETWORKS)
def test_kronecker_blocks_are_those_of_curvlinops(
    curvlinops: Any, network: str, loss: str, sharing: str
) -> None:
    task = made(network, loss)
    reduction = "sum" if network == "conv" else "mean"
    theirs = dense(
        curvlinops.KFACLinearOperator(
            task.model,
            LOSS_MODULES[loss](reduction=reduction),
            list(task.model.parameters()),
            task.batches,
            fisher_type="type-2",
            kfac_approx=sharing,
            separate_weight_and_bias=True,
        )
    )
    found = task.laplace(sharing=sharing).blocks
    ours = [block.dense() for name, _ in task.model.named_parameters() for block in found[name]]
    assert_same(torch.block_diag(*ours), scale(loss, reduction) * theirs)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("network", NETWORKS)
def test_the_full_curvature_is_that_of_curvlinops(
    curvlinops: Any, network: str, loss: str, reduction: str
) -> None:
    task = made(network, loss)
    operator = curvlinops.GGNLinearOperator(
        task.model,
        LOSS_MODULES[loss](reduction=reduction),
        list(task.model.parameters()),
        task.batches,
    )
    ((block,),) = task.laplace(structure="full").blocks.values()
    assert_same(block.dense(), scale(loss, reduction) * dense(operator))
