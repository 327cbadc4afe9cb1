"""Symmetries that hold in part: the soft model, its comparison, and what is offered."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from discovery.pieces import (
    FreePredictor,
    ModellingThresholds,
    ProposingThresholds,
    SoftComparison,
    SoftOffer,
    TaskData,
    build_model,
    compare_soft,
    generator,
    replaced,
    soft_offer,
    three_way_split,
)
from isotropy.data import load
from isotropy.discovery import DiscoverOptions, Finding, Findings, discover
from isotropy.discovery.modelling._soft_model import fit_soft_model
from isotropy.discovery.modelling._symmetric_model import FitDraws, fit_symmetric_model
from isotropy.equivariance import equivariance_error
from isotropy.groups import S
from isotropy.nn import PathSum
from isotropy.reps import Scalar, Symmetry, V


def length_and_slope(seed: int, rows: int, columns: int, broken: float):
    """|x|, which all permutations leave, and a slope that none does, as shares of the variance."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    length = np.sqrt((x**2).sum(1))
    slope = rng.normal(size=columns)
    slope -= slope.mean()
    slope /= np.linalg.norm(slope)
    even = (length - length.mean()) / length.std()
    y = (1 - broken) ** 0.5 * even + broken**0.5 * x @ slope
    return x, y + 0.05 * rng.normal(size=rows)


@pytest.fixture(scope="module")
def broken() -> Findings:
    return discover(*length_and_slope(0, 300, 6, broken=0.2), methods="permutations")


def test_a_symmetry_broken_by_a_fifth_is_offered_as_a_soft_model(broken):
    assert len(broken) == 0
    assert broken.best is None
    (near,) = broken.nearly
    assert near.group == "S(6)"
    assert near.approximate
    assert not near.confirmed
    assert near.verdict == "holds nearly"
    assert near.margin == pytest.approx(0.5 * (1 - 1 / 720))  # of 720 elements
    assert 0.1 < near.effect < 0.35
    told = near.soft.comparison
    assert told.soft < 0.2 * told.strict
    assert told.soft < told.free
    assert told.p_value <= 0.05
    assert told.samples == near.samples == 90


def test_the_comparison_is_of_the_models_on_the_rows_held_out(broken):
    x, y = length_and_slope(0, 300, 6, broken=0.2)
    order = torch.randperm(300, generator=generator(0))  # as rows are taken
    held = order[three_way_split(300, seed=0)[2]].numpy()
    (near,) = broken.nearly
    soft = np.mean((near.predict(x[held])[:, 0] - y[held]) ** 2)
    strict = np.mean((near.predict(x[held], soft=False)[:, 0] - y[held]) ** 2)
    assert near.soft.comparison.soft == pytest.approx(soft, rel=1e-4)
    assert near.soft.comparison.strict == pytest.approx(strict, rel=1e-4)
    assert float(equivariance_error(near.model, torch.randn(8, 6), near.symmetry)) < 1e-5
    assert float(equivariance_error(near.soft.model, torch.randn(8, 6), near.symmetry)) > 1e-2


def test_what_is_offered_comes_back_from_disk_and_is_said(broken, tmp_path):
    again = Findings.load(broken.save(tmp_path))
    x = length_and_slope(1, 20, 6, broken=0.2)[0]
    for soft in (None, True, False):
        ours, loaded = (found.nearly[0].predict(x, soft=soft) for found in (broken, again))
        np.testing.assert_array_equal(loaded, ours)
    assert again.nearly[0].soft.comparison == broken.nearly[0].soft.comparison
    assert again.to_json() == json.loads(json.dumps(broken.to_json()))
    assert str(again) == str(broken)
    first, second, third, fourth = str(broken).splitlines()
    assert first == "no symmetry found"
    assert second.startswith("S(6), all positions: holds nearly (p")
    assert third.startswith("  mean loss on 90 samples held out: soft model 0.0")
    assert fourth.startswith("  the soft model is 0.0")


def test_the_command_line_says_it(broken):
    from isotropy.cli._discover import _together
    from isotropy.cli._discover_run import discovery_text

    found = {"table.csv": broken}
    text = discovery_text(found, {})
    told = broken.nearly[0].soft.comparison
    for line in (str(broken.nearly[0]), str(told), told.gain):
        assert f"  {line}\n" in text
    (near,) = _together(found, named=True)["nearly"]
    assert near["data"] == "table.csv"
    assert near["soft"]["comparison"]["free"] == told.free
    assert near["soft"]["model"]["model"]["kind"] == "soft"


def test_files_without_what_holds_nearly_are_read(tmp_path):
    Findings([Finding.of("S(3)", "S(3)", "all", "swaps")]).save(tmp_path)
    for path in (tmp_path / "findings.json", tmp_path / "finding-1" / "finding.json"):
        given = json.loads(path.read_text())
        for key in ("nearly", "soft", "has_soft_weights"):
            given.pop(key, None)
        path.write_text(json.dumps(given))
    found = Findings.load(tmp_path)
    assert found.nearly == ()
    assert found[0].soft is None


def test_an_exact_symmetry_stays_strict():
    found = discover(*length_and_slope(0, 300, 6, broken=0.0), methods="permutations")
    assert [f.group for f in found] == ["S(6)"]
    assert not found[0].approximate
    assert found[0].soft is None
    assert found.nearly == ()


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_offered_where_there_is_no_symmetry(seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(300, 5))
    y = np.tanh(x @ rng.normal(size=(5, 6))) @ rng.normal(size=6) + 2 * x @ rng.normal(size=5)
    found = discover(x, y + 0.1 * rng.normal(size=300), methods="permutations", seed=seed)
    assert found.nearly == ()


def test_it_is_looked_for_only_where_asked():
    data = length_and_slope(0, 300, 6, broken=0.2)
    none = DiscoverOptions(near_margin=0.0)
    assert discover(*data, methods="permutations", options=none).nearly == ()
    assert discover(*data, methods="permutations", fit_models=False).nearly == ()


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan")])
def test_shares_that_are_none_are_refused(share):
    with pytest.raises(ValueError, match=r"expected a near_margin of at least 0 and below 1, got"):
        discover(
            *length_and_slope(0, 80, 4, broken=0.2), options=DiscoverOptions(near_margin=share)
        )


def test_keywords_that_became_options_still_work():
    with (
        pytest.warns(DeprecationWarning, match=r"options=DiscoverOptions\(near_margin=…\)"),
        pytest.raises(ValueError, match=r"expected a near_margin of at least 0 and below 1, got"),
    ):
        discover(*length_and_slope(0, 80, 4, broken=0.2), near_margin=2.0)  # type: ignore[call-arg]


def test_being_as_good_as_the_free_predictor_is_not_enough(monkeypatch):
    """Positive weights: all permutations cost far less than half, and rows tell each weight."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 5))
    y = x @ np.array([0.6, 1.9, 1.0, 1.4, 0.8]) + 0.2 * rng.normal(size=600)
    compared = []

    def kept(*losses, **options):
        compared.append(compare_soft(*losses, **options))
        return compared[-1]

    monkeypatch.setattr("isotropy.discovery.modelling._soft_model.compare_soft", kept)
    found = discover(x, y, methods="permutations")
    assert len(found) == 0
    assert found.nearly == ()
    assert compared
    for told in compared:
        assert told.soft == pytest.approx(told.free, rel=0.05)
        assert told.soft < 0.5 * told.strict


def test_what_a_linear_model_gains_over_trees_is_not_the_symmetrys():
    """Whoever fits trees to few rows of a linear target, loses to a linear model of any kind."""
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(300, 4)))
    y = x @ torch.tensor([[0.5], [1.0], [1.5], [2.0]]).double()
    data = TaskData.of(
        load((x, y + 0.5 * torch.as_tensor(rng.normal(size=(300, 1)))), task="regression")
    )
    seen, outside = data.rows(np.arange(200)), data.rows(np.arange(200, 300))
    strict, spec = fit_symmetric_model(
        Symmetry(S(4), V, Scalar), seen.x, seen.y, "regression", linear=True
    )
    poor = FreePredictor("linear and trees", lambda x: 0 * x[:, :1], torch.zeros(1), 1.0)
    told = soft_offer(strict, spec, seen, outside, poor).comparison
    ones = [torch.ones(len(part.x), 1, dtype=torch.float64) for part in (seen, outside)]
    weights = torch.linalg.lstsq(torch.cat([seen.x, ones[0]], 1), seen.y).solution
    left = torch.cat([outside.x, ones[1]], 1) @ weights - outside.y
    assert told.free == pytest.approx(float(left.square().mean()), rel=1e-3)
    assert told.p_value > 0.05


def test_a_confirmed_symmetry_that_costs_something_has_a_soft_model():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    y = (x @ np.array([1.2, 0.8, 1.1, 0.9]))[:, None] + 0.1 * rng.normal(size=(600, 1))
    # all permutations alone, though four weights so near each other may be a coincidence
    with replaced(ProposingThresholds(coincidence=1.0, cheap_group=1.0, most_groups=1)):
        (finding,) = discover(x, y, methods="permutations")
    assert finding.group == "S(4)"
    assert finding.approximate
    assert finding.verdict == "confirmed"
    told = finding.soft.comparison
    assert told.better_than_strict > 3 * told.strict_error
    assert told.soft == pytest.approx(told.free, rel=0.05)
    # the strict model of a symmetry that is confirmed has it still; the better one is asked
    turned = np.roll(x[:5], 1, axis=1)
    strict = [finding.predict(rows, soft=False) for rows in (turned, x[:5])]
    np.testing.assert_allclose(*strict, atol=1e-5)
    lines = str(Findings([finding])).splitlines()
    assert [line[:12] for line in lines] == ["S(4), all po", "  mean loss ", "  the soft m"]


def test_the_linear_fit_is_ridge_regression_towards_the_symmetry():
    """With one output, W = a 1ᵀ + B: the same minimum from the normal equations."""
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(60, 4, generator=rng)
    y = x @ torch.tensor([[1.0], [1.2], [0.7], [1.5]]) + 0.3 * torch.randn(60, 1, generator=rng)
    symmetry = Symmetry(S(4), V, Scalar)
    strict, spec = fit_symmetric_model(symmetry, x, y, "regression", linear=True)
    soft, described = fit_soft_model(strict, spec, x, y, "regression", free_variances=[1e-2])
    z = ((x - soft.x_mean) / soft.x_scale).double()
    wanted = ((y - soft.y_mean) / soft.y_scale).double()
    # columns: a (unit of the orthonormal basis), B, and both biases
    one = torch.ones(60, 1, dtype=torch.float64)
    features = torch.cat([z.sum(1, keepdim=True) / 2, z, one, one], 1)
    loose, tight = described["model"]["variances"]
    precisions = torch.tensor([1 / loose, *[1 / tight] * 4, 1 / loose, 1 / tight]).double()
    gram = features.mT @ features + torch.diag(precisions) / 2
    weights = torch.linalg.solve(gram, features.mT @ wanted)
    expected = (features @ weights).float() * soft.y_scale + soft.y_mean
    torch.testing.assert_close(soft(x), expected, atol=1e-4, rtol=1e-4)


def test_the_variance_is_the_best_on_the_rows_that_stopped_the_strict_fit():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(80, 4, generator=rng)
    y = x @ torch.tensor([[1.0], [1.2], [0.7], [1.5]]) + 0.5 * torch.randn(80, 1, generator=rng)
    groups = np.repeat(np.arange(40), 2)
    given = (Symmetry(S(4), V, Scalar), x, y, "regression")
    strict, spec = fit_symmetric_model(*given, linear=True, groups=groups, seed=3)
    draws = FitDraws.of(3, 80, groups)
    assert not set(groups[draws.rest]) & set(groups[draws.held])
    assert len(draws.held) == 16
    reached = {}
    for variance in (1e-4, 1e-2, 1.0):
        rest = (x[draws.rest], y[draws.rest])
        # the units are those of all rows: so is the strict model that gives them
        part, _ = fit_soft_model(strict, spec, *rest, "regression", free_variances=[variance])
        with torch.no_grad():
            left = part(x[draws.held]) - y[draws.held]
        reached[variance] = float(left.square().mean())
    _, described = fit_soft_model(
        *(strict, spec, x, y, "regression"),
        free_variances=list(reached),
        groups=groups,
        seed=3,
    )
    assert described["model"]["variances"][1] == min(reached, key=reached.__getitem__)


@pytest.mark.parametrize("variances", [[], [0.0], [1.0, -1.0]], ids=["none", "zero", "negative"])
def test_variances_that_are_none_are_refused(variances):
    x = torch.randn(30, 3)
    y = x.sum(1, keepdim=True)
    fitted = fit_symmetric_model(Symmetry(S(3), V, Scalar), x, y, "regression", linear=True)
    with pytest.raises(ValueError, match=r"expected positive variances to choose from, got \["):
        fit_soft_model(*fitted, x, y, "regression", free_variances=variances)


def test_descriptions_of_soft_models_are_built():
    inner = {"kind": "emlp", "channels": "4*V+4*Scalar", "layers": 1}
    spec = {"kind": "standardised", "model": {"kind": "soft", "model": inner, "variances": [9, 2]}}
    symmetry = Symmetry(S(3), V, Scalar)
    model = build_model(spec, symmetry)
    sums = [module for module in model.modules() if isinstance(module, PathSum)]
    assert sums[-1].prior_variances == pytest.approx({"strict": 9, "free": 2})
    with pytest.raises(ValueError, match=r"expected a model of kind 'soft' with model, variances"):
        build_model({"kind": "soft", "model": inner}, symmetry)
    with pytest.raises(ValueError, match=r"variances of zero or more, got"):
        build_model({"kind": "soft", "model": inner, "variances": [1, -1]}, symmetry)


def test_the_comparison_agrees_with_a_paired_test():
    from scipy.stats import ttest_rel

    rng = np.random.default_rng(0)
    soft = rng.normal(size=400) ** 2
    strict, free = soft + np.array([[0.5], [0.05]]) + 0.5 * rng.normal(size=(2, 400))
    told = compare_soft(soft, strict, free)
    assert told.free - told.soft == pytest.approx(told.better_than_free)
    paired = ttest_rel(soft, free, alternative="less")
    assert told.better_than_free / told.free_error == pytest.approx(-paired.statistic)
    assert paired.pvalue <= told.p_value < 1.5 * paired.pvalue
    assert compare_soft(soft, strict, free, rivals=[soft - 0.1]).p_value > 0.99
    twice = [np.repeat(losses, 2) for losses in (soft, strict, free)]
    grouped = compare_soft(*twice, groups=np.repeat(np.arange(400), 2))
    assert grouped == told
    worse = compare_soft(free + 1, strict, free)
    assert worse.gain.startswith("the soft model is 1 ± ")
    assert "above the free one" in worse.gain


def test_losses_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"expected as many losses of each model, got 3 of soft"):
        compare_soft(np.ones(3), np.ones(4), np.ones(4))
    with pytest.raises(ValueError, match=r"expected finite losses of strict, got 1 of 3"):
        compare_soft(np.ones(3), [1, np.nan, 1], np.ones(3))


def test_predicting_with_a_soft_model_that_is_not_there_is_refused():
    plain = Finding.of("S(3)", "S(3)", "all", "swaps")
    with pytest.raises(ValueError, match=r"expected a soft model of 'S\(3\)' to predict with"):
        plain.predict(np.zeros((2, 3)), soft=True)
    told = SoftComparison(0.5, 0.4, 0.3, 0.2, 0.02, 0.1, 0.03, 1e-4, 100)
    offer = SoftOffer(told, torch.nn.Linear(3, 1))
    with pytest.raises(ValueError, match=r"expected a description \(model_spec\) of the model"):
        Finding.of("S(3)", "S(3)", "all", "swaps", soft=offer).save("nowhere")


def test_a_continuous_symmetry_is_offered_too(tmp_path, monkeypatch):
    # in two dimensions a kernel is as good as any soft model

    def nothing(rows):
        return torch.zeros(len(rows), 1, dtype=torch.float64)

    pair = lambda *given: (nothing, nothing)  # noqa: E731
    monkeypatch.setattr("isotropy.discovery.predictors._smooth_fit.kernel_pair", pair)
    kernel = lambda *given, **options: nothing  # noqa: E731
    monkeypatch.setattr("isotropy.discovery.predictors._free_predictor.fit_kernel", kernel)
    rng = np.random.default_rng(1)
    x = rng.normal(size=(600, 2))
    around = np.sin(2 * np.hypot(*x.T))
    y = 0.9 * (around - around.mean()) / around.std() + 0.45 * x[:, 0]
    with replaced(ModellingThresholds(continuous_channels=64)):
        found = discover(x, y + 0.05 * rng.normal(size=600), methods="generators")
    assert len(found) == 0
    (near,) = found.nearly
    assert near.name == "SO(2), acting on (x0, x1)"
    assert 0.05 < near.effect < 0.4
    told = near.soft.comparison
    assert told.soft < 0.2 * told.strict
    assert told.soft < told.free
    again = Findings.load(found.save(tmp_path)).nearly[0]
    np.testing.assert_array_equal(again.predict(x), near.predict(x))
