"""Signed permutations of the observations and actions of a log."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._transition_claim import TransitionClaim
from isotropy.discovery.claims._trivial_claim import TrivialClaim
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.proposing._proposer import Note, Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing._signed_groups import TransitionProposals, propose_transitions
from isotropy.discovery.reading._transition_data import Floats, TransitionData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ClaimTest, claim_test
from isotropy.discovery.testing._testing_thresholds import TestingThresholds


class TransitionProposer(Proposer):
    """Looks for s′ = f(s, a) ⟹ P_s s′ = f(P_s s, P_a a), with P_s and P_a signed permutations."""

    words = "looking for signed permutations"

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """One group, with one generator, with two and so on: each counts if those before stand."""
        find = bench.problem.find
        assert isinstance(find, TransitionData)
        found = propose_transitions(find, margin=bench.margin, seed=bench.seed)
        claim: TransitionClaim | None = None
        for k in range(len(found.generators)):
            claim = TransitionClaim(found.generators[: k + 1], find.names, find.n, claim)
            yield claim
        yield from _not_proposed(found, claim, find)
        yield from _untestable(found, find)
        tell("fitting a predictor free of symmetry")
        ignored = _ignored_entries(find, bench)
        if ignored:
            yield _of_ignored(ignored, find.names)


def _not_proposed(
    found: TransitionProposals, claim: TransitionClaim | None, find: TransitionData
) -> Iterator[Tried]:
    """The cheapest elements that were not promising."""
    proposed = () if claim is None else claim.elements
    rest = [one for one in found.screened if one.element not in proposed and np.isfinite(one.worst)]
    rest.sort(key=lambda one: one.worst)
    for one in rest[: ProposingThresholds.now().most_elements_listed]:
        yield Tried(
            {
                "name": one.element.words(find.names),
                "method": "transitions",
                "effect": one.worst,
                "p_value": None,
                "confirmed": False,
            }
        )


def _untestable(found: TransitionProposals, find: TransitionData) -> Iterator[Note]:
    """What the log cannot tell of what was not proposed."""
    for element in found.still[: ProposingThresholds.now().most_still_listed]:
        yield Note(
            f"{element.words(find.names)}: where it takes rows to others it hardly moves them, so "
            "that the log cannot tell",
            unless_confirmed=True,
        )
    if found.away:
        yield Note(
            f"{found.away} of {found.matched} signed permutations that were looked at take rows to "
            "where there are few or none: of these the log cannot tell",
            unless_confirmed=True,
        )


# --- entries that nothing depends on --------------------------------------------------------------


def _ignored_entries(find: TransitionData, bench: Bench) -> tuple[int, ...]:
    """Entries that no increment depends on, and that nothing explains; none where all matter."""
    least, varies = ProposingThresholds.now().ignored_entry, find.x.std(0) > 0
    free = bench.free
    needed = _errors_without((), find, free, bench.seed)
    constant = find.errors(free.constant)
    if needed.mean() > (1 - 10 * least) * constant.mean():
        return ()  # nothing was learned of any entry
    most = least * constant.mean()
    unexplained = needed.mean(0) > (1 - TestingThresholds.now().least_relevant) * constant.mean(0)
    return tuple(
        i
        for i in range(len(find.names))
        if bool(varies[i])
        and (_errors_without((i,), find, free, bench.seed) - needed).mean() < most
        and (i >= find.n or unexplained[i])
    )


def _of_ignored(entries: tuple[int, ...], names: tuple[str, ...]) -> TrivialClaim:
    """The claim that any change of some entries is a symmetry, trivially."""
    listed = ", ".join(names[i] for i in entries)

    def cost(bench: Bench) -> ClaimTest:
        held, free = bench.problem.outside, bench.free
        assert isinstance(held, TransitionData)
        losses = [
            _errors_without(entries, held, free, bench.seed),
            _errors_without((), held, free, bench.seed),
            held.errors(free.constant),
        ]
        given = {"margin": bench.margin, "level": bench.level}
        return claim_test(*(one.sum(1) for one in losses), **given, groups=held.groups)

    return TrivialClaim(
        "signs and permutations of entries that nothing depends on",
        f"wreath(Z(2),S({len(entries)}))" if len(entries) > 1 else "Z(2)",
        f"any change of {listed}",
        f"no increment depends on {listed}",
        cost,
    )


@torch.no_grad()
def _errors_without(
    entries: tuple[int, ...], rows: TransitionData, free: FreePredictor, seed: int
) -> Floats:
    """Errors of a predictor with some entries taken from other rows."""
    x = rows.x.clone()
    order = torch.randperm(len(x), generator=make_generator(seed))
    for entry in entries:
        x[:, entry] = rows.x[order, entry]
    return rows.errors(free.predict(x))
