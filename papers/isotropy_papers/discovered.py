"""Continuous symmetry found in data alone, and networks that have it beside those given it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from math import ceil, exp, log
from operator import mul
from typing import Any

from isotropy.groups import DirectProduct, Scaling, Trivial
from isotropy.reps import Symmetry
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._searched_tasks import (
    Find,
    SearchedProblem,
    find_with_library,
    problems,
    searched,
)
from isotropy_papers._statistics import mean_95, median_interval
from isotropy_papers._training import NetworkRecipe, fit
from isotropy_papers.finzi2023_figure2_5 import _NetworkFit

_QUICK = ("O(5)", "inertia")
_QUICK_STEPS, _QUICK_BATCH = 300, 100
# the symmetry of each seed, as text, for the task, the row and the size
_Plans = dict[tuple[str, str, int], dict[int, str]]
_GIVEN, _FOUND, _REST = "EMLP, given", "EMLP, discovered", "EMLP, discovered, scalings left out"


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Find the symmetry of each task, and train EMLPs with it and with the one that is known.

    Args:
        settings: ``models`` are names of tasks. Full: every task, one search for each of five
            seeds, 384 channels, 1000 training rows. Quick: O(5) and inertia, one search, two
            seeds, 128 channels, 300 steps.
        progress: Called before each part.

    Returns:
        What the searches found, and test errors. Nothing was published.
    """
    return compare(settings, progress, find_with_library)


def compare(settings: Settings, progress: ProgressCallback, find: Find) -> Result:
    """The same with any search.

    Args:
        settings: See ``run``.
        progress: Called before each part.
        find: From inputs, outputs, hints and a seed to what is found.

    Example:
        >>> from isotropy_papers._searched_tasks import Found
        >>> settings = Settings(models=("O(5)",), seeds=1, epochs=1, channels=16, test_rows=10)
        >>> result = compare(settings, lambda step: None, lambda *_: Found())
        >>> [cell.row for cell in result.cells if cell.column.startswith("test")]
        ['O(5) MLP', 'O(5) EMLP, given']
    """
    known = problems()
    names = settings.chosen(list(known))
    if settings.models is None and not settings.full:
        names = list(_QUICK)
    wanted = settings.or_else(
        seeds=5 if settings.full else 2,
        sizes=(1000,),
        schedule="cosine",
        channels=384 if settings.full else 128,
        test_rows=5000 if settings.full else 2000,
    )
    seeds = [settings.seed + i for i in range(wanted["seeds"])]
    depends = {name: wanted[name] for name in ("schedule", "channels", "test_rows")}
    depends |= {"epochs": settings.epochs, "full": settings.full, "seed": settings.seed}
    parts = Finished("discovered", depends, settings, progress)
    asked = {
        name: [(f"search {seed}", known[name].hints, seed) for seed in _searches(settings, seeds)]
        for name in names
    }
    looks = {
        name: [(look, hints, settings.seed) for look, hints in known[name].looks.items()]
        for name in (names if settings.full else [])
    }
    found = _found(parts, known, asked, find)
    seen = _found(parts, known, looks, find)
    plans: _Plans = {}
    cells, notes = [], []
    for name in names:
        searches = list(found[name].values())
        cells += _search_cells(name, searches, len(known[name].algebra))
        notes += _names(f"{name}, {known[name].rows} rows", searches)
        by_seed = {seed: searches[i % len(searches)]["symmetry"] for i, seed in enumerate(seeds)}
        for row, plan in _plan(known[name], by_seed).items():
            plans |= {(name, row, size): plan for size in wanted["sizes"]}
    measured = _measured(parts, known, plans, wanted, settings)
    for (name, row, size), errors in measured.items():
        cells += _error_cells(f"{name} {row}", size, errors, measured[name, _GIVEN, size])
    for name, by_look in seen.items():
        for look, result in by_look.items():
            cells += _class_cells(f"{name}, {look}", result)
    seconds = parts.close() + _seconds(found) + _seconds(seen)
    return Result("discovered", cells, seconds, (*notes, *_about(wanted, settings.full)))


def _searches(settings: Settings, seeds: list[int]) -> list[int]:
    return seeds if settings.full else seeds[:1]


def _found(
    parts: Finished,
    known: Mapping[str, SearchedProblem],
    asked: Mapping[str, list[tuple[str, Mapping[str, Any], int]]],
    find: Find,
) -> dict[str, dict[str, Any]]:
    """What each search of each task found."""
    jobs = {
        f"{name}, {label}": (known[name], hints, seed)
        for name, searches in asked.items()
        for label, hints, seed in searches
    }
    done = parts.get(list(jobs), lambda labels: [searched(*jobs[label], find) for label in labels])
    return {
        name: {label: done[f"{name}, {label}"] for label, _, _ in searches}
        for name, searches in asked.items()
    }


def _seconds(found: Mapping[str, Mapping[str, Any]]) -> float:
    return float(sum(one["seconds"] for by in found.values() for one in by.values()))


def _measured(
    parts: Finished,
    known: Mapping[str, SearchedProblem],
    plans: _Plans,
    wanted: Mapping[str, Any],
    settings: Settings,
) -> dict[tuple[str, str, int], dict[int, float]]:
    """The error of each seed; a network that several rows share is trained once."""
    labels = {
        (name, text, size, tuple(seeds)): (
            f"{name}, {f'EMLP {text}' if text else 'MLP'}, N={size}, seeds {seeds}"
        )
        for (name, _, size), plan in plans.items()
        for text, seeds in _by_text(plan).items()
    }
    jobs = {label: job for job, label in labels.items()}

    def train(asked: list[str]) -> list[list[float]]:
        trained = []
        for name, text, size, seeds in (jobs[label] for label in asked):
            trained.append(_errors(known[name], text, size, list(seeds), wanted, settings))
        return trained

    errors = parts.get(list(jobs), train)
    measured = {}
    for (name, row, size), plan in plans.items():
        by_seed: dict[int, float] = {}
        for text, seeds in _by_text(plan).items():
            label = labels[name, text, size, tuple(seeds)]
            by_seed.update(zip(seeds, errors[label], strict=True))
        measured[name, row, size] = by_seed
    return measured


def _plan(problem: SearchedProblem, by_seed: Mapping[int, str]) -> dict[str, dict[int, str]]:
    """The symmetry of the network of each row and seed, as text; empty for none."""
    found = {seed: text for seed, text in by_seed.items() if text}
    rest = {seed: _without_scalings(text) for seed, text in found.items()}
    plan = {"MLP": dict.fromkeys(by_seed, ""), _GIVEN: dict.fromkeys(by_seed, str(problem.given))}
    if found:
        plan[_FOUND] = found
    if rest != found:
        plan[_REST] = rest
    return plan


def _without_scalings(text: str) -> str:
    symmetry = Symmetry.parse(text)
    group = symmetry.group
    if not isinstance(group, DirectProduct) or not any(
        isinstance(factor, Scaling) for factor in group.factors
    ):
        return text
    kept = [Trivial(f.d) if isinstance(f, Scaling) else f for f in group.factors]
    return str(symmetry.restrict(reduce(mul, kept)))


def _by_text(plan: Mapping[int, str]) -> dict[str, list[int]]:
    """The seeds of each symmetry."""
    groups: dict[str, list[int]] = {}
    for seed, text in plan.items():
        groups.setdefault(text, []).append(seed)
    return groups


def _errors(
    problem: SearchedProblem,
    text: str,
    size: int,
    seeds: list[int],
    wanted: Mapping[str, Any],
    settings: Settings,
) -> list[float]:
    """Mean squared errors on test rows, one for each seed; as in Figure 2.5 of the thesis."""
    symmetry = Symmetry.parse(text) if text else problem.given
    task = replace(problem.task, symmetry=symmetry, also=())
    model = f"EMLP-{symmetry.group}" if text else "MLP"
    batch = min(500 if settings.full else _QUICK_BATCH, size)
    steps = 2 * ceil(900_000 / 1000) if settings.full else _QUICK_STEPS
    epochs = settings.epochs or ceil(steps / (size // batch))
    recipe = NetworkRecipe(epochs, batch=batch, schedule=wanted["schedule"], checks=100)
    one = _NetworkFit.of(task, model, size, recipe, seeds, dict(wanted), settings)
    fit([one.training])
    return one.errors()


def _search_cells(name: str, searches: Sequence[Mapping[str, Any]], dimension: int) -> list[Cell]:
    columns = {
        "dimension found": "dimension",
        "confirmed": "confirmed",
        "cosine before the snap": "cosine",
        "exact after it": "exact",
        "seconds": "seconds",
    }
    cells = [Cell(f"{name} search", "true dimension", float(dimension))]
    for column, key in columns.items():
        mean, interval = mean_95([one[key] for one in searches])
        cells.append(Cell(f"{name} search", column, mean, None, interval))
    return cells


def _names(what: str, searches: Sequence[Mapping[str, Any]]) -> list[str]:
    counts: dict[str, int] = {}
    for one in searches:
        name = one["name"] or "nothing"
        counts[name] = counts.get(name, 0) + 1
    return [f"{what}: {name} in {n} of {len(searches)}" for name, n in counts.items()]


def _error_cells(
    row: str, size: int, errors: Mapping[int, float], given: Mapping[int, float]
) -> list[Cell]:
    median, interval = median_interval(list(errors.values()))
    cells = [Cell(row, f"test MSE, N={size}", median, None, interval)]
    if errors is not given:
        mean, spread = mean_95([log(error / given[seed]) for seed, error in errors.items()])
        ends = None if spread is None else (exp(spread[0]), exp(spread[1]))
        cells.append(Cell(row, f"ratio to given, N={size}", exp(mean), None, ends))
    return cells


def _class_cells(label: str, look: Mapping[str, Any]) -> list[Cell]:
    cells = []
    for action, title, dimension, chosen in look["classes"]:
        words = title.split(", acting")[0]
        column = f"dimension, {words}{', chosen' if chosen else ''}"
        cells.append(Cell(f"{label}: {action}", column, float(dimension)))
    return cells


def _about(wanted: Mapping[str, Any], full: bool) -> list[str]:
    notes = [
        "searches see rows of their own, in the number stated, and are told the columns of each "
        "block, and of inertia that the output is a matrix; cosine: of the largest principal "
        "angle between the generators and the true ones before they are made exact; exact: their "
        "spans agree to 1e-8 afterwards",
        f"errors: median of {wanted['seeds']} seeds, with 2.5 to 97.5 % of bootstrapped medians; "
        "ratios: geometric mean of the ratios seed by seed, on the same rows, with 1.96 standard "
        "errors of its logarithm; other numbers are means likewise",
        "given: the connected group that is known; discovered: the symmetry as the search gives "
        "it; where both are written alike the network is one and the ratio is 1",
        "scalings left out: the same symmetry restricted to its other factors; with scalings, "
        "hidden layers hold tensors of every weight, most of which such inputs cannot reach",
        f"Adam, learning rate 3e-3, {wanted['schedule']}; {wanted['channels']} channels; weights "
        "with the best validation error",
    ]
    if full:
        notes.append(
            "nothing told: all classes of actions are tried, and larger algebras than the "
            "textbook's are right: scattering is quadratic in the momenta of either particle, so "
            "that one pair may grow as the other shrinks; a mass may grow as its position "
            "shrinks; a second SO(2) of the pendulum turns a normal mode of small swings, and "
            "holds only nearly"
        )
    else:
        notes.append(f"quick: {_QUICK_STEPS} steps of {_QUICK_BATCH} rows, one search for a task")
    return notes


EXPERIMENT = Experiment(
    "discovered", "EMLPs with symmetries found in data beside EMLPs with symmetries given", run
)
