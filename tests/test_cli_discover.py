"""``isotropy discover`` as a user types it."""

import json
from pathlib import Path

import numpy as np
import pytest

from isotropy.cli import run
from isotropy.discovery import Findings


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
    assert "no symmetry found" in capsys.readouterr().out


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
def images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from isotropy.discovery.images import _image_predictors, _layer_claims, _train_classifier

    for name, value in {"_EPOCHS": 3, "_BURN_IN": 1, "_EVERY": 1, "_ROWS": 60}.items():
        monkeypatch.setattr(_layer_claims, name, value)
    monkeypatch.setattr(_train_classifier, "_STEPS", 40)
    monkeypatch.setattr(_image_predictors, "_ALPHA", 3)
    monkeypatch.setattr(_image_predictors, "_LIFTED_ALPHA", 2)
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    path = tmp_path / "images.npz"
    np.savez(path, x=rng.normal(size=(120, 1, 4, 5)) + 4 * y[:, None, None, None], y=y)
    return path


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
    from isotropy.discovery.images import _layer_claims

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(_layer_claims, "learn_layers", interrupted)
    assert run(["discover", str(images), "--method", "layers"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"
