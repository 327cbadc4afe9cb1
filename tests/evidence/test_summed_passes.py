"""The diagonal of any network's curvature from random sums over batches, against Jacobians."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from evidence_parts import curvature_options
from isotropy.evidence import (
    CurvatureOptions,
    LearningOptions,
    evidence_gradient,
    laplace,
    learn_priors,
    log_marginal_likelihood,
)
from isotropy.nn import HNN, MLP, NeuralODE, PathSum

SUMMED: dict[str, Any] = {"structure": "diagonal", "passes": "summed"}


class Trajectories(nn.Module):
    """States at a few times, samples first."""

    def __init__(self) -> None:
        super().__init__()
        self.flow = NeuralODE(HNN(MLP(4, 1, channels=5, layers=1)), method="rk4")

    def forward(self, z: Tensor) -> Tensor:
        return self.flow(z, torch.linspace(0, 0.5, 3)).movedim(0, 1)


class Score(nn.Module):
    """The gradient of a network's output in its input, by torch.func."""

    def __init__(self) -> None:
        super().__init__()
        self.potential = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))

    def forward(self, x: Tensor) -> Tensor:
        weights = dict(self.potential.named_parameters())
        return vmap(grad(lambda z: functional_call(self.potential, weights, (z,))[0]))(x)


class Product(nn.Module):
    """Weights that are functions of parameters, one of them a single number."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Parameter(torch.randn(3, 2)), nn.Parameter(torch.randn(2, 4))
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * x @ (self.left @ self.right).mT


MODELS = {
    "linear": lambda: nn.Linear(4, 3),
    "network": lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)),
    "product": Product,
    "Hamiltonian": lambda: HNN(MLP(4, 1, channels=5, layers=1)),
    "trajectories": Trajectories,
    "score": Score,
}


def made(name: str, loss: str = "regression", samples: int = 6) -> tuple[nn.Module, Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = MODELS[name]().double()
        x = torch.randn(samples, 4, dtype=torch.float64)
        outputs = model(x).detach()
        y = torch.randn_like(outputs)
    if loss == "classification":
        y = torch.arange(samples) % outputs.shape[1]
    return model, x, y.gt(0).double() if loss == "binary" else y


def output_root(f: Tensor, loss: str) -> Tensor:
    """A root of the curvature at the outputs f of one sample, from its eigenvectors."""
    p = f.detach().sigmoid() if loss == "binary" else f.detach().softmax(0)
    curvature = {
        "regression": torch.eye(len(f), dtype=torch.float64),
        "binary": (p * (1 - p)).diag(),
        "classification": p.diag() - torch.outer(p, p),
    }[loss]
    values, vectors = torch.linalg.eigh(curvature)
    return vectors * values.clamp_min(0).sqrt()


def exact_diagonal(model: nn.Module, x: Tensor, loss: str = "regression") -> dict[str, Tensor]:
    """Sample by sample and column by column, by ordinary gradients."""
    parameters = dict(model.named_parameters())
    total = {name: torch.zeros_like(p) for name, p in parameters.items()}
    for one in x.split(1):
        f = model(one).flatten()
        for column in output_root(f, loss).mT:
            found = torch.autograd.grad(
                f, list(parameters.values()), column, retain_graph=True, allow_unused=True
            )
            for name, gradient in zip(total, found, strict=True):
                if gradient is not None:
                    total[name] += gradient.square()
    return {name: squares.flatten() for name, squares in total.items()}


CASES = [
    *((name, "regression") for name in MODELS),
    ("network", "classification"),
    ("product", "classification"),
    ("product", "binary"),
    ("Hamiltonian", "binary"),
]


@pytest.mark.parametrize(("name", "loss"), CASES, ids=[f"{name}, {loss}" for name, loss in CASES])
def test_the_mean_is_the_diagonal(name: str, loss: str) -> None:
    model, x, y = made(name, loss)
    truth = exact_diagonal(model, x, loss)
    runs = 12
    found = [
        laplace(
            model,
            loss,
            (x, y),
            curvature=CurvatureOptions(probes=20, seed=seed, batch_size=4, **SUMMED),
        ).blocks
        for seed in range(runs)
    ]
    for parameter, expected in truth.items():
        if not bool(expected.any()):
            assert parameter not in found[0]  # the last bias of a Hamiltonian
            continue
        values = torch.stack([blocks[parameter][0].values for blocks in found])
        # of a square of a Gaussian sum √2 times its mean, and signs spread less
        error = values.mean(0) - expected
        assert bool((error.abs() <= 5 * expected * (2 / (20 * runs)) ** 0.5 + 1e-12).all())
        # all entries together: independent enough to tell a wrong factor
        assert float(values.sum()) == pytest.approx(float(runs * expected.sum()), rel=0.25)


@pytest.mark.parametrize("name", ["linear", "product"])
def test_one_sample_with_one_output_has_no_noise(name: str) -> None:
    """A sign squared is one."""
    model, x, _ = made(name, samples=1)
    one = nn.Sequential(model, nn.Linear(3, 1, bias=False)).double()
    found = laplace(
        one,
        "regression",
        (x, torch.zeros(1).double()),
        curvature=CurvatureOptions(probes=1, **SUMMED),
    )
    for parameter, expected in exact_diagonal(one, x).items():
        torch.testing.assert_close(found.blocks[parameter][0].values, expected)


def test_a_batch_of_its_own_for_each_sample_leaves_no_noise_either() -> None:
    model = nn.Sequential(MODELS["score"](), nn.Linear(4, 1)).double()
    x = torch.randn(5, 4, dtype=torch.float64)
    found = laplace(
        model,
        "regression",
        (x, x[:, 0]),
        curvature=CurvatureOptions(probes=1, batch_size=1, **SUMMED),
    )
    for parameter, expected in exact_diagonal(model, x).items():
        if bool(expected.any()):
            torch.testing.assert_close(found.blocks[parameter][0].values, expected)


def test_where_operations_are_heard_it_agrees_with_them() -> None:
    model, x, y = made("network", "classification")
    heard = laplace(model, "classification", (x, y), curvature=CurvatureOptions("diagonal"))
    summed = laplace(
        model, "classification", (x, y), curvature=CurvatureOptions(probes=4000, **SUMMED)
    )
    for name, (block,) in heard.blocks.items():
        values = summed.blocks[name][0].eigenvalues()
        torch.testing.assert_close(values, block.eigenvalues(), rtol=0.15, atol=1e-6)
    ours, truth = (found.log_marginal_likelihood(0.5) for found in (summed, heard))
    assert float(ours) == pytest.approx(float(truth), abs=0.1)


def test_how_many_passes_there_are() -> None:
    model, x, y = made("Hamiltonian")

    def values(**options: Any) -> Tensor:
        found = laplace(
            model, "regression", (x, y), curvature=CurvatureOptions(**SUMMED, **options)
        )
        return torch.cat([block.values for (block,) in found.blocks.values()])

    torch.testing.assert_close(values(), values(probes=16), rtol=0, atol=0)
    assert not torch.equal(values(), values(probes=1))
    assert not torch.equal(values(), values(seed=1))


def test_the_bias_of_the_logarithm_is_as_told() -> None:
    """At most about 1/k for each entry, and never the other way in the mean."""
    model, x, y = made("Hamiltonian", samples=20)
    truth = torch.cat([d for d in exact_diagonal(model, x).values() if bool(d.any())])
    delta, probes, runs = 0.01, 4, 60
    gaps = []
    for seed in range(runs):
        found = laplace(
            model,
            "regression",
            (x, y),
            curvature=CurvatureOptions(probes=probes, seed=seed, **SUMMED),
        )
        values = torch.cat([block.values for (block,) in found.blocks.values()])
        gaps.append(torch.log1p(truth / delta) - torch.log1p(values / delta))
    gap = torch.stack(gaps).mean()
    assert 0 < gap < 1.3 / probes


def whole_diagonal(model: nn.Module, x: Tensor, y: Tensor, **options: Any) -> float:
    found = laplace(
        model, "regression", (x, y), **curvature_options(probes=20, **options, **SUMMED)
    )
    return sum(float(block.values.sum()) for (block,) in found.blocks.values())


def total(diagonal: dict[str, Tensor]) -> float:
    return sum(float(values.sum()) for values in diagonal.values())


def test_other_values_than_its_own() -> None:
    model, x, y = made("trajectories")
    values = {name: 1.5 * p.detach() for name, p in model.named_parameters()}
    whole = [whole_diagonal(model, x, y, params=values, seed=seed) for seed in range(6)]
    own = total(exact_diagonal(model, x))
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1.5)
    other = total(exact_diagonal(model, x))
    assert sum(whole) / 6 == pytest.approx(other, rel=0.25)
    assert abs(own / other - 1) > 0.5


def test_some_samples_for_all() -> None:
    model, x, y = made("Hamiltonian")
    whole = [whole_diagonal(model, x, y, subset=3, seed=seed) for seed in range(40)]
    assert sum(whole) / 40 == pytest.approx(total(exact_diagonal(model, x)), rel=0.25)


class Damped(nn.Module):
    """A Hamiltonian field times a factor to be learned."""

    def __init__(self) -> None:
        super().__init__()
        self.field = HNN(MLP(4, 1, channels=5, layers=1))
        self.factor = nn.Parameter(torch.tensor(0.8))

    def forward(self, x: Tensor) -> Tensor:
        return self.factor * self.field(x)


def test_gradients_in_hyperparameters_with_the_same_signs() -> None:
    torch.manual_seed(0)
    model = Damped().double()
    x, y = torch.randn(7, 4, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)
    arguments: tuple[Any, ...] = (model, "regression", (x, y))
    curvature = CurvatureOptions(batch_size=3, probes=2, seed=5, **SUMMED)
    _, gradient = evidence_gradient(*arguments, ["factor"], 2.0, noise=0.5, curvature=curvature)
    step, around = 1e-5, []
    for sign in (1, -1):
        with torch.no_grad():
            model.factor += sign * step
        value = log_marginal_likelihood(
            *arguments, 2.0, noise=0.5, hyperparameters=["factor"], curvature=curvature
        )
        around.append(float(value))
        with torch.no_grad():
            model.factor -= sign * step
    slope = (around[0] - around[1]) / (2 * step)
    assert float(gradient["factor"]) == pytest.approx(slope, rel=1e-6)


# --- learning priors --------------------------------------------------------------------------


class Powers(nn.Module):
    """Products of so many coordinates of a state."""

    def __init__(self, degree: int) -> None:
        super().__init__()
        self.degree = degree

    def forward(self, z: Tensor) -> Tensor:
        index = torch.combinations(torch.arange(z.shape[-1]), self.degree, with_replacement=True)
        return z[..., index].prod(-1)


def energies() -> PathSum:
    return PathSum(
        {
            "quadratic": nn.Sequential(Powers(2), nn.Linear(3, 1, bias=False)),
            "cubic": nn.Sequential(Powers(3), nn.Linear(4, 1)),
        }
    )


def test_priors_of_a_hamiltonian_are_learned() -> None:
    """A spring: H = (q² + p²)/2, and nothing for a cubic energy to do."""
    torch.manual_seed(0)
    model = HNN(energies())
    z = torch.randn(60, 2)
    velocity = torch.stack([z[:, 1], -z[:, 0]], 1)
    found = learn_priors(
        model,
        "regression",
        (z, velocity + 0.05 * torch.randn(60, 2)),
        epochs=120,
        batch_size=30,
        learning_rate=0.05,
        learning=LearningOptions(every=5, curvature=CurvatureOptions(**SUMMED, batch_size=20)),
    )
    delta = found.precisions
    assert delta["hamiltonian.paths.cubic"] > 100 * delta["hamiltonian.paths.quadratic"]
    weights = model.hamiltonian.paths["quadratic"][1].weight.detach().flatten()
    torch.testing.assert_close(weights, torch.tensor([0.5, 0.0, 0.5]), rtol=0, atol=0.02)
    assert float(model.hamiltonian.paths["cubic"][1].weight.detach().abs().max()) < 0.02
    assert found.noise == pytest.approx(0.05, rel=0.3)
    assert found.effective.counts["hamiltonian.paths.quadratic"] > 1.5


class Faces(nn.Module):
    """Logits from two coordinates by weights that nobody hears, and from noise."""

    def __init__(self) -> None:
        super().__init__()
        self.useful, self.useless = nn.Parameter(torch.zeros(3, 2)), nn.Parameter(torch.zeros(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :2] @ self.useful.mT + x[:, 2:] @ self.useless.mT


def test_priors_of_a_classifier_are_learned() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(200, 4, generator=generator)
    labels = (x[:, :2] @ torch.tensor([[3.0, 0.0], [-3.0, 3.0], [0.0, -3.0]]).mT).argmax(1)
    model = Faces()
    found = learn_priors(
        model,
        "classification",
        (x, labels),
        epochs=60,
        learning_rate=0.05,
        learning=LearningOptions(every=5, curvature=CurvatureOptions(**SUMMED, probes=8)),
    )
    assert found.precisions["useless"] > 10 * found.precisions["useful"]
    assert model.useless.norm() < 0.1 * model.useful.norm()


# --- what is refused --------------------------------------------------------------------------


class Frozen(nn.Module):
    """Outputs that depend on a layer, and a parameter that is not in them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.idle = nn.Linear(4, 2), nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


def test_parameters_that_matter_for_nothing() -> None:
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    sentence = r"expected outputs that depend on the parameters by autograd, got none that do"
    model = Frozen()
    with pytest.raises(ValueError, match=sentence):
        laplace(
            model,
            "regression",
            (x, y),
            params={"idle": torch.ones(2)},
            curvature=CurvatureOptions(**SUMMED),
        )
    others = ["layer.weight", "layer.bias"]
    with pytest.raises(ValueError, match=sentence):
        laplace(
            model,
            "regression",
            (x, y),
            hyperparameters=others,
            curvature=CurvatureOptions(**SUMMED),
        )
    found = laplace(model, "regression", (x, y), curvature=CurvatureOptions(**SUMMED))
    assert "idle" not in found.blocks
    assert found.effective_parameters().counts["idle"] == 0


def test_it_is_for_what_operations_do_not_tell() -> None:
    model, x, y = made("Hamiltonian")
    with pytest.raises(ValueError, match=r"expected .* through its recorded operations alone"):
        laplace(model, "regression", (x, y))


@pytest.mark.parametrize("structure", ["kronecker", "block", "full"])
def test_other_structures(structure: Any) -> None:
    model, x, y = made("linear")
    sentence = rf"expected structure='diagonal' with passes='summed', got '{structure}'"
    with pytest.raises(ValueError, match=sentence):
        laplace(model, "regression", (x, y), curvature=CurvatureOptions(structure, passes="summed"))
    options = {"structure": structure, "passes": "summed"}
    with pytest.raises(ValueError, match=sentence):
        learn_priors(
            model,
            "regression",
            (x, y),
            learning=LearningOptions(curvature=CurvatureOptions(**options)),
        )


@pytest.mark.parametrize("probes", [0, True, 2.5])
def test_no_passes(probes: Any) -> None:
    model, x, y = made("linear")
    with pytest.raises(ValueError, match=r"expected a positive number of probes, got "):
        laplace(model, "regression", (x, y), curvature=CurvatureOptions(probes=probes, **SUMMED))


def test_gradients_that_are_not_finite() -> None:
    class Root(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(4))

        def forward(self, x: Tensor) -> Tensor:
            return (x @ self.weight).abs().sqrt()

    x = torch.randn(5, 4)
    with pytest.raises(ValueError, match=r"expected finite curvature, got values that are not"):
        laplace(Root(), "regression", (x, torch.ones(5)), curvature=CurvatureOptions(**SUMMED))
