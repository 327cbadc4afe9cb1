"""Exported programs from strangers: none runs, and each that is refused gets one sentence."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from attacks.exported_archives import HONEST, MARK, PAYLOAD, with_files
from attacks.exported_programs import ATTACKS, UNREAD, honest, judge, mutated
from isotropy.data import load_model

MUTATIONS = 60


@pytest.mark.parametrize(("name", "build"), ATTACKS, ids=[name for name, _ in ATTACKS])
def test_it_is_refused(tmp_path: Path, name: str, build: Callable[[], bytes]) -> None:
    assert judge(build(), tmp_path) == "refused"


@pytest.mark.parametrize(("name", "build"), UNREAD, ids=[name for name, _ in UNREAD])
def test_it_is_not_read(tmp_path: Path, name: str, build: Callable[[], bytes]) -> None:
    assert judge(build(), tmp_path) == "loaded"


def test_every_attack_is_another() -> None:
    assert len(ATTACKS) >= 200
    assert len({name for name, _ in ATTACKS}) == len(ATTACKS)
    contents = Counter(build() for _, build in ATTACKS)
    assert max(contents.values()) == 1


def test_the_judge_sees_what_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def obeying(path: Path) -> None:
        eval(PAYLOAD)

    monkeypatch.setattr("attacks.exported_programs.load_model", obeying)
    with pytest.raises(AssertionError, match=f"it ran: {{'{MARK}'}}"):
        judge(b"", tmp_path)


def test_the_judge_lets_honest_programs_pass(tmp_path: Path) -> None:
    assert judge((HONEST / "linear.pt2").read_bytes(), tmp_path) == "loaded"


def test_mutations(tmp_path: Path) -> None:
    verdicts: Counter[str] = Counter()
    for seed in range(MUTATIONS):
        chance = random.Random(seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        verdicts[judge(mutated(honest(chance), chance), folder)] += 1
    assert verdicts["refused"] > MUTATIONS / 2
    # none of them left anything behind that would hinder an honest one
    for name in ("linear", "branch", "frozen"):
        load_model(HONEST / f"{name}.pt2")


def test_what_is_not_needed_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(with_files({"extra/notes.txt": PAYLOAD.encode()})())
    assert not hasattr(load_model(path), "notes")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("FloorDiv of a power", r"expected an expression of sizes, got .*, which has too many t"),
        ("many divisions by sums", r"expected sizes that SymPy evaluates in seconds, got too many"),
        ("a kind that is any number", r"expected a value of kind Optional\[ScalarType\], got"),
        ("a call", r"expected an expression of sizes, got \"__import__\('pathlib'\)\.Path"),
        ("guard: a call", r"expected a condition on the sizes of inputs, got \"__import__"),
        ("the shell", r"expected an operator on tensors, got 'torch\.serialization\.os\.system'"),
        ("an opaque object", r"expected plain tensors and a graph, got 'archive/data/constants/op"),
        ("sizes beyond the file", r"expected 48000 bytes for '0\.weight', got 48"),
        ("deflated bomb", r"got a compressed archive, which PyTorch does not write"),
        ("a default that is imported", r"expected a tuple, list or dictionary, got 'collections\."),
        ("an unknown field of the program", r"this PyTorch reads, got the field 'code'"),
    ],
)
def test_sentences(tmp_path: Path, name: str, sentence: str) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(dict(ATTACKS)[name]())
    with pytest.raises(ValueError, match=sentence):
        load_model(path)
