"""Full tables of a group search: every network of the space, trained, for each data set.

The tables that were made on a GPU come with the package; `made_table` makes them anew.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import torch

from isotropy.groups import GRID_TRANSFORMATIONS
from isotropy.run import ProgressCallback, Step
from isotropy.search import SearchSpace, State, Training
from isotropy_papers._experiment import Settings
from isotropy_papers._image_sets import image_set
from isotropy_papers.children_together import ChildrenTogether
from isotropy_papers.grid_image_sets import GridImageSet, grid_image_set
from isotropy_papers.score_table import ScoreTable

_FOLDER = Path(__file__).parent / "search_tables"
_ROWS = 10_000  # of each part: training at full size, validation, test
_LONG = 10_000  # training rows from which a training is long
AUGMENTATIONS = tuple(f"Aug{number}" for number in range(6))
BASES = ("mnist", "fashion-mnist")


@dataclass(frozen=True)
class SearchPlan:
    """What a table is made of.

    Args:
        base: The images.
        augmentation: How they are moved.
        rows: To train on.
        epochs: Passes through these rows.
        seeds: Trainings of every network.
        published_images: Whether images are moved as in the paper's sets.
        published: Whether networks are the paper's: step 4, a scalar bias, its start.
        part: Which networks, where it is not all of the space.

    Example:
        >>> SearchPlan("mnist", "Aug1", 4000, 4, 20).name
        'mnist-aug1-4000'
    """

    base: str
    augmentation: str
    rows: int
    epochs: int
    seeds: int
    published_images: bool = False
    published: bool = False
    part: str = ""

    @property
    def name(self) -> str:
        """The name of the file, without its ending."""
        parts = [self.base, self.augmentation.lower(), str(self.rows)]
        parts += ["published-images"] * self.published_images + ["published"] * self.published
        parts += [self.part] * bool(self.part)
        return "-".join(parts)

    def space(self) -> SearchSpace:
        """The states."""
        return SearchSpace((1, 28, 28), step=4 if self.published else None)


def own_plan(
    base: str, augmentation: str, rows: int, *, published_images: bool = False
) -> SearchPlan:
    """Our networks: short trainings to search by, long ones to select by.

    Args:
        base: The images.
        augmentation: How they are moved.
        rows: 4000 of the search, or 10,000.
        published_images: Whether images are moved as in the paper's sets.
    """
    short = rows < _LONG
    seeds = 20 if short and not published_images else 5
    return SearchPlan(base, augmentation, rows, 4 if short else 10, seeds, published_images)


def published_plan(base: str, augmentation: str, rows: int, part: str = "") -> SearchPlan:
    """The paper's networks on the paper's images.

    Args:
        base: The images.
        augmentation: How they are moved.
        rows: 4000 of the search, or 10,000.
        part: Which networks.
    """
    augmentation = "Aug0" if augmentation == "IAug0" else augmentation
    return SearchPlan(base, augmentation, rows, 4 if rows < _LONG else 10, 3, True, True, part)


SINGLES = (State(), *(State((name,)) for name in GRID_TRANSFORMATIONS))


def grid_images(plan: SearchPlan, settings: Settings) -> GridImageSet:
    """The images of a plan: as many for training, validation and test as the largest plan has.

    Args:
        plan: Which images, and how they are moved.
        settings: ``data`` may name a folder that holds them.
    """
    images = image_set(plan.base, settings)
    return grid_image_set(
        *images.train,
        plan.augmentation,
        held_out=images.test,
        train=_ROWS,
        validation=_ROWS,
        test=_ROWS,
        published=plan.published_images,
    )


def made_table(
    plan: SearchPlan,
    settings: Settings,
    progress: ProgressCallback,
    *,
    networks: tuple[State, ...] | None = None,
    last_only: bool = False,
) -> ScoreTable:
    """Train every network of the space, all at once for each seed.

    Args:
        plan: What to train on, and how long.
        settings: ``device`` and ``data``.
        progress: Called for each seed.
        networks: Those to train; by default all that are different.
        last_only: Whether to keep the counts of the last epoch alone.
    """
    images, space = grid_images(plan, settings), plan.space()
    complete = networks is None
    networks = _networks(space) if networks is None else networks
    training = Training(plan.epochs, published=plan.published)
    children = _children(space, networks, training, settings.device)
    train = images.train[0][: plan.rows], images.train[1][: plan.rows]
    counts = []
    for seed in range(plan.seeds):
        progress(Step(seed, plan.seeds, plan.name))
        right = children.trained(train, [images.validation, images.test], seed=seed)
        counts.append(torch.stack(right))
    validation, test = torch.stack(counts, 2).numpy()
    kept = slice(-1, None) if last_only else slice(None)
    return ScoreTable(
        plan.name,
        space,
        networks,
        validation[..., kept].astype(np.int32),
        test[..., kept].astype(np.int32),
        _ROWS,
        _ROWS,
        children.parameters().numpy(),
        complete,
    )


@cache
def _children(
    space: SearchSpace, networks: tuple[State, ...], training: Training, device: str
) -> ChildrenTogether:
    return ChildrenTogether(space, networks, 10, training, device=device)


@cache
def _networks(space: SearchSpace) -> tuple[State, ...]:
    return space.networks()


def stored_table(plan: SearchPlan, settings: Settings, *, last_only: bool = False) -> ScoreTable:
    """A table from ``settings.out``, if it was made there, or else the one of the package.

    Args:
        plan: Which table.
        settings: ``out``.
        last_only: Whether it holds the counts of the last epoch alone.

    Raises:
        ValueError: If there is none, or it has other seeds or epochs than the plan.
    """
    epochs = 1 if last_only else plan.epochs
    for folder in (settings.out, _FOLDER):
        if folder is not None and (folder / f"{plan.name}.safetensors").is_file():
            found = ScoreTable.load(folder / f"{plan.name}.safetensors")
            if (found.seeds, found.epochs) != (plan.seeds, epochs):
                raise ValueError(
                    f"expected a table of {plan.seeds} seeds and {epochs} epochs, got "
                    f"{found.seeds} and {found.epochs} of {plan.name!r} in {str(folder)!r}"
                )
            return found
    raise ValueError(
        "expected a table that 'isotropy reproduce basu2021/states --full' makes, got none of "
        f"{plan.name!r}"
    )


def table_of(
    plan: SearchPlan,
    settings: Settings,
    progress: ProgressCallback,
    *,
    networks: tuple[State, ...] | None = None,
    last_only: bool = False,
) -> ScoreTable:
    """The stored table; in a full run a new one, unless ``settings.out`` holds it already.

    Args:
        plan: Which table.
        settings: ``full``, ``out``, ``device`` and ``data``; ``seeds`` and ``epochs`` in place of
            the plan's.
        progress: Called for each seed.
        networks: Those to train; by default all that are different.
        last_only: Whether to keep the counts of the last epoch alone.

    Raises:
        ValueError: If a stored table has other seeds or epochs than are asked for.
    """
    kept = None if settings.out is None else settings.out / f"{plan.name}.safetensors"
    if settings.full:
        plan = replace(plan, **settings.or_else(seeds=plan.seeds, epochs=plan.epochs))
    if not settings.full or (kept is not None and kept.is_file()):
        return stored_table(plan, settings, last_only=last_only)
    made = made_table(plan, settings, progress, networks=networks, last_only=last_only)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        made.save(kept)
    return made
