"""Which symmetries to test: proposed on one part of the data, each more than a coincidence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy.discovery.claims._convolution_claim import ConvolutionClaim, convolution_claim
from isotropy.discovery.proposing.permutations._natural_groups import (
    log_conjugates,
    log_natural,
    natural_groups,
)
from isotropy.discovery.proposing.permutations._near_groups import NearGroup, worth_softening
from isotropy.discovery.proposing.permutations._network_colours import (
    gradient_symmetries,
    swap_symmetries,
)
from isotropy.discovery.proposing.permutations._polynomial_colours import (
    CannotFit,
    PolynomialColours,
)
from isotropy.discovery.proposing.permutations._screening import Screening
from isotropy.discovery.reading._task_data import TaskData
from isotropy.groups import parse_group
from isotropy.naming._pair_group import PairGroup

_CHANCE = 0.05
# of kinds of groups that might have been fitted to a predictor, whose errors are not known
_WARY = 4.0
_MOST_CLAIMS, _CHEAP = 8, 0.02
_FITTED = {1: "linear coefficients", 2: "quadratic coefficients"}


@dataclass(frozen=True, eq=False)
class GroupProposal:
    """A symmetry to be tested.

    Args:
        group: The permutations.
        method: How it was come by.
        chance: A bound on the probability of such a symmetry by coincidence.
        cost: What it costs a predictor of the first part, as a share of what can be learned.
    """

    group: PairGroup
    method: str
    chance: float
    cost: float = 0.0


@dataclass(frozen=True, eq=False)
class Proposals:
    """All that one part of the data suggests.

    Args:
        claims: What is to be tested, the largest group first.
        ignored: Positions of the input that seem not to matter.
        labels: Which linear coefficients are equal, where that is known.
        tried: What was looked at, in words.
        convolution: A sharing along diagonals that no group explains, where there is one.
        near: Groups in natural order, and those of the user, that cost too much to be claimed
            and less than a wider margin.
    """

    claims: tuple[GroupProposal, ...]
    ignored: tuple[int, ...]
    labels: NDArray[np.int64] | None
    tried: tuple[str, ...]
    convolution: ConvolutionClaim | None = None
    near: tuple[GroupProposal, ...] = ()


def propose(
    data: TaskData,
    *,
    margin: float = 0.05,
    near_margin: float = 0.0,
    candidates: Sequence[str] = (),
    seed: int = 0,
    found: list[GroupProposal] | None = None,
    progress: ProgressCallback | None = None,
) -> Proposals:
    """Look for symmetries that the data suggest.

    Claims are added to ``found`` one by one, for whoever cannot wait for all of them.
    """
    tell = progress or (lambda _step: None)
    n, m = data.arrangement.inputs, data.arrangement.outputs
    movable = 1 if data.arrangement.fixed_outputs else m
    given = [(text, group) for text in candidates for group in _given(text, n, movable, m)]
    natural = natural_groups(n, movable)
    search = Screening(data, margin, seed)
    free = search.free
    tell(Step(0, 4, f"free predictor: {free.kind}"))
    degrees = {"linear": [1], "quadratic": [2, 1]}.get(free.kind, [1, 2])
    targets, arrangement = data.numbers()
    colours: dict[int, PolynomialColours] = {}
    tried = []
    for degree in degrees:
        what = _FITTED[degree].split()[0]
        try:
            colours[degree] = PolynomialColours(
                data.x, targets, arrangement, degree, progress=progress
            )
            tried.append(f"automorphisms of the coefficients of a {what} fit")
        except CannotFit as error:
            tried.append(f"no {what} fit: {error}")
    tell(Step(1, 4, "automorphisms"))
    # what explains the data is also what tells a symmetry from a coincidence
    judge = colours.get(degrees[0]) if free.kind in ("linear", "quadratic") else None
    found = [] if found is None else found
    proposer = _Proposer(
        search, colours, judge, arrangement.outputs, len(given), found, near_margin
    )
    for text, group in given:
        proposer.consider(group, f"candidate {text}", adapted=False)
    for degree, coloured in colours.items():
        for group in coloured.groups():
            proposer.consider(_with_outputs(group, m), _FITTED[degree], adapted=True)
    tell(Step(2, 4, "groups in natural order"))
    for group in natural:
        proposer.consider(_with_outputs(group, m), "natural order", adapted=False)
    tried.append("shifts, reflections and permutations of positions in their order")
    if judge is None:
        tell(Step(3, 4, "swaps and gradients"))
        tried += proposer.consider_predictor(data.x)
    convolution = None
    if judge is not None and degrees[0] == 1 and not proposer.has_shifts():
        convolution = convolution_claim(judge, data)
        tried.append("sharing along diagonals")
    best = judge if judge is not None else next(iter(colours.values()), None)
    return Proposals(
        largest(proposer.found),
        proposer.ignored,
        best.labels if best is not None else None,
        tuple(tried),
        convolution,
        tuple(GroupProposal(one.group, one.method, 1.0) for one in worth_softening(proposer.near)),
    )


class _Proposer:
    """Groups that cost little, and are no coincidence.

    Args:
        search: What a group costs a free predictor, and what a cost says.
        colours: Polynomial fits by degree.
        judge: The one that explains the data, where one does.
        outputs: How many numbers the polynomials predict at each row.
        given: How many groups the user named.
        found: Where claims go.
        near_margin: The largest cost of groups that are worth softening.
    """

    def __init__(
        self,
        search: Screening,
        colours: Mapping[int, PolynomialColours],
        judge: PolynomialColours | None,
        outputs: int,
        given: int,
        found: list[GroupProposal],
        near_margin: float,
    ) -> None:
        self.search, self.colours, self.judge = search, colours, judge
        self.outputs, self.given, self.found = outputs, given, found
        self.near_margin = near_margin
        self.arrangement = search.data.arrangement
        self.near: list[NearGroup] = []
        self.ignored = judge.ignored if judge is not None else search.ignored()
        self.live = np.setdiff1d(np.arange(self.arrangement.inputs), self.ignored)

    def consider(self, group: PairGroup, method: str, *, adapted: bool) -> None:
        """Add a group where it seems to hold; an adapted one was fitted to the data."""
        if any(group.equals(p.group) for p in self.found) or not self._moves_what_matters(group):
            return
        cost = self.search.cost(group)
        if cost <= self.near_margin and not adapted:
            self.near.append(NearGroup(group, method, cost))
        if cost > 2 * self.search.margin:
            return
        chance = min([*self._chances(group, adapted=adapted), 1.0])
        if chance <= _CHANCE:
            self.found.append(GroupProposal(group, method, chance, cost))

    def consider_predictor(self, x: Tensor) -> list[str]:
        """Add what swaps and gradients of the free predictor suggest; what was tried, in words."""
        free = self.search.free
        for group in swap_symmetries(self.search.swap_costs, self.arrangement):
            self.consider(group, "swaps of positions", adapted=True)
        if "trees" in free.kind:  # which have no gradients
            return ["swaps of positions"]
        for group in gradient_symmetries(free.predict, x, self.arrangement):
            self.consider(group, "gradients of a network", adapted=True)
        return ["swaps of positions", "gradients of a network"]

    def has_shifts(self) -> bool:
        """Whether a claim has the cyclic shifts of inputs and outputs, as circular filters do."""
        n, m = self.arrangement.inputs, self.arrangement.outputs
        if n != m:
            return False
        shift = np.roll(np.arange(n), -1)
        shifts = PairGroup(((shift, shift),), n, n)
        return any(p.group.contains(shifts) for p in self.found)

    def _moves_what_matters(self, group: PairGroup) -> bool:
        orbit, moved = group.orbits()
        still = len(np.unique(orbit[self.live])) == len(self.live)
        return not still or len(np.unique(moved)) != self.arrangement.outputs

    def _chances(self, group: PairGroup, *, adapted: bool) -> list[float]:
        """Bounds on the probability that a group holds by coincidence."""
        seen = _with_outputs(group, self.outputs)
        # a group fitted to the data is one of many that might have been
        among = None if adapted else exp(log_natural(group)) + self.given
        if self.judge is not None:
            return [self.judge.chance(seen, self.search.margin, among=among)]
        if among is None:
            # coefficients that are all approximately zero look equal: the predictor must agree
            return [self.search.chance(group, self.ignored, _WARY * exp(log_conjugates(group)))]
        fits = self.colours.values()
        chances = [len(fits) * one.chance(seen, self.search.margin, among=among) for one in fits]
        return [*chances, self.search.chance(group, self.ignored, among)]


def largest(found: Sequence[GroupProposal]) -> tuple[GroupProposal, ...]:
    """As many of the claims as are tested: those that cost little, then the largest groups."""
    first = sorted(found, key=lambda p: (p.cost > _CHEAP, -p.group.order))[:_MOST_CLAIMS]
    return tuple(sorted(first, key=lambda p: -p.group.order))


def _given(text: str, n: int, movable: int, m: int) -> Iterator[PairGroup]:
    """A group named by the user, on inputs alone and, where there are as many, on both."""
    group = parse_group(text)
    if not group.is_permutation or group.d != n:
        raise ValueError(
            f"expected candidate groups that permute {n} positions, got {text!r} "
            f"on {group.d} dimensions"
        )
    places = torch.arange(n, dtype=torch.float64)
    moves = [np.argsort(h.apply(places).long().numpy()) for h in group.discrete]
    yield PairGroup(tuple((p, np.arange(m)) for p in moves), n, m)
    if movable == n:
        yield PairGroup(tuple((p, p) for p in moves), n, m)


def _with_outputs(group: PairGroup, m: int) -> PairGroup:
    """The same group where it has m outputs, else its action on inputs with m that stay."""
    if group.outputs == m:
        return group
    stay = np.arange(m)
    return PairGroup(tuple((a, stay) for a, _ in group.generators), group.inputs, m)
