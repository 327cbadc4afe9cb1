"""Figure 2.5 of the thesis: test error against the number of training rows, by symmetry."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from isotropy.data import Standardisation, Task, inertia, lorentz_scattering, o5_invariant
from isotropy.nn import EMLP, MLP
from isotropy.run import ProgressCallback
from isotropy_papers._ensemble import Ensemble
from isotropy_papers._experiment import Cell, Experiment, Result, Schedule, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._statistics import median_interval
from isotropy_papers._training import Moves, NetworkRecipe, NetworkTraining, fit, squared_error

SIZES = (30, 100, 300, 1000, 3000, 10000, 30000)
# trainings that share a GPU at one time
_TOGETHER = 5
_QUICK_BATCH, _QUICK_STEPS = 100, 400

# test errors behind the figure, means of three runs, by size
_PUBLISHED = {
    "O(5)": {
        "EMLP-O(5)": (0.152, 0.0408, 0.0344, 0.0170, 0.0310, 0.0130, 0.0273),
        "EMLP-SO(5)": (0.110, 0.0415, 0.0384, 0.0198, 0.0320, 0.0231, 0.0279),
        "MLP": (28.1, 2.83, 0.248, 0.0892, 0.0623, 0.0616, 0.0622),
        "MLP+Aug": (0.476, 0.397, 0.0936, 0.0633, 0.0889, 0.0702, 0.0672),
    },
    "inertia": {
        "EMLP-O(3)": (4.11, 1.44, 0.303, 0.136, 0.0281, 0.0180, 0.0141),
        "EMLP-SO(3)": (6.91, 1.16, 0.316, 0.0604, 0.0291, 0.0185, 0.0153),
        "MLP": (13.4, 7.91, 4.94, 3.24, 0.840, 0.154, 0.112),
        "MLP+Aug": (4.64, 1.78, 0.464, 0.130, 0.112, 0.112, 0.106),
    },
    "Lorentz": {
        "EMLP-O13": (0.540, 0.00888, 0.00195, 3.30e-4, 2.66e-4, 2.64e-4, 1.58e-4),
        "EMLP-SO13p": (0.459, 0.0127, 0.00221, 3.30e-4, 2.24e-4, 1.99e-4, 1.98e-4),
        "EMLP-SO13": (0.511, 0.0147, 0.00258, 3.69e-4, 2.73e-4, 2.12e-4, 1.87e-4),
        "MLP": (0.733, 0.733, 0.697, 0.364, 0.0504, 0.0166, 0.0120),
        "MLP+Aug": (0.627, 0.190, 0.0397, 0.0125, 0.0108, 0.0134, 0.0118),
    },
}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train every model on every task at every size.

    Args:
        settings: Full: three layers of 384 channels, min(900000/N, 1000) epochs, ten seeds.
            Quick: 128 channels, 400 steps of 100 rows, one seed, 100 and 1000 rows, and of the
            EMLPs only those of the largest group.
        progress: Called before each cell.

    Returns:
        The median test error over seeds, beside the published mean.

    Example:
        >>> settings = Settings(sizes=(30,), models=("MLP",), epochs=1, channels=8, test_rows=10)
        >>> [(cell.row, cell.theirs) for cell in run(settings, lambda step: None).cells]
        [('O(5) MLP', 28.1), ('inertia MLP', 13.4), ('Lorentz MLP', 0.733)]
    """
    full = settings.full
    chosen = settings.or_else(
        seeds=10 if full else 1,
        sizes=SIZES if full else (100, 1000),
        schedule="constant" if full else "cosine",
        channels=384 if full else 128,
        test_rows=5000,
    )
    tasks = {
        "O(5)": o5_invariant(),
        "inertia": inertia(),
        "Lorentz": lorentz_scattering("reference"),
    }
    names = {
        model: None
        for name, models in _PUBLISHED.items()
        for model in models
        if full or model in ("MLP", "MLP+Aug", f"EMLP-{tasks[name].symmetry.group}")
    }
    wanted = settings.chosen(list(names))
    jobs = {
        f"{name} {model} N={size}": (name, model, size)
        for name in tasks
        for model in _PUBLISHED[name]
        if model in wanted
        for size in chosen["sizes"]
    }
    options = {name: chosen[name] for name in ("seeds", "schedule", "channels", "test_rows")}
    depends = {**options, "epochs": settings.epochs, "full": full, "seed": settings.seed}
    seeds = [settings.seed + i for i in range(chosen["seeds"])]

    def errors(labels: list[str]) -> list[list[float]]:
        fits = []
        for label in labels:
            name, model, size = jobs[label]
            recipe = _recipe(size, settings, chosen["schedule"])
            fits.append(_NetworkFit.of(tasks[name], model, size, recipe, seeds, chosen, settings))
        fit([each.training for each in fits])
        return [each.errors() for each in fits]

    parts = Finished("finzi2023/figure2.5", depends, settings, progress)
    found = parts.get(list(jobs), errors, together=_TOGETHER if settings.device != "cpu" else 1)
    cells = []
    for label, (name, model, size) in jobs.items():
        theirs = dict(zip(SIZES, _PUBLISHED[name][model], strict=True)).get(size)
        median, interval = median_interval(found[label])
        cells.append(Cell(f"{name} {model}", f"N={size}", median, theirs, interval))
    notes = [
        f"ours: median test MSE of {chosen['seeds']} seeds, each with data of its own; interval: "
        "2.5 to 97.5 % of bootstrapped medians; theirs: mean of 3 runs",
        f"Adam, learning rate 3e-3, {chosen['schedule']}; {chosen['channels']} channels; "
        "weights with the best validation error",
        "inputs and outputs scaled by one number for each type, from the training rows; errors "
        "in the units of the data",
    ]
    if not full:
        notes.append(
            f"quick: {_QUICK_STEPS} steps of {_QUICK_BATCH} rows, fewer models, sizes and seeds, "
            "and narrower networks than published"
        )
    return Result("finzi2023/figure2.5", cells, parts.close(), tuple(notes))


def _recipe(size: int, settings: Settings, schedule: Schedule) -> NetworkRecipe:
    if settings.full:
        epochs = settings.epochs or min(ceil(900_000 / size), 1000)
        return NetworkRecipe(epochs, schedule=schedule)
    batch = min(_QUICK_BATCH, size)
    epochs = settings.epochs or ceil(_QUICK_STEPS / (size // batch))
    return NetworkRecipe(epochs, batch=batch, schedule=schedule, checks=40)


@dataclass(frozen=True)
class _NetworkFit:
    """One model on one task at one size, for all seeds."""

    training: NetworkTraining
    test: tuple[Tensor, Tensor]
    scalings: list[Standardisation]

    @staticmethod
    def of(
        task: Task,
        model: str,
        size: int,
        recipe: NetworkRecipe,
        seeds: list[int],
        chosen: dict[str, Any],
        settings: Settings,
    ) -> _NetworkFit:
        drawn = [task.splits(size, test=chosen["test_rows"], generator=seed) for seed in seeds]
        scalings = [task.standardisation(*splits.train) for splits in drawn]

        def scaled(part: str) -> tuple[Tensor, Tensor]:
            rows = [getattr(splits, part) for splits in drawn]
            x = torch.stack([s.inputs(x) for s, (x, _) in zip(scalings, rows, strict=True)])
            y = torch.stack([s.outputs(y) for s, (_, y) in zip(scalings, rows, strict=True)])
            return x.to(settings.device, torch.float32), y.to(settings.device, torch.float32)

        moves = None
        if model == "MLP+Aug":
            pool = 2**16 if settings.full else 2**13
            moves = Moves(task.symmetry, pool, settings.seed, settings.device)
        ensemble = Ensemble(_network(task, model, chosen["channels"]), seeds, settings.device)
        training = NetworkTraining(
            ensemble, scaled("train"), scaled("validation"), recipe, seeds, moves=moves
        )
        return _NetworkFit(training, scaled("test"), scalings)

    def errors(self) -> list[float]:
        """Mean squared errors on the test rows, in the units of the data."""
        x, y = self.test
        unit = torch.stack([scaling.output_scale for scaling in self.scalings]).to(y).unsqueeze(1)
        predicted = self.training.ensemble.predict(x)
        found: list[float] = squared_error(predicted * unit, y * unit).tolist()
        return found


def _network(task: Task, model: str, channels: int) -> nn.Module:
    symmetry = task.symmetry
    if not model.startswith("EMLP-"):
        return MLP(symmetry.rep_in, symmetry.rep_out, channels=channels)
    groups = {str(group): group for group in (symmetry.group, *task.also)}
    group = groups[model.removeprefix("EMLP-")]
    if group != symmetry.group:
        symmetry = symmetry.restrict(group)
    return EMLP(symmetry.rep_in, symmetry.rep_out, channels=channels)


def plot(result: Result, path: Path) -> Path:
    """Draw the errors against the number of rows, one panel for each task.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._picture import draw_curves

    panels: dict[str, dict[str, list[tuple[float, Cell]]]] = {}
    for cell in result.cells:
        task, model = cell.row.split(" ", 1)
        curve = panels.setdefault(task, {}).setdefault(model, [])
        curve.append((float(cell.column.removeprefix("N=")), cell))
    return draw_curves(panels, path, "training rows", "test MSE")


EXPERIMENT = Experiment(
    "finzi2023/figure2.5",
    "Test error against training rows: EMLPs, MLPs and MLPs with augmentation",
    run,
    plot,
)
