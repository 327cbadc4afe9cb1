"""A continuous symmetry as a claim: tested along orbits, modelled by an EMLP of what is left."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from isotropy._run import Patience
from isotropy.discovery.claims._claim import Claim, FittedModel, NoModel
from isotropy.discovery.claims._statement import ContinuousDetails, Statement
from isotropy.discovery.modelling._finding_models import error_of_model
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.modelling._standardised import TranslationInvariantModel, rows_for
from isotropy.discovery.modelling._symmetric_model import fit_continuous_model
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._share_of_columns import share_of_columns
from isotropy.discovery.proposing.generators._charts import Array
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ConfirmOptions, Loss
from isotropy.discovery.testing._confirm_action import (
    confirm_action,
    confirm_discrete,
    element_candidates,
)
from isotropy.discovery.testing._tested import ElementTest, Tested
from isotropy.discovery.testing._testing_thresholds import TestingThresholds
from isotropy.equivariance import equivariance_error
from isotropy.naming._pair_group import PairGroup
from isotropy.reps import Symmetry

if TYPE_CHECKING:
    from isotropy.discovery.proposing.generators._algebras import ClassResult
    from isotropy.discovery.proposing.generators._group_parts import ScalingPart, Translations


@dataclass(frozen=True, eq=False)
class GeneratorClaim(Claim):
    """A continuous symmetry to be tested.

    Args:
        name: In prose.
        action: How it acts, in a phrase.
        rows: Generators on whole inputs, [A | b], ``(D, n, n + 1)``, in the user's units.
        outputs: Those on outputs, ``(D, m, m)``; ``None`` where outputs stay.
        generators: As they act on ``coordinates``, ``(D, d, d)``, with a last coordinate that is
            always 1 where there are translations.
        metric: The invariant symmetric form on coordinates, where there is one that is not
            degenerate.
        coordinates: The names of what moves.
        symmetry: The group and its actions.
        homogeneous: Whether there are translations: the symmetry acts on each block with a 1
            behind it, and on the other columns after them.
        centre: Subtracted from inputs before the symmetry acts, ``(n,)``.
        result: The class of actions it comes from; ``None`` for translations along combinations.
        data: How rows are laid out, and what columns are called.
        looked_at: Every class of actions that was looked at.
        fitted: What kind of function was looked at.
        scaling: The scaling of all blocks, where it is in the group.
        translations: Those in the group, and what it does beside them, where a model can have both.
        exact: Whether noise explains all that it leaves.
    """

    wants_smooth = True

    name: str
    action: str
    rows: Array
    outputs: Array | None
    generators: Array
    metric: Array | None
    coordinates: tuple[str, ...]
    symmetry: Symmetry
    homogeneous: bool
    centre: Array
    result: ClassResult | None
    data: TaskData
    looked_at: tuple[ClassResult, ...] = ()
    fitted: str = ""
    scaling: ScalingPart | None = None
    translations: Translations | None = None
    exact: bool = True

    @property
    def is_hidden(self) -> bool:
        """Whether it acts in a basis that was fitted, and not in the user's own."""
        return self.result is not None and "hidden" in self.result.detail

    @property
    def has_model(self) -> bool:
        """Whether there are networks that have it."""
        return not self.homogeneous or self.translations is not None

    @property
    def can_be_softened(self) -> bool:
        """Translations and scalings have no model that can."""
        return not self.homogeneous and self.scaling is None

    @cached_property
    def statement(self) -> Statement:
        """What is claimed."""
        return Statement(
            name=self.name,
            group=str(self.symmetry.group),
            action=self.action,
            method="generators",
            dimension=len(self.rows),
            symmetry=self.symmetry,
            layout=self.data.layout,
            input_names=self.data.input_names or (),
            output_names=self.data.output_names or (),
            details=self._details(),
        )

    def _details(self, elements: Sequence[ElementTest] = ()) -> ContinuousDetails:
        return ContinuousDetails(
            self.generators,
            self.metric,
            tuple(self.centre.tolist()) if self.centre.any() else (),
            self.coordinates,
            self.rows,
            self.outputs,
            tuple(one.as_json(chosen=one is self.result) for one in self.looked_at),
            tuple(map(_element_as_json, elements)),
        )

    def stated(self, tested: Tested, bench: Bench) -> Statement:
        """The statement, with the elements that were tested beyond the connected group."""
        del bench
        return replace(self.statement, details=self._details(tested.elements))

    # --- testing --------------------------------------------------------------------------------

    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """What the mean over orbits costs, where there are data; and elements beyond the group."""
        del generator
        rows, free = bench.problem.outside, bench.smooth_one
        assert isinstance(rows, TaskData)
        loss: Loss = "squared" if rows.task == "regression" else "cross-entropy"
        margin = max(self._margin(bench, rows), 1e-9)  # claim_test asks for one above nothing
        given: dict[str, Any] = {
            "support": bench.support(),
            "constant": free.constant,
            "groups": rows.groups,
            "options": ConfirmOptions(loss=loss, margin=margin, level=bench.level),
        }
        action = confirm_action(
            free.predict, rows.x, rows.y, self.rows, self.outputs, seed=bench.seed, **given
        )
        elements: tuple[ElementTest, ...] = ()
        if action.test.p_value <= bench.level:
            candidates, moved = element_candidates(self, rows.x.shape[1])
            several = confirm_discrete(free.predict, rows.x, rows.y, candidates, moved, **given)
            elements = tuple(
                ElementTest(one.name, one.matrix, found.test, found.reason)
                for one, found in several
            )
        return Tested(self, action.test, action.reason, elements=elements, share=action.share)

    def _margin(self, bench: Bench, rows: TaskData) -> float:
        """The largest cost that still counts as a symmetry.

        A motion of columns that hardly matter costs next to nothing, whatever it is. So the margin
        is a share of what these columns do (``share_of_columns``). Where neither names nor the
        shape of the data suggest the blocks that move, it is less than half of that: there are many
        ways to cut columns into blocks, and some direction in one of them matters little. So there
        are to choose a basis: in some, whatever is almost quadratic is almost a squared length.
        """
        moved = np.abs(self.rows).max((0, 2)) > 1e-9
        share = share_of_columns(bench.smooth_one, rows, moved, bench.seed)
        chart = None if self.result is None else self.result.chart
        arbitrary = chart is not None and len(chart.blocks) > 1 and not chart.suggested
        arbitrary = arbitrary or self.is_hidden
        return bench.margin * share * (TestingThresholds.now().arbitrary if arbitrary else 1.0)

    @classmethod
    def chosen(
        cls, own: Sequence[Tested], beside: Sequence[Tested], bench: Bench, patience: Patience
    ) -> list[Tested]:
        """Those that say something; the first exact one, what holds beyond it, and translations.

        - Where positions are a ring, neighbours are no vector, unless the user says so.
        - Of what is linear as far as a predictor has learned it, motions say nothing: each linear
          function has many.
        - Every quadratic form has an SO(p, q) in a basis of its own.
        - What is approximate is not claimed beside what holds exactly.
        - A group in the user's own coordinates comes before one in a basis that was fitted.
        """
        del patience
        found = [_without_sense(one, beside, bench) for one in own]
        exact = any(
            one.reported and one.claim.is_named and not one.approximate for one in beside
        ) or any(one.confirmed and not one.approximate for one in found)
        if exact:
            why = "it is approximate, and others hold exactly"
            found = [one.withdrawn(why) if one.approximate else one for one in found]
        standing = [
            one for one in found if one.confirmed and one.claim.exact and _claim(one).result
        ]
        standing.sort(key=lambda one: _claim(one).is_hidden)
        return [
            replace(one, covered=True) if any(one is other for other in standing[1:]) else one
            for one in found
        ]

    # --- modelling ------------------------------------------------------------------------------

    def fit(self, rows: TaskData, free: FreePredictor, seed: int, *, softened: bool) -> FittedModel:
        """An EMLP in units that commute with the group."""
        del free, softened
        if not self.has_model:
            raise NoModel("its translations cannot be taken apart from the rest")
        try:
            return fit_continuous_model(self, rows, seed=seed)
        except ValueError as error:  # hidden tensors that lead from inputs to outputs are not few
            raise NoModel(str(error)) from error

    def rival(self, rows: TaskData, bench: Bench) -> FreePredictor:
        """The best smooth predictor."""
        return bench.smooth_of(rows)

    def equivariance_error(self, model: nn.Module, rows: TaskData, seed: int) -> float | None:
        """The largest relative error over elements of the group."""
        if not isinstance(model, TranslationInvariantModel):
            return error_of_model(model, rows.x, self.symmetry, seed, self.centre)
        try:
            error = equivariance_error(
                lambda wide: model(rows_for(model, self.narrow(wide))).double(),
                self.wide(rows.x[: ModellingThresholds.now().rows_of_error]),
                self.symmetry,
                generator=seed,
            )
        except ValueError:  # an element that takes rows too far away
            return None
        return error if math.isfinite(error) else None

    def notes(self, tested: Tested, bench: Bench) -> tuple[str, ...]:
        """What was looked at, and what the claim is about."""
        rows = bench.problem.outside
        assert isinstance(rows, TaskData)
        left = bench.smooth_one.share_left(rows.x, rows.y, rows.task)
        found = [f"found by the gradients of {self.fitted}"]
        if left > tested.test.margin:
            found.append(
                f"the claim is about what a predictor has learned: it leaves {left:.0%}, which may "
                "be noise, or have less symmetry"
            )
        if tested.share < 1 - tested.test.margin:
            found.append(f"tested on {tested.share:.0%} of rows: others have no images in the data")
        return tuple(found)

    # --- rows with a 1 behind each block --------------------------------------------------------

    def wide(self, x: Tensor) -> Tensor:
        """Rows as a symmetry with translations acts on them: 1 behind each block, then the rest."""
        ones = torch.ones_like(x[:, :1])
        parts: list[Tensor] = []
        for block in self._blocks(x.shape[1]):
            parts += [x[:, list(block)], ones]
        return torch.cat([*parts, x[:, self._others(x.shape[1])]], 1)

    def narrow(self, wide: Tensor) -> Tensor:
        """Rows of the data, from what ``wide`` makes of them."""
        n = len(self.centre)
        x, at = torch.empty(len(wide), n, dtype=wide.dtype), 0
        for block in self._blocks(n):
            x[:, list(block)] = wide[:, at : at + len(block)]
            at += len(block) + 1
        x[:, self._others(n)] = wide[:, at:]
        return x

    def _blocks(self, n: int) -> tuple[tuple[int, ...], ...]:
        columns = None if self.result is None else self.result.chart.columns
        return (tuple(range(n)),) if columns is None else columns

    def _others(self, n: int) -> list[int]:
        moved = {column for block in self._blocks(n) for column in block}
        return [column for column in range(n) if column not in moved]


def _claim(tested: Tested) -> GeneratorClaim:
    assert isinstance(tested.claim, GeneratorClaim)
    return tested.claim


def _without_sense(one: Tested, beside: Sequence[Tested], bench: Bench) -> Tested:
    """A claim that stands, withdrawn where it says nothing."""
    result, smooth = _claim(one).result, bench.smooth_one
    blocks = result is not None and len(result.chart.blocks) > 1 and not result.chart.suggested
    if blocks and _has_ring(beside, bench):
        return one.withdrawn("positions are a ring, of which neighbours are no vectors")
    if smooth.is_linear:
        return one.withdrawn("the target is linear in the columns, and has many such motions")
    if smooth.is_quadratic and _claim(one).is_hidden:
        return one.withdrawn("the target is quadratic, and every quadratic form has such a group")
    return one


def _has_ring(beside: Sequence[Tested], bench: Bench) -> bool:
    """Whether positions may be shifted."""
    rows = bench.problem.rows
    assert isinstance(rows, TaskData)
    a = rows.arrangement
    if a.inputs < TestingThresholds.now().fewest_of_ring:
        return False
    stay, shift = np.arange(a.outputs), np.roll(np.arange(a.inputs), -1)
    rings = [PairGroup(((shift, stay),), a.inputs, a.outputs)]
    if a.inputs == a.outputs:
        rings.append(PairGroup(((shift, shift),), a.inputs, a.outputs))
    return any(
        one.reported and one.claim.contains_permutations(ring) for one in beside for ring in rings
    )


def _element_as_json(element: ElementTest) -> dict[str, Any]:
    test, holds = element.test, element.test.confirmed
    return {
        "name": element.name,
        "holds": holds,
        "testable": not element.reason,
        "p_value": test.adjusted_p_value,
        "effect": None if math.isnan(test.effect) else test.effect,
        "note": element.reason,
        **({"matrix": element.matrix.tolist()} if holds else {}),
    }
