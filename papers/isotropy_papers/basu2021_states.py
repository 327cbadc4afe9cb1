"""All networks of all sets of groups, trained: the tables that searches are replayed against."""

from __future__ import annotations

import time

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._search_selection import (
    INTERVAL_NOTE,
    best_on_validation,
    mean_accuracy,
    scores,
)
from isotropy_papers._search_tables import AUGMENTATIONS, BASES, own_plan, table_of

_SHOWN = 5


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """List the best networks of each data set.

    Args:
        settings: Quick reads the stored tables. Full trains all 148 networks anew on each data set
            (``device`` should be a GPU; ``seeds`` and ``epochs`` in place of 20 and 4),
            and keeps each table in ``out`` as it ends: one that is there is not made again, and
            basu2021/strategies and the figures read it with the same ``out``. ``models`` are data
            sets such as "mnist Aug1".
        progress: Called for each seed.

    Returns:
        Accuracies and parameters of the five best networks of each data set.

    Raises:
        ValueError: If a full run has no ``out`` to keep its tables in.
    """
    if settings.full and settings.out is None:
        raise ValueError("expected a folder for the tables of a full run (--out), got none")
    start = time.perf_counter()
    sets = {f"{base} {one}": (base, one) for base in BASES for one in AUGMENTATIONS}
    cells, listed, trained = [], [], ""
    for name in settings.chosen(list(sets)):
        table = table_of(own_plan(*sets[name], 4000), settings, progress)
        validation, test = scores(table, best_epoch=False)
        best = best_on_validation(table, _SHOWN, best_epoch=False)
        for place, number in enumerate(best):
            row = f"{name}, {place + 1}"
            for column, values, rows in (
                ("validation", validation, table.validation_rows),
                ("test", test, table.test_rows),
            ):
                mean, interval = mean_accuracy(values[number], rows)
                cells.append(Cell(row, column, mean, None, interval))
            cells.append(Cell(row, "thousand parameters", table.parameters[number] / 1e3))
        names = "; ".join(str(table.networks[k]) for k in best)
        listed.append(f"{name}: {names}")
        trained = f"{len(table.networks)} networks, {table.seeds} seeds, {table.epochs} epochs"
    notes = (
        f"the five best of {trained}, 4000 training rows, by mean validation accuracy; percent",
        INTERVAL_NOTE,
        *listed,
    )
    return Result("basu2021/states", cells, time.perf_counter() - start, notes)


EXPERIMENT = Experiment(
    "basu2021/states", "The best networks of all sets of groups, for each data set", run
)
