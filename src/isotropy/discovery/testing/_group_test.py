"""The test of a group of signed permutations, on rows that found nothing and fitted nothing.

What averaging over a group costs, column by column, against what is at stake there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._signed_permutation import SignedPermutation, generated
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._transition_data import Floats, TransitionData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import SMALLEST_SAMPLE, ClaimTest, claim_test
from isotropy.discovery.testing._confirm_action import untested
from isotropy.discovery.testing._tested import Tested
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

if TYPE_CHECKING:
    from isotropy.discovery.claims._transition_claim import TransitionClaim

Entries = NDArray[np.int64]

_SMALL, _CONSTANT = 1e-12, 1e-30


@dataclass(frozen=True)
class ColumnLosses:
    """Capped squared errors of three predictors of increments, shape (rows, n) each.

    A symmetry that moves few entries costs little of all that can be learned, whether it holds or
    not. So its cost is held against what it could cost: the loss of a predictor that knows nothing
    of the entries that move. It has the mean of increments that move; and for those that stay, the
    free prediction with all inputs that move taken from another row, or the mean where that is
    better.

    Args:
        symmetrised: Of the free predictor averaged over the group.
        free: Of the free predictor.
        blind: Of the one that knows nothing of what moves.
    """

    symmetrised: Floats
    free: Floats
    blind: Floats

    @staticmethod
    @torch.no_grad()
    def of(
        free: FreePredictor, elements: Sequence[SignedPermutation], rows: TransitionData, seed: int
    ) -> ColumnLosses:
        """The losses on some rows.

        Example:
            >>> from isotropy.data import Transitions
            >>> s, a = torch.randn(2, 200, 1, generator=torch.Generator().manual_seed(0)).double()
            >>> rows = TransitionData.of(Transitions(s, a, s + s * a**2))
            >>> free = FreePredictor("given", lambda x: x[:, :1] * x[:, 1:] ** 2, torch.zeros(1), 0)
            >>> group = [SignedPermutation.identity(2), SignedPermutation((0, 1), (-1, -1))]
            >>> abs(float(ColumnLosses.of(free, group, rows, 0).effects()[0])) < 1e-12
            True
        """
        x, n = rows.x, rows.n
        alone = free.predict(x)
        total = torch.zeros_like(alone)
        moves = np.zeros(x.shape[1], dtype=bool)
        for element in elements:
            index, sign = torch.tensor(element.index), torch.tensor(element.sign).to(x)
            moves |= (index.numpy() != np.arange(len(index))) | (sign.numpy() < 0)
            if element.is_identity:
                total += alone
                continue
            image = torch.empty_like(x)
            image[:, index] = x * sign
            # entry i of the image's increment is at its place, with its sign
            total += free.predict(image)[:, index[:n]] * sign[:n]
        blind = errors_without(np.flatnonzero(moves), free, rows, seed)
        return ColumnLosses(
            rows.errors(total / len(elements)),
            rows.errors(alone),
            np.where(moves[:n], rows.errors(free.constant), blind),
        )

    @property
    def stakes(self) -> Floats:
        """The mean of what is lost without the entries that move, shape (n,)."""
        stakes: Floats = (self.blind - self.free).mean(0)
        return stakes

    def effects(self, columns: Sequence[Entries] | None = None) -> Floats:
        """The cost as a share of what is at stake, for each set of columns; all by default."""
        cost, stakes = (self.symmetrised - self.free).mean(0), self.stakes
        sets = columns if columns is not None else [np.arange(len(stakes))]
        return np.array([float(cost[c].sum()) / max(float(stakes[c].sum()), _SMALL) for c in sets])

    def noise(self, columns: Sequence[Entries]) -> Floats:
        """The standard errors of the effects, for rows that are independent."""
        cost, stakes = self.symmetrised - self.free, self.stakes
        errors = [float(cost[:, c].sum(1).std()) / len(cost) ** 0.5 for c in columns]
        sizes = [max(float(stakes[c].sum()), _SMALL) for c in columns]
        shares: Floats = np.array(errors) / np.array(sizes)
        return shares


@torch.no_grad()
def errors_without(
    entries: Entries, free: FreePredictor, rows: TransitionData, seed: int
) -> Floats:
    """Losses of the free predictor with some inputs taken from other rows, shape (rows, n).

    In columns where a constant does better it is that: what was not learned cannot be lost.
    """
    order = torch.randperm(len(rows.x), generator=make_generator(seed))
    without = rows.x.clone()
    without[:, entries] = rows.x[order][:, entries]
    lost, ignorant = rows.errors(free.predict(without)), rows.errors(free.constant)
    return np.where(lost.mean(0) > ignorant.mean(0), ignorant, lost)


def output_orbits(elements: Sequence[SignedPermutation], n: int) -> list[Entries]:
    """The first ``n`` entries, those together that the group exchanges.

    Example:
        >>> swap = SignedPermutation((1, 0, 2), (1, 1, -1))
        >>> [orbit.tolist() for orbit in output_orbits([swap], 3)]
        [[0, 1], [2]]
    """
    found: dict[tuple[int, ...], None] = {}
    for i in range(n):
        found[tuple(sorted({i, *(element.index[i] for element in elements)}))] = None
    return [np.array(orbit) for orbit in found]


def relevant_orbits(losses: ColumnLosses, orbits: Sequence[Entries]) -> list[Entries]:
    """The orbits of increments that depend on what moves."""
    limits = TestingThresholds.now()
    lost = losses.blind - losses.free
    found = []
    for orbit in orbits:
        each = lost[:, orbit].mean(1)
        noise = limits.clearly_relevant * float(each.std()) / len(each) ** 0.5
        if float(each.mean()) > max(limits.least_relevant, noise):
            found.append(orbit)
    return found


# --- how far entries are moved --------------------------------------------------------------------


def displacements(
    element: SignedPermutation, inside: TransitionData, seed: int
) -> list[tuple[Entries, float]]:
    """How far an element moves entries, and with them what it can cost.

    Two motors that are mostly switched on together can be exchanged on such rows at no cost,
    whatever they do. So the squared distance that the element moves them by is held against that
    to the image of another row.

    Returns:
        Orbits of entries that move, with a share of at most 1 each.

    Example:
        >>> from isotropy.data import Transitions
        >>> x = torch.randn(4000, 4, generator=torch.Generator().manual_seed(0)).double()
        >>> x[:, 1] = 0.9 * x[:, 0] + 0.19**0.5 * x[:, 1]  # E(x − y)² is 2 (1 − 0.9)
        >>> rows = TransitionData.of(Transitions(x[:, :3], x[:, 3:], x[:, :3].sin()))
        >>> swap = SignedPermutation((1, 0, 2, 3), (1, 1, -1, 1))
        >>> [(orbit.tolist(), round(share, 1)) for orbit, share in displacements(swap, rows, 0)]
        [([0, 1], 0.1), ([2], 1.0)]
    """
    x = inside.x
    order = torch.randperm(len(x), generator=make_generator(seed))
    change, variance = element.as_map(), x.var(0).clamp_min(_CONSTANT)
    here = (change.apply(x) - x).square().mean(0) / variance
    there = (change.apply(x[order]) - x).square().mean(0) / variance
    orbits = output_orbits(generated([element], element.order) or (), len(element.index))
    return [
        (orbit, min(1.0, float(here[orbit].sum()) / max(float(there[orbit].sum()), _CONSTANT)))
        for orbit in orbits
        if len(orbit) > 1 or element.sign[orbit[0]] < 0
    ]


def hardly_moved(
    displaced: Sequence[tuple[Entries, float]],
    free: FreePredictor,
    other: TransitionData,
    seed: int,
) -> list[int]:
    """Entries that matter, and that an element leaves where they were."""
    return [
        int(entry)
        for orbit, share in displaced
        if share < TestingThresholds.now().least_moved
        and len(dependent_columns(orbit, free, other, seed))
        for entry in orbit
    ]


def dependent_columns(
    orbit: Entries, free: FreePredictor, other: TransitionData, seed: int
) -> Entries:
    """The columns of increments that depend on some inputs."""
    known = other.errors(free.predict(other.x))
    losses = ColumnLosses(known, known, errors_without(orbit, free, other, seed))
    chosen = relevant_orbits(losses, [np.array([i]) for i in range(other.n)])
    return np.concatenate([*chosen, np.empty(0, dtype=np.int64)])


@dataclass(frozen=True, eq=False)
class GroupTested(Tested):
    """A group that was put to the test. Its share is of rows whose images lie where there are data.

    Args:
        weakest: The names of the columns with the largest p-value.
    """

    weakest: tuple[str, ...] = ()


def group_test(claim: TransitionClaim, bench: Bench) -> GroupTested:
    """Test that a group is a symmetry of transitions.

    Averaging the free predictor over the group must cost less than the margin of what can be
    learned. That alone would let an element pass that moves little. So for each element g, and each
    orbit of columns of increments that depend on what g moves, averaging over g and the identity
    must cost less than half the margin of what is at stake there (``ColumnLosses``). The same for
    each orbit of inputs, in all columns that depend on these, against what they contribute, times
    how far g moves them (``displacements``). The claim stands if all of these tests do, so its
    p-value is the largest of theirs: that of the weakest link.
    """
    held, free, seed = bench.problem.outside, bench.free, bench.seed
    assert isinstance(held, TransitionData)
    inside, share, samples, reason = _with_images(claim.elements, held, bench)
    nothing = untested(bench.margin, bench.level, samples)
    if reason:
        return GroupTested(claim, nothing, reason, share=share)
    tests = _GroupTest(bench, inside)
    steps = {g: displacements(g, inside, seed) for g in _up_to_inverse(claim.elements)}
    for moved in steps.values():
        names = tuple(held.names[i] for i in hardly_moved(moved, free, tests.other, seed))
        if names:
            reason = (
                f"where it takes rows to others it hardly moves {', '.join(names)}, so that the "
                "log cannot tell"
            )
            return GroupTested(claim, nothing, reason, share=share, weakest=names)
    test = tests.of_all(claim.elements)
    largest, weakest = test.p_value, held.names[: held.n]
    for element, moved in steps.items():
        orbits = tests.moved_by(element, len(claim.elements))
        if not orbits:
            refused = replace(test, p_value=1.0, adjusted_p_value=1.0)
            reason = "nothing that was learned depends on what it moves"
            return GroupTested(claim, refused, reason, share=share)
        for p_value, orbit in tests.of_columns(element, orbits, moved):
            if p_value > largest:
                largest, weakest = p_value, tuple(held.names[i] for i in orbit)
    test = replace(test, p_value=largest, adjusted_p_value=largest)
    return GroupTested(claim, test, share=share, weakest=weakest)


@dataclass(frozen=True, eq=False)
class _GroupTest:
    """Tests on rows all of whose images lie where there are data.

    Args:
        bench: What claims are tested with.
        rows: Those rows.
    """

    bench: Bench
    rows: TransitionData

    @property
    def other(self) -> TransitionData:
        """Rows that no test is on, to see what depends on what."""
        found = self.bench.problem.find
        assert isinstance(found, TransitionData)
        return found

    def of_all(self, elements: Sequence[SignedPermutation]) -> ClaimTest:
        """The test of averaging over a group, of all that can be learned."""
        free, rows = self.bench.free, self.rows
        whole = ColumnLosses.of(free, elements, rows, self.bench.seed)
        return self._test(whole, slice(None), rows.errors(free.constant), self.bench.margin)

    def moved_by(self, element: SignedPermutation, most: int) -> list[Entries]:
        """The orbits of columns of increments that depend on what an element moves."""
        cyclic = generated([element], most) or ()
        one = SignedPermutation.identity(len(element.index))
        losses = ColumnLosses.of(self.bench.free, [one, element], self.other, self.bench.seed)
        return relevant_orbits(losses, output_orbits(cyclic, self.rows.n))

    def of_columns(
        self,
        element: SignedPermutation,
        orbits: Sequence[Entries],
        moved: Sequence[tuple[Entries, float]],
    ) -> Iterator[tuple[float, Entries]]:
        """P-values of averaging over an element and the identity, in some columns each."""
        free, seed = self.bench.free, self.bench.seed
        margin = TestingThresholds.now().in_columns * self.bench.margin
        one = SignedPermutation.identity(len(element.index))
        pair = ColumnLosses.of(free, [one, element], self.rows, seed)
        for orbit in orbits:
            yield self._test(pair, orbit, pair.blind, margin).p_value, orbit
        for orbit, far in moved:
            columns = dependent_columns(orbit, free, self.other, seed)
            if len(columns):  # else too little depends on these inputs to tell
                without = errors_without(orbit, free, self.rows, seed)
                yield self._test(pair, columns, without, far * margin).p_value, orbit

    def _test(
        self, losses: ColumnLosses, columns: Entries | slice, blind: Floats, margin: float
    ) -> ClaimTest:
        """The test of a cost in some columns, against what a blind predictor loses there."""
        sums = (one[:, columns].sum(1) for one in (losses.symmetrised, losses.free, blind))
        return claim_test(*sums, margin=margin, level=self.bench.level, groups=self.rows.groups)


def _with_images(
    elements: Sequence[SignedPermutation], held: TransitionData, bench: Bench
) -> tuple[TransitionData, float, int, str]:
    """Rows with all images where there are data, their share and number; why they are too few."""
    limits = TestingThresholds.now()
    support = bench.support(limits.log_coverage)
    base = support.contains(held.x).numpy()
    inside, kept = base, 1.0
    for element in elements:
        image = base & support.contains(element.as_map().apply(held.x)).numpy()
        inside = inside & image
        kept = min(kept, float(image.sum()) / max(1, int(base.sum())))
    share = float(inside.mean())
    rows = held.rows(np.flatnonzero(inside))
    samples = len(rows.x) if rows.groups is None else len(np.unique(rows.groups))
    reason = ""
    if kept < limits.least_kept or share < limits.least_kept_by_all or samples < SMALLEST_SAMPLE:
        reason = (
            f"it takes up to {1 - kept:.0%} of the rows to where there are few or none, so that "
            "the log cannot tell"
        )
    return rows, share, samples, reason


def _up_to_inverse(elements: Sequence[SignedPermutation]) -> list[SignedPermutation]:
    chosen: dict[SignedPermutation, None] = {}
    for element in elements:
        if not element.is_identity and element.inverse() not in chosen:
            chosen[element] = None
    return list(chosen)
