"""From images to named symmetries: of the class, and of the layers of a network."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from math import nan
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn

from isotropy._run import ProgressCallback, Step
from isotropy._run import generator as make_generator
from isotropy.discovery._finding import Finding, Layout
from isotropy.discovery._findings import Findings
from isotropy.discovery.confirming._claim_test import ClaimTest, claim_test, group_average, holm
from isotropy.discovery.confirming._free_predictor import sample_losses
from isotropy.discovery.confirming._splits import three_way_split
from isotropy.discovery.images._image_data import ImageData
from isotropy.discovery.images._image_models import ImageModels
from isotropy.discovery.images._image_motions import Motions, asked_motions, usual_motions
from isotropy.discovery.images._image_network import DEPTH, ImagePath, working_grid
from isotropy.discovery.images._image_predictors import (
    FREE,
    FittedPredictor,
    fit_image_network,
    fit_pixels,
    rivals,
)
from isotropy.discovery.images._layer_claims import LayerClaim, LayerProposals, propose_layers
from isotropy.discovery.images._train_classifier import (
    Told,
    doubtful_losses,
    kept_apart,
    logits,
)

_MOST_FITTED, _MOST_TESTED = 4000, 1500
_ELEMENTS = 32
_STAGES = 5
_STRICT: tuple[ImagePath, ...] = ("conv", "group_conv")
_EXACT = 0.01  # what surely costs more is called approximate
_GENEROUS = 3  # a motion is tested where it costs up to so many margins on rows of the training
_MUCH_LEFT, _NOTHING = 0.05, 0.95

Surely: TypeAlias = tuple[Motions | LayerClaim, ClaimTest]


def discover_images(
    data: ImageData,
    *,
    candidates: Sequence[str] = (),
    margin: float = 0.05,
    level: float = 0.05,
    fit_models: bool = True,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> Findings:
    """Find which motions of images leave their class, and which layers may commute with them.

    Args:
        data: Images and classes.
        candidates: Groups of permutations of the pixels to try as well.
        margin: The largest cost that still counts as a symmetry.
        level: The chance of confirming anything false.
        fit_models: Whether to fit a model with each symmetry that is found.
        seed: Of splits, networks and random group elements.
        progress: Told what is being done.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> x, y = rng.normal(size=(70, 1, 4, 5)), rng.integers(2, size=70)
        >>> found = discover_images(ImageData.of(x, y, None, None))  # noise
        >>> len(found), found.notes[-1]
        (0, 'quarter turns were not tried: images of 4 by 5 are not square')
    """
    search = _Search(data, margin, level, seed, progress or (lambda step: None))
    return search.findings(candidates, fit_models)


class _Search:
    """One search: its data, its options and whom it tells."""

    def __init__(
        self, data: ImageData, margin: float, level: float, seed: int, tell: ProgressCallback
    ) -> None:
        self.started = time.perf_counter()
        self.data, self.margin, self.level, self.seed, self._tell = data, margin, level, seed, tell
        find, fit, held = three_way_split(len(data.x), seed=seed, groups=data.groups)
        self.found_on = data.rows(find)
        self.fitted = data.rows(fit).at_most(_MOST_FITTED, seed)
        self.outside = data.rows(held).at_most(_MOST_TESTED, seed)
        self.predictors: list[FittedPredictor] = []
        self._networks: dict[tuple[str, int], nn.Module] = {}
        self._dropped: list[dict[str, Any]] = []
        self._apart = self.fitted.rows(kept_apart(self.fitted, make_generator(seed + 1))[1])
        self.seen = data.rows(np.concatenate([find, fit])).at_most(_MOST_FITTED, seed)

    def findings(self, candidates: Sequence[str], fit_models: bool) -> Findings:
        motions = usual_motions(self.data) + asked_motions(candidates, self.data)
        self.stage(0, "learning the types of layers")
        layers = propose_layers(self.found_on, self.seed, self._learning)
        self.stage(1, "fitting a predictor free of symmetry")
        self._fit_free()
        claims: list[Motions | LayerClaim] = []
        deepest = DEPTH
        for path in _STRICT:
            # a layer that may not commute with shifts need not be asked about turns
            claim = self._deepest(layers.claims(path, within=deepest))
            deepest = 0 if claim is None else claim.depth
            claims += [] if claim is None else [claim]
        self.stage(3, "confirming motions of images")
        claims = [*(one for one in motions if self._is_promising(one)), *claims]
        tests = [self._tested(claim, self.outside) for claim in claims]
        adjusted = holm([test.p_value for test in tests])
        surely = [
            (claim, replace(test, adjusted_p_value=float(p)))
            for claim, test, p in zip(claims, tests, adjusted, strict=True)
        ]
        self.stage(4, "fitting models")
        found = self._reported([pair for pair in surely if pair[1].confirmed], layers, fit_models)
        tried: list[str | dict[str, Any]] = [*layers.tried(), *self._dropped]
        tried += [_tried(*pair) for pair in surely]
        return Findings(found, tried, time.perf_counter() - self.started, self._notes())

    def stage(self, done: int, words: str) -> None:
        self._tell(Step(done, _STAGES, words))

    def _epochs(self, done: int, what: str) -> Told:
        return lambda epoch, epochs: self.stage(done, f"{what}: epoch {epoch} of {epochs}")

    def _learning(self, what: str, step: Step) -> None:
        self.stage(0, f"types of layers ({what}): epoch {step.done} of {step.total}")

    def _fit_free(self) -> None:
        told = self._epochs(1, "a network with free layers")
        network, _, loss = fit_image_network(self.fitted, FREE, self.seed + 1, told=told)
        self.predictors.append(FittedPredictor("network with free layers", network, loss))
        told = self._epochs(1, "a network of pixels")
        pixels, loss = fit_pixels(self.fitted, self.seed + 1, told)
        self.predictors.append(FittedPredictor("network of pixels", pixels, loss))

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
        told = self._epochs(2, claim.name)
        network, _, loss = fit_image_network(self.fitted, claim.paths, self.seed + 1, told=told)
        self.predictors.append(FittedPredictor(claim.name, network, loss, claim.parts, claim.depth))
        self._networks[claim.network] = network

    def _is_promising(self, claim: Motions | LayerClaim) -> bool:
        """Whether a claim is worth a test, told from rows that no test will see."""
        most = self.margin * (_GENEROUS if isinstance(claim, Motions) else 1)
        losses, others = self._compared(claim, self._apart)
        constant = self._constant_losses(self._apart).mean()
        costs = [
            float((losses.mean() - rival.mean()) / (constant - rival.mean()))
            for rival in others
            if rival.mean() < constant
        ]
        cost = max(costs, default=nan)
        if cost <= most:
            return True
        self._dropped.append(
            {
                "name": claim.name,
                "method": claim.method,
                "effect": cost,
                "p_value": None,
                "confirmed": False,
            }
        )
        return False

    def _compared(
        self, claim: Motions | LayerClaim, rows: ImageData
    ) -> tuple[Tensor, list[Tensor]]:
        """The losses of a predictor that has the symmetry, and those of its rivals."""
        if isinstance(claim, Motions):
            others = rivals(
                # what a user asks for may be part of what networks were built with
                [one for one in self.predictors if one.depth < DEPTH or claim.is_usual],
                claim.parts,
            )
            said = group_average(
                others[0].predict,
                claim.symmetry(self.data),
                rows.x,
                elements=_ELEMENTS,
                generator=self.seed,
            )
        else:
            others = rivals(self.predictors, claim.parts, claim.depth)
            said = logits(self._networks[claim.network], rows.x)
        losses = self._doubted(said, rows)
        return losses, [self._losses(rival.network, rows) for rival in others]

    def _tested(self, claim: Motions | LayerClaim, rows: ImageData) -> ClaimTest:
        """The test against the rival that speaks loudest against the claim."""
        losses, others = self._compared(claim, rows)
        tests = [
            claim_test(
                losses,
                rival,
                self._constant_losses(rows),
                margin=self.margin,
                level=self.level,
                groups=rows.groups,
            )
            for rival in others
        ]
        return max(tests, key=lambda test: test.p_value)

    def _losses(self, network: nn.Module, rows: ImageData) -> Tensor:
        return self._doubted(logits(network, rows.x), rows)

    def _doubted(self, said: Tensor, rows: ImageData) -> Tensor:
        return doubtful_losses(said, rows.y, self.fitted.constant, len(self._apart.x))

    def _constant_losses(self, rows: ImageData) -> Tensor:
        constant = self.fitted.constant.expand(len(rows.x), -1)
        return sample_losses(constant, rows.y, "classification")

    def _reported(
        self, sure: Sequence[Surely], layers: LayerProposals, fit_models: bool
    ) -> list[Finding]:
        """What no other claim contains: motions first, the largest group first."""
        motions = [(one, test) for one, test in sure if isinstance(one, Motions)]
        motions = [(m, t) for m, t in motions if not any(m.parts < o.parts for o, _ in motions)]
        motions.sort(key=lambda pair: -pair[0].order())
        strict = [(one, test) for one, test in sure if isinstance(one, LayerClaim)]
        strict = [(c, t) for c, t in strict if not any(c.is_within(o) for o, _ in strict)]
        found = [self._motion_finding(*pair) for pair in motions]
        found += [self._layer_finding(*pair, layers) for pair in strict]
        if not fit_models:
            return found
        models = ImageModels(self.seen, self.outside, self.seed + 1, partial(self._epochs, 4))
        wanted: list[Motions | LayerClaim] = [one for one, _ in motions]
        wanted += [claim for claim, _ in strict]
        return [_with_model(f, models, one) for f, one in zip(found, wanted, strict=True)]

    def _motion_finding(self, motions: Motions, test: ClaimTest) -> Finding:
        return Finding(
            name=motions.name,
            group=str(motions.group),
            action=motions.action,
            method=motions.method,
            order=motions.order(),
            symmetry=motions.symmetry(self.data),
            **self._numbers(test),
        )

    def _layer_finding(self, claim: LayerClaim, test: ClaimTest, layers: LayerProposals) -> Finding:
        rows = layers.tables[claim.path]
        table = tuple({**row, "strict": k < claim.depth} for k, row in enumerate(rows))
        return Finding(
            name=claim.name,
            group=claim.group,
            action=claim.action,
            method=claim.method,
            order=claim.order,
            layers=table,
            **self._numbers(test),
        )

    def _numbers(self, test: ClaimTest) -> dict[str, Any]:
        return {
            "approximate": test.interval[0] > _EXACT,
            "confirmed": True,
            "p_value": test.adjusted_p_value,
            "effect": test.effect,
            "interval": test.interval,
            "margin": test.margin,
            "samples": test.samples,
            "layout": Layout(self.data.image[0], image=self.data.given),
        }

    def _notes(self) -> list[str]:
        best = min(self.predictors, key=lambda one: one.loss)
        losses = self._losses(best.network, self.outside)
        left = float(losses.mean() / self._constant_losses(self.outside).mean())
        _, height, width = self.data.image
        notes = [
            f"classification of images; best predictor: {best.kind}, leaves {left:.2g} of the "
            f"entropy; fitted to {len(self.fitted.x)} rows, claims tested on "
            f"{len(self.outside.x)} others"
        ]
        if left > _NOTHING:
            notes.append(
                "next to nothing could be learned from these rows, so nothing can be claimed"
            )
        elif left > _MUCH_LEFT:
            notes.append(
                f"claims are about what the predictor has learned: the {left:.0%} that it leaves "
                "may be noise, or have less symmetry"
            )
        notes.append(
            "shifts wrap around the edges; a claim is held against the best predictor that was "
            "built without it"
        )
        shrink, size = working_grid(height, width)
        if shrink > 1:
            whole = (height % shrink, width % shrink) == (0, 0)
            notes.append(
                f"networks see images averaged to {size[0]} by {size[1]}: their shifts are "
                + (f"those by multiples of {shrink} pixels" if whole else "no shifts of the image")
            )
        if height != width:
            notes.append(
                f"quarter turns were not tried: images of {height} by {width} are not square"
            )
        return notes


def _with_model(finding: Finding, models: ImageModels, claim: Motions | LayerClaim) -> Finding:
    model, spec, note = models.of(claim)
    return replace(finding, model=model, model_spec=spec, notes=(note, *finding.notes))


def _tried(claim: Motions | LayerClaim, test: ClaimTest) -> dict[str, Any]:
    return {
        "name": claim.name,
        "method": claim.method,
        "effect": test.effect,
        "p_value": test.adjusted_p_value,
        "confirmed": test.confirmed,
    }
