"""Damage to saved findings that was thought of, by name; each must be refused in one sentence.

Every one takes a copy of the honest folder "ring" and changes it in place.
"""

from __future__ import annotations

import json
import os
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from attacks.findings import RAN, signed, tensors_in

Damage = Callable[[Path], None]
FIRST = "finding-1"
_BIG = 10**9


class Leaves:
    """What leaves a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return open, (str(self.path), "w")


def changed(path: str, value: Any, *, file: str = f"{FIRST}/finding.json") -> Damage:
    """Another value at a place such as ``model.model.layers``."""

    def damage(folder: Path) -> None:
        whole = json.loads((folder / file).read_text())
        *names, last = path.split(".")
        holder = whole
        for name in names:
            holder = holder[int(name)] if isinstance(holder, list) else holder[name]
        holder[int(last) if isinstance(holder, list) else last] = value
        (folder / file).write_text(json.dumps(whole))
        signed(folder)

    return damage


def listed(path: str, value: Any) -> Damage:
    return changed(path, value, file="findings.json")


def written(content: bytes, file: str = f"{FIRST}/finding.json") -> Damage:
    """Other bytes instead of a file."""
    return lambda folder: _write(folder / file, content)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def replaced(old: bytes, new: bytes, file: str = f"{FIRST}/finding.json") -> Damage:
    """Other bytes within a file."""

    def damage(folder: Path) -> None:
        content = (folder / file).read_bytes()
        assert old in content
        (folder / file).write_bytes(content.replace(old, new, 1))

    return damage


def encoded(encoding: str) -> Damage:
    def damage(folder: Path) -> None:
        path = folder / FIRST / "finding.json"
        path.write_bytes(path.read_text(encoding="utf-8").encode(encoding))

    return damage


def symmetry(group: str, rep_in: str = "V", rep_out: str = "Scalar") -> Damage:
    given = {"format": 1, "group": group, "rep_in": rep_in, "rep_out": rep_out}
    return changed("symmetry", given)


def model(**spec: Any) -> Damage:
    return changed("model", spec)


def weights(change: Callable[[dict[str, torch.Tensor], dict[str, str]], None]) -> Damage:
    """Other tensors, or metadata, of the model."""

    def damage(folder: Path) -> None:
        path = folder / FIRST / "model.safetensors"
        tensors, metadata = tensors_in(path)
        change(tensors, metadata)
        save_file(tensors, path, metadata)

    return damage


def each_weight(make: Callable[[torch.Tensor], torch.Tensor]) -> Damage:
    def change(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
        tensors |= {name: make(one).contiguous() for name, one in tensors.items()}

    return weights(change)


def header(text: bytes, data: bytes = b"") -> Damage:
    return written(struct.pack("<Q", len(text)) + text + data, f"{FIRST}/model.safetensors")


def linked(name: str) -> Damage:
    """A link that leads out of the folder."""

    def damage(folder: Path) -> None:
        outside = folder.parent / "outside"
        outside.mkdir()
        (folder / name).rename(outside / "taken")
        (folder / name).symlink_to(outside / "taken")

    return damage


def circle(folder: Path) -> None:
    (folder / FIRST / "finding.json").unlink()
    (folder / FIRST / "finding.json").symlink_to("finding.json")


def pipe(folder: Path) -> None:
    (folder / FIRST / "finding.json").unlink()
    os.mkfifo(folder / FIRST / "finding.json")


def huge(folder: Path) -> None:
    with open(folder / FIRST / "finding.json", "r+b") as file:
        file.truncate(2**40)  # of which next to nothing is on the disk


def unpickled(folder: Path) -> None:
    (folder / FIRST / "model.safetensors").write_bytes(pickle.dumps(Leaves(folder / RAN)))


def torch_saved(folder: Path) -> None:
    torch.save({"x": Leaves(folder / RAN)}, folder / FIRST / "model.safetensors")


def nested(depth: int) -> dict[str, Any]:
    spec: dict[str, Any] = {"kind": "linear"}
    for _ in range(depth):
        spec = {"kind": "standardised", "model": spec}
    return spec


def set_scale(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    tensors["x_scale"] = torch.zeros_like(tensors["x_scale"])


def set_nan(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    tensors["y_mean"] = torch.full_like(tensors["y_mean"], float("nan"))


def rename(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    tensors["y-mean"] = tensors.pop("y_mean")


def add(tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    tensors["more"] = torch.zeros(1)


def metadata_of(**given: str) -> Damage:
    return weights(lambda tensors, metadata: metadata.update(given))


_MLP = {"kind": "mlp", "inputs": 4, "outputs": 1, "channels": 8, "layers": 1}
_IMAGE = {"kind": "image network", "image": [1, 4, 4], "outputs": 2, "paths": [["conv"]] * 4}
_GRID = {"kind": "grid network", "image": [1, 8, 8], "outputs": 3, "groups": [], "hidden": [8, 8]}
_EMLP = {"kind": "emlp", "channels": "V", "layers": 2, "bilinear": False}
_SWAPS = "[" + ",".join(map(str, [1, 0, *range(2, 60)])) + "]"
_CYCLE = "[" + ",".join(map(str, [*range(1, 60), 0])) + "]"

HAND_MADE: dict[str, Damage] = {
    # the JSON itself
    "nested deeply": written(b'{"format": 1, "name": ' + b"[" * 100_000),
    "nested deeply in objects": written(b'{"a":' * 5000 + b"1" + b"}" * 5000),
    "many lists": written(b'{"format": 1, "name": [' + b"[]," * 500_000 + b"[]]}"),
    "a number of many digits": replaced(b'"samples": 90', b'"samples": ' + b"9" * 100_000),
    "a number beyond any float": replaced(b'"samples": 90', b'"samples": 1e999'),
    "not a number": replaced(b'"samples": 90', b'"samples": NaN'),
    "infinity": replaced(b'"p_value": ', b'"p_value": -Infinity, "x": '),
    "a name twice": replaced(b'"confirmed": true', b'"confirmed": false, "confirmed": true'),
    "other bytes": replaced(b"shifts", b"\xff\xfe"),
    "a mark of byte order": encoded("utf-8-sig"),
    "two bytes a letter": encoded("utf-16"),
    "half a letter": replaced(b"D(4)", b"\\ud800"),
    "nothing": written(b""),
    "a list": written(b"[]"),
    "a terabyte": huge,
    "a later format": changed("format", 2),
    "true for a format": changed("format", True),
    "a text for a format": changed("format", "1"),
    # types
    "a text that is no flag": changed("confirmed", "no"),
    "one for true": changed("confirmed", 1),
    "a text for a number": changed("p_value", "0.01"),
    "a list for a number": changed("p_value", [0.01]),
    "true for a number": changed("p_value", True),
    "a chance above one": changed("p_value", 1.5),
    "nothing for a number": changed("p_value", None),
    "confirmed by chance": changed("p_value", 0.9),
    "confirmed beyond its margin": changed("effect", 5.0),
    "a group beside another's symmetry": changed("group", "SO(9)"),
    "a number for a name": changed("name", 7),
    "a list for a name": changed("name", ["D(4)"]),
    "a text for a list": changed("notes", "note"),
    "nothing for a list": changed("notes", None),
    "numbers for notes": changed("notes", [1, 2]),
    "a list for custom": changed("custom", []),
    "a text for custom": changed("custom", "V"),
    "a table of letters": changed("custom", {"Rows": [["a", "b"], ["c", "d"]]}),
    "a table without axes": changed("custom", {"Rows": 3}),
    "rows alike": changed("custom", {"Rows": [[0, 1], [0, 1]]}),
    "a name that is none": changed("custom", {"V + os": [[0], [1]]}),
    "half an interval": changed("interval", [0.1]),
    "an interval of texts": changed("interval", ["0", "1"]),
    "a fraction of samples": changed("samples", 1.5),
    "fewer than no samples": changed("samples", -1),
    "no elements": changed("order", 0),
    "a text for an order": changed("order", "8"),
    "a margin beyond any float": changed("margin", 10**400),
    "an effect of letters": changed("effect", "small"),
    "a layout of texts": changed("layout.channels", "1"),
    "a layout of one more": changed("layout.rows", 3),
    "no channels": changed("layout.channels", 0),
    "channels that do not fit": changed("layout.channels", 3),
    "an image that does not fit": changed("layout.image", [3, 3]),
    "an image of words": changed("layout.image", "16"),
    "labels without end": changed("labels", [[10**12]]),
    "labels of several lengths": changed("labels", [[0, 1], [0]]),
    "labels of fractions": changed("labels", [[0.5]]),
    "labels of flags": changed("labels", [[True, False]]),
    "generators that are not square": changed("generators", [[[0, 1, 0], [1, 0, 0]]]),
    "generators of texts": changed("generators", "rotation"),
    "a metric of texts": changed("metric", [["1"]]),
    "examples of two axes": changed("examples", [[1.0]]),
    "a row without its fields": changed("discrete", [{"name": "a mirror"}]),
    "a row that is a text": changed("classes", ["a class"]),
    "a verdict in words": changed("discrete", [{"name": "a mirror", "holds": "yes"}]),
    "a history of texts": changed("layers", [{"history": "long"}]),
    "a comparison of texts": changed("comparison.strict", "0.1"),
    "a comparison without a loss": changed("comparison", {"strict": 1.0}),
    "an accuracy above one": changed("comparison.strict_accuracy", 3.0),
    "a curve of pairs": changed("comparison.curve", [[1, 2]]),
    "certificates of nothing": changed("certificates", {}),
    "a bound in words": changed("certificates", {"with": {"bound": "0"}, "without": {}}),
    "a field of a later version": changed("negated", True),
    "a field of Python": changed("__class__", "os.system"),
    "weights as a text": changed("has_weights", "false"),
    "soft weights of nothing": changed("has_soft_weights", True),
    "codes of a terminal": changed("name", "\x1b[2J\x1b]0;gone\x07"),
    "codes of one byte": changed("action", "\x9b2J"),
    "letters turned around": changed("action", "\u202egnp.exe"),
    "a long text": changed("name", "x" * 10**6),
    # several findings
    "a text for findings": listed("findings", "finding-1"),
    "nothing for findings": listed("findings", None),
    "a number for findings": listed("findings", 1),
    "a place outside": listed("findings", ["../outside/finding-1"]),
    "a place anywhere": listed("findings", ["/etc"]),
    "a place in another": listed("findings", ["finding-1/../finding-1"]),
    "a place twice": listed("findings", ["finding-1", "finding-1"]),
    "a place that is not there": listed("findings", ["finding-1", "finding-2"]),
    "seconds in words": listed("seconds", "5 s"),
    "tried in one text": listed("tried", "all"),
    "tried without a name": listed("tried", [{"confirmed": True, "p_value": 0.1}]),
    "tried and sure in words": listed("tried", [{"name": "x", "confirmed": "no", "p_value": 0.1}]),
    "a number for a reading": listed("reading", 3),
    "a field more": listed("verdict", "sure"),
    # links and files
    "a folder elsewhere": linked(FIRST),
    "a finding elsewhere": linked(f"{FIRST}/finding.json"),
    "weights elsewhere": linked(f"{FIRST}/model.safetensors"),
    "a list elsewhere": linked("findings.json"),
    "a circle": circle,
    "a pipe": pipe,
    # groups and representations
    "a group of a billion": symmetry("S(1000000000)"),
    "a group of many generators": symmetry("SO(100000)"),
    "a group of too many": symmetry("SO(60)"),
    "a group of a very long number": symmetry("S(" + "9" * 5000 + ")"),
    "a product of many": symmetry("*".join(["Z(2)"] * 64)),
    "a sum of many": symmetry("+".join(["S(2)"] * 500)),
    "brackets": symmetry("(" * 3000 + "Z(2)" + ")" * 3000),
    "a wreath of wreaths": symmetry("wreath(wreath(S(64),S(64)),wreath(S(64),S(64)))"),
    "a large embedding": symmetry("embed(Z(2),1000000000000)"),
    "a question that takes hours": symmetry(
        f"semidirect(Group(discrete=[{_SWAPS},{_CYCLE}]),S(60))"
    ),
    "generators of infinity": symmetry("Group(algebra=[[[1e999]]])"),
    "a singular generator": symmetry("Group(discrete=[[[0.0,0.0],[0.0,1.0]]])"),
    "a group of code": symmetry("__import__('os').system('touch ran')"),
    "a tensor of many indices": symmetry("SO(3)", "T(40)"),
    "powers of powers": symmetry("S(4)", "((V**1000)**1000)**1000"),
    "a product of sums": symmetry("S(4)", "(V+Scalar)**40"),
    "copies of copies": symmetry("S(4)", "1000000000*(1000000000*V)"),
    "copies one by one": symmetry("S(4)", "100000*(V+Scalar)"),
    "a wide table": symmetry("S(4)", "V.on([0,1,2,3],1000000000)"),
    "all elements": symmetry("S(12)", "Regular"),
    "all elements of a list": symmetry(f"Group(discrete=[{_SWAPS},{_CYCLE}])", "Regular"),
    "a block of a large one": symmetry("S(200000)", "Block(0)"),
    "a name of nothing": symmetry("S(4)", "Rows"),
    "a change of basis": symmetry("S(4)", "V.change_basis([[0,0,0,0],[0,0,0,0]])"),
    # models
    "a kind of code": model(kind="os.system"),
    "a kind of a list": model(kind=["linear"]),
    "no kind": model(layers=2),
    "a model of a text": changed("model", "linear"),
    "layers without end": model(**{**_EMLP, "layers": _BIG}),
    "channels without end": model(**{**_EMLP, "channels": _BIG}),
    "channels of tensors": model(**{**_EMLP, "channels": "T(9)"}),
    "channels of powers": model(**{**_EMLP, "channels": "((V**99)**99)**99"}),
    "channels of a map": model(**{**_EMLP, "channels": "V>>V"}),
    "channels of flags": model(**{**_EMLP, "channels": True}),
    "a nonlinearity of code": model(**{**_EMLP, "nonlinearity": "eval"}),
    "an argument more": model(**{**_EMLP, "device": "cuda"}),
    "models in models": changed("model", nested(9)),
    "a deep model": changed("model", nested(12)),
    "a wide network": model(**{**_MLP, "channels": 2**24, "layers": 16}),
    "a network of other weights": model(**_MLP),
    "inputs without end": model(**{**_MLP, "inputs": 10**12}),
    "a large image": model(**{**_IMAGE, "image": [4096, 4096, 4096], "alpha": 256}),
    "paths of code": model(**{**_IMAGE, "paths": [["eval"]] * 4}),
    "images of other weights": model(**_IMAGE),
    "phases without end": model(**{**_IMAGE, "image": [1, 4096, 4096], "averaged": ["phases"]}),
    "large grids": model(**{**_GRID, "image": [64, 64, 64], "hidden": [64, 64, 64, 64]}),
    "a transformation of code": model(**{**_GRID, "groups": ["__import__"]}),
    "variances in words": model(kind="soft", model=_EMLP, variances="large"),
    "variances below zero": model(kind="soft", model=_EMLP, variances=[-1.0, 1.0]),
    "a soft network of images": model(kind="soft", model=_IMAGE, variances=[1.0, 1.0]),
    "an average of a million": model(kind="symmetrised", model=_MLP, elements=10**6),
    "columns elsewhere": model(
        kind="homogeneous", model=_EMLP, symmetry="S(4): V >> Scalar", columns=[9], degree=1.0
    ),
    "a degree beyond any": model(
        kind="homogeneous", model=_EMLP, symmetry="S(4): V >> Scalar", columns=[0], degree=1e9
    ),
    "a symmetry in a model": model(
        kind="homogeneous", model=_EMLP, symmetry="SO(100000): V >> V", columns=[0], degree=1.0
    ),
    "translations that do not fit": model(
        kind="translated", model=_EMLP, symmetry="S(4): V >> Scalar", along=[[1.0]]
    ),
    "translations of many": model(
        kind="translated", model=_MLP, symmetry=None, along=[[1.0]] * 20_000
    ),
    # weights
    "a pickle": unpickled,
    "a pickle of torch": torch_saved,
    "no weights": lambda folder: (folder / FIRST / "model.safetensors").unlink(),
    "weights that are no numbers": weights(set_nan),
    "a scale of zero": weights(set_scale),
    "another name": weights(rename),
    "one more": weights(add),
    "whole numbers": each_weight(lambda one: one.long()),
    "half precision": each_weight(lambda one: one.half()),
    "transposed": each_weight(lambda one: one.reshape(-1, 1)),
    "of another run": metadata_of(fingerprint="another"),
    "a later checkpoint": metadata_of(isotropy_checkpoint="9" * 6000),
    "complex in words": metadata_of(complex='["gone"]'),
    "a deep state": metadata_of(state="[" * 100_000),
    "a header without end": written(b"\xff" * 8, f"{FIRST}/model.safetensors"),
    "a header of brackets": header(b"[" * 50_000),
    "a header that promises": header(
        b'{"x":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4]}}', b"\0" * 4
    ),
    "a header without end of shapes": header(
        b'{"x":{"dtype":"F32","shape":[0,9223372036854775807],"data_offsets":[0,0]}}'
    ),
}
