"""What claims about images are tested with: predictors with and without motions, and their cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import sqrt
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.data import load
from isotropy.discovery.claims._image_motions import (
    SHIFTS,
    TURNS,
    Motions,
    about_centre,
    moved_at_random,
    moved_together,
)
from isotropy.discovery.predictors._image_network import (
    DEPTH,
    PHASES,
    ImageNetwork,
    ImagePath,
    working_grid,
)
from isotropy.discovery.predictors._image_predictors import (
    FittedPredictor,
    FreeImagePredictor,
    Tell,
    epochs_told,
    fit_image_network,
    gone_on,
    rivals,
    strict_paths,
)
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.predictors._train_classifier import doubtful_losses, kept_apart, outputs_of
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._claim_test import ClaimTest, claim_test, group_average


def distinguishability(
    data: ImageData, motions: Motions, seed: int, *, wherever: bool = False
) -> float:
    """How well images are distinguished from moved ones: the chance of ranking a pair right.

    One half where nobody can tell, so that a predictor with the symmetry is asked about images such
    as there are; much more where motions lead to images that the data do not have, of which nothing
    is known. The identity is among the motions, so that of a group of n elements the most is
    1 − 1/(2n): three quarters for a mirror.

    Args:
        data: Images.
        motions: How they may be moved.
        seed: Of motions and networks.
        wherever: Whether to ask a network as well that sees things wherever they are.

    Example:
        >>> from isotropy.discovery.claims._image_motions import usual_motions
        >>> x = np.random.default_rng(0).normal(size=(400, 6, 6))
        >>> noise, bright = (
        ...     ImageData.of(load((images, np.arange(400) % 2)))
        ...     for images in (x, x + 3 * np.eye(6))
        ... )
        >>> mirror = usual_motions(noise)[3]
        >>> distinguishability(noise, mirror, 0) < 0.6, distinguishability(bright, mirror, 0) > 0.7
        (True, True)
    """
    some = data.at_most(PredictorThresholds.now().distinguished_rows, seed).x
    rng = make_generator(seed)
    pair = some, moved_at_random(motions.symmetry(data), rng, some)
    best = _ranked(*_by_pixels(data, *pair, seed, rng))
    return max(best, _ranked(*_by_convolutions(data, *pair, seed))) if wherever else best


def _by_pixels(
    data: ImageData, images: Tensor, moved: Tensor, seed: int, rng: torch.Generator
) -> tuple[Tensor, Tensor]:
    """How much like moved ones the second half of the images look, and their moved ones."""
    limits, size = PredictorThresholds.now(), working_grid(*data.image[1:])[1]

    def pixels(rows: Tensor) -> Tensor:
        return functional.adaptive_avg_pool2d(rows.unflatten(1, data.image), size).flatten(1)

    given, moved = pixels(images), pixels(moved)
    scale = given.std(0).mean().clamp_min(1e-9)
    half = len(given) // 2
    # an image and what becomes of it are on the same side
    x = torch.cat([given[:half], moved[:half]]).sub(given.mean()) / scale
    y = torch.arange(2).repeat_interleave(half)
    units = limits.distinguished_units
    with torch.random.fork_rng([]):
        torch.set_rng_state(make_generator(seed + 1).get_state())
        network = nn.Sequential(nn.Linear(x.shape[1], units), nn.ReLU(), nn.Linear(units, 2))
    rate, batch = limits.distinguished_rate, min(limits.distinguished_batch, len(x))
    solver = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=0.1)
    for _ in range(limits.distinguished_steps):
        rows = torch.randint(len(x), (batch,), generator=rng)
        solver.zero_grad()
        functional.cross_entropy(network(x[rows]), y[rows]).backward()
        solver.step()
    with torch.no_grad():
        first, second = (
            network(rows[half:].sub(given.mean()) / scale) @ torch.tensor([-1.0, 1.0])
            for rows in (given, moved)
        )
    return first, second


def _by_convolutions(
    data: ImageData, images: Tensor, moved: Tensor, seed: int
) -> tuple[Tensor, Tensor]:
    """The same of a network that sees things wherever they are."""
    half = len(images) // 2
    x = torch.cat([images[:half], moved[:half]]).unflatten(1, data.image)
    # an image and what becomes of it are on the same side
    pairs = np.tile(np.arange(half), 2)
    asked = ImageData.of(load((x.numpy(), np.arange(2).repeat(half)), groups=pairs))
    network = fit_image_network(asked, strict_paths("conv", DEPTH), seed)[0]
    first, second = (outputs_of(network, rows[half:]).diff(dim=1)[:, 0] for rows in (images, moved))
    return first, second


def _ranked(images: Tensor, moved: Tensor) -> float:
    """How often a moved image has the higher score of a pair."""
    ordered = images.sort().values
    below = torch.searchsorted(ordered, moved).double()
    above = torch.searchsorted(ordered, moved, right=True).double()
    return float((below + above).mean() / (2 * len(ordered)))


# the losses of what has a symmetry, and those of each of its rivals
Compared: TypeAlias = tuple[Tensor, list[Tensor]]


@dataclass(frozen=True, eq=False)
class ImageBench:
    """Predictors fitted to the second part of the rows when first asked for, and what they lose.

    Where those without a symmetry do not do, networks that have it are trained, on images moved at
    random and averaged over the motions; beside each of them stands one that goes on from it
    without the symmetry. Such networks speak for a symmetry only where moved images look like those
    of the data: that a network which mirrors every digit tells digits does not say that the mirror
    image of a digit is the same digit.

    Args:
        bench: Keeps what is fitted.
    """

    bench: Bench

    @property
    def rows(self) -> ImageData:
        """What they are fitted to."""
        rows = self.bench.problem.fitted
        assert isinstance(rows, ImageData)
        return rows

    @property
    def outside(self) -> ImageData:
        """What claims are tested on."""
        rows = self.bench.problem.outside
        assert isinstance(rows, ImageData)
        return rows

    @property
    def seed(self) -> int:
        """Of all trainings."""
        return self.bench.seed + 1

    @property
    def apart(self) -> ImageData:
        """Rows held out of every training, by which predictors are chosen."""

        def drawn() -> ImageData:
            return self.rows.rows(kept_apart(self.rows, make_generator(self.seed))[1])

        return self.bench.once("rows apart", drawn)

    @property
    def every(self) -> list[FittedPredictor]:
        """Those that were fitted so far."""
        found: list[FittedPredictor] = []
        for one in self.bench.found.values():
            found += one.among if isinstance(one, FreeImagePredictor) else ()
            found += [one] if isinstance(one, FittedPredictor) else []
        return found

    # --- fitting --------------------------------------------------------------------------------

    def free(self, tell: Tell | None = None) -> FreeImagePredictor:
        """Those without a symmetry."""
        found = self.bench.free_of(self.rows, tell)
        assert isinstance(found, FreeImagePredictor)
        return found

    def network(
        self, path: ImagePath, depth: int, kind: str, tell: Tell | None = None
    ) -> FittedPredictor:
        """A network whose first layers have a single path.

        Args:
            path: The path.
            depth: How many layers have it alone.
            kind: What the network is called.
            tell: Whom to tell how it goes on.
        """
        if (path, depth) == ("conv", DEPTH - 1):
            return next(one for one in self.free(tell).among if one.depth == depth)

        def fit() -> FittedPredictor:
            large = working_grid(*self.rows.image[1:])[0] > 1 and self.rows.target is None
            phases = (PHASES,) if (path, depth) == ("conv", DEPTH) and large else ()
            network, _, loss = fit_image_network(
                self.rows,
                strict_paths(path, depth),
                self.seed,
                averaged=phases,
                report=epochs_told(tell, kind),
            )
            parts = SHIFTS | TURNS if path == "group_conv" else SHIFTS
            return FittedPredictor(kind, network, loss, parts if depth else frozenset(), depth)

        return self.bench.once(("network", path, depth), fit)

    def with_motions(
        self, motions: Motions, tell: Tell | None = None, *, shifted: bool
    ) -> FittedPredictor:
        """A network averaged over motions about the centre, and of shifts where these hold."""
        about, rows = motions.about_centre, self.rows

        def fit() -> FittedPredictor:
            turned = about_centre(motions, rows).symmetry(rows)
            phases = {PHASES} if shifted and rows.target is None else set()
            network, _, loss = fit_image_network(
                rows,
                strict_paths("conv", DEPTH if shifted else DEPTH - 1),
                self.seed,
                averaged=about | phases,
                augment=partial(moved_together, turned, make_generator(self.seed)),
                report=epochs_told(tell, motions.name),
            )
            parts = about | (SHIFTS if shifted else frozenset())
            return FittedPredictor(f"network with {motions.name}", network, loss, parts, DEPTH)

        return self.bench.once(("with", motions.name), fit)

    def going_on(self, motions: Motions, *, shifted: bool) -> FittedPredictor:
        """A network that goes on from such a one, without the motions."""

        def fit() -> FittedPredictor:
            network = self.with_motions(motions, shifted=shifted).network
            assert isinstance(network, ImageNetwork)
            free, loss = gone_on(network, self.rows, self.seed)
            kind, depth = f"network that goes on from {motions.name}", DEPTH - (not shifted)
            return FittedPredictor(kind, free, loss, SHIFTS, depth)

        return self.bench.once(("without", motions.name), fit)

    # --- comparing ------------------------------------------------------------------------------

    def losses(self, one: FittedPredictor, rows: ImageData) -> Tensor:
        """What a predictor loses on each row; it is asked once."""
        work = partial(one.predict, rows.x)
        return self._losses_of(self.bench.once(("predictions", one, rows), work), rows)

    def constant_losses(self, rows: ImageData) -> Tensor:
        """Those of a constant prediction."""
        return rows.losses(self.rows.constant.expand(len(rows.x), -1))

    def of_motions(self, motions: Motions, rows: ImageData) -> Compared:
        """The losses of a predictor that has a symmetry, and those of its rivals.

        The predictor is the one that does best on rows held out of the training: the average of
        the best rival over the group, or a network built with the symmetry.
        """
        # what a user asks for may be part of what networks were built with
        fits = [one for one in self.every if motions.is_usual or one.depth < DEPTH]
        others = rivals(fits, motions.parts)
        symmetric = self._symmetric(motions)
        chosen: FittedPredictor | None = min(symmetric, key=lambda one: one.loss, default=None)
        enough = PredictorThresholds.now().well_fitted * self.bench.margin
        if chosen is None or self._cost_of(chosen, others[0]) > enough:
            average = self._averaged(others[0], motions, self.apart)
            own = None if chosen is None else float(self.losses(chosen, self.apart).mean())
            chosen = None if own is None or float(average.mean()) < own else chosen
        if chosen is None:
            losses = self._averaged(others[0], motions, rows)
        else:
            losses = self.losses(chosen, rows)
        return losses, [self.losses(other, rows) for other in others]

    def of_layers(self, one: FittedPredictor, rows: ImageData) -> Compared:
        """The losses of a network whose first layers commute with motions, and of its rivals."""
        others = rivals(self.every, one.parts, one.depth)
        return self.losses(one, rows), [self.losses(other, rows) for other in others]

    def cost(self, compared: Compared) -> float | None:
        """What a symmetry costs on the rows apart, against its hardest rival; None if unknown."""
        losses, others = compared
        flat = self.constant_losses(self.apart).mean()
        costs = [
            float((losses.mean() - rival.mean()) / (flat - rival.mean()))
            for rival in others
            if rival.mean() < flat
        ]
        return max(costs, default=None)

    def test(self, compared: Compared) -> ClaimTest:
        """The test on the rows outside, against the rival that speaks loudest against the claim."""
        losses, others = compared
        flat, bench = self.constant_losses(self.outside), self.bench
        given = {"margin": bench.margin, "level": bench.level}
        tests = [
            claim_test(losses, rival, flat, groups=self.outside.groups, **given) for rival in others
        ]
        return max(tests, key=lambda test: test.p_value)

    def best_left(self) -> tuple[str, float]:
        """The best predictor, and what it leaves of the constant's loss on the rows outside."""
        best = min(self.every, key=lambda one: one.loss)
        left = self.losses(best, self.outside).mean() / self.constant_losses(self.outside).mean()
        return best.kind, float(left)

    # --- moved images ---------------------------------------------------------------------------

    def knows(self, motions: Motions) -> bool:
        """Whether the data say anything of moved images.

        Where targets stay, turned and mirrored images must be like those of the data: that a
        predictor does no worse for being averaged over what it knows nothing of is no symmetry.
        Targets that are images move along, and filters are the same all over an image. What a
        user asks for is tested in any case.
        """
        if not motions.is_usual or not motions.about_centre or self.rows.target is not None:
            return True
        return not SHIFTS.isdisjoint(motions.parts) or self.is_similar(motions)

    def is_similar(self, motions: Motions) -> bool:
        """Whether moved images look like those of the data."""

        def asked() -> bool:
            limits, still = PredictorThresholds.now(), SHIFTS.isdisjoint(motions.parts)
            apart = distinguishability(self.rows, motions, self.seed, wherever=still)
            # three times the error of ranking half of the rows, where these are few
            least = 0.5 + 3 / sqrt(3 * len(self.rows.x))
            return apart < max(limits.similar_images if still else limits.similar_shifted, least)

        return self.bench.once(("similar", motions.name), asked)

    # --- pieces ---------------------------------------------------------------------------------

    def _symmetric(self, motions: Motions) -> list[FittedPredictor]:
        if not motions.is_usual or not self.is_similar(motions):
            return []
        return [one for one in self.every if one.parts >= motions.parts and one.depth == DEPTH]

    def _averaged(self, one: FittedPredictor, motions: Motions, rows: ImageData) -> Tensor:
        """The losses of a predictor averaged over a group."""
        predictions = group_average(
            partial(outputs_of, one.network),
            motions.symmetry(rows),
            rows.x,
            elements=PredictorThresholds.now().image_elements,
            generator=self.seed,
        )
        return self._losses_of(predictions, rows)

    def _cost_of(self, one: FittedPredictor, rival: FittedPredictor) -> float:
        flat = float(self.constant_losses(self.apart).mean())
        best, own = (float(self.losses(each, self.apart).mean()) for each in (rival, one))
        return (own - best) / (flat - best) if best < flat else float("inf")

    def _losses_of(self, predictions: Tensor, rows: ImageData) -> Tensor:
        """The loss of each row; of classes, no surer than the rows held out allow."""
        if rows.task == "regression":
            return rows.losses(predictions)
        return doubtful_losses(predictions, rows.y, self.rows.constant, len(self.apart.x))
