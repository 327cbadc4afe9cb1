"""A proposed symmetry of positions: named, tested by averaging, joined with others, modelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import Patience
from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import Claim, FittedModel, uncovered
from isotropy.discovery.claims._statement import Statement, WeightDetails
from isotropy.discovery.modelling._finding_models import error_of_model, moved_rows
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._symmetric_model import fit_symmetric_model
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._share_of_columns import share_of_columns
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._average_test import average_test, without_dearer
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._confirm_action import untested
from isotropy.discovery.testing._tested import Tested
from isotropy.discovery.testing._testing_thresholds import TestingThresholds
from isotropy.naming._naming import SharingName, name_permutations
from isotropy.naming._pair_group import PairGroup
from isotropy.naming._position_words import in_column_names
from isotropy.reps import Symmetry


@dataclass(frozen=True, eq=False)
class GroupProposal:
    """A group of permutations to be tested.

    Args:
        group: The permutations.
        method: How it was come by.
        chance: A bound on the probability of such a symmetry by coincidence.
        cost: What it costs a predictor of the first part, as a share of what can be learned.
        limit: The largest cost on rows held out that no coincidence explains; zero where any may
            be one, and the group is worth a soft model at most.
    """

    group: PairGroup
    method: str
    chance: float
    cost: float = 0.0
    limit: float = 1.0


@dataclass(frozen=True, eq=False)
class PermutationClaim(Claim):
    """A group that permutes positions of the input, and perhaps those of the output with them.

    Args:
        proposal: The permutations, and how they were come by.
        data: How rows are laid out, and what columns are called.
        labels: Which linear coefficients are equal, where that is known.
    """

    proposal: GroupProposal
    data: TaskData
    labels: NDArray[np.int64] | None = None

    @property
    def group(self) -> PairGroup:
        """The permutations."""
        return self.proposal.group

    @property
    def chance(self) -> float:  # type: ignore[override]
        """A bound on the probability of such a symmetry by coincidence."""
        return self.proposal.chance

    @cached_property
    def name(self) -> SharingName:
        """What the group is called."""
        names = {"input_names": self.data.input_names, "output_names": self.data.output_names}
        name = name_permutations(self.group, **names)
        if self.data.input_names is None:
            return name
        return replace(name, name=in_column_names(name.name, self.data.input_names))

    @cached_property
    def symmetry(self) -> Symmetry:
        """The group and its actions on rows."""
        named, a = self.name.symmetry, self.data.arrangement
        assert named is not None
        return Symmetry(named.group, a.channels * named.rep_in, a.output_channels * named.rep_out)

    @cached_property
    def statement(self) -> Statement:
        """What is claimed."""
        return Statement(
            name=self.name.name,
            group=str(self.symmetry.group),
            action=self.name.action,
            method=self.proposal.method,
            order=self.group.order,
            symmetry=self.symmetry,
            custom=self.name.custom,
            layout=self.data.layout,
            input_names=self.data.input_names or (),
            output_names=self.data.output_names or (),
            # it says no more than that some outputs are equal
            trivial="" if len(self.group.moved()[0]) else "columns of the target are equal",
            details=WeightDetails(self.labels),
        )

    @property
    def is_named(self) -> bool:
        """Whether its group has a name, and not only an order."""
        return not self.name.name.startswith("permutation group")

    def is_within(self, other: Claim) -> bool:
        """Whether another group is larger and contains this one."""
        if not isinstance(other, PermutationClaim):
            return other.contains_permutations(self.group)
        return other.group.order > self.group.order and other.group.contains(self.group)

    def contains_permutations(self, group: PairGroup) -> bool:
        """Whether another group of permutations is part of this one."""
        return self.group.contains(group)

    @torch.no_grad()
    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """What averaging the free predictor over the group costs.

        Averaging over a group of k elements costs a function that has nothing to do with it the
        share 1 − 1/k of what can be learned from the positions that it moves: the margin is so much
        smaller for small groups, and for those that move what hardly matters. Nor is it larger
        than what no coincidence explains.
        """
        free, rows = bench.free, bench.some_rows
        a = rows.arrangement
        if not (bench.is_wide or self.proposal.limit):
            why = "it costs too much on the first part, or may be a coincidence"
            return Tested(self, untested(bench.margin, bench.level), why)
        predicted = bench.once("predicted some rows", lambda: free.predict(rows.x))
        averages = self.group.averages(
            free.predict,
            rows.x,
            a.channels,
            a.output_channels,
            elements=TestingThresholds.now().elements,
            generator=generator,
        )
        share = _share_of_moved(self.group, free, rows)
        own = bench.margin * (1 - 1 / self.group.order) * share
        test = average_test(
            predicted,
            averages,
            rows.y,
            rows.task,
            constant=free.constant,
            margin=max(own if bench.is_wide else min(own, self.proposal.limit), 1e-9),
            level=bench.level,
            groups=rows.groups,
        )
        return Tested(self, test, averages=averages)

    @classmethod
    def chosen(
        cls, own: Sequence[Tested], beside: Sequence[Tested], bench: Bench, patience: Patience
    ) -> list[Tested]:
        """Exact groups before larger ones that cost something; what two generate in their place."""
        from isotropy.discovery.testing._joined_groups import held_against_subgroups, joined_groups

        del beside
        found = uncovered(without_dearer(own, bench))
        joined = patience.attempt("joining groups", lambda: joined_groups(found, bench))
        found = found if joined is None else joined
        if not bench.with_networks:
            return found
        held = patience.attempt(
            "holding groups against smaller ones", lambda: held_against_subgroups(found, bench)
        )
        return found if held is None else held

    @classmethod
    def promising(cls, own: Sequence[Tested]) -> list[Tested]:
        """The groups that cost too much when they were proposed, then others beside them."""
        first = [one for one in own if _claim(one).proposal.chance >= 1]
        kept: list[Tested] = list(first)
        for one in own:
            group = _claim(one).group
            if not any(
                other.claim.contains_permutations(group) or group.contains(_claim(other).group)
                for other in kept
            ):
                kept.append(one)
        return kept[: TestingThresholds.now().most_near]

    def generated_with(self, other: PermutationClaim) -> PermutationClaim:
        """What this group and another generate."""
        generators = (*self.group.generators, *other.group.generators)
        group = PairGroup(generators, self.group.inputs, self.group.outputs)
        proposal = GroupProposal(
            group,
            f"{self.proposal.method}, joined",
            max(self.proposal.chance, other.proposal.chance),
            limit=min(self.proposal.limit, other.proposal.limit),
        )
        return replace(self, proposal=proposal)

    def fit(self, rows: TaskData, free: FreePredictor, seed: int, *, softened: bool) -> FittedModel:
        """A linear layer where one does, else an EMLP."""
        limits = ModellingThresholds.now()
        hidden: dict[str, Any] = {}
        if softened:
            copies = min(
                max(
                    limits.softened_width // self.symmetry.group.d,
                    limits.fewest_copies,
                ),
                limits.most_copies,
            )
            hidden["channels"] = f"{copies}*V+{limits.most_copies}*Scalar"
        return fit_symmetric_model(
            self.symmetry,
            rows.x,
            rows.y,
            rows.task,
            linear=free.is_linear,
            groups=rows.groups,
            seed=seed,
            **hidden,
        )

    @property
    def can_be_softened(self) -> bool:
        """Every model of permutations can."""
        return True

    def equivariance_error(self, model: Any, rows: TaskData, seed: int) -> float | None:
        """The largest relative error over elements of the group."""
        return error_of_model(model, rows.x, self.symmetry, seed)

    def examples(self, rows: TaskData, seed: int) -> NDArray[np.float64] | None:
        """Rows of sequences, and what a few permutations make of them; None for others."""
        return moved_rows(self.symmetry, self.data.layout, rows, seed)


def _claim(tested: Tested) -> PermutationClaim:
    assert isinstance(tested.claim, PermutationClaim)
    return tested.claim


def _share_of_moved(group: PairGroup, free: FreePredictor, rows: TaskData) -> float:
    """What the positions that a group moves do for the target."""
    columns = np.zeros((rows.arrangement.channels, rows.arrangement.inputs), dtype=bool)
    columns[:, group.moved()[0]] = True
    return share_of_columns(free, rows, columns.ravel()) if columns.any() else 1.0


def averaged_predictions(claim: PermutationClaim, bench: Bench) -> torch.Tensor:
    """What the free predictor says of all rows held out, averaged over a group."""
    rows = bench.problem.outside
    assert isinstance(rows, TaskData)
    return claim.group.averages(
        bench.free.predict,
        rows.x,
        rows.arrangement.channels,
        rows.arrangement.output_channels,
        elements=TestingThresholds.now().elements,
        generator=make_generator(bench.seed),
    ).mean(0)
