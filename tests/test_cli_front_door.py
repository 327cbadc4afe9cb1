"""``isotropy discover`` on a user's own file: what is saved, gone on with, stopped and refused."""

import errno
import json
import os
import runpy
from pathlib import Path

import numpy as np
import pytest

from isotropy.cli import run
from isotropy.discovery import Finding, Findings

ONLY = ["--method", "permutations"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def total(tmp_path: Path) -> Path:
    """A sum of three columns, which any permutation leaves."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    return table(tmp_path / "total.csv", x, x.sum(1) + 0.1 * rng.normal(size=200))


def table(path: Path, x: np.ndarray, y: np.ndarray, names: str = "a,b,c,target") -> Path:
    rows = [",".join(map(str, [*row, t])) for row, t in zip(x, y, strict=True)]
    path.write_text("\n".join([names, *rows]))
    return path


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict:
    code = run(["discover", *map(str, arguments), "--json"])
    printed = capsys.readouterr()
    assert code == 0, printed.err
    return json.loads(printed.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert run(["discover", *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ")
    assert printed.err.count("\n") == 1, printed.err
    assert not printed.out
    return printed.err


def test_what_is_found_is_saved_in_a_folder_named_after_the_data(total, tmp_path, capsys):
    assert run(["discover", str(total), *ONLY]) == 0
    printed = capsys.readouterr()
    assert printed.out.splitlines()[1].startswith("  S(3), all positions (p ")
    assert "report: total-symmetry/report.html" in printed.out
    assert "200 vectors of 3 columns; looking for permutations" in printed.err
    saved = tmp_path / "total-symmetry"
    assert {entry.name for entry in saved.iterdir()} == {
        "finding-1", "findings.json", "report.html", "search.json"
    }  # fmt: skip
    found = Findings.load(saved)
    assert found.best.name == "S(3), all positions"
    assert found.best.action == "any permutation of a, b, c, the output stays"
    page = (saved / "report.html").read_text("utf-8")
    assert "a model that has it predicts as well as one without." in found.answer
    assert "a model that has it predicts as well as one without." in page
    assert "target" in found.notes[0]


def test_the_program_beside_the_model_loads_it(total, tmp_path, capsys):
    assert run(["discover", str(total), *ONLY, "--out", "found"]) == 0
    capsys.readouterr()
    program = tmp_path / "found" / "finding-1" / "use_model.py"
    used = runpy.run_path(str(program))
    assert isinstance(used["finding"], Finding)
    assert capsys.readouterr().out.splitlines()[-1] == "(5, 1)"


def test_json_saves_only_where_it_is_told_to(total, tmp_path, capsys):
    assert said(capsys, total, *ONLY)["answer"].startswith("S(3), all positions")
    assert run(["discover", str(total), *ONLY, "--no-save"]) == 0
    assert [entry.name for entry in tmp_path.iterdir()] == ["total.csv"]


def test_a_folder_of_other_things_is_refused_before_the_search(total, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert "holds other files" in refused(capsys, total, "--out", "mine")
    assert "expected a folder to save to, got the file" in refused(capsys, total, "--out", total)
    assert "expected --no-save alone" in refused(capsys, total, "--no-save", "--out", "new")


def test_a_complete_search_is_not_repeated(total, monkeypatch, capsys):
    first = said(capsys, total, *ONLY, "--out", "found")
    monkeypatch.setattr("isotropy.discovery.discover", None)
    again = said(capsys, total, *ONLY, "--out", "found", "--resume")
    assert again["findings"] == first["findings"]
    assert again["seconds"] == first["seconds"]


def test_another_search_is_not_gone_on_with(total, capsys):
    said(capsys, total, *ONLY, "--out", "found")
    other = refused(capsys, total, *ONLY, "--out", "found", "--resume", "--margin", "0.1")
    assert "expected the data and options of the search in 'found' to go on with it" in other
    assert "expected a search to go on with in 'new'" in refused(
        capsys, total, "--out", "new", "--resume"
    )
    assert Findings.load("found").best.name == "S(3), all positions"


def test_an_interruption_keeps_what_is_sure_and_writes_the_report(total, monkeypatch, capsys):
    from isotropy.discovery.claims._permutation_claim import PermutationClaim

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(PermutationClaim, "fit", interrupted)
        assert run(["discover", str(total), *ONLY, "--out", "found"]) == 130
    text = capsys.readouterr().out
    assert "S(3), all positions" in text.splitlines()[1]
    assert "The search ended early: interrupted while fitting models." in text
    kept = Findings.load("found")
    assert kept.best.confirmed
    assert kept.best.model is None
    assert kept.stopped in Path("found/report.html").read_text("utf-8")
    assert said(capsys, total, *ONLY, "--out", "found", "--resume")["stopped"] == ""
    assert Findings.load("found").best.model is not None


def test_a_second_interruption_claims_nothing(total, monkeypatch, capsys):
    from isotropy.discovery.claims._permutation_claim import PermutationClaim

    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(PermutationClaim, "test", interrupted)
    assert run(["discover", str(total), *ONLY, "--out", "found"]) == 130
    assert "No symmetry was found. The search ended early" in capsys.readouterr().out
    assert len(Findings.load("found")) == 0


def test_a_budget_is_kept_and_told(total, monkeypatch, capsys):
    from isotropy.discovery.proposing.permutations._permutation_proposer import PermutationProposer

    def endless(*arguments: object, **options: object) -> None:
        while True:
            pass

    monkeypatch.setattr(PermutationProposer, "propose", endless)
    monkeypatch.setattr(PermutationProposer, "by", 0.01)
    told = said(capsys, total, *ONLY, "--budget", "40s")
    late = "looking for permutations took more than its share of the budget of 40 s"
    assert told["stopped"] == late
    assert told["findings"] == []
    assert "expected a length of time such as 90s, 5m or 1h30m" in refused(
        capsys, total, "--budget", "soon"
    )


@pytest.mark.parametrize(("options", "limit"), [((), None), (("--budget", "2m"), "2m")])
def test_a_search_has_no_limit_of_time_but_its_budget(total, monkeypatch, capsys, options, limit):
    asked = []

    def nothing(*given: object, **options: object) -> Findings:
        asked.append(options["budget"])
        return Findings()

    monkeypatch.setattr("isotropy.discovery.discover", nothing)
    said(capsys, total, *ONLY, *options)
    assert asked == [limit]


def test_a_full_disk_leaves_what_was_saved_before(total, monkeypatch, capsys):
    said(capsys, total, *ONLY, "--out", "found")
    before = Path("found/report.html").read_bytes()
    written = os.fsync
    calls = []

    def full(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        code = run(["discover", str(total), *ONLY, "--out", "found", "--margin", "0.06"])
    printed = capsys.readouterr()
    assert code == 2
    assert "S(3), all positions" in printed.out  # what was found is told all the same
    assert "error: found: expected to save what was found, got No space left" in printed.err
    assert Path("found/report.html").read_bytes() == before
    assert {entry.name for entry in Path("found").iterdir()} == {
        "finding-1", "findings.json", "report.html", "search.json"
    }  # fmt: skip


def test_rows_with_holes_are_counted_and_text_columns_left_out(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    path = table(tmp_path / "holes.csv", x, x.sum(1) + 0.1 * rng.normal(size=200))
    lines = path.read_text().splitlines()
    lines[5] = lines[5].replace(lines[5].partition(",")[0], "nan", 1)
    path.write_text("\n".join([f"city,{lines[0]}", *(f"Paris,{line}" for line in lines[1:])]))
    told = said(capsys, path, *ONLY)
    assert told["findings"][0]["group"] == "S(3)"
    notes = " ".join(told["notes"])
    assert "1 of 200 rows" in notes
    assert "'city'" in notes


def test_bad_tables_are_refused_in_one_sentence(total, tmp_path, capsys):
    missing = refused(capsys, total, "--target", "price")
    assert "a, b, c, target" in missing
    assert "got 'price'" in missing
    ones = table(tmp_path / "ones.csv", np.random.default_rng(0).normal(size=(90, 3)), np.ones(90))
    assert "got the same in every row" in refused(capsys, ones, "--task", "classification")
    three = table(tmp_path / "three.csv", np.eye(3), np.arange(3.0))
    assert "at least 66 samples" in refused(capsys, three)
    (tmp_path / "words.csv").write_text("a,b,target\n" + "x,y,1.5\nz,w,2.5\n" * 50)
    refused(capsys, tmp_path / "words.csv")


def test_corrupt_files_are_refused_in_one_sentence(tmp_path, capsys):
    np.savez(tmp_path / "whole.npz", x=np.zeros((100, 3)), y=np.arange(100.0))
    whole = (tmp_path / "whole.npz").read_bytes()
    for name, content in {
        "half.npz": whole[: len(whole) // 2],
        "noise.npz": b"\x00\x01\x02" * 100,
        "noise.csv": b"\xff\xfe\x00" * 100,
        "empty.npz": b"",
    }.items():
        (tmp_path / name).write_bytes(content)
        assert name in refused(capsys, tmp_path / name)


def test_a_shorter_search_does_not_replace_a_complete_one(total, capsys):
    first = said(capsys, total, *ONLY, "--out", "found")
    before = Path("found/report.html").read_bytes()
    hurried = said(capsys, total, *ONLY, "--out", "found", "--budget", "0.01s")
    assert hurried["stopped"]
    assert hurried["findings"] == []
    assert Path("found/report.html").read_bytes() == before
    assert Findings.load("found").best.name == first["findings"][0]["name"]


def test_going_on_leaves_certificates_where_they_are(total, capsys):
    said(capsys, total, *ONLY, "--out", "found")
    Path("found/with-1.iso").write_bytes(b"a certificate")
    said(capsys, total, *ONLY, "--out", "found", "--resume")
    assert Path("found/with-1.iso").read_bytes() == b"a certificate"


def test_sorted_files_are_as_good_as_others(tmp_path, capsys):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(600, 4))
    y = (np.abs(x).sum(1) > 3).astype(int)
    order = np.argsort(y, kind="stable")
    np.savez(tmp_path / "sorted.npz", x=x[order], y=y[order])
    assert said(capsys, tmp_path / "sorted.npz", *ONLY)["findings"][0]["group"] == "S(4)"


def test_few_of_a_second_class_are_refused(tmp_path, capsys):
    x = np.random.default_rng(0).normal(size=(200, 4))
    np.savez(tmp_path / "rare.npz", x=x, y=(np.arange(200) < 2).astype(int))
    told = refused(capsys, tmp_path / "rare.npz")
    assert "expected at least 10 rows of a second class, got 2" in told
