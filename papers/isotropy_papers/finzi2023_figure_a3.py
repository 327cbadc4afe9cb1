"""Figure A.3 of the thesis: more transformations, and how fast random probes converge."""

from __future__ import annotations

from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from isotropy.equivariance import Layerwise, layerwise, lee
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import ImageSet, digest_of
from isotropy_papers._photographs import photographs
from isotropy_papers._trained_classifiers import (
    ACCURACY,
    Estimates,
    batch_size_on,
    cells_of,
    classifiers,
    correlations,
    of_lee,
    study,
)
from isotropy_papers._vision_models import resnet18

_ACTIONS = ("hyperbolic_rotation", "brightness", "stretch")
_COLUMNS = tuple(f"LEE {action.replace('_', ' ')}" for action in _ACTIONS)
_QUICK = ("CNN w16", "ResNet w8", "ViT w48", "Mixer w48")
_PROBES = (2, 5, 10, 20, 50, 100)
_LAYERS, _REPEATS, _REPEATED = 3, 8, 20
_ESTIMATE, _SCATTER = "estimate / exact, probes: ", "scatter of the estimates"


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Measure classifiers under more transformations, and the probe estimator against the truth.

    Args:
        settings: See `isotropy_papers._trained_classifiers.study`. The estimator: full takes a
            ResNet-18 of 1000 classes at 224 pixels, quick a narrow one of 100 classes at 64.
        progress: Called before each network.

    Returns:
        For each classifier its LEE under three transformations; for the largest layers of a random
        ResNet-18 the estimate of ‖C‖² by so many probes, divided by its exact value; and how far
        estimates scatter, beside what theory says. Nothing was published as numbers.

    Raises:
        ValueError: If CIFAR-10 has not been obtained.
    """
    id = "finzi2023/figureA.3"
    wanted = [each for each in classifiers(settings) if settings.full or each.name in _QUICK]

    def measure(model: nn.Module, images: ImageSet, count: int) -> Estimates:
        x, batch = images.test[0][:count], batch_size_on(settings.device)
        return {
            column: of_lee(lee(model, x, action, batch_size=batch))
            for column, action in zip(_COLUMNS, _ACTIONS, strict=True)
        }

    found = study(id, wanted, measure, settings, progress)
    cells = cells_of(found.found)
    trends = correlations(cells, list(found.found), ACCURACY, _COLUMNS)
    probes, source, seconds = _probe_cells(settings, progress)
    notes = (
        *found.notes,
        "the thesis says that more accurate networks are more equivariant to hyperbolic rotation, "
        "and sees little or no trend for brightness and stretch; ours, Spearman's ρ with accuracy: "
        f"{trends}; stretch here keeps the other axis, where the published code loses it",
        f"probes: a random ResNet-18 under translation along x, {source}; interval: one standard "
        f"error by theory, √(2/probes) of the exact value; scatter: relative standard deviation of "
        f"{_REPEATS} estimates by {_REPEATED} probes, root mean square over layers; theirs: theory",
    )
    return Result(id, [*cells, *probes], found.seconds + seconds, notes)


def _probe_cells(settings: Settings, progress: ProgressCallback) -> tuple[list[Cell], str, float]:
    size, width, classes = (224, 64, 1000) if settings.full else (64, 8, 100)
    images = photographs(size, 1, settings)
    depends = {
        "size": size, "seed": settings.seed, "probes": _PROBES, "images": digest_of(images.x),
    }  # fmt: skip
    parts = Finished("finzi2023/figureA.3-probes", depends, settings, progress)

    def measured(names: list[str]) -> list[dict[str, Any]]:
        net = resnet18(classes, width, "imagenet", seed=settings.seed).to(settings.device).eval()
        model = nn.Sequential(net, nn.Softmax(-1))
        return [probe_convergence(model, images.x, settings.seed) for _ in names]

    found = parts.get(["probes"], measured)["probes"]
    cells = []
    for layer, ratios in found["ratios"].items():
        for probes, ratio in zip(_PROBES, ratios, strict=True):
            error = sqrt(2 / probes)
            column = f"{_ESTIMATE}{probes}"
            cells.append(Cell(layer, column, ratio, None, (ratio - error, ratio + error)))
    cells.append(Cell("all layers", _SCATTER, found["scatter"], sqrt(2 / _REPEATED)))
    return cells, images.source, parts.close()


def probe_convergence(model: nn.Module, x: torch.Tensor, seed: int) -> dict[str, Any]:
    """Compare ‖C‖² of layers as probes estimate them with their exact values.

    Args:
        model: From an image to probabilities.
        x: One image, shape (1, c, h, w).
        seed: The seed of the probes.

    Returns:
        ``ratios``: for the layers that contribute most, the estimates by more and more probes
        divided by the exact value; ``scatter``: the relative standard deviation of an estimate by
        20 probes, as it was found in repetitions.
    """
    action = "translation_x"
    exact = _squares(layerwise(model, x, action))
    largest = sorted(exact, key=lambda name: -exact[name])[:_LAYERS]

    def estimates(probes: int, seed: int) -> dict[str, float]:
        found = layerwise(model, x, action, method="probes", probes=probes, generator=seed)
        return _squares(found)

    growing = [estimates(probes, seed) for probes in _PROBES]
    repeated = [estimates(_REPEATED, seed + 1 + i) for i in range(_REPEATS)]
    # a layer whose contribution is rounding alone says nothing of the estimator
    telling = [name for name in exact if exact[name] > 1e-6 * exact[largest[0]]]
    table = np.array([[run[name] / exact[name] for name in telling] for run in repeated])
    return {
        "ratios": {name: [run[name] / exact[name] for run in growing] for name in largest},
        "scatter": float(np.sqrt(table.var(axis=0, ddof=1).mean())),
    }


def _squares(found: Layerwise) -> dict[str, float]:
    return {layer.name.removeprefix("0."): layer.squared for layer in found.layers}


def plot(result: Result, path: Path) -> Path:
    """Draw each LEE against accuracy, and the estimates against the number of probes.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._equivariance_pictures import draw_scatter

    curves: dict[str, list[tuple[float, Cell]]] = {}
    for cell in result.cells:
        if cell.column.startswith(_ESTIMATE):
            probes = float(cell.column.removeprefix(_ESTIMATE))
            curves.setdefault(cell.row, []).append((probes, cell))
    return draw_scatter(result.cells, ACCURACY, _COLUMNS, path, curves)


EXPERIMENT = Experiment(
    "finzi2023/figureA.3", "More transformations, and the convergence of probes", run, plot
)
