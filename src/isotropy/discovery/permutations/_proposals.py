"""Which symmetries to test: proposed on one part of the data, each more than a coincidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import exp, inf, log

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.discovery.confirming._claim_test import SMALLEST_SAMPLE, ClaimTest, claim_test
from isotropy.discovery.confirming._free_predictor import fit_free_predictor, sample_losses
from isotropy.discovery.naming._pair_group import PairGroup
from isotropy.discovery.permutations._convolution_claim import ConvolutionClaim, convolution_claim
from isotropy.discovery.permutations._network_colours import gradient_symmetries, swap_symmetries
from isotropy.discovery.permutations._polynomial_colours import (
    PolynomialColours,
    TooFewRows,
    log_conjugates,
    natural_groups,
)
from isotropy.discovery.permutations._task_data import TaskData
from isotropy.groups import parse_group

_CHANCE = 0.05
_CONJUGATES = 20
_ELEMENTS = 24
_MOST_SCREENED = 2000
_MOST_CLAIMS = 6
_FITTED = {1: "linear coefficients", 2: "quadratic coefficients"}
# the least cost that a network can be trusted to tell from none
_RESOLUTION = 0.01


@dataclass(frozen=True, eq=False)
class Proposal:
    """A symmetry to be tested.

    Args:
        group: The permutations.
        method: How it was come by.
        chance: A bound on the probability of such a symmetry by coincidence.
    """

    group: PairGroup
    method: str
    chance: float


@dataclass(frozen=True, eq=False)
class Proposals:
    """All that one part of the data suggests.

    Args:
        claims: What is to be tested, the largest group first.
        ignored: Positions of the input that seem not to matter.
        labels: Which linear coefficients are equal, where that is known.
        tried: What was looked at, in words.
        convolution: A sharing along diagonals that no group explains, where there is one.
    """

    claims: tuple[Proposal, ...]
    ignored: tuple[int, ...]
    labels: NDArray[np.int64] | None
    tried: tuple[str, ...]
    convolution: ConvolutionClaim | None = None


def propose(
    data: TaskData,
    *,
    margin: float = 0.05,
    candidates: Sequence[str] = (),
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Proposals:
    """Look for symmetries that the data suggest.

    Args:
        data: The part to look at.
        margin: What a symmetry may cost, as a share of what can be learned.
        candidates: Groups to try as well, as text.
        seed: Of the predictor and of random elements.
        progress: Told of each step.
    """
    tell = progress or (lambda step: None)
    search = _Search(data, margin, seed)
    tell(Step(0, 4, f"free predictor: {search.free.kind}"))
    degrees = {"linear": [1], "quadratic": [2, 1]}.get(search.free.kind, [1, 2])
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
        except TooFewRows as error:
            tried.append(f"no {what} fit: {error}")
    tell(Step(1, 4, "automorphisms"))
    # what explains the data is also what tells a symmetry from a coincidence
    judge = colours.get(degrees[0]) if search.free.kind != "network" else None
    found: list[Proposal] = []

    def consider(group: PairGroup, method: str, *, adapted: bool) -> None:
        if any(group.equals(p.group) for p in found):
            return
        if search.cost(group) > 2 * margin:
            return
        # the noise of a coefficient is known, that of a network is not: a group fitted to the
        # data must be seen in coefficients
        seen = _with_outputs(group, laid_out.outputs)
        chances = [coloured.chance(seen, margin) * len(colours) for coloured in colours.values()]
        if judge is None and not adapted:
            chances.append(search.chance(group))
        chance = min(
            judge.chance(seen, margin) if judge is not None else min(chances, default=1.0), 1.0
        )
        if chance <= _CHANCE:
            found.append(Proposal(group, method, chance))

    n, m = data.arrangement.inputs, data.arrangement.outputs
    movable = 1 if data.arrangement.fixed_outputs else m
    for text in candidates:
        for group in _given(text, n, movable, m):
            consider(group, f"candidate {text}", adapted=False)
    for degree, coloured in colours.items():
        for group in coloured.groups():
            consider(_with_outputs(group, m), _FITTED[degree], adapted=True)
    tell(Step(2, 4, "groups in natural order"))
    for group in natural_groups(n, movable):
        consider(_with_outputs(group, m), "natural order", adapted=False)
    tried.append("shifts, reflections and permutations of positions in their order")
    if judge is None:
        tell(Step(3, 4, "swaps and gradients"))
        for group in swap_symmetries(search.cost, data.arrangement, margin):
            consider(group, "swaps of positions", adapted=True)
        for group in gradient_symmetries(search.free.predict, data.x, data.arrangement):
            consider(group, "gradients of a network", adapted=True)
        tried.append("swaps of positions, and gradients, of a network")
    convolution = None
    around = [p for p in found if any(p.group.contains(shift) for shift in _shifts(n, m))]
    if judge is not None and degrees[0] == 1 and not around:
        convolution = convolution_claim(judge, data)
        tried.append("sharing along diagonals")
    found.sort(key=lambda p: -p.group.order)
    best = judge if judge is not None else next(iter(colours.values()), None)
    return Proposals(
        tuple(found[:_MOST_CLAIMS]),
        best.ignored if best is not None else (),
        best.labels if best is not None else None,
        tuple(tried),
        convolution,
    )


class _Search:
    """A free predictor fitted to most rows, and what symmetries cost on the others."""

    def __init__(self, data: TaskData, margin: float, seed: int) -> None:
        self.margin = margin
        self.rng = make_generator(seed)
        order = torch.randperm(len(data.x), generator=self.rng).numpy()
        held = max(SMALLEST_SAMPLE, round(0.3 * len(order)))
        rest = data.rows(order[held:])
        self.data = data.rows(order[: min(held, _MOST_SCREENED)])
        self.free = fit_free_predictor(rest.x, rest.y, data.task, seed=seed)
        with torch.no_grad():
            self._free = self._losses(self.free.predict(self.data.x))
            constant = self.free.constant.expand(len(self.data.x), -1)
            self._constant = self._losses(constant)

    def _losses(self, prediction: Tensor) -> NDArray[np.float64]:
        losses: NDArray[np.float64] = sample_losses(prediction, self.data.y, self.data.task).numpy()
        return losses

    @torch.no_grad()
    def test(self, group: PairGroup) -> ClaimTest:
        a = self.data.arrangement
        averaged = group.averaged(
            self.free.predict,
            self.data.x,
            a.channels,
            a.output_channels,
            elements=_ELEMENTS,
            generator=self.rng,
        )
        return claim_test(self._losses(averaged), self._free, self._constant, margin=self.margin)

    def cost(self, group: PairGroup) -> float:
        effect = self.test(group).effect
        return effect if effect == effect else inf

    def chance(self, group: PairGroup) -> float:
        """The probability that some group like this one costs as little by coincidence.

        A cost is a mean of squares of k independent differences, which are all to be small
        together: P(cost ≤ u) is about (u/c)^(k/2), with c what a random conjugate of the
        group costs and k the number of equalities that the group asks for. That, times the
        number of conjugates.
        """
        upper = self.test(group).interval[1]
        if not upper < inf:
            return 1.0
        usual = [self.cost(_conjugated(group, self.rng)) for _ in range(_CONJUGATES)]
        others = [c for c in usual if 0 < c < inf]
        scale = min(1.0, float(np.mean(others))) if others else 1.0
        if all(_conjugated(group, self.rng).equals(group) for _ in range(3)):
            scale = 1.0  # every conjugate is the group itself
        at, to = group.orbits()
        equalities = len(at) - len(np.unique(at))
        if len(np.unique(to)) < len(to):
            equalities = len(at) * len(to) - _pair_orbits(group)
        small = log(min(1.0, max(upper, _RESOLUTION) / scale))
        return exp(min(0.0, log_conjugates(group) + 0.5 * equalities * small))


def _shifts(n: int, m: int) -> list[PairGroup]:
    """The cyclic shifts of inputs and outputs together, which a convolution without ends has."""
    shift = np.roll(np.arange(n), -1)
    return [PairGroup(((shift, shift),), n, n)] if n == m else []


def _pair_orbits(group: PairGroup) -> int:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    n, m = group.inputs, group.outputs
    cells = np.arange(n * m).reshape(m, n)
    there = [cells[np.ix_(b, a)].ravel() for a, b in group.generators]
    here = np.tile(cells.ravel(), len(there))
    links = coo_matrix((np.ones(len(here)), (here, np.concatenate(there))), (n * m, n * m))
    return int(connected_components(links, directed=False)[0])


def _conjugated(group: PairGroup, rng: torch.Generator) -> PairGroup:
    """The same group on positions in a random order."""
    change_in = torch.randperm(group.inputs, generator=rng).numpy()
    change_out = torch.randperm(group.outputs, generator=rng).numpy()

    def moved(p: NDArray[np.int64], change: NDArray[np.int64]) -> NDArray[np.int64]:
        conjugate = np.empty_like(p)
        conjugate[change] = change[p]
        return conjugate

    return PairGroup(
        tuple((moved(a, change_in), moved(b, change_out)) for a, b in group.generators),
        group.inputs,
        group.outputs,
    )


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
