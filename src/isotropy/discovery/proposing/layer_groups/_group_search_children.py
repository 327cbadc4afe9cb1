"""The children of a group search among images: what they are trained on, and how they did."""

from __future__ import annotations

import os
from dataclasses import dataclass
from math import ceil

import torch

from isotropy._run import ProgressCallback
from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._train_classifier import kept_apart
from isotropy.discovery.proposing.layer_groups._group_search_progress import SearchProgress
from isotropy.discovery.reading._image_data import ImageData
from isotropy.search._grid_child import GridChild, Training
from isotropy.search._search_groups import search_groups
from isotropy.search._search_result import ScoredChild, SearchResult
from isotropy.search._space import SearchSpace

STUDY = "groups"
_STEPS, _BATCH = 250, 64  # of a child: four epochs of 4000 rows
_EPOCHS = (4, 60)
_LISTED = 20


@dataclass(frozen=True)
class TrainedChildren:
    """What a search has trained."""

    result: SearchResult
    baseline: float
    validation: int

    @property
    def ranked(self) -> list[ScoredChild]:
        """Children of different networks, the best first; among equals that with fewer weights."""
        every = self.result.top(len(self.result.children))
        return sorted(every, key=lambda one: (-one.accuracy, one.parameters))

    def lines(self) -> list[str]:
        """How many there are, and the best of them, a line each."""
        count, sets = len(self.result.children), 2 ** len(self.result.space.groups)
        words = "child" if count == 1 else "children"
        return [
            f"{count} {words} trained, no network twice, among {sets} sets of groups",
            *(
                f"child {one.accuracy:.2%}: {one.state} ({one.parameters} parameters)"
                for one in self.ranked[:_LISTED]
            ),
        ]


def train_children(
    data: ImageData,
    space: SearchSpace,
    *,
    study: str | os.PathLike[str] | None,
    strategy: str,
    children: int,
    seed: int,
    tell: ProgressCallback,
) -> TrainedChildren:
    """Search, each child trained on four fifths of the rows and scored on the others.

    Raises:
        ValueError: If an option is out of range, the study is of another search, or it holds no
            network without groups.
        ConnectionError: If the database cannot be reached.
    """
    rest, held = map(torch.as_tensor, kept_apart(data, make_generator(seed + 1)))
    child = GridChild(
        space,
        (data.maps[rest], data.y[rest]),
        (data.maps[held], data.y[held]),
        Training(_epochs(len(rest)), _BATCH),
        classes=data.classes,
    )
    watched = SearchProgress.of(child, tell, study, STUDY, space)
    result = search_groups(
        watched,
        space,
        strategy=strategy,
        children=min(children, 2 ** len(space.groups)),
        storage=study,
        name=STUDY,
        seed=seed,
        progress=watched.step,
    )
    baseline = result.baseline
    if baseline is None:
        raise ValueError(
            "expected a study that holds the network without groups, got one whose training of it "
            "failed"
        )
    return TrainedChildren(result, baseline, len(held))


def _epochs(rows: int) -> int:
    """As many as make the usual number of steps, within reason."""
    fewest, most = _EPOCHS
    return min(max(ceil(_STEPS * _BATCH / rows), fewest), most)
