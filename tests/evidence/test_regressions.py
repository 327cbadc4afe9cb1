"""What was wrong once, and must not be again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, best_precisions, evidence_gradient, laplace
from isotropy.nn import RecordedModule

RNG = torch.Generator().manual_seed(0)


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=RNG)


class Wide(RecordedModule):
    """A linear map with a scale that is a hyperparameter."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(rows(2, 3))
        self.log_scale = nn.Parameter(torch.zeros((), dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.log_scale.exp() @ self.weight.mT
        self.note("weight", x, y, spread=lambda x: x * self.log_scale.exp())
        return y


def test_looking_at_effective_parameters_leaves_the_graph_alone() -> None:
    model, data = Wide(), (rows(9, 3), rows(9, 2))
    _, right = evidence_gradient(model, "regression", data, ["log_scale"])
    found = laplace(model, "regression", data, hyperparameters=["log_scale"], create_graph=True)
    found.effective_parameters()
    (ours,) = torch.autograd.grad(found.log_marginal_likelihood(), model.log_scale)
    torch.testing.assert_close(ours, right["log_scale"])


def test_a_hyperparameter_named_twice_counts_once() -> None:
    model, data = Wide(), (rows(9, 3), rows(9, 2))
    _, once = evidence_gradient(model, "regression", data, ["log_scale"])
    _, twice = evidence_gradient(model, "regression", data, ["log_scale"] * 2)
    torch.testing.assert_close(once, twice)


def test_an_approximation_stays_when_the_network_goes_on() -> None:
    model, data = nn.Linear(3, 2).double(), (rows(20, 3), rows(20, 2))
    found = laplace(model, "regression", data)
    before = best_precisions(found)[0], float(found.log_marginal_likelihood())
    with torch.no_grad():
        model.weight.mul_(100)
    assert (best_precisions(found)[0], float(found.log_marginal_likelihood())) == before


@pytest.mark.parametrize("precision", [1e-2, 1e-6])
def test_rounding_is_no_curvature(precision: float) -> None:
    """Thirty samples determine thirty directions of inputs, in single precision too."""
    model = nn.Linear(300, 4, bias=False)
    data = torch.randn(30, 300, generator=RNG), torch.arange(30) % 4
    ours = laplace(model, "classification", data)
    exact = laplace(model.double(), "classification", data)
    truth = exact.effective_parameters(precision).total
    assert ours.effective_parameters(precision).total == pytest.approx(truth, rel=1e-3)
    assert truth <= 30 * 3 + 1e-3


def test_a_call_whose_result_is_thrown_away_changes_nothing() -> None:
    class Logging(nn.Module):
        def __init__(self, logs: bool) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.linear, self.logs = nn.Linear(3, 2).double(), logs

        def forward(self, x: Tensor) -> Tensor:
            if self.logs:
                self.linear(100 * x).mean().detach()
                with torch.no_grad():
                    self.linear(100 * x)
            return self.linear(x)

    data = rows(9, 3), rows(9, 2)
    values = [
        float(laplace(Logging(logs), "regression", data).log_marginal_likelihood())
        for logs in (False, True)
    ]
    assert values[0] == values[1]


def test_the_diagonal_of_a_plain_layer_is_that_of_its_block() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    data = rows(9, 3), rows(9, 2)
    ours = laplace(model, "regression", data, curvature=CurvatureOptions("diagonal"))
    blocks = laplace(model, "regression", data, curvature=CurvatureOptions("block"))
    for name, (block,) in blocks.blocks.items():
        torch.testing.assert_close(ours.blocks[name][0].eigenvalues(), block.dense().diagonal())


def test_the_full_structure_with_a_prior_that_is_hardly_there() -> None:
    model = nn.Linear(50, 1, bias=False).double()
    found = laplace(model, "regression", (rows(5, 50), rows(5)), curvature=CurvatureOptions("full"))
    assert torch.isfinite(found.log_marginal_likelihood(1e-8, noise=1e-6))
    assert found.effective_parameters(1e-8, noise=1e-6).total == pytest.approx(5, rel=1e-3)


def test_empty_batches_are_passed_over() -> None:
    model, (x, y) = nn.Linear(3, 2).double(), (rows(6, 3), rows(6, 2))
    right = laplace(model, "regression", (x, y)).log_marginal_likelihood()
    batches = [(x[:0], y[:0]), (x[:4], y[:4]), (x[4:], y[4:]), (x[:0], y[:0])]
    ours = laplace(model, "regression", batches).log_marginal_likelihood()
    torch.testing.assert_close(ours, right)


def test_normalisation_of_samples_that_were_flattened_with_tokens() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = nn.Linear(3, 4), nn.LayerNorm(4)

        def forward(self, x: Tensor) -> Tensor:
            n, t, _ = x.shape
            return self.norm(self.linear(x.reshape(n * t, 3))).tanh().reshape(n, t * 4)

    model = Tokens().double()
    found = laplace(model, "regression", (rows(6, 5, 3), rows(6, 20)))
    assert found.blocks["norm.weight"][0].size == 4


def test_a_mixture_whose_experts_see_some_batches_only() -> None:
    class Mixture(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.out = nn.Linear(3, 2), nn.Linear(3, 2), Wide()

        def forward(self, x: Tensor) -> Tensor:
            high = x[:, 0] > 0
            y = x.new_zeros(len(x), 2)
            for chosen, expert in ((high, self.first), (~high, self.second)):
                if bool(chosen.any()):
                    y = y.index_add(0, chosen.nonzero()[:, 0], expert(x[chosen]))
            return y + self.out(x)

    model, x = Mixture().double(), rows(12, 3)
    x[:, 0] = torch.linspace(-1, 1, 12)
    x[0, 0] = 1.0  # the first batch has both
    data = x, rows(12, 2)
    _, ours = evidence_gradient(
        model, "regression", data, ["out.log_scale"], curvature=CurvatureOptions(batch_size=3)
    )
    found = laplace(
        model,
        "regression",
        data,
        hyperparameters=["out.log_scale"],
        create_graph=True,
        curvature=CurvatureOptions(batch_size=3),
    )
    (right,) = torch.autograd.grad(found.log_marginal_likelihood(), model.out.log_scale)
    torch.testing.assert_close(ours["out.log_scale"], right)


def test_a_second_use_that_the_first_samples_do_not_see() -> None:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x) + (x[:, :1] > 0) * (x**2 @ self.linear.weight.mT)

    x = rows(40, 3)
    x = x[x[:, 0].argsort()]
    with pytest.raises(ValueError, match=r"got other uses of it"):
        laplace(Sometimes().double(), "regression", (x, rows(40, 2)))


class Noting(RecordedModule):
    """A layer whose note is wrong in some way."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.weight, self.way = nn.Parameter(rows(3, 3)), way

    def forward(self, x: Tensor) -> Tensor:
        y = x @ self.weight.mT
        about: dict[str, Any] = {
            "name": {},
            "rows": {"spread": lambda x: x[:1]},
            "axes": {"axes": ()},
            "width": {"spread": lambda x: x[..., :2]},
        }[self.way]
        self.note("wieght" if self.way == "name" else "weight", x, y, **about)
        return y.flatten(1)


@pytest.mark.parametrize(
    ("way", "shape", "match"),
    [
        ("name", (3,), r"expected the name of a parameter of Noting \(weight\), got 'wieght'"),
        ("rows", (3,), r"expected rows of the input and of the output of weight that are alike"),
        ("axes", (4, 3), r"expected a name for each of the 1 axes between samples and weights of"),
        ("width", (3,), r"expected 6 weights of weight for rows of shapes .*, got 9"),
    ],
)
def test_notes_that_do_not_fit(way: str, shape: tuple[int, ...], match: str) -> None:
    model, x = Noting(way), rows(5, *shape)
    with pytest.raises(ValueError, match=match):
        laplace(model, "regression", (x, model(x).detach()))


def test_parameters_without_values() -> None:
    with pytest.raises(ValueError, match=r"expected parameters with values, got weight on the"):
        laplace(nn.Linear(3, 2, device="meta"), "regression", (rows(3, 3), rows(3, 2)))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode], ids=lambda m: m.__name__)
def test_where_gradients_are_off(mode: Any) -> None:
    model, data = nn.Linear(3, 2).double(), (rows(9, 3), rows(9, 2))
    right = laplace(model, "regression", data).log_marginal_likelihood()
    with mode():
        found = laplace(model, "regression", data).log_marginal_likelihood()
    torch.testing.assert_close(found, right)
