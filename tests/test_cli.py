import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypeAlias

import numpy as np
import pytest
import torch
import typer
from PIL import Image
from safetensors.torch import save_file

import isotropy
from isotropy.cli import Answer, CommonOptions, run, verb


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
    common: CommonOptions,
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
            return Answer({"seed": common.generator().initial_seed()})
    with common.progress("toying"):
        return Answer({"word": word * times, "device": common.device, "seed": common.seed})


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
    assert "--common" not in outcome.out


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
        "from isotropy.cli import Answer, CommonOptions, run, verb\n"
        "app = typer.Typer()\n"
        "@verb('wait', app=app)\n"
        "def wait(common: CommonOptions) -> Answer:\n"
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


NETS = """
import torch
from torch import nn

class Pixels(nn.Module):
    def forward(self, x): return x[:, :, 1, 2]

class Applied(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
    def forward(self, x): return self.function(x)

def linear():
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(192, 4))

def normalised():
    scale = Applied(lambda x: (x - torch.tensor([0.5, 0.4, 0.3])[:, None, None]) / 0.2)
    return nn.Sequential(scale, *linear())

def probabilities(): return nn.Sequential(*linear(), nn.Softmax(-1))

def cnn():
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3),
    )

def mean(): return Applied(lambda x: x.mean((2, 3)))
def grey(): return nn.Conv2d(1, 2, 3)
def constant(): return Applied(lambda x: torch.ones(len(x), 2))
def rounding(): return nn.Sequential(Applied(torch.round), *linear())
def infinite(): return Applied(lambda x: x.mean((2, 3)) / 0)
def pair(): return Applied(lambda x: (x, x))
def oblong(): return nn.Sequential(nn.Flatten(), nn.Linear(192, 70), nn.Unflatten(1, (7, 2, 5)))
def length(): return Applied(lambda x: x.norm(dim=-1, keepdim=True))
def first(): return Applied(lambda x: x[:, :1])
def late(): return Applied(lambda x: x[..., 3])

class InPlace(nn.Module):
    def forward(self, x):
        y = 2 * x
        part = y[:, :1]
        y += x ** 2
        return part.mean((2, 3))

def out_of_place(): return Applied(lambda x: (2 * x + x ** 2)[:, :1].mean((2, 3)))

class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(x): return x ** 2
    @staticmethod
    def setup_context(context, inputs, output): pass
    @staticmethod
    def backward(context, slope): return 3 * slope
    @staticmethod
    def jvp(context, tangent): return 5 * tangent

def wrong(): return nn.Sequential(Applied(Wrong.apply), *linear())

def fussy():
    def five(x):
        if len(x) != 5: raise RuntimeError("Not 1")
        return x ** 2
    return Applied(five)

class Escapes(nn.Module):
    def forward(self, x): return torch.from_numpy(x.detach().numpy() ** 2).mean((2, 3))

class Interrupts(nn.Module):
    def forward(self, x): raise KeyboardInterrupt
"""


class TestMeasure:
    @pytest.fixture(autouse=True)
    def studio(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A folder with models and five photographs of eight by eight pixels."""
        monkeypatch.chdir(tmp_path)
        Path("nets.py").write_text(NETS)
        Path("photos").mkdir()
        rng = np.random.default_rng(0)
        for name in "abcde":
            pixels = rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(f"photos/{name}.png")
        np.savez("vectors.npz", x=rng.normal(size=(6, 3)))
        np.save("waves.npy", rng.normal(size=(4, 2, 16)))

    @pytest.fixture
    def measured(self, command: Command) -> Callable[..., dict[str, Any]]:
        def measure(*arguments: str) -> dict[str, Any]:
            outcome = command("measure", *arguments, "--json", "--seed", "0")
            assert outcome.code == 0, outcome.err
            answer: dict[str, Any] = json.loads(outcome.out)
            return answer

        return measure

    def photographs(self) -> torch.Tensor:
        arrays = [np.asarray(Image.open(path)) for path in sorted(Path("photos").glob("*.png"))]
        return torch.tensor(np.stack(arrays)).permute(0, 3, 1, 2).double() / 255

    def test_the_json_and_its_numbers(self, measured: Any) -> None:
        from isotropy.equivariance import image_action

        answer = measured("nets.py:linear", "photos")
        assert list(answer) == ["model", "data", "inputs", "skipped", "actions"]
        assert (answer["model"], answer["data"]) == ("nets.py:linear", "photos")
        assert (answer["inputs"], answer["skipped"]) == (5, [])
        assert list(answer["actions"]) == ["translation", "rotation"]
        torch.manual_seed(0)
        weight = torch.nn.Linear(192, 4).weight.detach().double()
        tangent = image_action("rotation").tangent(self.photographs()).flatten(1)
        squares = (tangent @ weight.T).square().mean(1)
        found = answer["actions"]["rotation"]
        assert found["lee"] == pytest.approx(float(squares.mean()), rel=1e-4)
        assert found["stderr"] == pytest.approx(float(squares.std()) / 5**0.5, rel=1e-4)
        assert found["lee_abs"] == pytest.approx(float((tangent @ weight.T).abs().mean()), rel=1e-4)
        assert (found["layers"], found["closure"]) == ([], None)
        assert found["sampled"]["scale"] == pytest.approx(np.pi / 18)
        assert found["sampled"]["value"] > 0

    def test_input_layouts(self, measured: Any, command: Command) -> None:
        rng = np.random.default_rng(1)
        pictures = rng.random((3, 3, 8, 8))
        np.save("first.npy", pictures)
        np.save("last.npy", pictures.transpose(0, 2, 3, 1))
        np.save("cloud.npy", rng.normal(size=(3, 9, 3)))
        Path("laid.py").write_text(
            "import torch\n"
            "class First(torch.nn.Module):\n"
            "    def forward(self, x): return x[..., ::2, ::2].tanh().mean((2, 3))\n"
            "class Last(torch.nn.Module):\n"
            "    def forward(self, x): return x[:, ::2, ::2].tanh().mean((1, 2))\n"
            "class Sizes(torch.nn.Module):\n"
            "    def forward(self, x): return x.norm(dim=-1)\n"
        )
        first = measured("laid.py:First", "first.npy", "--actions", "scale")
        last = measured("laid.py:Last", "last.npy", "--actions", "scale", "--input", "NHWC")
        ours, theirs = (a["actions"]["scale"]["lee"] for a in (first, last))
        assert ours == pytest.approx(theirs, rel=1e-9)
        assert ours > 0
        turned = measured("laid.py:Sizes", "cloud.npy", "--input", "points")["actions"]
        assert list(turned) == ["rotation_x", "rotation_y", "rotation_z"]
        assert all(found["lee"] < 1e-20 for found in turned.values())
        for file, choices in (("last.npy", "NCHW or NHWC"), ("cloud.npy", "NCL, NLC or points")):
            outcome = command("measure", "laid.py:Last", file)
            assert f"expected --input {choices} for inputs" in one_sentence(outcome)
        outcome = command("measure", "laid.py:Last", "cloud.npy", "--input", "NHWC")
        assert "expected 4 axes for --input NHWC" in one_sentence(outcome)

    def test_what_a_model_prints_does_not_come_between(self, command: Command) -> None:
        Path("loud.py").write_text(
            "import torch\n"
            "print('hello')\n"
            "class Loud(torch.nn.Module):\n"
            "    def forward(self, x):\n"
            "        print('working')\n"
            "        return x.mean((2, 3))\n"
        )
        outcome = command("measure", "loud.py:Loud", "photos", "--actions", "scale", "--json")
        assert json.loads(outcome.out)["inputs"] == 5
        assert "working" in outcome.err

    def test_one_number_for_each_input(self, measured: Any) -> None:
        Path("one.py").write_text(
            "import torch\n"
            "class One(torch.nn.Module):\n"
            "    def forward(self, x): return x.tanh().mean((1, 2, 3))\n"
        )
        assert measured("one.py:One", "photos")["actions"]["rotation"]["sampled"]["value"] >= 0

    def test_layer_by_layer_with_a_picture(self, measured: Any) -> None:
        answer = measured(
            "nets.py:cnn", "photos", "--actions", "rotation", "--layerwise", "--layer-inputs", "3",
            "--plot", "layers.png",
        )  # fmt: skip
        found = answer["actions"]["rotation"]
        assert sum(layer["share"] for layer in found["layers"]) == pytest.approx(1, abs=1e-4)
        kinds = {layer["name"]: layer["kind"] for layer in found["layers"]}
        assert kinds["0"] == "strided convolution"
        assert found["layer_inputs"] == 3
        assert found["closure"] < 1e-4
        assert answer["plot"] == "layers.png"
        assert Path("layers.png").read_bytes().startswith(b"\x89PNG\r\n")

    def test_layouts(self, measured: Any) -> None:
        options = ("nets.py:cnn", "photos", "--actions", "rotation", "--layerwise")
        plain = measured(*options)["actions"]["rotation"]
        changed = measured(*options, "--layout", "[12]=NCHW", "--layout", "0=invariant")
        found = changed["actions"]["rotation"]
        assert found["lee"] == plain["lee"]
        first = plain["layers"][0], found["layers"][0]
        assert [layer["name"] for layer in first] == ["0", "0"]
        assert first[1]["contribution"] != pytest.approx(first[0]["contribution"], rel=1e-2)

    def test_text(self, command: Command) -> None:
        outcome = command("measure", "nets.py:cnn", "photos", "--layerwise")
        assert (outcome.code, outcome.err) == (0, "")
        lines = outcome.out.splitlines()
        assert lines[0] == "nets.py:cnn, 5 inputs"
        assert [line.split()[0] for line in lines[1:4]] == ["action", "translation", "rotation"]
        assert "rotation, layer by layer" in lines

    def test_an_unreadable_image_is_named_counted_and_left_out(
        self, command: Command, measured: Any
    ) -> None:
        before = measured("nets.py:linear", "photos")
        Path("photos/bad.jpg").write_bytes(b"no image")
        after = measured("nets.py:linear", "photos")
        assert after["skipped"] == ["bad.jpg"]
        assert (after["inputs"], after["actions"]) == (5, before["actions"])
        outcome = command("measure", "nets.py:linear", "photos")
        assert outcome.out.endswith("left out, as they could not be read: bad.jpg\n")
        assert "photos/bad.jpg" in outcome.err

    def test_sizes(self, command: Command, measured: Any) -> None:
        Image.new("RGB", (16, 8), "red").save("photos/wide.png")
        sentence = one_sentence(command("measure", "nets.py:linear", "photos"))
        assert "expected 8×8 pixels as in a.png, got 8×16 (--size HEIGHTxWIDTH resizes" in sentence
        squeezed = measured("nets.py:linear", "photos", "--size", "8")
        cropped = measured("nets.py:linear", "photos", "--size", "8x8", "--crop")
        assert squeezed["inputs"] == cropped["inputs"] == 6
        large = measured("nets.py:cnn", "photos", "--size", "12x10", "--actions", "scale")
        assert large["inputs"] == 6

    def test_changes_in_place(self, measured: Any) -> None:
        options = ("photos", "--actions", "rotation", "--layerwise")
        one = measured("nets.py:InPlace", *options)["actions"]["rotation"]
        other = measured("nets.py:out_of_place", *options)["actions"]["rotation"]
        assert one["lee"] == pytest.approx(other["lee"], rel=1e-4)

    def test_normalisation(self, measured: Any) -> None:
        actions = ("--actions", "rotation,brightness")
        inside = measured("nets.py:normalised", "photos", *actions)["actions"]
        outside = measured(
            "nets.py:linear", "photos", *actions, "--mean", "0.5,0.4,0.3", "--std", "0.2"
        )["actions"]
        for name in ("rotation", "brightness"):
            assert outside[name]["lee"] == pytest.approx(inside[name]["lee"], rel=1e-3)
        assert outside["brightness"]["mean"] == [0.5, 0.4, 0.3]

    def test_softmax_weights_and_the_first_inputs(self, measured: Any) -> None:
        weight = torch.randn(4, 192, generator=torch.Generator().manual_seed(1))
        save_file({"1.weight": weight, "1.bias": torch.zeros(4)}, "w.safetensors")
        options = ("--weights", "w.safetensors", "--inputs", "3")
        one = measured("nets.py:linear", "photos", "--softmax", *options)
        other = measured("nets.py:probabilities", "photos", *options)
        assert one["inputs"] == 3
        assert one["actions"]["rotation"]["lee"] == pytest.approx(
            other["actions"]["rotation"]["lee"]
        )

    def test_the_boundary(self, measured: Any) -> None:
        options = ("nets.py:mean", "photos", "--actions", "translation", "--boundary")
        periodic = measured(*options, "periodic")["actions"]["translation"]
        reflecting = measured(*options, "reflect")["actions"]["translation"]
        assert periodic["boundary"] == "periodic"
        assert periodic["lee"] < 1e-9 < 1e-3 < reflecting["lee"]

    def test_vectors(self, measured: Any) -> None:
        options = ("vectors.npz", "--symmetry", "SO(3): V >> Scalar")
        assert measured("nets.py:length", *options)["actions"]["SO(3)"]["lee"] < 1e-20
        found = measured("nets.py:first", *options)["actions"]["SO(3)"]
        x = np.load("vectors.npz")["x"]
        assert found["lee"] == pytest.approx(float((x[:, 1] ** 2 + x[:, 2] ** 2).mean() / 3))
        assert found["symmetry"] == "SO(3): V >> Scalar"

    def test_discrete_groups(self, measured: Any) -> None:
        options = ("vectors.npz", "--symmetry", "S(3): V >> Scalar")
        assert measured("nets.py:length", *options)["actions"]["S(3)"]["sampled"]["value"] < 1e-12
        found = measured("nets.py:first", *options)["actions"]["S(3)"]
        x = np.load("vectors.npz")["x"]
        assert found["lee"] is None
        assert found["sampled"]["value"] == pytest.approx(np.abs(x - x[:, :1]).mean())
        flips = measured("nets.py:mean", "photos", "--actions", "flips")["actions"]["flips"]
        assert flips["sampled"]["value"] < 1e-6

    def test_tables_leave_the_target_out(self, measured: Any) -> None:
        rows = np.load("vectors.npz")["x"]
        lines = [",".join(map(str, [*row, 1.5 + i])) for i, row in enumerate(rows)]
        Path("table.csv").write_text("\n".join(["x,y,z,mass", *lines]))
        options = ("table.csv", "--target", "mass", "--symmetry", "SO(3): V >> Scalar")
        assert measured("nets.py:length", *options)["actions"]["SO(3)"]["lee"] < 1e-10

    def test_sequences(self, measured: Any) -> None:
        found = measured("nets.py:late", "waves.npy", "--boundary", "periodic")["actions"]
        waves = np.load("waves.npy")
        frequency = 2j * np.pi * np.fft.fftfreq(16, 1 / 16)
        frequency[8] = 0  # the highest one is a cosine through the samples
        slope = np.fft.ifft(frequency * np.fft.fft(waves)).real[..., 3]
        assert found["translation"]["lee"] == pytest.approx((slope**2).mean())

    def test_idx_files(self, measured: Any) -> None:
        images = np.random.default_rng(0).integers(0, 256, (4, 8, 8), dtype=np.uint8)
        Path("digits").mkdir()
        for name, array in (("images-idx3", images), ("labels-idx1", np.zeros(4, np.uint8))):
            header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
            Path(f"digits/train-{name}-ubyte").write_bytes(header + array.tobytes())
        answer = measured("nets.py:mean", "digits", "--split", "train", "--actions", "scale")
        assert answer["inputs"] == 4

    def test_exported_programs(self, command: Command, measured: Any) -> None:
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(192, 4))
        torch.export.save(torch.export.export(net, (torch.rand(5, 3, 8, 8),)), "net.pt2")
        program = measured("net.pt2", "photos")["actions"]
        plain = measured("nets.py:linear", "photos")["actions"]
        assert program["rotation"]["lee"] == pytest.approx(plain["rotation"]["lee"])
        sentence = one_sentence(command("measure", "net.pt2", "photos", "--layerwise"))
        assert sentence.startswith("expected a model made by Python code")
        sentence = one_sentence(command("measure", "net.pt2", "photos", "--batch-size", "2"))
        assert "expected the model to take inputs of shape (2, 3, 8, 8)" in sentence

    def test_the_seed_decides_the_samples(self, command: Command) -> None:
        runs = [
            command("measure", "nets.py:linear", "photos", "--json", "--seed", seed).out
            for seed in "001"
        ]
        assert runs[0] == runs[1] != runs[2]
        alone = command("measure", "nets.py:linear", "photos", "--json", "--no-sampled").out
        assert json.loads(alone)["actions"]["rotation"]["sampled"] is None

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["linear", "photos", "--actions", "wobble"],
             "expected an action on images among translation, shear, stretch, translation_x, "),
            (["linear", "photos", "--actions", "wobble"], "got 'wobble'; groups are horizontal_f"),
            (["linear", "photos", "--actions", ""], "got ''"),
            (["late", "waves.npy", "--actions", "rotation"],
             "expected an action on sequences among translation, scale, got 'rotation'"),
            (["linear", "empty"], "empty: expected idx files or images, got a folder without them"),
            (["linear", "nowhere"], "nowhere: expected a file or folder, got a path where nothing"),
            (["nowhere", "photos"], "nets.py: expected a name among"),
            (["grey", "photos"],
             "expected the model to take inputs of shape (5, 3, 8, 8), got RuntimeError: Given"),
            (["oblong", "photos"], "got shape (5, 7, 2, 5); say how with --output, for example "
             "--output invariant"),
            (["linear", "photos", "--output", "NCHW"], "expected a value of layout NCHW, got one"),
            (["constant", "photos"], "expected outputs that depend on the inputs, got the same"),
            (["rounding", "photos"], "is zero although its outputs change"),
            (["infinite", "photos"], "expected finite outputs, got one that is not"),
            (["pair", "photos"], "expected a tensor from the model, got tuple"),
            (["wrong", "photos", "--layerwise"], "expected contributions that add up to the Lie"),
            (["fussy", "photos"], "expected a model that can be measured, got RuntimeError: Not 1"),
            (["Escapes", "photos"], "expected a model that "),
            (["first", "vectors.npz"], "expected --symmetry for inputs of shape (6, 3), got none"),
            (["first", "vectors.npz", "--actions", "scale"], "got --actions scale"),
            (["first", "vectors.npz", "--symmetry", "SO(3)"], "symmetry"),
            (["first", "vectors.npz", "--symmetry", "SO(2): V >> V"], "expected inputs of shape"),
            (["first", "vectors.npz", "--symmetry", "SO(3): V >> V"], "expected outputs on which"),
            (["first", "vectors.npz", "--symmetry", "S(3): V >> Scalar", "--no-sampled"],
             "expected samples for the discrete group S(3), which has no derivative, got none"),
            (["first", "vectors.npz", "--symmetry", "SO(3): V >> V", "--actions", "scale"],
             "expected --actions or --symmetry, got both"),
            (["linear", "photos", "--plot", "p.png"], "expected --layerwise for --plot, got noth"),
            (["linear", "photos", "--plot", "p.jpg"], "expected a file name ending in .png"),
            (["linear", "photos", "--layout", "0=NCHW"], "expected --layerwise for --layout"),
            (["linear", "photos", "--layerwise", "--layout", "NCHW"], "expected --layout like"),
            (["linear", "photos", "--layerwise", "--layout", "z=NCHW"], "got 'z'"),
            (["linear", "photos", "--size", "big"], "expected --size like 224 or 224x224, got 'b"),
            (["linear", "photos", "--crop"], "expected --size for --crop, got none"),
            (["linear", "photos", "--mean", "a"], "expected --mean like 0.485,0.456,0.406, got 'a"),
            (["linear", "photos", "--mean", "1,2"], "images with 2 channels for --mean, got"),
            (["linear", "photos", "--std", "0"], "expected positive numbers for --std, got '0'"),
            (["linear", "photos", "--split", "test"], "split"),
            (["linear", "photos", "--method", "magic"], "magic"),
            (["linear", "photos", "--inputs", "0"], "--inputs"),
        ],
    )  # fmt: skip
    def test_bad_input_is_one_sentence(
        self, command: Command, arguments: list[str], says: str
    ) -> None:
        Path("empty").mkdir()
        model, *rest = arguments
        outcome = command("measure", f"nets.py:{model}", *rest)
        assert says in one_sentence(outcome)
        assert not list(Path.cwd().glob("*.png"))

    def test_an_interruption(self, command: Command) -> None:
        outcome = command("measure", "nets.py:Interrupts", "photos")
        assert (outcome.code, outcome.out, outcome.err) == (130, "", "error: interrupted\n")


@pytest.mark.parametrize("id", ["finzi2023/table3.2", "finzi2023/figure3.4"])
def test_a_missing_extra_is_one_sentence(
    id: str, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    outcome = command("reproduce", id)
    assert outcome.code == 2
    assert 'pip install "gymnasium[mujoco]" stable-baselines3' in one_sentence(outcome)


def test_other_import_errors_are_defects(command: Command) -> None:
    toy = typer.Typer()

    @verb("broken", app=toy)
    def broken(common: CommonOptions) -> Answer:
        raise ImportError("cannot import name 'x'")

    with pytest.raises(ImportError, match="cannot import name"):
        command(app=toy)


def test_a_verb_whose_distribution_is_broken_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from importlib.metadata import EntryPoint

    from isotropy.cli import _find_verbs

    broken = EntryPoint("broken", "isotropy_that_is_not_there", "isotropy.verbs")
    monkeypatch.setattr(_find_verbs, "entry_points", lambda group: (broken,))
    other = typer.Typer()
    monkeypatch.setattr(_find_verbs, "app", other)
    _find_verbs.add_other_verbs.__wrapped__()
    outcome = command("broken", "--deeply", "now", app=other)
    assert outcome.code == 2
    assert "isotropy_that_is_not_there, which cannot be imported" in outcome.err
    absent = command("reproduce", "finzi2023/table2.2", "--quick", app=other)
    assert absent.code == 2
    assert "pip install ./papers" in absent.err
