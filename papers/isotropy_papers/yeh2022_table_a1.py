"""Table A1 of Yeh et al. 2022: Augerino with more transformations, beside learned sharing."""

from __future__ import annotations

from typing import Any

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._sharing_cells import mean_cell
from isotropy_papers._sums_of_numbers import AUGERINO, OURS, TEST_ROWS, SumRuns

_LENGTH = 10
_PUBLISHED = {
    f"{AUGERINO} 3": 0.03498,
    f"{AUGERINO} 15": 0.02567,
    f"{AUGERINO} 75": 0.01966,
    OURS: 0.01005,
}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Compare learned sharing with ever more transformations of Augerino, at length 10.

    Args:
        settings: Full: five seeds and 3000 steps of the last fits. Quick: one seed, 500 steps, and
            no more than 15 transformations. ``sizes`` gives another length, ``epochs`` another
            number of steps.
        progress: Called before each part.

    Returns:
        The mean squared error on test rows without noise, beside the published mean.

    Raises:
        ValueError: If more than one length is asked for.
    """
    full = settings.full
    chosen = settings.or_else(
        seeds=5 if full else 1,
        epochs=3000 if full else 500,
        test_rows=TEST_ROWS,
        sizes=(_LENGTH,),
    )
    lengths = chosen.pop("sizes")
    if len(lengths) != 1:
        raise ValueError(f"expected one length, got {len(lengths)}")
    seeds = [settings.seed + i for i in range(chosen["seeds"])]
    runs = SumRuns(lengths[0], False, seeds, chosen["epochs"], chosen["test_rows"], settings.device)
    methods = settings.chosen(list(_PUBLISHED))
    if settings.models is None and not full:
        methods.remove(f"{AUGERINO} 75")

    def compute(names: list[str]) -> list[Any]:
        found = []
        for name in names:
            method, _, samples = name.partition(" ")
            found.append(runs.measured(method, int(samples or 0))["l2"])
        return found

    depends = {"seed": settings.seed, "device": settings.device, "length": lengths[0], **chosen}
    parts = Finished("yeh2022/tableA1", depends, settings, progress)
    found = parts.get(methods, compute)
    cells = [
        mean_cell(
            method, "l2", found[method], _PUBLISHED[method] if lengths[0] == _LENGTH else None
        )
        for method in methods
    ]
    notes = (
        f"l2: mean squared error on {chosen['test_rows']} rows without noise, in the units of the "
        f"sums, at length {lengths[0]}; mean over {chosen['seeds']} seeds with 1.96 standard "
        "errors to either side; everything as in figure 7",
        "the numbers after Augerino are its transformations, in training and in evaluation",
        "inference times and memory, which the paper gives too, are those of its GPU",
    )
    return Result("yeh2022/tableA1", cells, parts.close(), notes)


EXPERIMENT = Experiment(
    "yeh2022/tableA1", "Augerino with more transformations, beside learned sharing", run
)
