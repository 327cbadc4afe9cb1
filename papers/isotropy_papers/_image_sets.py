"""Public images for the experiments: MNIST, Fashion-MNIST and CIFAR-10, if they have been obtained.

Nothing is downloaded here: an experiment of a minute should not begin with 139 MB unasked.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from isotropy.data import fetch, load
from isotropy.run import cache_folder
from isotropy_papers._experiment import Settings


@dataclass(frozen=True)
class ImageSet:
    """Images in [0, 1] with their labels, for training and for testing.

    Args:
        name: The set.
        train: Images (n, c, h, w) and labels (n,).
        test: Likewise.

    Example:
        >>> import torch
        >>> pair = torch.zeros(2, 1, 8, 8), torch.zeros(2, dtype=torch.long)
        >>> len(ImageSet("zeros", pair, pair).digest())
        16
    """

    name: str
    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]

    def digest(self) -> str:
        """What tells these images and labels from others, for finished parts of a run."""
        return digest_of(*self.train, *self.test)


def digest_of(*tensors: Tensor) -> str:
    """The first digits of the SHA-256 of the content of tensors.

    Example:
        >>> import torch
        >>> digest_of(torch.zeros(2)) == digest_of(torch.zeros(3))
        False
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.cpu().contiguous().numpy().data)
    return digest.hexdigest()[:16]


def found_folder(name: str, settings: Settings) -> Path | None:
    """Where a public set or trained weights are; ``None`` where they have not been obtained.

    Args:
        name: The set, as ``isotropy.data.fetch`` knows it.
        settings: ``data`` may name a folder that holds the set in place of the public one.

    Raises:
        ValueError: If ``settings.data`` is no folder, or the public set was changed.
    """
    if settings.data is not None:
        if not settings.data.is_dir():
            raise ValueError(f"expected a folder of data sets, got {str(settings.data)!r}")
        if (settings.data / name).is_dir():
            return settings.data / name
    cache = cache_folder()
    if cache is None or not (cache / "data" / name).is_dir():
        return None
    return fetch(name)


def required_folder(name: str, settings: Settings) -> Path:
    """Where a public set or trained weights are.

    Args:
        name: The set, as ``isotropy.data.fetch`` knows it.
        settings: ``data`` may name a folder that holds it.

    Raises:
        ValueError: If it has not been obtained.
    """
    folder = found_folder(name, settings)
    if folder is None:
        raise ValueError(
            f"expected the data {name!r}, got none in the cache: obtain it with "
            f"'isotropy data get {name}', or name a folder that holds it"
        )
    return folder


def image_set(
    name: str, settings: Settings, train_rows: int | None = None, test_rows: int | None = None
) -> ImageSet:
    """Load a set of images.

    Args:
        name: "mnist", "fashion-mnist" or "cifar10".
        settings: ``data`` may name a folder that holds it.
        train_rows: Only so many training images, the first ones, which are in random order.
        test_rows: Likewise.

    Raises:
        ValueError: If it has not been obtained, or it has no labels.
    """
    folder = required_folder(name, settings)
    return ImageSet(name, _rows(folder, "train", train_rows), _rows(folder, "test", test_rows))


def unlabelled(name: str, settings: Settings, rows: int | None = None) -> Tensor:
    """Load the test images of a set, without labels.

    Args:
        name: As for `image_set`.
        settings: ``data`` may name a folder that holds it.
        rows: Only so many, the first ones.

    Raises:
        ValueError: If it has not been obtained.
    """
    return _rows(required_folder(name, settings), "test", rows)[0]


def _rows(folder: Path, split: str, rows: int | None) -> tuple[Tensor, Tensor]:
    data = load(folder, split=split)
    if data.y is None or data.x.ndim != 4:
        raise ValueError(f"{data.source}: expected images with labels, got {data!r}")
    # a copy, so that the rest of the set can be let go
    return data.x[:rows].clone(), data.y[:rows].clone()


def like(x: Tensor, images: Tensor) -> Tensor:
    """Give images the size and channels of others: black around them, or the centre of them.

    Args:
        x: Images with one channel, or as many as the others.
        images: The others.

    Example:
        >>> import torch
        >>> like(torch.ones(5, 1, 28, 28), torch.zeros(2, 3, 32, 32)).shape
        torch.Size([5, 3, 32, 32])
    """
    import torch.nn.functional as F

    channels, height, width = images.shape[1:]
    down, across = height - x.shape[-2], width - x.shape[-1]
    left, top = int(across / 2), int(down / 2)
    # negative padding cuts
    x = F.pad(x, (left, across - left, top, down - top))
    return x.expand(-1, channels, -1, -1)
