"""``isotropy certify`` and ``isotropy verify`` as a user types them."""

from __future__ import annotations

import gzip
import json
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from isotropy import verify
from isotropy.certificates import Certificate, Recipe, architecture
from isotropy.cli import run
from isotropy.run import Step

QUICK = ("--epochs", "6", "--quantised-epochs", "6", "--levels", "3", "--dimension", "6")

CODE = """
import torch
from torch import nn

def net():
    return nn.Sequential(nn.Linear(2, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3))

def none():
    return nn.Flatten()

def pair():
    class Pair(nn.Linear):
        def forward(self, x):
            return super().forward(x), x
    return Pair(2, 2)

def other_inputs():
    return nn.Linear(7, 2)

def particular():
    class Particular(nn.Linear):
        def forward(self, x):
            assert x.shape[1] == 6, "only of six columns"
            return super().forward(x)
    return Particular(2, 2)
"""


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with data and a module."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(260, 2))
    y = (x[:, 0] > x[:, 1]).astype(int)
    np.savez(tmp_path / "data.npz", x=x, y=y)
    np.savez(
        tmp_path / "both.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:]
    )
    np.savez(tmp_path / "numbers.npz", x=x, y=np.sin(x[:, 0]))
    (tmp_path / "nets.py").write_text(CODE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    def invoke(*arguments: object) -> Outcome:
        code = run([str(argument) for argument in arguments])
        return Outcome(code, *capsys.readouterr())

    return invoke


@pytest.fixture
def answer(command: Callable[..., Outcome]) -> Callable[..., dict[str, Any]]:
    def invoke(*arguments: object, code: int = 0) -> dict[str, Any]:
        outcome = command(*arguments, "--json")
        assert outcome.code == code, outcome
        found: dict[str, Any] = json.loads(outcome.out)
        return found

    return invoke


def sentence_of(outcome: Outcome) -> str:
    assert outcome.code == 2, outcome
    assert outcome.out == ""
    assert outcome.err.count("\n") == 1, outcome.err
    return outcome.err.removeprefix("error: ").strip()


def test_certify_and_verify(answer: Callable[..., dict[str, Any]], folder: Path) -> None:
    said = answer("certify", "mlp-4", "data.npz", *QUICK)
    assert {"bound", "train_error", "test_error", "message_bits", "delta", "n", "path"} <= set(said)
    certificate = Certificate.load(folder / said["path"])
    assert said["path"] == "cert.iso"
    assert said["bound"] == certificate.bound
    assert said["train_error"] == certificate.errors / 260
    assert said["test_error"] is None
    assert said["message_bits"] == 8 * len(certificate.message)
    assert (said["n"], said["delta"], said["d"], said["model"]) == (260, 0.05, 6, "mlp-4")
    assert sorted(path.name for path in folder.iterdir()) == [
        *("both.npz", "cert.iso", "data.npz", "nets.py", "numbers.npz"),
    ]
    found = answer("verify", "cert.iso", "data.npz")
    assert found["valid"] is True
    assert found["bound"] == said["bound"]
    assert found["errors"] == certificate.errors
    assert found["reason"].startswith("risk at most ")
    assert found["assumes"][0].startswith("the rows are independent draws")


def test_a_person_is_told_what_the_numbers_mean(command: Callable[..., Outcome]) -> None:
    outcome = command("certify", "mlp-4", "both.npz", *QUICK, "--delta", "0.1", "--out", "a.iso")
    assert outcome.code == 0, outcome.err
    first, second, *advice, last = outcome.out.splitlines()
    certificate = Certificate.load("a.iso")
    assert first == (
        f"mlp-4 is wrong on at most {100 * certificate.bound:.2f} % of new examples, "
        "with probability 0.9"
    )
    assert f"of the 200 certified rows, {100 * (certificate.test_error or 0):.2f} % of" in second
    assert last == "saved to a.iso; check it by: isotropy verify a.iso both.npz --delta 0.1"
    guessed = certificate.bound >= 0.475
    assert all("no better than always saying the commonest class" in one for one in advice)
    assert len(advice) == guessed
    outcome = command("verify", "a.iso", "both.npz", "--delta", "0.1")
    assert outcome.code == 0
    assert outcome.out.startswith("verified: risk at most ")
    outcome = command("verify", "a.iso", "both.npz")
    assert outcome.code == 3
    assert outcome.out.startswith("verified, but only given what is named: risk at most ")
    assert "given that delta = 0.1, which is more than the usual 0.05, was fixed" in outcome.out
    assert command("verify", "a.iso", "both.npz", "--delta", ".05").code == 1
    for option, value in (("--most-memory", "1MB"), ("--most-time", "0.0001s")):
        outcome = command("verify", "a.iso", "both.npz", option, value)
        assert outcome.code == 1
        assert option in outcome.out
    assert "expected a size such as" in sentence_of(
        command("verify", "a.iso", "both.npz", "--most-memory", "much")
    )
    outcome = command("verify", "a.iso", "both.npz", "--delta", "0.1")
    assert "taken on trust: the rows are independent draws" in outcome.out


def test_of_two_splits_one_is_certified_and_one_tests(
    answer: Callable[..., dict[str, Any]], folder: Path
) -> None:
    said = answer("certify", "mlp-4", "both.npz", *QUICK)
    assert said["n"] == 200
    arrays = np.load(folder / "both.npz")
    hypothesis = Certificate.load("cert.iso").hypothesis()
    network = hypothesis.network(architecture("mlp-4").build((2,), 2))
    with torch.no_grad():
        guesses = network(torch.tensor(arrays["x_test"])).argmax(1).numpy()
    assert said["test_error"] == np.mean(guesses != arrays["y_test"])
    assert answer("verify", "cert.iso", "both.npz")["valid"] is True
    assert answer("verify", "cert.iso", "both.npz", "--split", "test", code=1)["valid"] is False
    again = answer("certify", "mlp-4", "data.npz", *QUICK, "--test", "both.npz")
    assert again["test_error"] is not None


def test_idx_folders_by_name_are_the_public_sets(
    answer: Callable[..., dict[str, Any]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    kept = folder / "kept"
    kept.mkdir()
    for prefix, count in (("train", 80), ("t10k", 40)):
        labels = rng.integers(0, 2, count).astype(np.uint8)
        images = (rng.integers(0, 60, (count, 4, 4)) + 90 * labels[:, None, None]).astype(np.uint8)
        for name, array in ((f"{prefix}-images-idx3", images), (f"{prefix}-labels-idx1", labels)):
            head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            (kept / f"{name}-ubyte.gz").write_bytes(gzip.compress(head + array.tobytes()))
    asked: list[str] = []

    def fetched(name: str, **options: object) -> Path:
        asked.append(name)
        return kept

    monkeypatch.setattr("isotropy.data.fetch", fetched)
    said = answer("certify", "mlp-4", "mnist", *QUICK)
    assert (said["n"], asked) == (80, ["mnist"])
    assert 0 <= said["test_error"] <= 1
    assert answer("verify", "cert.iso", "mnist")["valid"] is True
    assert answer("verify", "cert.iso", "kept")["valid"] is True


def test_a_module_of_ones_own(
    command: Callable[..., Outcome], answer: Callable[..., dict[str, Any]]
) -> None:
    said = answer("certify", "nets.py:net", "data.npz", *QUICK, "--symmetry", "Z(2), S(2)")
    assert said["model"] == "Sequential"
    assert len(Certificate.load("cert.iso").hypothesis().groups) == 2
    found = answer("verify", "cert.iso", "data.npz", "--arch", "nets.py:net", code=3)
    assert found["valid"] is False
    assert found["verdict"] == "verified given"
    assert len(found["assumes"]) == 3
    assert found["groups"] == ["Z(2)", "S(2)"]
    assert "expected the architecture of 'Sequential'" in sentence_of(
        command("verify", "cert.iso", "data.npz")
    )
    assert "expected a model that runs on these inputs, got RuntimeError" in sentence_of(
        command("verify", "cert.iso", "data.npz", "--arch", "nets.py:other_inputs")
    )
    assert "expected outputs of shape (rows, numbers)" in sentence_of(
        command("certify", "nets.py:pair", "data.npz", *QUICK)
    )
    assert "with parameters, got Flatten with none" in sentence_of(
        command("certify", "nets.py:none", "data.npz", *QUICK)
    )


def test_the_command_to_check_by_can_be_pasted(
    command: Callable[..., Outcome], folder: Path
) -> None:
    rows = [f"{i % 7},{i % 3},{'cat' if i % 2 else 'dog'}" for i in range(200)]
    (folder / "two words.csv").write_text("\n".join(["a,b,kind", *rows]))
    for arguments in (
        ["mlp-4", "two words.csv", "--target", "kind", "--out", "two words.iso"],
        ["nets.py:net", "data.npz", "--out", "own.iso"],
    ):
        outcome = command("certify", *arguments, *QUICK)
        assert outcome.code == 0, outcome.err
        pasted = shlex.split(outcome.out.splitlines()[-1].partition("check it by: isotropy ")[2])
        assert command(*pasted).code == 3  # repeated rows, a module of one's own
    assert "--target names the column to predict" in sentence_of(
        command("certify", "mlp-4", "two words.csv", *QUICK)
    )


def test_a_start_from_elsewhere(
    command: Callable[..., Outcome], answer: Callable[..., dict[str, Any]], folder: Path
) -> None:
    model = architecture("mlp-4").build((2,), 2)
    weights = {name: torch.full_like(p, 0.25) for name, p in model.named_parameters()}
    save_file(weights, folder / "start.safetensors")
    save_file({**weights, "head.bias": torch.ones(2)}, folder / "other.safetensors")
    save_file({"head.bias": torch.ones(2)}, folder / "part.safetensors")
    answer("certify", "mlp-4", "data.npz", *QUICK, "--start", "start.safetensors")
    stored = np.frombuffer(Certificate.load("cert.iso").start, "<f4")
    np.testing.assert_array_equal(stored, np.full(22, 0.25))
    check = ("verify", "cert.iso", "data.npz")
    assert answer(*check, code=3)["start"] == "given"
    assert answer(*check, "--checkpoint", "start.safetensors")["valid"] is True
    found = answer(*check, "--checkpoint", "other.safetensors", code=1)
    assert found["reason"] == "the start in the certificate is not the checkpoint given"
    assert "in the checkpoint, got none" in sentence_of(
        command(*check, "--checkpoint", "part.safetensors")
    )
    assert "missing" in sentence_of(
        command("certify", "mlp-4", "data.npz", *QUICK, "--start", "part.safetensors")
    )


def test_a_share_of_the_rows(answer: Callable[..., dict[str, Any]]) -> None:
    said = answer("certify", "mlp-4", "data.npz", *QUICK, "--prior-percent", "50", "--batch", "9")
    assert said["n"] == 130
    found = answer("verify", "cert.iso", "data.npz", code=3)
    assert found["verdict"] == "verified given"
    assert found["start"] == "rows"


def test_a_regression(command: Callable[..., Outcome]) -> None:
    outcome = command("certify", "mlp-4", "numbers.npz", *QUICK, "--tolerance", "0.5")
    assert outcome.out.startswith("mlp-4 is off by more than 0.5 on at most ")
    assert "missing by more than 0.5" in command("verify", "cert.iso", "numbers.npz").out
    outcome = command("certify", "mlp-4", "numbers.npz", *QUICK)
    assert "for a regression a tolerance" in sentence_of(outcome)


def test_one_seed_gives_one_certificate(
    answer: Callable[..., dict[str, Any]], folder: Path
) -> None:
    contents = []
    for seed in (3, 3, 4):
        answer("certify", "mlp-4", "data.npz", *QUICK, "--seed", seed)
        contents.append((folder / "cert.iso").read_bytes())
    assert contents[0] == contents[1] != contents[2]


def test_what_is_rejected_has_exit_code_1(
    command: Callable[..., Outcome], answer: Callable[..., dict[str, Any]], folder: Path
) -> None:
    answer("certify", "mlp-4", "data.npz", *QUICK)
    content = (folder / "cert.iso").read_bytes()
    (folder / "bit.iso").write_bytes(content[:300] + bytes([content[300] ^ 4]) + content[301:])
    found = answer("verify", "bit.iso", "data.npz", code=1)
    assert found == {
        "verdict": "rejected",
        "valid": False,
        "bound": None,
        "reason": "the file is damaged: its SHA-256 is not the one it ends with",
        "assumes": [],
    }
    outcome = command("verify", "cert.iso", "both.npz")
    assert outcome.code == 1
    assert outcome.out.startswith("rejected: the data are not those of the certificate")
    (folder / "new.iso").write_bytes(content[:8] + b"\x02" + content[9:])
    outcome = command("verify", "new.iso", "data.npz")
    assert outcome.code == 1
    assert "is of format 2, newer than format 1" in outcome.out


def test_an_interrupted_run_goes_on(
    command: Callable[..., Outcome], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("isotropy.certificates._descent._SECONDS_BETWEEN_SAVES", -1.0)
    arguments = ("certify", "mlp-4", "data.npz", *QUICK)
    assert command(*arguments, "--out", "whole.iso").code == 0
    impatient, seen = [True], []

    @contextmanager
    def watched(description: str, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
        def told(step: Step) -> None:
            seen.append(step.message)
            if impatient[0] and step.message == "quantising, epoch 4 of 6":
                raise KeyboardInterrupt

        yield told

    monkeypatch.setattr("isotropy._run.terminal_progress", watched)
    outcome = command(*arguments)
    assert outcome.code == 130
    assert outcome.err == (
        "the same command goes on from the checkpoints in cert.iso.checkpoints\n"
        "error: interrupted\n"
    )
    assert not (folder / "cert.iso").exists()
    assert "remove that folder to begin anew" in sentence_of(command(*arguments, "--seed", "7"))
    impatient[0] = False
    seen.clear()
    assert command(*arguments).code == 0
    assert seen == [
        *(f"quantising, epoch {epoch} of 6" for epoch in (4, 5, 6)),
        "counting errors",
    ]
    assert (folder / "cert.iso").read_bytes() == (folder / "whole.iso").read_bytes()
    assert not (folder / "cert.iso.checkpoints").exists()


def test_minutes_may_give_another_number_of_epochs_the_next_time(
    command: Callable[..., Outcome], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fitting = iter((3, 5))

    def in_time(space: Any, goal: Any, x: Any, y: Any, recipe: Recipe) -> Recipe:
        return replace(recipe, epochs=next(fitting), quantised_epochs=2)

    @contextmanager
    def impatient(description: str, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
        def told(step: Step) -> None:
            if step.message == "training, epoch 2 of 3":
                raise KeyboardInterrupt

        yield told

    monkeypatch.setattr("isotropy.certificates._search._in_time", in_time)
    monkeypatch.setattr("isotropy.certificates._descent._SECONDS_BETWEEN_SAVES", -1.0)
    monkeypatch.setattr("isotropy._run.terminal_progress", impatient)
    arguments = ("certify", "mlp-4", "data.npz", "--minutes", "1")
    assert command(*arguments).code == 130
    assert (folder / "cert.iso.checkpoints" / "free.safetensors").exists()
    assert command(*arguments).code == 0


def test_an_early_interruption_leaves_nothing(
    command: Callable[..., Outcome], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("isotropy.certificates._certification.quantised_weights", interrupted)
    outcome = command("certify", "mlp-4", "data.npz")
    assert (outcome.code, outcome.err) == (130, "error: interrupted\n")
    assert not (folder / "cert.iso.checkpoints").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["vgg", "data.npz"], "expected a network among mlp, lenet5, convnet, resnet20, got 'vgg'"),
        (["nets.py", "data.npz"], "expected path/to/module.py:factory"),
        (["nets.py:absent", "data.npz"], "got 'absent'"),
        (["nets.py:other_inputs", "data.npz"], "expected a model that runs on these inputs"),
        (["nets.py:particular", "data.npz"], "got AssertionError: only of six columns"),
        (["lenet5", "data.npz"], "expected inputs (channels, h, w) for lenet5"),
        (["mlp-4", "absent.npz"], "absent.npz: expected a file or folder"),
        (["mlp-4", "data.npz", "--delta", "1"], "expected --delta between 0 and 1, got 1.0"),
        (["mlp-4", "data.npz", "--delta", "0"], "expected --delta between 0 and 1, got 0.0"),
        (["mlp-4", "data.npz", "--classes", "1"], "expected labels from 0 to 0, got labels from"),
        (["mlp-4", "data.npz", "--dimension", "99"], "expected at most 22 dimensions"),
        (["mlp-4", "data.npz", "--levels", "999"], "expected 1 to 256 levels, got 999"),
        (["mlp-4", "data.npz", "--projector", "p"], "expected a projector among kronecker, "),
        (["mlp-4", "data.npz", "--rate", "0"], "expected a positive rate, got 0.0"),
        (["mlp-4", "data.npz", "--minutes", "0"], "expected a positive number of --minutes"),
        (["mlp-4", "data.npz", "--prior-percent", "100"], "a share of 1 to 99 percent, got 100"),
        (["mlp-4", "data.npz", "--symmetry", "S(2)"], "expected no symmetry for mlp-4"),
        (["mlp-4", "data.npz", "--tolerance", "1"], "expected a tolerance for a regression"),
        (["mlp-4", "data.npz", "--start", "w.pt"], "w.pt"),
        (["mlp-4", "data.npz", "--start", "w.safetensors"], "w.safetensors"),
        (["mlp-4", "data.npz", "--out", "."], "got the folder ."),
        (["mlp-4", "data.npz", "--out", "no/c.iso"], "a folder that is there, got no/c.iso"),
        (["mlp-4", "data.npz", "--split", "test"], "pair of arrays such as x and y of the split"),
    ],
    ids=[
        *(
            "network",
            "no factory",
            "no name",
            "misfit",
            "guard",
            "shape",
            "no data",
            "delta",
            "delta 0",
        ),
        *("classes", "dimension", "levels", "projector", "rate", "minutes", "percent", "symmetry"),
        *("tolerance", "pickle", "no start", "folder", "no folder", "split"),
    ],
)
def test_bad_input_is_one_sentence(
    command: Callable[..., Outcome], folder: Path, arguments: list[str], sentence: str
) -> None:
    assert sentence in sentence_of(command("certify", *arguments, "--epochs", "1"))
    assert not (folder / "cert.iso.checkpoints").exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["absent.iso", "data.npz"], "absent.iso: expected a certificate"),
        (["data.npz", "absent.npz"], "absent.npz: expected a file or folder"),
        (["data.npz", "data.npz", "--arch", "nets.py:absent"], "got 'absent'"),
        (["data.npz", "data.npz", "--checkpoint", "w.safetensors"], "w.safetensors"),
        (
            ["data.npz", "data.npz", "--checkpoint", "w.pkl"],
            "expected weights in a .safetensors file",
        ),
    ],
    ids=["no certificate", "no data", "no module", "no checkpoint", "pickle"],
)
def test_bad_input_to_verify_is_one_sentence(
    command: Callable[..., Outcome], arguments: list[str], sentence: str
) -> None:
    assert sentence in sentence_of(command("verify", *arguments))


def test_the_library_verifies_what_the_command_wrote(
    answer: Callable[..., dict[str, Any]], folder: Path
) -> None:
    answer("certify", "mlp-4", "data.npz", *QUICK)
    assert verify(folder / "cert.iso", folder / "data.npz")
