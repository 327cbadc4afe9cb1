"""Tables 6 and 7 of Basu et al. 2021: the network that a search finds, and those of one group."""

from __future__ import annotations

import time

from isotropy.run import ProgressCallback
from isotropy.search import State
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._search_published import CODE_ORDER
from isotropy_papers._search_selection import (
    INTERVAL_NOTE,
    best_on_validation,
    mean_accuracy,
    mean_difference,
    scores,
)
from isotropy_papers._search_singles import ORDER_NOTE
from isotropy_papers._search_tables import SINGLES, own_plan, published_plan, table_of
from isotropy_papers.grid_images import AUGMENTATIONS as MOVED_BY
from isotropy_papers.score_table import ScoreTable

_RETRAINED = 20
_ROWS = 10_000


def found_results(
    id: str,
    base: str,
    published: dict[str, tuple[float, ...]],
    settings: Settings,
    progress: ProgressCallback,
) -> Result:
    """Test accuracies of networks of one group and of the network found, the paper's and ours.

    Args:
        id: Of the experiment.
        base: The images.
        published: Printed accuracies: Eq0 to Eq12 and AEN.
        settings: Quick reads stored tables; full trains all anew. ``models`` are data sets.
        progress: Called for each seed.
    """
    start = time.perf_counter()
    cells: list[Cell] = []
    notes: list[str] = [
        "test accuracy in percent on 10,000 images, mean over seeds. All choices are made on "
        "10,000 validation images: of the epoch for the paper's networks, of the best single "
        f"network, of the {_RETRAINED} networks that are trained again with 10,000 rows for 10 "
        "epochs, and of the one found among these. Theirs: chosen on the 1000 test images that are "
        "reported",
        "rows Aug0 to Aug5: the paper's networks (translations by 4 pixels, scalar biases) on "
        "images moved as in the paper; AEN: found among all networks, not by one run of deep "
        "Q-learning",
        "rows with 'ours': our networks and steps on images moved by elements of the very groups",
        "single: the best on validation of the network without groups and the twelve of one group",
        INTERVAL_NOTE,
        ORDER_NOTE,
    ]
    chosen = settings.chosen(list(published))
    for row in chosen:
        cells += _as_published(row, base, published[row], settings, progress)
    for row in chosen:
        more, note = _ours(row, base, settings, progress)
        cells += more
        notes.append(note)
    return Result(id, cells, time.perf_counter() - start, (*notes, *_claims(cells)))


def _as_published(
    row: str,
    base: str,
    printed: tuple[float, ...],
    settings: Settings,
    progress: ProgressCallback,
) -> list[Cell]:
    plan = published_plan(base, row, _ROWS, "singles")
    singles = table_of(plan, settings, progress, networks=SINGLES)
    search = table_of(published_plan(base, row, 4000), settings, progress)
    best = best_on_validation(search, _RETRAINED, best_epoch=True)
    again = table_of(
        published_plan(base, row, _ROWS, "top20"),
        settings,
        progress,
        networks=tuple(search.networks[k] for k in best),
    )
    _, test = scores(singles, best_epoch=True)
    cells = []
    for column, name in enumerate(("", *CODE_ORDER)):
        number = singles.networks.index(State((name,) if name else ()))
        mean, interval = mean_accuracy(test[number], singles.test_rows)
        cells.append(Cell(row, f"Eq{column}", mean, printed[column], interval))
    (single,) = best_on_validation(singles, 1, best_epoch=True)
    (found,) = best_on_validation(again, 1, best_epoch=True)
    values = scores(again, best_epoch=True)[1][found]
    mean, interval = mean_accuracy(values, again.test_rows)
    cells.append(Cell(row, "AEN", mean, printed[-1], interval))
    mean, interval = mean_difference(values, test[single], again.test_rows)
    theirs = printed[-1] - max(printed[:-1])
    cells.append(Cell(row, "AEN - best single", mean, theirs, interval))
    return cells


def _ours(
    row: str, base: str, settings: Settings, progress: ProgressCallback
) -> tuple[list[Cell], str]:
    search = table_of(own_plan(base, row, 4000), settings, progress)
    long = table_of(own_plan(base, row, _ROWS), settings, progress, last_only=True)
    single = _best(long, sorted({long.network_of(state) for state in SINGLES}))
    near = [search.networks[k] for k in best_on_validation(search, _RETRAINED, best_epoch=False)]
    found = _best(long, [long.network_of(state) for state in near])
    true = long.network_of(State(MOVED_BY[row]))
    _, test = scores(long, best_epoch=False)
    columns = {
        "no group": long.network_of(State()),
        "best single": single,
        "found": found,
        "groups of the images": true,
    }
    name, cells = f"{row} ours", []
    for column, number in columns.items():
        mean, interval = mean_accuracy(test[number], long.test_rows)
        cells.append(Cell(name, column, mean, None, interval))
    mean, interval = mean_difference(test[found], test[single], long.test_rows)
    cells.append(Cell(name, "found - best single", mean, None, interval))
    note = (
        f"{row}: images moved by {', '.join(MOVED_BY[row]) or 'no group'}; found "
        f"{long.networks[found]}; best single {long.networks[single]}"
    )
    return cells, note


def _best(table: ScoreTable, numbers: list[int]) -> int:
    """Of some networks the one that is best on validation rows."""
    validation = scores(table, best_epoch=False)[0].mean(1)
    return max(numbers, key=lambda k: float(validation[k]))


def _claims(cells: list[Cell]) -> list[str]:
    """Whether what is found is at least as good as the best single network, plainly."""
    notes = []
    for column, whose in (
        ("AEN - best single", "the paper's networks and images"),
        ("found - best single", "our networks, images moved by the groups"),
    ):
        rows = [cell for cell in cells if cell.column == column]
        worse = [f"{c.row.split()[0]} ({c.ours:+.2f})" for c in rows if c.ours < 0]
        sure = [c.row.split()[0] for c in rows if c.interval is not None and c.interval[0] > 0]
        notes.append(
            f"{whose}: found is below the best single network on {', '.join(worse) or 'none'}; "
            f"the whole interval of the difference is above 0 on {', '.join(sure) or 'none'}"
        )
    return notes
