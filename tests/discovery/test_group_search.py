"""Sets of groups found among images, through the public verb, with short schedules."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from sympy.combinatorics import Permutation, PermutationGroup
from torch import Tensor

from discovery.given_claims import Bench
from discovery.pieces import (
    GridBench,
    ImageData,
    LayerGroupClaim,
    LayerProposer,
    PredictorThresholds,
    Problem,
    ScoredChild,
    Step,
    TestingThresholds,
    build_model,
    generator,
    group_space,
    json_text,
    replaced,
)
from isotropy.certificates import certify_finding
from isotropy.data import load
from isotropy.discovery import DiscoverOptions, Findings, discover
from isotropy.groups import GRID_TRANSFORMATIONS, parse_group
from isotropy.report import finding_page
from isotropy.search import ChildProposal, GridChild, SearchResult, SearchSpace, State

SIDE = 8
NAMES = ("rotation", "horizontal flip", "vertical scramble")
SHORT = TestingThresholds(set_trainings=2), PredictorThresholds(image_steps=150)


@pytest.fixture(autouse=True)
def _short() -> Iterator[None]:
    with replaced(*SHORT):
        yield


def scrambled(n: int, noise: float = 1.5) -> tuple[Tensor, Tensor]:
    """One of three patterns, its halves swapped or not, mirrored or not, under noise."""
    draw = torch.Generator().manual_seed(0)
    patterns = torch.randn(3, SIDE, SIDE, generator=torch.Generator().manual_seed(5))
    y = torch.randint(3, (n,), generator=draw)
    swapped, mirrored = (torch.rand(n, 1, 1, generator=draw) < 0.5 for _ in range(2))
    x = torch.where(swapped, patterns[y].roll(SIDE // 2, 1), patterns[y])
    x = torch.where(mirrored, x.flip(2), x)
    return (x + noise * torch.randn(x.shape, generator=draw)).unsqueeze(1), y


def noise(n: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return torch.randn(n, 4, 4, generator=draw), torch.randint(2, (n,), generator=draw)


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Findings, Path, list[Step]]:
    """A search through all networks of three groups, its study, and what was told."""
    study, said = tmp_path_factory.mktemp("study") / "study.db", []
    with replaced(*SHORT):
        found = discover(
            *scrambled(600),
            methods="groups",
            candidates=NAMES,
            options=DiscoverOptions(study=study, progress=said.append),
        )
    return found, study, said


def test_a_planted_set_of_groups_is_found_and_helps(planted):
    found, _, _ = planted
    finding = found[0]
    assert finding.name == "layers that commute with horizontal flip and vertical scramble"
    assert finding.confirmed
    assert finding.p_value < 0.05
    assert finding.effect < 0  # it is better than the free network, and than one group alone
    assert finding.order == 4
    assert parse_group(finding.group).order() == 4
    assert [row["strict"] for row in finding.layers] == [True, True, False]
    # 64² weights of each layer, a quarter of them free: both motions move every pair of cells
    assert [row["weights"] for row in finding.layers] == [1024, 1024, 192]
    (gain,) = [note for note in finding.notes if note.startswith("gain in accuracy")]
    assert float(gain.split(": ")[1].split()[0]) > 0
    assert found.tried[0] == "8 children trained, no network twice, among 8 sets of groups"
    assert sum(str(one).startswith("child ") for one in found.tried) == 8
    json.loads(json_text(found.to_json()))


def test_progress_counts_children_and_names_the_best(planted):
    _, _, said = planted
    last = [step for step in said if "best so far" in step.message][-1]
    assert last.message.startswith("8 of 8 children, best so far 9")
    fitted = [step.message for step in said if step.message.startswith("fitted")]
    assert len(fitted) > 2
    for number, words in enumerate(fitted, 1):
        assert words.startswith(f"fitted {number} of {len(fitted)} networks, the last with ")
    assert said[-1].message.startswith("fitting models")
    assert [step.done for step in said] == sorted(step.done for step in said)


def test_the_model_commutes_up_to_its_last_layer(planted):
    model = planted[0][0].model
    x = torch.randn(5, 1, SIDE, SIDE)

    def hidden(images: Tensor) -> Tensor:
        units = (images.flatten(1) - model.standard[0]) / model.standard[1]
        for layer in model.layers:
            units = layer(units).relu()
        return units.unflatten(1, (8, 8))

    with torch.no_grad():
        torch.testing.assert_close(hidden(x.flip(3)), hidden(x).flip(2))
        torch.testing.assert_close(hidden(x.roll(4, 2)), hidden(x).roll(4, 1))
        turned = (hidden(x.rot90(1, (2, 3))) - hidden(x).rot90(1, (1, 2))).abs().max()
    assert turned > 0.01


def test_a_finding_is_saved_loaded_and_shown(planted, tmp_path):
    found = planted[0]
    loaded = Findings.load(found.save(tmp_path))
    x, y = scrambled(1000)
    said = loaded[0].predict(x[600:])
    np.testing.assert_allclose(said, found[0].predict(x[600:]), atol=1e-6)
    assert (said.argmax(1) == y[600:].numpy()).mean() > 0.9
    assert loaded[0].layers == found[0].layers
    page = finding_page(loaded)
    assert "horizontal flip and vertical scramble" in page
    assert "torch.randn(5, 1, 8, 8)" in page
    with pytest.raises(ValueError, match="some layers of a network"):
        certify_finding(found[0], (x, y))


def test_a_study_that_is_done_trains_no_child_again(planted, monkeypatch):
    found, study, _ = planted

    def trains(*arguments: object, **options: object) -> None:
        raise AssertionError("a child was trained again")

    monkeypatch.setattr(GridChild, "fit", trains)
    again = discover(
        *scrambled(600),
        methods="groups",
        candidates=NAMES,
        options=DiscoverOptions(study=study),
        fit_models=False,
    )
    assert again.tried == found.tried
    assert again[0].p_value == found[0].p_value
    assert again[0].model is None


@pytest.mark.parametrize("change", ["data", "seed", "groups"])
def test_a_study_of_another_search_is_refused_and_left_as_it_was(planted, change):
    _, study, _ = planted
    x, y = scrambled(600)
    options = {"candidates": NAMES[:2] if change == "groups" else NAMES}
    options["seed"] = 1 if change == "seed" else 0
    with pytest.raises(ValueError, match="expected a study with"):
        discover(
            x + (change == "data"),
            y,
            methods="groups",
            options=DiscoverOptions(study=study),
            **options,
        )
    assert len(SearchResult.of(study, "groups").children) == 8


def test_an_interruption_keeps_children_and_a_second_call_goes_on(tmp_path):
    x, y = scrambled(200)
    study, done = tmp_path / "study.db", 3

    def stop(step: Step) -> None:
        if step.message.startswith(f"{done} of 8 children"):
            raise KeyboardInterrupt

    options = {"methods": "groups", "candidates": NAMES, "fit_models": False}
    with pytest.raises(KeyboardInterrupt):
        discover(x, y, options=DiscoverOptions(study=study, progress=stop), **options)
    assert len(SearchResult.of(study, "groups").children) == done
    resumed = discover(x, y, options=DiscoverOptions(study=study), **options)
    whole = discover(x, y, **options)
    assert resumed.tried == whole.tried


def test_noise_gives_nothing():
    found = discover(
        *noise(200), methods="groups", candidates=NAMES, options=DiscoverOptions(children=5)
    )
    assert len(found) == 0
    assert not any(isinstance(one, dict) and one["confirmed"] for one in found.tried)
    assert any("nothing can be claimed" in note for note in found.notes)
    assert any(note.startswith("no claim stands") for note in found.notes)


def _pretended(monkeypatch: pytest.MonkeyPatch, scores: Mapping[tuple[str, ...], float]) -> None:
    """A search that says what it is told to."""

    def search(child: object, space: SearchSpace, **options: object) -> SearchResult:
        children = [
            ScoredChild(ChildProposal(space.network(space.state(*names))), accuracy, 10, 1, 0.0)
            for names, accuracy in scores.items()
        ]
        return SearchResult(space, tuple(children))

    where = "isotropy.discovery.proposing._layer_group_proposer.search_groups"
    monkeypatch.setattr(where, search)


def _losing(
    monkeypatch: pytest.MonkeyPatch, means: Mapping[int | State, float]
) -> dict[State, Tensor]:
    """Networks that lose so much, by their set or its size, else 0.5; filled with what is asked."""
    losses: dict[State, Tensor] = {}
    draw = torch.Generator().manual_seed(0)

    def lost(grids: GridBench, state: State) -> Tensor:
        mean = means.get(state, means.get(len(state.groups), 0.5))
        if state not in losses:
            losses[state] = mean + 0.01 * torch.randn(len(grids.outside.x), generator=draw)
        return losses[state]

    monkeypatch.setattr(GridBench, "network", lambda *_given: None)
    monkeypatch.setattr(GridBench, "losses", lost)
    monkeypatch.setattr(GridBench, "accuracy", lambda *_given: 0.5)
    return losses


def test_where_the_free_network_does_best_nothing_is_claimed(monkeypatch):
    _pretended(monkeypatch, {(): 0.9, ("rotation",): 0.8})
    found = discover(*scrambled(120), methods="groups", candidates=NAMES)
    assert len(found) == 0
    assert not any(isinstance(one, dict) for one in found.tried)
    assert "no set of groups did as well as the free network" in found.notes[-1]


def test_a_set_that_costs_is_not_confirmed_however_well_it_did_in_the_search(monkeypatch):
    names = ("rotation", "horizontal translation")
    _pretended(monkeypatch, {(): 0.5, names: 1.0})
    found = discover(*scrambled(400), methods="groups", candidates=names)
    claim = found.tried[-1]
    assert not claim["confirmed"]
    assert claim["effect"] > 0.05
    assert len(found) == 0
    assert any(note.startswith("no claim stands") for note in found.notes)


def test_a_single_group_is_a_rival_beside_the_free_network(monkeypatch):
    # the free network does badly, one group alone well, the claim in between
    losses = _losing(monkeypatch, {0: 0.8, 1: 0.2})
    flip, scramble = NAMES[1:]
    both = State((flip, scramble))
    _pretended(monkeypatch, {(): 0.5, (flip,): 0.4, (flip, scramble): 0.9})
    options = {"methods": "groups", "candidates": NAMES[1:], "fit_models": False}
    assert len(discover(*scrambled(120), **options)) == 0
    assert set(losses) == {State(), State((flip,)), both}
    losses.clear()
    # where no single group was trained, those that the set is made of are its rivals
    _pretended(monkeypatch, {(): 0.5, (flip, scramble): 0.9})
    assert len(discover(*scrambled(120), **options)) == 0
    assert set(losses) == {State(), State((flip,)), State((scramble,)), both}


def test_a_set_with_one_group_too_many_gives_way_to_the_set_without_it(monkeypatch):
    # two groups do best, a third one costs, yet no more than to have one group only
    _losing(monkeypatch, {2: 0.2, 3: 0.4})
    scores = {(): 0.5, NAMES[:1]: 0.6, NAMES[:2]: 0.8, NAMES: 0.9}
    options = {"methods": "groups", "candidates": NAMES, "fit_models": False}
    _pretended(monkeypatch, scores)
    found = discover(*scrambled(120), **options)
    # turns and flips, without the scramble; turns alone do as well as no group
    assert [one.order for one in found] == [8, 4]
    _pretended(monkeypatch, {**scores, NAMES[:2]: 0.4})  # not claimed, and so no rival
    found = discover(*scrambled(120), **options)
    assert [one.layers[0]["type"] for one in found] == [", ".join(NAMES), "rotation"]


@pytest.mark.parametrize("first", [0, 2])
def test_what_is_confirmed_is_reported_best_first(monkeypatch, first):
    names = ("horizontal flip", "vertical flip", "vertical scramble")
    _losing(monkeypatch, {1: 0.2, State(names[1:2]): 0.3})
    scores = {(names[first],): 0.9, (names[1],): 0.8, (names[2 - first],): 0.7, (): 0.5}
    _pretended(monkeypatch, scores)
    found = discover(
        *scrambled(120), methods="groups", candidates=names, fit_models=False, seed=first
    )
    told = [one for one in found.tried if isinstance(one, dict)]
    assert [one["confirmed"] for one in told] == [True, False, True]
    assert [one.layers[0]["type"] for one in found] == [names[first], names[2 - first]]
    assert [one.name for one in found] == [told[0]["name"], told[2]["name"]]
    assert not any(note.startswith("no claim stands") for note in found.notes)


def test_claims_are_corrected_for_being_several(monkeypatch):
    _losing(monkeypatch, {0: 0.49, 1: 0.505})
    options = {"methods": "groups", "candidates": NAMES, "fit_models": False}
    told = []
    for others in ({}, {NAMES[1:2]: 0.8, NAMES[2:]: 0.7}):
        _pretended(monkeypatch, {(): 0.5, NAMES[:1]: 0.9, **others})
        found = discover(*scrambled(120), **options)
        told.append([one["p_value"] for one in found.tried if isinstance(one, dict)])
    (alone,), several = told
    assert len(several) == 3
    assert 0 < alone < several[0]


def test_layers_and_motions_may_be_looked_for_in_the_same_call(monkeypatch):
    _losing(monkeypatch, {1: 0.2})
    _pretended(monkeypatch, {(): 0.5, NAMES[:1]: 0.9})
    asked = []

    def nothing(looking: object, *_given: object) -> Iterator[object]:
        asked.append(type(looking))
        yield from ()

    monkeypatch.setattr(LayerProposer, "propose", nothing)
    where = "isotropy.discovery.proposing._motion_proposer.MotionProposer.propose"
    monkeypatch.setattr(where, nothing)
    options = {"candidates": NAMES[:1], "fit_models": False}
    found = discover(*scrambled(120), methods=("groups", "layers"), **options)
    assert len(asked) == 2
    assert [one.name for one in found] == ["layers that commute with rotation"]


def test_what_was_fitted_before_an_interruption_is_tested(monkeypatch):
    _losing(monkeypatch, {2: 0.2, 1: 0.3})
    _pretended(monkeypatch, {(): 0.5, NAMES[:2]: 0.9, NAMES[:1]: 0.8, NAMES: 0.7})

    def network(grids: GridBench, state: State, seed: int) -> None:
        if state == State(NAMES):
            raise KeyboardInterrupt

    monkeypatch.setattr(GridBench, "network", network)
    options = DiscoverOptions(keep_on_interrupt=True)
    found = discover(*scrambled(120), methods="groups", candidates=NAMES, options=options)
    assert found.stopped == "interrupted while searching for sets of groups"
    assert [one.order for one in found] == [8, 4]
    assert found[0].model is None
    assert f"layers that commute with {', '.join(NAMES[:2])} and {NAMES[2]}: not tested" in (
        found.tried
    )


def test_time_that_runs_out_keeps_children_and_a_second_call_goes_on(tmp_path, monkeypatch):
    _losing(monkeypatch, {})
    options = {"methods": "groups", "candidates": NAMES[:1], "fit_models": False}
    kept = DiscoverOptions(study=tmp_path / "study.db", children=1)
    discover(*noise(100), options=kept, **options)

    def sleeping(*_given: object, **_options: object) -> None:
        time.sleep(60)

    kept = replace(kept, children=None)
    with monkeypatch.context() as patch:
        patch.setattr(GridChild, "fit", sleeping)
        found = discover(*noise(100), options=kept, budget=0.4, **options)
    assert "searching for sets of groups" in found.stopped
    assert "the budget of 1 s" in found.stopped
    assert len(found) == len(found.tried) == 0
    study = SearchResult.of(tmp_path / "study.db", "groups")
    assert (len(study.children), study.running) == (1, 0)
    found = discover(*noise(100), options=kept, **options)
    assert not found.stopped
    assert str(found.tried[0]).startswith("2 children trained")


@pytest.mark.parametrize("image", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (1, 9, 9), (1, 8, 12)])
def test_hidden_grids_let_as_many_groups_act_as_any_would(image):
    space = group_space(image)
    ((side, _),) = space.hidden
    acting = [
        sum(one.acts_on(image[1:], n) for one in GRID_TRANSFORMATIONS.values())
        for n in range(4, 21)
    ]
    assert len(space.groups) == max(acting) == acting[side - 4]


@pytest.mark.parametrize(
    "names",
    [
        ("rotation",),
        ("horizontal flip", "vertical translation"),
        ("rotation", "left vertical scramble"),
        ("horizontal scramble", "horizontal flip"),
    ],
)
def test_the_text_of_a_group_is_the_group_on_pixels(names):
    space = SearchSpace((1, 4, 4), (), ((4, 4),))
    claim = LayerGroupClaim(space, space.network(space.state(*names)))
    maps = [GRID_TRANSFORMATIONS[name].permutations(4)[0].tolist() for name in claim.state.groups]
    elements, coming = {tuple(range(16))}, [tuple(range(16))]
    while coming:
        element = coming.pop()
        for move in maps:
            moved = tuple(move[cell] for cell in element)
            if moved not in elements:
                elements.add(moved)
                coming.append(moved)
    written = parse_group(claim.statement.group)
    # names that can be left out may enlarge the group, but move no weight that was alone
    assert written.order() == claim.statement.order <= len(elements)
    for one in written.discrete:
        assert tuple(one.monomial().index.tolist()) in elements


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"methods": "layers", "options": DiscoverOptions(study="a.db")},
            "expected the method 'groups' with a study",
        ),
        (
            {"methods": "layers", "options": DiscoverOptions(strategy="tpe")},
            "'groups' with a strategy",
        ),
        ({"methods": "layers", "options": DiscoverOptions(children=3)}, "'groups' with children"),
        ({"candidates": ["rotations"]}, "expected a transformation among rotation, horizontal"),
        ({"candidates": ["rotation scramble"]}, "expected square grids, got 4 by 6"),
        (
            {"options": DiscoverOptions(strategy="guess")},
            "expected a strategy among lattice, dqn, random, tpe",
        ),
        ({"options": DiscoverOptions(children=0)}, "expected at least one child"),
        ({"blocks": 2}, "expected no blocks for images"),
    ],
)
def test_bad_options_are_refused_before_anything_is_trained(options, sentence):
    x, y = np.random.default_rng(0).normal(size=(90, 4, 6)), np.arange(90) % 2
    said = []
    watched = replace(options.get("options", DiscoverOptions()), progress=said.append)
    with pytest.raises(ValueError, match=sentence):
        discover(x, y, **{"methods": "groups", **options, "options": watched})
    assert not said


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        (
            np.zeros((90, 7)),
            "expected the method 'generators' or 'permutations' for vectors, got groups",
        ),
        ([np.zeros((4, 4)), np.zeros((4, 5))], "expected inputs of one shape"),
        (np.random.default_rng(0).normal(size=(90, 70, 4)), "expected images of at most 64 by 64"),
    ],
    ids=["table", "unequal", "large"],
)
def test_what_is_no_image_is_refused(x, sentence):
    with pytest.raises(ValueError, match=sentence):
        discover(x, np.arange(len(x)) % 2, methods="groups")


def test_a_grid_network_is_built_from_its_description():
    spec = {"kind": "grid network", "image": [2, 4, 6], "outputs": 3, "hidden": [4]}
    free, flipped = (build_model({**spec, "groups": g}) for g in ([], ["vertical flip"]))
    sizes = [sum(p.numel() for p in model.parameters()) for model in (free, flipped)]
    head = 16 * 3 + 3
    assert sizes == [2 * 24 * 16 + 16 + head, 24 * 16 + 8 + head]


def test_everything_but_the_study_works_without_optuna():
    script = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['optuna', 'sqlalchemy', 'psycopg', 'pgserver']))\n"
        "import isotropy.discovery as d\n"
        "s = d.SearchSpace((1, 8, 8), ('rotation',), ((4,),))\n"
        "for one in (d.LatticeSearch(s, 0), d.DeepQ(s, 0)):\n"
        "    assert one.propose({}, ()) is not None\n"
        "print(d.State(), d.search_groups.__name__, d.replay.__name__)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False
    )
    assert told.returncode == 0, told.stderr
    assert told.stdout.split() == ["no", "group", "search_groups", "replay"]


def test_every_subset_is_a_network_of_its_generators():
    space = group_space((1, 4, 4), NAMES)
    for chosen in product((False, True), repeat=3):
        names = [name for name, has in zip(NAMES, chosen, strict=True) if has]
        claim = LayerGroupClaim(space, space.network(space.state(*names)))
        assert space.network(space.state(*claim.generators)) == claim.state
        for name in claim.generators:
            fewer = [one for one in claim.generators if one != name]
            assert space.network(space.state(*fewer)) != claim.state


def test_a_cost_is_against_the_strongest_rival_and_p_against_all(monkeypatch):
    space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((8, 8),))
    rivals = State(), space.state("vertical flip")
    draw = np.random.default_rng(0)
    noise = 0.2 * draw.random(400)
    losses = {
        space.state("horizontal flip"): torch.from_numpy(1.02 + noise),
        rivals[0]: torch.from_numpy(1.0 + noise),  # strong, and sure: the same rows are hard
        rivals[1]: torch.from_numpy(1.1 + 3 * draw.random(400)),  # weak, unsure
    }
    flat = torch.full((400,), 3.0, dtype=torch.float64)
    monkeypatch.setattr(GridBench, "losses", lambda _grids, state: losses[state])
    monkeypatch.setattr(GridBench, "constant_losses", lambda _grids: flat)
    rows = ImageData.of(load(scrambled(400)))
    bench = Bench(Problem("images", rows, rows, rows, rows, rows), 0.05, 0.05)
    claim = LayerGroupClaim(space, space.state("horizontal flip"), rivals)
    found = claim.test(bench, generator(0)).test
    alone = [replace(claim, rivals=(one,)).test(bench, generator(0)).test for one in rivals]
    assert found.effect == alone[0].effect == pytest.approx(0.02 / (3 - 1.1), rel=0.02)
    assert found.interval == alone[0].interval
    assert found.p_value == max(one.p_value for one in alone)


def test_the_order_counts_all_groups_of_a_set():
    space = SearchSpace((1, 8, 8), (), ((8, 8),))
    for names, order in (
        (("rotation", "vertical flip"), 8),
        (("horizontal scramble", "top horizontal scramble"), 4),
        (("horizontal translation", "horizontal flip"), 16),
    ):
        claim = LayerGroupClaim(space, space.network(space.state(*names)))
        assert claim.statement.order == order
    everything = LayerGroupClaim(space, State(space.groups))
    alone = [
        one.permutations((8, 8), 8)[0].tolist()
        for one in space.transformations(State(space.groups))
    ]
    whole = PermutationGroup([Permutation(one) for one in alone])
    assert everything.group.order() == whole.order()
