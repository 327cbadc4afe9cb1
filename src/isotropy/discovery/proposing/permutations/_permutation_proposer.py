"""Permutations of positions: automorphisms of a polynomial, natural orders, swaps, gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import torch

from isotropy.discovery.claims._claim import Claim
from isotropy.discovery.claims._permutation_claim import GroupProposal, PermutationClaim
from isotropy.discovery.claims._trivial_claim import IgnoredPositions
from isotropy.discovery.proposing._proposer import Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.permutations._colours import (
    CannotFit,
    PolynomialColours,
    gradient_symmetries,
    swap_symmetries,
)
from isotropy.discovery.proposing.permutations._natural_groups import (
    log_conjugates,
    log_natural,
    natural_groups,
)
from isotropy.discovery.proposing.permutations._screening import Screening
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.groups import parse_group
from isotropy.naming._pair_group import PairGroup

_FITTED = {1: "linear", 2: "quadratic"}


@dataclass(frozen=True, eq=False)
class FirstFits:
    """A free predictor of the first part, and polynomials by degree.

    Args:
        screening: The predictor, and what groups cost it on rows that it has not seen.
        colours: Polynomial fits by degree, the one that suits the data best first.
        refusals: Why a polynomial could not be fitted, in words.
    """

    screening: Screening
    colours: Mapping[int, PolynomialColours]
    refusals: tuple[str, ...]

    @staticmethod
    def of(bench: Bench) -> FirstFits:
        """Those of a problem; fitted once."""
        return bench.once("first fits", lambda: _fitted(bench))

    @property
    def judge(self) -> PolynomialColours | None:
        """The polynomial that explains the data, where one does.

        What explains the data is also what tells a symmetry from a coincidence.
        """
        explained = {"linear": 1, "quadratic": 2}.get(self.screening.free.kind, 0)
        return self.colours.get(explained)


def _fitted(bench: Bench) -> FirstFits:
    data = bench.problem.find
    assert isinstance(data, TaskData)
    screening = Screening(data, bench.margin, bench.seed)
    degrees = {"linear": [1], "quadratic": [2, 1]}.get(screening.free.kind, [1, 2])
    targets, arrangement = data.numbers()
    colours: dict[int, PolynomialColours] = {}
    refusals = []
    for degree in degrees:
        try:
            colours[degree] = PolynomialColours(data.x, targets, arrangement, degree)
        except CannotFit as error:
            refusals.append(f"no {_FITTED[degree]} fit: {error}")
    return FirstFits(screening, colours, tuple(refusals))


def worth_softening(groups: Sequence[GroupProposal]) -> list[GroupProposal]:
    """The largest groups, and subgroups of them that cost less than a quarter.

    Returns:
        The largest first.

    Example:
        >>> import numpy as np
        >>> from isotropy.naming._pair_group import PairGroup
        >>> turn, flip = np.roll(np.arange(4), 1), np.arange(4)[::-1]
        >>> stay = np.arange(1)
        >>> shifts = PairGroup(((turn, stay),), 4, 1)
        >>> both = PairGroup(((turn, stay), (flip, stay)), 4, 1)
        >>> dearer = GroupProposal(both, "", 1.0, 0.3)
        >>> kept = worth_softening([GroupProposal(shifts, "", 1.0, 0.2), dearer])
        >>> [one.group.order for one in kept]
        [8]
        >>> kept = worth_softening([GroupProposal(shifts, "", 1.0, 0.02), dearer])
        >>> [one.group.order for one in kept]
        [8, 4]
    """
    kept: list[GroupProposal] = []
    for one in sorted(groups, key=lambda near: -near.group.order):
        around = [other for other in kept if other.group.contains(one.group)]
        if all(
            one.cost < ProposingThresholds.now().cheaper_subgroup * other.cost for other in around
        ):
            kept.append(one)
    return kept


@dataclass(frozen=True, eq=False)
class PermutationProposer(Proposer):
    """Looks for groups that permute positions, and perhaps those of the output with them.

    A group is proposed where it costs little on the first part, and so much less than a function
    that has nothing to do with it that coincidence is unlikely. Groups in natural order, and those
    of the user, are proposed as well where coincidence is likely, or where they cost what a soft
    model may make good: they are tested with a margin below which no coincidence gets.

    Args:
        candidates: Groups of the user's, acting on positions in their order.
        near_margin: The largest cost of groups that are worth a soft model.
    """

    words = "looking for permutations"
    by = 0.35

    candidates: Sequence[str] = ()
    near_margin: float = 0.0

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """Groups, each once."""
        data = bench.problem.find
        assert isinstance(data, TaskData)
        a = data.arrangement
        if a.inputs < 2:
            return
        movable = 1 if a.fixed_outputs else a.outputs
        given = [
            (text, group)
            for text in self.candidates
            for group in _given(text, a.inputs, movable, a.outputs)
        ]
        natural = natural_groups(a.inputs, movable)
        fits = FirstFits.of(bench)
        judged = _JudgedGroups(fits, data, len(given), self.near_margin)
        for degree in fits.colours:
            yield Tried(f"automorphisms of the coefficients of a {_FITTED[degree]} fit")
        yield from map(Tried, fits.refusals)
        yield Tried("shifts, reflections and permutations of positions in their order")
        for text, group in given:
            yield from judged.claims(group, f"candidate {text}", adapted=False)
        for degree, coloured in fits.colours.items():
            for group in coloured.groups():
                method = f"{_FITTED[degree]} coefficients"
                yield from judged.claims(group.with_outputs(a.outputs), method, adapted=True)
        for group in natural:
            yield from judged.claims(group.with_outputs(a.outputs), "natural order", adapted=False)
        if fits.judge is None:
            tell("swaps and gradients")
            yield from _of_predictor(fits, data, judged)
        yield from judged.doubtful()
        yield IgnoredPositions(judged.ignored)

    def kept(self, claims: Sequence[Claim]) -> Sequence[Claim]:
        """Those that cost little, then the largest groups; whatever is no group."""
        limits = ProposingThresholds.now()
        groups = [one for one in claims if isinstance(one, PermutationClaim)]
        tested = [one for one in groups if one.proposal.limit]
        doubtful = [one for one in groups if not one.proposal.limit]
        rest = [one for one in claims if not isinstance(one, PermutationClaim)]
        tested.sort(key=lambda one: (one.proposal.cost > limits.cheap_group, -one.group.order))
        largest = sorted(tested[: limits.most_groups], key=lambda one: -one.group.order)
        return [*largest, *doubtful, *rest]


def _of_predictor(fits: FirstFits, data: TaskData, judged: _JudgedGroups) -> Iterator[Proposal]:
    """What swaps and gradients of the free predictor suggest."""
    free = fits.screening.free
    yield Tried("swaps of positions")
    for group in swap_symmetries(fits.screening.swap_costs, data.arrangement):
        yield from judged.claims(group, "swaps of positions", adapted=True)
    if "trees" in free.kind:  # which have no gradients
        return
    yield Tried("gradients of a network")
    for group in gradient_symmetries(free.predict, data.x, data.arrangement):
        yield from judged.claims(group, "gradients of a network", adapted=True)


class _JudgedGroups:
    """Which groups cost little, and are no coincidence.

    Args:
        fits: What groups are held against.
        data: The first part of the rows.
        given: How many groups the user named.
        near_margin: The largest cost of groups that are worth softening.
    """

    def __init__(self, fits: FirstFits, data: TaskData, given: int, near_margin: float) -> None:
        self.fits, self.data, self.given, self.near_margin = fits, data, given, near_margin
        self.search, self.judge = fits.screening, fits.judge
        best = self.judge if self.judge is not None else next(iter(fits.colours.values()), None)
        self.labels = None if best is None else best.labels
        self.ignored = self.search.ignored() if self.judge is None else self.judge.ignored
        self.live = np.setdiff1d(np.arange(data.arrangement.inputs), self.ignored)
        self._seen: list[PairGroup] = []
        self._doubtful: list[GroupProposal] = []

    def claims(self, group: PairGroup, method: str, *, adapted: bool) -> Iterator[PermutationClaim]:
        """The claim of a group, where it seems to hold; an adapted one was fitted to the data."""
        limits = ProposingThresholds.now()
        if any(group.equals(other) for other in self._seen) or not self._moves_what_matters(group):
            return
        cost = self.search.cost(group)
        if cost <= limits.screening_margins * self.search.margin:
            chances = self._chances(group, self.search.margin, adapted=adapted)
            chance = min([*chances, 1.0])
            if chance <= limits.coincidence:
                self._seen.append(group)
                yield self._claim(GroupProposal(group, method, chance, cost))
                return
        if not adapted and cost <= max(
            self.near_margin, limits.screening_margins * self.search.margin
        ):
            self._doubtful.append(GroupProposal(group, method, 1.0, cost))

    def doubtful(self) -> Iterator[PermutationClaim]:
        """Claims that may be coincidences, or cost too much, with the margin that they must keep.

        Of nested ones the largest, and subgroups that cost far less.
        """
        unseen = [
            one
            for one in self._doubtful
            if not any(group.equals(one.group) for group in self._seen)
        ]
        for one in worth_softening(unseen):
            limit = self._limit(one.group)
            # what costs more here need not be tested with that margin
            if one.cost > ProposingThresholds.now().screening_margins * limit:
                limit = 0.0
            if not limit and one.cost > self.near_margin:
                continue
            yield self._claim(GroupProposal(one.group, one.method, 1.0, one.cost, limit))

    def _claim(self, proposal: GroupProposal) -> PermutationClaim:
        return PermutationClaim(proposal, self.data, self.labels)

    def _moves_what_matters(self, group: PairGroup) -> bool:
        orbit, moved = group.orbits()
        still = len(np.unique(orbit[self.live])) == len(self.live)
        return not still or len(np.unique(moved)) != self.data.arrangement.outputs

    def _limit(self, group: PairGroup) -> float:
        """The largest cost that no coincidence explains; zero where any might be one."""
        limits = ProposingThresholds.now()
        for step in range(limits.limits_tried):
            cost = self.search.margin * limits.finer_limit**step
            if min(self._chances(group, cost, adapted=False, seen=cost)) <= limits.coincidence:
                return cost
        return 0.0

    def _chances(
        self, group: PairGroup, margin: float, *, adapted: bool, seen: float | None = None
    ) -> list[float]:
        """Bounds on the probability that a group costs so little by coincidence."""
        outputs = self.data.numbers()[1].outputs
        pairs = group.with_outputs(outputs)
        # a group fitted to the data is one of many that might have been
        among = None if adapted else exp(log_natural(group)) + self.given
        if self.judge is not None:
            return [self.judge.chance(pairs, margin, among=among)]
        if among is None:
            # coefficients that are all approximately zero look equal: the predictor must agree
            wary = ProposingThresholds.now().fitted_kinds * exp(log_conjugates(group))
            return [self.search.chance(group, self.ignored, wary, seen)]
        fits = self.fits.colours.values()
        chances = [len(fits) * one.chance(pairs, margin, among=among) for one in fits]
        return [*chances, self.search.chance(group, self.ignored, among, seen)]


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
