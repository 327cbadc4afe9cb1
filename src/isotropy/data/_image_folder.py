"""A folder of images, one folder for each class or all in one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import require_memory
from isotropy.data._dataset import Dataset

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")
_DEEP = ("I;16", "I;16B", "I;16L", "I;16N")
_GREY = ("1", "L", "LA", *_DEEP)
_UNCLEAR = ("I", "F")  # integers or floats with no scale to bring them to [0, 1]


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


def load_image_folder(folder: Path, size: tuple[int, int] | None) -> Dataset:
    """Load all images of a folder; its folders, if any, are the classes."""
    loose, classes = images_within(folder), folders_within(folder)
    if loose:
        if any(images_within(inner) for inner in classes):
            raise ValueError(
                f"{folder}: expected images either in it or in folders by class, got both"
            )
        return Dataset(_pixels(loose, size), source=str(folder))
    paths: list[Path] = []
    labels: list[int] = []
    for number, inner in enumerate(classes):
        found = images_within(inner)
        if not found:
            raise ValueError(f"{inner}: expected images of the class {inner.name!r}, got none")
        paths += found
        labels += [number] * len(found)
    names = tuple(inner.name for inner in classes)
    return Dataset(_pixels(paths, size), torch.tensor(labels), classes=names, source=str(folder))


def _pixels(paths: list[Path], size: tuple[int, int] | None) -> torch.Tensor:
    """Decode images into (n, channels, height, width) in [0, 1]."""
    looks = [_look(path) for path in paths]
    grey = all(mode in _GREY for mode, _ in looks)
    height, width = size or looks[0][1]
    if size is None:
        for path, (_, own) in zip(paths, looks, strict=True):
            if own != (height, width):
                raise ValueError(
                    f"{path}: expected {height}×{width} pixels as in {paths[0].name}, "
                    f"got {own[0]}×{own[1]} (size=(height, width) resizes all)"
                )
    shape = (len(paths), 1 if grey else 3, height, width)
    require_memory(4 * int(np.prod(shape)), f"{len(paths)} images", "give a smaller size")
    pixels = np.empty(shape, np.float32)
    for number, path in enumerate(paths):
        pixels[number] = _decode(path, grey, (height, width))
    return torch.from_numpy(pixels)


def _look(path: Path) -> tuple[str, tuple[int, int]]:
    """Read mode and (height, width) without decoding the pixels."""
    with _opened(path) as image:
        if image.mode in _UNCLEAR:
            raise ValueError(
                f"{path}: expected pixels of 8 or 16 bits, got mode {image.mode!r}, whose range "
                "is not known; save them as an .npz"
            )
        return image.mode, (image.height, image.width)


def _decode(path: Path, grey: bool, size: tuple[int, int]) -> NDArray[Any]:
    from PIL import Image

    with _opened(path) as image:
        deep = image.mode in _DEEP
        try:
            if deep and grey:
                image = Image.fromarray(np.asarray(image, np.float32) / 65535)
            elif deep:
                image = Image.fromarray((np.asarray(image) >> 8).astype(np.uint8)).convert("RGB")
            else:
                image = image.convert("L" if grey else "RGB")
            if (image.height, image.width) != size:
                image = image.resize(size[::-1], Image.Resampling.BILINEAR)
            array = np.asarray(image, np.float32)
        except (OSError, SyntaxError, ValueError) as error:
            raise ValueError(f"{path}: expected an image, got a damaged one ({error})") from error
    if not (deep and grey):
        array = array / np.float32(255)
    return array[None] if grey else array.transpose(2, 0, 1)


def _opened(path: Path) -> Image:
    from PIL import Image

    try:
        return Image.open(path)
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ValueError(f"{path}: expected an image, got a file that is none ({error})") from error
