"""Sets of groups whose layers do better than plain ones, from networks trained for a while."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import ceil, gcd, sqrt

import torch
from torch import Tensor

from isotropy._run import OutOfTime, Step
from isotropy._run import generator as make_generator
from isotropy.discovery.claims._layer_group_claim import GridBench, LayerGroupClaim, listed
from isotropy.discovery.predictors._train_classifier import kept_apart
from isotropy.discovery.proposing._proposer import Note, Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.testing._bench import Bench
from isotropy.groups import GRID_TRANSFORMATIONS, GridTransformation, grid_transformations
from isotropy.search._child import Child, Trained
from isotropy.search._grid_child import GridChild, Training
from isotropy.search._search_groups import search_groups
from isotropy.search._search_result import ScoredChild, SearchResult
from isotropy.search._space import SearchSpace, State

STUDY = "groups"
_LISTED = 20
_MEANING = (
    "a claim says that sharing weights by these groups loses next to nothing against the free "
    "network, the best with a single group and other claims: what it costs is against the "
    "strongest of these; it does not say that the class stays when an image is moved"
)


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


def group_space(image: tuple[int, int, int], names: Sequence[str] = ()) -> SearchSpace:
    """The sets of groups that act on an image, with two hidden grids on which they act as well.

    Raises:
        ValueError: If the image is too large, a name is unknown, or a transformation does not act.

    Example:
        >>> group_space((1, 28, 28)).hidden, len(group_space((1, 28, 28)).groups)
        (((20, 20),), 12)
        >>> group_space((1, 5, 5)).groups
        ('rotation', 'horizontal flip', 'vertical flip', 'horizontal translation', \
'vertical translation')
    """
    limits, (channels, height, width) = ProposingThresholds.now(), image
    side, numbers = limits.largest_grid, channels * height * width
    if max(height, width) > side or numbers > limits.most_grid_numbers:
        raise ValueError(
            f"expected images of at most {side} by {side} pixels and "
            f"{limits.most_grid_numbers} numbers to search groups for, got {channels} channels of "
            f"{height} by {width}"
        )
    asked = grid_transformations(names or GRID_TRANSFORMATIONS)
    for one in asked if names else ():
        one.permutations(image[1:])
    side = hidden_side(height, width, asked)
    return SearchSpace(image, tuple(one.name for one in asked) if names else (), ((side, side),))


def hidden_side(height: int, width: int, asked: Sequence[GridTransformation]) -> int:
    """The side of hidden grids on which as many transformations as possible act with the image.

    Among these, one that leaves shifts of several steps, and then the one nearest to the image's
    own side, or to 20 where that is larger.

    Example:
        >>> every = tuple(GRID_TRANSFORMATIONS.values())
        >>> [hidden_side(n, n, every) for n in (8, 28, 27, 32)]
        [8, 20, 18, 20]
    """
    limits = ProposingThresholds.now()
    first, last = limits.grid_sides
    aim = min(last, max(limits.narrow_grid, round(sqrt(height * width))))

    def suits(side: int) -> tuple[int, int, int, int]:
        acting = sum(one.acts_on((height, width), side) for one in asked)
        steps = min(gcd(height, side), gcd(width, side), limits.grid_shifts)
        return acting, steps, -abs(side - aim), side

    return max(range(first, last + 1), key=suits)


@dataclass(frozen=True, eq=False)
class LayerGroupProposer(Proposer):
    """Trains networks, one for each set of groups that is tried, on the first part of the rows.

    The best sets are claims: to the second part their networks, the free one and the best one of a
    single group are fitted, several times each, and on the third part a network with the set must
    lose no more than the margin to the free one, to that of a single group, and to those of other
    claims that lack one of its groups. Where no single group was tried, those that the set is made
    of stand for the best.

    Args:
        candidates: Names of the transformations that sets are made of; all where there are none.
        study: Where children are kept.
        strategy: Of the search.
        children: How many networks are trained at most.
    """

    words = "searching for sets of groups"
    by = 0.85  # motions and layers come before
    checks = True  # names, and whether the study is of this search

    candidates: Sequence[str] = ()
    study: str | os.PathLike[str] | None = None
    strategy: str = "lattice"
    children: int | None = None

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """The sets that did best and no worse than no group, each once its networks are fitted."""
        data = bench.problem.find
        assert isinstance(data, ImageData)
        if data.task != "classification":
            raise ValueError("expected classes for a search among sets of groups, got numbers")
        space = group_space(data.image, self.candidates)
        trained = train_children(
            data,
            space,
            study=self.study,
            strategy=self.strategy,
            children=self.children,
            seed=bench.seed,
            tell=partial(_part, tell, 0),
        )
        yield from map(Tried, trained.lines())
        yield Note(_summary(trained, space, bench))
        left = _claims(trained, space, data)
        if not left:
            yield Note("no set of groups did as well as the free network, so nothing is claimed")
            return
        best = f"no claim stands; the best set on validation rows was {listed(left[0].generators)}"
        yield Note(best, unless_confirmed=True)
        yield Note(_MEANING)
        wanted = dict.fromkeys(state for one in left for state in one.compared)
        grids = GridBench(bench, space)
        try:
            while left:
                _fit_networks(left[0].compared, wanted, grids, tell)
                yield left.pop(0)
        except (OutOfTime, KeyboardInterrupt):
            yield from (Tried(f"{one.label}: not tested") for one in left)
            raise


def _claims(trained: TrainedChildren, space: SearchSpace, data: ImageData) -> list[LayerGroupClaim]:
    """The best sets, each with whom it is held against.

    That is the free network, the best with a single group, and what is claimed without all of it: a
    set that fits well with one group too many is thus held against the set without it.
    """
    ranked = trained.ranked
    states = [one.state for one in ranked if one.state.groups and one.accuracy >= trained.baseline]
    claims = [
        LayerGroupClaim(space, state, classes=data.classes, layout=data.layout)
        for state in states[: ProposingThresholds.now().claimed_sets]
    ]
    single = {space.network(space.state(name)) for name in space.groups}
    found = []
    for claim in claims:
        alone = [one.state for one in ranked if one.state in single - {claim.state}][:1]
        if not alone:
            parts = (space.network(space.state(name)) for name in claim.generators)
            alone = [state for state in parts if state != claim.state]
        others = [one.state for one in claims if one is not claim and not claim.is_part_of(one)]
        against = tuple(dict.fromkeys([State(), *alone, *others]))
        found.append(replace(claim, rivals=against))
    return found


def _fit_networks(
    states: Sequence[State], wanted: Collection[State], grids: GridBench, tell: Tell
) -> None:
    """Fit the networks of some sets here, so that whoever watches knows how it goes on."""
    every = list(product(wanted, grids.seeds))
    for state, seed in product(states, grids.seeds):
        if not grids.has_network(state, seed):
            grids.network(state, seed)
            done = sum(grids.has_network(*one) for one in every)
            words = f"fitted {done} of {len(every)} networks, the last with {state}"
            _part(tell, 3, Step(done, len(every), words))


def _part(tell: Tell, before: int, step: str | Step) -> None:
    """Say how far work is of which training children is the first three quarters."""
    if isinstance(step, str):
        tell(step)
    else:
        total, quarters = step.total or 1, 4 if before else 3
        done = before * total + (quarters - before) * step.done
        tell(Step(done, 4 * total, step.message))


def _summary(trained: TrainedChildren, space: SearchSpace, bench: Bench) -> str:
    side, problem = space.hidden[0][0], bench.problem
    return (
        f"classification of images; sets of {listed(space.groups)}; hidden grids of "
        f"{side}×{side} units; accuracy of the free child {trained.baseline:.1%} on "
        f"{trained.validation} validation rows; networks fitted to {len(problem.fitted.x)} rows, "
        f"claims tested on {len(problem.outside.x)} others"
    )
