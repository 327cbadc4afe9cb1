"""Models of findings in images: networks that have the symmetry exactly, beside a free one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._layer_claim import LayerClaim
from isotropy.discovery.claims._motions import SHIFTS, Motions, moved_together
from isotropy.discovery.modelling._model_comparison import ModelComparison
from isotropy.discovery.predictors._free_predictor import sample_losses
from isotropy.discovery.predictors._image_network import PHASES, working_grid
from isotropy.discovery.predictors._image_predictors import FREE, fit_image_network
from isotropy.discovery.predictors._motion_predictors import LAST_FREE, STRICT, about_centre
from isotropy.discovery.predictors._train_classifier import ReportEpoch, outputs_of
from isotropy.discovery.reading._image_data import ImageData
from isotropy.discovery.telling._finding import Finding
from isotropy.nn import Symmetrised

_SHARES = (0.25, 0.5)  # of the rows, for the curve
_LARGEST_CURVE = 150_000  # rows times pixels: more would take minutes
_ERROR_ROWS, _ERROR_DRAWS = 100, 4


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model with a symmetry, and how it does.

    Args:
        model: The model.
        spec: What ``build_model`` makes it from.
        comparison: Beside a free network.
        error: How far it is from the symmetry; None where no motion is claimed.
    """

    model: nn.Module
    spec: Mapping[str, Any]
    comparison: ModelComparison
    error: float | None

    def added_to(self, finding: Finding) -> Finding:
        """The finding with this model."""
        return replace(
            finding,
            model=self.model,
            model_spec=self.spec,
            comparison=self.comparison,
            equivariance_error=self.error,
            notes=(str(self.comparison), *finding.notes),
        )


class ImageModels:
    """Fits a model for each finding, and says how it compares with a free network.

    Shifts along both axes are built into layers, turns and mirrors are averaged over. Another
    group is averaged over as a whole.
    """

    def __init__(
        self, seen: ImageData, outside: ImageData, seed: int, report: Callable[[str], ReportEpoch]
    ) -> None:
        self._seen, self._outside, self._seed, self._report = seen, outside, seed, report
        self._free: dict[tuple[int, int], nn.Module] = {}

    def of(self, claim: Motions | LayerClaim, *, curve: bool = False) -> FittedModel:
        """The model of a claim."""
        model, spec = self._fitted(claim, self._seen)
        free = self._free_one(claim, self._seen)
        strict_outputs, free_outputs = (outputs_of(one, self._outside.x) for one in (model, free))
        strict, without = self._losses(strict_outputs), self._losses(free_outputs)
        constant = self._losses(self._seen.constant.expand(len(self._outside.x), -1))
        gap = strict - without
        classes = self._seen.task == "classification"
        comparison = ModelComparison(
            "cross-entropy" if classes else "mean squared error",
            float(strict.mean()),
            float(without.mean()),
            float(constant.mean()),
            float(gap.std() / len(gap) ** 0.5),
            len(gap),
            len(self._seen.x),
            self._accuracy(strict_outputs) if classes else None,
            self._accuracy(free_outputs) if classes else None,
        )
        if curve and len(self._seen.x) * self._seen.x.shape[1] <= _LARGEST_CURVE:
            comparison = replace(comparison, curve=self._curve(claim, comparison))
        return FittedModel(model, spec, comparison, self._error(model, claim))

    def _curve(
        self, claim: Motions | LayerClaim, whole: ModelComparison
    ) -> tuple[tuple[int, float, float], ...]:
        points = []
        for share in _SHARES:
            rows = self._seen.at_most(int(share * len(self._seen.x)), self._seed)
            models = self._fitted(claim, rows)[0], self._free_one(claim, rows)
            losses = [
                float(self._losses(outputs_of(one, self._outside.x)).mean()) for one in models
            ]
            points.append((len(rows.x), losses[0], losses[1]))
        return (*points, (whole.fitted, whole.strict, whole.free))

    def _fitted(
        self, claim: Motions | LayerClaim, rows: ImageData
    ) -> tuple[nn.Module, dict[str, Any]]:
        report = self._report(claim.name)
        if isinstance(claim, LayerClaim):
            network, spec, _ = fit_image_network(rows, claim.paths, self._seed, report=report)
            return network, spec
        if claim.is_usual and claim.parts >= SHIFTS:
            large = working_grid(*rows.image[1:])[0] > 1 and rows.target is None
            averaged = claim.about_centre | ({PHASES} if large else set())
            augment = None
            if claim.about_centre:
                turned = about_centre(claim, rows)
                augment = partial(moved_together, turned, make_generator(self._seed))
            network, spec, _ = fit_image_network(
                rows, STRICT, self._seed, averaged=averaged, augment=augment, report=report
            )
            return network, spec
        symmetry = claim.symmetry(rows)
        augment = partial(moved_together, symmetry, make_generator(self._seed))
        network, inner, _ = fit_image_network(
            rows, LAST_FREE, self._seed, augment=augment, report=report
        )
        model = Symmetrised(network, symmetry, generator=self._seed).eval()
        return model, {"kind": "symmetrised", "model": inner, "seed": self._seed}

    def _free_one(self, claim: Motions | LayerClaim, rows: ImageData) -> nn.Module:
        """A network whose layers are free; beside motions, whose last one is, where that is better.

        Rows held out of the training tell. Of maps a network with free layers alone learns next
        to nothing, and strict layers are compared with free ones.
        """
        ways = [FREE, LAST_FREE] if isinstance(claim, Motions) else [FREE]
        ways = ways if rows.target is None else [LAST_FREE]
        key = len(rows.x), len(ways)
        if key not in self._free:
            report = self._report("a network with free layers")
            fits = [fit_image_network(rows, paths, self._seed, report=report) for paths in ways]
            self._free[key] = min(fits, key=lambda fit: fit[2])[0]
        return self._free[key]

    def _losses(self, outputs: Tensor) -> Tensor:
        return sample_losses(outputs, self._outside.y, self._outside.task)

    def _accuracy(self, outputs: Tensor) -> float:
        return float((outputs.argmax(1) == self._outside.y).double().mean())

    @torch.no_grad()
    def _error(self, model: nn.Module, claim: Motions | LayerClaim) -> float | None:
        """‖f(gx) − g f(x)‖ / ‖f(x)‖ over rows and random elements; of layers, none is claimed."""
        if not isinstance(claim, Motions):
            return None
        rows = self._outside.x[:_ERROR_ROWS]
        outputs, size, off = outputs_of(model, rows), 0.0, 0.0
        rng = make_generator(self._seed)
        for _ in range(_ERROR_DRAWS):
            x, y = moved_together(claim.symmetry(self._seen), rng, rows, outputs)
            off += float((outputs_of(model, x) - y).square().sum())
            size += float(outputs.square().sum())
        return float((off / max(size, 1e-300)) ** 0.5)
