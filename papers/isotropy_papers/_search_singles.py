"""Tables 4 and 5 of Basu et al. 2021: networks with one group each on images moved by one each."""

from __future__ import annotations

import time

import numpy as np

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._search_published import CODE_ORDER
from isotropy_papers._search_selection import INTERVAL_NOTE, mean_accuracy, scores
from isotropy_papers._search_tables import SINGLES, published_plan, table_of

ORDER_NOTE = (
    "columns Eq6 to Eq12 are the groups that the paper's code builds there: vertical, left "
    "vertical, right vertical, top horizontal, bottom horizontal, rotation and horizontal "
    "scramble; IAug6 to IAug12 are rotation, horizontal, vertical, left vertical, right vertical, "
    "top horizontal and bottom horizontal scramble: Eq6 is not the group of IAug6"
)
# the column whose group is that of the images
_MATCHING = {k: CODE_ORDER.index(SINGLES[k].groups[0]) + 1 for k in range(1, 13)}


def single_results(
    id: str,
    base: str,
    published: dict[str, tuple[float, ...]],
    settings: Settings,
    progress: ProgressCallback,
) -> Result:
    """Accuracy of thirteen networks on images moved in thirteen ways.

    Args:
        id: Of the experiment.
        base: The images.
        published: Printed accuracies.
        settings: Quick reads stored tables; full trains all anew. ``models`` are rows.
        progress: Called for each seed.
    """
    start = time.perf_counter()
    cells, dropped, helped, runs = [], [], [], 0
    for row in settings.chosen(list(published)):
        plan = published_plan(base, row, 10_000, "singles")
        table = table_of(plan, settings, progress, networks=SINGLES)
        best = 100 * (table.test.max(2) / table.test_rows)
        dropped.append(best - scores(table, best_epoch=True)[1])
        runs = table.seeds
        for column, name in enumerate(("", *CODE_ORDER)):
            values = best[[one.groups for one in table.networks].index((name,) if name else ())]
            mean, interval = mean_accuracy(values, table.test_rows)
            cells.append(Cell(row, f"Eq{column}", mean, published[row][column], interval))
        if row != "IAug0":
            helped.append(_helped(row, best, published[row]))
    notes = [
        f"test accuracy in percent of the best epoch of 10, as published, mean over {runs} seeds, "
        "10,000 training and 10,000 test images; theirs: one run, best epoch on 1000 test images, "
        "of which one standard error is .6 to 1.5 points",
        f"with the epoch chosen on validation images ours are {np.mean(dropped):.2f} lower",
        INTERVAL_NOTE,
        ORDER_NOTE,
        "networks as published: translations by 4 pixels, one scalar bias behind each rectifier",
        _agreement(cells),
    ]
    if helped:
        notes.append("the group of the images against no group, in points: " + "; ".join(helped))
    return Result(id, cells, time.perf_counter() - start, tuple(notes))


def _helped(
    row: str, best: np.ndarray[tuple[int, ...], np.dtype[np.float64]], published: tuple[float, ...]
) -> str:
    number = int(row.removeprefix("IAug"))
    ours = float((best[number] - best[0]).mean())
    theirs = published[_MATCHING[number]] - published[0]
    return f"{row} {ours:+.1f} (theirs {theirs:+.1f})"


def _agreement(cells: list[Cell]) -> str:
    gaps = np.array([cell.ours - cell.theirs for cell in cells if cell.theirs is not None])
    errors = np.array(
        [
            (cell.theirs * (100 - cell.theirs) / 1000) ** 0.5
            for cell in cells
            if cell.theirs is not None
        ]
    )
    return (
        f"ours minus theirs: mean {gaps.mean():.2f}, mean size {abs(gaps).mean():.2f}, largest "
        f"{abs(gaps).max():.1f} points; {np.mean(abs(gaps) < 1.96 * errors):.0%} of cells are "
        "within 1.96 standard errors of their 1000 test images"
    )
