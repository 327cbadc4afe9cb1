"""A proposed symmetry of positions, named and tested, and the finding that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy._run import spawn
from isotropy.discovery.claims._convolution_claim import compared
from isotropy.discovery.modelling._near_claims import NearClaim, soft_offer
from isotropy.discovery.modelling._standardised import StandardisedModel
from isotropy.discovery.modelling._symmetric_model import fit_symmetric_model
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._share_of_columns import share_of_columns
from isotropy.discovery.proposing.permutations._proposals import GroupProposal, Proposals
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding, is_approximate, tested_fields
from isotropy.discovery.testing._average_test import average_test
from isotropy.discovery.testing._claim_test import ClaimTest
from isotropy.discovery.testing._joint_correction import jointly_corrected
from isotropy.naming._naming import SharingName, name_permutations
from isotropy.naming._pair_group import PairGroup
from isotropy.naming._position_words import in_column_names
from isotropy.reps import Symmetry

# a soft model has copies of the input inside: what breaks a symmetry moves these apart
_WIDTH, _FEWEST, _MOST = 256, 4, 16
_MOST_NEAR = 2
# elements that are averaged over, and rows that claims are tested on
_ELEMENTS, _MOST_ROWS = 64, 1500


@dataclass(eq=False)
class PermutationClaim:
    """A proposed symmetry, named, and its test.

    Args:
        proposal: The symmetry.
        name: What it is called.
        symmetry: The group and its actions.
        layout: How data are laid out.
        test: Its test; None before there is one.
        note: Why it is not claimed, though its test stood.
        averages: What the free predictor, averaged over the group, says of the rows of the test.
    """

    proposal: GroupProposal
    name: SharingName
    symmetry: Symmetry
    layout: RowLayout
    test: ClaimTest | None = None
    note: str = ""
    averages: Tensor | None = None

    @staticmethod
    def of(proposal: GroupProposal, data: TaskData) -> PermutationClaim:
        """Name a proposal."""
        name = name_permutations(
            proposal.group, input_names=data.input_names, output_names=data.output_names
        )
        if data.input_names is not None:
            name = replace(name, name=in_column_names(name.name, data.input_names))
        named = name.symmetry
        assert named is not None
        a = data.arrangement
        return PermutationClaim(
            proposal,
            name,
            Symmetry(named.group, a.channels * named.rep_in, a.output_channels * named.rep_out),
            RowLayout(a.channels, a.output_channels, data.channels_first),
        )

    @property
    def group(self) -> PairGroup:
        """The permutations."""
        return self.proposal.group

    @property
    def confirmed(self) -> bool:
        """Whether its test stands."""
        return self.test is not None and self.test.confirmed

    @property
    def approximate(self) -> bool:
        """Whether it has a significant cost."""
        return self.test is not None and is_approximate(self.test)

    @property
    def is_named(self) -> bool:
        """Whether its group has a name, and not only an order."""
        return not self.name.name.startswith("permutation group")

    @property
    def moves_outputs_alone(self) -> bool:
        """Whether it says no more than that some outputs are equal."""
        return not len(self.group.moved()[0])

    def withdraw(self, why: str) -> None:
        """Do not claim it, though its test stood."""
        if self.test is not None:
            self.test, self.note = replace(self.test, adjusted_p_value=1.0), why

    def is_within(self, other: PermutationClaim) -> bool:
        """Whether another group is larger and contains this one."""
        return other.group.order > self.group.order and other.group.contains(self.group)

    def finding(
        self,
        proposals: Proposals,
        seen: TaskData,
        outside: TaskData,
        free: FreePredictor,
        fit_models: bool,
        seed: int,
    ) -> Finding:
        """What is reported where the test stands; with a soft model where it costs something."""
        assert self.test is not None
        finding = self.described(self.test, outside, proposals.labels)
        if not fit_models:
            return finding
        model, spec = self.fit(seen, free, seed=seed, softened=finding.approximate)
        with torch.no_grad():
            predicted = model(outside.x.to(model.x_mean))
        finding = replace(
            finding, model=model, model_spec=spec, notes=(compared(predicted, free, outside),)
        )
        if not finding.approximate:
            return finding
        return replace(finding, soft=soft_offer(model, spec, seen, outside, free, seed=seed))

    def described(
        self, test: ClaimTest, data: TaskData, labels: NDArray[np.int64] | None = None
    ) -> Finding:
        """The finding of a test, without models."""
        return Finding(
            name=self.name.name,
            group=str(self.symmetry.group),
            action=self.name.action,
            method=self.proposal.method,
            order=self.group.order,
            approximate=is_approximate(test),
            **tested_fields(test),
            symmetry=self.symmetry,
            custom=self.name.custom,
            layout=self.layout,
            labels=labels,
            input_names=data.input_names or (),
            output_names=data.output_names or (),
        )

    def fit(
        self, seen: TaskData, free: FreePredictor, *, seed: int, softened: bool
    ) -> tuple[StandardisedModel, dict[str, Any]]:
        """A model that has the symmetry."""
        hidden: dict[str, Any] = {}
        if softened:
            copies = min(max(_WIDTH // self.symmetry.group.d, _FEWEST), _MOST)
            hidden["channels"] = f"{copies}*V+{_MOST}*Scalar"
        return fit_symmetric_model(
            self.symmetry,
            seen.x,
            seen.y,
            seen.task,
            linear=free.kind == "linear",
            groups=seen.groups,
            seed=seed,
            **hidden,
        )


def rows_to_test(outside: TaskData, seed: int) -> TaskData:
    """The rows that claims are tested on: some of many."""
    if len(outside.x) <= _MOST_ROWS:
        return outside
    kept = torch.randperm(len(outside.x), generator=make_generator(seed))[:_MOST_ROWS]
    return outside.rows(kept.sort().values.numpy())


def confirm_permutations(
    claims: Sequence[PermutationClaim],
    free: FreePredictor,
    outside: TaskData,
    *,
    margin: float,
    level: float,
    seed: int,
) -> list[ClaimTest]:
    """A test of each claim, corrected for all of them together.

    Averaging over a group of k elements costs a function that has nothing to do with it the share
    1 − 1/k of what can be learned from the positions that it moves: the margin is so much smaller
    for small groups, and for those that move what hardly matters.
    """
    outside = rows_to_test(outside, seed)
    a = outside.arrangement
    tests = []
    with torch.no_grad():
        predicted = free.predict(outside.x)
        shares = [_share_of_moved(claim.group, free, outside) for claim in claims]
        generators = spawn(make_generator(seed), len(claims))
        for claim, share, rng in zip(claims, shares, generators, strict=True):
            claim.averages = claim.group.averages(
                free.predict,
                outside.x,
                a.channels,
                a.output_channels,
                elements=_ELEMENTS,
                generator=rng,
            )
            tests.append(
                average_test(
                    predicted,
                    claim.averages,
                    outside.y,
                    outside.task,
                    constant=free.constant,
                    margin=max(margin * (1 - 1 / claim.group.order) * share, 1e-9),
                    level=level,
                    groups=outside.groups,
                )
            )
    return jointly_corrected(tests)


def _share_of_moved(group: PairGroup, free: FreePredictor, rows: TaskData) -> float:
    """What the positions that a group moves do for the target."""
    columns = np.zeros((rows.arrangement.channels, rows.arrangement.inputs), dtype=bool)
    columns[:, group.moved()[0]] = True
    return share_of_columns(free, rows, columns.ravel()) if columns.any() else 1.0


def near_permutations(
    proposals: Proposals,
    claims: Sequence[PermutationClaim],
    data: TaskData,
    free: FreePredictor,
    seen: TaskData,
    outside: TaskData,
    *,
    margin: float,
    level: float,
    seed: int,
) -> list[NearClaim]:
    """Groups that may hold approximately: those screened, and claims that were not confirmed."""
    sure = [claim for claim in claims if claim.confirmed]
    screened = [PermutationClaim.of(proposal, data) for proposal in proposals.near]
    chosen = [c for c in screened if not any(s.group.contains(c.group) for s in sure)]
    for claim in claims:
        related = any(
            other.group.contains(claim.group) or claim.group.contains(other.group)
            for other in (*sure, *chosen)
        )
        if not related:
            chosen.append(claim)
    chosen = chosen[:_MOST_NEAR]
    tests = confirm_permutations(chosen, free, outside, margin=margin, level=level, seed=seed)
    return [
        NearClaim(
            test,
            partial(claim.described, data=outside),
            partial(claim.fit, seen, free, seed=seed, softened=True),
        )
        for claim, test in zip(chosen, tests, strict=True)
    ]


def tried_line(
    name: SharingName, method: str, chance: float, test: ClaimTest | None, note: str = ""
) -> dict[str, Any]:
    """A claim that was tested, as a line of what was tried."""
    assert test is not None
    return {
        "name": name.name,
        "method": method,
        "chance": chance,
        "effect": test.effect,
        "p_value": test.adjusted_p_value,
        "confirmed": test.confirmed,
        **({"note": note} if note else {}),
    }
