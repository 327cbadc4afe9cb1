"""Continuous symmetries of a task: proposed on one part of the data, tested on another."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isotropy.discovery.claims._convolution_claim import compared
from isotropy.discovery.claims._generator_claim import GeneratorClaim, claims_of
from isotropy.discovery.modelling._continuous_model import fit_continuous_model
from isotropy.discovery.modelling._near_claims import NearClaim, StrictModel, soft_offer
from isotropy.discovery.modelling._standardised import TranslationInvariantModel, rows_for
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._smooth_predictor import smooth_predictor
from isotropy.discovery.proposing.generators._charts import combination_text
from isotropy.discovery.proposing.generators._discrete_candidates import (
    DiscreteCandidate,
    candidates_for_rows,
    coset_candidates,
)
from isotropy.discovery.proposing.generators._generator_search import (
    Blocks,
    CannotTell,
    GeneratorOptions,
    GeneratorSearch,
    column_names,
    search_generators,
)
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding, is_approximate, tested_fields
from isotropy.discovery.testing._claim_margin import margin_of
from isotropy.discovery.testing._claim_test import ClaimTest, ConfirmOptions, Loss
from isotropy.discovery.testing._confirm_action import ActionTest, confirm_action
from isotropy.discovery.testing._confirm_discrete import confirm_discrete
from isotropy.discovery.testing._data_support import DataSupport
from isotropy.discovery.testing._joint_correction import jointly_corrected
from isotropy.equivariance import equivariance_error

# a statement about a fit needs one that explains at least the rest of this
_LEARNED = 0.8
# of more blocks only neighbours are swapped: they generate all permutations
_MOST_PAIRED = 4
_ROWS_OF_ERROR = 200


@dataclass(eq=False)
class TestedClaim:
    """A claim, its test, and those of single elements beyond the connected group.

    Args:
        claim: The claim.
        action: Its test.
        parts: Reflections, swaps of blocks and the like, each with a test.
        note: Why it is not claimed, though its test stood.
    """

    claim: GeneratorClaim
    action: ActionTest
    parts: list[tuple[DiscreteCandidate, ActionTest]]
    note: str = ""

    @property
    def tests(self) -> list[ClaimTest]:
        """All that could tell something."""
        return [test.test for test in self._tests if test.testable]

    @property
    def approximate(self) -> bool:
        """Whether it has a significant cost."""
        return is_approximate(self.action.test) or not self.claim.exact

    def withdraw(self, why: str) -> None:
        """Do not claim it, though its test stood."""
        if self.action.test.confirmed:
            self.adjust([1.0] * len(self.tests))
            self.note = why

    @property
    def _tests(self) -> list[ActionTest]:
        return [self.action, *(test for _, test in self.parts)]

    def adjust(self, p_values: Sequence[float]) -> None:
        """Take over p-values that are corrected for all tests together."""
        given = iter(p_values)
        tests = [
            replace(test, test=replace(test.test, adjusted_p_value=float(next(given))))
            if test.testable
            else test
            for test in self._tests
        ]
        self.action = tests[0]
        self.parts = [(part, test) for (part, _), test in zip(self.parts, tests[1:], strict=True)]


@dataclass(eq=False)
class ContinuousClaims:
    """Continuous symmetries that one part of the data suggests, and their tests."""

    data: TaskData
    search: GeneratorSearch | None
    claims: list[GeneratorClaim]
    notes: list[str]

    @staticmethod
    def proposed(
        data: TaskData,
        find: Any,
        options: GeneratorOptions,
        *,
        blocks: Blocks | None = None,
        model: Callable[[Tensor], Tensor] | None = None,
        seed: int = 0,
    ) -> ContinuousClaims:
        """Look at some rows of the data.

        Raises:
            CannotTell: If they do not allow an answer.
        """
        search = search_generators(data.rows(find), options, blocks=blocks, model=model, seed=seed)
        outputs = data.arrangement.outputs * data.arrangement.output_channels
        claims = claims_of(search, column_names(data), outputs)
        return ContinuousClaims(data, search, claims, list(search.notes))

    @staticmethod
    def refused(data: TaskData, error: CannotTell) -> ContinuousClaims:
        """None, and why."""
        return ContinuousClaims(data, None, [], [f"continuous symmetries: {error}"])

    def tests(
        self,
        free: FreePredictor,
        fitted: TaskData,
        outside: TaskData,
        *,
        margin: float,
        level: float,
        seed: int,
    ) -> list[TestedClaim]:
        """A test of each claim, and of what goes with it beyond the connected group."""
        if not self.claims:
            return []
        given: dict[str, Any] = {
            "support": DataSupport(fitted.x),
            "constant": free.constant,
            "groups": outside.groups,
        }
        tested = []
        for claim in self.claims:
            own = margin_of(claim, free, outside, margin, seed)
            given["options"] = _confirm_options(outside, own, level)
            test = confirm_action(
                free.predict, outside.x, outside.y, claim.rows, claim.outputs, seed=seed, **given
            )
            parts = []
            if test.test.p_value <= level:
                candidates, moved = _discrete(claim, outside.x.shape[1])
                parts = confirm_discrete(
                    free.predict, outside.x, outside.y, candidates, moved, **given
                )
            tested.append(TestedClaim(claim, test, parts))
        return tested

    def near(
        self,
        tested: Sequence[TestedClaim],
        free: FreePredictor,
        fitted: TaskData,
        seen: TaskData,
        outside: TaskData,
        *,
        margin: float,
        level: float,
        seed: int,
    ) -> list[NearClaim]:
        """Claims that were not confirmed, tested with a wide margin.

        Only where none was: what is confirmed has been chosen among claims about the same columns.
        Translations and scalings have no model that can be softened.
        """
        if any(one.action.test.confirmed for one in tested):
            return []
        rest = [
            one
            for one in tested
            if one.action.testable and not one.claim.homogeneous and one.claim.scaling is None
        ]
        if not rest:
            return []
        one = rest[0]
        test = confirm_action(
            free.predict,
            outside.x,
            outside.y,
            one.claim.rows,
            one.claim.outputs,
            support=DataSupport(fitted.x),
            constant=free.constant,
            options=_confirm_options(
                outside, margin_of(one.claim, free, outside, margin, seed), level
            ),
            groups=outside.groups,
            seed=seed,
        )
        # of the two tests of a claim it is the first that tells what it costs
        cost = replace(test.test, effect=one.action.test.effect, interval=one.action.test.interval)
        return [
            NearClaim(
                cost,
                lambda adjusted: self.described(
                    replace(one, action=replace(test, test=adjusted), parts=[]), free, outside
                ),
                partial(_model_or_none, one.claim, seen, seed),
            )
        ]

    def findings(
        self,
        tested: Sequence[TestedClaim],
        free: FreePredictor,
        seen: TaskData,
        outside: TaskData,
        rival: FreePredictor | None,
        *,
        fit_models: bool,
        seed: int,
    ) -> tuple[list[Finding], list[dict[str, Any]]]:
        """What stands, and a line for each claim that was tested."""
        standing = _shown([one for one in tested if one.action.test.confirmed])
        rival = rival or free
        found = [
            self.finding(
                one, free, seen=seen, outside=outside, rival=rival, fit_models=fit_models, seed=seed
            )
            for one in standing
        ]
        lines = [
            {
                "name": one.claim.name,
                "method": "generators",
                "effect": one.action.test.effect,
                "p_value": one.action.test.adjusted_p_value,
                "confirmed": one.action.test.confirmed,
                **({"note": note} if (note := one.note or one.action.reason) else {}),
            }
            for one in tested
        ]
        return found, lines

    def finding(
        self,
        tested: TestedClaim,
        free: FreePredictor,
        *,
        seen: TaskData,
        outside: TaskData,
        rival: FreePredictor,
        fit_models: bool,
        seed: int,
    ) -> Finding:
        """The finding of a claim that stands."""
        claim = tested.claim
        finding = self.described(tested, free, outside)
        if not fit_models:
            return finding
        notes = list(finding.notes)
        if not claim.has_model:
            note = "no model: its translations cannot be taken apart from the rest"
            return replace(finding, notes=(*notes, note))
        try:
            model, spec = fit_continuous_model(claim, seen, seed=seed)
        except ValueError as error:  # hidden tensors that lead from inputs to outputs are not few
            return replace(finding, notes=(*notes, f"no model: {error}"))
        with torch.no_grad():
            predicted = model(rows_for(model, outside.x))
        notes.append(compared(predicted, rival, outside))
        finding = replace(finding, model=model, model_spec=spec, notes=tuple(notes))
        if isinstance(model, TranslationInvariantModel):
            return replace(
                finding, equivariance_error=_error_with_translations(claim, model, outside, seed)
            )
        if not finding.approximate or claim.scaling is not None:
            return finding
        return replace(finding, soft=soft_offer(model, spec, seen, outside, rival, seed=seed))

    def described(self, tested: TestedClaim, free: FreePredictor, outside: TaskData) -> Finding:
        """The finding of a test, without models."""
        assert self.search is not None
        claim, test = tested.claim, tested.action.test
        a = outside.arrangement
        notes = [f"found by the gradients of {self.search.fit.kind}"]
        left = free.share_left(outside.x, outside.y, outside.task)
        if left > test.margin:
            notes.append(
                f"the claim is about what a predictor has learned: it leaves {left:.0%}, which may "
                "be noise, or have less symmetry"
            )
        if tested.action.share < 1 - test.margin:
            notes.append(
                f"tested on {tested.action.share:.0%} of rows: others have no images in the data"
            )
        return Finding(
            name=claim.name,
            group=str(claim.symmetry.group),
            action=claim.action,
            method="generators",
            dimension=claim.dimension,
            approximate=tested.approximate,
            **tested_fields(test),
            symmetry=claim.symmetry,
            generators=claim.generators,
            metric=claim.metric,
            centre=tuple(claim.centre.tolist()) if claim.centre.any() else (),
            coordinates=claim.coordinates,
            classes=tuple(r.as_json(chosen=r is claim.result) for r in self.search.results),
            discrete=tuple(_part_as_json(part, action) for part, action in tested.parts),
            notes=tuple(notes),
            layout=RowLayout(a.channels, a.output_channels, outside.channels_first),
            input_names=outside.input_names or (),
            output_names=outside.output_names or (),
        )

    def tried(self) -> list[str]:
        """The classes of actions that were looked at, in words."""
        if self.search is None:
            return []
        looked = dict.fromkeys(result.action for result in self.search.results)
        return [f"generators of {action}" for action in looked]

    def trivial(
        self,
        free: FreePredictor,
        fitted: TaskData,
        outside: TaskData,
        *,
        margin: float,
        level: float,
        seed: int,
    ) -> list[Finding]:
        """Symmetries of a target that is linear, or looks at one combination of columns alone.

        Whether it is: a predictor of that kind must cost less than the margin, as for any claim.
        """
        search = self.search
        if search is None or search.fit.is_given or search.fit.unexplained > _LEARNED:
            return []
        names = column_names(self.data)
        n = len(names)
        if n - len(search.ignored) - len(search.along) == 1:
            row = np.eye(n)[next(i for i in range(n) if i not in search.ignored)]
            row = search.combinations[0] if len(search.combinations) else row
            text = combination_text(row, names)
            name, why = "motions along which the target does not change", f"depends on {text} alone"
            along = torch.as_tensor(row)[:, None]
            one_column = replace(fitted.arrangement, inputs=1, channels=1)
            narrow = replace(fitted, x=fitted.x @ along, arrangement=one_column, input_names=None)
            plain = smooth_predictor(narrow, seed)
            predicted = plain.predict(outside.x @ along)
        elif search.fit.is_linear:
            name, why = "linear motions of a linear target", "is linear in the inputs"
            predicted = _linear_prediction(fitted, outside.x)
        else:
            return []
        test = outside.cost_test(predicted, free, margin=margin, level=level)
        if not test.confirmed:
            return []
        return [
            Finding(
                name=name,
                group=f"Trivial({n})",
                action="any motion that the target does not see",
                method="gradients",
                **tested_fields(test),
                trivial=f"the target {why}",
            )
        ]


def corrected(tests: Sequence[ClaimTest], moved: Sequence[TestedClaim]) -> list[ClaimTest]:
    """Tests of other claims, corrected together with those of continuous symmetries."""
    every = jointly_corrected([*tests, *(test for one in moved for test in one.tests)])
    left = iter(every[len(tests) :])
    for one in moved:
        one.adjust([next(left).adjusted_p_value for _ in one.tests])
    return every[: len(tests)]


def _confirm_options(outside: TaskData, margin: float, level: float) -> ConfirmOptions:
    loss: Loss = "squared" if outside.task == "regression" else "cross-entropy"
    # claim_test asks for a margin above nothing
    return ConfirmOptions(loss=loss, margin=max(margin, 1e-9), level=level)


def _linear_prediction(fitted: TaskData, x: Tensor) -> Tensor:
    """Least squares on some rows, evaluated at others."""
    padded = [torch.cat([rows, torch.ones_like(rows[:, :1])], 1) for rows in (fitted.x, x)]
    weights = torch.linalg.lstsq(padded[0], fitted.y, driver="gelsd").solution
    predicted: Tensor = padded[1] @ weights
    return predicted


def _error_with_translations(
    claim: GeneratorClaim, model: nn.Module, outside: TaskData, seed: int
) -> float | None:
    """The largest relative error over elements of a group with translations."""
    try:
        error = equivariance_error(
            lambda wide: model(rows_for(model, claim.narrow(wide))).double(),
            claim.wide(outside.x[:_ROWS_OF_ERROR]),
            claim.symmetry,
            generator=seed,
        )
    except ValueError:  # an element that takes rows too far away
        return None
    return error if math.isfinite(error) else None


def _model_or_none(claim: GeneratorClaim, seen: TaskData, seed: int) -> StrictModel | None:
    try:
        model, spec = fit_continuous_model(claim, seen, seed=seed)
    except ValueError:  # hidden tensors that lead from inputs to outputs are not few
        return None
    return None if isinstance(model, TranslationInvariantModel) else (model, spec)


def _shown(standing: list[TestedClaim]) -> list[TestedClaim]:
    """The first exact claim that stands, what approximately holds beyond it, and translations.

    A group in the user's own coordinates comes before one in a basis that was fitted.
    """
    exact = [one for one in standing if one.claim.result is not None and one.claim.exact]
    exact.sort(key=lambda one: one.claim.is_hidden)
    return [one for one in standing if one in exact[:1] or one not in exact]


def _discrete(claim: GeneratorClaim, n: int) -> tuple[list[DiscreteCandidate], list[Tensor | None]]:
    """Single elements to try with a claim, on rows, and what they do to outputs."""
    result = claim.result
    columns = None if result is None else result.chart.columns
    if result is None or result.snapped is None or columns is None:
        return [], []
    found = result.snapped
    d = len(columns[0])
    small = coset_candidates(
        found.generators, found.expression, found.change, homogeneous=result.affine
    )
    rows = candidates_for_rows(small, columns, n)
    if len(columns) > _MOST_PAIRED:
        swaps = [f"swap of blocks {i} and {i + 1}" for i in range(1, len(columns))]
        rows = rows[: len(small)] + [c for c in rows[len(small) :] if c.name in swaps]
    moved: list[Tensor | None] = [None] * len(rows)
    if claim.outputs is not None:
        for at, candidate in enumerate(small):
            h = candidate.matrix[:d, :d].double()
            copies = len(claim.outputs[0]) // d
            moved[at] = (
                torch.kron(h, h)
                if result.output == "matrix"
                else torch.kron(torch.eye(copies, dtype=torch.float64), h)
            )
    return rows, moved


def _part_as_json(part: DiscreteCandidate, action: ActionTest) -> dict[str, Any]:
    return {
        "name": part.name,
        "holds": action.test.confirmed,
        "testable": action.testable,
        "p_value": action.test.adjusted_p_value,
        "effect": None if math.isnan(action.test.effect) else action.test.effect,
        "note": action.reason,
    }
