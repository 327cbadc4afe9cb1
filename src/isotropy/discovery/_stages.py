"""One way through discovery: proposing, testing, modelling, telling."""

from __future__ import annotations

from collections.abc import Sequence

from isotropy._run import Patience, ProgressCallback, Step
from isotropy.discovery._discover_options import Criteria
from isotropy.discovery.modelling._model_claims import modelled, soft_models
from isotropy.discovery.proposing._proposer import Proposer, Tell, propose
from isotropy.discovery.reading._read_problem import Problem
from isotropy.discovery.telling._findings import Findings, reported_findings
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._test_claims import outcomes

_PARTS = 100  # of a stage, as progress shows them


def searched(
    problem: Problem,
    proposers: Sequence[Proposer],
    criteria: Criteria,
    patience: Patience,
    progress: ProgressCallback | None = None,
) -> Findings:
    """What a problem's rows say of all that some proposers look for.

    Each stage takes what those before it gave, and gives frozen values. One that is cut short
    leaves what those before it found.

    Args:
        problem: The rows, in parts.
        proposers: Who looks for what.
        criteria: What a claim has to stand.
        patience: How long it may take.
        progress: Called with each step.
    """
    watched, count = patience.watched(progress), len(proposers)

    def tell(stage: int) -> Tell:
        def report(what: str | Step) -> None:
            part = Step(0, 1, what) if isinstance(what, str) else what
            done = stage * _PARTS + _PARTS * part.done // (part.total or 1)
            watched(Step(done, (count + 3) * _PARTS, part.message))

        return report

    bench = Bench(
        problem,
        criteria.margin,
        criteria.level * problem.share,
        criteria.seed,
        with_networks=criteria.fit_models,
    )
    proposed = propose(proposers, bench, patience, tell)
    bench = bench.for_claims(proposed.claims)
    near_margin = criteria.near_margin if criteria.looks_near else None
    tests = outcomes(proposed.claims, bench, near_margin, patience, tell(count))
    if tests is None:
        return reported_findings(proposed, None, (), (), bench)
    found = modelled(
        tests.reported, bench, patience, tell(count + 1), with_models=criteria.fit_models
    )
    near = soft_models(tests.near, found, bench, patience, tell(count + 2))
    return reported_findings(proposed, tests, found, near, bench)
