"""Figure 3.2 of the thesis: soft against hard symmetry, where it holds, nearly holds, or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from isotropy.report import save_figure
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._learned_trials import LEARNED, learned_errors
from isotropy_papers._residual_trials import LEVELS, STARTS, ResidualPlan, ResidualTrials
from isotropy_papers._training import NetworkRecipe

TASKS = ("inertia", "pendulum")
# λ of the flexible paths, of which validation rows choose one
FIXED = {"inertia": (1e-3, 1e-2, 0.1, 1.0), "pendulum": (1e-7, 1e-5)}
# trainings that share a GPU at one time
_TOGETHER = 4
_SUMMARY = {"median": 50, "25 %": 25, "75 %": 75, "least": 0, "most": 100}


def plan_of(task: str, settings: Settings) -> ResidualPlan:
    """How a task is run: as published in full, small and short otherwise.

    Args:
        task: "inertia" or "pendulum".
        settings: What is asked for.
    """
    full = settings.full
    pendulum = task == "pendulum"
    chosen = settings.or_else(
        seeds=10 if full else 2,
        epochs=500 if full else (8 if pendulum else 20),
        channels=(128 if pendulum else 384) if full else (24 if pendulum else 96),
        test_rows=(500 if pendulum else 1000) if full else (60 if pendulum else 300),
        schedule="constant",
    )
    recipe = NetworkRecipe(
        chosen["epochs"], batch=500 if full else 100, schedule=chosen["schedule"], checks=100
    )
    return ResidualPlan(
        tuple(settings.seed + i for i in range(chosen["seeds"])),
        recipe,
        chosen["channels"],
        3 if full else 2,
        chosen["test_rows"],
        settings.device,
    )


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train every model on every task at every level of symmetry.

    Args:
        settings: Full: ten seeds, 1000 rows and 384 channels (inertia), 500 chunks and 128 channels
            (pendulum), three hidden layers, 500 epochs (published: 1000 for the pendulum). Quick:
            inertia alone unless models are given, two seeds, fewer rows, narrower networks, 20
            epochs.
        progress: Called before each part.

    Returns:
        Five numbers for each box of the figure; nothing was published as numbers.
    """
    found, plans, seconds = trained_models(settings, progress, learned=True)
    cells: list[Cell] = []
    chosen_priors = []
    for which, errors in found.items():
        rows, prior = boxes(errors, which.split()[0])
        chosen_priors.append(f"{which} {prior:g}")
        cells += [
            Cell(f"{which}: {row}", column, float(np.percentile(values, share)))
            for row, values in rows.items()
            for column, share in _SUMMARY.items()
        ]
    notes = [
        f"test MSE of {len(plans['inertia'].seeds)} seeds, each with data of its own, in the units "
        "of the data; weights with the best validation error",
        "RPP: λ of the flexible paths with the best median validation error: "
        + ", ".join(chosen_priors),
        "RPP, learned: variances from the evidence, from two beginnings; inertia by learn_priors, "
        "without validation rows, the beginning with the larger evidence; pendulum by a diagonal "
        "curvature, the beginning with the smaller validation error",
        "approximate inertia: I + 0.3 (I z) zᵀ, as in the code; pendulum: as in the text",
    ]
    if not settings.full:
        note = (
            "quick: fewer rows, channels, epochs and seeds than published: too small for the claim"
        )
        left_out = "" if any(which.startswith("pendulum") for which in found) else "; no pendulum"
        notes.append(note + left_out)
    return Result("finzi2023/figure3.2", cells, seconds, tuple(notes))


def trained_models(
    settings: Settings, progress: ProgressCallback, *, learned: bool
) -> tuple[dict[str, dict[str, Any]], dict[str, ResidualPlan], float]:
    """Train all models of the tasks and levels that are asked for.

    Args:
        settings: What is asked for.
        progress: Called before each part.
        learned: Whether to train those with learned priors, too.

    Returns:
        What ``ResidualTrials.trained`` says by task and level, and by model; plans and seconds.
    """
    wanted = settings.chosen([f"{task} {level}" for task in TASKS for level in LEVELS])
    if not settings.full and settings.models is None:
        wanted = [which for which in wanted if which.startswith("inertia")]
    plans = {task: plan_of(task, settings) for task in TASKS}
    depends = {"full": settings.full, **{task: plan.identity for task, plan in plans.items()}}
    parts = Finished("finzi2023/figure3.2", depends, settings, progress)
    jobs = {
        f"{which}: {model}": (which, model)
        for which in wanted
        for model in models_of(which.split()[0])
        if learned or not is_learned(model)
    }

    # the pendulum's rows take long to integrate: once for all models
    trials_of = {
        f"{task} {level}": ResidualTrials(task, level, plans[task])
        for task in TASKS
        for level in LEVELS
    }

    def compute(labels: list[str]) -> list[Any]:
        trials = trials_of[jobs[labels[0]][0]]
        names = [jobs[label][1] for label in labels]
        if names[0].startswith(LEARNED):
            return [learned_errors(trials, name.removeprefix(f"{LEARNED} ")) for name in names]
        found = trials.trained(names)
        return [found[name] for name in names]

    for which in wanted:
        mine = [label for label, (other, _) in jobs.items() if other == which]
        alone = [label for label in mine if jobs[label][1].startswith(LEARNED)]
        batched = [label for label in mine if label not in alone]
        parts.get(batched, compute, _TOGETHER if settings.device != "cpu" else 1)
        parts.get(alone, compute)
    by_label = parts.get(list(jobs), compute)  # all are there
    found: dict[str, dict[str, Any]] = {which: {} for which in wanted}
    for label, (which, model) in jobs.items():
        found[which][model] = by_label[label]
    return found, plans, parts.close()


def is_learned(model: str) -> bool:
    """Whether the priors of a model are learned.

    Args:
        model: One of ``models_of``.
    """
    return model.removeprefix("RPP ").removeprefix(f"{LEARNED} ") in STARTS


def models_of(task: str) -> list[str]:
    """All that is trained for a task.

    Args:
        task: "inertia" or "pendulum".

    Example:
        >>> models_of("pendulum")[-2:]
        ['RPP held back', 'RPP open']
    """
    learned = [f"{LEARNED} {start}" if task == "inertia" else f"RPP {start}" for start in STARTS]
    return ["MLP", "EMLP", *(f"RPP {weight:g}" for weight in FIXED[task]), *learned]


def boxes(errors: dict[str, Any], task: str) -> tuple[dict[str, list[float]], float]:
    """Test errors of the four rows, and λ of the fixed prior.

    Args:
        errors: What was found for each of ``models_of``.
        task: The task.
    """
    fixed = {weight: errors[f"RPP {weight:g}"] for weight in FIXED[task]}
    best = min(fixed, key=lambda weight: float(np.median(fixed[weight]["validation"])))
    learned = [errors[model] for model in models_of(task)[-2:]]
    score = "evidence" if task == "inertia" else "validation"
    sign = -1 if score == "evidence" else 1
    picked = [
        tests[int(np.argmin(values))]
        for values, tests in zip(
            zip(*([sign * v for v in each[score]] for each in learned), strict=True),
            zip(*(each["test"] for each in learned), strict=True),
            strict=True,
        )
    ]
    rows = {
        "MLP": errors["MLP"]["test"],
        "EMLP": errors["EMLP"]["test"],
        "RPP": fixed[best]["test"],
        "RPP, learned": picked,
    }
    return rows, best


def plot(result: Result, path: Path) -> Path:
    """Draw the boxes, one panel for each task and level.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from matplotlib.figure import Figure

    table: dict[str, dict[str, dict[str, float]]] = {}
    for cell in result.cells:
        which, row = cell.row.split(": ")
        table.setdefault(which, {}).setdefault(row, {})[cell.column] = cell.ours
    tasks = [task for task in TASKS if any(which.startswith(task) for which in table)]
    figure = Figure(figsize=(10, 3.2 * len(tasks)), layout="constrained")
    axes = figure.subplots(len(tasks), len(LEVELS), squeeze=False)
    for i, task in enumerate(tasks):
        for j, level in enumerate(LEVELS):
            axis, rows = axes[i][j], table.get(f"{task} {level}", {})
            stats = [
                {
                    "label": name.replace(", ", ",\n"),
                    "med": box["median"],
                    "q1": box["25 %"],
                    "q3": box["75 %"],
                    "whislo": box["least"],
                    "whishi": box["most"],
                }
                for name, box in rows.items()
            ]
            if stats:
                axis.bxp(stats, showfliers=False)
                axis.set_yscale("log")
            axis.set_title(f"{task}, {level}")
            axis.set_ylabel("test MSE" if j == 0 else "")
    return save_figure(figure, path)


EXPERIMENT = Experiment(
    "finzi2023/figure3.2",
    "Soft symmetry (RPP) against EMLP and MLP, where a symmetry holds, nearly holds, or does not",
    run,
    plot,
)
