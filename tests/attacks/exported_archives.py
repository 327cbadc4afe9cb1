"""Archives of exported programs as an attacker makes them: pickles, zip tricks, tensors that lie.

Whatever is run leaves the file `MARK` in the working folder, or imports `TRAP`, which leaves it.
"""

from __future__ import annotations

import io
import json
import pickle
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

MARK = "isotropy-ran"
TRAP = "isotropy_trap"
PAYLOAD = f"__import__('pathlib').Path('{MARK}').touch()"
# What ends ``getattr(self, "`` as PyTorch prints it, and goes on.
ATTRIBUTE = f"training\"), open('{MARK}', 'w'), (\"y"

Files = dict[str, bytes]
Attack = tuple[str, Callable[[], bytes]]

HONEST = Path(__file__).parents[1] / "honest" / "programs"
GRAPH = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"
CONSTANTS = "data/constants/model_constants_config.json"
EXAMPLES = "data/sample_inputs/model.pt"


class Trap:
    """What runs the payload when it is unpickled."""

    def __reduce__(self) -> Any:
        return eval, (PAYLOAD,)


def unpacked(name: str = "linear") -> Files:
    """The files of an honest program, below its root folder."""
    with zipfile.ZipFile(HONEST / f"{name}.pt2") as archive:
        return {n.partition("/")[2]: archive.read(n) for n in archive.namelist()}


def packed(files: Files, *, root: str = "archive/", compression: int = zipfile.ZIP_STORED) -> bytes:
    """An archive of these files."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(root + name, content)
    return buffer.getvalue()


def with_files(changes: Files, name: str = "linear") -> Callable[[], bytes]:
    """Add files to an honest program, or replace them."""
    return lambda: packed({**unpacked(name), **changes})


def with_json(
    file: str, change: Callable[[Any], Any], name: str = "linear", **others: bytes
) -> Callable[[], bytes]:
    """Change the content of one of a program's JSON files."""

    def build() -> bytes:
        files = unpacked(name)
        content = json.loads(files[file])
        content = change(content) or content
        return packed({**files, file: json.dumps(content).encode(), **others})

    return build


def with_weight(change: Callable[[dict[str, Any]], Any], **others: bytes) -> Callable[[], bytes]:
    """Change what is said of one weight."""
    return with_json(WEIGHTS, lambda config: change(config["config"]["0.weight"]), **others)


def saved(value: Any) -> bytes:
    """What ``torch.save`` makes of a value."""
    buffer = io.BytesIO()
    torch.save(value, buffer)
    return buffer.getvalue()


def _constant(name: str, content: bytes) -> Callable[[], bytes]:
    """A constant that is an object."""
    about = {"path_name": name, "is_param": False, "use_pickle": True, "tensor_meta": None}
    return with_json(
        CONSTANTS,
        lambda config: config["config"].update(trap=about),
        **{f"data/constants/{name}": content},
    )


# --- zip --------------------------------------------------------------------------------------


def _overlapping() -> bytes:
    """Many names for the same bytes, a bomb without compression."""
    large = {**unpacked(), "extra/0": bytes(200_000)}
    content = bytearray(packed(large))
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        start, offset = archive.start_dir, archive.getinfo("archive/extra/0").header_offset
    entries = b"".join(_entry(f"archive/extra/{i:04}", 200_000, offset) for i in range(2000))
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 2000, 2000, len(entries), start, 0)
    return bytes(content[:start]) + entries + end


def _entry(name: str, size: int, offset: int) -> bytes:
    fixed = (b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, size, size, len(name), 0, 0, 0, 0, 0, offset)
    return struct.pack("<4s6H3L5H2L", *fixed) + name.encode()


def _renamed_in_header() -> bytes:
    """A name in the directory that differs from the one before the bytes."""
    content = packed({**unpacked(), "data/constants/tensor_99": pickle.dumps(Trap())})
    place = content.index(b"archive/data/constants/tensor_99")
    return content[:place] + b"archive/data/constants/opaque_99" + content[place + 32 :]


def _two_directories() -> bytes:
    """One archive behind another: which directory counts depends on the reader."""
    hostile = packed({**unpacked(), "data/constants/model.pt": saved(Trap())})
    return hostile + packed({"archive_format": b"pt2"})


def _twice() -> bytes:
    content = packed({**unpacked(), "models/model.jsox": b"{}"})
    return content.replace(b"models/model.jsox", b"models/model.json")


def _encrypted() -> bytes:
    content = bytearray(packed(unpacked()))
    place = content.index(b"PK\1\2")
    content[place + 8] |= 1
    return bytes(content)


def _of_old_format() -> bytes:
    """What PyTorch reads when it cannot read the rest."""
    old = {
        "version": b"8.20",
        "serialized_exported_program.json": unpacked()[GRAPH],
        "serialized_state_dict.pt": saved(Trap()),
        "serialized_constants.pt": saved(Trap()),
        "serialized_example_inputs.pt": saved(Trap()),
    }
    return packed(old, root="")


_ZIPS: list[Attack] = [
    ("deflated bomb", lambda: packed({**unpacked(), "extra/0": bytes(10**7)}, compression=8)),
    ("lzma", lambda: packed(unpacked(), compression=zipfile.ZIP_LZMA)),
    ("overlapping entries", _overlapping),
    ("another name in the header", _renamed_in_header),
    ("two directories", _two_directories),
    ("a name twice", _twice),
    ("encrypted", _encrypted),
    ("the old format", _of_old_format),
    ("no root folder", lambda: packed(unpacked(), root="")),
    ("an absolute root", lambda: packed(unpacked(), root="/")),
    ("a root above", lambda: packed(unpacked(), root="../")),
    ("two roots", lambda: packed({**unpacked(), "../other/x": b""}, root="archive/")),
    ("a name above", with_files({f"../../{MARK}": b"x"})),
    ("an extra above", with_files({f"extra/../../{MARK}": b"x"})),
    ("two models", with_files({"models/other.json": b"{}"})),
    ("a model in a folder", with_files({"models/model/model.json": b"{}"})),
    ("another format", with_files({"archive_format": b"pt2 "})),
    ("another version", with_files({"archive_version": b"1"})),
    ("other bytes", with_files({"byteorder": b"big"})),
    ("no constants", lambda: packed({k: v for k, v in unpacked().items() if k != CONSTANTS})),
    ("truncated", lambda: packed(unpacked())[:-30]),
    ("empty", lambda: b""),
    ("an empty archive", lambda: packed({})),
    ("a pickle", lambda: pickle.dumps(Trap())),
    ("a checkpoint", lambda: saved(Trap())),
]

# --- pickles and libraries --------------------------------------------------------------------


def _two_pickles() -> bytes:
    return packed({"data.pkl": pickle.dumps(((), {}), 2), "b/data.pkl": pickle.dumps(Trap(), 2)})


def _use_pickle(about: dict[str, Any]) -> None:
    about["use_pickle"] = True


def _pickled_quietly(about: dict[str, Any]) -> None:
    about["use_pickle"] = 1


_PICKLES: list[Attack] = [
    ("a pickled weight", with_weight(_use_pickle, **{"data/weights/weight_0": saved(Trap())})),
    ("pickled, as 1", with_weight(_pickled_quietly, **{"data/weights/weight_0": saved(Trap())})),
    ("weights of the old format", with_files({"data/weights/model.pt": saved(Trap())})),
    ("constants of the old format", with_files({"data/constants/model.pt": saved(Trap())})),
    ("a pickled constant", _constant("tensor_0", saved(Trap()))),
    ("a script object", _constant("custom_obj_0", saved(Trap()))),
    ("an opaque object", _constant("opaque_obj_0", pickle.dumps(Trap()))),
    ("a compiled library", with_files({"data/aotinductor/model/model.so": b"\x7fELF"})),
    ("compiled code", with_files({"data/aotinductor/model/wrapper.cpp": b"int main() {}"})),
    ("another back end", with_files({"data/executorch/model.pte": b""})),
    ("weights elsewhere", with_files({"xl_model_weights/model_param_config.json": b"{}"})),
]

# Example inputs are made anew, and those of the file are not read.
UNREAD_INPUTS: list[Attack] = [
    ("pickled example inputs", with_files({EXAMPLES: saved(Trap())})),
    ("example inputs, plain pickle", with_files({EXAMPLES: pickle.dumps(Trap())})),
    ("example inputs by position", with_files({EXAMPLES: pickle.dumps(((Trap(),), {}), 4)})),
    ("example inputs, half a zip", with_files({EXAMPLES: saved(Trap())[:-9]})),
    ("example inputs, two pickles", with_files({EXAMPLES: _two_pickles()})),
]

# --- tensors ----------------------------------------------------------------------------------


def _about(**fields: Any) -> Callable[[], bytes]:
    return with_weight(lambda about: about["tensor_meta"].update(fields))


def _path(name: str) -> Callable[[], bytes]:
    return with_weight(lambda about: about.update(path_name=name))


def _renamed(name: str) -> Callable[[], bytes]:
    """Give a weight another name, in the list and in the signature."""

    def build() -> bytes:
        files = unpacked()
        changed = {
            file: files[file].replace(b'"0.weight"', json.dumps(name).encode())
            for file in (WEIGHTS, GRAPH)
        }
        return packed({**files, **changed})

    return build


_SIZE = [{"as_int": 4}, {"as_int": 3}]
_TENSORS: list[Attack] = [
    ("a path above", _path("../constants/opaque_obj_0")),
    ("an absolute path", _path("/etc/passwd")),
    ("a path of another kind", _path("model.pt")),
    ("a missing file", _path("weight_77")),
    ("sizes beyond the file", _about(sizes=[{"as_int": 4000}, {"as_int": 3}])),
    ("strides beyond the file", _about(strides=[{"as_int": 10**9}, {"as_int": 1}])),
    ("an offset beyond the file", _about(storage_offset={"as_int": 10**6})),
    ("a negative stride", _about(strides=[{"as_int": -3}, {"as_int": 1}])),
    ("a negative offset", _about(storage_offset={"as_int": -1})),
    ("a size that overflows", _about(sizes=[{"as_int": 2**62}, {"as_int": 2**62}])),
    ("many dimensions", _about(sizes=[{"as_int": 1}] * 70, strides=[{"as_int": 1}] * 70)),
    ("no stride", _about(strides=[])),
    ("an expression as a size", _about(sizes=[{"as_expr": {"expr_str": PAYLOAD}}] * 2)),
    ("an unknown kind", _about(dtype=99)),
    ("wider numbers", _about(dtype=11)),
    ("sparse", _about(layout=1)),
    ("an unknown device", _about(device={"type": "privateuseone", "index": None})),
    ("a device that is code", _about(device={"type": PAYLOAD, "index": None})),
    ("whole numbers with gradients", _about(dtype=4, sizes=_SIZE)),
    ("nothing for many", with_files({"data/weights/weight_0": b""})),
    ("other sizes than the graph's", _about(sizes=[{"as_int": 3}, {"as_int": 4}])),
    ("no description", with_weight(lambda about: about.update(tensor_meta=None))),
    ("an unknown field", with_weight(lambda about: about.update(loader=PAYLOAD))),
    ("a list for weights", with_files({WEIGHTS: b"[]"})),
    ("no weights", with_files({WEIGHTS: b'{"config": {}}'})),
    ("a name that is code", _renamed(ATTRIBUTE)),
    ("a name that calls", _renamed(f"w;{PAYLOAD}")),
    ("the class as a name", _renamed("0.__class__")),
    ("forward as a name", _renamed("forward")),
    ("hooks as a name", _renamed("_forward_pre_hooks")),
    ("guards as a name", _renamed("_guards_fn")),
    ("an empty part in a name", _renamed("0..weight")),
]

ARCHIVE_ATTACKS: list[Attack] = [*_ZIPS, *_PICKLES, *_TENSORS]
