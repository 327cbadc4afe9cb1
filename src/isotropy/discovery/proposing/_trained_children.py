"""The children of a group search among images: what they are trained on, and how they did."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil

import torch
from torch import Tensor

from isotropy._run import Step
from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._train_classifier import kept_apart
from isotropy.discovery.proposing._proposer import Tell
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._image_data import ImageData
from isotropy.search._child import Child, Trained
from isotropy.search._grid_child import GridChild, Training
from isotropy.search._search_groups import search_groups
from isotropy.search._search_result import ScoredChild, SearchResult
from isotropy.search._space import SearchSpace, State

STUDY = "groups"
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
    children: int | None,
    seed: int,
    tell: Tell,
) -> TrainedChildren:
    """Search, each child trained on four fifths of the rows and scored on the others.

    Args:
        data: Images and their classes.
        space: The sets of groups.
        study: Where children are kept.
        strategy: Of the search.
        children: How many are trained at most.
        seed: Of the search and of weights.
        tell: Whom to tell how it goes on.

    Raises:
        ValueError: If an option is out of range, the study is of another search, or it holds no
            network without groups.
        ConnectionError: If the database cannot be reached.
    """
    limits = ProposingThresholds.now()
    rest, held = map(torch.as_tensor, kept_apart(data, make_generator(seed + 1)))
    child = GridChild(
        space,
        (data.maps[rest], data.y[rest]),
        (data.maps[held], data.y[held]),
        Training(_epochs(len(rest)), limits.child_batch),
        classes=data.classes,
    )
    watched = SearchProgress.of(child, tell, study, STUDY, space)
    result = search_groups(
        watched,
        space,
        strategy=strategy,
        children=min(limits.children if children is None else children, 2 ** len(space.groups)),
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


class SearchProgress:
    """A child that remembers the best accuracy it has seen, for whoever watches.

    Args:
        child: Trains networks.
        tell: Whom to tell.
        best: Accuracy and state of the best child that was trained before, if there is one.

    Example:
        >>> steps = []
        >>> progress = SearchProgress(lambda state, **options: Trained(0.75, 10, 1), steps.append)
        >>> progress.step(Step(0, 5, "no group"))
        >>> trained = progress(State(("rotation",)), seed=0)
        >>> progress.step(Step(1, 5, "rotation"))
        >>> steps[-1]
        Step(done=1, total=5, message='1 of 5 children, best so far 75.0%: rotation')
    """

    def __init__(self, child: Child, tell: Tell, best: tuple[float, State] | None = None) -> None:
        self._child, self._tell, self._best = child, tell, best
        # a search in rungs asks for it, and a child need not say
        if hasattr(child, "usual_epochs"):
            self.usual_epochs: int = child.usual_epochs

    @classmethod
    def of(
        cls,
        child: Child,
        tell: Tell,
        study: str | os.PathLike[str] | None,
        name: str,
        space: SearchSpace,
    ) -> SearchProgress:
        """With the best child that a study holds already.

        Raises:
            ConnectionError: If the database cannot be reached.
        """
        best = None
        if study is not None:
            # a study that is not there yet, or of something else: the search itself says so
            with suppress(ValueError):
                child_before = SearchResult.of(study, name, space).best
                if child_before is not None:
                    best = child_before.accuracy, child_before.state
        return cls(child, tell, best)

    def __call__(
        self,
        state: State,
        *,
        seed: int,
        epochs: int | None = None,
        start: Mapping[str, Tensor] | None = None,
    ) -> Trained:
        """Train, and remember."""
        trained = self._child(state, seed=seed, epochs=epochs, start=start)
        if self._best is None or trained.accuracy > self._best[0]:
            self._best = trained.accuracy, state
        return trained

    def fingerprint(self) -> str:
        """That of the child."""
        return self._child.fingerprint()

    def step(self, step: Step) -> None:
        """Tell how many children are done, and the best of them."""
        words = f"{step.done} of {step.total} children"
        if self._best is not None:
            words += f", best so far {self._best[0]:.1%}: {self._best[1]}"
        self._tell(Step(step.done, step.total, words))


def _epochs(rows: int) -> int:
    """As many as make the usual number of steps, within reason."""
    limits = ProposingThresholds.now()
    fewest, most = limits.child_epochs
    return min(max(ceil(limits.child_steps * limits.child_batch / rows), fewest), most)
