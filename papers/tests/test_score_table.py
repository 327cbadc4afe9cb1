from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from isotropy.search import ChildProposal, SearchSpace, State
from isotropy_papers._all_networks import rules
from isotropy_papers.score_table import ScoreTable

GROUPS = (
    *("rotation", "horizontal flip", "vertical flip", "horizontal translation"),
    *("horizontal scramble", "vertical scramble", "left vertical scramble"),
    *("right vertical scramble", "top horizontal scramble"),
)
SPACE = SearchSpace((1, 8, 8), GROUPS, ((4,),))
NETWORKS = tuple(sorted({SPACE.network(state) for state in SPACE.states()}))


def made(space=SPACE, networks=NETWORKS, **changes):
    random = np.random.default_rng(0)
    shape = len(networks), 3, 4
    parts = {
        "name": "made up",
        "space": space,
        "networks": networks,
        "validation": random.integers(0, 201, shape),
        "test": random.integers(0, 1001, shape),
        "validation_rows": 200,
        "test_rows": 1000,
        "parameters": random.integers(1, 9999, len(networks)),
    }
    return ScoreTable(**{**parts, **changes})


def test_network_of_every_state_is_that_of_its_weights():
    table = made()
    assert all(table.network(state) == SPACE.network(state) for state in SPACE.states())


def test_networks_of_several_widths_are_told_apart():
    space = SearchSpace((1, 8, 8), ("rotation", "horizontal flip", "vertical flip"), ((4,), (6,)))
    networks = tuple({space.network(state): None for state in space.states()})
    table = made(space, networks)
    assert all(table.network(state) == space.network(state) for state in space.states())


def test_scores_are_shares_of_rows_after_the_epochs_asked_for():
    table = made()
    state = State(("rotation", "vertical flip"))
    row = NETWORKS.index(SPACE.network(state))
    assert table.score(ChildProposal(state), 2) == table.validation[row, 2, -1] / 200
    assert table.score(ChildProposal(state, 1), 0) == table.validation[row, 0, 0] / 200
    assert table.score(ChildProposal(state, None, state), 1) == table.validation[row, 1, -1] / 200
    assert table.test_score(ChildProposal(state, 2), 1) == table.test[row, 1, 1] / 1000
    assert table.best(1) == table.validation[:, 1, -1].max() / 200


def test_it_comes_back_from_its_file(tmp_path):
    table = made()
    table.save(tmp_path / "table.safetensors")
    back = ScoreTable.load(tmp_path / "table.safetensors")
    assert (back.name, back.space, back.networks) == (table.name, table.space, table.networks)
    assert (back.validation_rows, back.test_rows) == (200, 1000)
    for part in ("validation", "test", "parameters"):
        np.testing.assert_array_equal(getattr(back, part), getattr(table, part))


def test_other_files_are_refused(tmp_path):
    place = tmp_path / "table.safetensors"
    with pytest.raises(ValueError, match="expected the file of a score table"):
        ScoreTable.load(place)
    made().save(place)
    place.write_bytes(place.read_bytes()[:-100])
    with pytest.raises(ValueError, match="got a damaged file"):
        ScoreTable.load(place)
    save_file({"x": torch.zeros(1)}, place)
    with pytest.raises(ValueError, match="expected a score table of isotropy, got another file"):
        ScoreTable.load(place)
    save_file({"x": torch.zeros(1)}, place, {"isotropy_score_table": "1"})
    with pytest.raises(ValueError, match="got a damaged file"):
        ScoreTable.load(place)
    save_file({"x": torch.zeros(1)}, place, {"isotropy_score_table": "99"})
    with pytest.raises(ValueError, match="expected a score table of format 1 or older, got 99"):
        ScoreTable.load(place)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"validation": np.zeros((3, 3, 4), int)}, "expected validation counts of shape"),
        ({"test": np.zeros((len(NETWORKS), 3, 5), int)}, "expected test counts of shape"),
        ({"test": np.zeros((len(NETWORKS), 3, 4))}, "expected test counts in whole numbers"),
        ({"validation_rows": 10}, "expected validation counts from 0 to 10"),
        ({"parameters": np.zeros(2, int)}, "numbers of parameters"),
        ({"networks": (NETWORKS[0],) * len(NETWORKS)}, "expected every network once"),
    ],
)
def test_tables_that_do_not_fit_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        made(**changes)


def test_a_table_that_lacks_a_network_says_so():
    few = tuple(one for one in NETWORKS if one.groups)
    with pytest.raises(ValueError, match="expected all networks of the space, got none for"):
        made(networks=few)


def test_a_network_that_is_missing_is_noticed_whichever_it_is():
    right = {state: SPACE.network(state) for state in SPACE.states()}
    hidden = 0
    for lost in NETWORKS:
        few = tuple(one for one in NETWORKS if one != lost)
        try:
            found = made(networks=few)
        except ValueError:
            continue  # not closed under intersection
        hidden += 1
        with pytest.raises(ValueError, match="expected all networks of the space, got none for"):
            found.network_of(next(state for state in right if right[state] != lost))
    assert hidden > 3


def test_a_table_of_some_networks_keeps_counts_but_knows_no_state(tmp_path):
    table = made(networks=NETWORKS[:5], complete=False)
    table.save(tmp_path / "some.safetensors")
    back = ScoreTable.load(tmp_path / "some.safetensors")
    assert not back.complete
    np.testing.assert_array_equal(back.validation, table.validation)
    for one in (table, back):
        with pytest.raises(ValueError, match="expected a table of all networks of its space"):
            one.network_of(NETWORKS[0])


def test_an_older_file_is_complete_where_it_can_be(tmp_path):
    for networks, complete in ((NETWORKS, True), (NETWORKS[:5], False)):
        place = tmp_path / "table.safetensors"
        made(networks=networks, complete=complete).save(place)
        with safe_open(place, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = file.metadata()
        header = json.loads(metadata["table"])
        assert header.pop("complete") is complete
        save_file(tensors, place, {**metadata, "table": json.dumps(header)})
        assert ScoreTable.load(place).complete is complete


@pytest.mark.parametrize(
    ("proposal", "seed", "message"),
    [
        (ChildProposal(State(), None, State(("rotation",))), 0, "starts from 'rotation/0'"),
        (ChildProposal(State(), 5), 0, "expected from 1 to 4 epochs, got 5"),
        (ChildProposal(State()), 3, "expected a seed from 0 to 2, got 3"),
        (ChildProposal(State(("no such",))), 0, "expected a state of the space"),
    ],
)
def test_what_is_not_tabulated_is_refused(proposal, seed, message):
    with pytest.raises(ValueError, match=message):
        made().score(proposal, seed)


def test_all_networks_follow_from_the_rules():
    space = SearchSpace((1, 8, 8), GROUPS, ((4,), (6,)))
    networks = {state: space.network(state) for state in space.states()}
    top = State(space.groups, 1)
    found = rules(networks.__getitem__, top)
    assert all(networks[few] == many != few for few, many in found.items())
    for state in (one for one in networks if one.hidden == 1):
        held = set(state.groups)
        for _ in GROUPS:
            for few, many in found.items():
                held |= set(many.groups) if held.issuperset(few.groups) else set()
        assert held == set(networks[state].groups)
