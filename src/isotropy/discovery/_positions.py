"""Vectors, blocks of them, sequences and sets: permutations and continuous symmetries."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from torch import nn

from isotropy._run import Patience, ProgressCallback, Step
from isotropy.discovery.claims._permutation_claim import (
    PermutationClaim,
    confirm_permutations,
    near_permutations,
    tried_line,
)
from isotropy.discovery.modelling._continuous_model import fit_continuous_model
from isotropy.discovery.modelling._near_claims import NearClaim, offered, standing
from isotropy.discovery.modelling._worth import Refit, with_curve, with_worth
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._predictor_notes import predictor_notes
from isotropy.discovery.predictors._smooth_predictor import smooth_predictor
from isotropy.discovery.proposing.generators._continuous import (
    ContinuousClaims,
    TestedClaim,
    corrected,
)
from isotropy.discovery.proposing.generators._generator_search import (
    Blocks,
    CannotTell,
    GeneratorOptions,
)
from isotropy.discovery.proposing.permutations._ignored_positions import ignored_positions
from isotropy.discovery.proposing.permutations._proposals import (
    GroupProposal,
    Proposals,
    largest,
    propose,
)
from isotropy.discovery.reading._splits import three_way_split
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding
from isotropy.discovery.telling._findings import Findings
from isotropy.discovery.testing._beside_permutations import leave_out
from isotropy.discovery.testing._claim_test import ClaimTest
from isotropy.discovery.testing._confirmed_groups import ConfirmedGroups
from isotropy.naming._pair_group import PairGroup

# a predictor of the other kind is taken where it leaves so much less
_BETTER = 1.05
# shares of a budget by whose end proposals, continuous ones, tests and models are to be there
_PROPOSED, _MOVED, _TESTED = 0.35, 0.6, 0.8
_STAGES = 6
_CURVE_IN_TIME = 60.0  # seconds of a search before its curve; a slow one does without


@dataclass(frozen=True)
class PositionOptions:
    """What to look for, and how sure to be."""

    permuting: bool = True
    moving: bool = True
    candidates: Sequence[str] = ()
    blocks: Blocks | None = None
    margin: float = 0.05
    near_margin: float = 0.0
    level: float = 0.05
    fit_models: bool = True
    seed: int = 0


class PositionSearch:
    """One search, in stages: propose, fit, confirm, fit models. It can stop after any of them."""

    def __init__(
        self,
        data: TaskData,
        options: PositionOptions,
        patience: Patience,
        progress: ProgressCallback | None = None,
    ) -> None:
        self.data, self.options, self.patience = data, options, patience
        self._progress = patience.watched(progress)
        self._at = 0
        split = three_way_split(len(data.x), seed=options.seed, groups=data.groups)
        self._split = split
        self._fitted, self._outside = data.rows(split[1]), data.rows(split[2])
        self._seen = data.rows(np.concatenate(split[:2]))
        self._proposals = Proposals((), (), None, ())
        self._continuous: ContinuousClaims | None = None
        self._claims: list[PermutationClaim] = []
        self._equal: list[PermutationClaim] = []
        self._tests: list[ClaimTest] = []
        self._moved: list[TestedClaim] = []
        self._lines: list[dict[str, Any]] = []
        self._free: FreePredictor | None = None
        self._smooth: FreePredictor | None = None
        self._refits: dict[int, Refit] = {}

    def findings(self) -> Findings:
        """Do all of it, or what there is time for."""
        attempt, options = self.patience.attempt, self.options
        if options.permuting:
            self._stage("proposing permutations")
            so_far: list[GroupProposal] = []
            work = partial(self._propose, so_far)
            proposed = attempt("looking for permutations", work, share=_PROPOSED)
            self._proposals = proposed or Proposals(largest(so_far), (), None, ())
        if options.moving:
            self._stage("looking for continuous symmetries")
            self._continuous = attempt(
                "looking for continuous symmetries", self._look_for_generators, share=_MOVED
            )
        tested = attempt("testing what was found", self._confirm, share=_TESTED, needed=True)
        if tested is None:
            self._claims, self._tests, self._moved, self._free = [], [], [], None
            return self._untested()
        found, nearly = self._models()
        self._stage("putting it together")
        tried, notes, trivial = self._summary()
        return Findings(found, tried, 0.0, notes, trivial, nearly)

    def _stage(self, words: str) -> None:
        self._progress(Step(self._at, _STAGES, words))
        self._at += 1

    def _propose(self, so_far: list[GroupProposal]) -> Proposals:
        options = self.options
        return propose(
            self.data.rows(self._split[0]),
            margin=options.margin,
            near_margin=options.near_margin,
            candidates=options.candidates,
            seed=options.seed,
            found=so_far,
        )

    def _look_for_generators(self) -> ContinuousClaims:
        options = self.options
        try:
            given = GeneratorOptions(margin=options.margin)
            return ContinuousClaims.proposed(
                self.data, self._split[0], given, blocks=options.blocks, seed=options.seed
            )
        except CannotTell as error:
            return ContinuousClaims.refused(self.data, error)

    def _confirm(self) -> bool:
        options, fitted, outside = self.options, self._fitted, self._outside
        seed, given = options.seed, {"margin": options.margin, "level": options.level}
        self._stage("fitting a predictor free of symmetry")
        free = smooth = fitted.free_predictor(seed + 1)
        moving = self._continuous is not None and bool(self._continuous.claims)
        if moving:
            smooth = smooth_predictor(fitted, seed + 1)
            free = smooth if smooth.unexplained * _BETTER < free.unexplained else free
        self._stage("confirming")
        claims = [PermutationClaim.of(one, self.data) for one in self._proposals.claims]
        tests = confirm_permutations(claims, free, outside, seed=seed, **given)
        diagonal = self._proposals.convolution
        if diagonal is not None:
            tests.append(diagonal.test(free, fitted, outside, **given))
        moved: list[TestedClaim] = []
        if moving and self._continuous is not None:
            moved = self._continuous.tests(smooth, fitted, outside, seed=seed, **given)
        tests = corrected(tests, moved)
        for claim, test in zip(claims, tests, strict=False):
            claim.test = test
        self._equal = [c for c in claims if c.moves_outputs_alone and c.confirmed]
        self._claims = [claim for claim in claims if not claim.moves_outputs_alone]
        self._tests, self._moved = tests, moved
        self._free, self._smooth = free, smooth
        return True

    def _models(self) -> tuple[list[Finding], list[Finding]]:
        """What is confirmed and what approximately holds, each with a model if there is time."""
        options, attempt, seed = self.options, self.patience.attempt, self.options.seed
        free, smooth = self._free, self._smooth
        assert free is not None
        assert smooth is not None
        seen, outside = self._seen, self._outside
        moved = any(one.action.test.confirmed for one in self._moved)
        diagonal = self._proposals.convolution
        filtered = diagonal is not None and self._tests[-1].confirmed
        sure = filtered or any(claim.confirmed for claim in self._claims)
        near: list[NearClaim] = []
        if not (sure or moved):  # what is confirmed is what to build on
            near = attempt("looking for what holds nearly", self._near) or []
        fit = options.fit_models
        rival = free
        self._stage("fitting models")
        if fit and (sure or near):
            # models are compared on equal terms: both fitted to all rows but those of the test
            made = attempt("fitting models", lambda: seen.free_predictor(seed + 1))
            rival, fit = (free, False) if made is None else (made, True)
        groups = ConfirmedGroups(
            self._claims,
            self.data,
            free,
            seen,
            outside,
            margin=options.margin,
            level=options.level,
            seed=seed,
        )
        shown = groups.shown(self.patience, with_networks=fit)
        leave_out(self._moved, shown, self.data.arrangement, smooth)
        if any(one.action.test.confirmed for one in self._moved):
            for claim in shown:
                if not claim.is_named:
                    claim.withdraw("its group has no name, and a continuous one has")
            shown = [claim for claim in shown if claim.is_named]
        found = self._continuous_findings(fit)
        if diagonal is not None and filtered:
            # what turns a filter around is part of its finding
            turned = PairGroup(diagonal.name.generators, *reversed(diagonal.labels.shape))
            shown = [claim for claim in shown if not turned.contains(claim.group)]
            test = self._tests[-1]
            finding = diagonal.finding(test, seen, outside, rival, fit)
            found.append(with_worth(finding, seen, outside, rival, seed))
        for claim in shown:
            found.append(self._permutation_finding(claim, rival, fit))
        found = [replace(finding, layout=self.data.layout) for finding in found]
        if near and free is smooth and self._continuous is not None and self._continuous.claims:
            rival = smooth_predictor(seen, seed + 1)
        offer = attempt(
            "fitting soft models",
            lambda: offered(
                near, seen, outside, rival, rivals=found, level=options.level, seed=seed
            ),
        )
        nearly = [replace(one, layout=self.data.layout) for one in offer or []]
        return self._with_curves(found), nearly

    def _permutation_finding(
        self, claim: PermutationClaim, rival: FreePredictor, fit: bool
    ) -> Finding:
        given = (self._proposals, self._seen, self._outside, rival)
        seed = self.options.seed
        finding = None
        if fit:
            finding = self.patience.attempt(
                "fitting models", lambda: claim.finding(*given, True, seed)
            )
        if finding is None:
            finding = claim.finding(*given, False, seed)
        finding = with_worth(
            replace(finding, layout=self.data.layout), self._seen, self._outside, rival, seed
        )
        self._refits[id(claim)] = lambda rows: claim.fit(rows, rival, seed=seed, softened=False)[0]
        return finding

    def _continuous_findings(self, fit: bool) -> list[Finding]:
        continuous, smooth, seed = self._continuous, self._smooth, self.options.seed
        if continuous is None:
            return []
        assert smooth is not None
        seen, outside = self._seen, self._outside

        given = (self._moved, smooth, seen, outside)

        def made() -> tuple[FreePredictor, tuple[list[Finding], list[dict[str, Any]]]]:
            # models are compared on equal terms: both fitted to all rows but those of the test
            rival = smooth_predictor(seen, seed + 1)
            return rival, continuous.findings(*given, rival, fit_models=True, seed=seed)

        models = None
        standing = [one.claim for one in self._moved if one.action.test.confirmed]
        if fit and any(claim.has_model for claim in standing):
            models = self.patience.attempt("fitting models", made)
            fit = models is not None
        if models is None:
            found, self._lines = continuous.findings(*given, None, fit_models=fit, seed=seed)
            return found
        rival, (found, self._lines) = models
        return [with_worth(one, seen, outside, rival, seed) for one in found]

    def _with_curves(self, found: list[Finding]) -> list[Finding]:
        """The first finding that has a model, with its curve, where the search was quick."""
        if not self.options.fit_models or self.patience.spent > _CURVE_IN_TIME:
            return found
        seed = self.options.seed
        for at, finding in enumerate(found):
            fits = self._fits(finding)
            if finding.comparison is None or fits is None:
                continue
            self._stage("fitting models to fewer rows")
            work = partial(with_curve, finding, *fits, self._seen, self._outside, seed)
            drawn = self.patience.attempt("fitting models to fewer rows", work)
            return found if drawn is None else [*found[:at], drawn, *found[at + 1 :]]
        return found

    def _fits(self, finding: Finding) -> tuple[Refit, Callable[[TaskData], FreePredictor]] | None:
        """What fits a model with the symmetry to rows, and what fits its rival."""
        seed = self.options.seed
        for claim in self._claims:
            if claim.symmetry is finding.symmetry and id(claim) in self._refits:
                return self._refits[id(claim)], lambda rows: rows.free_predictor(seed + 1)
        for one in self._moved:
            if one.claim.symmetry is finding.symmetry:
                return partial(_continuous_model, one, seed), partial(_smooth, seed + 1)
        return None

    def _near(self) -> list[NearClaim]:
        options = self.options
        if not (options.fit_models and options.near_margin > options.margin):
            return []
        assert self._free is not None
        assert self._smooth is not None
        wide: dict[str, Any] = {
            "margin": options.near_margin,
            "level": options.level,
            "seed": options.seed,
        }
        near = near_permutations(
            self._proposals, self._claims, self.data, self._free, self._seen, self._outside, **wide
        )
        if self._continuous is not None:
            near += self._continuous.near(
                self._moved, self._smooth, self._fitted, self._seen, self._outside, **wide
            )
        return standing(near)

    def _untested(self) -> Findings:
        """What was proposed, where there was no time for tests: nothing is claimed."""
        names = [PermutationClaim.of(one, self.data).name.name for one in self._proposals.claims]
        if self._continuous is not None:
            names += [claim.name for claim in self._continuous.claims]
        tried = [*self._proposals.tried, *(f"{name}: proposed, not tested" for name in names)]
        return Findings((), tried)

    def _summary(self) -> tuple[list[str | Mapping[str, Any]], list[str], list[Finding]]:
        """What was tried, notes, and what holds trivially."""
        options, free = self.options, self._free
        assert free is not None
        given: dict[str, Any] = {
            "margin": options.margin,
            "level": options.level,
            "seed": options.seed,
        }
        tried: list[str | Mapping[str, Any]] = [
            *self._proposals.tried,
            *(
                tried_line(c.name, c.proposal.method, c.proposal.chance, c.test, c.note)
                for c in self._claims
            ),
        ]
        notes = predictor_notes(free, self._fitted, self._outside)
        # what a symmetry moves along with what matters does matter
        moved = {
            int(p) for claim in self._claims if claim.confirmed for p in claim.group.moved()[0]
        }
        ignored = tuple(p for p in self._proposals.ignored if p not in moved)
        trivial = ignored_positions(ignored, free, self._outside, **given)
        for claim in self._equal:
            assert claim.test is not None
            described = claim.described(claim.test, self._outside)
            trivial.append(replace(described, trivial="columns of the target are equal"))
        if self._continuous is not None:
            tried += [*self._continuous.tried(), *self._lines]
            notes += self._continuous.notes
            trivial += self._continuous.trivial(free, self._fitted, self._outside, **given)
        diagonal = self._proposals.convolution
        if diagonal is not None:
            test = self._tests[-1]
            tried.append(tried_line(diagonal.name, "diagonals", diagonal.chance, test))
        return tried, notes, trivial


def _continuous_model(one: TestedClaim, seed: int, rows: TaskData) -> nn.Module:
    return fit_continuous_model(one.claim, rows, seed=seed)[0]


def _smooth(seed: int, rows: TaskData) -> FreePredictor:
    return smooth_predictor(rows, seed)
