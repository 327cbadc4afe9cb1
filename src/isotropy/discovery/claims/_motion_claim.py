"""A motion of images that leaves their target, or moves it along: its words, test and model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from math import ceil

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._claim import Claim, FittedModel
from isotropy.discovery.claims._image_motions import (
    SHIFTS,
    Motions,
    about_centre,
    moved_at_random,
    moved_together,
)
from isotropy.discovery.claims._statement import Statement
from isotropy.discovery.modelling._finding_models import error_of_model
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._image_network import DEPTH, PHASES, working_grid
from isotropy.discovery.predictors._image_predictors import (
    fit_image_network,
    free_network,
    strict_paths,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._image_bench import ImageBench
from isotropy.discovery.testing._tested import Tested
from isotropy.nn import Symmetrised
from isotropy.reps import Symmetry

_SHOWN, _MOVED, _LARGEST_SHOWN = 3, 3, 32
_DRAWS = 8  # of an element that changes something


@dataclass(frozen=True, eq=False)
class MotionClaim(Claim):
    """A group of motions of an image.

    Args:
        motions: The motions.
        data: How images and targets are laid out.
    """

    motions: Motions
    data: ImageData

    @cached_property
    def symmetry(self) -> Symmetry:
        """The group and its actions on rows."""
        return self.motions.symmetry(self.data)

    @cached_property
    def statement(self) -> Statement:
        """What is claimed."""
        return Statement(
            name=self.motions.name,
            group=str(self.motions.group),
            action=self.motions.action,
            method=self.motions.method,
            order=self.motions.order(),
            symmetry=self.symmetry,
            layout=self.data.layout,
        )

    def is_within(self, other: Claim) -> bool:
        """Whether another group of usual motions has all of these and more."""
        return isinstance(other, MotionClaim) and self.motions.is_within(other.motions)

    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """The cost of what has the symmetry, against the rival that speaks loudest against it."""
        del generator
        images = ImageBench(bench)
        return Tested(self, images.test(images.of_motions(self.motions, images.outside)))

    # --- modelling ------------------------------------------------------------------------------

    def fit(
        self, rows: ImageData, free: FreePredictor, seed: int, *, softened: bool
    ) -> FittedModel:
        """A network that has the motions exactly.

        Shifts along both axes are built into layers, turns and mirrors are averaged over. Another
        group is averaged over as a whole.
        """
        del free, softened
        seed = seed + 1
        if not self.motions.is_usual or not self.motions.parts >= SHIFTS:
            augment = partial(moved_together, self.symmetry, make_generator(seed))
            paths = strict_paths("conv", DEPTH - 1)
            network, inner, _ = fit_image_network(rows, paths, seed, augment=augment)
            model = Symmetrised(network, self.symmetry, generator=seed).eval()
            return model, {"kind": "symmetrised", "model": inner, "seed": seed}
        large = working_grid(*rows.image[1:])[0] > 1 and rows.target is None
        about = self.motions.about_centre
        turned = about_centre(self.motions, rows).symmetry(rows) if about else None
        network, spec, _ = fit_image_network(
            rows,
            strict_paths("conv", DEPTH),
            seed,
            averaged=about | ({PHASES} if large else set()),
            augment=None
            if turned is None
            else partial(moved_together, turned, make_generator(seed)),
        )
        return network, spec

    def rival(self, rows: ImageData, bench: Bench) -> FreePredictor:
        """A network whose layers are free, or whose last one is, where that is better.

        Of maps a network with free layers alone learns next to nothing.
        """
        return free_network(bench, rows, (0, DEPTH - 1) if rows.target is None else (DEPTH - 1,))

    def equivariance_error(self, model: nn.Module, rows: ImageData, seed: int) -> float | None:
        """The largest over random motions."""
        return error_of_model(model, rows.x, self.symmetry, seed + 1)

    # --- telling --------------------------------------------------------------------------------

    def examples(self, rows: ImageData, seed: int) -> NDArray[np.float64]:
        """Three images, each as it is and moved three times, of the given shape but at most 32.

        Returns:
            Shape (3, 4, …); pixels of large images are left out, at regular distances.
        """
        some, rng = rows.x[:_SHOWN], make_generator(seed)
        shown = torch.stack([some, *(self._moved_truly(rng, some) for _ in range(_MOVED))], 1)
        step = ceil(max(rows.image[1:]) / _LARGEST_SHOWN)
        maps = shown.unflatten(2, rows.image)[..., ::step, ::step]
        if rows.shape.channels_last:
            maps = maps.movedim(2, -1)
        elif len(rows.given) == 2:
            maps = maps.squeeze(2)
        found: NDArray[np.float64] = maps.double().numpy()
        return found

    def _moved_truly(self, rng: torch.Generator, rows: Tensor) -> Tensor:
        """Rows moved by elements that change something where a few draws find some."""
        moved = rows
        for _ in range(_DRAWS):
            again = moved_at_random(self.symmetry, rng, rows)
            same = (moved == rows).all(1, keepdim=True)
            moved = torch.where(same, again, moved)
        return moved
