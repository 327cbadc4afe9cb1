"""Priors N(0, 1/(δc)) of entries with squared lengths c: the same as N(0, 1/δ) of √c θ."""

from __future__ import annotations

from functools import partial
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from evidence_parts import DenseBlock, KroneckerBlock, learning_options
from isotropy.evidence import (
    CurvatureOptions,
    LearningOptions,
    PriorOptions,
    best_precisions,
    evidence_gradient,
    laplace,
    learn_priors,
    log_marginal_likelihood,
)
from isotropy.evidence._precision_groups import prior_lengths
from isotropy.groups import Group, O, S
from isotropy.nn import EMLP, Linear, PathSum, RecordedModule, log_prior, soften
from isotropy.reps import Scalar, V

DELTA = {"0.paths.a.weight": 0.7, "0.paths.a.bias": 1.9, "0.paths.b.weight": 0.4, "2.weight": 1.2}
COLUMNS = torch.tensor([0.3, 2.0, 5.0], dtype=torch.float64)
ROWS = torch.tensor([1.5, 0.4, 3.0, 0.9], dtype=torch.float64)
KINDS = {
    "columns": COLUMNS.expand(4, 3),
    "product": ROWS[:, None] * COLUMNS,
    "any": 0.2 + torch.arange(12.0, dtype=torch.float64).reshape(4, 3).cos().square(),
}
BIAS = 2.5


class Stretched(RecordedModule):
    """y = (θ/√c) x with c = rows × columns: θ between inputs and outputs of other scales."""

    def __init__(self, rows: Tensor, columns: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(len(rows), len(columns), dtype=torch.float64))
        self.bias = nn.Parameter(torch.zeros(len(rows), dtype=torch.float64))
        self.rows, self.columns = rows, columns

    def forward(self, x: Tensor) -> Tensor:
        def spread(x: Tensor) -> Tensor:
            return x / self.columns.sqrt()

        y = spread(x) @ self.weight.mT
        self.note("weight", x, y, spread=spread)
        shift = self.bias.expand_as(y)
        self.note("bias", torch.ones_like(x[:, :1]), shift)
        return y / self.rows.sqrt() + shift / BIAS**0.5


class AnyStretched(nn.Module):
    """The same for any c, of which nothing is noted."""

    def __init__(self, c: Tensor) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros_like(c))
        self.bias = nn.Parameter(torch.zeros(len(c), dtype=torch.float64))
        self.c = c

    def forward(self, x: Tensor) -> Tensor:
        return x @ (self.weight / self.c.sqrt()).mT + self.bias / BIAS**0.5


def networks(kind: str, *, noted: bool) -> tuple[nn.Module, nn.Module]:
    """One with lengths, and one with √c θ for parameters, in the same state."""
    torch.manual_seed(1)
    c = KINDS[kind]
    a, b = nn.Linear(3, 4), nn.Linear(3, 4, bias=False)
    last = nn.Linear(4, 2, bias=False)
    lengths = {"a": {"weight": c, "bias": BIAS}}
    soft = PathSum({"a": a.double(), "b": b.double()}, squared_lengths=lengths)
    other = (
        Stretched(ROWS if kind == "product" else torch.ones_like(ROWS), COLUMNS)
        if noted
        else AnyStretched(c)
    )
    with torch.no_grad():
        other.weight.copy_(a.weight * c.sqrt())
        other.bias.copy_(a.bias * BIAS**0.5)
    plain = PathSum({"a": other, "b": b})
    last = last.double()
    return nn.Sequential(soft, nn.Tanh(), last), nn.Sequential(plain, nn.Tanh(), last)


def data(loss: str) -> tuple[Tensor, Tensor]:
    x = torch.randn(9, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return x, (torch.arange(9) % 2 if loss == "classification" else x[:, :2].sin())


@pytest.mark.parametrize("loss", ["classification", "regression"])
@pytest.mark.parametrize("kind", ["columns", "product"])
def test_kronecker_factors_are_those_of_the_stretched_network(loss: str, kind: str) -> None:
    model, other = networks(kind, noted=True)
    ours, truth = (laplace(m, loss, data(loss)) for m in (model, other))
    evidence = [found.log_marginal_likelihood(DELTA) for found in (ours, truth)]
    torch.testing.assert_close(*evidence, rtol=1e-12, atol=0)
    counts = [found.effective_parameters(DELTA).counts for found in (ours, truth)]
    assert counts[0] == pytest.approx(counts[1], rel=1e-10)
    assert ours.squared_norms() == pytest.approx(truth.squared_norms(), rel=1e-12)
    best = [best_precisions(found)[0] for found in (ours, truth)]
    assert best[0] == pytest.approx(best[1], rel=1e-8)
    (block,) = ours._relative_blocks["0.paths.a.weight"]
    assert isinstance(block, KroneckerBlock)


@pytest.mark.parametrize("loss", ["classification", "regression"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("structure", ["full", "block", "diagonal"])
def test_exact_structures_are_those_of_its_jacobians(
    twin: SimpleNamespace, structure: str, kind: str, loss: str
) -> None:
    model, other = networks(kind, noted=False)
    x, y = data(loss)
    found = laplace(model, loss, (x, y), curvature=CurvatureOptions(structure))
    task = twin.Task(other, loss, x, y)
    curvature = twin.ggn(task)
    sizes = [p.numel() for p in task.parameters.values()]
    if structure == "diagonal":
        curvature = curvature.diagonal().diag()
    elif structure == "block":
        rows = curvature.split(sizes)
        curvature = torch.block_diag(*(row.split(sizes, 1)[i] for i, row in enumerate(rows)))
    deltas = torch.tensor([DELTA[name] for name in task.parameters], dtype=torch.float64)
    deltas = deltas.repeat_interleave(torch.tensor(sizes))
    theta = twin.flat(task.parameters)
    truth = twin.log_evidence(twin.log_likelihood(task), theta, curvature, deltas)
    twin.assert_close(found.log_marginal_likelihood(DELTA), truth)
    effective = len(theta) - (deltas * (curvature + deltas.diag()).inverse().diagonal()).sum()
    ours = found.effective_parameters(DELTA).counts
    assert sum(ours.values()) == pytest.approx(float(effective), rel=1e-9)


def test_kronecker_factors_with_lengths_that_are_no_product(twin: SimpleNamespace) -> None:
    model, _ = networks("any", noted=False)
    found = laplace(model, "regression", data("regression"))
    name = "0.paths.a.weight"
    (block,) = found.blocks[name]
    assert isinstance(block, KroneckerBlock)  # the curvature itself is what it was
    (relative,) = found._relative_blocks[name]
    assert isinstance(relative, DenseBlock)
    root = KINDS["any"].flatten().rsqrt()
    expected = torch.linalg.eigvalsh(
        root[:, None] * torch.kron(block.output[0], block.input[0]) * root
    )
    twin.assert_close(found.eigenvalues()[name], expected)


@pytest.mark.parametrize("kind", ["one", "by entry"])
def test_blocks_of_an_equivariant_layer(twin: SimpleNamespace, kind: str) -> None:
    """Coefficients in several parts, with entries out of order."""
    torch.manual_seed(0)
    strict = Linear(2 * V + 3 * Scalar, 3 * V + 2 * Scalar, O(3)).double()
    size = strict.coefficients.numel()
    c = torch.rand(size, dtype=torch.float64) + 0.2 if kind == "by entry" else torch.tensor(3.0)
    lengths = {"strict": {"coefficients": c.reshape(strict.coefficients.shape) if c.ndim else c}}
    model = PathSum({"strict": strict}, squared_lengths=lengths).double()
    x = torch.randn(20, 9, dtype=torch.float64)
    found = laplace(model, "regression", (x, torch.randn(20, 11, dtype=torch.float64)))
    name = "paths.strict.coefficients"
    assert len(found.blocks[name]) > 1 or found.blocks[name][0].entries is not None
    whole = twin.assembled(found.blocks[name], size)
    root = c.double().expand(size).rsqrt()
    truth = torch.linalg.eigvalsh(root[:, None] * whole * root)
    ours = found.eigenvalues()[name].detach().sort().values
    twin.assert_close(ours, truth[-len(ours) :])
    assert truth[: -len(ours)].abs().sum() < 1e-10 * truth.sum()


def test_a_row_factor_shared_by_blocks_stays_shared_only_where_it_can(
    twin: SimpleNamespace,
) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(2, 5, 3, dtype=torch.float64), torch.randn(1, 6, 4, dtype=torch.float64)
    entries = torch.randperm(24).reshape(2, 4, 3)
    block = KroneckerBlock(a.mT @ a, b.mT @ b, entries)
    columns = torch.rand(2, 1, 3, dtype=torch.float64) + 0.1
    for rows in (ROWS[:, None], torch.stack([ROWS, ROWS.flip(0)])[..., None]):
        c = torch.empty(24, dtype=torch.float64)
        c[entries.flatten()] = (rows * columns).flatten()
        found = block.relative_to(c)
        assert isinstance(found, KroneckerBlock)
        assert len(found.output) == (1 if rows.ndim == 2 else 2)
        twin.assert_close(found.dense(), c.rsqrt()[:, None] * block.dense() * c.rsqrt())


@pytest.mark.parametrize("group", [O(3), S(4)], ids=str)
def test_softened_layers_keep_their_factors(twin: SimpleNamespace, group: Group) -> None:
    torch.manual_seed(0)
    model = soften(EMLP(2 * V, V, group, channels=12, layers=1)).double()
    x = torch.randn(10, 2 * V(group).size(), dtype=torch.float64)
    found = laplace(model, "regression", (x, x[:, : V(group).size()]))
    assert any(bool((c != 1).any()) for c in found.lengths.values())
    for name, c in found.lengths.items():
        blocks = found._relative_blocks[name]
        assert all(isinstance(block, KroneckerBlock) for block in blocks)
        size = found.parameters[name].numel()
        root = c.double().expand(found.parameters[name].shape).flatten().rsqrt()
        whole = root[:, None] * twin.assembled(found.blocks[name], size) * root
        twin.assert_close(twin.assembled(blocks, size), whole)


def test_too_many_entries_whose_lengths_are_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("isotropy._run._memory.available_bytes", lambda: 2 * 10**8)
    block = KroneckerBlock(torch.eye(60).double()[None], torch.eye(50).double()[None])
    sentence = r"3,000 entries whose squared lengths are no product.*take structure='diagonal'"
    with pytest.raises(ValueError, match=sentence):
        block.relative_to(1 + torch.rand(3000, dtype=torch.float64))


# --- gradients, priors, nesting ---------------------------------------------------------------


class Warm(nn.Module):
    """A slope that is a hyperparameter."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.tensor(1.3, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (self.slope * x).tanh()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_in_hyperparameters(kind: str) -> None:
    model, _ = networks(kind, noted=False)
    model[1] = Warm()
    pair = data("regression")
    arguments = (model, "regression", pair)
    value, gradient = evidence_gradient(
        *arguments, ["1.slope"], DELTA, noise=0.4, curvature=CurvatureOptions(batch_size=4)
    )
    step = 1e-5
    around = []
    for sign in (-1, 1):
        with torch.no_grad():
            model[1].slope += sign * step
        around.append(
            log_marginal_likelihood(*arguments, DELTA, noise=0.4, hyperparameters=["1.slope"])
        )
        with torch.no_grad():
            model[1].slope -= sign * step
    slope = float(around[1] - around[0]) / (2 * step)
    assert float(gradient["1.slope"]) == pytest.approx(slope, rel=1e-6)
    assert around[0] < value < around[1] or around[0] > value > around[1]


def test_the_prior_is_that_of_the_sum() -> None:
    model, _ = networks("any", noted=False)
    soft = model[0]
    found = laplace(soft, "regression", (data("regression")[0], torch.zeros(9, 4).double()))
    with torch.no_grad():
        soft.log_variances.copy_(torch.tensor([0.3, -0.5, 1.1]))
    delta = {name: 1 / variance for name, variance in soft.tensor_variances.items()}
    assert float(found.log_prior(delta)) == pytest.approx(float(log_prior(soft).detach()), rel=1e-6)


def test_a_sum_within_a_path_answers_for_its_own() -> None:
    inner = PathSum(
        {"x": nn.Linear(2, 2), "y": nn.Linear(2, 2, bias=False)},
        squared_lengths={"x": {"weight": 3.0}},
    )
    outer = PathSum(
        {"a": inner, "b": nn.Linear(2, 2, bias=False)},
        squared_lengths={
            "a": {"paths.x.weight": 5.0, "paths.y.weight": 7.0},
            "b": {"weight": 11.0},
        },
    )
    model = nn.Sequential(outer)
    every = [name for name, _ in model.named_parameters()]
    found = prior_lengths(model, every)
    assert {name: float(c) for name, c in found.items()} == {
        "0.paths.a.paths.x.weight": 3.0,
        "0.paths.b.weight": 11.0,
    }
    assert prior_lengths(model, ["0.paths.a.paths.x.bias"]) == {}
    assert prior_lengths(inner, ["paths.y.weight"]) == {}


# --- training ---------------------------------------------------------------------------------

SIGMA = 0.3


def linear(c: Tensor) -> tuple[PathSum, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(24, 4, dtype=torch.float64, generator=generator)
    truth = torch.tensor([1.0, -0.5, 0.1, 2.0], dtype=torch.float64)
    y = x @ truth + SIGMA * torch.randn(24, dtype=torch.float64, generator=generator)
    path = nn.Linear(4, 1, bias=False, dtype=torch.float64)
    nn.init.zeros_(path.weight)
    model = PathSum({"a": path}, squared_lengths={"a": {"weight": c.reshape(1, 4)}})
    return model.double(), x, y[:, None]


def most_probable(x: Tensor, y: Tensor, c: Tensor, delta: float) -> Tensor:
    """Of Bayesian linear regression with prior N(0, 1/(δc))."""
    precision = x.mT @ x / SIGMA**2 + delta * c.diag()
    return torch.linalg.solve(precision, x.mT @ y / SIGMA**2).flatten()


STEP = torch.tensor([0.05, 4.0, 20.0, 1.0], dtype=torch.float64)


@pytest.mark.parametrize(
    ("optimiser", "rate", "delta"),
    [
        pytest.param(torch.optim.Adam, 0.05, 30.0, id="Adam"),
        pytest.param(torch.optim.SGD, 0.05, 0.4, id="explicit"),
        pytest.param(torch.optim.SGD, 0.05, 100.0, id="implicit for the longest"),
        pytest.param(
            partial(torch.optim.SGD, momentum=0.5), 0.02, 1e7, id="momentum, a prior of iron"
        ),
    ],
)
def test_training_ends_at_the_most_probable_parameters(
    optimiser: Any, rate: float, delta: float
) -> None:
    model, x, y = linear(STEP)
    found = learn_priors(
        model,
        "regression",
        (x, y),
        epochs=400,
        batch_size=24,
        learning_rate=rate,
        learning=LearningOptions(burn_in=400, optimiser=optimiser),
        priors=PriorOptions(precisions=delta, noise=SIGMA),
    )
    wanted = most_probable(x, y, STEP, delta)
    theta = model.paths["a"].weight.detach().flatten()
    torch.testing.assert_close(theta, wanted, rtol=2e-3, atol=1e-4 * float(wanted.abs().max()))
    residuals = (y.flatten() - x @ theta).square().sum() / SIGMA**2
    loss = (residuals + delta * (STEP * theta.square()).sum()) / 48 + log(
        SIGMA * (2 * torch.pi) ** 0.5
    )
    assert found.losses[-1] == pytest.approx(float(loss), rel=1e-3)


def test_learned_precisions_are_those_of_the_exact_evidence() -> None:
    """Log N(y; 0, σ² + X C⁻¹ Xᵀ/δ), on a grid."""
    model, x, y = linear(STEP)
    found = learn_priors(
        model,
        "regression",
        (x, y),
        epochs=300,
        batch_size=24,
        learning_rate=0.1,
        learning=LearningOptions(burn_in=20, every=20, steps="best"),
        priors=PriorOptions(noise=SIGMA),
    )
    learned = found.precisions["paths.a"]

    def exact(delta: Tensor) -> Tensor:
        covariance = SIGMA**2 * torch.eye(24) + x @ (x / STEP).mT / delta
        normal = torch.distributions.MultivariateNormal(torch.zeros(24).double(), covariance)
        return normal.log_prob(y.flatten())

    grid = learned * torch.logspace(-1, 1, 401, dtype=torch.float64)
    values = torch.stack([exact(delta) for delta in grid])
    assert float(grid[values.argmax()]) == pytest.approx(learned, rel=0.02)
    assert found.log_marginal_likelihood == pytest.approx(float(values.max()), abs=1e-3)
    assert model.prior_variances["a"] == pytest.approx(1 / learned, rel=1e-6)
    assert found.settled


def test_a_checkpoint_of_other_lengths_is_refused(tmp_path: Path) -> None:
    options = {"epochs": 2, "checkpoint": tmp_path / "run", "noise": SIGMA}
    model, x, y = linear(STEP)
    learn_priors(model, "regression", (x, y), **learning_options(**options))
    for c in (STEP.flip(0), None):
        other, *_ = linear(STEP if c is None else c)
        if c is None:
            other = PathSum(dict(other.paths.items()))
        with pytest.raises(ValueError, match=r"expected a checkpoint of the same model, got one"):
            learn_priors(other.double(), "regression", (x, y), **learning_options(**options))
