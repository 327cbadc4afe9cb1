"""Whatever is wrong with a file, one sentence says so, with its name in it."""

import gzip
import io
import os
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from PIL import Image

from isotropy.data import Intake, load

LENIENT = Intake(missing="drop", text="drop", guess=True)
X = np.random.default_rng(0).normal(size=(300, 4))


def archive(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def parquet() -> bytes:
    buffer = io.BytesIO()
    pandas.DataFrame(X, columns=list("abcd")).to_parquet(buffer)
    return buffer.getvalue()


def with_bytes(content: bytes, place: int, other: bytes) -> bytes:
    return content[:place] + other + content[place + len(other) :]


GARBAGE = np.random.default_rng(1).bytes(3000)
CSV = b"a,b,c\n" + b"1,2,3\n" * 2000
NPZ = archive(x=X, y=X[:, 0])
OBJECTS = archive(x=np.array([{"a": 1}] * 300, object), y=X[:, 0])

DAMAGED = {
    "empty.csv": b"",
    "empty.npz": b"",
    "empty.parquet": b"",
    "garbage.csv": GARBAGE,
    "garbage.tsv": GARBAGE,
    "garbage.csv.gz": GARBAGE,
    "garbage.npz": GARBAGE,
    "garbage.npy": GARBAGE,
    "garbage.parquet": GARBAGE,
    "garbage-images-idx3-ubyte": GARBAGE,
    "garbage.dat": GARBAGE,
    "zeros.csv": bytes(3000),
    "a_table_in_utf16.csv": "a,b\n1,2\n".encode("utf-16"),
    "a_table_in_latin1.csv": "größe,b\n1,2\n".encode("latin-1"),
    "a_zip_called.csv": NPZ,
    "cut.csv.gz": gzip.compress(CSV)[:-20],
    "flipped.csv.gz": with_bytes(gzip.compress(X.tobytes()), 2000, b"\0\1\2\3"),
    "ragged.csv": b"a,b\n1,2\n1,2,3\n",
    "unclosed.csv": b'a,b\n1,"2\n' + b"3,4\n" * 40_000,
    "header_alone.csv": b"a,b\n",
    "cut.npz": NPZ[: len(NPZ) // 2],
    "flipped.npz": with_bytes(NPZ, 2000, b"\0\1\2\3"),
    "objects.npz": OBJECTS,
    "nothing_inside.npz": archive(),
    "cut.parquet": parquet()[:-100],
    "flipped.parquet": with_bytes(parquet(), 4, b"\0" * 40),
    "no_rows.parquet": b"PAR1PAR1",
    "cut-images-idx3-ubyte": b"\0\0\x08\x03" + b"\0\0\0\x09" * 3 + b"\0" * 80,
    "cut-images-idx3-ubyte.gz": gzip.compress(b"\0\0\x08\x03" + bytes(500))[:-12],
}


@pytest.mark.parametrize("most_rows", [None, 50])
@pytest.mark.parametrize("intake", [Intake(), LENIENT], ids=["strict", "lenient"])
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_file(tmp_path: Path, name: str, intake: Intake, most_rows: int | None) -> None:
    path = tmp_path / name
    path.write_bytes(DAMAGED[name])
    with pytest.raises(ValueError, match=r"expected .*got ") as caught:
        load(path, intake=replace(intake, most_rows=most_rows))
    sentence = str(caught.value)
    assert sentence.startswith(str(path))
    assert len(sentence.splitlines()) == 1
    assert len(sentence) < len(str(path)) + 300


def test_flipped_bytes_are_noticed_while_rows_are_drawn(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=X, y=X[:, 0])
    whole = (tmp_path / "a.npz").read_bytes()
    place = whole.index(X.tobytes()) + 8 * 4 * 123
    (tmp_path / "a.npz").write_bytes(with_bytes(whole, place, b"????"))
    with pytest.raises(ValueError, match=r"a\.npz: expected an array 'x' .*, got a damaged one"):
        load(tmp_path / "a.npz", intake=Intake(most_rows=5))


def damaged_pictures() -> dict[str, bytes]:
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32), np.uint8)).save(
        buffer, "png"
    )
    png = buffer.getvalue()
    body = png.index(b"IDAT") + 4
    return {
        "cut": png[:500],
        "flipped": with_bytes(png, body + 100, b"\0" * 50),
        "garbage": GARBAGE,
        "empty": b"",
        "checksum": with_bytes(png, 29, zlib.crc32(b"?").to_bytes(4, "big")),
    }


@pytest.mark.parametrize("damage", damaged_pictures())
@pytest.mark.parametrize("most_rows", [None, 4])
def test_a_damaged_picture(tmp_path: Path, damage: str, most_rows: int | None) -> None:
    for number in range(4):
        kind = tmp_path / "ab"[number % 2]
        kind.mkdir(exist_ok=True)
        Image.fromarray(np.zeros((32, 32), np.uint8)).save(kind / f"{number}.png")
    (tmp_path / "a" / "0.png").write_bytes(damaged_pictures()[damage])
    with pytest.raises(ValueError, match=r"0\.png: expected an image, got") as caught:
        load(tmp_path, intake=Intake(most_rows=most_rows))
    assert len(str(caught.value).splitlines()) == 1
    data = load(tmp_path, unreadable="skip", intake=Intake(most_rows=most_rows))
    assert data.skipped == ("a/0.png",)
    assert data.notes == ("1 of 4 images could not be read and was left out",)


def test_a_folder_without_images(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"expected idx files or images, got a folder without"):
        load(tmp_path, intake=LENIENT)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to the superuser")
def test_a_file_closed_to_us(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,b\n1,2\n")
    path.chmod(0)
    with pytest.raises(ValueError, match=r"t\.csv: expected a file that can be read, got 'perm"):
        load(path)


@pytest.mark.parametrize(
    "name", ["t.csv", "t.csv.gz", "t.npz", "t.npy", "t.parquet", "t-images-idx3-ubyte", "folder"]
)
def test_a_file_that_the_system_refuses(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.mkdir() if name == "folder" else path.write_bytes(b"something")

    def closed(*args: Any, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied", str(path))

    for place in ("pathlib.Path.open", "pathlib.Path.iterdir", "builtins.open", "gzip.open"):
        monkeypatch.setattr(place, closed)
    monkeypatch.setattr("pathlib.Path.read_bytes", closed)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile", closed)
    with pytest.raises(ValueError, match=r"expected a file that can be read, got 'permission den"):
        load(path)


def test_a_missing_target_lists_the_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("mass,speed,kind\n1,2,3\n")
    for most_rows in (None, 5):
        with pytest.raises(
            ValueError, match=r"expected target among the columns mass, speed, kind, got 'price'"
        ):
            load(tmp_path / "t.csv", target="price", intake=replace(LENIENT, most_rows=most_rows))


def test_text_that_differs_from_row_to_row_is_no_target(tmp_path: Path) -> None:
    names = "".join(f"{n},name {n % 90}\n" for n in range(100))
    (tmp_path / "t.csv").write_text("a,who\n" + names)
    with pytest.raises(ValueError, match=r"a few classes as targets, got text with 90 .* 'name 0'"):
        load(tmp_path / "t.csv", target="who")
    data = load(tmp_path / "t.csv", target="who", task="classification")
    assert len(data.classes or ()) == 90
    numbers = "".join(f"{n},{'much' if n == 5 else n / 7}\n" for n in range(100))
    (tmp_path / "t.csv").write_text("a,price\n" + numbers)
    with pytest.raises(ValueError, match=r"100 different values in 100 rows, such as 'much'"):
        load(tmp_path / "t.csv", target="price")


def test_three_rows_and_one_class_are_data_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,kind\n1,red\n2,red\n3,red\n")
    data = load(tmp_path / "t.csv", intake=LENIENT)
    assert (len(data), data.classes, data.task) == (3, ("red",), "classification")
