"""Which of the groups that are confirmed are findings: exact, joined, held against smaller ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from isotropy._run import Patience
from isotropy.discovery.claims._permutation_claim import (
    PermutationClaim,
    confirm_permutations,
)
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.proposing.permutations._proposals import GroupProposal
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._against_subgroups import held_against_subgroups
from isotropy.discovery.testing._exact_within import without_dearer
from isotropy.naming._pair_group import PairGroup

_MOST_JOINS = 6


@dataclass(eq=False)
class ConfirmedGroups:
    """Tested claims, and what they were tested with."""

    claims: list[PermutationClaim]
    data: TaskData
    free: FreePredictor
    seen: TaskData
    outside: TaskData
    margin: float
    level: float
    seed: int

    def shown(self, patience: Patience, *, with_networks: bool) -> list[PermutationClaim]:
        """Those to report: no group beside a larger one that holds as well."""
        confirmed = [claim for claim in self.claims if claim.confirmed]
        confirmed = self._exact(confirmed)
        shown = [c for c in confirmed if not any(c.is_within(other) for other in confirmed)]
        joined = patience.attempt("joining groups", lambda: self._joined(shown))
        shown = shown if joined is None else joined
        if not with_networks:
            return shown
        held = patience.attempt("holding groups against smaller ones", lambda: self._held(shown))
        return shown if held is None else held

    def _exact(self, confirmed: Sequence[PermutationClaim]) -> list[PermutationClaim]:
        return without_dearer(confirmed, self.free, self.outside, seed=self.seed)

    def _joined(self, shown: Sequence[PermutationClaim]) -> list[PermutationClaim]:
        """What two groups generate holds if both do: it is claimed in their place, or one is not.

        Of two that hold, but not what they generate, it is the one that costs more which holds
        for these rows alone. The same where what they generate has no name: where classes lie far
        apart many permutations do no harm.
        """
        left, dropped = list(shown), list[PermutationClaim]()
        for _ in range(_MOST_JOINS):
            if len(left) < 2:
                break
            first, second = left[:2]
            claim = self._generated(first, second)
            self.claims.append(claim)
            exact = claim.confirmed and claim in self._exact([claim, first, second])
            if exact and claim.is_named:
                left = [claim, *(c for c in left[2:] if not c.is_within(claim))]
            else:
                dearer = max((first, second), key=lambda one: one.test.effect if one.test else 0.0)
                left.remove(dearer)
                dropped.append(dearer)
        for claim in dropped:
            claim.withdraw("it does not hold together with another that costs less")
        return left

    def _generated(self, first: PermutationClaim, second: PermutationClaim) -> PermutationClaim:
        """What two groups generate, tested."""
        generators = (*first.group.generators, *second.group.generators)
        group = PairGroup(generators, first.group.inputs, first.group.outputs)
        chance = max(first.proposal.chance, second.proposal.chance)
        proposal = GroupProposal(group, f"{first.proposal.method}, joined", chance)
        claim = PermutationClaim.of(proposal, self.data)
        (test,) = confirm_permutations(
            [claim], self.free, self.outside, margin=self.margin, level=self.level, seed=self.seed
        )
        tests = [one.test for one in (first, second) if one.test is not None]
        p_value = max([test.p_value, *(one.adjusted_p_value for one in tests)])
        claim.test = replace(test, adjusted_p_value=p_value)
        return claim

    def _held(self, shown: Sequence[PermutationClaim]) -> list[PermutationClaim]:
        kept = held_against_subgroups(
            shown,
            self.free,
            self.seen,
            self.outside,
            self.data,
            margin=self.margin,
            level=self.level,
            seed=self.seed,
        )
        for claim in shown:
            if claim not in kept:
                claim.withdraw("a network with a smaller group does better")
        self.claims += [claim for claim in kept if claim not in self.claims]
        return kept
