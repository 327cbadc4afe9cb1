"""Sets of groups found among images, through the public verb, with short schedules."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sympy.combinatorics import Permutation, PermutationGroup
from torch import Tensor

from discovery.pieces import Step, build_model, json_text
from isotropy.certificates._finding_networks import CannotCertify, networks_for
from isotropy.discovery import DiscoverOptions, Findings, discover
from isotropy.discovery.claims._layer_group_claim import LayerGroupClaim
from isotropy.discovery.predictors import _train_classifier
from isotropy.discovery.proposing.layer_groups import _group_search_children, _image_group_search
from isotropy.discovery.proposing.layer_groups._group_search_space import group_space
from isotropy.groups import GRID_TRANSFORMATIONS, parse_group
from isotropy.report import finding_page
from isotropy.search import ChildProposal, GridChild, SearchResult, SearchSpace, State
from isotropy.search._search_result import ScoredChild

SIDE = 8
NAMES = ("rotation", "horizontal flip", "vertical scramble")


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_image_group_search, "_SEEDS", 2)
    monkeypatch.setattr(_train_classifier, "_STEPS", 150)


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
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_image_group_search, "_SEEDS", 2)
        patch.setattr(_train_classifier, "_STEPS", 150)
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
    fitted = [step for step in said if step.message.startswith("fitted")]
    assert [step.done for step in fitted] == list(range(1, len(fitted) + 1))
    assert fitted[-1].done == fitted[-1].total


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
    with pytest.raises(CannotCertify, match="some layers of a network"):
        networks_for(found[0], (1, 8, 8), 3)


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
        if step.done == done:
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
    assert any("nothing" in note or "no claim stands" in note for note in found.notes)


def _pretended(monkeypatch: pytest.MonkeyPatch, scores: dict[tuple[str, ...], float]) -> None:
    """A search that says what it is told to."""

    def search(child: object, space: SearchSpace, **options: object) -> SearchResult:
        children = [
            ScoredChild(ChildProposal(space.network(space.state(*names))), accuracy, 10, 1, 0.0)
            for names, accuracy in scores.items()
        ]
        return SearchResult(space, tuple(children))

    monkeypatch.setattr(_group_search_children, "search_groups", search)


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
    losses: dict[State, Tensor] = {}
    draw = torch.Generator().manual_seed(0)

    class Pretended:
        """The free network does badly, one group alone well, the claim in between."""

        def __init__(self, *arguments: object) -> None:
            pass

        def losses(self, state: State) -> Tensor:
            mean = {0: 0.8, 1: 0.2}.get(len(state.groups), 0.5)
            losses[state] = mean + 0.01 * torch.randn(36, generator=draw)
            return losses[state]

        def accuracy(self, state: State) -> float:
            return 0.5

    monkeypatch.setattr(_image_group_search, "ComparedNetworks", Pretended)
    flip, scramble = NAMES[1:]
    _pretended(monkeypatch, {(): 0.5, (flip,): 0.4, (flip, scramble): 0.9})
    options = {"methods": "groups", "candidates": NAMES[1:], "fit_models": False}
    assert len(discover(*scrambled(120), **options)) == 0
    assert {len(state.groups) for state in losses} == {0, 1, 2}
    losses.clear()
    # where no single group was trained, those that the set is made of are its rivals
    _pretended(monkeypatch, {(): 0.5, (flip, scramble): 0.9})
    assert len(discover(*scrambled(120), **options)) == 0
    assert {State((flip,)), State((scramble,))} < set(losses)


def test_a_set_with_one_group_too_many_gives_way_to_the_set_without_it(monkeypatch):
    draw = torch.Generator().manual_seed(0)

    class Pretended:
        """Two groups do best, a third one costs, yet no more than to have one group only."""

        def __init__(self, *arguments: object) -> None:
            pass

        def losses(self, state: State) -> Tensor:
            mean = {2: 0.2, 3: 0.4}.get(len(state.groups), 0.5)
            return mean + 0.01 * torch.randn(36, generator=draw)

        def accuracy(self, state: State) -> float:
            return 0.5

    monkeypatch.setattr(_image_group_search, "ComparedNetworks", Pretended)
    scores = {(): 0.5, NAMES[:1]: 0.6, NAMES[:2]: 0.8, NAMES: 0.9}
    options = {"methods": "groups", "candidates": NAMES, "fit_models": False}
    _pretended(monkeypatch, scores)
    found = discover(*scrambled(120), **options)
    # turns and flips, without the scramble; turns alone do as well as no group
    assert [one.order for one in found] == [8, 4]
    _pretended(monkeypatch, {**scores, NAMES[:2]: 0.4})  # not claimed, and so no rival
    found = discover(*scrambled(120), **options)
    assert [one.layers[0]["type"] for one in found] == [", ".join(NAMES), "rotation"]


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
    written = parse_group(str(claim.group))
    # names that can be left out may enlarge the group, but move no weight that was alone
    assert written.order() == claim.order <= len(elements)
    for generator in written.discrete:
        assert tuple(generator.monomial().index.tolist()) in elements


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"methods": ["groups", "layers"]}, "expected the method 'groups' alone"),
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
def test_bad_options_are_refused_before_anything_is_trained(options, sentence, tmp_path):
    x, y = np.random.default_rng(0).normal(size=(90, 4, 6)), np.arange(90) % 2
    with pytest.raises(ValueError, match=sentence):
        discover(x, y, **{"methods": "groups", **options})


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


def test_what_is_confirmed_is_reported_best_first(monkeypatch):
    space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((8, 8),))
    names = [("horizontal flip",), ("vertical flip",), ("horizontal flip", "vertical flip")]
    claims = [LayerGroupClaim(space, space.state(*some)) for some in names]
    search = object.__new__(_image_group_search._GroupSearch)
    monkeypatch.setattr(search, "_finding", lambda claim, test: claim.state.groups, raising=False)
    tests = [SimpleNamespace(confirmed=one) for one in (True, False, True)]
    assert search._reported(claims, tests, fit_models=False) == [names[0], names[2]]


def test_a_cost_is_against_the_strongest_rival_and_p_against_all():
    space = SearchSpace((1, 8, 8), ("horizontal flip", "vertical flip"), ((8, 8),))
    draw = np.random.default_rng(0)
    noise = 0.2 * draw.random(400)
    losses = {
        space.state("horizontal flip"): torch.from_numpy(1.02 + noise),
        State(): torch.from_numpy(1.0 + noise),  # strong, and sure: the same rows are hard
        space.state("vertical flip"): torch.from_numpy(1.1 + 3 * draw.random(400)),  # weak, unsure
    }
    search = object.__new__(_image_group_search._GroupSearch)
    search.compared = SimpleNamespace(losses=losses.__getitem__)
    search.margin = search.level = 0.05
    search.outside = SimpleNamespace(groups=None)
    search._constant_losses = lambda: torch.full((400,), 3.0, dtype=torch.float64)
    claim = LayerGroupClaim(space, space.state("horizontal flip"))
    found = search._tested(claim, [State(), space.state("vertical flip")])
    alone = [search._tested(claim, [one]) for one in (State(), space.state("vertical flip"))]
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
        assert LayerGroupClaim(space, space.network(space.state(*names))).order == order
    everything = LayerGroupClaim(space, State(space.groups))
    alone = [
        one.permutations((8, 8), 8)[0].tolist()
        for one in space.transformations(State(space.groups))
    ]
    assert everything.order == PermutationGroup([Permutation(one) for one in alone]).order()
