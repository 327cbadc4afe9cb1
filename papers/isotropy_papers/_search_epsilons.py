"""Figures 9 and 10 of Basu et al. 2021: how good children are as deep Q-learning explores less."""

from __future__ import annotations

from inspect import signature
from itertools import pairwise
from math import inf
from pathlib import Path

import numpy as np

from isotropy.report import save_figure
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._search_replays import CHILDREN, PUBLISHED_DQN, Replays
from isotropy_papers._search_tables import AUGMENTATIONS
from isotropy_papers._statistics import mean_95

_QUICK = ("Aug1", "Aug3", "Aug5")


def epsilon_results(id: str, base: str, settings: Settings, progress: ProgressCallback) -> Result:
    """Mean validation accuracy of the children trained at each ε.

    Args:
        id: Of the experiment.
        base: The images.
        settings: Quick makes one search for each of three data sets, full 20 for each of six;
            ``seeds`` gives another number, ``models`` other data sets; ``out`` may hold tables,
            and keeps searches.
        progress: Called before each search.
    """
    from isotropy.search import DeepQ

    seeds = settings.or_else(seeds=20 if settings.full else 1)["seeds"]
    replays = Replays(settings, progress, published=True)
    published = signature(DeepQ).parameters["epsilon"].default
    starts = [*published, (inf, 0.0)]
    cells, gains = [], []
    quick = settings.models is None and not settings.full
    for row in _QUICK if quick else settings.chosen(list(AUGMENTATIONS)):
        found = [
            replays.search(base, row, PUBLISHED_DQN, settings.seed + k).accuracies
            for k in range(seeds)
        ]
        for (first, epsilon), (end, _) in pairwise(starts):
            parts = [one[int(first) : int(min(end, CHILDREN))] for one in found]
            if all(parts):
                mean, interval = mean_95([100 * float(np.mean(part)) for part in parts])
                cells.append(Cell(row, f"ε={epsilon:g}", mean, None, interval))
        of_row = [cell.ours for cell in cells if cell.row == row]
        gains.append(f"{row} {of_row[-1] - of_row[0]:+.1f}")
    notes = (
        f"mean validation accuracy in percent of the children trained at each ε, {seeds} searches "
        "of 1000 children against the table of all the paper's networks on its images, the best "
        "epoch of each, every set of groups a child of its own; a set met again trains nothing and "
        "is not counted again; interval: 1.96 standard errors over searches; published as a "
        "picture only",
        "from the first to the last ε, in points: " + ", ".join(gains),
    )
    return Result(id, cells, replays.close(), notes)


def draw_epsilons(result: Result, path: Path) -> Path:
    """Draw a curve for each data set against ε, from 1 down.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4), layout="constrained")
    axis = figure.subplots()
    columns = list(dict.fromkeys(cell.column for cell in result.cells))
    for number, row in enumerate(dict.fromkeys(cell.row for cell in result.cells)):
        cells = [cell for cell in result.cells if cell.row == row]
        places = [columns.index(cell.column) for cell in cells]
        spread = [cell.interval or (cell.ours, cell.ours) for cell in cells]
        axis.plot(places, [cell.ours for cell in cells], "o-", color=f"C{number}", label=row)
        low, high = zip(*spread, strict=True)
        axis.fill_between(places, low, high, color=f"C{number}", alpha=0.2)
    axis.set_xticks(range(len(columns)), [name.removeprefix("ε=") for name in columns])
    axis.set_xlabel("ε")
    axis.set_ylabel("mean validation accuracy, %")
    axis.legend(fontsize=7)
    return save_figure(figure, path)
