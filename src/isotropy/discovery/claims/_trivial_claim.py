"""What holds for a trivial reason: the target ignores some columns, or is linear, or nearly so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import factorial

import torch

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import Claim
from isotropy.discovery.claims._permutation_claim import PermutationClaim
from isotropy.discovery.claims._statement import Statement
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ClaimTest
from isotropy.discovery.testing._tested import Tested


@dataclass(frozen=True, eq=False)
class TrivialClaim(Claim):
    """A symmetry that is no discovery.

    Args:
        name: What it is, in prose.
        group: The group as text.
        action: How it acts, in a phrase.
        reason: Why it holds.
        cost: Its test, on some bench.
        order: The number of elements, where it is finite.
        found_by: How it was found.
        wants_smooth: Whether a smooth predictor will do for its test.
    """

    is_trivial = True

    name: str
    group: str
    action: str
    reason: str
    cost: Callable[[Bench], ClaimTest]
    order: int | None = None
    found_by: str = "shuffled columns"
    wants_smooth: bool = False

    @cached_property
    def statement(self) -> Statement:
        """What is claimed, and why it is no discovery."""
        return Statement(
            self.name,
            self.group,
            self.action,
            self.found_by,
            order=self.order,
            trivial=self.reason,
        )

    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """What it costs to predict without what is said not to matter."""
        del generator
        return Tested(self, self.cost(bench))


@dataclass(frozen=True, eq=False)
class IgnoredPositions(Claim):
    """Some positions do not matter: any permutation of them is a symmetry.

    Args:
        positions: Which they are.
        names: Of all positions; empty before it is known what else stands.
    """

    is_trivial = True

    positions: tuple[int, ...]
    names: tuple[str, ...] = ()

    @cached_property
    def statement(self) -> Statement:
        """What is claimed, and why it is no discovery."""
        names = self.names or tuple(f"x{p}" for p in range(max(self.positions, default=0) + 1))
        listed = ", ".join(names[p] for p in self.positions)
        count = len(self.positions)
        return Statement(
            f"S({count}), positions that the target ignores",
            f"S({count})",
            f"any permutation of {listed}",
            "shuffled columns",
            order=factorial(count),
            trivial=f"the target does not depend on {listed}",
        )

    def beside(self, standing: Sequence[Claim], bench: Bench) -> Claim | None:
        """What a symmetry moves along with what matters does matter."""
        rows = bench.problem.rows
        assert isinstance(rows, TaskData)
        moved = {
            int(p)
            for claim in standing
            if isinstance(claim, PermutationClaim)
            for p in claim.group.moved()[0]
        }
        left = tuple(p for p in self.positions if p not in moved)
        n = rows.arrangement.inputs
        if len(left) < 2 or len(left) == n:
            return None
        return IgnoredPositions(left, rows.input_names or tuple(f"x{p}" for p in range(n)))

    @torch.no_grad()
    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """What it costs that values at these positions come from other rows."""
        del generator
        rows, free = bench.problem.outside, bench.free
        assert isinstance(rows, TaskData)
        a, rng = rows.arrangement, make_generator(bench.seed)
        shuffled = rows.x.clone().unflatten(1, (a.channels, a.inputs))
        for position in self.positions:
            order = torch.randperm(len(shuffled), generator=rng)
            shuffled[:, :, position] = shuffled[order][:, :, position]
        predicted = free.predict(shuffled.flatten(1))
        test = rows.cost_test(predicted, free, margin=bench.margin, level=bench.level)
        return Tested(self, test)
