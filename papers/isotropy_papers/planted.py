"""Planted symmetries: how often continuous symmetry is found where it is, and where it is not."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.run import ProgressCallback, generator, spawn
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._planted_scores import CLOSE, PlantedOutcome, rate_interval, scores
from isotropy_papers._statistics import mean_95
from isotropy_papers.planted_problems import (
    PlantedProblem,
    planted_nulls,
    planted_problems,
    with_noise,
)

Search = Callable[[PlantedProblem, Tensor, Tensor, int], PlantedOutcome]

_NOISES, _SIZES = (0.0, 0.01, 0.05, 0.1), (1000, 4000, 16000)
_NOISE, _SIZE, _RUNS = 0.01, 4000, 5
_QUICK = ("so3", "so3-two", "so13-two", "scaling", "so3-broken-0.8", "cubic-4")
_QUICK_SIZE = 1000
_RATES = ("found", "dimension", "name", "exact", "rank")
NOTES = (
    "found: claimed, with the right dimension and name; cosine: of the largest principal angle "
    "between the generators and the planted ones before they are made exact; exact: proven to be "
    "the planted algebra, and equal to it where its basis is the textbook's; rank: the number of "
    "equivariant maps V⊗V → V⊗V is the true one",
    "cosines over all problems leave out those that are slightly broken: what is nearest to a "
    "symmetry of such a function is not quite the planted one",
    "rates with their 95 % intervals after Wilson; other numbers are means with 1.96 standard "
    "errors to either side; noise is relative to the standard deviation of the target",
    "false discoveries: claims of a symmetry on functions that have none, or whose symmetry is "
    "broken by more than the margin",
)


@dataclass(frozen=True)
class _Case:
    """One level of noise and one number of rows."""

    noise: float
    size: int

    def __str__(self) -> str:
        return f"noise {self.noise:g}, N={self.size}"


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Search planted problems for their symmetries, and score what is found.

    Args:
        settings: ``models`` are names of problems, or "positives", "nulls" or "all"; without
            them a few problems are run, all of them with ``full``. ``sizes`` are numbers of rows,
            ``seeds`` is the number of data sets for each problem. ``full`` takes four levels of
            noise and three sizes; otherwise noise is 1 % and rows are 4000, or 1000 where no
            problems are named.
        progress: Called before each search.

    Returns:
        Rates over all problems, then the scores of each problem. Nothing was published.
    """
    return bench(settings, progress, _search)


def bench(settings: Settings, progress: ProgressCallback, search: Search) -> Result:
    """The same with any search.

    Args:
        settings: See ``run``.
        progress: Called before each search.
        search: From a problem, inputs, noisy outputs and a seed to what is found.

    Example:
        >>> def nothing(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
        ...     return PlantedOutcome()
        >>> result = bench(Settings(models=("cubic-3",), seeds=2), lambda step: None, nothing)
        >>> [(cell.row, cell.column, cell.ours) for cell in result.cells][:1]
        [('all nulls', 'false discovery, noise 0.01, N=4000', 0.0)]
    """
    problems = {**planted_problems(), **planted_nulls()}
    names = _chosen(settings, problems)
    is_quick = not settings.full and settings.models is None
    default_sizes = _SIZES if settings.full else (_QUICK_SIZE if is_quick else _SIZE,)
    wanted = settings.or_else(sizes=default_sizes, seeds=1 if is_quick else _RUNS)
    noises = _NOISES if settings.full else (_NOISE,)
    cases = [_Case(noise, size) for noise in noises for size in wanted["sizes"]]
    searches = {
        f"{name}, {case}, run {number}": (problems[name], case, number)
        for case in cases
        for name in names
        for number in range(wanted["seeds"])
    }

    def compute(labels: list[str]) -> list[Any]:
        return [_scored(*searches[label], settings.seed, search) for label in labels]

    parts = Finished("planted", {"seed": settings.seed}, settings, progress)
    found = parts.get(list(searches), compute)
    cells: list[Cell] = []
    for case in cases:
        runs = {
            name: [found[f"{name}, {case}, run {number}"] for number in range(wanted["seeds"])]
            for name in names
        }
        cells += _cells_of_all(runs, problems, case)
        for name in names:
            cells += _cells_of_one(name, runs[name], case)
    return Result("planted", cells, parts.close(), NOTES)


def _chosen(settings: Settings, problems: dict[str, PlantedProblem]) -> list[str]:
    if settings.models is None:
        return list(problems) if settings.full else list(_QUICK)
    groups = {
        "all": list(problems),
        "positives": [name for name, problem in problems.items() if problem.holds],
        "nulls": [name for name, problem in problems.items() if not problem.holds],
    }
    asked = settings.chosen([*groups, *problems])
    among = {name for word in asked for name in groups.get(word, [word])}
    return [name for name in problems if name in among]


def _scored(
    problem: PlantedProblem, case: _Case, number: int, seed: int, search: Search
) -> dict[str, float]:
    inputs, noise, choices = spawn(spawn(generator(seed), number + 1)[number], 3)
    x = problem.sample(case.size, inputs)
    y = with_noise(problem.target(x), case.noise, noise)
    search_seed = int(torch.randint(2**31, (), generator=choices))
    return scores(problem, search(problem, x, y, search_seed))


def _cells_of_all(
    runs: dict[str, list[dict[str, float]]], problems: dict[str, PlantedProblem], case: _Case
) -> list[Cell]:
    cells = []
    positives = [one for name, several in runs.items() if problems[name].holds for one in several]
    nulls = [one for name, several in runs.items() if not problems[name].holds for one in several]
    if positives:
        rates = {name: [one[name] for one in positives] for name in _RATES}
        unbroken = [name for name in runs if problems[name].holds and not problems[name].broken]
        cosines = [one["cosine"] for name in unbroken for one in runs[name]]
        if cosines:
            rates[f"cosine ≥ {CLOSE}"] = [float(cosine >= CLOSE) for cosine in cosines]
        rates["refused"] = [one["refused"] for one in positives]
        cells += [_rate("all positives", f"{name}, {case}", rates[name]) for name in rates]
    if nulls:
        for name in ("false discovery", "refused"):
            cells.append(_rate("all nulls", f"{name}, {case}", [one[name] for one in nulls]))
    return cells


def _cells_of_one(name: str, runs: list[dict[str, float]], case: _Case) -> list[Cell]:
    cells = []
    for score in runs[0]:
        values, column = [one[score] for one in runs], f"{score}, {case}"
        if score in ("cosine", "seconds"):
            mean, interval = mean_95(values)
            cells.append(Cell(name, column, mean, None, interval))
        elif score != "refused" or any(values):
            cells.append(_rate(name, column, values))
    return cells


def _rate(row: str, column: str, values: list[float]) -> Cell:
    rate, interval = rate_interval(values)
    return Cell(row, column, rate, None, interval)


def _search(problem: PlantedProblem, x: Tensor, y: Tensor, seed: int) -> PlantedOutcome:
    """The library's own search, given the class of actions and nothing else of the problem."""
    from isotropy.discovery import GeneratorOptions, find_generators

    start = time.perf_counter()
    try:
        search = find_generators(
            x,
            y,
            blocks=problem.blocks or 1,
            options=GeneratorOptions(affine=problem.affine, output=problem.output),
            fit_models=False,
            seed=seed,
        )
    except ValueError as error:  # too few rows for the class, in so many words
        return PlantedOutcome(seconds=time.perf_counter() - start, refused=str(error))
    seconds = time.perf_counter() - start
    finding = search.finding
    chosen = search.chosen
    if chosen is None or chosen.snapped is None:
        return PlantedOutcome(claimed=finding is not None, seconds=seconds)
    size = problem.algebra.shape[-1]
    return PlantedOutcome(
        dimension=chosen.dimension,
        title=chosen.title,
        estimate=_square(chosen.estimate, size),
        generators=_square(chosen.snapped.generators, size),
        symmetry=None if finding is None else finding.symmetry,
        claimed=finding is not None,
        seconds=seconds,
    )


def _square(matrices: NDArray[Any], size: int) -> Tensor:
    """Generators as matrices of the problem's size: [A | b] has a row of zeros below."""
    square = torch.zeros(len(matrices), size, size, dtype=torch.float64)
    rows, columns = (min(size, width) for width in matrices.shape[1:])
    square[:, :rows, :columns] = torch.as_tensor(matrices)[:, :rows, :columns]
    return square


EXPERIMENT = Experiment(
    "planted", "Planted continuous symmetries: how often they are found, and false discoveries", run
)
