"""Files of data that are damaged, or say more than they hold: refused in one sentence."""

from __future__ import annotations

import io
import resource
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from attacks.terminal import acting
from isotropy.data import Intake, Transitions, load
from isotropy.data._transition_files import transition_names

SHAPE = "'fortran_order': False, 'shape': (20, 3), }"
HEADERS = {
    "an end within brackets": "{'descr': '<f8', 'fortran_order': False, 'shape': (20, 3) ",
    "an end within quotes": "'''",
    "a step back": "\tx\n y",
    "brackets": "[" * 3000,
    "a sum of many": "1+" * 4000 + "1",
    "a sign of many": "-" * 9000 + "1",
    "keys of two kinds": "{'descr': '<f8', 'fortran_order': False, b'shape': (20,3), }",
    "a number beyond 64 bits": "{'descr': '<f8', 'fortran_order': False, 'shape': (1"
    + "0" * 23
    + ",3), }",
    "a kind of a number": "{'descr': 5, " + SHAPE,
    "a kind of nothing": "{'descr': [], " + SHAPE,
    "a kind of a dictionary": "{'descr': ('<f8',{}), " + SHAPE,
    "a zero byte": "\x00\x00\x00",
    "a line of codes": "{'descr': '\x1b[2J', " + SHAPE,
}
KINDS = {
    "stored": zipfile.ZIP_STORED,
    "deflated": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


def array(header: str, content: bytes = bytes(480)) -> bytes:
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + content


def saved(values: NDArray[Any]) -> bytes:
    file = io.BytesIO()
    np.save(file, values)
    return file.getvalue()


def archive(path: Path, /, kind: str = "stored", **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", KINDS[kind]) as file:
        for name, content in members.items():
            file.writestr(f"{name}.npy", content)
    return path


def refused(path: Path, action: Callable[..., object] = load, **options: object) -> str:
    with pytest.raises(ValueError, match="expected") as found:
        action(path, **options)
    said = str(found.value)
    assert said.startswith(f"{path}: ")
    assert len(said) < 1000
    assert acting(said) == []
    assert not {"\n", "\t"} & set(said)
    return said


X, Y = saved(np.zeros((20, 3))), saved(np.arange(20) % 2)


@pytest.mark.parametrize("name", HEADERS)
def test_a_damaged_header_ends_in_a_sentence(name: str, tmp_path: Path) -> None:
    bad = array(HEADERS[name])
    (tmp_path / "a.npy").write_bytes(bad)
    refused(tmp_path / "a.npy")
    refused(archive(tmp_path / "x.npz", x=bad, y=Y))
    refused(archive(tmp_path / "y.npz", x=X, y=bad))
    refused(archive(tmp_path / "d.npz", x=bad, y=Y), intake=Intake(most_rows=5))
    log = archive(tmp_path / "t.npz", obs=X, act=bad, next_obs=X)
    refused(log, Transitions.load)
    named = archive(tmp_path / "n.npz", observation_names=bad, action_names=bad)
    refused(named, transition_names)


def encrypted(content: bytes) -> bytes:
    """With the flag of an encrypted member set, in both places of each."""
    changed = bytearray(content)
    for sign, offset in ((b"PK\3\4", 6), (b"PK\1\2", 8)):
        at = -1
        while (at := changed.find(sign, at + 1)) >= 0:
            changed[at + offset] |= 1
    return bytes(changed)


def test_an_encrypted_member_ends_in_a_sentence(tmp_path: Path) -> None:
    for members, action in (
        ({"x": X, "y": Y}, load),
        ({"obs": X, "act": X, "next_obs": X}, Transitions.load),
        ({"observation_names": X, "action_names": X}, transition_names),
    ):
        path = archive(tmp_path / "a.npz", "stored", **members)
        path.write_bytes(encrypted(path.read_bytes()))
        assert "encrypted" in refused(path, action)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_compression_ends_in_a_sentence(kind: str, tmp_path: Path) -> None:
    path = archive(tmp_path / "a.npz", kind, x=X, y=Y)
    honest = path.read_bytes()
    start = honest.index(b"x.npy") + len("x.npy")
    for place in range(start + 9, start + 33):  # before, sizes that a reader need not look at
        path.write_bytes(honest[:place] + bytes([honest[place] ^ 0xFF]) + honest[place + 1 :])
        refused(path)


@pytest.mark.parametrize("kind", ["|S0", "<U0", "|V0"])
def test_entries_of_no_bytes_are_refused(kind: str, tmp_path: Path) -> None:
    """A header of 100 bytes is an array of any length, which takes gigabytes once looked at."""
    many = array(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': (100000000,), }}", b"")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, members in {"y": {"x": X, "y": many}, "x": {"x": many, "y": Y}}.items():
        path = archive(tmp_path / f"{name}.npz", "stored", **members)
        assert f"an array {name!r} of numbers or text, got entries of no bytes" in refused(path)
        refused(path, intake=Intake(most_rows=5))
    refused(archive(tmp_path / "g.npz", x=X, y=Y, groups=many))
    (tmp_path / "a.npy").write_bytes(many)
    refused(tmp_path / "a.npy")
    named = archive(tmp_path / "n.npz", observation_names=many, action_names=many)
    refused(named, transition_names)
    refused(archive(tmp_path / "t.npz", obs=X, act=many, next_obs=X), Transitions.load)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kB


@pytest.mark.parametrize(
    ("start", "sizes", "said"),
    [
        (b"\0\0\x08\x41", [1] * 65, "at most 32 axes, got 65"),
        (b"\0\0\x08\xff", [0] * 255, "at most 32 axes, got 255"),
        (b"\0\0\x08\x03", [0, 2**32 - 1, 2**32 - 1], "an array that fits memory, got (0, "),
        (b"\0\0\x0e\x04", [0] + [2**32 - 1] * 3, "an array that fits memory, got (0, "),
        (b"\0\0\x0e\x20", [2**32 - 1] * 32, " bytes for shape (4294967295, "),
    ],
)
def test_sizes_that_no_array_has(start: bytes, sizes: list[int], said: str, tmp_path: Path) -> None:
    path = tmp_path / "a-images-idx3-ubyte"
    path.write_bytes(start + struct.pack(f">{len(sizes)}I", *sizes) + b"\0" * (sizes[0] == 1))
    assert said in refused(path)


def test_a_table_of_text_that_is_none(tmp_path: Path) -> None:
    parquet, pyarrow = pytest.importorskip("pyarrow.parquet"), pytest.importorskip("pyarrow")
    pytest.importorskip("pandas")
    path = tmp_path / "a.parquet"
    text = [f"text {n}" for n in range(50)]
    table = pyarrow.table({"x": text, "y": [n % 2 for n in range(50)]})
    parquet.write_table(table, path, compression="none", use_dictionary=False)
    path.write_bytes(path.read_bytes().replace(b"text 1", b"\xff\xfe\xfdt 1"))
    refused(path, target="y")
    refused(path, target="y", intake=Intake(most_rows=20))
