"""Continuous claims that are not made beside permutations, or of a target that is linear."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isotropy.discovery.claims._permutation_claim import PermutationClaim
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.proposing.generators._continuous import TestedClaim
from isotropy.discovery.reading._arrangement import Arrangement
from isotropy.naming._pair_group import PairGroup

_FEWEST_OF_RING = 6


def leave_out(
    moved: Sequence[TestedClaim],
    shown: Sequence[PermutationClaim],
    arrangement: Arrangement,
    smooth: FreePredictor,
) -> None:
    """Withdraw continuous claims that say nothing, and say why.

    - Where positions are a ring, neighbours are no vector, unless the user says so.
    - Of what is linear as far as a predictor has learned it, motions say nothing: each linear
      function has many.
    - Every quadratic form has an SO(p, q) in a basis of its own.
    - What is approximate is not claimed beside what holds exactly.
    """
    ring = _is_ring(shown, arrangement)
    for one in moved:
        result = one.claim.result
        blocks = result is not None and len(result.chart.blocks) > 1
        if ring and blocks and result is not None and not result.chart.suggested:
            one.withdraw("positions are a ring, of which neighbours are no vectors")
        elif smooth.is_linear:
            one.withdraw("the target is linear in the columns, and has many such motions")
        elif smooth.is_quadratic and result is not None and "hidden" in result.detail:
            one.withdraw("the target is quadratic, and every quadratic form has such a group")
    exact = any(claim.is_named and not claim.approximate for claim in shown)
    exact = exact or any(one.action.test.confirmed and not one.approximate for one in moved)
    for one in moved:
        if exact and one.approximate:
            one.withdraw("it is approximate, and others hold exactly")


def _is_ring(shown: Sequence[PermutationClaim], a: Arrangement) -> bool:
    """Whether positions may be shifted."""
    stay = np.arange(a.outputs)
    shift = np.roll(np.arange(a.inputs), -1)
    rings = [PairGroup(((shift, stay),), a.inputs, a.outputs)]
    if a.inputs == a.outputs:
        rings.append(PairGroup(((shift, shift),), a.inputs, a.outputs))
    return a.inputs >= _FEWEST_OF_RING and any(
        claim.group.contains(ring) for claim in shown for ring in rings
    )
