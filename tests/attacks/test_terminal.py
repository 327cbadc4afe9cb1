"""Whatever the command writes, no name from data, a path or a file acts on the terminal."""

from __future__ import annotations

import io
import json
import logging
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import typer
from PIL import Image

from attacks.findings import copied
from attacks.terminal import CODES, PLAIN, acting, forged, table
from isotropy import discover
from isotropy.cli import Answer, CommonOptions, run, verb
from isotropy.cli._discover_run import discovery_text
from isotropy.data import Dataset
from isotropy.discovery import Finding, Findings
from isotropy.run import Step, terminal_progress

ALL = "".join(CODES)
NETS = """
from torch import nn
def net():
    return nn.Sequential(nn.Flatten(), nn.Linear(48, 2))
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Said]:
    """The command line in a folder of its own; what it writes must act on no terminal."""
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments: str) -> Said:
        said = Said(run(list(arguments)), *capsys.readouterr())
        for text in said[1:]:
            assert acting(text) == []
            assert not forged(text)
        return said

    return invoke


@pytest.mark.parametrize("code", CODES)
def test_answers_spell_codes(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    toy = typer.Typer()

    @verb("say", app=toy)
    def say(common: CommonOptions, text: str, table: bool = False) -> Answer:
        return Answer({"said": [text]}, None if table else f"said:\n\t{text} {PLAIN}")

    for options in ((), ("--table",), ("--json",)):
        assert run([code, *options], toy) == 0
        said = capsys.readouterr().out
        assert acting(said) == []
        assert not forged(said)
        if options == ("--json",):
            assert json.loads(said) == {"said": [code]}
        elif not options:
            assert said.startswith("said:\n\t")  # our own layout
            assert PLAIN in said


@pytest.mark.parametrize(
    "arguments",
    [
        ("discover", f"{ALL}.csv"),
        ("discover", "table.csv", "--target", ALL),
        ("discover", "table.csv", "--candidates", ALL),
        ("certify", ALL, "--arch", ALL),
        ("certify", "table.csv", "--arch", f"{ALL}.py:net"),
        ("verify", ALL, ALL),
        ("verify", "table.csv", "table.csv", "--target", ALL),
        ("measure", ALL, ALL),
        ("measure", f"{ALL}.py:net", "table.csv"),
        ("basis", ALL, "V"),
        ("basis", "S(3)", ALL),
        ("basis", "S(3)", "V", "--plot", f"{ALL}.png"),
        ("data", "get", ALL),
        ("data", ALL),
        ("reproduce", ALL),
        (ALL,),
        (f"--{ALL}",),
        ("basis", "S(3)", "V", "--device", ALL),
    ],
    ids=lambda arguments: " ".join(arguments).encode("unicode_escape").decode()[:30],
)
def test_errors_spell_codes(
    arguments: tuple[str, ...], command: Callable[..., Said], tmp_path: Path
) -> None:
    table(tmp_path, ("a", "b", "c"))
    said = command(*arguments)
    assert said.code != 0
    assert said.err.splitlines()[-1].startswith("error: ")
    assert said.err.count("error: ") == 1


def test_names_given_through_python_come_back_from_disk(tmp_path: Path) -> None:
    x = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    data = Dataset(x, x.prod(1, keepdim=True), ("a", CODES[0], CODES[1]), (CODES[5] + PLAIN,))
    found = discover(data, methods="permutations", seed=0)
    found.save(tmp_path / "saved")
    (finding,) = Findings.load(tmp_path / "saved")
    assert finding.order == 6
    assert finding.input_names == found[0].input_names
    assert finding.input_names[0] == "a"
    assert finding.input_names[1].startswith("\\x1b")


def test_columns_of_a_table(command: Callable[..., Said], tmp_path: Path) -> None:
    names = (CODES[0] + CODES[1], CODES[5] + PLAIN, CODES[10] + CODES[7])
    path = table(tmp_path, names, f"{CODES[0]}.csv")
    options = ("--method", "permutations", "--budget", "20s", "--seed", "0")
    said = command("discover", str(path), *options, "--out", f"saved {CODES[0]} {CODES[10]}")
    assert "S(3)" in said.out
    (finding,) = Findings.load(f"saved {CODES[0]} {CODES[10]}")  # which refuses codes in names
    assert finding.input_names[0].startswith("\\x1b[2J")
    shown = json.loads(command("discover", str(path), *options, "--json").out)
    assert shown["findings"][0]["order"] == 6


def test_folders_and_files_of_images(command: Callable[..., Said], tmp_path: Path) -> None:
    Path("nets.py").write_text(NETS)
    folder = Path(f"photos {CODES[0]} {CODES[10]}")
    folder.mkdir()
    for name in "abc":
        pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    (folder / f"{CODES[0]} {CODES[10]}.png").write_bytes(b"no picture")
    said = command("measure", "nets.py:net", str(folder), "--actions", "translation")
    assert said.code == 0, said.err
    assert "left out" in said.out
    told = json.loads(command("measure", "nets.py:net", str(folder), "--json").out)
    assert told["data"] == str(folder)


def test_a_group_and_a_certificate(command: Callable[..., Said], tmp_path: Path) -> None:
    path = f"{CODES[0]}{CODES[10]}.png"
    said = command("basis", "Z(3)", "V>>V", "--plot", path)
    assert said.code == 0, said.err
    assert "\\x1b[2J" in said.out
    honest = Path(__file__).parents[1] / "honest" / "certificates"
    renamed = tmp_path / f"{ALL.replace('/', '')}.iso"
    renamed.write_bytes((honest / "plain.iso").read_bytes())
    data = tmp_path / f"{CODES[0]} {CODES[10]}.npz"
    rng = np.random.default_rng(0)
    np.savez(data, x=rng.normal(size=(20, 3)), y=np.arange(20) % 2)
    assert command("verify", str(renamed), str(data)).code != 0
    assert command("certify", str(data), "--arch", ALL).code != 0


def test_findings_that_somebody_made(capsys: pytest.CaptureFixture[str]) -> None:
    """In our own process a finding may hold any text; from files it cannot."""
    finding = Finding.of(ALL, "S(3)", ALL, ALL, notes=(ALL,), confirmed=True, p_value=0.01)
    found = {ALL: Findings([finding], tried=[ALL], notes=[ALL], stopped=ALL, trivial=[finding])}
    text = discovery_text(found, {ALL: ALL})
    assert acting(text) == []
    assert not forged(text)


def test_a_resumed_search_spells_codes(command: Callable[..., Said], tmp_path: Path) -> None:
    folder = copied("ring", tmp_path)
    (folder / "search.json").write_text('{"format": 1, "mark": "\\u001b[2J", "complete": true}')
    table(tmp_path, ("a", "b", "c"))
    said = command("discover", "table.csv", "--out", str(folder), "--resume")
    assert said.code == 2
    assert "expected a search to go on with" in said.err


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_spells_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "600")
    monkeypatch.setattr("isotropy._run._progress._SECONDS_BEFORE_BAR", 0)
    with terminal_progress(ALL) as progress:
        progress(Step(1, 2, f"{ALL} END"))
        give_up = time.monotonic() + 30
        while "END" not in screen.getvalue():
            assert time.monotonic() < give_up
            time.sleep(0.01)
    drawn = screen.getvalue()
    own = re.sub(r"\x1b\[[?\d;]*[A-Za-z]|[\r\n]", "", drawn)  # what the bar itself is drawn with
    assert acting(own) == []
    assert "\x1b[2J" not in drawn
    assert "[red]markup[/red]" in drawn
    assert "over\\rwritten" in drawn


def test_logs_and_warnings_spell_codes(capsys: pytest.CaptureFixture[str]) -> None:
    toy = typer.Typer()

    @verb("warn", app=toy)
    def warn(common: CommonOptions) -> Answer:
        logging.getLogger("isotropy.cli").warning("%s: left out", ALL)
        sys.stderr.write(warnings.formatwarning(ALL, UserWarning, f"{CODES[0]}.py", 3, ALL))
        return Answer({})

    before = warnings.formatwarning
    assert run([], toy) == 0
    assert warnings.formatwarning is before
    said = capsys.readouterr().err
    assert acting(said) == []
    first, *_ = said.splitlines()
    assert first.endswith(": left out")
    assert "\\nvalid: forged" in first


def test_a_defect_of_ours_spells_codes(tmp_path: Path) -> None:
    program = (
        "import sys\nfrom isotropy.cli import _verbs\n"
        "class Loud(Exception):\n    def __str__(self): return 'name \\x1b[2J\\u202e'\n"
        "def run(): raise Loud\n"
        "_verbs.run = run\n_verbs.main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    said = done.stderr.decode()
    assert done.returncode == 70  # 1 is a rejection
    assert "Traceback" in said
    assert "Loud: name \\x1b[2J\\u202e" in said
    assert acting(said) == []
