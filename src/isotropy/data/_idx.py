"""The idx format of MNIST: a short header, then the numbers of one array."""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import atomic_write
from isotropy.data._dataset import Dataset
from isotropy.data._intake import Intake, taken
from isotropy.data._tensors import group_numbers, target_tensor

_KINDS = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_AXES = 32  # as many as every numpy has
_PREFIXES = {"train": ("train",), "test": ("t10k", "test")}
CLASS_NAMES = "classes.txt"


def is_idx(path: Path) -> bool:
    """Say whether a file has the name of an idx file: ``…-idx3-ubyte``, ``….idx``, or with .gz."""
    name = path.name.removesuffix(".gz")
    return name.endswith(("-ubyte", ".idx", ".idx1", ".idx3", ".idx4")) or "-idx" in name


def read_idx(path: Path) -> NDArray[Any]:
    """Read one idx file, compressed or not."""
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: expected a gzip file, got a damaged one ({error})") from error
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _KINDS:
        raise ValueError(f"{path}: expected an idx file, got one that starts {content[:4]!r}")
    kind, axes = np.dtype(_KINDS[content[2]]), content[3]
    if axes > _MOST_AXES:
        raise ValueError(f"{path}: expected an array of at most {_MOST_AXES} axes, got {axes}")
    start = 4 + 4 * axes
    if len(content) < start:
        raise ValueError(f"{path}: expected at least {start} bytes, got {len(content)}")
    shape = tuple(np.frombuffer(content[4:start], ">u4").tolist())
    expected = start + int(np.prod(shape, dtype=object)) * kind.itemsize
    if len(content) != expected:
        raise ValueError(f"{path}: expected {expected} bytes for shape {shape}, got {len(content)}")
    try:
        return np.frombuffer(content, kind, offset=start).reshape(shape)
    except ValueError as error:  # one axis of no entries, and others of absurdly many
        raise ValueError(f"{path}: expected an array that fits memory, got {shape}") from error


def write_idx(path: Path, array: NDArray[np.uint8]) -> None:
    """Write bytes as an idx file, atomically."""
    with atomic_write(path) as file:
        file.write(bytes([0, 0, 0x08, array.ndim]) + np.array(array.shape, ">u4").tobytes())
        file.write(np.ascontiguousarray(array).data)


def load_idx_file(path: Path, task: Any, groups: Any, intake: Intake) -> Dataset:
    """Load a file of images, with the file of labels that its name leads to."""
    if "labels" in path.name:
        images = _beside(path, path.name.replace("labels", "images"))
        if images is None:
            raise ValueError(f"{path}: expected a file of images, got one of labels")
        path = images
    labels = _beside(path, path.name.replace("images", "labels"))
    return _load_pair(path, None if labels == path else labels, task, groups, intake)


def _beside(path: Path, name: str) -> Path | None:
    """Find a file in the same folder, whichever number of axes and compression its name states."""
    wanted = _plain(name)
    found = sorted(other for other in path.parent.iterdir() if _plain(other.name) == wanted)
    return found[0] if found else None


def _plain(name: str) -> str:
    plain = name.removesuffix(".gz").replace(".idx", "-idx")
    stem, _, rest = plain.partition("-idx")
    return f"{stem}-idx{rest.lstrip('0123456789')}"


def idx_splits(folder: Path) -> dict[str, Path]:
    """Find the files of images in a folder, by split."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and is_idx(path))
    splits: dict[str, Path] = {}
    for path in files:
        for split, prefixes in _PREFIXES.items():
            if path.name.startswith(prefixes) and "images" in path.name:
                splits.setdefault(split, path)
    return splits


def _load_pair(
    images: Path, labels: Path | None, task: Any, groups: Any, intake: Intake
) -> Dataset:
    pixels = read_idx(images)
    count = len(pixels) if pixels.ndim else 0
    rows = intake.drawn(count, groups, str(images))
    notes = intake.note(rows, count, "images")
    x = _pixels(taken(pixels, rows), images)
    numbers = None if groups is None else group_numbers(taken(groups, rows), str(images))
    if labels is None:
        return Dataset(x, groups=numbers, source=str(images), notes=notes)
    # all labels, so that the classes do not depend on the draw
    y, classes = target_tensor(read_idx(labels), task or "classification", str(labels))
    if len(y) != count:
        raise ValueError(f"{labels}: expected {count} labels, one for each image, got {len(y)}")
    names = images.parent / CLASS_NAMES
    if classes is not None and names.is_file():
        given = tuple(names.read_text("utf-8").split("\n")[:-1])
        if len(given) < len(classes):
            raise ValueError(
                f"{names}: expected a line for each of {len(classes)} classes, got {len(given)}"
            )
        classes = given
    y = y if rows is None else y[rows]
    return Dataset(x, y, classes=classes, groups=numbers, source=str(images), notes=notes)


def _pixels(array: NDArray[Any], path: Path) -> Tensor:
    if array.ndim not in (3, 4):
        raise ValueError(f"{path}: expected images, got an array of shape {array.shape}")
    if array.ndim == 3:
        array = array[:, None]
    if array.dtype != np.uint8:
        return torch.from_numpy(array.astype(np.float32))
    # Converting first avoids a second copy of the bytes only to make them writable.
    return torch.from_numpy(array.astype(np.float32)).div_(255)
