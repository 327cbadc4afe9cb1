"""Predictors that claims about motions are held against, and predictors that have the symmetry."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import sqrt

from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._motions import SHIFTS, Motions, moved_together, usual_motions
from isotropy.discovery.predictors._free_predictor import sample_losses
from isotropy.discovery.predictors._image_network import (
    DEPTH,
    PHASES,
    ImageNetwork,
    ImagePath,
    working_grid,
)
from isotropy.discovery.predictors._image_predictors import (
    FREE,
    FittedPredictor,
    fit_image_network,
    fit_linear,
    fit_pixels,
    gone_on,
    rivals,
)
from isotropy.discovery.predictors._moved_support import distinguishability
from isotropy.discovery.predictors._train_classifier import (
    ReportEpoch,
    doubtful_losses,
    kept_apart,
    outputs_of,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.testing._claim_test import group_average
from isotropy.reps import Symmetry

STRICT: list[list[ImagePath]] = [["conv"]] * DEPTH
LAST_FREE: list[list[ImagePath]] = [*STRICT[1:], FREE[-1]]
_ELEMENTS = 16
# moved images that are distinguished better than that are not such as there are; of shifts, those
# that cut things in two at the edges may be recognised
_SIMILAR, _SHIFTED_SIMILAR = 0.6, 0.85
_WELL = 0.5  # margins: a predictor with the symmetry that costs no more will do


class MotionPredictors:
    """All predictors fitted to the second part of the rows, and what they lose.

    Built without a symmetry are a network of convolutions whose last layer is free, which has
    learned almost all that one of convolutions alone can, a network of plain pixels and, for
    numbers, a linear map. Where these do not do, networks that have a symmetry are trained, on
    images moved at random and averaged over the motions; beside each of them stands one that goes
    on from it without the symmetry. Such networks speak for a symmetry only where moved images
    look like those of the data: that a network which mirrors every digit tells digits does not say
    that the mirror image of a digit is the same digit.

    Attributes:
        fits: The predictors.
        apart: Rows held out of every training, by which predictors are chosen.
        strict: Networks whose first layers are convolutions, by their number.
    """

    def __init__(
        self, fitted: ImageData, margin: float, seed: int, report: Callable[[str], ReportEpoch]
    ) -> None:
        self._fitted, self._margin = fitted, margin
        self._seed, self._report = seed, report
        self.fits: list[FittedPredictor] = []
        self.apart = fitted.rows(kept_apart(fitted, make_generator(seed))[1])
        self._similar: dict[str, bool] = {}
        self._predicted: dict[tuple[int, int], Tensor] = {}
        self._built: set[frozenset[str]] = set()
        self.strict: dict[int, ImageNetwork] = {}

    def fit_free(self) -> None:
        """Fit those without a symmetry, and the one with all shifts."""
        if self._fitted.target is None:
            network, loss = fit_pixels(
                self._fitted, self._seed, self._report("a network of pixels")
            )
            self.fits.append(FittedPredictor("network of pixels", network, loss))
        if self._fitted.task == "regression":
            network, loss = fit_linear(self._fitted, self._seed)
            self.fits.append(FittedPredictor("linear map of pixels", network, loss))
        self._fit("network whose last layer is free", LAST_FREE, DEPTH - 1)
        self._fit("network of convolutions", STRICT, DEPTH)

    def _fit(self, kind: str, paths: list[list[ImagePath]], depth: int) -> None:
        shrink = working_grid(*self._fitted.image[1:])[0]
        phases = (PHASES,) if depth == DEPTH and shrink > 1 and self._fitted.target is None else ()
        network, _, loss = fit_image_network(
            self._fitted, paths, self._seed, averaged=phases, report=self._report(kind)
        )
        self.fits.append(FittedPredictor(kind, network, loss, SHIFTS, depth))
        self.strict[depth] = network

    def build_for(self, motions: Motions, shifted: bool) -> None:
        """Train a network with a symmetry, where those that there are do not speak for it."""
        wanted = motions.parts | (SHIFTS if shifted else frozenset())
        about = motions.about_centre
        if not about or wanted in self._built or not self.is_similar(motions):
            return
        if not SHIFTS.isdisjoint(motions.parts) and not shifted:
            return
        cost = self.cost(motions, self.apart)
        if cost is not None and cost <= _WELL * self._margin:
            return
        self._built.add(wanted)
        paths, depth = (STRICT, DEPTH) if shifted else (LAST_FREE, DEPTH - 1)
        turned = about_centre(motions, self._fitted)
        phases = {PHASES} if shifted and self._fitted.target is None else set()
        network, _, loss = fit_image_network(
            self._fitted,
            paths,
            self._seed,
            averaged=about | phases,
            augment=partial(moved_together, turned, make_generator(self._seed)),
            report=self._report(motions.name),
        )
        parts = about | (SHIFTS if shifted else frozenset())
        kind = f"network with {motions.name}"
        self.fits.append(FittedPredictor(kind, network, loss, parts, DEPTH))
        cost = self.cost(motions, self.apart)
        if cost is not None and cost <= self._margin:
            assert isinstance(network, ImageNetwork)
            free, loss = gone_on(network, self._fitted, self._seed)
            kind = f"network that goes on from {motions.name}"
            self.fits.append(FittedPredictor(kind, free, loss, SHIFTS, depth))

    def knows(self, motions: Motions) -> bool:
        """Whether the data say anything of moved images.

        Where targets stay, turned and mirrored images must be like those of the data: that a
        predictor does no worse for being averaged over what it knows nothing of is no symmetry.
        Targets that are images move along, and filters are the same all over an image. What a
        user asks for is tested in any case.
        """
        if not motions.is_usual or not motions.about_centre or self._fitted.target is not None:
            return True
        return not SHIFTS.isdisjoint(motions.parts) or self.is_similar(motions)

    def is_similar(self, motions: Motions) -> bool:
        """Whether moved images look like those of the data."""
        if motions.name not in self._similar:
            still = SHIFTS.isdisjoint(motions.parts)
            apart = distinguishability(self._fitted, motions, self._seed, wherever=still)
            # three times the error of ranking half of the rows, where these are few
            least = 0.5 + 3 / sqrt(3 * len(self._fitted.x))
            self._similar[motions.name] = apart < max(
                _SIMILAR if still else _SHIFTED_SIMILAR, least
            )
        return self._similar[motions.name]

    def compared(self, motions: Motions, rows: ImageData) -> tuple[Tensor, list[Tensor]]:
        """The losses of a predictor that has the symmetry, and those of its rivals.

        The predictor is the one that does best on rows held out of the training: the average of
        the best rival over the group, or a network built with the symmetry.
        """
        others = self.rivals(motions)
        symmetric = self._symmetric(motions)
        chosen: FittedPredictor | None = min(symmetric, key=lambda one: one.loss, default=None)
        if chosen is None or self._cost_of(chosen, others[0]) > _WELL * self._margin:
            average = self.losses(self._averaged(others[0], motions, self.apart), self.apart)
            if chosen is None or float(average.mean()) < self._mean(chosen):
                chosen = None
        if chosen is None:
            predictions = self._averaged(others[0], motions, rows)
        else:
            predictions = self.predictions(chosen, rows)
        losses = [self.losses(self.predictions(other, rows), rows) for other in others]
        return self.losses(predictions, rows), losses

    def rivals(self, motions: Motions) -> list[FittedPredictor]:
        """For each part of a motion, the best predictor built without it."""
        # what a user asks for may be part of what networks were built with
        fits = [one for one in self.fits if motions.is_usual or one.depth < DEPTH]
        return rivals(fits, motions.parts)

    def cost(self, motions: Motions, rows: ImageData) -> float | None:
        """What a symmetry costs on some rows, against its hardest rival; None if unknown."""
        losses, others = self.compared(motions, rows)
        flat = self.constant_losses(rows).mean()
        costs = [
            float((losses.mean() - rival.mean()) / (flat - rival.mean()))
            for rival in others
            if rival.mean() < flat
        ]
        return max(costs, default=None)

    def losses(self, predictions: Tensor, rows: ImageData) -> Tensor:
        """The loss of each row; of classes, no surer than the rows held out allow."""
        if rows.task == "regression":
            return sample_losses(predictions, rows.y, rows.task)
        return doubtful_losses(predictions, rows.y, self._fitted.constant, len(self.apart.x))

    def constant_losses(self, rows: ImageData) -> Tensor:
        """Those of a constant prediction."""
        constant = self._fitted.constant.expand(len(rows.x), -1)
        return sample_losses(constant, rows.y, rows.task)

    def predictions(self, one: FittedPredictor, rows: ImageData) -> Tensor:
        """What a predictor gives for some rows; it is asked once."""
        key = id(one), id(rows)
        if key not in self._predicted:
            self._predicted[key] = one.predict(rows.x)
        return self._predicted[key]

    def _symmetric(self, motions: Motions) -> list[FittedPredictor]:
        if not motions.is_usual or not self.is_similar(motions):
            return []
        return [one for one in self.fits if one.parts >= motions.parts and one.depth == DEPTH]

    def _averaged(self, one: FittedPredictor, motions: Motions, rows: ImageData) -> Tensor:
        symmetry = motions.symmetry(rows)
        predict = partial(outputs_of, one.network)
        return group_average(predict, symmetry, rows.x, elements=_ELEMENTS, generator=self._seed)

    def _mean(self, one: FittedPredictor) -> float:
        return float(self.losses(self.predictions(one, self.apart), self.apart).mean())

    def _cost_of(self, one: FittedPredictor, rival: FittedPredictor) -> float:
        flat = float(self.constant_losses(self.apart).mean())
        best = self._mean(rival)
        return (self._mean(one) - best) / (flat - best) if best < flat else float("inf")


def about_centre(motions: Motions, data: ImageData) -> Symmetry:
    """The part of a symmetry that leaves the centre where it is."""
    (same,) = [one for one in usual_motions(data) if one.parts == motions.about_centre]
    return same.symmetry(data)
