"""Figures 5 to 8 of Basu et al. 2021: images moved by one transformation, and by several."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from isotropy.report import save_figure
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._image_sets import image_set
from isotropy_papers.grid_images import AUGMENTATIONS, transform_images

SHOWN = {
    "mnist": {"5": 5, "7": 7, "2": 2, "1": 1},
    "fashion-mnist": {"Sneaker": 7, "Sandal": 5, "Pullover": 2, "Ankle boot": 9},
}
_KINDS = {"as published": True, "by the groups": False}


@dataclass(frozen=True)
class Pictures(Result):
    """A result with the images that it is about.

    Args:
        images: From names of transformations to moved images, shape (classes, height, width).
    """

    images: dict[str, Tensor] = field(default_factory=dict)


def moved_images(
    id: str, base: str, augmentations: tuple[str, ...], settings: Settings
) -> Pictures:
    """Move the first training image of each of four classes.

    Args:
        id: Of the experiment.
        base: The images.
        augmentations: How they are moved.
        settings: ``seed`` of the moves; ``models`` are "as published", the default, and "by the
            groups", which moves images by elements of the groups that share weights.
    """
    start = time.perf_counter()
    kinds = settings.chosen(list(_KINDS)) if settings.models else ["as published"]
    x, y = image_set(base, settings).train
    classes = SHOWN[base]
    still = torch.stack([x[int((y == label).nonzero()[0])] for label in classes.values()])
    cells, images = [], {}
    for kind in kinds:
        for one in augmentations:
            row = one if kind == "as published" else f"{one}, {kind}"
            moved = transform_images(
                still, AUGMENTATIONS[one], generator=settings.seed, published=_KINDS[kind]
            )
            images[row] = moved[:, 0]
            changed = (moved != still).flatten(1).double().mean(1).tolist()
            cells += [Cell(row, name, share) for name, share in zip(classes, changed, strict=True)]
    notes = (
        "share of pixels that a random move changes; with --plot: the images",
        "as published: rotation by any angle, others with probability ½, translations by one "
        "pixel; by the groups: by a random element of each group, which moves images as weights "
        "are shared",
        "; ".join(f"{one}: {', '.join(AUGMENTATIONS[one]) or 'none'}" for one in augmentations),
    )
    return Pictures(id, cells, time.perf_counter() - start, notes, images)


def single_pictures(id: str, base: str, settings: Settings, _: ProgressCallback) -> Pictures:
    """Images under each transformation alone; arguments as those of `moved_images`."""
    return moved_images(id, base, tuple(f"IAug{k}" for k in range(13)), settings)


def combined_pictures(id: str, base: str, settings: Settings, _: ProgressCallback) -> Pictures:
    """Images under each combination; arguments as those of `moved_images`."""
    return moved_images(id, base, tuple(f"Aug{k}" for k in range(6)), settings)


def _title(row: str) -> str:
    """The row and, of a single transformation, its name, in short lines."""
    one, *kind = row.split(", ")
    names = AUGMENTATIONS[one]
    return "\n".join([one, *(names[0].split() if len(names) == 1 else ()), *kind])


def draw_pictures(result: Result, path: Path) -> Path:
    """Draw the images, a column for each transformation and a row for each class.

    Args:
        result: What ``run`` gave.
        path: The PNG file.

    Raises:
        ValueError: If the result holds no images.
    """
    from matplotlib.figure import Figure

    if not isinstance(result, Pictures):
        raise ValueError(f"expected a result with its images, got {type(result).__name__}")
    names = list(dict.fromkeys(cell.column for cell in result.cells))
    width = len(result.images)
    figure = Figure(figsize=(1 + 0.9 * width, 1 + 0.9 * len(names)), layout="constrained")
    axes = figure.subplots(len(names), width, squeeze=False)
    for column, (title, images) in enumerate(result.images.items()):
        axes[0, column].set_title(_title(title), fontsize=6)
        for row, image in enumerate(images):
            axis = axes[row, column]
            axis.imshow(image.numpy(), cmap="gray", vmin=0, vmax=1)
            axis.set_xticks([])
            axis.set_yticks([])
            if column == 0:
                axis.set_ylabel(names[row], fontsize=8)
    return save_figure(figure, path)
