"""From data to named symmetries, through the public verb."""

import itertools
import json
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

import isotropy
from isotropy.data import Dataset
from isotropy.discovery import DiscoverOptions, Findings
from isotropy.discovery import discover as discover_all
from isotropy.equivariance import equivariance_error

# continuous symmetries have tests of their own
discover = partial(discover_all, methods=("permutations",))


def with_noise(rng, y, noise=0.2):
    return y + noise * rng.normal(size=y.shape)


_ROWS = 600
_NOISE, _SMALL_NOISE = 0.3, 0.01


def known_tasks(seed: int = 0) -> dict[str, Dataset]:
    """Data sets by name, with noise: sums, circular filters, a ring, a mass, and no symmetry."""
    rng = np.random.default_rng(seed)
    signs = np.where(np.arange(10) % 2, 1.0, -1.0)
    made: dict[str, tuple[int, Callable[[np.ndarray], np.ndarray]]] = {
        "sum": (10, lambda x: x.sum(1, keepdims=True)),
        "signed sum": (10, lambda x: x @ signs[:, None]),
        "circular filter": (12, lambda x: _filtered(x, [1.0, 3.0, 5.0])),
        "palindromic filter": (10, lambda x: _filtered(x, [2.0, 5.0, 2.0])),
        "products around a ring": (
            6,
            lambda x: (x * np.roll(x, -1, axis=1)).sum(1, keepdims=True),
        ),
        "different weights": (8, lambda x: x @ rng.normal(size=(8, 1))),
    }
    tasks = {}
    for name, (width, target) in made.items():
        x = rng.normal(size=(_ROWS, width))
        y = target(x)
        y = y + _NOISE * rng.normal(size=y.shape)
        tasks[name] = Dataset(torch.as_tensor(x), torch.as_tensor(y), source=name)
    tasks["invariant mass"] = _invariant_mass(rng)
    return tasks


def _invariant_mass(rng: np.random.Generator) -> Dataset:
    """Two four-momenta in each row, and the mass of the pair, a little off."""
    momenta = rng.normal(size=(_ROWS, 2, 3))
    masses = rng.uniform(0.5, 1.5, size=(_ROWS, 2, 1))
    energies = np.sqrt(masses**2 + (momenta**2).sum(2, keepdims=True))
    both = np.concatenate([energies, momenta], 2)
    total = both.sum(1)
    mass = np.sqrt(total[:, :1] ** 2 - (total[:, 1:] ** 2).sum(1, keepdims=True))
    return Dataset(
        torch.as_tensor(both.reshape(_ROWS, 8)),
        torch.as_tensor(mass + _SMALL_NOISE * rng.normal(size=mass.shape)),
        x_names=tuple(f"{axis}{i}" for i in (1, 2) for axis in ("E", "px", "py", "pz")),
        y_names=("M",),
        source="invariant mass",
    )


def _filtered(x: np.ndarray, taps: list[float]) -> np.ndarray:
    """A circular cross-correlation, centred on the middle tap."""
    half = len(taps) // 2
    return np.asarray(sum(g * np.roll(x, half - j, axis=1) for j, g in enumerate(taps)))


EXPECTED = {
    "sum": ("S(10), all positions", "S(10)", 3628800),
    "signed sum": ("S(5)+S(5), even and odd positions", "S(5)+S(5)", 14400),
    "circular filter": ("Z(12), cyclic shift", "Z(12)", 12),
    "palindromic filter": ("D(10), shifts and reflections", "D(10)", 20),
    "products around a ring": ("D(6), shifts and reflections", "D(6)", 12),
    "different weights": None,
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_examples_are_named(name):
    found = discover(known_tasks()[name], fit_models=False)
    expected = EXPECTED[name]
    if expected is None:
        assert len(found) == 0
        assert found.best is None
        return
    assert len(found) == 1
    best = found[0]
    assert (best.name, best.group, best.order) == expected
    assert best.confirmed
    assert best.p_value < 0.01
    assert not best.approximate
    assert abs(best.effect) < 0.02


def test_the_model_has_the_symmetry_and_comes_back_from_disk(tmp_path):
    found = discover(known_tasks()["circular filter"])
    model = found[0].model
    assert float(equivariance_error(model, torch.randn(8, 12), found[0].symmetry)) < 1e-5
    told = found[0].comparison
    assert told.strict < told.constant
    assert [rows for rows, _, _ in told.curve] == [52, 140, 420]
    assert found[0].equivariance_error < 1e-5
    assert found[0].examples.shape == (3, 4, 12)
    again = Findings.load(found.save(tmp_path / "found"))
    x = torch.randn(5, 12, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(again[0].model(x), model(x))
    assert again[0].name == found[0].name


def test_the_largest_group_alone_is_reported_in_the_names_of_columns():
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(400, 5)))
    weights = torch.tensor([1.0, 1.0, 4.0, 1.0, -2.0], dtype=torch.float64)
    y = torch.as_tensor(with_noise(rng, (x @ weights)[:, None].numpy(), 0.05))
    names = ("height", "width", "age", "depth", "mass")
    found = discover(Dataset(x, y, x_names=names), fit_models=False)
    assert [f.order for f in found] == [6]
    assert found[0].action == "any permutation of height, width, depth, the output stays"


def test_columns_that_do_not_matter_are_a_trivial_symmetry():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6))
    y = with_noise(rng, x[:, 0] - 2 * x[:, 1] + 4 * x[:, 2])
    found = discover(x, y, fit_models=False)
    assert len(found) == 0
    assert [f.trivial for f in found.trivial] == ["the target does not depend on x3, x4, x5"]


def test_sets_of_vectors_are_permuted_along_their_positions():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 5, 2))
    y = with_noise(rng, (x[:, :, 0] * x[:, :, 1]).sum(1) + x[:, :, 0].sum(1))
    found = discover(x, y)
    assert [f.name for f in found] == ["S(5), all positions"]
    assert str(found[0].symmetry) == "S(5): 2*V >> Scalar"
    first = discover(
        np.moveaxis(x, 2, 1), y, options=DiscoverOptions(channels_first=True), fit_models=False
    )
    assert [f.name for f in first] == ["S(5), all positions"]


def test_sequences_to_sequences_with_channels():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6, 2))
    y = np.stack(
        [x[..., 0] + 2 * np.roll(x[..., 1], -1, 1), 3 * np.roll(x[..., 0], -2, 1) - x[..., 1]], -1
    )
    found = discover(x, with_noise(rng, y))
    assert [f.name for f in found] == ["Z(6), cyclic shift"]
    assert str(found[0].symmetry) == "Z(6): 2*V >> 2*V"


def test_classes_stay_while_inputs_move():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 6))
    total = x.sum(1) + 0.3 * rng.normal(size=900)
    y = np.where(total < -1, 0, np.where(total < 1, 1, 2))
    found = discover(x, y, fit_models=False)
    assert [f.name for f in found] == ["S(6), all positions"]


def test_a_network_is_used_where_polynomials_do_not_do():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1500, 5))
    found = discover(x, with_noise(rng, x.max(1), 0.05), fit_models=False)
    assert "network" in found.notes[0]
    assert [f.name for f in found] == ["S(5), all positions"]


def test_candidates_of_the_user_are_tried():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 6))
    y = with_noise(rng, x[:, :3].sum(1) - 3 * x[:, 3:].sum(1))
    found = discover(x, y, candidates=["S(3)+S(3)"], fit_models=False)
    assert found[0].method == "candidate S(3)+S(3)"
    with pytest.raises(ValueError, match=r"expected candidate groups that permute 6 positions"):
        discover(x, y, candidates=["Z(5)"])


def test_false_claims_are_rare_where_there_is_no_symmetry():
    """Linear, quadratic and no signal; more kinds in benchmarks/false_claims.py."""
    false = 0
    for seed in range(9):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(4, 10))
        x = rng.normal(size=(200, n))
        target = [
            x @ rng.normal(size=n),
            x @ rng.normal(size=(n, 3)),
            rng.normal(size=200),
        ][seed % 3]
        false += len(discover(x, with_noise(rng, target), fit_models=False, seed=seed)) > 0
    assert false == 0


def test_seeds_repeat_and_json_has_what_the_command_line_promises():
    task = known_tasks()["signed sum"]
    first = discover(task, seed=4, fit_models=False).to_json()
    second = discover(task, seed=4, fit_models=False).to_json()
    first.pop("seconds"), second.pop("seconds")
    assert first == second
    assert json.loads(json.dumps(first)) == first
    wanted = "name group order action approximate confirmed p_value effect"
    assert set(wanted.split()) <= set(first["findings"][0])


def bump_and_product():
    """Two pairs of columns that change places, in 400 rows with a little noise."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    y = np.exp(-(x[:, 0] ** 2) - x[:, 1] ** 2) + x[:, 2] * x[:, 3]
    return x, y + 0.02 * rng.normal(size=400)


@pytest.fixture(scope="module")
def both_swaps():
    return discover(*bump_and_product())


def test_findings_are_the_same_however_slow_the_machine_is(both_swaps, monkeypatch):
    """Hours between any two looks at a clock change nothing but the time that is reported."""
    hours = itertools.count(0.0, 3600.0)
    for clock in ("monotonic", "perf_counter", "time"):
        monkeypatch.setattr(f"time.{clock}", lambda: next(hours))
    slow = discover(*bump_and_product())
    first, second = ({**found.to_json(), "seconds": 0.0} for found in (both_swaps, slow))
    assert first == second
    assert slow[0].comparison.curve  # a slow search has its curve, too
    x, _ = bump_and_product()
    np.testing.assert_array_equal(slow[0].predict(x), both_swaps[0].predict(x))


def test_what_is_tested_at_the_wide_margin_is_tested_at_the_strict_one_first(both_swaps):
    """A chance of coincidence of .09 took this out before the test, and it was to hold nearly."""
    assert both_swaps.best.name.startswith("S(2)+S(2)")
    assert both_swaps.best.effect < 0.01
    assert both_swaps.nearly == ()


def test_progress_is_told():
    steps = []
    discover(known_tasks()["sum"], fit_models=False, options=DiscoverOptions(progress=steps.append))
    assert [s.done for s in steps] == sorted(s.done for s in steps)
    assert any(s.message.startswith("testing claims, about") for s in steps)


def test_groups_of_rows_are_kept_together():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.normal(size=(150, 5)), 4, axis=0)
    y = with_noise(rng, x.sum(1))
    found = discover(x, y, groups=np.repeat(np.arange(150), 4), fit_models=False)
    assert found[0].samples == 45  # three tenths of the groups


def test_the_verb_is_at_the_top():
    assert isotropy.discover is discover_all


@pytest.mark.parametrize(
    ("x", "y", "sentence"),
    [
        (np.zeros((100, 1)), np.arange(100.0), r"at least 2 positions to permute, got 1"),
        (np.ones((100, 3)), np.ones(100) * 0.5, r"targets that vary, got the same in every row"),
        (np.full((100, 3), np.nan), np.arange(100.0), r"finite|nan"),
        (np.zeros((30, 3)), np.arange(30.0) / 7, r"at least 66 samples .* got 30"),
        (np.zeros((100, 3, 8, 8, 2)), np.arange(100.0), r"or images of shape \(rows, channels"),
        (np.zeros((100, 3)), np.arange(90.0), r"as many targets as inputs|got 90 and 100"),
        (np.zeros((100, 3)), None, r"expected targets y beside the inputs, got none"),
    ],
    ids=["one column", "constant", "nan", "few rows", "axes", "lengths", "no targets"],
)
def test_bad_input_is_refused_in_one_sentence(x, y, sentence):
    with pytest.raises(ValueError, match=sentence):
        discover(x, y)


def test_a_symmetry_of_the_linear_part_alone_is_not_claimed():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1000, 6))
    found = discover(x, x.sum(1) + 1.2 * np.sin(4 * x[:, 0]), fit_models=False)
    assert "S(6)" not in [f.group for f in found]


def test_correlated_inputs_do_not_pass_for_a_symmetry():
    false = 0
    for seed in range(5):
        rng = np.random.default_rng([9, seed])
        x = 0.99 * rng.normal(size=(300, 1)) + 0.14 * rng.normal(size=(300, 6))
        y = x @ rng.normal(size=6)
        false += len(discover(x, with_noise(rng, y, 0.3 * y.std()), fit_models=False)) > 0
    assert false == 0


def test_what_moves_only_ignored_columns_is_no_discovery():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(900, 7))
    y = np.abs(x[:, 3]) + np.sin(2 * x[:, 3]) + 0.05 * rng.normal(size=900)
    assert len(discover(x, y, fit_models=False)) == 0


def test_a_sum_of_columns_that_could_be_blocks_is_one_combination():
    """Of which a predictor is fitted, that must not look for blocks in it."""
    rng = np.random.default_rng([5, 1, 0])
    n, rows = 2 * int(rng.integers(2, 7)), int(rng.choice([200, 400, 800]))
    x = rng.normal(size=(rows, n))
    y = x.sum(1)
    found = discover_all(x, y + 0.1 * y.std() * rng.normal(size=rows), fit_models=False)
    assert [f.group for f in found] == ["S(4)"]
    assert [f.trivial for f in found.trivial] == ["the target depends on x0 + x1 + x2 + x3 alone"]


def test_names_say_which_columns_are_permuted():
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(800, 5)))
    y = x[:, :3].square().sum(1) + x[:, 3] * (1 + x[:, 4]) ** 2
    names = ("north", "middle", "south", "hour", "load")
    found = discover(Dataset(x, y[:, None], x_names=names), fit_models=False)
    assert [f.name for f in found] == ["S(3), columns north…south"]
    assert any(isinstance(one, dict) and one["name"] == found[0].name for one in found.tried)


def test_constant_columns_and_columns_of_other_scales_are_no_hindrance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(800, 5))
    x[:, 4] = 1
    found = discover(x, with_noise(rng, x[:, :4].sum(1), 0.1), fit_models=False)
    assert [f.name for f in found] == ["S(4), positions 0–3"]
    x = rng.normal(size=(800, 6))
    x[:, :3] *= 1e6
    y = 1e-6 * x[:, :3].sum(1) - 2 * x[:, 3:].sum(1)
    found = discover(x, with_noise(rng, y, 0.1), fit_models=False)
    assert [f.group for f in found] == ["S(3)+S(3)"]


def test_outputs_on_pairs_of_inputs_come_back_from_disk(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 4))
    i, j = np.triu_indices(4, 1)
    found = discover(x, with_noise(rng, x[:, i] + x[:, j], 0.1))
    assert found[0].group == "S(4)"
    again = Findings.load(found.save(tmp_path))
    assert str(again[0].symmetry) == str(found[0].symmetry)
    np.testing.assert_allclose(again[0].predict(x), found[0].predict(x))
    with pytest.raises(ValueError, match=r"expected inputs of \d+ numbers in each row"):
        again[0].predict(x[:, 1:])


@pytest.mark.parametrize("channels_first", [False, True])
def test_predictions_have_the_layout_of_the_data(channels_first):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 5, 2))
    y = x[..., ::-1] + 2 * np.roll(x, -1, 1)
    given = (np.moveaxis(x, 2, 1), np.moveaxis(y, 2, 1)) if channels_first else (x, y)
    found = discover(
        given[0],
        with_noise(rng, given[1], 0.1),
        options=DiscoverOptions(channels_first=channels_first),
    )
    predicted = found[0].predict(given[0])
    assert predicted.shape == given[1].shape
    assert np.mean((predicted - given[1]) ** 2) < 0.01
    with pytest.raises(ValueError, match=r"expected inputs with 3 axes"):
        found[0].predict(x.reshape(300, -1))


def test_a_rare_class_is_no_hindrance():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 5))
    y = (x.sum(1) > 0).astype(int)
    y[:3] = 2
    discover(x, y, fit_models=False)


def test_frames_keep_their_names_and_nothing_learned_is_said():
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    x = pandas.DataFrame(rng.normal(size=(300, 3)), columns=["a", "b", "c"])
    found = discover(x, with_noise(rng, x.to_numpy().sum(1), 0.05), fit_models=False)
    assert found[0].action == "any permutation of a, b, c, the output stays"
    noise = discover(x, rng.normal(size=300), fit_models=False)
    assert any("nothing can be claimed" in note for note in noise.notes)


def test_more_columns_than_rows_to_fit_polynomials_with():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(120, 50))
    found = discover(x, with_noise(rng, x.sum(1), 0.1), fit_models=False)
    assert any("no linear fit: 48 rows for 50 terms" in one for one in found.tried)
    assert {f.group for f in found} <= {"S(50)"}
    sines = np.sin(2 * x[:, :1]) + np.sin(2 * x[:, 1:2])
    discover(x, with_noise(rng, sines, 0.1), fit_models=False)
