"""Studies and tables that an earlier release wrote still open, go on, and say what they said."""

import gzip
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

from isotropy.search import SearchResult
from isotropy_papers.score_table import ScoreTable

FOLDER = Path(__file__).parent
SPEC = importlib.util.spec_from_file_location("write_studies", FOLDER / "write_studies.py")
writer = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(writer)
SCORES = json.loads((FOLDER / "scores.json").read_text())


def unpacked(folder, *names):
    for name in names:
        (folder / name).write_bytes(gzip.decompress((FOLDER / f"{name}.gz").read_bytes()))
    return folder / names[0]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", ["search", "grids"])
def test_a_study_says_what_it_said_and_stays_as_it_was(tmp_path, name):
    path = unpacked(tmp_path, f"{name}.db")
    before = contents(tmp_path)
    found = SearchResult.of(path)
    assert writer.listed(found) == SCORES["held"][name]
    assert found.origin.address == str(path)
    assert found.origin.children == len(found.children)
    assert f"{len(found.children)} read from {path}" in str(found)
    assert contents(tmp_path) == before


def test_a_study_goes_on_as_it_would_have(tmp_path):
    path = unpacked(tmp_path, "search.db")
    found = writer.search(path)
    assert writer.listed(found) == SCORES["all"]["search"]
    assert found.origin.children == len(SCORES["held"]["search"])
    assert writer.listed(SearchResult.of(path)) == SCORES["all"]["search"]


def test_start_weights_of_real_networks_are_gone_on_from(tmp_path):
    path = unpacked(tmp_path, "grids.db")
    held = SCORES["held"]["grids"]
    found = writer.listed(writer.search_grids(path, len(held) + 2))
    assert found[: len(held)] == held
    assert [one[0] for one in found] == [one[0] for one in SCORES["all"]["grids"][: len(held) + 2]]


def test_what_a_killed_worker_left_in_the_log_counts(tmp_path):
    path = unpacked(tmp_path, "left.db", "left.db-wal")
    before = contents(tmp_path)
    assert writer.listed(SearchResult.of(path)) == SCORES["all"]["search"][:9]
    assert contents(tmp_path) == before
    assert writer.listed(writer.search(path, 11)) == SCORES["all"]["search"][:11]


def test_a_table_is_what_it_was():
    found, made = ScoreTable.load(FOLDER / "table.safetensors"), writer.score_table()
    assert (found.name, found.space, found.networks) == (made.name, made.space, made.networks)
    assert (found.validation_rows, found.test_rows) == (made.validation_rows, made.test_rows)
    for part in ("validation", "test", "parameters"):
        np.testing.assert_array_equal(getattr(found, part), getattr(made, part))
