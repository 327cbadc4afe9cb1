"""Figure 7 of Yeh et al. 2022: sums of numbers, by the length of the sequence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._sharing_cells import draw_error_and_distance, mean_cell
from isotropy_papers._sums_of_numbers import AUGERINO, OURS, TASKS, TEST_ROWS, SumRuns

_LENGTHS = (2, 4, 6, 8, 10)
_METHODS = ["No sharing", "Oracle", AUGERINO, OURS]


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Learn which positions of a sequence share their weights.

    Args:
        settings: Full: five seeds, lengths 2 to 10 and 3000 steps of the last fits. Quick: one
            seed, lengths 2 and 4 and 500 steps. ``sizes`` gives other lengths, ``epochs`` other
            numbers of steps.
        progress: Called before each part.

    Returns:
        The mean squared error on test rows without noise, and the partition distance. They were
        published as curves only.
    """
    full = settings.full
    chosen = settings.or_else(
        seeds=5 if full else 1,
        epochs=3000 if full else 500,
        test_rows=TEST_ROWS,
        sizes=_LENGTHS if full else (2, 4),
    )
    lengths = chosen.pop("sizes")
    seeds = [settings.seed + i for i in range(chosen["seeds"])]
    methods = settings.chosen(list(_METHODS))
    wanted = {
        f"{task} {method}, length {length}": (task, method, length)
        for length in lengths
        for task in TASKS
        for method in methods
    }

    def compute(names: list[str]) -> list[Any]:
        found = []
        for name in names:
            task, method, length = wanted[name]
            runs = SumRuns(
                length,
                TASKS[task],
                seeds,
                chosen["epochs"],
                chosen["test_rows"],
                settings.device,
            )
            found.append(runs.measured(method))
        return found

    depends = {"seed": settings.seed, "device": settings.device, **chosen}
    parts = Finished("yeh2022/figure7", depends, settings, progress)
    found = parts.get(list(wanted), compute)
    cells = []
    for name, (task, method, length) in wanted.items():
        for what, values in found[name].items():
            cells.append(mean_cell(f"{task} {method}", f"{what}, length {length}", values))
    notes = (
        f"l2: mean squared error on {chosen['test_rows']} rows without noise, in the units of the "
        "sums; PD: partition distance of positions to the truth; mean over "
        f"{chosen['seeds']} seeds with 1.96 standard errors to either side; published as curves",
        "signed sum: odd positions are negated, so that positions share by parity",
        "100 rows to train and 150 to validate, both used in every last fit, which stops early on "
        f"250 more; absolute error, AdamW, {chosen['epochs']} steps; starting weights are those of "
        "the seed, the same with and without sharing",
        "Augerino: three permutations by Gumbel-Sinkhorn matrices, which here are learned; its "
        "weights are not shared, so it has no partition",
        "ours: three restarts of 100 steps of the assignments, the partitions weighed by "
        "cross-validation over the 250 rows and walked from by merges, moves and splits",
    )
    return Result("yeh2022/figure7", cells, parts.close(), notes)


def plot(result: Result, path: Path) -> Path:
    """Draw errors and partition distances against the length.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    return draw_error_and_distance(result, path, "l2", "numbers in a sequence", "length ")


EXPERIMENT = Experiment(
    "yeh2022/figure7", "Learned sharing of positions: sums and signed sums of numbers", run, plot
)
