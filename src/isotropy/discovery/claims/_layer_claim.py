"""Claims about layers: how far into a network its layers may commute with motions of the image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch

from isotropy._run import Patience
from isotropy.discovery.claims._claim import Claim, FittedModel, uncovered
from isotropy.discovery.claims._image_motions import SHIFTS, TURNS
from isotropy.discovery.claims._motion_claim import MotionClaim
from isotropy.discovery.claims._statement import LayerDetails, Statement
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._image_network import DEPTH, ImagePath
from isotropy.discovery.predictors._image_predictors import (
    FittedPredictor,
    Tell,
    fit_image_network,
    free_network,
    strict_paths,
)
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.reading._shape_reading import RowLayout
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._image_bench import ImageBench
from isotropy.discovery.testing._tested import Tested

LAYER_WORDS: Mapping[str, str] = {
    "factored": "none",
    "conv": "translation",
    "group_conv": "translation and quarter turns",
}


@dataclass(frozen=True, eq=False)
class LayerClaim(Claim):
    """The first layers of a network commute with motions of the image.

    Args:
        path: The strict path that they have: "conv" or "group_conv".
        depth: How many they are.
        grid: Height and width of the maps that the group acts on.
        learned: Whether the evidence proposes so many, or fewer are tried where these fail.
        table: A row of plain values for each layer of the network.
        layout: How images are laid out.

    Example:
        >>> LayerClaim("conv", 3, (8, 8), True).statement.name
        'translation in layers 0–2'
    """

    of_network: ClassVar[bool] = True

    path: ImagePath
    depth: int
    grid: tuple[int, int]
    learned: bool
    table: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    layout: RowLayout = field(default_factory=RowLayout, repr=False)

    @property
    def parts(self) -> frozenset[str]:
        """What the motions are made of."""
        return SHIFTS | TURNS if self.path == "group_conv" else SHIFTS

    @cached_property
    def statement(self) -> Statement:
        """What is claimed."""
        height, width = self.grid
        turned = self.path == "group_conv"
        which = "all layers" if self.depth == DEPTH else f"layers 0–{self.depth - 1}"
        which = "layer 0" if self.depth == 1 else which
        verb = "commutes" if self.depth == 1 else "commute"
        rest = ", so that the class stays" if self.depth == DEPTH else "; the others are free"
        return Statement(
            name=f"{LAYER_WORDS[self.path]} in {which}",
            group=f"p4({height})" if turned else f"Z({height})*Z({width})",
            action=(
                f"{which} of a network {verb} with shifts{' and turns' * turned} of "
                f"{height}×{width} maps{rest}"
            ),
            method="types of layers by the evidence" + ", and fewer of them" * (not self.learned),
            order=height * width * (4 if turned else 1),
            layout=self.layout,
            details=LayerDetails(
                tuple({**row, "strict": k < self.depth} for k, row in enumerate(self.table))
            ),
        )

    def is_within(self, other: Claim) -> bool:
        """Whether another claim says this and more."""
        if not isinstance(other, LayerClaim):
            return False
        larger = (len(other.parts), other.depth) > (len(self.parts), self.depth)
        return larger and self.parts <= other.parts and self.depth <= other.depth

    @classmethod
    def chosen(
        cls, own: Sequence[Tested], beside: Sequence[Tested], bench: Bench, patience: Patience
    ) -> list[Tested]:
        """What no other contains; of all layers only what is claimed of the task."""
        del bench, patience
        moving = frozenset[str]().union(
            *(
                one.claim.motions.parts
                for one in beside
                if one.reported and isinstance(one.claim, MotionClaim)
            )
        )
        why = "all layers make the class stay, which is claimed of motions or not at all"
        return [
            one.withdrawn(why) if one.reported and _says_too_much(one.claim, moving) else one
            for one in uncovered(own)
        ]

    def network(self, bench: Bench, tell: Tell | None = None) -> FittedPredictor:
        """The network that has it, fitted to the second part of the rows."""
        return ImageBench(bench).network(self.path, self.depth, self.statement.name, tell)

    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """The cost of its network, against the rival that speaks loudest against the claim."""
        del generator
        images = ImageBench(bench)
        return Tested(self, images.test(images.of_layers(self.network(bench), images.outside)))

    def fit(
        self, rows: ImageData, free: FreePredictor, seed: int, *, softened: bool
    ) -> FittedModel:
        """A network with these layers, the others as free as they were."""
        del free, softened
        network, spec, _ = fit_image_network(rows, strict_paths(self.path, self.depth), seed + 1)
        return network, spec

    def rival(self, rows: ImageData, bench: Bench) -> FreePredictor:
        """A network whose layers are free."""
        return free_network(bench, rows, (0,))


def _says_too_much(claim: Claim, moving: frozenset[str]) -> bool:
    """Whether layers would make the class stay under more than the motions that stand."""
    assert isinstance(claim, LayerClaim)
    return claim.depth == DEPTH and not claim.parts <= moving
