"""The telling stage: findings, what was tried, and what else is worth knowing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from isotropy.discovery.modelling._model_claims import Modelled
from isotropy.discovery.proposing._proposer import Proposed
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.telling._findings import Findings
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._test_claims import Outcomes


def reported_findings(
    proposed: Proposed,
    outcomes: Outcomes | None,
    found: Sequence[Modelled],
    near: Sequence[Modelled],
    bench: Bench,
) -> Findings:
    """All that one search found, and what it tried.

    Args:
        proposed: What was proposed.
        outcomes: What the tests say; None where there was no time for them.
        found: What stands, with models.
        near: What holds nearly, with soft models.
        bench: What claims were tested with.
    """
    tried: list[str | Mapping[str, Any]] = [one.line for one in proposed.tried]
    if outcomes is None:
        names = [claim.label for claim in proposed.claims if not claim.is_trivial]
        tried += [f"{name}: proposed, not tested" for name in names]
        return Findings((), tried, notes=[one.text for one in proposed.notes])
    tried += [one.line() for one in outcomes.tested if not one.claim.statement.trivial]
    confirmed = any(one.confirmed for one in outcomes.tested)
    notes = bench.problem.rows.notes(bench)
    notes += [one.text for one in proposed.notes if not (one.unless_confirmed and confirmed)]
    notes += [text for one in outcomes.tested if (text := one.claim.untestable(one))]
    return Findings(
        [finding(one, bench) for one in found],
        tried,
        0.0,
        notes,
        [finding(Modelled(one), bench) for one in outcomes.trivial],
        [finding(one, bench, holds=False) for one in near],
    )


def finding(one: Modelled, bench: Bench, *, holds: bool = True) -> Finding:
    """What is reported of a claim: its statement, its test and its models.

    Args:
        one: The claim.
        bench: What it was tested with.
        holds: Whether it costs less than the margin; else it holds nearly.
    """
    tested, claim = one.tested, one.tested.claim
    return Finding(
        claim.stated(tested, bench),
        tested.outcome if holds else tested.near_outcome,
        one.models,
        (*claim.notes(tested, bench), *one.notes),
        claim.examples(bench.problem.outside, bench.seed),
    )
