"""A folder of images, one folder for each class or all in one."""

from __future__ import annotations

import logging
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import require_memory
from isotropy.data._dataset import Dataset
from isotropy.data._intake import Intake, taken
from isotropy.data._tensors import group_numbers

if TYPE_CHECKING:
    from PIL.Image import Image

Unreadable: TypeAlias = Literal["refuse", "skip"]
_Look: TypeAlias = tuple[str, tuple[int, int]]  # mode, (height, width)
# a suffix promises nothing: Pillow would hand a file that is PostScript inside to an interpreter
_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "PPM", "TIFF", "WEBP")
SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N")
_GREY = ("1", "L", "LA", *_DEEP)
_UNCLEAR = ("I", "F")  # integers or floats with no scale to bring them to [0, 1]
_DAMAGE = (  # what Pillow's decoders raise over damaged files
    OSError, SyntaxError, ValueError, TypeError, LookupError, EOFError, struct.error, zlib.error,
)  # fmt: skip
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ImageReading:
    """How to read a folder's images.

    Args:
        size: (height, width) of all; ``None`` where they have one size.
        crop: Whether to keep the aspect ratio and cut off what sticks out.
        unreadable: Whether files that are no images are refused or left out.
    """

    size: tuple[int, int] | None = None
    crop: bool = False
    unreadable: Unreadable = "refuse"

    def options(self) -> dict[str, Any]:
        """What differs from the defaults, for kinds of data that have no such options."""
        given: dict[str, Any] = {"size": self.size, "crop": self.crop or None}
        return given | {"unreadable": None if self.unreadable == "refuse" else self.unreadable}


class _UnreadableError(ValueError):
    """A file is no image, or a damaged one."""


def folders_within(folder: Path) -> list[Path]:
    """The folders inside a folder, hidden ones left out, by name."""
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))


def images_within(folder: Path) -> list[Path]:
    """The images directly inside a folder, by name."""
    return sorted(
        path
        for path in folder.iterdir()
        if path.suffix.lower() in SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def load_image_folder(folder: Path, reading: ImageReading, groups: Any, intake: Intake) -> Dataset:
    """Load the images of a folder, or some drawn of them; its folders, if any, are the classes."""
    paths, labels, classes = _listed(folder)
    if groups is not None and intake.most_rows is not None and reading.unreadable == "skip":
        raise ValueError(
            f"{folder}: expected no groups for images of which some are drawn and some skipped"
        )
    rows = intake.drawn(len(paths), groups if intake.most_rows is not None else None, str(folder))
    drawn = range(len(paths)) if rows is None else rows.tolist()
    looks = _looks([paths[row] for row in drawn], reading)
    if not looks:
        raise ValueError(f"{folder}: expected a readable image, got {len(drawn)} unreadable")
    read = [row for row in drawn if paths[row] in looks]
    if rows is None:
        _require_every_class(read, labels, classes, folder)
    return Dataset(
        _pixels(looks, reading),
        torch.tensor([labels[row] for row in read]) if classes else None,
        classes=classes or None,
        groups=None if groups is None else group_numbers(taken(groups, rows), str(folder)),
        source=str(folder),
        skipped=_names(folder, [paths[row] for row in drawn], looks),
        notes=intake.note(rows, len(paths), "images") + _skipped_note(len(drawn), len(read)),
    )


def _listed(folder: Path) -> tuple[list[Path], list[int], tuple[str, ...]]:
    """All images, the number of the class of each, and the names of classes."""
    loose, inside = images_within(folder), folders_within(folder)
    if loose:
        if any(images_within(inner) for inner in inside):
            raise ValueError(
                f"{folder}: expected images either in it or in folders by class, got both"
            )
        return loose, [], ()
    paths: list[Path] = []
    labels: list[int] = []
    for number, inner in enumerate(inside):
        found = images_within(inner)
        if not found:
            raise ValueError(f"{inner}: expected images of the class {inner.name!r}, got none")
        paths += found
        labels += [number] * len(found)
    return paths, labels, tuple(inner.name for inner in inside)


def _require_every_class(
    read: list[int], labels: list[int], classes: tuple[str, ...], folder: Path
) -> None:
    there = {labels[row] for row in read} if classes else set()
    for number, name in enumerate(classes):
        if number not in there:
            raise ValueError(
                f"{folder / name}: expected a readable image of the class {name!r}, "
                f"got {labels.count(number)} unreadable"
            )


def _skipped_note(tried: int, read: int) -> tuple[str, ...]:
    if tried == read:
        return ()
    were = "was" if tried - read == 1 else "were"
    return (f"{tried - read:,} of {tried:,} images could not be read and {were} left out",)


def _looks(paths: list[Path], reading: ImageReading) -> dict[Path, _Look]:
    """Look at each image; leave out the unreadable ones, if that is what is wanted."""
    if reading.unreadable == "refuse":
        return {path: _look(path) for path in paths}
    looks = {}
    for path in paths:
        try:
            looks[path] = _look(path, whole=True)
        except _UnreadableError as error:
            _logger.warning("%s; left out", error)
    return looks


def _names(folder: Path, there: list[Path], read: dict[Path, _Look]) -> tuple[str, ...]:
    return tuple(path.relative_to(folder).as_posix() for path in there if path not in read)


def _pixels(looks: dict[Path, _Look], reading: ImageReading) -> torch.Tensor:
    """Decode images into (n, channels, height, width) in [0, 1]."""
    grey = all(mode in _GREY for mode, _ in looks.values())
    first = next(iter(looks))
    height, width = reading.size or looks[first][1]
    if reading.size is None:
        for path, (_, own) in looks.items():
            if own != (height, width):
                raise ValueError(
                    f"{path}: expected {height}×{width} pixels as in {first.name}, "
                    f"got {own[0]}×{own[1]} (size=(height, width) resizes all)"
                )
    shape = (len(looks), 1 if grey else 3, height, width)
    require_memory(4 * int(np.prod(shape)), f"{len(looks)} images", "give a smaller size")
    pixels = np.empty(shape, np.float32)
    for number, path in enumerate(looks):
        pixels[number] = _decode(path, grey, (height, width), reading.crop)
    return torch.from_numpy(pixels)


def _look(path: Path, whole: bool = False) -> _Look:
    """Read mode and (height, width), without decoding the pixels unless all is to be tried."""
    with _opened(path) as image:
        if whole:
            with _damage_named(path):
                image.load()
        if image.mode in _UNCLEAR:
            raise ValueError(
                f"{path}: expected pixels of 8 or 16 bits, got mode {image.mode!r}, whose range "
                "is not known; save them as an .npz"
            )
        return image.mode, (image.height, image.width)


def _decode(path: Path, grey: bool, size: tuple[int, int], crop: bool) -> NDArray[Any]:
    from PIL import Image

    with _opened(path) as image, _damage_named(path):
        deep = image.mode in _DEEP
        if deep and grey:
            image = Image.fromarray(np.asarray(image, np.float32) / 65535)
        elif deep:
            image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
        else:
            image = image.convert("L" if grey else "RGB")
        if (image.height, image.width) != size:
            box = _centre(image.height, image.width, *size) if crop else None
            image = image.resize(size[::-1], Image.Resampling.BILINEAR, box)
        array = np.asarray(image, np.float32)
    if not (deep and grey):
        array = array / np.float32(255)
    return array[None] if grey else array.transpose(2, 0, 1)


def _centre(
    own_height: int, own_width: int, height: int, width: int
) -> tuple[float, float, float, float]:
    """The largest centred part of that aspect ratio: left, top, right, bottom."""
    scale = min(own_height / height, own_width / width)
    left = max(0.0, (own_width - scale * width) / 2)
    top = max(0.0, (own_height - scale * height) / 2)
    return left, top, own_width - left, own_height - top


@contextmanager
def _damage_named(path: Path) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise _UnreadableError(f"{path}: expected an image, got a damaged one ({error})") from error


def _opened(path: Path) -> Image:
    from PIL import Image

    try:
        return Image.open(path, formats=_FORMATS)
    except (*_DAMAGE, Image.DecompressionBombError) as error:
        raise _UnreadableError(
            f"{path}: expected an image, got a file that is none ({error})"
        ) from error
