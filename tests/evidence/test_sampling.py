"""Curvature from some of the data, or from random passes, is that of all in the mean."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from isotropy.evidence import CurvatureOptions, laplace

LOSSES = ("classification", "binary", "regression")


# --- some of the data -------------------------------------------------------------------------


@pytest.mark.parametrize("structure", ["kronecker", "block", "diagonal", "full"])
def test_a_subset_of_all_is_all(twin: Any, structure: str) -> None:
    task = twin.made("conv1d", "regression")
    options = {"structure": structure, "batch_size": 2}
    whole = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(**options))
    part = laplace(
        task.model,
        task.loss,
        task.data,
        curvature=CurvatureOptions(subset=len(task.x), seed=4, **options),
    )
    assert part.samples == whole.samples == len(task.x)
    twin.assert_close(part.log_marginal_likelihood(0.3), whole.log_marginal_likelihood(0.3), 1e-13)


def test_the_mean_over_all_subsets_is_all(twin: Any) -> None:
    """Each of them alike often: the log likelihood, output factors and GGN are sums over data."""
    samples, subset = 5, 2
    task = twin.made("sequence", "binary", samples=samples)
    seen: dict[float, tuple[Any, Any]] = {}
    for seed in range(200):
        options = {"subset": subset, "seed": seed, "batch_size": 1}
        found = laplace(task.model, task.loss, task.data, curvature=CurvatureOptions(**options))
        fit = round(float(found.log_likelihood()), 9)
        if fit not in seen:
            full = laplace(
                task.model, task.loss, task.data, curvature=CurvatureOptions("full", **options)
            )
            seen[fit] = found, full
        if len(seen) == comb(samples, subset):
            break
    assert len(seen) == comb(samples, subset)
    assert all(found.samples == pytest.approx(samples) for found, _ in seen.values())

    def mean(values: list[Tensor]) -> Tensor:
        return torch.stack(values).mean(0)

    twin.assert_close(
        mean([f.log_likelihood() for f, _ in seen.values()]), twin.log_likelihood(task)
    )
    rows = twin.stacked(twin.at_layer(task, "0"))
    inner, outer = rows.factors()
    blocks = [found.blocks["0.weight"][0] for found, _ in seen.values()]
    twin.assert_close(mean([block.output[0] for block in blocks]), outer)
    twin.assert_close(mean([block.input[0] for block in blocks]), inner)
    twin.assert_close(
        mean([full.blocks[""][0].dense() for _, full in seen.values()]), twin.ggn(task)
    )
    # every one is what its own data give, scaled up
    for pair in combinations(range(samples), subset):
        chosen = twin.Task(task.model, task.loss, task.x[list(pair)], task.y[list(pair)])
        fit = round(float(twin.log_likelihood(chosen)) * samples / subset, 9)
        twin.assert_close(seen[fit][1].blocks[""][0].dense(), samples / subset * twin.ggn(chosen))


# --- random passes ----------------------------------------------------------------------------


def build(classes: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, classes))


@pytest.mark.parametrize("probes", [1, 4])
@pytest.mark.parametrize("passes", ["sampled", "signs"])
@pytest.mark.parametrize("loss", LOSSES)
def test_random_passes_are_right_in_the_mean(
    twin: Any, loss: str, passes: str, probes: int
) -> None:
    """The projection on the truth is one within a few standard errors of a few percent."""
    task = twin.filled(build, (3,), loss, samples=40)
    shares: dict[str, list[Tensor]] = {}

    def add(name: str, ours: Tensor, truth: Tensor) -> None:
        shares.setdefault(name, []).append((ours * truth).sum() / truth.square().sum())

    right = laplace(task.model, task.loss, task.data).blocks
    whole = twin.ggn(task)
    for seed in range(30):
        options = {"passes": passes, "probes": probes, "seed": seed}
        found = laplace(
            task.model, task.loss, task.data, curvature=CurvatureOptions(**options)
        ).blocks
        for name in ("0.weight", "2.weight"):
            add(name, found[name][0].output, right[name][0].output)
            assert torch.equal(found[name][0].input, right[name][0].input)
        full = laplace(
            task.model, task.loss, task.data, curvature=CurvatureOptions("full", **options)
        )
        add("full", full.blocks[""][0].dense(), whole)
    for name, values in shares.items():
        sample = torch.stack(values)
        error = float(sample.std()) / len(sample) ** 0.5
        assert error < 0.1, name  # a wrong factor of two, or of one half, is five of these away
        # signs of one column are not random: the square of ±1 is one
        assert abs(float(sample.mean()) - 1) <= 4 * error + 1e-10, name


@pytest.mark.parametrize("passes", ["sampled", "signs"])
def test_random_passes_come_back_with_their_seed(twin: Any, passes: str) -> None:
    task = twin.filled(build, (3,), samples=7)
    state = torch.random.get_rng_state()

    def value(seed: int) -> float:
        found = laplace(
            task.model,
            task.loss,
            task.data,
            curvature=CurvatureOptions(passes=passes, seed=seed, batch_size=3),
        )
        return float(found.log_marginal_likelihood())

    assert value(1) == value(1)
    assert value(1) != value(2)
    assert torch.equal(torch.random.get_rng_state(), state)


class Counting(nn.Module):
    """The identity, which counts how often a gradient comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        def count(_: Tensor) -> None:
            self.calls += 1

        y = x.clone()
        if y.requires_grad:
            y.register_hook(count)
        return y


def test_many_classes_cost_as_many_passes_as_there_are_probes(twin: Any) -> None:
    classes, samples = 50, 60

    def counted() -> nn.Module:
        return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), Counting(), nn.Linear(4, classes))

    task = twin.filled(counted, (3,), samples=samples)
    counter = task.model[2]
    counts = {}
    found = {}
    for passes in ("exact", "sampled", "signs"):
        counter.calls = 0
        found[passes] = laplace(
            task.model, task.loss, task.data, curvature=CurvatureOptions(passes=passes, probes=3)
        )
        counts[passes] = counter.calls - 1  # one more for the check that nothing is missing
    assert counts == {"exact": classes - 1, "sampled": 3, "signs": 3}
    value = float(found["exact"].log_marginal_likelihood())
    for passes in ("sampled", "signs"):
        assert float(found[passes].log_marginal_likelihood()) == pytest.approx(value, rel=0.1)
