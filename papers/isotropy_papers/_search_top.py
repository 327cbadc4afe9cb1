"""Tables 9 and 10 of Basu et al. 2021: the five best sets of groups of each data set."""

from __future__ import annotations

import time
from decimal import ROUND_DOWN, Decimal

from isotropy.groups import GRID_TRANSFORMATIONS
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._search_published import CODE_ORDER, groups_of
from isotropy_papers._search_selection import best_on_validation
from isotropy_papers._search_tables import published_plan, stored_table
from isotropy_papers.score_table import ScoreTable

_NAMES = tuple(GRID_TRANSFORMATIONS)
_MORE_COUNTED = 798  # the paper counts 400 biases for each hidden layer, and trains one


def top_results(
    id: str,
    base: str,
    published: dict[str, list[tuple[str, str]]],
    settings: Settings,
    _: ProgressCallback,
) -> Result:
    """The five best networks of each data set, and whether the printed counts can be right.

    Args:
        id: Of the experiment.
        base: The images.
        published: Printed arrays with their millions of parameters.
        settings: ``out`` may hold tables made anew. ``models`` are data sets.
    """
    start = time.perf_counter()
    cells: list[Cell] = []
    notes = [
        "rows: the five best networks of all, by validation accuracy at 4000 rows and 4 epochs, "
        "mean over seeds, each with all groups that it respects: several sets of groups are one "
        "network; theirs: the five best of one run of deep Q-learning, chosen on test images",
        "columns have the names of groups: digits 6 to 12 of the printed arrays are, by their "
        "counts of parameters, vertical, left vertical, right vertical, top horizontal, bottom "
        "horizontal, rotation and horizontal scramble, not the groups of IAug6 to IAug12",
    ]
    agreed = {"code order": 0, "by name": 0}
    arrays = 0
    for row in settings.chosen(list(published)):
        table = stored_table(published_plan(base, row, 4000), settings)
        for place, number in enumerate(best_on_validation(table, 5, best_epoch=True)):
            cells += _row(f"{row}, {place + 1}", table, number, *published[row][place])
        for array, printed in published[row]:
            arrays += 1
            for order, names in (("code order", CODE_ORDER), ("by name", _NAMES)):
                trained = _trained(table, groups_of(array, names))
                agreed[order] += any(_cut(trained + n, printed) for n in (0, _MORE_COUNTED))
    notes.append(
        f"of {arrays} printed arrays {agreed['code order']} have the printed number of parameters, "
        f"cut to its decimals, in the order of the paper's code, {agreed['by name']} in the order "
        "of the names; counted with 800 biases or, as those with three decimals are, with the two "
        "that are trained"
    )
    return Result(id, cells, time.perf_counter() - start, tuple(notes))


def _row(row: str, table: ScoreTable, number: int, array: str, printed: str) -> list[Cell]:
    ours, theirs = table.networks[number].groups, groups_of(array)
    cells = [Cell(row, name, float(name in ours), float(name in theirs)) for name in _NAMES]
    millions = (int(table.parameters[number]) + _MORE_COUNTED) / 1e6
    return [*cells, Cell(row, "million parameters", millions, float(printed))]


def _trained(table: ScoreTable, groups: tuple[str, ...]) -> int:
    state = table.space.state(*groups)
    return int(table.parameters[table.network_of(state)])


def _cut(count: int, printed: str) -> bool:
    """Whether a count is the printed one, in millions and cut to as many decimals."""
    wanted = Decimal(printed)
    return (Decimal(count) / 10**6).quantize(wanted, ROUND_DOWN) == wanted
