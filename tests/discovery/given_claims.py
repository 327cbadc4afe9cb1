"""Claims that a test gives, put through the stages that follow proposing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from discovery.pieces import (
    FreePredictor,
    GroupProposal,
    PairGroup,
    Patience,
    PermutationClaim,
    Problem,
    TaskData,
    Tested,
)
from isotropy.data import load
from isotropy.discovery.claims._claim import Claim
from isotropy.discovery.proposing.generators._generator_proposer import GeneratorProposer
from isotropy.discovery.proposing.permutations._permutation_proposer import PermutationProposer
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._test_claims import all_tested, chosen, near_outcomes

LEVEL, MARGIN = 0.05, 0.05

__all__ = [
    "Bench",
    "Claim",
    "all_tested",
    "bench_of",
    "chosen",
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


def proposed(data: TaskData) -> list[PermutationClaim]:
    """The groups that all of some rows suggest."""
    bench = Bench(Problem("vectors", data, data, data, data, data), MARGIN, LEVEL)
    looking = PermutationProposer()
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
