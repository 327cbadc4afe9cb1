"""``isotropy discover --method groups`` as a user types it."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from discovery.pieces import (
    PredictorThresholds,
    ProposingThresholds,
    TestingThresholds,
    replaced,
)
from isotropy.cli import run
from isotropy.discovery import Findings
from isotropy.search import GridChild, SearchResult

NAMES = "horizontal flip, vertical scramble"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved by default goes to the folder that one is in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    """Stripes on the left or on the right, top and bottom halves swapped or not."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    x = np.zeros((240, 1, 4, 4))
    x[y == 0, 0, 0] = [2, -1, 1, -2]
    x[y == 1, 0, 0] = [2, 1, -1, -2]
    swapped = rng.random(240) < 0.5
    x[swapped] = np.roll(x[swapped], 2, axis=2)
    path = tmp_path / "images.npz"
    np.savez(path, x=x + 0.3 * rng.normal(size=x.shape), y=y)
    short = ProposingThresholds(child_steps=60), PredictorThresholds(image_steps=60)
    with replaced(TestingThresholds(set_trainings=1), *short):
        yield path


def call(*arguments: object) -> int:
    return run(["discover", *map(str, arguments), "--method", "groups"])


def test_json_names_the_groups_and_what_was_tried(images, tmp_path, capsys):
    out, study = tmp_path / "found", tmp_path / "study.db"
    options = ("--candidates", NAMES, "--study", study)
    assert call(images, *options, "--out", out, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    finding = said["findings"][0]
    assert finding["name"].startswith("layers that commute with ")
    assert finding["method"] == "search among sets of groups"
    assert finding["order"] in (2, 4)
    assert finding["confirmed"] is True
    assert finding["model"]["kind"] == "grid network"
    assert said["tried"][0] == "4 children trained, no network twice, among 4 sets of groups"
    x = np.load(images)["x"]
    assert Findings.load(out)[0].predict(x).shape == (240, 2)
    assert "layers that commute with" in (out / "report.html").read_text(encoding="utf-8")
    assert call(images, *options) == 0
    text = capsys.readouterr().out
    assert "  tried:\n    4 children trained" in text
    assert "    child " in text
    assert "it does not say that the class stays when an image is moved" in text


def test_children_and_strategy_are_the_users_choice(images, capsys):
    assert call(images, "--strategy", "random", "--children", 3, "--json") == 0
    tried = json.loads(capsys.readouterr().out)["tried"]
    assert tried[0].startswith("3 children trained, no network twice")


def test_an_interruption_says_how_to_go_on_and_loses_nothing(images, tmp_path, monkeypatch, capsys):
    study, fit, calls = tmp_path / "study.db", GridChild.fit, []

    def interrupted(self: GridChild, *arguments: object, **options: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(GridChild, "fit", interrupted)
    options = ("--candidates", NAMES, "--study", study)
    assert call(images, *options) == 130
    error = capsys.readouterr().err
    assert "the same command goes on" in error
    assert len(SearchResult.of(study, "groups").children) == 2
    assert call(images, *options, "--json") == 0
    assert len(calls) == 5  # two, the one that was interrupted, and two more
    assert json.loads(capsys.readouterr().out)["tried"][0].startswith("4 children trained")


def test_a_study_of_another_seed_is_one_sentence_and_kept(images, tmp_path, capsys):
    study = tmp_path / "study.db"
    options = ("--candidates", NAMES, "--study", study)
    assert call(images, *options) == 0
    capsys.readouterr()
    assert call(images, *options, "--seed", 7) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: expected a study with")
    assert error.count("\n") == 1
    assert len(SearchResult.of(study, "groups").children) == 4


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--study", "postgresql://127.0.0.1:9/none"], "expected a database that can be reached"),
        (["--study", "mysql://here/none"], "expected an SQLite or PostgreSQL database, got"),
        (["--candidates", "diagonal flip"], "expected a transformation among rotation"),
        (["--children", "0"], "expected at least one child, got 0"),
        (["--strategy", "guess"], "'lattice', 'dqn', 'random', 'tpe'"),
    ],
)
def test_bad_options_are_one_sentence(images, options, sentence, capsys):
    assert call(images, *options) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_a_group_that_does_not_act_is_one_sentence(tmp_path, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "odd.npz", x=rng.normal(size=(90, 1, 5, 5)), y=np.arange(90) % 2)
    assert call(tmp_path / "odd.npz", "--candidates", "vertical scramble") == 2
    error = capsys.readouterr().err
    assert error == "error: vertical scramble: expected grids of even height, got 5 by 5\n"


def test_a_folder_of_unequal_images_is_one_sentence(tmp_path, capsys):
    for kind, sides in (("cats", (8, 8)), ("dogs", (8, 9))):
        (tmp_path / "pets" / kind).mkdir(parents=True)
        for number, side in enumerate(sides):
            Image.new("L", (side, 8)).save(tmp_path / "pets" / kind / f"{number}.png")
    assert call(tmp_path / "pets") == 2
    error = capsys.readouterr().err
    assert "8×9" in error
    assert error.count("\n") == 1


def test_a_study_needs_the_method(images, capsys):
    assert run(["discover", str(images), "--study", "study.db"]) == 2
    assert capsys.readouterr().err == (
        "error: expected --method groups with --study, got another method\n"
    )
