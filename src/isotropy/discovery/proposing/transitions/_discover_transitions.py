"""From logged transitions to named symmetries: propose, fit, confirm."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from isotropy._run import ProgressCallback, Step
from isotropy.data import Transitions
from isotropy.discovery.claims._transition_claim import TransitionClaim
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._predictor_notes import notes_of_share
from isotropy.discovery.proposing.transitions._ignored_entries import ignored_entries
from isotropy.discovery.proposing.transitions._propose import (
    TransitionProposals,
    propose_transitions,
)
from isotropy.discovery.reading._splits import three_way_split
from isotropy.discovery.reading._transition_data import TransitionData
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.telling._findings import Findings
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._group_test import COVERAGE, group_test
from isotropy.discovery.testing._stakes import capped_errors

_MOST_TRIED, _MOST_UNTESTABLE = 5, 2


def discover_transitions(
    transitions: Transitions,
    *,
    observation_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
    margin: float = 0.05,
    level: float = 0.05,
    fit_models: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Findings:
    """Find signed permutations of observations and actions that transitions commute with.

        s′ = f(s, a)   ⟹   P_s s′ = f(P_s s, P_a a)

    Rows are split in three, episodes kept whole. On the first part elements are proposed that keep
    the coefficients of a quadratic fit of s′ − s, and hold for a network. To the second a predictor
    free of symmetry is fitted. On the third the group is tested,
    with one generator, with two and so on: averaging over it must cost less
    than ``margin`` of what can be learned, and less than half of that of what is at stake for each
    element and each column (``group_test``), where the log has rows on both sides.

    Raises:
        ValueError: If rows are too few to split, observations never change, or there are not as
            many names as entries.

    Example:
        >>> import torch
        >>> rng = torch.Generator().manual_seed(0)
        >>> s, a = torch.randn(600, 2, generator=rng), torch.randn(600, 1, generator=rng)
        >>> angle, rate = s.T
        >>> ahead = s + 0.1 * torch.stack([rate, a[:, 0] - angle**3 + angle * rate**2], 1)
        >>> found = discover_transitions(Transitions(s, a, ahead), fit_models=False)
        >>> found[0].name, found[0].action
        ('Z(2), signs of observations and actions', '−o0, −o1, −a0')
    """
    started = time.perf_counter()
    tell = progress or (lambda _step: None)
    data = TransitionData.of(transitions, observation_names, action_names)
    parts = three_way_split(len(data.x), seed=seed, groups=data.groups)
    find, fitted, held = (data.rows(part) for part in parts)
    tell(Step(0, 4, "proposing symmetries"))
    proposals = propose_transitions(find, margin=margin, seed=seed)
    tell(Step(1, 4, "fitting a predictor free of symmetry"))
    free = fitted.free_predictor(seed + 1)
    tell(Step(2, 4, "confirming"))
    chains = [proposals.generators[: k + 1] for k in range(len(proposals.generators))]
    claims = [TransitionClaim(chain, data.names, data.n) for chain in chains]
    support = DataSupport(fitted.x, coverage=COVERAGE, seed=seed)
    for claim in claims:
        claim.tested = group_test(
            claim.elements, free, held, find, support, margin=margin, level=level, seed=seed
        )
    _correct(claims)
    tell(Step(3, 4, "fitting models"))
    confirmed = [claim for claim in claims if claim.confirmed]
    shown = [c for c in confirmed if not any(c.is_within(other) for other in confirmed)]
    seen = data.rows(np.sort(np.concatenate(parts[:2])))
    rival = seen.free_predictor(seed + 1) if shown and fit_models else None
    found = [claim.finding(seen, held, rival, seed) for claim in shown]
    found.sort(key=lambda finding: -(finding.order or 0))
    tried: list[str | Mapping[str, Any]] = [claim.tried_line() for claim in claims]
    tried += _not_proposed(proposals, claims, data)
    notes = [*_notes(data, free, fitted, held), *_untestable(claims, proposals, data)]
    trivial: list[Finding] = ignored_entries(
        find, free, held, margin=margin, level=level, seed=seed
    )
    return Findings(found, tried, time.perf_counter() - started, notes, trivial)


def _correct(claims: Sequence[TransitionClaim]) -> None:
    """Tested in an order that the first part fixed, each counts only if those before stand."""
    largest = 0.0
    for claim in claims:
        assert claim.tested is not None
        test = claim.tested.test
        largest = max(largest, 1.0 if claim.tested.reason else test.p_value)
        claim.tested = replace(claim.tested, test=replace(test, adjusted_p_value=largest))


def _not_proposed(
    proposals: TransitionProposals, claims: Sequence[TransitionClaim], data: TransitionData
) -> list[dict[str, Any]]:
    """The cheapest elements that were not promising."""
    tested = {element for claim in claims for element in claim.elements}
    rest = [
        one
        for one in sorted(proposals.screened, key=lambda one: one.worst)
        if one.element not in tested and np.isfinite(one.worst)
    ]
    return [
        {
            "name": one.element.words(data.names),
            "method": "transitions",
            "effect": one.worst,
            "p_value": None,
            "confirmed": False,
        }
        for one in rest[:_MOST_TRIED]
    ]


def _untestable(
    claims: Sequence[TransitionClaim], proposals: TransitionProposals, data: TransitionData
) -> list[str]:
    """What the log cannot tell; of what was not proposed, where nothing is confirmed."""
    lines = [
        f"{claim.action}: {claim.tested.reason}"
        for claim in claims
        if claim.tested is not None and claim.tested.reason
    ]
    if any(claim.confirmed for claim in claims):
        return lines
    lines += [
        f"{element.words(data.names)}: where it takes rows to others it hardly moves them, so that "
        "the log cannot tell"
        for element in proposals.still[:_MOST_UNTESTABLE]
    ]
    if proposals.away:
        lines.append(
            f"{proposals.away} of {proposals.matched} signed permutations that were looked at take "
            "rows to where there are few or none: of these the log cannot tell"
        )
    return lines


def _notes(
    data: TransitionData, free: FreePredictor, fitted: TransitionData, held: TransitionData
) -> list[str]:
    errors = [
        float(capped_errors(p, held.increments, held.spread).mean())
        for p in (free.predict(held.x), free.constant)
    ]
    left = errors[0] / max(errors[1], 1e-300)
    notes = [
        f"transitions; free predictor of s′ − s: {free.kind}, leaves {left:.2g} of the variance; "
        f"fitted to {len(fitted.x)} rows, claims tested on {len(held.x)} others"
    ]
    if data.cut:
        notes.append(
            "there are few episodes, so that stretches of them stand for whole ones: rows of one "
            "episode are in several parts"
        )
    return [*notes, *notes_of_share(left)]
