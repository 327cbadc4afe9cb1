"""Motions of images: shifts, turns and mirrors that may leave the target, or move it along."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from isotropy._run import OutOfTime
from isotropy.discovery.claims._image_motions import SHIFTS, Motions, asked_motions, usual_motions
from isotropy.discovery.claims._motion_claim import MotionClaim
from isotropy.discovery.predictors._image_network import DEPTH, working_grid
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.proposing._proposer import Note, Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._image_bench import ImageBench


@dataclass(frozen=True, eq=False)
class MotionProposer(Proposer):
    """Looks for motions that cost little on rows held out of the training of predictors.

    Args:
        candidates: Groups of the user's, on the pixels of every channel.
    """

    words = "fitting predictors of images"
    by = 0.7

    checks = True  # whether the images have such a motion

    candidates: Sequence[str] = ()

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """Motions, the largest groups of shifts first; what needs more comes after."""
        data = bench.problem.find
        assert isinstance(data, ImageData)
        images = ImageBench(bench)
        left = [*usual_motions(data), *asked_motions(self.candidates, data)]
        yield from map(Note, _notes(data))
        try:
            tell("fitting a predictor free of symmetry")
            images.free(tell)
            images.network("conv", DEPTH, "network of convolutions", tell)
            judged = _JudgedMotions(images, tell)
            while left:
                yield judged.proposal(left[0])
                left.pop(0)
        except (OutOfTime, KeyboardInterrupt):
            yield from (Tried(f"{one.name}: not tested") for one in left)
            raise


@dataclass(eq=False)
class _JudgedMotions:
    """Which motions are worth a test; each is judged in the light of those before it.

    Args:
        images: Predictors with and without motions.
        tell: Whom to tell how it goes on.
        dropped: What those are made of that are not worth it.
        built: What there are networks for.
        shifted: Whether all shifts seem to hold.
    """

    images: ImageBench
    tell: Tell
    dropped: list[frozenset[str]] = field(default_factory=list)
    built: set[frozenset[str]] = field(default_factory=set)
    shifted: bool = False

    def proposal(self, motions: Motions) -> Proposal:
        """The claim, or why there is none: not beyond a motion that has been dropped."""
        if motions.is_usual and any(parts <= motions.parts for parts in self.dropped):
            return _dropped(motions, None)
        if motions.is_usual:
            self._build_for(motions)
        cost, margin = self._cost(motions), self.images.bench.margin
        if motions.parts == SHIFTS:
            self.shifted = cost is not None and cost <= margin
        promising = cost is not None and cost <= ProposingThresholds.now().generous * margin
        if promising and self.images.knows(motions):
            return MotionClaim(motions, self.images.rows)
        if motions.is_usual:
            self.dropped.append(motions.parts)
        if promising:
            why = "unlike the images of the data, which say nothing of it"
            return Tried(f"{motions.name}: {why}")
        return _dropped(motions, cost)

    def _build_for(self, motions: Motions) -> None:
        """Train a network with a symmetry, where those that there are do not speak for it."""
        about, shifted, margin = motions.about_centre, self.shifted, self.images.bench.margin
        wanted = motions.parts | (SHIFTS if shifted else frozenset())
        if not about or wanted in self.built or not self.images.is_similar(motions):
            return
        if not SHIFTS.isdisjoint(motions.parts) and not shifted:
            return
        cost = self._cost(motions)
        if cost is not None and cost <= PredictorThresholds.now().well_fitted * margin:
            return
        self.built.add(wanted)
        self.images.with_motions(motions, self.tell, shifted=shifted)
        cost = self._cost(motions)
        if cost is not None and cost <= margin:
            self.images.going_on(motions, shifted=shifted)

    def _cost(self, motions: Motions) -> float | None:
        return self.images.cost(self.images.of_motions(motions, self.images.apart))


def _dropped(motions: Motions, cost: float | None) -> Tried:
    line = {"name": motions.name, "method": motions.method, "effect": cost}
    return Tried({**line, "p_value": None, "confirmed": False})


def _notes(data: ImageData) -> list[str]:
    """What is worth knowing of motions of these images."""
    _, height, width = data.image
    notes = [
        "shifts wrap around the edges; a claim is held against the best predictor that was "
        "built without it"
    ]
    shrink, size = working_grid(height, width)
    if shrink > 1 and data.target is None:
        whole = (height % shrink, width % shrink) == (0, 0)
        notes.append(
            f"networks see images averaged to {size[0]} by {size[1]}: their shifts are "
            + (f"those by multiples of {shrink} pixels" if whole else "no shifts of the image")
        )
    if height != width:
        notes.append(f"quarter turns were not tried: images of {height} by {width} are not square")
    return notes
