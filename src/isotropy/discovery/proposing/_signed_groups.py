"""Groups of signed permutations that a log suggests: matched, screened, and closed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._signed_permutation import SignedPermutation, generated
from isotropy.discovery.predictors._free_predictor import held_out_rows
from isotropy.discovery.proposing._matching import Coefficients, matches
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.testing._claim_test import SMALLEST_SAMPLE
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._group_test import (
    ColumnLosses,
    displacements,
    hardly_moved,
    output_orbits,
    relevant_orbits,
)
from isotropy.discovery.testing._testing_thresholds import TestingThresholds


@dataclass(frozen=True)
class Screened:
    """An element, and what it costs on rows that the predictor was not fitted to.

    Args:
        element: The signed permutation.
        worst: The cost as a share of what is at stake, less its standard error, in the increments
            where it is largest.
        cost: The cost, summed over all increments.
    """

    element: SignedPermutation
    worst: float
    cost: float


@dataclass(frozen=True)
class TransitionProposals:
    """What the first part of a log suggests.

    Args:
        generators: Of the largest group all of whose elements seem to hold; empty where none does.
        screened: All elements that were looked at, the cheapest first.
        still: Elements that cost little, and hardly move rows to where there are others.
        matched: How many elements keep most coefficients.
        away: How many of these take rows to where there are few or none.
    """

    generators: tuple[SignedPermutation, ...] = ()
    screened: tuple[Screened, ...] = field(default=(), repr=False)
    still: tuple[SignedPermutation, ...] = ()
    matched: int = 0
    away: int = 0


def propose_transitions(data: TransitionData, *, margin: float, seed: int) -> TransitionProposals:
    """The group that some rows suggest.

    Elements are those that keep the coefficients of a quadratic fit (``matches``). Each is held
    against a free predictor, on rows that it was not fitted to: the cost of averaging over the
    element and the identity, in every column of increments, as a share of what is at stake there.
    The cheapest come first, and another joins where all products with those before do well too.

    Example:
        >>> from isotropy.data import Transitions
        >>> s = torch.randn(400, 2, generator=torch.Generator().manual_seed(0))
        >>> ahead = s + 0.1 * s**2 - 0.3 * s.flip(1)
        >>> swapped = Transitions(s, torch.ones(400, 1), ahead)
        >>> found = propose_transitions(TransitionData.of(swapped), margin=0.05, seed=0)
        >>> [g.index for g in found.generators]
        [(1, 0, 2)]
    """
    limits, rng = ProposingThresholds.now(), make_generator(seed)
    rest, held = held_out_rows(len(data.x), limits.screen_share, data.groups, rng)
    chosen = held[torch.randperm(len(held), generator=rng)[: limits.screen_rows].numpy()]
    found = matches(Coefficients.of(data.x, data.increments), data.choices)
    if not found:
        return TransitionProposals()
    screen = _Screen(data.rows(rest), data.rows(chosen), seed)
    elements = [match.element for match in found[: limits.most_matches]]
    looked_at = sorted(map(screen, elements), key=lambda one: one.cost)
    steps = elements[: limits.repair_steps]
    first = [screen.repaired(one, steps) for one in _apart(looked_at)[: limits.most_repaired]]
    looked_at = sorted(dict.fromkeys([*first, *looked_at]), key=lambda one: one.cost)
    most = limits.screen_slack * margin
    cheap = [one.element for one in looked_at if one.worst <= most]
    still = [element for element in cheap if not screen.tells(element)]
    fine = [element for element in cheap if element not in still]
    generators = _closed(fine, lambda element: screen(element).worst <= most)
    generators = _in_small_steps(generators, lambda element: screen(element).worst)
    away = sum(map(screen.leads_away, elements))
    return TransitionProposals(generators, tuple(looked_at), tuple(still), len(elements), away)


class _Screen:
    """Costs of elements, each found once."""

    def __init__(self, fitted: TransitionData, outside: TransitionData, seed: int) -> None:
        self._free = fitted.free_predictor(seed)
        self._outside, self._seed = outside, seed
        coverage = TestingThresholds.now().log_coverage
        self._support = DataSupport(fitted.x, coverage=coverage, seed=seed)
        self._inside = self._support.contains(outside.x)
        self._known: dict[SignedPermutation, Screened] = {}

    def __call__(self, element: SignedPermutation) -> Screened:
        if element not in self._known:
            self._known[element] = self._screened(element)
        return self._known[element]

    def leads_away(self, element: SignedPermutation) -> bool:
        """Whether it takes rows to where there are few."""
        return self(element).cost == np.inf and self._is_possible(element)

    def _is_possible(self, element: SignedPermutation) -> bool:
        # indicators have no sign
        return not self._outside.choices or min(element.sign[-self._outside.choices :]) > 0

    def tells(self, element: SignedPermutation) -> bool:
        """Whether it moves all that matters far enough to tell."""
        base = self._outside.rows(self._inside.numpy())
        image = self._support.contains(element.as_map().apply(base.x)).numpy()
        displaced = displacements(element, base.rows(image), self._seed)
        return not hardly_moved(displaced, self._free, self._outside, self._seed)

    def _screened(self, element: SignedPermutation) -> Screened:
        image = element.as_map().apply(self._outside.x)
        inside = (self._inside & self._support.contains(image)).numpy()
        cyclic = _group_of([element]) if self._is_possible(element) else None
        share = inside.sum() / max(1, int(self._inside.sum()))
        few = share < TestingThresholds.now().least_kept or inside.sum() < SMALLEST_SAMPLE
        if cyclic is None or few:
            return Screened(element, np.inf, np.inf)
        rows = self._outside.rows(np.flatnonzero(inside))
        pair = [SignedPermutation.identity(len(element.index)), element]
        losses = ColumnLosses.of(self._free, pair, rows, self._seed)
        orbits = relevant_orbits(losses, output_orbits(cyclic, rows.n))
        clear = losses.effects(orbits) - losses.noise(orbits)
        worst = float(clear.max()) if orbits else np.inf
        return Screened(element, worst, float((losses.symmetrised - losses.free).sum(1).mean()))

    def repaired(self, one: Screened, steps: Sequence[SignedPermutation]) -> Screened:
        """The cheapest that changes lead to: a sign turned, a swap undone, one of some steps more.

        Many elements that keep most coefficients exchange a few entries only, such as two joints.
        They take an element that has these wrong to one that has them right.
        """
        while True:
            products = [step @ one.element for step in steps]
            near = [*_neighbours(one.element), *products]
            changed = [self(element) for element in near if not element.is_identity]
            best = min(changed, key=lambda other: other.cost, default=one)
            gain = ProposingThresholds.now().repair_gain * self._outside.n
            if best.cost >= one.cost - gain:
                return one
            one = best


def _apart(ordered: Sequence[Screened]) -> list[Screened]:
    """Those that differ from all before, and from their inverses, in many entries."""
    apart = ProposingThresholds.now().far_apart
    chosen: list[Screened] = []
    for one in ordered:
        near = any(
            _difference(one.element, known) <= apart * len(known.index)
            for other in chosen
            for known in (other.element, other.element.inverse())
        )
        if not near:
            chosen.append(one)
    return chosen


def _difference(one: SignedPermutation, other: SignedPermutation) -> int:
    pairs = zip(one.index, one.sign, strict=True), zip(other.index, other.sign, strict=True)
    return sum(a != b for a, b in zip(*pairs, strict=True))


def _neighbours(element: SignedPermutation) -> list[SignedPermutation]:
    index, sign = list(element.index), list(element.sign)
    found = []
    for i, j in enumerate(index):
        turned = sign.copy()
        if i == j:
            turned[i] *= -1
            found.append(SignedPermutation(tuple(index), tuple(turned)))
        elif index[j] == i and i < j:
            undone = index.copy()
            undone[i], undone[j] = i, j
            turned[i] = turned[j] = 1
            found.append(SignedPermutation(tuple(undone), tuple(turned)))
            turned = sign.copy()
            turned[i], turned[j] = -turned[i], -turned[j]
            found.append(SignedPermutation(tuple(index), tuple(turned)))
    return found


def _group_of(elements: Sequence[SignedPermutation]) -> tuple[SignedPermutation, ...] | None:
    """What some elements generate; None where a predictor is not averaged over so many."""
    return generated(elements, TestingThresholds.now().elements)


def _closed(
    elements: Sequence[SignedPermutation], holds: Callable[[SignedPermutation], bool]
) -> tuple[SignedPermutation, ...]:
    """Generators of a group all of whose elements hold, from the first elements on."""
    chosen: list[SignedPermutation] = []
    group: frozenset[SignedPermutation] = frozenset()
    for element in elements:
        if element in group:
            continue
        larger = _group_of([*chosen, element])
        if larger is None or not all(g.is_identity or holds(g) for g in larger):
            continue
        chosen.append(element)
        group = frozenset(larger)
    return tuple(chosen)


def _in_small_steps(
    generators: Sequence[SignedPermutation], cost: Callable[[SignedPermutation], float]
) -> tuple[SignedPermutation, ...]:
    """Other generators of the same group, so that it grows by as little as can be.

    What is tested first must stand for anything to stand, and a small group is easier to confirm
    than a large one: a mirror before quarter turns.
    """
    whole = _group_of(generators) if generators else None
    if whole is None:
        return tuple(generators)
    chosen: list[SignedPermutation] = []
    known = 1
    while known < len(whole):
        sizes = {element: len(_group_of([*chosen, element]) or whole) for element in whole}
        wider = [element for element in whole if sizes[element] > known]
        best = min(wider, key=lambda element: (sizes[element], cost(element)))
        chosen.append(best)
        known = sizes[best]
    return tuple(chosen)
