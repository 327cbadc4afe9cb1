"""Experiments of residual pathway priors: figure 3.2, sections 3.5.1 and 3.5.2."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, jacrev

from evidence_parts import DiagonalBlock, Gaussian
from isotropy.evidence import Laplace, LearnedPriors, best_precisions, learn_priors
from isotropy.groups import O
from isotropy.nn import EMLP, MLP, PathSum, log_prior, soften, tensor_priors
from isotropy.reps import Scalar, Symmetry, V
from isotropy.run import Step, generator, spawn
from isotropy_papers import Result, Settings, experiment, ids
from isotropy_papers import _learned_trials as learned_module
from isotropy_papers import _residual_trials as trials_module
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._learned_penalties import LearnedPenalties, random_passes
from isotropy_papers._learned_trials import learned_errors
from isotropy_papers._residual_trials import (
    LEVELS,
    STARTS,
    STRICT_PENALTY,
    ResidualPlan,
    ResidualTrials,
    chunks_together,
    fixed_penalties,
    inertia_task,
)
from isotropy_papers._training import NetworkRecipe, NetworkTraining
from isotropy_papers.broken_symmetries import windy_pendulum
from isotropy_papers.finzi2023_figure3_2 import FIXED, boxes, models_of, plan_of
from isotropy_papers.hamiltonian_systems import HamiltonianSystem, double_spring_pendulum

FIGURE, STRENGTHS, MEMBERS = (
    f"finzi2023/{place}" for place in ("figure3.2", "section3.5.1", "section3.5.2")
)
TINY: dict[str, Any] = {"seeds": 2, "epochs": 2, "channels": 24, "test_rows": 20}
PLAN = ResidualPlan(
    (3, 5), NetworkRecipe(2, batch=10), channels=24, layers=1, rows=20, device="cpu"
)


def ignore(step: Step) -> None:
    pass


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", str(tmp_path / "cache"))


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed))


# --- data -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "system", [double_spring_pendulum(), windy_pendulum()], ids=["still", "windy"]
)
def test_chunks_of_all_seeds_are_those_of_each(
    system: HamiltonianSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    defaults = inspect.signature(system.splits).parameters
    for name, used in (("step", "_INTERVAL"), ("length", "_LENGTH"), ("horizon", "_HORIZON")):
        assert getattr(trials_module, used) == defaults[name].default
    monkeypatch.setattr(trials_module, "_HORIZON", 2.0)
    together = chunks_together(system, (3, 5), 2)
    for found, seed in zip(together, (3, 5), strict=True):
        splits = system.splits(2, validation=2, test=2, horizon=2.0, generator=seed)
        for z, part in zip(found, ("train", "validation", "test"), strict=True):
            torch.testing.assert_close(z, getattr(splits, part).z, rtol=0, atol=1e-9)


@pytest.mark.parametrize("level", LEVELS)
def test_the_pendulum_is_windy_where_its_symmetry_is_approximate(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials_module, "_HORIZON", 1.0)
    systems = {"still": double_spring_pendulum(), "windy": windy_pendulum()}
    x, z = ResidualTrials("pendulum", level, PLAN).rows["test"]
    assert torch.equal(x, z[:, :, 0])
    kept = {
        name: bool((system.hamiltonian(z).std(-1) < 1e-4).all()) for name, system in systems.items()
    }
    assert kept == {"still": level != "approximate", "windy": level == "approximate"}


def symmetry_error(trials: ResidualTrials) -> float:
    """By how much what is to be learned lacks the symmetry of the networks."""
    symmetry = Symmetry(trials.group, *trials.spaces)
    g = trials.group.sample(50, generator=generator(0))
    system = windy_pendulum() if trials.level == "approximate" else double_spring_pendulum()

    def f(x: Tensor) -> Tensor:
        if trials.task == "inertia":
            return inertia_task(trials.level).target(x)
        return system.hamiltonian(x).unsqueeze(-1)

    draw = inertia_task(trials.level).draw(50, generator=0)
    x = draw[0] if trials.task == "inertia" else system.initial(50, generator=0)
    a, b = f(symmetry.apply(g, x)), symmetry.apply_out(g, f(x))
    return float(((a - b).norm(dim=-1) / (a.norm(dim=-1) + b.norm(dim=-1))).mean())


@pytest.mark.parametrize("task", ["inertia", "pendulum"])
def test_symmetries_hold_nearly_hold_or_do_not(task: str) -> None:
    exact, approximate, wrong = (
        symmetry_error(ResidualTrials(task, level, PLAN)) for level in LEVELS
    )
    assert exact < 1e-10
    assert 1e-3 < approximate < 0.2
    assert wrong > 2 * approximate


def test_errors_are_in_the_units_of_the_data() -> None:
    trials = ResidualTrials("inertia", "approximate", PLAN)
    ensemble = trials.training("EMLP").ensemble
    found = trials.errors(ensemble.predict, "test")
    for k, seed in enumerate(PLAN.seeds):
        splits = inertia_task("approximate").splits(20, validation=20, test=20, generator=seed)
        x, y = splits.test
        scaling = trials.scalings[k]
        weights = {name: weight[k] for name, weight in ensemble.parameters.items()}
        scaled = (x - scaling.input_offset) / scaling.input_scale
        ours = functional_call(ensemble.network, weights, (scaled.float(),)).double()
        ours = ours * scaling.output_scale + scaling.output_offset
        assert found[k] == pytest.approx(float((ours - y).square().mean().detach()), rel=1e-4)


@pytest.mark.parametrize("task", ["inertia", "pendulum"])
def test_terms_are_the_numbers_that_can_be_wrong(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials_module, "_HORIZON", 1.0)
    trials = ResidualTrials(task, "exact", PLAN)
    x, y = trials.rows["train"]
    wrong = trials.training("MLP").ensemble.predict(x) != y
    assert wrong.flatten(1).sum(1).tolist() == [trials.terms] * 2


# --- penalties --------------------------------------------------------------------------------


def soft_network() -> nn.Module:
    return soften(EMLP(Scalar + 2 * V, V, O(3), channels=12, layers=1))


def by_laplace(
    network: nn.Module, weights: Mapping[str, Tensor], curvature: Mapping[str, Tensor], sums: Tensor
) -> tuple[dict[str, float], float]:
    """The best precisions for the rms of residuals as the noise, and that."""
    lengths = {p.name: p.squared_lengths for p in tensor_priors(network)}
    found = Laplace(
        weights,
        {name: name for name in weights},
        {name: [DiagonalBlock(c.flatten().double())] for name, c in curvature.items()},
        Gaussian(),
        sums,
        1.0,
        {name: c for name, c in lengths.items() if c is not None},
    )
    noise = float((sums[0] / sums[1]).sqrt())
    return best_precisions(found, noise=noise)[0], noise


def test_an_update_goes_where_the_evidence_is_largest() -> None:
    paths = {"strict": nn.Linear(2, 3), "free": nn.Linear(2, 3)}
    lengths: dict[str, dict[str, Tensor | float]] = {
        "strict": {"weight": 4.0},
        "free": {"weight": numbers(3, 2).square(), "bias": 0.2},
    }
    network: nn.Module = nn.Sequential(
        PathSum(paths, prior_variances={"strict": 1e5, "free": 0.1}, squared_lengths=lengths),
        PathSum({"strict": nn.Linear(3, 1), "free": nn.Linear(3, 1)}),
    )
    copies, terms = 3, 50
    priors = {prior.name: prior for prior in tensor_priors(network)}
    penalties = LearnedPenalties(network, copies, terms)
    before = penalties.log_precisions.clone()
    shapes = {name: (copies, *prior.parameter.shape) for name, prior in priors.items()}
    weights = {name: 0.3 * numbers(*shape, seed=1) for name, shape in shapes.items()}
    curvature = {name: numbers(*shape, seed=2).square() for name, shape in shapes.items()}
    free = [name for name in priors if ".free." in name]
    weights[free[0]][0] = 0  # not needed
    curvature[free[1]][1] = 0  # not seen
    weights[free[2]][2] = curvature[free[2]][2] = 0
    squares = torch.tensor([0.5, 2.0, 30.0])
    penalties.update(weights, [curvature[name] for name in penalties.names], squares)
    for k in range(copies):
        expected, noise = by_laplace(
            network,
            {name: weight[k] for name, weight in weights.items()},
            {name: values[k] for name, values in curvature.items()},
            torch.tensor([float(squares[k]), terms]).double(),
        )
        for place, name in enumerate(penalties.names):
            found = float(penalties.log_precisions[k, place])
            start = float(before[k, place])
            assert found == (
                pytest.approx(np.log(expected[name]), abs=1e-5) if name in free else start
            )
            c = priors[name].squared_lengths
            strength = noise**2 * np.exp(found) / terms * (1.0 if c is None else c)
            torch.testing.assert_close(
                penalties.by_name()[name][k],
                torch.as_tensor(strength).float().expand(priors[name].parameter.shape),
            )
    ends = [float(penalties.log_precisions[k, penalties.names.index(free[k])]) for k in range(3)]
    assert ends == pytest.approx(np.log([1e12, 1e-8, 1e12]).tolist())


def test_fixed_penalties_are_the_prior_of_these_precisions() -> None:
    strict = EMLP(Scalar + 2 * V, V, O(3), channels=12, layers=1)
    network = soften(strict, variances=(1 / STRICT_PENALTY, 1 / 0.03))
    weights = list(network.parameters())
    slopes = torch.autograd.grad(
        -log_prior(network, form="unscaled"), weights, allow_unused=True, materialize_grads=True
    )
    pulls = fixed_penalties(network, 0.03)
    for (name, weight), slope in zip(network.named_parameters(), slopes, strict=True):
        torch.testing.assert_close(slope, 2 * pulls.get(name, 0.0) * weight.detach())


@pytest.mark.parametrize("start", STARTS)
def test_learned_penalties_begin_at_the_variances_of_the_start(start: str) -> None:
    trials = ResidualTrials("inertia", "exact", PLAN)
    penalties = trials.training(f"RPP {start}")._learned
    assert penalties is not None
    variances = {".free.": STARTS[start], ".strict.": 1e5}
    for prior in tensor_priors(trials.network(f"RPP {start}")):
        (variance,) = (value for path, value in variances.items() if path in prior.name)
        c = 1.0 if prior.squared_lengths is None else prior.squared_lengths
        expected = torch.as_tensor(c / variance * 0.3**2 / (20 * 9))
        found = penalties.by_name()[prior.name]
        torch.testing.assert_close(found, expected.expand_as(found), rtol=1e-4, atol=0)


# --- training ---------------------------------------------------------------------------------

Penalties = Mapping[str, Tensor | float]


class Twin:
    """One copy, trained step by step in an ordinary loop."""

    def __init__(self, network: nn.Module, seed: int, rows: tuple[Tensor, Tensor], batch: int):
        self.network, (self.x, self.y), self.batch = network, rows, batch
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            for layer in network.modules():
                reset: Callable[[], None] | None = getattr(layer, "reset_parameters", None)
                if reset is not None:
                    reset()
        parent = generator(seed)
        spawn(parent, 1)
        self.order = spawn(parent, 2)[0]
        self.left: list[Tensor] = []
        self.optimiser = torch.optim.Adam(network.parameters(), lr=1e-2)

    def step(self, penalties: Penalties) -> None:
        if not self.left:
            shuffled = torch.randperm(len(self.x), generator=self.order)
            self.left = [part for part in shuffled.split(self.batch) if len(part) == self.batch]
        chosen = self.left.pop(0)
        loss = nn.functional.mse_loss(self.network(self.x[chosen]), self.y[chosen])
        for name, weight in self.network.named_parameters():
            loss = loss + (penalties.get(name, 0.0) * weight.square()).sum()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()


def assert_same_weights(ensemble: Ensemble, twins: Sequence[Twin]) -> None:
    for k, twin in enumerate(twins):
        for name, weight in twin.network.named_parameters():
            torch.testing.assert_close(
                ensemble.parameters[name][k], weight, rtol=1e-3, atol=1e-5, msg=f"{name} of {k}"
            )


def test_penalised_steps_are_those_of_an_ordinary_loop() -> None:
    x = numbers(2, 25, 7)
    y = x[..., :1] * x[..., 1:4]
    recipe = NetworkRecipe(8, batch=10, learning_rate=1e-2)
    penalties = {**fixed_penalties(soft_network(), 0.3), "head.paths.free.bias": 0.7}
    assert any(isinstance(pull, Tensor) and pull.ndim for pull in penalties.values())
    twins = [Twin(soft_network(), seed, (x[k], y[k]), 10) for k, seed in enumerate((3, 5))]
    ensemble = Ensemble(soft_network(), (3, 5))
    training = NetworkTraining(ensemble, (x, y), (x, y), recipe, (3, 5), penalties=penalties)
    for _ in range(training.steps):
        training.advance()
        for twin in twins:
            twin.step(penalties)
    assert training.done == 16
    assert_same_weights(ensemble, twins)


class Apart(nn.Module):
    """y = (a + b) x entry by entry: each weight has a part in one output of a row."""

    def __init__(self) -> None:
        super().__init__()
        paths = {"strict": nn.Linear(1, 2, bias=False), "free": nn.Linear(1, 2, bias=False)}
        self.sum = PathSum(paths, squared_lengths={"free": {"weight": torch.tensor([[2.0], [3]])}})

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.sum(x)
        return y


def test_learned_penalties_follow_the_curvature_and_are_used() -> None:
    # in every batch of the passes one row counts: all signs then give the exact diagonal
    x = numbers(2, 5, 1)
    x[:, 1::2] = 0
    y = torch.cat([2 * x, -x], -1) + 0.1 * numbers(2, 5, 2, seed=1)
    network = Apart()
    penalties = LearnedPenalties(network, 2, terms=10, noise=0.3)
    ensemble = Ensemble(network, (3, 5))
    recipe = NetworkRecipe(20, batch=2, learning_rate=1e-2)
    training = NetworkTraining(ensemble, (x, y), (x, y), recipe, (3, 5), penalties=penalties)
    twins = [Twin(Apart(), seed, (x[k], y[k]), 2) for k, seed in enumerate((3, 5))]
    changes = []
    for done in range(1, training.steps + 1):
        before = {name: pull.clone() for name, pull in penalties.by_name().items()}
        training.advance()
        for k, twin in enumerate(twins):
            twin.step({name: pull[k] for name, pull in before.items()})
        name = "sum.paths.free.weight"
        if torch.equal(before[name], penalties.by_name()[name]):
            continue
        changes.append(done)
        for k, (pull, inputs, targets) in enumerate(
            zip(penalties.by_name()[name], x, y, strict=True)
        ):
            weights = {name: weight[k].detach() for name, weight in ensemble.parameters.items()}
            residuals = functional_call(network, weights, (inputs,)) - targets
            diagonal = 5 / 4 * inputs[:4].square().sum() * torch.ones(2, 1)
            squares = 5 / 4 * residuals[:4].square().sum().double()
            best, noise = by_laplace(
                network,
                weights,
                dict.fromkeys(weights, diagonal),
                torch.stack([squares, torch.tensor(10.0).double()]),
            )
            expected = noise**2 * best[name] / 10 * torch.tensor([[2.0], [3.0]])
            torch.testing.assert_close(pull, expected, rtol=1e-3, atol=0)
    assert changes == list(range(4, 40, 2))
    assert_same_weights(ensemble, twins)


def test_random_passes_have_the_diagonal_as_their_mean() -> None:
    network, draws = MLP(2, 2, channels=3, layers=1), 400
    ensemble = Ensemble(network, (3, 5))
    x = numbers(2, 3, 2)
    weights = list(ensemble.parameters.values())
    coin = generator(0)
    each: list[list[Tensor]] = []
    for _ in range(draws):
        signs = 2.0 * torch.randint(2, (2, 3, 2), generator=coin) - 1.0
        sums = [torch.zeros_like(weight) for weight in weights]
        random_passes(lambda: ensemble(x), weights, signs, sums)
        each.append(sums)
    for place, name in enumerate(ensemble.parameters):
        found = torch.stack([sums[place] for sums in each])
        error = found.std(0) / draws**0.5
        for k in range(2):
            own = {other: weight[k].detach() for other, weight in ensemble.parameters.items()}

            def outputs(weight: Tensor, own: dict[str, Tensor] = own, k: int = k) -> Tensor:
                y: Tensor = functional_call(network, {**own, name: weight}, (x[k],))  # noqa: B023
                return y

            exact = jacrev(outputs)(own[name]).square().sum((0, 1))
            assert bool((exact > 0).any())
            off = (found[:, k].mean(0) - exact).abs()
            assert bool((off <= 5 * error[k] + 1e-5 * exact).all()), name


# --- learned priors ---------------------------------------------------------------------------


def test_priors_are_learned_from_training_rows_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[nn.Module, tuple[Tensor, Tensor]]] = []

    def watched(network: nn.Module, loss: str, data: Any, **options: Any) -> LearnedPriors:
        free = [prior for prior in tensor_priors(network) if ".free." in prior.name]
        assert [float(prior.log_variance.exp()) for prior in free] == pytest.approx(
            [STARTS["open"]] * len(free)
        )
        assert "priors" not in options
        calls.append((network, data))
        return learn_priors(network, loss, data, **options)

    monkeypatch.setattr(learned_module, "learn_priors", watched)
    trials = ResidualTrials("inertia", "exact", PLAN)
    found = learned_errors(trials, "open")
    assert sorted(found) == ["evidence", "test", "validation"]
    assert len(calls) == len(found["evidence"]) == 2
    for k, (network, (x, y)) in enumerate(calls):
        assert torch.equal(x, trials.rows["train"][0][k])
        assert torch.equal(y, trials.rows["train"][1][k])
        for part in ("validation", "test"):
            x, y = (values[k] for values in trials.rows[part])
            with torch.no_grad():
                error = ((network(x) - y) * trials.scalings[k].output_scale).square().mean()
            assert found[part][k] == pytest.approx(float(error), rel=1e-4)
    last = ResidualPlan((5,), PLAN.recipe, PLAN.channels, PLAN.layers, PLAN.rows, "cpu")
    alone = learned_errors(ResidualTrials("inertia", "exact", last), "open")
    assert {name: values[1:] for name, values in found.items()} == alone


# --- choices ----------------------------------------------------------------------------------


def example(task: str, **given: dict[str, list[float]]) -> dict[str, Any]:
    """Errors of all models, most of them of no account."""
    dull = {"validation": [9.0] * 3, "test": [9.0] * 3, "evidence": [-9.0] * 3}
    return {model: given.get(model.replace(" ", "_"), dull) for model in models_of(task)}


@pytest.mark.parametrize("task", ["inertia", "pendulum"])
@pytest.mark.parametrize("place", [0, -1], ids=["first", "last"])
def test_the_median_on_validation_rows_chooses_the_fixed_prior(task: str, place: int) -> None:
    errors = example(task)
    weights = FIXED[task]
    for weight in weights:
        # better on test rows, and in the mean
        errors[f"RPP {weight:g}"] = {"validation": [3.0, 3.0, 3.0], "test": [1.0, 1.0, 1.0]}
    errors[f"RPP {weights[place]:g}"] = {"validation": [2.0, 99.0, 2.0], "test": [5.0, 6.0, 7.0]}
    rows, best = boxes(errors, task)
    assert best == weights[place]
    assert rows["RPP"] == [5.0, 6.0, 7.0]


def test_the_evidence_chooses_the_start_for_inertia() -> None:
    held = {"evidence": [2.0, -5.0, 0.0], "validation": [9.0, 1.0, 9.0], "test": [4.0, 1.0, 4.0]}
    open_ = {"evidence": [1.0, -4.0, 0.0], "validation": [1.0, 9.0, 1.0], "test": [1.0, 4.0, 1.0]}
    rows, _ = boxes(example("inertia", learned_held_back=held, learned_open=open_), "inertia")
    # test rows do not decide between equals, either
    assert rows["RPP, learned"] == [4.0, 4.0, 4.0]


def test_validation_rows_choose_the_start_for_the_pendulum() -> None:
    held = {"validation": [1.0, 3.0, 2.0], "test": [4.0, 1.0, 4.0]}
    open_ = {"validation": [2.0, 2.0, 2.0], "test": [1.0, 4.0, 1.0]}
    rows, _ = boxes(example("pendulum", RPP_held_back=held, RPP_open=open_), "pendulum")
    assert rows["RPP, learned"] == [4.0, 4.0, 4.0]
    assert rows["MLP"] == rows["EMLP"] == [9.0] * 3


# --- experiments ------------------------------------------------------------------------------


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG")


def by_place(result: Result) -> dict[tuple[str, str], float]:
    found = {(cell.row, cell.column): cell.ours for cell in result.cells}
    assert len(found) == len(result.cells)
    assert all(np.isfinite(value) for value in found.values())
    return found


def test_figure_and_strengths_share_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials_module, "_HORIZON", 1.0)
    integrated: list[Any] = []
    real = trials_module.chunks_together

    def counted(*given: Any) -> Tensor:
        integrated.append(given)
        return real(*given)

    monkeypatch.setattr(trials_module, "chunks_together", counted)
    wanted = ("inertia approximate", "pendulum approximate")
    settings = Settings(**{**TINY, "epochs": 1}, models=wanted, out=tmp_path)
    steps: list[Step] = []
    result = experiment(FIGURE).run(settings, steps.append)
    assert len(integrated) == 1  # for all models
    assert len(steps) == sum(len(models_of(which.split()[0])) for which in wanted)
    cells = by_place(result)
    rows = ("MLP", "EMLP", "RPP", "RPP, learned")
    columns = ("median", "25 %", "75 %", "least", "most")
    assert set(cells) == {(f"{which}: {r}", c) for which in wanted for r in rows for c in columns}
    for row in {row for row, _ in cells}:
        least, most = cells[row, "least"], cells[row, "most"]
        # of two seeds
        for column, share in (("25 %", 0.25), ("median", 0.5), ("75 %", 0.75)):
            assert cells[row, column] == pytest.approx(least + share * (most - least))
    assert any(note.startswith("test MSE of 2 seeds") for note in result.notes)
    assert "no pendulum" not in result.notes[-1]

    second = experiment(STRENGTHS).run(settings, steps.append)
    assert len(steps) == sum(len(models_of(which.split()[0])) for which in wanted)
    strengths = by_place(second)
    assert set(strengths) == {
        (which, column)
        for which in wanted
        for column in ("MLP", "EMLP", *(f"RPP, λ={w:g}" for w in FIXED[which.split()[0]]))
    }
    for which in wanted:
        for model in ("MLP", "EMLP"):
            assert strengths[which, model] == pytest.approx(cells[f"{which}: {model}", "median"])
        fixed = [strengths[which, f"RPP, λ={w:g}"] for w in FIXED[which.split()[0]]]
        assert cells[f"{which}: RPP", "median"] in [pytest.approx(value) for value in fixed]
    assert any("1e-06 throughout" in note for note in second.notes)
    for id, found in ((FIGURE, result), (STRENGTHS, second)):
        plot = experiment(id).plot
        assert plot is not None
        assert is_picture(plot(found, tmp_path / "picture.png"))


def test_strengths_where_the_symmetry_is_wrong() -> None:
    settings = Settings(**{**TINY, "channels": 96}, models=("inertia mis-specified",))
    cells = by_place(experiment(STRENGTHS).run(settings, ignore))
    assert len(cells) == 2 + len(FIXED["inertia"])
    assert len(set(cells.values())) == len(cells)


def test_an_interrupted_figure_goes_on() -> None:
    """The numbers are those of trials run by hand, whatever happened between."""
    settings = Settings(**TINY, models=("inertia exact",))
    labels = [f"inertia exact: {model}" for model in models_of("inertia")]
    reported: list[str] = []

    def stop(step: Step) -> None:
        reported.append(step.message)
        if len(reported) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment(FIGURE).run(settings, stop)
    result = experiment(FIGURE).run(settings, lambda step: reported.append(step.message))
    assert reported == [*labels[:4], *labels[3:]]
    assert result.notes[-1].endswith("; no pendulum")
    cells = by_place(result)
    trials = ResidualTrials("inertia", "exact", plan_of("inertia", settings))
    for model, errors in trials.trained(["MLP", "EMLP"]).items():
        found = [cells[f"inertia exact: {model}", column] for column in ("least", "most")]
        assert found == pytest.approx(sorted(errors["test"]))


def equivariance_by_hand(
    trials: ResidualTrials, outputs: Callable[[Tensor], Tensor]
) -> list[float]:
    """Eq. 3.3 row by row, for outputs of all copies from their scaled inputs."""
    g = O(3).sample(20, generator=generator(0)).dense().double()
    x = trials.rows["test"][0].double()
    positions = x[..., 5:].unflatten(-1, (5, 3))
    moved = torch.einsum("nij,cnkj->cnki", g, positions).flatten(-2)
    a, b = (
        outputs(inputs.float()).double().unflatten(-1, (3, 3))
        for inputs in (x, torch.cat([x[..., :5], moved], -1))
    )
    a = g @ a @ g.mT
    sizes = a.flatten(-2).norm(dim=-1) + b.flatten(-2).norm(dim=-1)
    each: list[float] = ((a - b).flatten(-2).norm(dim=-1) / sizes).mean(1).tolist()
    return each


def test_equivariance_of_members_through_training(tmp_path: Path) -> None:
    settings = Settings(**TINY, out=tmp_path)
    result = experiment(MEMBERS).run(settings, ignore)
    cells = by_place(result)
    columns = ("epoch 0", "epoch 1", "epoch 2", "target")
    assert list(cells) == [(level, column) for level in LEVELS[:2] for column in columns]
    for level in LEVELS[:2]:
        trials = ResidualTrials("inertia", level, plan_of("inertia", settings), one_data_set=True)
        for x, y in trials.rows.values():
            assert torch.equal(x[0], x[1])
            assert torch.equal(y[0], y[1])
        training = trials.training("RPP 0.1")
        for column in columns[:3]:
            one, two = equivariance_by_hand(trials, training.ensemble.predict)
            (cell,) = (c for c in result.cells if (c.row, c.column) == (level, column))
            assert cell.ours == pytest.approx((one + two) / 2, rel=1e-3)
            assert cell.interval == pytest.approx((min(one, two), max(one, two)), rel=1e-3)
            if column != "epoch 2":
                training.advance()  # all rows are one batch
    assert cells["exact", "target"] < 1e-6
    assert cells["approximate", "target"] > 0.05
    assert any(note.startswith("2 members") for note in result.notes)
    plot = experiment(MEMBERS).plot
    assert plot is not None
    assert is_picture(plot(result, tmp_path / "picture.png"))
    steps: list[Step] = []
    assert experiment(MEMBERS).run(settings, steps.append).cells == result.cells
    assert steps == []


@pytest.mark.parametrize("id", [FIGURE, STRENGTHS, MEMBERS])
def test_models_that_are_none(id: str) -> None:
    assert id in ids()
    with pytest.raises(ValueError, match=r"expected models among .*exact, .*got 'spheres'"):
        experiment(id).run(Settings(models=("spheres",)), ignore)
