"""Fitted predictors of images, what they were built with, and whom a claim is held against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor, nn

from isotropy.discovery.claims._image_motions import SHIFTS
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._image_network import DEPTH
from isotropy.discovery.predictors._image_predictors import (
    fit_image_network,
    fit_linear,
    fit_pixels,
    strict_paths,
)
from isotropy.discovery.predictors._train_classifier import ReportEpoch, outputs_of
from isotropy.discovery.reading._image_data import ImageData

if TYPE_CHECKING:
    from isotropy.discovery.testing._bench import Bench

Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class FittedPredictor:
    """A predictor of images, and how far it was built with a symmetry.

    Args:
        kind: What it is, in a few words.
        network: From rows of pixels to logits or numbers.
        loss: On rows held out of its training.
        parts: What the motions are made of that its first layers commute with.
        depth: How many layers these are.
    """

    kind: str
    network: nn.Module
    loss: float
    parts: frozenset[str] = frozenset()
    depth: int = 0

    def predict(self, x: Tensor) -> Tensor:
        """Logits or numbers of rows of pixels, float64."""
        return outputs_of(self.network, x)


def rivals(
    fitted: Sequence[FittedPredictor], parts: frozenset[str], depth: int = DEPTH
) -> list[FittedPredictor]:
    """Whom a claim is held against: for each part of it, the best predictor built without it.

    A claim about turns is thus held against networks that have learned as much as one can that
    commutes with shifts, and not just against free ones, that may have learned little.

    Returns:
        The rivals, each once, the best first.

    Example:
        >>> free = FittedPredictor("free", nn.Identity(), 0.9)
        >>> shifts = FittedPredictor("conv", nn.Identity(), 0.1, frozenset({"up", "across"}), 4)
        >>> [rival.kind for rival in rivals([free, shifts], frozenset({"turn"}))]
        ['conv']
        >>> [rival.kind for rival in rivals([free, shifts], frozenset({"turn", "up"}))]
        ['conv', 'free']
    """
    chosen = set()
    for part in sorted(parts):
        without = [one for one in fitted if part not in one.parts or one.depth < depth]
        chosen.add(min(without, key=lambda one: one.loss))
    return sorted(chosen, key=lambda one: one.loss)


@dataclass(frozen=True, eq=False)
class FreeImagePredictor(FreePredictor):
    """The best of several predictors of images that are built without a symmetry.

    A network of convolutions whose last layer is free has learned almost all that one of
    convolutions alone can; beside it stand a network of plain pixels and, for numbers, a linear
    map.

    Args:
        among: All of them.
    """

    among: tuple[FittedPredictor, ...] = ()

    @staticmethod
    def fitted(data: ImageData, seed: int, tell: Tell | None = None) -> FreeImagePredictor:
        """Those of some rows.

        Args:
            data: The rows.
            seed: Of weights and batches.
            tell: Whom to tell how it goes on.
        """
        every = []
        if data.target is None:
            network, loss = fit_pixels(data, seed, epochs_told(tell, "a network of pixels"))
            every.append(FittedPredictor("network of pixels", network, loss))
        if data.task == "regression":
            network, loss = fit_linear(data, seed)
            every.append(FittedPredictor("linear map of pixels", network, loss))
        kind = "network whose last layer is free"
        network, _, loss = fit_image_network(
            data, strict_paths("conv", DEPTH - 1), seed, report=epochs_told(tell, kind)
        )
        every.append(FittedPredictor(kind, network, loss, SHIFTS, DEPTH - 1))
        best = min(every, key=lambda one: one.loss)
        flat = data.losses(data.constant.expand(len(data.x), -1)).mean()
        left = best.loss / max(float(flat), 1e-300)
        return FreeImagePredictor(best.kind, best.predict, data.constant, left, tuple(every))


def free_network(bench: Bench, rows: ImageData, ways: Sequence[int]) -> FreePredictor:
    """A network free of a symmetry that a model is held against, fitted to the same rows.

    Args:
        bench: Keeps what is fitted.
        rows: The rows.
        ways: How many of the first layers may be convolutions; the best is taken.
    """
    fits = []
    for depth in ways:
        fit = partial(fit_image_network, rows, strict_paths("conv", depth), bench.seed + 1)
        fits.append(bench.once(("free network", rows, depth), fit))
    network, _, loss = min(fits, key=lambda fit: fit[2])
    return FreePredictor("network", partial(outputs_of, network), rows.constant, loss)


def epochs_told(tell: Tell | None, what: str) -> ReportEpoch | None:
    """What a training tells after each epoch."""
    if tell is None:
        return None
    return lambda epoch, epochs: tell(f"{what}: epoch {epoch} of {epochs}")
