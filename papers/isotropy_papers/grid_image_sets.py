"""G-MNIST and G-Fashion-MNIST of Basu et al. 2021, and their like from any images."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from isotropy.data import fetch, load
from isotropy.groups import Grid, grid_transformations
from isotropy.run import generator as make_generator
from isotropy.run import spawn
from isotropy_papers._counts import require_count
from isotropy_papers.grid_images import AUGMENTATIONS, same_size_pixels, transform_images

LabelledImages: TypeAlias = tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class GridImageSet:
    """Moved images with their labels, in three parts.

    Args:
        name: What they are and how they were moved.
        train: Images in [0, 1] of shape (n, c, h, w) and labels of shape (n,), to learn from.
        validation: The same, to choose by.
        test: The same, to report.
    """

    name: str
    train: LabelledImages
    validation: LabelledImages
    test: LabelledImages


def grid_image_set(
    images: Tensor,
    labels: Tensor,
    augmentation: str | Sequence[str],
    *,
    held_out: LabelledImages | None = None,
    train: int = 4000,
    validation: int = 1000,
    test: int = 1000,
    published: bool = False,
    grids: Sequence[Grid] = (20,),
    seed: int = 0,
) -> GridImageSet:
    """Split images and move each of them once.

    Args:
        images: Pixels, shape (n, c, h, w): uint8, or floats in [0, 1].
        labels: One for each image.
        augmentation: One of `AUGMENTATIONS`, or names of transformations.
        held_out: Images and labels from which the test rows are taken; by default they too are
            taken from ``images``. No two parts ever share a row.
        train: How many images to learn from.
        validation: How many images to choose by; the same ones for any ``train``.
        test: How many images to report.
        published: Whether to move images as the published sets do; see `transform_images`.
        grids: Of the hidden layers that will share weights; see `transform_images`.
        seed: Of the split and of the moves. The same seed gives the same images.

    Raises:
        TypeError: If images are not a tensor, or pixels neither uint8 nor float32 or float64.
        ValueError: If there is no such augmentation, there are too few images, or a shape or the
            range of pixels is wrong.

    Example:
        >>> from isotropy.data import small_digits
        >>> digits = grid_image_set(*small_digits(), "Aug1", train=1000, validation=300, test=400)
        >>> digits.name, tuple(digits.train[0].shape)
        ('Aug1', (1000, 1, 28, 28))
    """
    names = _named(augmentation)
    pool = _labelled(images, labels)
    counts = {"training": train, "validation": validation, "test": test}
    for part, count in counts.items():
        require_count(count, f"{part} images")
    split, split_test, *moves = spawn(make_generator(seed), 5)
    order = torch.randperm(len(pool[0]), generator=split)
    if held_out is None:
        _require_enough(pool, counts)
        source, order_test = pool, order
        order = order[test:]
    else:
        source = _labelled(*held_out)
        _require_enough(pool, {part: n for part, n in counts.items() if part != "test"})
        _require_enough(source, {"test": test})
        order_test = torch.randperm(len(source[0]), generator=split_test)
    parts = [
        (pool, order[validation : validation + train]),
        (pool, order[:validation]),
        (source, order_test[:test]),
    ]
    made = []
    for ((pixels, classes), rows), random in zip(parts, moves, strict=True):
        moved = transform_images(
            pixels[rows], names, generator=random, published=published, grids=grids
        )
        made.append((moved, classes[rows]))
    return GridImageSet(augmentation if isinstance(augmentation, str) else "+".join(names), *made)


def g_mnist(
    augmentation: str | Sequence[str],
    *,
    base: Literal["mnist", "fashion-mnist"] = "mnist",
    published: bool = False,
    train: int = 4000,
    validation: int = 1000,
    test: int = 10_000,
    grids: Sequence[Grid] = (20,),
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
) -> GridImageSet:
    """G-MNIST or G-Fashion-MNIST: images of the training and test splits, each moved once.

    Training and validation images are disjoint parts of the training split.

    Args:
        augmentation: One of `AUGMENTATIONS`, or names of transformations.
        base: Which images to move.
        published: Whether to move images as the published sets do; see `transform_images`.
        train: How many images to learn from.
        validation: How many images to choose by; the same ones for any ``train``.
        test: How many images to report.
        grids: Of the hidden layers that will share weights; see `transform_images`.
        seed: Of the split and of the moves. The same seed gives the same images.
        folder: Where the base is kept, as for `isotropy.data.fetch`.

    Raises:
        ValueError: If there is no such augmentation or base, or there are too few images.
        OSError: If the base is not there and cannot be obtained.

    Example:
        >>> g_mnist("Aug6")
        Traceback (most recent call last):
        ...
        ValueError: expected an augmentation among Aug0 to Aug5 and IAug0 to IAug12, got 'Aug6'
    """
    _named(augmentation)
    if base not in ("mnist", "fashion-mnist"):
        raise ValueError(f"expected a base among mnist, fashion-mnist, got {base!r}")
    place = fetch(base, folder=folder)
    learned, reported = (load(place, split=split) for split in ("train", "test"))
    assert learned.y is not None
    assert reported.y is not None
    made = grid_image_set(
        learned.x,
        learned.y,
        augmentation,
        held_out=(reported.x, reported.y),
        train=train,
        validation=validation,
        test=test,
        published=published,
        grids=grids,
        seed=seed,
    )
    return GridImageSet(f"{base} {made.name}", made.train, made.validation, made.test)


def _labelled(images: Tensor, labels: Tensor) -> LabelledImages:
    pixels = same_size_pixels(images)
    if not isinstance(labels, Tensor):
        raise TypeError(f"expected a tensor of labels, got {type(labels).__name__}")
    if labels.shape != (len(pixels),):
        raise ValueError(
            f"expected a label for each of {len(pixels)} images, got shape {tuple(labels.shape)}"
        )
    return pixels, labels


def _named(augmentation: str | Sequence[str]) -> tuple[str, ...]:
    if not isinstance(augmentation, str):
        return tuple(one.name for one in grid_transformations(augmentation))
    if augmentation not in AUGMENTATIONS:
        raise ValueError(
            f"expected an augmentation among Aug0 to Aug5 and IAug0 to IAug12, got {augmentation!r}"
        )
    return AUGMENTATIONS[augmentation]


def _require_enough(source: LabelledImages, counts: Mapping[str, int]) -> None:
    needed, there = sum(counts.values()), len(source[0])
    if there < needed:
        listed = ", ".join(f"{n} {part}" for part, n in counts.items())
        raise ValueError(f"expected at least {needed} images ({listed}), got {there}")
