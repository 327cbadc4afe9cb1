"""Figure 2.5 of the thesis: test error against the number of training rows, by symmetry."""

from __future__ import annotations

from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotropy._run import ProgressCallback
from isotropy.data import Scaling, Task, inertia, lorentz_scattering, o5_invariant
from isotropy.nn import EMLP, MLP
from isotropy.papers._ensemble import Ensemble
from isotropy.papers._experiment import Cell, Experiment, Result, Settings
from isotropy.papers._finished import Finished
from isotropy.papers._statistics import median_interval
from isotropy.papers._training import Moves, Recipe, fit, squared_error
from isotropy.reps import Symmetry

SIZES = (30, 100, 300, 1000, 3000, 10000, 30000)

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
            Quick: 48 channels, a tenth of the epochs, one seed, 100 and 1000 rows.
        progress: Told before each cell.

    Returns:
        The median test error over seeds, beside the published mean.
    """
    full = settings.full
    chosen = settings.or_else(
        seeds=10 if full else 1,
        sizes=SIZES if full else (100, 1000),
        schedule="constant",
        channels=384 if full else 48,
        test_rows=5000,
    )
    tasks = {
        "O(5)": o5_invariant(),
        "inertia": inertia(),
        "Lorentz": lorentz_scattering("reference"),
    }
    names = list(dict.fromkeys(model for models in _PUBLISHED.values() for model in models))
    wanted = settings.chosen(names)
    jobs = [
        (name, model, size)
        for name in tasks
        for model in _PUBLISHED[name]
        if model in wanted
        for size in chosen["sizes"]
    ]
    depends: dict[str, Any] = {
        **{name: chosen[name] for name in ("seeds", "schedule", "channels", "test_rows")},
        "epochs": settings.epochs,
        "full": full,
        "seed": settings.seed,
    }
    parts = Finished("finzi2023/figure2.5", depends, settings, progress, len(jobs))
    cells = []
    for name, model, size in jobs:
        epochs = _epochs(size, settings)
        errors = parts.get(
            f"{name} {model} N={size}",
            partial(
                _test_errors,
                tasks[name],
                model,
                size,
                Recipe(epochs, schedule=chosen["schedule"]),
                seeds=[settings.seed + i for i in range(chosen["seeds"])],
                channels=chosen["channels"],
                test_rows=chosen["test_rows"],
                pool=2**16 if full else 2**13,
                device=settings.device,
            ),
        )
        theirs = dict(zip(SIZES, _PUBLISHED[name][model], strict=True)).get(size)
        median, interval = median_interval(errors)
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
        notes.append("quick: narrower networks, fewer epochs, sizes and seeds than published")
    return Result("finzi2023/figure2.5", cells, parts.close(), tuple(notes))


def _epochs(size: int, settings: Settings) -> int:
    if settings.epochs is not None:
        return settings.epochs
    published = min(ceil(900_000 / size), 1000)
    return published if settings.full else max(1, published // 10)


def _test_errors(
    task: Task,
    model: str,
    size: int,
    recipe: Recipe,
    *,
    seeds: list[int],
    channels: int,
    test_rows: int,
    pool: int,
    device: str,
) -> list[float]:
    """The test error of one model for each seed."""
    drawn = [task.splits(size, test=test_rows, generator=seed) for seed in seeds]
    scalings = [task.standardisation(*splits.train) for splits in drawn]

    def scaled(part: str) -> tuple[Tensor, Tensor]:
        rows = [getattr(splits, part) for splits in drawn]
        x = [s.inputs(x) for s, (x, _) in zip(scalings, rows, strict=True)]
        y = [s.outputs(y) for s, (_, y) in zip(scalings, rows, strict=True)]
        return torch.stack(x).to(device, torch.float32), torch.stack(y).to(device, torch.float32)

    symmetry = task.symmetry
    moves = None
    if model.startswith("EMLP-"):
        symmetry = _symmetry(task, model.removeprefix("EMLP-"))
        network: EMLP | MLP = EMLP(symmetry.rep_in, symmetry.rep_out, channels=channels)
    else:
        network = MLP(symmetry.rep_in, symmetry.rep_out, channels=channels)
    if model == "MLP+Aug":
        moves = Moves(symmetry, pool, seeds[0], device)
    ensemble = Ensemble(network, seeds, device)
    fit(ensemble, scaled("train"), scaled("validation"), recipe, seeds, moves=moves)
    return _errors(ensemble, scaled("test"), scalings)


def _errors(
    ensemble: Ensemble, rows: tuple[Tensor, Tensor], scalings: list[Scaling]
) -> list[float]:
    """Mean squared errors in the units of the data."""
    unit = torch.stack([scaling.output_scale for scaling in scalings]).to(rows[1]).unsqueeze(1)
    found: list[float] = squared_error(ensemble.predict(rows[0]) * unit, rows[1] * unit).tolist()
    return found


def _symmetry(task: Task, group: str) -> Symmetry:
    groups = {str(g): g for g in (task.symmetry.group, *task.also)}
    found = groups[group]
    return task.symmetry if found == task.symmetry.group else task.symmetry.restrict(found)


def plot(result: Result, path: Path) -> Path:
    """Draw the errors against the number of rows, one panel for each task.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy.papers._picture import draw_curves

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
