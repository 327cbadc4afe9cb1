"""The image tasks of the layer-wise paper, ready for its network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from torch import Tensor

from isotropy.data import resized, small_digits, standardised
from isotropy_papers._experiment import Settings
from isotropy_papers._image_sets import ImageSet, found_folder, image_set
from isotropy_papers.digit_tasks import in_quadrants, rotated, translated

Pair: TypeAlias = tuple[Tensor, Tensor]

_SIZE = 32
_CLASSES = 10
_SEEDS = {"train": 1, "test": 0}
_SMALL_TEST = 400
# every digit in its quadrant, turned, moved, or as it is: the set and what is done to it
_TASKS = {
    "digit": ("mnist", "quadrants"),
    "digit, quadrant": ("mnist", "quadrants"),
    "MNIST": ("mnist", "nothing"),
    "Translated MNIST": ("mnist", "moves"),
    "Rotated MNIST": ("mnist", "turns"),
    "CIFAR-10": ("cifar10", "nothing"),
    "Rotated CIFAR-10": ("cifar10", "turns"),
}


@dataclass(frozen=True)
class LayerwiseTask:
    """Standardised images of 32×32 with labels.

    Args:
        name: Which task of the paper.
        train: Images (n, c, 32, 32) and labels (n,).
        test: Likewise.
        classes: How many.
        stands_in: Whether other images stand in for those of the paper.

    Example:
        >>> import torch
        >>> pair = torch.zeros(2, 1, 32, 32), torch.zeros(2, dtype=torch.long)
        >>> LayerwiseTask("MNIST", pair, pair, 10).stands_in
        False
    """

    name: str
    train: Pair
    test: Pair
    classes: int
    stands_in: bool = False


def task_of(
    name: str, settings: Settings, rows: int | None, test_rows: int | None
) -> LayerwiseTask:
    """The images of one task of the paper (F.5), or small digits in their place.

    Args:
        name: As the paper calls it; "digit" and "digit, quadrant" are those of Table 1.
        settings: ``data`` may name a folder with the sets. Only a quick run takes small digits
            where the set has not been obtained.
        rows: Training images; None for all.
        test_rows: Test images; None for all.

    Raises:
        ValueError: If the set has not been obtained, for a full run.

    Example:
        >>> task = task_of("digit, quadrant", Settings(), 30, 20)
        >>> task.train[0].shape, task.classes
        (torch.Size([30, 1, 32, 32]), 40)
    """
    source, change = _TASKS[name]
    stands_in = not settings.full and found_folder(source, settings) is None
    if stands_in:
        x, y = small_digits()
        cut = len(x) - _SMALL_TEST  # neighbours have the same writer, so no shuffling
        train = x[:cut][:rows], y[:cut][:rows]
        test = x[cut:][:test_rows], y[cut:][:test_rows]
        images = ImageSet("small digits", train, test)
    else:
        images = image_set(source, settings, rows, test_rows)
    parts = [
        _changed(*pair, change, by_place=name == "digit, quadrant", seed=_SEEDS[split])
        for split, pair in (("train", images.train), ("test", images.test))
    ]
    (x, y), (test_x, test_y) = parts
    x, test_x = standardised(x, test_x)
    classes = _CLASSES * (4 if name == "digit, quadrant" else 1)
    return LayerwiseTask(name, (x, y), (test_x, test_y), classes, stands_in)


def _changed(
    x: Tensor, y: Tensor, change: str, *, by_place: bool, seed: int
) -> tuple[Tensor, Tensor]:
    if change == "quadrants":
        placed = in_quadrants(x, y, generator=seed)
        return placed.images, placed.digits_and_quadrants if by_place else placed.digits
    if change == "turns":
        x = rotated(x, generator=seed)
    elif change == "moves":
        x = translated(x, generator=seed)
    return resized(x, _SIZE), y
