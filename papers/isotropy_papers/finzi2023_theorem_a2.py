"""Theorem A.2 of the thesis: without contractions an equivariant network may not learn a length."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from isotropy.groups import O
from isotropy.nn import EMLP
from isotropy.reps import Scalar, V
from isotropy.run import ProgressCallback, generator, spawn
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._statistics import median_interval
from isotropy_papers._training import NetworkRecipe, NetworkTraining, fit, squared_error

_MODELS: dict[str, dict[str, Any]] = {
    "gated": {"nonlinearity": "gated", "bilinear": False},
    "norm": {"nonlinearity": "norm", "bilinear": False},
    "gated+bilinear": {"nonlinearity": "gated", "bilinear": True},
}
_ROWS = 1000


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn ‖v‖ from v in R³ under O(3), with and without the bilinear layer.

    The input is odd and the output even, and neither a gate nor a norm of each object leads from
    one to the other: without contractions of two objects the output is a constant (A.1.4).

    Args:
        settings: Full: 384 channels, 200 epochs, ten seeds. Quick: 36, 30 and two.
        progress: Called before each model.

    Returns:
        For each model R² on the test rows, and the range of its outputs over the inputs beside
        the range of the target; "theirs" is what the theorem says.

    Example:
        >>> settings = Settings(models=("gated",), epochs=1, channels=12, test_rows=10)
        >>> [(cell.column, round(cell.ours, 3)) for cell in run(settings, lambda step: None).cells][
        ...     1
        ... ]
        ('range', 0.0)
    """
    chosen = settings.or_else(
        seeds=10 if settings.full else 2,
        epochs=200 if settings.full else 30,
        schedule="cosine",
        channels=384 if settings.full else 36,
        test_rows=5000,
    )
    seeds = [settings.seed + i for i in range(chosen["seeds"])]
    wanted = settings.chosen(list(_MODELS))

    def measured(names: list[str]) -> list[dict[str, list[float]]]:
        recipe = NetworkRecipe(chosen["epochs"], batch=100, schedule=chosen["schedule"], checks=20)
        train, validation, test = (
            _lengths(rows, seeds, settings, part)
            for part, rows in enumerate((_ROWS, _ROWS, chosen["test_rows"]))
        )
        trainings = []
        for name in names:
            network = EMLP(V, Scalar, O(3), channels=chosen["channels"], **_MODELS[name])
            ensemble = Ensemble(network, seeds, settings.device)
            trainings.append(NetworkTraining(ensemble, train, validation, recipe, seeds))
        fit(trainings)
        return [_measures(training.ensemble, test) for training in trainings]

    depends = {**chosen, "seed": settings.seed}
    finished = Finished("finzi2023/theorem-a.2", depends, settings, progress)
    found = finished.get(wanted, measured)
    cells = []
    for name, values in found.items():
        constant = not _MODELS[name]["bilinear"]
        r2, interval = median_interval(values["r2"])
        cells.append(Cell(name, "R²", r2, 0.0 if constant else None, interval))
        spread, interval = median_interval(values["range"])
        cells.append(Cell(name, "range", spread, 0.0 if constant else None, interval))
    notes = (
        f"‖v‖ learned from v ~ N(0, 1)³, {_ROWS} rows, {chosen['epochs']} epochs, "
        f"{chosen['channels']} channels; median of {chosen['seeds']} seeds",
        "range: largest minus smallest output over the test rows, divided by that of ‖v‖; "
        "interval: 2.5 to 97.5 % of bootstrapped medians; theirs: what the theorem says",
    )
    return Result("finzi2023/theorem-a.2", cells, finished.close(), notes)


def _lengths(rows: int, seeds: list[int], settings: Settings, part: int) -> tuple[Tensor, Tensor]:
    """Vectors and their lengths, a set for each seed; every part has a stream of its own."""
    drawn = [torch.randn(rows, 3, generator=spawn(generator(seed), 3)[part]) for seed in seeds]
    v = torch.stack(drawn).to(settings.device)
    return v, torch.linalg.vector_norm(v, dim=-1, keepdim=True)


def _measures(ensemble: Ensemble, test: tuple[Tensor, Tensor]) -> dict[str, list[float]]:
    v, length = test
    predicted = ensemble.predict(v)
    r2 = 1 - squared_error(predicted, length) / length.flatten(1).var(1, correction=0)
    ranges = [each.flatten(1).amax(1) - each.flatten(1).amin(1) for each in (predicted, length)]
    return {"r2": r2.tolist(), "range": (ranges[0] / ranges[1]).tolist()}


EXPERIMENT = Experiment(
    "finzi2023/theorem-a.2",
    "Without contractions an equivariant network cannot learn the length of a vector",
    run,
)
