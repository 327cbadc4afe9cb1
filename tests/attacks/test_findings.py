"""Saved findings from strangers: refused in one sentence or usable, and honest ones as ever."""

from __future__ import annotations

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attacks.findings import (
    FOLDERS,
    HONEST,
    copied,
    flat,
    judge,
    mutated,
    tensors_in,
)
from attacks.findings_by_hand import FIRST, HAND_MADE, changed
from isotropy.cli import run
from isotropy.discovery import Finding, Findings
from isotropy.discovery.modelling._model_spec import require_modest
from isotropy.groups import S, parse_group
from isotropy.report import finding_page
from isotropy.reps import Scalar, Symmetry, V

_DRAWN = 200


# --- honest ones --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FOLDERS)
def test_findings_of_the_last_release_load_and_predict_as_they_did(name: str) -> None:
    found = Findings.load(HONEST / name)
    said = json.loads((HONEST / "texts.json").read_text(encoding="utf-8"))[name]
    assert (found.answer, str(found)) == (said["answer"], said["text"])
    rows = np.load(HONEST / "predictions.npz")
    models = 0
    for kind in ("finding", "nearly", "partly", "trivial"):
        several = found.findings if kind == "finding" else getattr(found, kind)
        for number, finding in enumerate(several, 1):
            for soft in (False, True):
                key = f"{name}/{kind}-{number}/{'soft' if soft else 'strict'}"
                if f"{key}/x" in rows:
                    models += 1
                    predicted = finding.predict(rows[f"{key}/x"], soft=soft)
                    np.testing.assert_allclose(predicted, rows[f"{key}/y"], rtol=1e-5, atol=1e-6)
    assert models == sum(key.startswith(f"{name}/") and key.endswith("/x") for key in rows)


@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_loaded_is_saved_as_it_was(name: str, tmp_path: Path) -> None:
    again = Findings.load(HONEST / name).save(tmp_path / name)
    for path in (HONEST / name).rglob("*"):
        other = again / path.relative_to(HONEST / name)
        if path.name == "finding.json":
            assert flat(json.loads(other.read_text())) == flat(json.loads(path.read_text()))
        elif path.suffix == ".json":
            ours, theirs = (json.loads(one.read_text()) for one in (other, path))
            kinds = ("findings", "trivial", "nearly", "partly")
            assert {**ours, "format": 1} == theirs
            assert all(ours[kind] == theirs[kind] for kind in kinds if kind in theirs)
        elif path.is_file():
            (before, words), (after, same) = tensors_in(path), tensors_in(other)
            assert words == same
            assert before.keys() == after.keys()
            assert all(map(torch.equal, before.values(), after.values()))


# --- damaged ones -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HAND_MADE)
def test_damage_that_was_thought_of_is_refused(name: str, tmp_path: Path) -> None:
    folder = copied("ring", tmp_path)
    HAND_MADE[name](folder)
    assert judge(folder) == "refused"


@pytest.mark.parametrize(
    "details",
    [
        None,
        [],
        {},
        {"kind": "weights"},
        {"kind": "of another", "labels": None},
        {"kind": ["weights"], "labels": None},
        {"kind": "weights", "labels": None, "generators": [[[0.0]]]},
        {"kind": "weights", "labels": [[0, 0.5]]},
        {"kind": "weights", "labels": [[0, 10**9]]},
        {"kind": "layers", "layers": {"layer": 1}},
        {"kind": "plain", "layers": []},
    ],
)
def test_details_of_no_kind_are_refused(details: Any, tmp_path: Path) -> None:
    folder = copied("ring", tmp_path, anew=True)
    assert judge(folder) == "loaded"
    changed("details", details)(folder)
    assert judge(folder) == "refused"


def test_damage_at_random_is_refused_or_harmless(tmp_path: Path) -> None:
    verdicts = []
    for seed in range(_DRAWN):
        chance = random.Random(seed)
        folder = copied(chance.choice(FOLDERS), tmp_path / str(seed), anew=seed % 2 == 1)
        done = mutated(folder, chance)
        try:
            verdicts.append(judge(folder))
        except AssertionError as error:
            pytest.fail(f"seed {seed}, {done}: {error}")
        shutil.rmtree(tmp_path / str(seed))
    assert verdicts.count("refused") > 0.7 * _DRAWN


def test_the_error_names_file_field_and_both_values(tmp_path: Path) -> None:
    folder = copied("ring", tmp_path)
    changed("confirmed", "no")(folder)
    path = folder / FIRST / "finding.json"
    words = f"{path}: expected true or false as confirmed, got 'no'"
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        Findings.load(folder)


def shuffles(count: int, *, signed: bool = False) -> str:
    """The text of a group of so many generators, on eight coordinates."""
    chance, lists = random.Random(0), []
    for _ in range(count):
        order = chance.sample(range(8), 8)
        matrix = [[-1 if signed and i == j == order[i] else int(j == order[i]) for j in range(8)]
                  for i in range(8)]  # fmt: skip
        lists.append(matrix if signed else order)
    return f"Group(discrete={lists})".replace(" ", "")


@pytest.mark.parametrize(
    ("group", "rep_in", "rep_out", "said"),
    [
        (shuffles(120), "V**4", "V**4", "expected a model of at most 8388608 weights"),
        (shuffles(1), "V**4", "V**4", "expected a model of at most 8388608 weights"),
        (shuffles(120), "V**4", "V**3", "got 2097152 entries that 120 generators move"),
        (shuffles(40, signed=True), "V**4", "V**3", "got 4194304 entries that 40 generators"),
        (shuffles(9, signed=True), "V**4", "2*V**3+V**2", "weights and their negatives, got one"),
    ],
)
def test_many_generators_of_many_weights_are_refused_at_once(
    group: str, rep_in: str, rep_out: str, said: str, tmp_path: Path
) -> None:
    """A few kB of generators, each of which moves all weights, took minutes and gigabytes."""
    folder = copied("ring", tmp_path)
    given = {"format": 1, "group": group, "rep_in": rep_in, "rep_out": rep_out}
    changed("symmetry", given)(folder)
    changed("model", {"kind": "linear"})(folder)
    changed("group", group)(folder)
    changed("labels", None)(folder)
    with pytest.raises(ValueError, match=re.escape(said)):
        Findings.load(folder)


def test_generators_that_move_few_weights_are_no_harm() -> None:
    for symmetry in (
        Symmetry(parse_group(shuffles(120)), V**3, V**3),
        Symmetry(parse_group(shuffles(120, signed=True)), V**2, V**3),
        Symmetry(S(2800), V, V),
        Symmetry(S(200_000), V, Scalar),
    ):
        require_modest({"kind": "linear"}, symmetry, None)


def test_a_link_within_the_folder_is_followed(tmp_path: Path) -> None:
    folder = copied("ring", tmp_path)
    (folder / FIRST).rename(folder / "kept")
    (folder / FIRST).symlink_to("kept")
    assert judge(folder) == "loaded"


def test_saving_writes_through_no_link(tmp_path: Path) -> None:
    folder = copied("ring", tmp_path)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for name in ("finding.json", "model.safetensors", "use_model.py"):
        (folder / FIRST / name).unlink()
        (folder / FIRST / name).symlink_to(precious)
    Findings.load(HONEST / "ring").save(folder)
    assert precious.read_text() == "mine"
    assert judge(folder) == "loaded"
    shutil.rmtree(folder / FIRST)
    (folder / FIRST).symlink_to(tmp_path)
    with pytest.raises(ValueError, match=r"expected finding-1 in the folder .* leads out of it"):
        Findings.load(HONEST / "ring").save(folder)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "'><img src=x onerror=alert(1)>"])
def test_names_are_letters_in_a_page(name: str, tmp_path: Path) -> None:
    weights, continuous, layers, without_symmetry = (
        copied(folder, tmp_path) for folder in ("ring", "rotation", "grid", "ends")
    )
    for folder in (weights, continuous, layers):
        for place in ("name", "action", "method", "trivial", "notes.0"):
            changed(place, name)(folder)
        changed("certificates", {"reason": name})(folder)
        changed("reading", name, file="findings.json")(folder)
        changed("notes", [name] * 5, file="findings.json")(folder)
        changed("stopped", name, file="findings.json")(folder)
    for folder in (weights, continuous):
        changed("comparison.loss", name)(folder)
    for place in ("input_names", "output_names"):
        changed(place, [name] * 4)(weights)
    changed("coordinates", [name] * 4)(continuous)
    changed("generators", [[[0.0] * 4] * 4])(continuous)
    changed("classes", [{"action": name, name: name}])(continuous)
    changed("discrete", [{"name": name, "holds": True}])(continuous)
    learned = {"layer": name, name: name, "lee": {name: 1.0}, "history": [{name: 1.0}]}
    changed("layers", [learned])(layers)
    changed("group", name)(without_symmetry)
    for folder in (weights, continuous, layers, without_symmetry):
        assert_plain(Findings.load(folder), name)


def assert_plain(found: Findings, name: str) -> None:
    for page in (finding_page(found), found._repr_html_(), found[0]._repr_html_()):
        assert name not in page
        assert "<img src=x" not in page
        assert "<script>alert" not in page


def test_a_search_that_somebody_else_saved_is_not_gone_on_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    np.savez("x.npz", x=rng.normal(size=(100, 3)), y=rng.normal(size=100))
    options = ["discover", "x.npz", "--out", "found", "--budget", "1s", "--seed", "0", "--resume"]
    folder = copied("ring", tmp_path)
    folder.rename("found")
    for state in ("[" * 10_000, "[]", '{"format": 1, "mark": 3, "complete": true}', '"x"'):
        Path("found/search.json").write_text(state)
        assert run(options) == 2
        said = capfd.readouterr().err
        assert said.startswith("error: expected a search to go on with in 'found'")
        assert said.count("\n") == 1


def test_weights_in_double_precision_stay_so(tmp_path: Path) -> None:
    found = Findings.load(HONEST / "ring")[0]
    assert found.model is not None
    found.model.double()
    again = Finding.load(found.save(tmp_path))
    assert again.model is not None
    assert {one.dtype for one in again.model.state_dict().values()} == {torch.float64}
