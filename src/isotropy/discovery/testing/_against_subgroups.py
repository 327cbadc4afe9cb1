"""Whether a smaller group does better: what a predictor has not learned may break a large one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._permutation_claim import (
    PermutationClaim,
    confirm_permutations,
)
from isotropy.discovery.modelling._symmetric_model import fit_symmetric_model
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.proposing.permutations._natural_groups import natural_groups
from isotropy.discovery.proposing.permutations._proposals import GroupProposal, _with_outputs
from isotropy.discovery.reading._task_data import TaskData
from isotropy.naming._pair_group import PairGroup

_SIGNIFICANT = 2.0  # standard errors
_ELEMENTS = 64


def held_against_subgroups(
    claims: Sequence[PermutationClaim],
    free: FreePredictor,
    seen: TaskData,
    outside: TaskData,
    data: TaskData,
    *,
    margin: float,
    level: float,
    seed: int,
) -> list[PermutationClaim]:
    """The claims, each replaced by shifts within it whose network does significantly better.

    A free predictor of few rows may have learned a part that has more symmetry than the task, the
    linear one of a filter, say. A network with shifts alone learns the rest from the same rows: if
    it is better by more than the margin, than a network with the larger group and than the free
    predictor averaged over that, the larger group does not hold. Only where the free predictor
    leaves more than the margin.
    """
    if free.share_left(outside.x, outside.y, outside.task) <= margin:
        return list(claims)
    constant = free.constant.expand(len(outside.x), -1)
    flat = sample_losses(constant, outside.y, outside.task).numpy()
    losses: dict[int, NDArray[np.float64]] = {}

    def of_network(claim: PermutationClaim) -> NDArray[np.float64]:
        if id(claim) not in losses:
            model, _ = fit_symmetric_model(
                claim.symmetry,
                seen.x,
                seen.y,
                seen.task,
                linear=False,
                groups=seen.groups,
                seed=seed,
            )
            with torch.no_grad():
                predictions = model(outside.x.to(model.x_mean)).double()
            losses[id(claim)] = sample_losses(predictions, outside.y, outside.task).numpy()
        return losses[id(claim)]

    found = []
    for claim in claims:
        best = claim
        smaller_ones = _shifts_within(claim.group)
        averaged = _averaged_losses(claim, free, outside, seed) if smaller_ones else flat
        for group in smaller_ones:
            proposal = GroupProposal(group, claim.proposal.method, claim.proposal.chance)
            smaller = PermutationClaim.of(proposal, data)
            least = margin * float(flat.mean() - of_network(smaller).mean())
            if all(
                _significantly_above(with_it - of_network(smaller), least)
                for with_it in (of_network(best), averaged)
            ):
                (test,) = confirm_permutations(
                    [smaller], free, outside, margin=margin, level=level, seed=seed
                )
                assert claim.test is not None
                p_value = max(test.p_value, claim.test.adjusted_p_value)
                smaller.test = replace(test, adjusted_p_value=p_value)
                best, averaged = smaller, _averaged_losses(smaller, free, outside, seed)
        if best.confirmed:
            found.append(best)
    return found


@torch.no_grad()
def _averaged_losses(
    claim: PermutationClaim, free: FreePredictor, rows: TaskData, seed: int
) -> NDArray[np.float64]:
    """What the free predictor loses where it is averaged over a group."""
    a = rows.arrangement
    predictions = claim.group.averages(
        free.predict,
        rows.x,
        a.channels,
        a.output_channels,
        elements=_ELEMENTS,
        generator=make_generator(seed),
    ).mean(0)
    losses: NDArray[np.float64] = sample_losses(predictions, rows.y, rows.task).numpy()
    return losses


def _significantly_above(values: NDArray[np.float64], least: float) -> bool:
    error = float(values.std(ddof=1)) / np.sqrt(len(values))
    return bool(values.mean() > max(least, _SIGNIFICANT * error))


def _shifts_within(group: PairGroup) -> list[PairGroup]:
    """Reflections and shifts of all positions, then shifts alone, where a group has more."""
    n, m = group.inputs, group.outputs
    shift = np.roll(np.arange(n), -1)
    found = []
    for natural in natural_groups(n, m):
        one = _with_outputs(natural, m)
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
