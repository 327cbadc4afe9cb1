"""Models of findings in images: networks that have the symmetry exactly, beside a free one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.discovery.confirming._free_predictor import sample_losses
from isotropy.discovery.images._image_data import ImageData
from isotropy.discovery.images._image_motions import SHIFTS, TURNS, Motions, moved_at_random
from isotropy.discovery.images._image_network import DEPTH, ImagePath, PointGroup
from isotropy.discovery.images._image_predictors import FREE, fit_image_network
from isotropy.discovery.images._layer_claims import LayerClaim
from isotropy.discovery.images._train_classifier import Told, logits
from isotropy.nn import Symmetrised


class ImageModels:
    """Fits a model for each finding, and says how it compares with a free network.

    A symmetry with all shifts is built into layers. No layer commutes with turns, mirrors or
    shifts along one axis alone: there it is the average of a free network over the group, trained
    on images moved at random.

    Args:
        seen: What to fit to.
        outside: What to compare on.
        seed: Of weights, batches and random motions.
        told: Makes what is called after each epoch, from words.
    """

    def __init__(
        self, seen: ImageData, outside: ImageData, seed: int, told: Callable[[str], Told]
    ) -> None:
        self._seen, self._outside, self._seed, self._told = seen, outside, seed, told
        self._made: dict[str, tuple[nn.Module, dict[str, Any]]] = {}

    def of(self, claim: Motions | LayerClaim) -> tuple[nn.Module, dict[str, Any], str]:
        """The model of a claim, its description, and a note on its loss."""
        if isinstance(claim, Motions) and not claim.parts >= SHIFTS:
            model, spec = self._averaged(claim)
        else:
            strict: list[list[ImagePath]] = [
                ["conv"] if claim.parts == SHIFTS else ["group_conv"]
            ] * DEPTH
            paths = strict if isinstance(claim, Motions) else claim.paths
            mirrored = not claim.parts <= SHIFTS | TURNS
            model, spec = self._network(paths, claim.name, "p4m" if mirrored else "p4")
        free, _ = self._network(FREE, "a network with free layers")
        constant = self._seen.constant.expand(len(self._outside.x), -1)
        losses = {
            "model with the symmetry": self._loss(logits(model, self._outside.x)),
            "free network": self._loss(logits(free, self._outside.x)),
            "constant": self._loss(constant),
        }
        texts = ", ".join(f"{name} {loss:.4g}" for name, loss in losses.items())
        note = f"mean loss on the {len(self._outside.x)} rows held out: {texts}"
        return model, spec, note

    def _network(
        self, paths: list[list[ImagePath]], name: str, group: PointGroup = "p4"
    ) -> tuple[nn.Module, dict[str, Any]]:
        key = f"{paths} {group}"
        if key not in self._made:
            model, spec, _ = fit_image_network(
                self._seen, paths, self._seed, group=group, told=self._told(name)
            )
            self._made[key] = model, spec
        return self._made[key]

    def _averaged(self, claim: Motions) -> tuple[nn.Module, dict[str, Any]]:
        symmetry = claim.symmetry(self._seen)
        augment = partial(moved_at_random, symmetry, make_generator(self._seed))
        network, inner, _ = fit_image_network(
            self._seen, FREE, self._seed, augment=augment, told=self._told(claim.name)
        )
        model = Symmetrised(network, symmetry, generator=self._seed).eval()
        return model, {"kind": "symmetrised", "model": inner, "seed": self._seed}

    def _loss(self, said: Tensor) -> float:
        return float(sample_losses(said, self._outside.y, "classification").mean())
