"""The log evidence where the truth is known, and exact curvature of every network."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from isotropy.evidence import CurvatureOptions, laplace, log_marginal_likelihood, path_groups
from isotropy.nn import PathSum

LOSSES = ("classification", "binary", "regression")


def with_omega_aside(twin: SimpleNamespace, network: str, task: Any) -> tuple[list[str], list[str]]:
    """Hyperparameters of a network, and the names of all other parameters."""
    aside = twin.HYPERPARAMETERS.get(network, [])
    return aside, [name for name in task.parameters if name not in aside]


@pytest.mark.parametrize("structure", ["full", "block", "diagonal"])
def test_exact_structures_are_those_of_the_jacobians(
    twin: SimpleNamespace, any_network: str, structure: str
) -> None:
    loss = LOSSES[len(any_network) % 3]  # all of them occur
    task = twin.made(any_network, loss)
    aside, names = with_omega_aside(twin, any_network, task)
    found = laplace(
        task.model,
        loss,
        task.data,
        hyperparameters=aside,
        curvature=CurvatureOptions(structure, batch_size=2),
    )
    truth = twin.ggn(task, names)
    assert list(found.parameters) == names
    sizes = [task.parameters[name].numel() for name in names]
    rows = truth.split(sizes)
    blocks = [part.split(sizes, 1)[i] for i, part in enumerate(rows)]
    if structure == "full":
        ((ours,),) = found.blocks.values()
        twin.assert_close(ours.dense(), truth)
        curvature = truth
    elif structure == "block":
        for name, block in zip(names, blocks, strict=True):
            ((ours,), scale) = found.blocks[name], truth.abs().max()
            twin.assert_close(ours.dense() / scale, block / scale)
        curvature = torch.block_diag(*blocks)
    else:
        curvature = truth.diagonal().diag()
        ours = torch.cat([found.blocks[name][0].values for name in names])
        twin.assert_close(ours, truth.diagonal())
    theta = torch.cat([task.parameters[name].flatten() for name in names])
    delta = {name: 0.3 + 0.5 * i for i, name in enumerate(names)}
    deltas = torch.tensor(list(delta.values()), dtype=torch.float64)
    deltas = deltas.repeat_interleave(torch.tensor(sizes))
    noise, temperature = (0.7 if loss == "regression" else 1.0), 1.6
    curvature = curvature / (noise**2 * temperature)
    fit = twin.log_likelihood(task, noise) / temperature
    options = {"temperature": temperature, "noise": noise if loss == "regression" else None}
    twin.assert_close(
        found.log_marginal_likelihood(delta, **options),
        twin.log_evidence(fit, theta, curvature, deltas),
        1e-11,
    )
    covariance = torch.linalg.inv(curvature + deltas.diag())
    shares = (1 - deltas * covariance.diagonal()).split(sizes)
    counts = found.effective_parameters(delta, **options)
    for name, share in zip(names, shares, strict=True):
        assert counts.counts[name] == pytest.approx(float(share.sum()), rel=1e-7, abs=1e-9)
        assert counts.normalised[name] == pytest.approx(float(share.mean()), rel=1e-7, abs=1e-9)


# --- Bayesian linear regression ---------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("structure", ["full", "kronecker"])
def test_linear_regression_has_the_evidence_of_its_gaussian(
    twin: SimpleNamespace, structure: str, noise: float
) -> None:
    """At the mode of the posterior the Laplace approximation of a linear model is exact.

    Then log p(y) = log N(y | 0, σ² + X δ⁻¹ Xᵀ) for each output by itself. Without a bias, KFAC
    is exact too: Λ and the gradient at the output are the same for all data.
    """
    rng = torch.Generator().manual_seed(0)
    with_bias = structure == "full"
    x = torch.randn(7, 3, dtype=torch.float64, generator=rng)
    y = torch.randn(7, 2, dtype=torch.float64, generator=rng)
    design = torch.cat([x, torch.ones(7, 1).double()], 1) if with_bias else x
    delta = {"weight": 0.4, "bias": 2.5} if with_bias else {"weight": 0.4}
    prior = torch.tensor([0.4] * 3 + [2.5] * with_bias, dtype=torch.float64)
    covariance = (
        noise**2 * torch.eye(7, dtype=torch.float64) + design @ (1 / prior).diag() @ design.mT
    )
    gaussian = torch.distributions.MultivariateNormal(torch.zeros(7).double(), covariance)
    truth = gaussian.log_prob(y.mT).sum()
    mode = torch.linalg.solve(design.mT @ design + noise**2 * prior.diag(), design.mT @ y)
    model = nn.Linear(3, 2, bias=with_bias).double()
    with torch.no_grad():
        model.weight.copy_(mode[:3].mT)
        if with_bias:
            model.bias.copy_(mode[3])
    found = laplace(
        model, nn.MSELoss(), (x, y), curvature=CurvatureOptions(structure, batch_size=3)
    )
    twin.assert_close(found.log_marginal_likelihood(delta, noise=noise), truth, 1e-12)
    # with δ and σ² the evidence of an approximation at another place is no longer this
    with torch.no_grad():
        model.weight.add_(0.1)
    moved = laplace(model, nn.MSELoss(), (x, y), curvature=CurvatureOptions(structure))
    assert moved.log_marginal_likelihood(delta, noise=noise) < truth - 1e-3


# --- where KFAC is exact ----------------------------------------------------------------------


def require_exact(twin: SimpleNamespace, task: Any, found: Any) -> None:
    for name, blocks in found.blocks.items():
        size = task.parameters[name].numel()
        twin.assert_close(twin.assembled(blocks, size), twin.ggn(task, [name]))


@pytest.mark.parametrize("loss", LOSSES)
def test_kronecker_factors_of_one_datum_without_sharing_are_exact(
    twin: SimpleNamespace, loss: str
) -> None:
    """One term of the sum over n and r: aaᵀ ⊗ gΛgᵀ is what the block is."""

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.SiLU(), nn.Linear(4, 3)
        )

    task = twin.filled(build, (3,), loss, samples=1)
    require_exact(twin, task, found_of(task))


def found_of(task: Any, **options: Any) -> Any:
    if task.loss == "classification" and len(task.y.unique()) < 3:
        with pytest.warns(UserWarning, match=r"expected samples of all 3 classes"):
            return laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(**options))
    return laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(**options))


def test_kronecker_factors_of_deep_linear_networks_under_squared_loss_are_exact(
    twin: SimpleNamespace,
) -> None:
    """Neither Λ = 1 nor g, the product of the later matrices, depends on the datum.

    So Σ_n aaᵀ ⊗ gΛgᵀ = (Σ_n aaᵀ) ⊗ gΛgᵀ. It takes all three: squared loss, no nonlinearity
    after the layer, and one row for each sample; a nonlinearity before it does no harm.
    """

    def build(*first: nn.Module) -> nn.Module:
        return nn.Sequential(
            nn.Linear(3, 4), *first, nn.Linear(4, 5, bias=False), nn.Linear(5, 4), nn.Linear(4, 3)
        )

    task = twin.filled(build, (3,), "regression", samples=6)
    require_exact(twin, task, found_of(task, batch_size=4))
    bent = twin.filled(lambda: build(nn.Tanh()), (3,), "regression", samples=6)
    found = found_of(bent)
    for name in ("2.weight", "3.weight", "4.weight"):
        ours = twin.assembled(found.blocks[name], bent.parameters[name].numel())
        twin.assert_close(ours, twin.ggn(bent, [name]))
    with pytest.raises(AssertionError, match=r"off by"):
        require_exact(twin, bent, found)
    classes = twin.filled(build, (3,), "classification", samples=6)
    with pytest.raises(AssertionError, match=r"off by"):
        require_exact(twin, classes, found_of(classes))


# --- groups of precisions ---------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["kronecker", "full"])
def test_groups_by_map_and_by_function_are_precisions_by_tensor(structure: str, twin: Any) -> None:
    task = twin.made("mlp")
    curvature = CurvatureOptions(structure)
    by_tensor = laplace(task.model, task.loss, task.data, curvature=curvature)
    names = list(by_tensor.parameters)
    truth = by_tensor.log_marginal_likelihood(
        {name: 0.5 if name.startswith("0") else 4.0 for name in names}
    )
    by_map = laplace(
        task.model,
        task.loss,
        task.data,
        groups={"0.weight": "a", "0.bias": "a"},
        curvature=curvature,
    )
    assert by_map.group_sizes == {"a": 25, "3.weight": 15, "3.bias": 3}
    values = {"a": 0.5, "3.weight": 4.0, "3.bias": 4.0}
    twin.assert_close(by_map.log_marginal_likelihood(values), truth, 1e-13)
    by_function = laplace(
        task.model,
        task.loss,
        task.data,
        groups=lambda name: name[0],
        curvature=curvature,
    )
    twin.assert_close(by_function.log_marginal_likelihood({"0": 0.5, "3": 4.0}), truth, 1e-13)
    counts = by_tensor.effective_parameters(dict.fromkeys(names, 0.5))
    together = by_function.effective_parameters(0.5)
    assert together.counts["0"] == pytest.approx(
        counts.counts["0.weight"] + counts.counts["0.bias"]
    )
    assert together.sizes == {"0": 25, "3": 18}
    assert by_function.effective_parameters(0.5, by="tensor").counts == pytest.approx(counts.counts)
    whole = sum(together.normalised.values())
    assert together.relative()["0"] == pytest.approx(together.normalised["0"] / whole)


def test_every_path_of_a_sum_has_its_group(twin: SimpleNamespace) -> None:
    task = twin.made("paths")
    groups = path_groups(task.model)
    assert groups == {
        "0.paths.strict.coefficients": "0.paths.strict",
        "0.paths.strict.bias_coefficients": "0.paths.strict",
        "0.paths.free.weight": "0.paths.free",
        "0.paths.free.bias": "0.paths.free",
    }
    found = laplace(task.model, task.loss, task.data, groups=groups)
    assert found.group_sizes == {
        "0.paths.strict": 3,
        "0.paths.free": 12,
        "2.weight": 9,
        "2.bias": 3,
    }
    inner = PathSum({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    outer = PathSum({"deep": nn.Sequential(nn.Linear(2, 2), inner), "plain": nn.Linear(2, 2)})
    assert path_groups(outer)["paths.deep.0.weight"] == "paths.deep"
    assert path_groups(outer)["paths.deep.1.paths.b.weight"] == "paths.deep.1.paths.b"


# --- which parameters -------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["kronecker", "full"])
def test_given_values_count_as_those_of_a_model_that_has_them(structure: str, twin: Any) -> None:
    task = twin.made("conv1d")
    values = {name: 0.3 - p for name, p in task.parameters.items()}
    given = laplace(
        task.model, task.loss, task.data, params=values, curvature=CurvatureOptions(structure)
    )
    assert torch.equal(given.parameters["0.weight"], values["0.weight"])
    before = task.parameters
    before = {name: p.clone() for name, p in before.items()}
    other = twin.made("conv1d")
    other.model.load_state_dict(values)
    own = laplace(other.model, other.loss, other.data, curvature=CurvatureOptions(structure))
    twin.assert_close(given.log_marginal_likelihood(2.0), own.log_marginal_likelihood(2.0), 1e-13)
    for name, parameter in task.model.named_parameters():
        assert torch.equal(parameter, before[name])
        assert parameter.grad is None


@pytest.mark.parametrize("structure", ["kronecker", "full", "block", "diagonal"])
def test_frozen_and_left_out_parameters_are_constants(structure: str, twin: Any) -> None:
    task = twin.made("mlp")
    curvature = CurvatureOptions(structure)
    some = ["0.bias", "3.weight"]
    chosen = laplace(
        task.model,
        task.loss,
        task.data,
        params={n: task.parameters[n] for n in some},
        curvature=curvature,
    )
    aside = laplace(
        task.model,
        task.loss,
        task.data,
        hyperparameters=["0.weight", "3.bias"],
        curvature=curvature,
    )
    for name, parameter in task.model.named_parameters():
        parameter.requires_grad_(name in some)
    frozen = laplace(task.model, task.loss, task.data, curvature=curvature)
    for found in (chosen, aside, frozen):
        assert list(found.parameters) == some
        twin.assert_close(
            found.log_marginal_likelihood(0.7), frozen.log_marginal_likelihood(0.7), 1e-13
        )
    if structure == "full":
        theta = torch.cat([task.parameters[name].flatten() for name in some])
        truth = twin.log_evidence(
            twin.log_likelihood(task), theta, twin.ggn(task, some), torch.full_like(theta, 0.7)
        )
        twin.assert_close(frozen.log_marginal_likelihood(0.7), truth, 1e-11)


def test_dropout_and_batch_norm_are_as_in_evaluation_and_modes_come_back(twin: Any) -> None:
    def build() -> nn.Module:
        return nn.Sequential(
            nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(0.5), nn.Tanh(), nn.Linear(5, 3)
        )

    task = twin.filled(build, (4,))
    task.model.eval()
    truth = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions("full"))
    twin.assert_close(truth.blocks[""][0].dense(), twin.ggn(task))
    task.model.train()
    task.model[3].eval()
    state = {name: value.clone() for name, value in task.model.state_dict().items()}
    with torch.no_grad():
        found = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions("full"))
    twin.assert_close(found.log_marginal_likelihood(), truth.log_marginal_likelihood(), 1e-13)
    assert [m.training for m in task.model] == [True, True, True, False, True]
    assert all(torch.equal(value, state[name]) for name, value in task.model.state_dict().items())


@pytest.mark.parametrize("structure", ["kronecker", "full", "block", "diagonal"])
def test_single_precision_is_close_to_double(structure: str, twin: Any) -> None:
    task = twin.made("circular")
    double = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(structure))
    single = laplace(
        task.model.float(), task.loss, task.data, curvature=CurvatureOptions(structure)
    )
    value = single.log_marginal_likelihood()
    assert value.dtype == torch.float64
    twin.assert_close(value, double.log_marginal_likelihood(), 1e-5)


def test_one_call_is_two(twin: SimpleNamespace) -> None:
    task = twin.made("mlp", "regression")
    once = log_marginal_likelihood(
        task.model,
        task.loss,
        task.data,
        0.3,
        noise=0.5,
        temperature=2.0,
        curvature=CurvatureOptions("diagonal"),
    )
    twice = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions("diagonal"))
    assert torch.equal(once, twice.log_marginal_likelihood(0.3, noise=0.5, temperature=2.0))


def test_the_prior_is_a_normalised_gaussian(twin: SimpleNamespace) -> None:
    task = twin.made("mlp")
    found = laplace(task.model, task.loss, task.data)
    normal = torch.distributions.Normal(0.0, torch.tensor(0.4, dtype=torch.float64).rsqrt())
    twin.assert_close(found.log_prior(0.4), normal.log_prob(twin.flat(task.parameters)).sum())
