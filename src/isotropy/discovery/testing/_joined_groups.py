"""What two groups that hold generate, and whether a smaller group does better than a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import uncovered
from isotropy.discovery.claims._permutation_claim import (
    GroupProposal,
    PermutationClaim,
    averaged_predictions,
)
from isotropy.discovery.modelling._symmetric_model import fit_symmetric_model
from isotropy.discovery.predictors._free_predictor import sample_losses
from isotropy.discovery.proposing.permutations._natural_groups import natural_groups
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._average_test import without_dearer
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._tested import Tested
from isotropy.discovery.testing._testing_thresholds import TestingThresholds
from isotropy.naming._pair_group import PairGroup

Losses = NDArray[np.float64]


def joined_groups(tested: Sequence[Tested], bench: Bench) -> list[Tested]:
    """What two groups generate holds if both do: it is claimed in their place, or one is not.

    Of two that hold, but not what they generate, it is the one that costs more which holds for
    these rows alone. The same where what they generate has no name: where classes lie far apart
    many permutations do no harm.
    """
    found = list(tested)
    left = [one for one in found if one.reported]
    for _ in range(TestingThresholds.now().most_joins):
        if len(left) < 2:
            break
        first, second = left[:2]
        both = _generated(first, second, bench)
        both = without_dearer([both, first, second], bench)[0]
        if both.confirmed or not any(_same_group(both, one) for one in found):
            found.append(both)
        if both.confirmed and both.claim.is_named:
            left = [both, *(one for one in left[2:] if not one.claim.is_within(both.claim))]
        else:
            dearer = max((first, second), key=lambda one: one.test.effect)
            left.remove(dearer)
            why = "it does not hold together with another that costs less"
            found[_place(found, dearer)] = dearer.withdrawn(why)
    return [
        replace(one, covered=True) if one.reported and not _is_among(one, left) else one
        for one in found
    ]


def _generated(first: Tested, second: Tested, bench: Bench) -> Tested:
    """What two groups generate, tested; no surer than they are."""
    assert isinstance(first.claim, PermutationClaim)
    assert isinstance(second.claim, PermutationClaim)
    claim = first.claim.generated_with(second.claim)
    return _tested_after(claim, (first, second), bench)


def _tested_after(claim: PermutationClaim, before: Sequence[Tested], bench: Bench) -> Tested:
    """A claim that others led to: its test, no surer than theirs."""
    one = claim.test(bench, make_generator(bench.seed))
    p_value = max(one.test.p_value, *(other.test.adjusted_p_value for other in before))
    return replace(one, test=replace(one.test, adjusted_p_value=p_value))


def _same_group(one: Tested, other: Tested) -> bool:
    assert isinstance(one.claim, PermutationClaim)
    assert isinstance(other.claim, PermutationClaim)
    return one.claim.group.equals(other.claim.group)


def _place(found: Sequence[Tested], one: Tested) -> int:
    return next(at for at, other in enumerate(found) if other is one)


def _is_among(one: Tested, others: Sequence[Tested]) -> bool:
    return any(one is other for other in others)


def held_against_subgroups(tested: Sequence[Tested], bench: Bench) -> list[Tested]:
    """The claims, each replaced by shifts within it whose network does significantly better.

    A free predictor of few rows may have learned a part that has more symmetry than the task, the
    linear one of a filter, say. A network with shifts alone learns the rest from the same rows: if
    it is better by more than the margin, than a network with the larger group and than the free
    predictor averaged over that, the larger group does not hold. Only where the free predictor
    leaves more than the margin.
    """
    rows = bench.problem.outside
    assert isinstance(rows, TaskData)
    if bench.free.share_left(rows.x, rows.y, rows.task) <= bench.margin:
        return list(tested)
    losses = _NetworkLosses(bench)
    found = list(tested)
    for at, one in enumerate(tested):
        if one.reported:
            best = _best_of_shifts(one, losses, bench)
            if best is not one:
                found[at] = one.withdrawn("a network with a smaller group does better")
                found.append(best)
    return uncovered(found)


class _NetworkLosses:
    """What networks with a symmetry lose on the rows held out, each trained once."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        outside, seen = bench.problem.outside, bench.problem.seen
        assert isinstance(outside, TaskData)
        assert isinstance(seen, TaskData)
        self.outside, self.seen = outside, seen
        constant = bench.free.constant.expand(len(outside.x), -1)
        self.flat: Losses = sample_losses(constant, outside.y, outside.task).numpy()
        self._known: dict[PermutationClaim, Losses] = {}

    def of_network(self, claim: PermutationClaim) -> Losses:
        if claim not in self._known:
            seen = self.seen
            model, _ = fit_symmetric_model(
                claim.symmetry,
                seen.x,
                seen.y,
                seen.task,
                linear=False,
                groups=seen.groups,
                seed=self.bench.seed,
            )
            with torch.no_grad():
                predictions = model(self.outside.x.to(model.x_mean)).double()
            self._known[claim] = self.of(predictions)
        return self._known[claim]

    def of(self, predictions: torch.Tensor) -> Losses:
        losses: Losses = sample_losses(predictions, self.outside.y, self.outside.task).numpy()
        return losses


@torch.no_grad()
def _of_average(claim: PermutationClaim, losses: _NetworkLosses) -> Losses:
    """What the free predictor loses where it is averaged over a group."""
    return losses.of(averaged_predictions(claim, losses.bench))


def _best_of_shifts(one: Tested, losses: _NetworkLosses, bench: Bench) -> Tested:
    """A claim, or shifts within it, where these do better than it does."""
    assert isinstance(one.claim, PermutationClaim)
    smaller_ones = _shifts_within(one.claim.group)
    best, own = one, one.claim
    averaged = _of_average(own, losses) if smaller_ones else losses.flat
    for group in smaller_ones:
        before = one.claim.proposal
        proposal = GroupProposal(group, before.method, before.chance, limit=before.limit)
        smaller = replace(one.claim, proposal=proposal)
        theirs = losses.of_network(smaller)
        least = bench.margin * float(losses.flat.mean() - theirs.mean())
        if all(
            _significantly_above(with_it - theirs, least)
            for with_it in (losses.of_network(own), averaged)
        ):
            best, own = _tested_after(smaller, [one], bench), smaller
            averaged = _of_average(own, losses)
    return best


def _significantly_above(values: Losses, least: float) -> bool:
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    return bool(values.mean() > max(least, TestingThresholds.now().better_network * error))


def _shifts_within(group: PairGroup) -> list[PairGroup]:
    """Reflections and shifts of all positions, then shifts alone, where a group has more."""
    n, m = group.inputs, group.outputs
    shift = np.roll(np.arange(n), -1)
    found = []
    for natural in natural_groups(n, m):
        one = natural.with_outputs(m)
        rings = [PairGroup(((shift, out),), n, m) for out in _outputs(shift, m)]
        if (
            one.order in (n, 2 * n)
            and one.order < group.order
            and any(one.contains(ring) for ring in rings)
            and group.contains(one)
        ):
            found.append(one)
    return sorted(found, key=lambda one: -one.order)


def _outputs(shift: NDArray[np.int64], m: int) -> list[NDArray[np.int64]]:
    return [np.arange(m), shift] if m == len(shift) else [np.arange(m)]
