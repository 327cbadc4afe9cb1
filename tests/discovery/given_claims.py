"""Claims that a test gives, put through the stages that follow proposing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from discovery.pieces import (
    FreePredictor,
    GroupProposal,
    PairGroup,
    Patience,
    PermutationClaim,
    TaskData,
)
from isotropy.data import load
from isotropy.discovery import Findings
from isotropy.discovery._discover_options import Criteria
from isotropy.discovery._stages import searched
from isotropy.discovery.claims._claim import Claim
from isotropy.discovery.proposing._proposer import Proposer, Tell
from isotropy.discovery.proposing.generators._generator_proposer import GeneratorProposer
from isotropy.discovery.proposing.permutations._permutation_proposer import PermutationProposer
from isotropy.discovery.reading._problem import Problem
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._test_claims import all_tested, chosen, near_outcomes
from isotropy.discovery.testing._tested import Tested

LEVEL, MARGIN = 0.05, 0.05

__all__ = [
    "Bench",
    "Claim",
    "Criteria",
    "Problem",
    "Tested",
    "all_tested",
    "bench_of",
    "chosen",
    "found_of",
    "group_claims",
    "groups_tested",
    "moving_claims",
    "near_outcomes",
    "orders",
    "proposed",
]


def bench_of(
    x: Any,
    y: Any,
    free: FreePredictor | None = None,
    *,
    smooth: bool = False,
    networks: bool = False,
) -> Bench:
    """What claims about some rows are tested with; given a predictor, all rows are in each part."""
    data = TaskData.of(load((x, y)))
    if free is None:
        problem = Problem.of(data, "vectors")
        return Bench(problem, MARGIN, LEVEL, smooth=smooth, with_networks=networks)
    problem = Problem("vectors", data, data, data, data, data)
    known = {("plain", data): free, ("smooth", data): free}
    return Bench(problem, MARGIN, LEVEL, smooth=smooth, with_networks=networks, found=known)


def group_claims(bench: Bench, groups: Sequence[PairGroup]) -> list[PermutationClaim]:
    """Claims of groups that permute columns."""
    rows = bench.problem.rows
    assert isinstance(rows, TaskData)
    return [PermutationClaim(GroupProposal(group, "given", 1e-6), rows) for group in groups]


def groups_tested(bench: Bench, groups: Sequence[PairGroup]) -> tuple[list[Tested], list[Tested]]:
    """Groups, tested; and what is chosen of them."""
    tested = all_tested(group_claims(bench, groups), bench)
    return tested, chosen(tested, bench, Patience())


@dataclass(frozen=True)
class Given(Proposer):
    """Yields the claims that it is given."""

    words = "looking at what was given"
    claims: Sequence[Claim]

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Claim]:
        """All of them."""
        del bench, tell
        yield from self.claims


def found_of(x: Any, y: Any, groups: Sequence[PairGroup], criteria: Criteria) -> Findings:
    """What all stages behind proposing say of groups that permute columns."""
    data = TaskData.of(load((x, y)))
    claims = [PermutationClaim(GroupProposal(group, "given", 1e-6), data) for group in groups]
    return searched(Problem.of(data, "vectors"), [Given(claims)], criteria, Patience())


def proposed(data: TaskData, proposer: Proposer | None = None) -> list[PermutationClaim]:
    """The groups that all of some rows suggest."""
    bench = Bench(Problem("vectors", data, data, data, data, data), MARGIN, LEVEL)
    looking = proposer or PermutationProposer()
    found = [one for one in looking.propose(bench, lambda _words: None) if isinstance(one, Claim)]
    return [one for one in looking.kept(found) if isinstance(one, PermutationClaim)]


def moving_claims(bench: Bench) -> list[Claim]:
    """The continuous symmetries that some rows suggest."""
    found = GeneratorProposer().propose(bench, lambda _words: None)
    return [one for one in found if isinstance(one, Claim) and not one.is_trivial]


def orders(tested: Sequence[Tested]) -> list[int]:
    """The orders of groups that are reported."""
    return [
        int(np.asarray(one.claim.group.order))
        for one in tested
        if one.reported and isinstance(one.claim, PermutationClaim)
    ]
