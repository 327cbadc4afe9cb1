"""One search among images, in stages: what is done stays when a later one is cut short."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step
from isotropy.discovery.claims._layer_claim import LayerClaim, LayerProposals, propose_layers
from isotropy.discovery.claims._motions import SHIFTS, Motions, asked_motions, usual_motions
from isotropy.discovery.modelling._image_models import FittedModel, ImageModels
from isotropy.discovery.predictors._image_network import DEPTH, ImagePath
from isotropy.discovery.predictors._image_predictors import (
    FREE,
    FittedPredictor,
    fit_image_network,
    rivals,
)
from isotropy.discovery.predictors._motion_predictors import MotionPredictors
from isotropy.discovery.predictors._train_classifier import ReportEpoch
from isotropy.discovery.proposing.images._layer_errors import layer_errors
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._splits import three_way_split
from isotropy.discovery.telling._findings import Findings
from isotropy.discovery.telling._image_findings import image_finding, image_notes, tried_line
from isotropy.discovery.testing._claim_test import ClaimTest, claim_test
from isotropy.discovery.testing._joint_correction import jointly_corrected

_MOST_FITTED, _MOST_TESTED, _MOST_LOOKED_AT = 4000, 1500, 2000
_MAP_PIXELS, _FEWEST_MAPS = 400_000, 300  # targets that are images: every pixel is a number
_FEW_ROWS = 400
_THIRDS, _MORE_TO_FIT = (0.4, 0.3, 0.3), (0.2, 0.45, 0.35)
_STRICT: tuple[ImagePath, ...] = ("conv", "group_conv")
_GENEROUS = 3  # a motion is tested where it costs up to so many margins on rows of the training
_STAGES = 5

Claim: TypeAlias = Motions | LayerClaim
Tested: TypeAlias = tuple[Claim, ClaimTest]


class ImageSearch:
    """A search: its data, its options, whom it tells, and what it has got so far.

    ``stages`` are to be done in order. Any of them may be left out or broken off, by whatever
    exception; ``so_far`` gives what is sure then.

    Raises:
        ValueError: If there are too few rows, or a candidate does not permute pixels.
    """

    def __init__(
        self,
        data: ImageData,
        candidates: Sequence[str] = (),
        *,
        margin: float = 0.05,
        level: float = 0.05,
        seed: int = 0,
        tell: ProgressCallback | None = None,
        some_layers: bool = True,
    ) -> None:
        self.started = time.perf_counter()
        self.data, self.margin, self.level, self.seed = data, margin, level, seed
        self._tell = tell or (lambda _step: None)
        self.some_layers = some_layers
        units = len(data.x) if data.groups is None else len(np.unique(data.groups))
        shares = _THIRDS if units < _FEW_ROWS else _MORE_TO_FIT
        find, fit, held = three_way_split(
            len(data.x), fractions=shares, seed=seed, groups=data.groups
        )
        most_fitted, most_tested = _MOST_FITTED, _MOST_TESTED
        if data.target is not None:
            few = max(_FEWEST_MAPS, _MAP_PIXELS // (data.image[1] * data.image[2]))
            most_fitted, most_tested = min(few, most_fitted), min(few, most_tested)
        self.found_on = data.rows(data.drawn(find, _MOST_LOOKED_AT, seed))
        self.fitted = data.rows(data.drawn(fit, most_fitted, seed))
        self.outside = data.rows(data.drawn(held, most_tested, seed))
        self.seen = data.rows(data.drawn(np.sort(np.concatenate([find, fit])), most_fitted, seed))
        self.motions = usual_motions(data) + asked_motions(candidates, data)
        self.predictors = MotionPredictors(self.fitted, margin, seed + 1, partial(self._epochs, 0))
        self.layers: LayerProposals | None = None
        self._networks: dict[tuple[str, int], nn.Module] = {}
        self._promising: list[Claim] = []
        self._dropped: dict[str, float | None] = {}
        self._unknown: set[str] = set()
        self._tested_motions: tuple[Tested, ...] | None = None
        self._models: dict[str, FittedModel] = {}

    def stages(self, fit_models: bool) -> list[tuple[str, Callable[[], None], bool]]:
        """What to do, in words; how; and whether it is needed even where time is up."""
        found = [("fitting predictors of images", self.fit, False)]
        if self.data.task == "classification":
            found.append(("learning the types of layers", self.learn_layers, False))
        found.append(("confirming motions of images", self.confirm, True))
        if fit_models:
            found.append(("fitting models", self.fit_models, False))
        return found

    def fit(self) -> None:
        """Fit predictors with and without motions, and see which motions are worth a test.

        A motion is left out where one that it contains has been.
        """
        self._stage(0, "fitting a predictor free of symmetry")
        self.predictors.fit_free()
        left_out: list[frozenset[str]] = []
        shifted = False
        for motions in self.motions:
            if motions.is_usual and any(parts <= motions.parts for parts in left_out):
                self._dropped[motions.name] = None
                continue
            if motions.is_usual:
                self.predictors.build_for(motions, shifted)
            cost = self.predictors.cost(motions, self.predictors.apart)
            if motions.parts == SHIFTS:
                shifted = cost is not None and cost <= self.margin
            promising = cost is not None and cost <= _GENEROUS * self.margin
            known = promising and self.predictors.knows(motions)
            if promising and not known:
                self._unknown.add(motions.name)
            if known:
                self._promising.append(motions)
            else:
                self._dropped[motions.name] = cost
                if motions.is_usual:
                    left_out.append(motions.parts)

    def learn_layers(self) -> None:
        """Learn the types of layers by the evidence, and fit networks whose first are strict."""
        self._stage(1, "learning the types of layers")
        self.layers = propose_layers(self.found_on, self.seed, self._learning)
        fits = self.predictors.fits
        network, _, loss = fit_image_network(
            self.fitted, FREE, self.seed + 1, report=self._epochs(2, "a network with free layers")
        )
        fits.append(FittedPredictor("network with free layers", network, loss))
        self.layers = self.layers.with_errors(layer_errors(network, self.predictors.apart.maps))
        strict: dict[int, nn.Module] = {**self.predictors.strict}
        self._networks.update({("conv", depth): one for depth, one in strict.items()})
        deepest, claims = DEPTH, list[LayerClaim]()
        for path in _STRICT:
            # a layer that may not commute with shifts need not be asked about turns
            claim = self._deepest(self.layers.claims(path, within=deepest))
            deepest = 0 if claim is None else claim.depth
            claims += [] if claim is None else [claim]
        self._promising += claims

    def confirm(self) -> None:
        """Test what is promising on the third part of the rows."""
        self._stage(3, "confirming motions of images")
        tests = jointly_corrected([self._tested(claim) for claim in self._promising])
        self._tested_motions = tuple(zip(self._promising, tests, strict=True))

    def fit_models(self) -> None:
        """Fit a model for each finding."""
        self._stage(4, "fitting models")
        models = ImageModels(self.seen, self.outside, self.seed + 1, partial(self._epochs, 4))
        for number, (claim, _) in enumerate(self._reported()):
            self._models[claim.name] = models.of(
                claim, curve=number == 0 and isinstance(claim, Motions)
            )

    def so_far(self) -> Findings:
        """What is sure by now, and what was tried."""
        tried: list[str | dict[str, Any]] = []
        if self.layers is not None:
            tried += self.layers.tried()
        methods = {one.name: one.method for one in self.motions}
        for name, cost in self._dropped.items():
            method = methods.get(name, "types of layers by the evidence")
            if name in self._unknown:
                tried.append(f"{name}: unlike the images of the data, which say nothing of it")
            else:
                tried.append(tried_line(name, method, cost, None, False))
        tested = self._tested_motions or ()
        tried += [
            tried_line(one.name, one.method, test.effect, test.adjusted_p_value, test.confirmed)
            for one, test in tested
        ]
        done = {one.name for one, _ in tested} | set(self._dropped)
        tried += [f"{one.name}: not tested" for one in self.motions if one.name not in done]
        found = []
        for claim, test in self._reported():
            one = image_finding(claim, test, self.data, self.outside, self.layers, self.seed)
            model = self._models.get(claim.name)
            found.append(one if model is None else model.added_to(one))
        notes = image_notes(self.data, self.predictors, self.fitted, self.outside)
        if self._tested_motions is not None and not self.some_layers:
            notes += [
                f"of a network: {claim.name}"
                for claim, test in self._tested_motions
                if test.confirmed and isinstance(claim, LayerClaim) and claim.depth < DEPTH
            ]
        return Findings(found, tried, time.perf_counter() - self.started, notes)

    def _reported(self) -> list[Tested]:
        """What no other claim contains: motions first, the largest group first."""
        sure = [pair for pair in self._tested_motions or () if pair[1].confirmed]
        motions = [(one, test) for one, test in sure if isinstance(one, Motions)]
        motions = [(m, t) for m, t in motions if not any(m.is_within(o) for o, _ in motions)]
        motions.sort(key=lambda pair: -pair[0].order())
        strict = [(one, test) for one, test in sure if isinstance(one, LayerClaim)]
        strict = [(c, t) for c, t in strict if not any(c.is_within(o) for o, _ in strict)]
        moving = frozenset[str]().union(*(one.parts for one, _ in motions))
        # all layers make the class stay, which is claimed of motions or not at all
        strict = [
            (c, t)
            for c, t in strict
            if (c.parts <= moving if c.depth == DEPTH else self.some_layers)
        ]
        return [*motions, *strict]

    def _tested(self, claim: Claim) -> ClaimTest:
        """The test against the rival that speaks loudest against the claim."""
        losses, others = self._compared(claim, self.outside)
        tests = [
            claim_test(
                losses,
                rival,
                self.predictors.constant_losses(self.outside),
                margin=self.margin,
                level=self.level,
                groups=self.outside.groups,
            )
            for rival in others
        ]
        return max(tests, key=lambda test: test.p_value)

    def _compared(self, claim: Claim, rows: ImageData) -> tuple[Tensor, list[Tensor]]:
        if isinstance(claim, Motions):
            return self.predictors.compared(claim, rows)
        predictions = self.predictors.predictions
        others = rivals(self.predictors.fits, claim.parts, claim.depth)
        mine = FittedPredictor(claim.name, self._networks[claim.network], 0.0)
        losses = self.predictors.losses(mine.predict(rows.x), rows)
        return losses, [self.predictors.losses(predictions(other, rows), rows) for other in others]

    def _deepest(self, claims: Sequence[LayerClaim]) -> LayerClaim | None:
        """The boldest claim that costs little on rows held out of the training, if there is one.

        It is held against the network with one strict layer less, too: free ones may have learned
        too little to speak against it.
        """
        for claim in claims:
            self._fit_strict(claim)
            if not self._is_promising(claim):
                continue
            if claim.depth > 1:
                self._fit_strict(replace(claim, depth=claim.depth - 1))
                if not self._is_promising(claim):
                    continue
            return claim
        return None

    def _fit_strict(self, claim: LayerClaim) -> None:
        if claim.network in self._networks:
            return
        report = self._epochs(2, claim.name)
        network, _, loss = fit_image_network(self.fitted, claim.paths, self.seed + 1, report=report)
        self.predictors.fits.append(
            FittedPredictor(claim.name, network, loss, claim.parts, claim.depth)
        )
        self._networks[claim.network] = network

    def _is_promising(self, claim: LayerClaim) -> bool:
        """Whether a claim is worth a test, judged on rows that no test will see."""
        rows = self.predictors.apart
        losses, others = self._compared(claim, rows)
        flat = self.predictors.constant_losses(rows).mean()
        costs = [
            float((losses.mean() - rival.mean()) / (flat - rival.mean()))
            for rival in others
            if rival.mean() < flat
        ]
        cost = max(costs, default=None)
        if cost is not None and cost <= self.margin:
            return True
        self._dropped[claim.name] = cost
        return False

    def _stage(self, done: int, words: str) -> None:
        self._tell(Step(done, _STAGES, words))

    def _epochs(self, done: int, what: str) -> ReportEpoch:
        return lambda epoch, epochs: self._stage(done, f"{what}: epoch {epoch} of {epochs}")

    def _learning(self, what: str, step: Step) -> None:
        self._stage(1, f"types of layers ({what}): epoch {step.done} of {step.total}")
