"""Which symmetries to test: proposed on one part of the data, each more than a coincidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import ProgressCallback, Step
from isotropy.discovery._task_data import TaskData
from isotropy.discovery.naming._pair_group import PairGroup
from isotropy.discovery.permutations._convolution_claim import ConvolutionClaim, convolution_claim
from isotropy.discovery.permutations._natural_groups import (
    log_conjugates,
    log_natural,
    natural_groups,
)
from isotropy.discovery.permutations._near_groups import NearGroup, worth_softening
from isotropy.discovery.permutations._network_colours import gradient_symmetries, swap_symmetries
from isotropy.discovery.permutations._polynomial_colours import CannotFit, PolynomialColours
from isotropy.discovery.permutations._screening import Screening
from isotropy.groups import parse_group

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
    """Look for symmetries that the data suggest."""
    tell = progress or (lambda _step: None)
    n, m = data.arrangement.inputs, data.arrangement.outputs
    movable = 1 if data.arrangement.fixed_outputs else m
    given = [(text, group) for text in candidates for group in _given(text, n, movable, m)]
    natural = natural_groups(n, movable)
    search = Screening(data, margin, seed)
    tell(Step(0, 4, f"free predictor: {search.free.kind}"))
    degrees = {"linear": [1], "quadratic": [2, 1]}.get(search.free.kind, [1, 2])
    exact = search.free.kind in ("linear", "quadratic")
    colours: dict[int, PolynomialColours] = {}
    targets, laid_out = data.numbers()
    tried = []
    for degree in degrees:
        what = "linear" if degree == 1 else "quadratic"
        try:
            colours[degree] = PolynomialColours(
                data.x, targets, laid_out, degree, progress=progress
            )
            tried.append(f"automorphisms of the coefficients of a {what} fit")
        except CannotFit as error:
            tried.append(f"no {what} fit: {error}")
    tell(Step(1, 4, "automorphisms"))
    # what explains the data is also what tells a symmetry from a coincidence
    judge = colours.get(degrees[0]) if exact else None
    ignored = judge.ignored if judge is not None else search.ignored()
    live = np.setdiff1d(np.arange(n), ignored)
    found = [] if found is None else found
    near: list[NearGroup] = []

    def consider(group: PairGroup, method: str, *, adapted: bool) -> None:
        if any(group.equals(p.group) for p in found):
            return
        orbit, moved = group.orbits()
        if len(np.unique(orbit[live])) == len(live) and len(np.unique(moved)) == m:
            return  # it moves what does not matter
        cost = search.cost(group)
        if cost <= near_margin and not adapted:
            near.append(NearGroup(group, method, cost))
        if cost > 2 * margin:
            return
        # a group fitted to the data is one of many that might have been
        seen = _with_outputs(group, laid_out.outputs)
        among = None if adapted else exp(log_natural(group)) + len(given)
        if judge is not None:
            chances = [judge.chance(seen, margin, among=among)]
        else:
            chances = [
                len(colours) * coloured.chance(seen, margin, among=among)
                for coloured in colours.values()
            ]
            if among is None:
                # coefficients that are all nearly zero look equal: the predictor must agree
                ways = _WARY * exp(log_conjugates(group))
                chances = [search.chance(group, ignored, ways)]
            else:
                chances.append(search.chance(group, ignored, among))
        chance = min([*chances, 1.0])
        if chance <= _CHANCE:
            found.append(GroupProposal(group, method, chance, cost))

    for text, group in given:
        consider(group, f"candidate {text}", adapted=False)
    for degree, coloured in colours.items():
        for group in coloured.groups():
            consider(_with_outputs(group, m), _FITTED[degree], adapted=True)
    tell(Step(2, 4, "groups in natural order"))
    for group in natural:
        consider(_with_outputs(group, m), "natural order", adapted=False)
    tried.append("shifts, reflections and permutations of positions in their order")
    if judge is None:
        tell(Step(3, 4, "swaps and gradients"))
        for group in swap_symmetries(search.swap_costs, data.arrangement):
            consider(group, "swaps of positions", adapted=True)
        tried.append("swaps of positions")
        if "trees" not in search.free.kind:  # which have no gradients
            for group in gradient_symmetries(search.free.predict, data.x, data.arrangement):
                consider(group, "gradients of a network", adapted=True)
            tried.append("gradients of a network")
    convolution = None
    around = [p for p in found if any(p.group.contains(shift) for shift in _shifts(n, m))]
    if judge is not None and degrees[0] == 1 and not around:
        convolution = convolution_claim(judge, data)
        tried.append("sharing along diagonals")
    best = judge if judge is not None else next(iter(colours.values()), None)
    return Proposals(
        largest(found),
        ignored,
        best.labels if best is not None else None,
        tuple(tried),
        convolution,
        tuple(GroupProposal(one.group, one.method, 1.0) for one in worth_softening(near)),
    )


def largest(found: Sequence[GroupProposal]) -> tuple[GroupProposal, ...]:
    """As many of the claims as are tested: those that cost little, then the largest groups."""
    first = sorted(found, key=lambda p: (p.cost > _CHEAP, -p.group.order))[:_MOST_CLAIMS]
    return tuple(sorted(first, key=lambda p: -p.group.order))


def _shifts(n: int, m: int) -> list[PairGroup]:
    """The cyclic shifts of inputs and outputs together, which a convolution without ends has."""
    shift = np.roll(np.arange(n), -1)
    return [PairGroup(((shift, shift),), n, n)] if n == m else []


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
