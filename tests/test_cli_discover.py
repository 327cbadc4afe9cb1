"""``isotropy discover`` as a user types it."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from discovery.pieces import LearnedLayers, PredictorThresholds, ProposingThresholds, replaced
from isotropy.cli import run
from isotropy.discovery import Findings


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is saved by default goes to the folder that one is in."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def filtered(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 6))
    y = x + 3 * np.roll(x, -1, axis=1) + 0.2 * rng.normal(size=x.shape)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, y=y)
    return path


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    code = run(["discover", *map(str, arguments), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)


def test_json_and_what_is_saved(filtered, tmp_path, capsys):
    out = tmp_path / "found"
    said = answer(capsys, filtered, "--out", out)
    assert set(said) >= {"findings", "tried", "seconds"}
    (finding,) = said["findings"]
    assert finding["name"] == "Z(6), cyclic shift"
    assert finding["group"] == "Z(6)"
    assert finding["order"] == 6
    assert finding["confirmed"] is True
    assert finding["approximate"] is False
    assert finding["p_value"] < 0.01
    assert finding["action"].startswith("cyclic shift of x0…x5")
    assert Findings.load(out)[0].name == finding["name"]
    assert "Z(6), cyclic shift" in (out / "report.html").read_text(encoding="utf-8")


def test_a_table_is_read_by_its_columns(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 4))
    y = x.sum(1) + 0.1 * rng.normal(size=300)
    path = tmp_path / "table.csv"
    rows = [",".join(map(str, [*row, t])) for row, t in zip(x, y, strict=True)]
    path.write_text("\n".join(["north,east,south,west,total", *rows]))
    said = answer(capsys, path, "--target", "total")
    assert said["findings"][0]["action"].startswith("any permutation of north")
    assert run(["discover", str(path), "--target", "total"]) == 0
    text = capsys.readouterr().out
    assert "S(4), all positions: confirmed" in text
    assert "rows held out" in text


def test_nothing_found_is_an_answer(tmp_path, capsys):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(200, 5))
    np.savez(tmp_path / "none.npz", x=x, y=x @ np.array([1.0, -2.0, 4.0, 0.5, -8.0]))
    said = answer(capsys, tmp_path / "none.npz")
    assert said["findings"] == []
    assert run(["discover", str(tmp_path / "none.npz")]) == 0
    assert "No symmetry was found but a trivial one: " in capsys.readouterr().out


def test_candidates_are_split_at_commas_outside_parentheses(filtered, capsys):
    said = answer(capsys, filtered, "--candidates", "wreath(Z(3),Z(2)), D(6)")
    assert said["findings"][0]["name"] == "Z(6), cyclic shift"
    assert run(["discover", str(filtered), "--candidates", "Z(5)"]) == 2
    assert "permute 6 positions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["missing.npz"], "missing.npz"),
        (["--target", "y"], "expected DATA for --target"),
    ],
    ids=["no file", "no data"],
)
def test_bad_input_is_one_sentence(arguments, sentence, capsys):
    assert run(["discover", *arguments]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_too_few_rows_are_one_sentence(tmp_path, capsys):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "few.npz", x=rng.normal(size=(20, 4)), y=rng.normal(size=20))
    assert run(["discover", str(tmp_path / "few.npz")]) == 2
    assert "expected at least 66 samples" in capsys.readouterr().err


@pytest.fixture
def images(tmp_path: Path) -> Iterator[Path]:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    path = tmp_path / "images.npz"
    np.savez(path, x=rng.normal(size=(120, 1, 4, 5)) + 4 * y[:, None, None, None], y=y)
    layers = ProposingThresholds(layer_rows=60, layer_epochs=3, layer_burn_in=1, layer_every=1)
    with replaced(layers, PredictorThresholds(image_steps=40, image_channels=3)):
        yield path


def test_images_are_told_by_layer_and_what_was_tried(images, tmp_path, capsys):
    assert run(["discover", str(images), "--out", str(tmp_path / "found")]) == 0
    text = capsys.readouterr().out
    assert "Z(4) × Z(5), translations of the image: confirmed" in text
    assert "quarter turns were not tried: images of 4 by 5 are not square" in text
    assert "    layer 0 (4×5), translation or none: " in text
    assert "    Z(2), mirror images: confirmed" in text
    found = Findings.load(tmp_path / "found")
    x = np.load(images)["x"]
    np.testing.assert_allclose(found[0].predict(np.roll(x, 3, 3)), found[0].predict(x), atol=1e-4)
    assert "translations of the image" in (tmp_path / "found" / "report.html").read_text("utf-8")


def test_an_interruption_among_images_is_one_word(images, monkeypatch, capsys):
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LearnedLayers, "of", interrupted)
    assert run(["discover", str(images), "--method", "layers"]) == 130
    printed = capsys.readouterr()
    assert "The search ended early: interrupted while learning the types of layers" in printed.out
    assert "error" not in printed.err


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    from isotropy.certificates import _certify_findings

    for name, value in {"_STEPS": 60, "_QUANTISED_STEPS": 40, "_TRIALS": ((12, 3),)}.items():
        monkeypatch.setattr(_certify_findings, name, value)


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    x = np.random.default_rng(0).normal(size=(400, 4))
    path = tmp_path / "classes.npz"
    np.savez(path, x=x, y=(x.sum(1) > 0).astype(np.int64))
    return path


def test_findings_are_certified_and_what_is_saved_can_be_verified(
    classes, tmp_path, capsys, hurried
):
    out = tmp_path / "found"
    only = ["--method", "permutations"]
    said = answer(capsys, classes, *only, "--certify", "--delta", 0.1, "--out", out)
    (finding,) = said["findings"]
    assert finding["group"] == "S(4)"
    told = finding["certificates"]
    assert set(told) == {"with", "without", "group_bits", "paid", "verdict"}
    assert told["paid"] is (told["with"]["bound"] < told["without"]["bound"])
    assert told["with"]["model"] == "mlp-32-32 shared S(4)"
    for kind in ("with", "without"):
        path = out / f"{kind}-1.iso"
        assert told[kind]["path"] == str(path)
        assert told[kind]["n"] == 400
        assert told[kind]["delta"] == 0.1
        assert run(["verify", str(path), str(classes), "--delta", "0.1", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["bound"] == told[kind]["bound"]
    assert run(["discover", str(classes), *only, "--certify"]) == 0
    text = capsys.readouterr().out
    assert text.count("for itself: risk at most ") == 1


def test_a_finding_without_a_network_is_told_and_the_rest_goes_on(filtered, capsys):
    only = ["--method", "permutations"]
    said = answer(capsys, filtered, *only, "--certify", "--tolerance", 0.5)
    (finding,) = said["findings"]
    assert finding["certificates"] == {
        "reason": "no certificate: outputs move with the inputs, those of the catalogue's networks "
        "stay"
    }
    assert run(["discover", str(filtered), *only, "--certify"]) == 0
    assert "    no certificate: outputs move with the inputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--certify", "--delta", "2"], "expected delta between 0 and 1, got 2.0"),
        (["--certify", "--delta", "0"], "expected delta between 0 and 1, got 0.0"),
        (["--delta", "0.1"], "expected --certify with --delta or --tolerance"),
        (["--tolerance", "0.1"], "expected --certify with --delta or --tolerance"),
        (["--certify", "--tolerance", "-1"], "expected a positive tolerance, got -1.0"),
        (["--certify", "--tolerance", "1"], "expected a tolerance for a regression, got one with"),
    ],
    ids=["delta", "zero", "delta alone", "tolerance alone", "negative", "labels"],
)
def test_what_cannot_be_certified_is_refused_before_the_search(options, sentence, classes, capsys):
    assert run(["discover", str(classes), *options]) == 2
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


def test_rows_that_belong_together_have_no_certificate(tmp_path, capsys):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.normal(size=(90, 3)), np.arange(90) // 3])
    path = tmp_path / "table.csv"
    lines = [",".join(map(str, row)) for row in rows]
    path.write_text("\n".join(["a,b,total,who", *lines]))
    asked = ["discover", str(path), "--target", "total", "--groups", "who", "--certify"]
    assert run(asked) == 2
    assert "expected no --groups with --certify" in capsys.readouterr().err
