import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, NamedTuple, TypeAlias

import pytest
import typer

import isotropy
from isotropy.cli import Answer, Frame, run, verb


class Outcome(NamedTuple):
    code: int
    out: str
    err: str


Command: TypeAlias = Callable[..., Outcome]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    def invoke(*arguments: str, app: typer.Typer | None = None) -> Outcome:
        code = run(arguments) if app is None else run(arguments, app)
        return Outcome(code, *capsys.readouterr())

    return invoke


def one_sentence(outcome: Outcome) -> str:
    """Check that a command failed as bad input should, and return its sentence."""
    assert outcome.code == 2
    assert outcome.out == ""
    assert outcome.err.startswith("error: ")
    assert outcome.err.count("\n") == 1
    return outcome.err.removeprefix("error: ").strip()


toy = typer.Typer()


@verb("toy", app=toy)
def a_toy(
    frame: Frame,
    word: str,
    times: Annotated[int, typer.Option(help="How often.")] = 1,
) -> Answer:
    """Do whatever the word says."""
    logging.getLogger("isotropy.toy").info("hearing %s", word)
    match word:
        case "value":
            raise ValueError("expected a [bold]number[/bold],\n  got 'x'")
        case "file":
            Path("absent.npz").read_bytes()
        case "bare":
            raise OSError("the disk is gone")
        case "defect":
            raise KeyError("a defect of ours")
        case "interrupt":
            raise KeyboardInterrupt
        case "reject":
            return Answer({"valid": False}, "rejected", exit_code=1)
        case "nan":
            return Answer({"bound": float("nan")})
        case "random":
            return Answer({"seed": frame.generator().initial_seed()})
    with frame.progress("toying"):
        return Answer({"word": word * times, "device": frame.device, "seed": frame.seed})


def test_the_answer_is_a_small_table(command: Command) -> None:
    outcome = command("[/red]", "--times", "2", "--seed", "3", app=toy)
    assert outcome.code == 0
    assert outcome.out == "word    [/red][/red]\ndevice  cpu\nseed    3\n"


def test_json_is_one_object_on_standard_output(command: Command) -> None:
    outcome = command("hi", "--json", app=toy)
    assert outcome.out.count("\n") == 1
    assert json.loads(outcome.out) == {"word": "hi", "device": "cpu", "seed": None}
    assert outcome.err == "hearing hi\n"


def test_json_is_standard_json(command: Command) -> None:
    assert command("nan", "--json", app=toy).out == '{"bound": null}\n'


def test_quiet_keeps_the_messages_back(command: Command) -> None:
    outcome = command("hi", "--quiet", app=toy)
    assert outcome.err == ""
    assert outcome.out != ""


def test_the_seed_reaches_the_generator(command: Command) -> None:
    assert json.loads(command("random", "--seed", "7", "--json", app=toy).out) == {"seed": 7}


def test_logging_is_left_as_it_was(command: Command) -> None:
    logger = logging.getLogger("isotropy")
    before = logger.level, list(logger.handlers)
    command("value", app=toy)
    assert (logger.level, list(logger.handlers)) == before


@pytest.mark.parametrize("flags", [[], ["--json"]])
@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("value", "expected a [bold]number[/bold], got 'x'"),
        ("file", "absent.npz: No such file or directory"),
        ("bare", "the disk is gone"),
    ],
)
def test_bad_input_is_one_sentence(
    command: Command, word: str, sentence: str, flags: list[str]
) -> None:
    assert one_sentence(command(word, "--quiet", *flags, app=toy)) == sentence


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "Missing argument"),
        (["a", "b"], "unexpected extra argument"),
        (["a", "--nope"], "--nope"),
        (["a", "--times", "x"], "--times"),
        (["a", "--seed", "-1"], "--seed"),
        (["a", "--seed", "pi"], "--seed"),
        (["a", "--device", "banana"], "expected a device that PyTorch can use here, got 'banana'"),
        (["a", "--device", "cuda:99"], "got 'cuda:99'"),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--json"]])
def test_bad_usage_is_one_sentence(
    command: Command, arguments: list[str], says: str, flags: list[str]
) -> None:
    assert says in one_sentence(command(*arguments, *flags, app=toy))


def test_a_defect_keeps_its_traceback() -> None:
    with pytest.raises(KeyError, match="a defect of ours"):
        run(["defect"], toy)


def test_an_answer_may_be_a_rejection(command: Command) -> None:
    outcome = command("reject", app=toy)
    assert outcome.code == 1
    assert outcome.out == "rejected\n"
    assert json.loads(command("reject", "--json", app=toy).out) == {"valid": False}


def test_an_interruption_is_130(command: Command) -> None:
    assert command("interrupt", "--quiet", app=toy) == (130, "", "error: interrupted\n")


def test_help_shows_the_common_options(command: Command) -> None:
    outcome = command("--help", app=toy)
    assert outcome.code == 0
    assert "Do whatever the word says." in outcome.out
    for option in ("--times", "--json", "--seed", "--device", "--quiet"):
        assert option in outcome.out
    assert "--frame" not in outcome.out


def test_version(command: Command) -> None:
    assert command("--version") == (0, f"isotropy {isotropy.__version__}\n", "")


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_the_verbs(command: Command, arguments: list[str]) -> None:
    outcome = command(*arguments)
    assert outcome.code == 0
    assert "basis" in outcome.out


def test_an_unknown_verb_is_one_sentence(command: Command) -> None:
    assert "frobnicate" in one_sentence(command("frobnicate"))


def python(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(  # type: ignore[call-overload, no-any-return]
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=120,
        **options,
    )


def test_python_m_isotropy() -> None:
    done = python("-m", "isotropy", "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"isotropy {isotropy.__version__}\n"


def test_the_version_is_told_without_loading_torch() -> None:
    script = "import sys; from isotropy.cli import run; run(['--version']); "
    done = python("-c", script + "sys.exit('torch' in sys.modules or 'numpy' in sys.modules)")
    assert done.returncode == 0


def test_control_c_ends_a_running_verb(tmp_path: Path) -> None:
    script = tmp_path / "wait.py"
    script.write_text(
        "import sys, time, typer\n"
        "from isotropy.cli import Answer, Frame, run, verb\n"
        "app = typer.Typer()\n"
        "@verb('wait', app=app)\n"
        "def wait(frame: Frame) -> Answer:\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(100)\n"
        "    return Answer({})\n"
        "sys.exit(run([], app))\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # a test run in the background ignores the signal, and its children would inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")


def test_a_reader_that_has_gone_is_no_disaster() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "isotropy", "basis", "Z(4)", "V"],
            stdout=write,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (1, "")


class TestBasis:
    @pytest.mark.parametrize(
        ("group", "rep", "dim", "rank"),
        [
            ("Z(4)", "V>>V", 16, 4),  # circulant matrices
            ("S(5)", "V>>V", 25, 2),  # deep sets
            ("S(4)", "T(4)", 256, 15),  # Bell number 15
            ("Z(3)*Z(3)", "V>>V", 81, 9),  # 2-D convolution
            ("SO(3)", "T(3)", 27, 1),  # the Levi-Civita symbol
        ],
    )
    def test_json(self, command: Command, group: str, rep: str, dim: int, rank: int) -> None:
        outcome = command("basis", group, rep, "--json")
        assert outcome.code == 0
        answer = json.loads(outcome.out)
        assert list(answer) == ["group", "rep", "dim", "rank", "method", "seconds", "residual"]
        assert (answer["group"], answer["rep"]) == (group, rep)
        assert (answer["dim"], answer["rank"]) == (dim, rank)
        assert answer["seconds"] >= 0
        assert 0 <= answer["residual"] < 1e-8

    @pytest.mark.parametrize("method", ["orbits", "dense"])
    def test_the_method_can_be_chosen(self, command: Command, method: str) -> None:
        outcome = command("basis", "S(3)", "T(2)", "--method", method, "--no-cache", "--json")
        answer = json.loads(outcome.out)
        assert answer["method"] == method
        assert answer["rank"] == 2

    def test_text(self, command: Command) -> None:
        outcome = command("basis", "Z(4)", "V>>V")
        assert outcome.code == 0
        rows = dict(line.split(maxsplit=1) for line in outcome.out.splitlines())
        assert list(rows) == ["group", "rep", "dim", "rank", "method", "seconds", "residual"]
        assert (rows["group"], rows["rep"], rows["rank"]) == ("Z(4)", "V>>V", "4")

    def test_plot(self, command: Command, tmp_path: Path) -> None:
        picture = tmp_path / "circulant.png"
        outcome = command("basis", "Z(4)", "V>>V", "--plot", str(picture), "--json")
        assert json.loads(outcome.out)["plot"] == str(picture)
        assert picture.read_bytes().startswith(b"\x89PNG\r\n")
        assert [path.name for path in tmp_path.iterdir()] == ["circulant.png"]

    @pytest.mark.parametrize(
        ("picture", "says"),
        [
            ("basis.jpg", "expected a file name ending in .png for --plot, got 'basis.jpg'"),
            ("absent/basis.png", "expected an existing folder for --plot, got 'absent'"),
            ("folder.png", "expected a file for --plot, got the folder 'folder.png'"),
        ],
    )
    def test_a_picture_that_cannot_be_written_is_refused_before_solving(
        self,
        command: Command,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        picture: str,
        says: str,
    ) -> None:
        def solve(*_: object, **__: object) -> None:
            raise AssertionError("solved")

        monkeypatch.chdir(tmp_path)
        (tmp_path / "folder.png").mkdir()
        monkeypatch.setattr("isotropy.bases.equivariant_basis", solve)
        assert one_sentence(command("basis", "Z(4)", "V", "--plot", picture)) == says
        assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]

    @pytest.mark.parametrize("flags", [[], ["--json"]])
    @pytest.mark.parametrize(
        ("group", "rep"),
        [
            ("Q(4)", "V"),
            ("Z(4", "V"),
            ("Z(0)", "V"),
            ("", "V"),
            ("Z(4)", "W"),
            ("Z(4)", "V>>"),
            ("Z(4)", "T(-1)"),
            ("__import__('os').mkdir('x')", "V"),
            ("Z(4)", "__import__('os').mkdir('x')"),
        ],
    )
    def test_a_string_that_does_not_parse_is_one_sentence(
        self,
        command: Command,
        group: str,
        rep: str,
        flags: list[str],
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.chdir(tmp_path)
        one_sentence(command("basis", group, rep, *flags))
        assert list(tmp_path.iterdir()) == []

    def test_an_unknown_method_is_one_sentence(self, command: Command) -> None:
        assert "magic" in one_sentence(command("basis", "Z(4)", "V", "--method", "magic"))
