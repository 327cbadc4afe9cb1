import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from isotropy.data import load_model

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(self.first(x))

def make():
    return Net()

def sized(width):
    return nn.Linear(width, 1)

def wrong():
    return 3

def broken():
    return 1 / 0

built = nn.Linear(2, 2)
number = 7
_hidden = make
"""


@pytest.fixture(autouse=True)
def modules_as_before(monkeypatch: pytest.MonkeyPatch) -> Any:
    before, path = dict(sys.modules), list(sys.path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    assert sys.path == path
    for name in [name for name in sys.modules if name not in before]:
        del sys.modules[name]


@pytest.fixture
def nets(tmp_path: Path) -> Path:
    path = tmp_path / "nets.py"
    path.write_text(NETS)
    return path


# -- the user's own code ---------------------------------------------------------------------------


def test_a_factory_a_class_and_a_model(nets: Path) -> None:
    for name in ("make", "Net"):
        model = load_model(f"{nets}:{name}")
        assert type(model).__name__ == "Net"
        assert not model.training
        assert model(torch.ones(2, 3)).shape == (2, 4)
    assert isinstance(load_model(f"{nets}:built"), nn.Linear)


def test_a_model_goes_to_a_device(nets: Path) -> None:
    model = load_model(f"{nets}:make", device="meta")
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_neighbours_can_be_imported(tmp_path: Path) -> None:
    for number, folder in enumerate(("one", "two"), start=1):
        (tmp_path / folder / "parts").mkdir(parents=True)
        (tmp_path / folder / "widths.py").write_text(f"width = {number}")
        (tmp_path / folder / "parts/__init__.py").write_text("from parts.deep import depth")
        (tmp_path / folder / "parts/deep.py").write_text(f"depth = {10 * number}")
        (tmp_path / folder / "model.py").write_text(
            "from torch.nn import Linear\nfrom widths import width\n"
            "def net():\n    from parts import depth\n    return Linear(width, depth)\n"
        )
    for number, folder in ((1, "one"), (2, "two"), (1, "one")):
        model = load_model(f"{tmp_path / folder / 'model.py'}:net")
        assert (model.in_features, model.out_features) == (number, 10 * number)


def test_a_neighbour_does_not_replace_what_is_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise RuntimeError('not the real one')")
    (tmp_path / "model.py").write_text(
        "import json\nfrom torch.nn import Linear\nnet = Linear(1, len(json.dumps([])))\n"
    )
    assert load_model(f"{tmp_path / 'model.py'}:net").out_features == 2
    assert sys.modules["json"] is json


def test_a_relative_path(nets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(nets.parent)
    assert isinstance(load_model("nets.py:make"), nn.Module)
    assert isinstance(load_model("nets:make"), nn.Module)


def test_a_module_by_name() -> None:
    assert isinstance(load_model("torch.nn:Identity"), nn.Identity)


def test_dataclasses_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "from __future__ import annotations\nfrom dataclasses import dataclass, field\n"
        "from torch.nn import Linear\n@dataclass\nclass Size:\n    width: int = field(default=3)\n"
        "def net(): return Linear(Size().width, 1)\n"
    )
    assert load_model(f"{tmp_path / 'm.py'}:net").in_features == 3


def test_an_error_in_the_file_is_the_cause(tmp_path: Path) -> None:
    path = tmp_path / "m.py"
    path.write_text("import torch\n\nscale = 1 / 0\n")
    with pytest.raises(
        ValueError, match=r"m\.py: .* got ZeroDivisionError: .* in line 3"
    ) as caught:
        load_model(f"{path}:net")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert not [name for name in sys.modules if name.startswith("_isotropy_m_")]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("def net(:\n", r"expected a file that can be imported, got SyntaxError"),
        ("import nowhere_at_all\n", r"got ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("raise SystemExit(3)\n", r"got SystemExit: 3"),
        ("import math\nnet = 1\n", r"expected a torch.nn.Module from 'net', got int"),
        ("import math\n", r"a name among \(none: it defines no functions or models\), got 'net'"),
    ],
)
def test_a_bad_file(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "m.py"
    path.write_text(content)
    with pytest.raises(ValueError, match=sentence):
        load_model(f"{path}:net")


@pytest.mark.parametrize(
    ("name", "sentence", "cause"),
    [
        ("nett", r"a name among Net, make, sized, wrong, broken, built, got 'nett'$", type(None)),
        ("wrong", r"expected a torch.nn.Module from 'wrong', got int", type(None)),
        ("number", r"expected a torch.nn.Module from 'number', got int", type(None)),
        ("sized", r"expected sized\(\) to make a model, got TypeError: .*width", TypeError),
        ("broken", r"got ZeroDivisionError: division by zero in line 24", ZeroDivisionError),
    ],
)
def test_a_bad_factory(nets: Path, name: str, sentence: str, cause: type[BaseException]) -> None:
    with pytest.raises(ValueError, match=sentence) as caught:
        load_model(f"{nets}:{name}")
    assert isinstance(caught.value.__cause__, cause)


def test_modules_that_are_missing_or_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner.py").write_text("import nowhere_at_all\n")
    with pytest.raises(ValueError, match=r"torch.nowhere: expected a module on the path, got none"):
        load_model("torch.nowhere:net")
    with pytest.raises(ValueError, match=r"inner: expected a module that can be imported, got Mod"):
        load_model("inner:net")


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("nets.py", r"expected path/to/module.py:factory, .*, got 'nets.py'"),
        ("", r"expected path/to/module.py:factory, .*, got ''"),
        (":net", r"expected path/to/module.py:factory, .*, got ':net'"),
        ("nets.py:", r"expected path/to/module.py:factory, .*, got 'nets.py:'"),
        ("nets.py:a()", r"expected path/to/module.py:factory, .*, got 'nets.py:a\(\)'"),
        ("none.py:net", r"none\.py: expected a file, got a path where none is"),
        ("folder/none:net", r"folder/none: expected a file, got a path where none is"),
        ("none.pt2", r"none\.pt2: expected a file, got a path where none is"),
        ("net.safetensors", r"got 'net.safetensors'; give it as weights of such a model"),
    ],
)
def test_a_bad_spec(spec: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        load_model(spec)


def test_code_needs_its_suffix(tmp_path: Path) -> None:
    (tmp_path / "model.txt").write_text("net = 1")
    with pytest.raises(ValueError, match=r"model\.txt: expected a file of Python code ending in"):
        load_model(f"{tmp_path / 'model.txt'}:net")


# -- weights ---------------------------------------------------------------------------------------


def test_weights(nets: Path, tmp_path: Path) -> None:
    torch.manual_seed(1)
    original = load_model(f"{nets}:make")
    state = original.state_dict()
    state["norm.running_mean"] = torch.arange(4.0)
    save_file(state, tmp_path / "w.safetensors")
    model = load_model(str(nets) + ":make", weights=tmp_path / "w.safetensors")
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    x = torch.randn(5, 3)
    expected = (original.first(x) - torch.arange(4.0)) / (1 + 1e-5) ** 0.5
    assert torch.allclose(model(x), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda w: w.pop("norm.bias"), r"the weights of Net, got missing norm.bias$"),
        (lambda w: w.update(more=torch.ones(1)), r"got unexpected more$"),
        (
            lambda w: w.update({"first.bias": torch.ones(5)}),
            r"got of another shape first.bias \(5,\) for \(4,\)$",
        ),
        (
            lambda w: [w.pop(name) for name in list(w)] + [w.update(a=torch.ones(1))],
            r"got missing first.weight, first.bias, norm.weight and 4 more; unexpected a$",
        ),
    ],
)
def test_weights_that_do_not_fit(
    nets: Path, tmp_path: Path, change: Callable[[dict[str, Any]], Any], sentence: str
) -> None:
    state = load_model(f"{nets}:make").state_dict()
    change(state)
    save_file(state, tmp_path / "w.safetensors")
    with pytest.raises(ValueError, match=sentence):
        load_model(f"{nets}:make", weights=tmp_path / "w.safetensors")


def test_tied_weights_are_saved_once(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "from torch import nn\ndef net():\n"
        "    a, b = nn.Linear(2, 2), nn.Linear(2, 2)\n    b.weight = a.weight\n"
        "    return nn.Sequential(a, b)\n"
    )
    original = load_model(f"{tmp_path / 'm.py'}:net")
    save_model(original, str(tmp_path / "w.safetensors"))
    model = load_model(f"{tmp_path / 'm.py'}:net", weights=tmp_path / "w.safetensors")
    assert torch.equal(model(torch.eye(2)), original(torch.eye(2)))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("none.safetensors", r"none\.safetensors: expected a file, got a path where none is"),
        ("damaged.safetensors", r"damaged\.safetensors: expected a safetensors file, got a dama"),
        ("w.npz", r"expected weights in a \.safetensors file, got '.*w\.npz'"),
        ("w.pt", r"got the pickle '.*w\.pt', which could run any code; save its state_dict\(\)"),
    ],
)
def test_bad_weights(nets: Path, tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "damaged.safetensors").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match=sentence):
        load_model(f"{nets}:make", weights=tmp_path / name)


class Trap:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("suffix", [".pt", ".pth", ".pkl", ".pickle", ".bin", ".ckpt", ".PT"])
def test_a_pickle_is_refused(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"net{suffix}"
    path.write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    for spec in (path, f"{path}:net"):
        with pytest.raises(ValueError, match=r"got the pickle .*, which could run any code; save"):
            load_model(spec)
    assert not (tmp_path / "sprung").exists()


# -- exported programs -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def program() -> tuple[nn.Module, bytes]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.BatchNorm1d(4)).eval()
    exported = torch.export.export(
        net, (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim("rows")},)
    )
    buffer = io.BytesIO()
    torch.export.save(exported, buffer)
    return net, buffer.getvalue()


def changed(archive: bytes, name: str, content: bytes | None) -> bytes:
    """Replace, add or remove one file below the root of an archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for member in old.namelist():
            if member != f"{root}/{name}":
                new.writestr(member, old.read(member))
        if content is not None:
            new.writestr(f"{root}/{name}", content)
    return buffer.getvalue()


def test_an_exported_program(tmp_path: Path, program: tuple[nn.Module, bytes]) -> None:
    net, archive = program
    path = tmp_path / "net.pt2"
    path.write_bytes(archive)
    x = torch.randn(7, 3)
    assert torch.allclose(load_model(path)(x), net(x))
    with pytest.raises(ValueError, match=r"expected no weights for a \.pt2, got 'w.safetensors'"):
        load_model(path, weights="w.safetensors")
    moved = load_model(path, device="meta")
    assert {value.device.type for value in moved.state_dict().values()} == {"meta"}


def sprung(path: Path) -> bytes:
    buffer = io.BytesIO()
    torch.save(Trap(path), buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("data/weights/model.pt", r"expected plain tensors and a graph, got 'archive/data/weights"),
        ("data/constants/model.pt", r"expected plain tensors and a graph, got"),
        ("data/constants/opaque_obj_0", r"expected plain tensors and a graph, got"),
        ("data/aotinductor/model/lib.so", r"expected plain tensors and a graph, got"),
    ],
)
def test_pickles_within_a_program(
    tmp_path: Path, program: tuple[nn.Module, bytes], name: str, sentence: str
) -> None:
    path = tmp_path / "net.pt2"
    path.write_bytes(changed(program[1], name, sprung(tmp_path / "sprung")))
    with pytest.raises(ValueError, match=sentence):
        load_model(path)
    assert not (tmp_path / "sprung").exists()


def test_example_inputs_are_not_read(tmp_path: Path, program: tuple[nn.Module, bytes]) -> None:
    path, x = tmp_path / "net.pt2", torch.randn(7, 3)
    trap = sprung(tmp_path / "sprung")
    path.write_bytes(changed(program[1], "data/sample_inputs/model.pt", trap))
    assert torch.allclose(load_model(path)(x), program[0](x))
    assert not (tmp_path / "sprung").exists()


def test_a_pickled_weight_within_a_program(
    tmp_path: Path, program: tuple[nn.Module, bytes]
) -> None:
    path, name = tmp_path / "net.pt2", "data/weights/model_weights_config.json"
    with zipfile.ZipFile(io.BytesIO(program[1])) as archive:
        config = json.loads(archive.read(f"archive/{name}"))
    config["config"]["0.bias"]["use_pickle"] = True
    content = changed(program[1], name, json.dumps(config).encode())
    path.write_bytes(changed(content, "data/weights/weight_1", sprung(tmp_path / "sprung")))
    with pytest.raises(ValueError, match=r"expected plain tensors, got a pickled one, which could"):
        load_model(path)
    assert not (tmp_path / "sprung").exists()
    path.write_bytes(changed(program[1], name, b"[]"))
    with pytest.raises(ValueError, match=r"expected an exported program, got a damaged one"):
        load_model(path)


def test_what_is_no_program(tmp_path: Path, program: tuple[nn.Module, bytes]) -> None:
    path = tmp_path / "net.pt2"
    for content in (b"nonsense", changed(program[1], "models/model.json", None)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"net\.pt2: expected an exported program, got"):
            load_model(path)
    path.write_bytes(changed(program[1], "models/model.json", b"{}"))
    with pytest.raises(ValueError, match=r"expected an exported program that this PyTorch reads"):
        load_model(path)
