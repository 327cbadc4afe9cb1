"""Table 3 of Basu et al. 2021: how many parameters are left where weights are shared by a group."""

from __future__ import annotations

import time

import torch

from isotropy.groups import GRID_TRANSFORMATIONS, grid_transformations
from isotropy.nn import GridNetwork
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._search_published import CODE_ORDER, TABLE_3

_IMAGE = (1, 28, 28)
_GRIDS = (28, 20, 20)
COUNTED_BIASES = 800  # by the paper, which has two


def run(_settings: Settings, _progress: ProgressCallback) -> Result:
    """Count the parameters of the paper's networks and of ours.

    Args:
        _settings: None are used.
        _progress: Not called.

    Returns:
        Millions of parameters; how many hidden units differ.
    """
    start = time.perf_counter()
    by_code, by_name = ("", *CODE_ORDER), ("", *GRID_TRANSFORMATIONS)
    trained = {name: _trained(name, 4, published=True) for name in by_name}
    counted = {name: (n - 2 + COUNTED_BIASES) / 1e6 for name, n in trained.items()}
    cells = []
    for k, (code, name) in enumerate(zip(by_code, by_name, strict=True)):
        column, printed = f"Eq{k}", TABLE_3[k]
        cells += [
            Cell("millions, code order", column, counted[code], printed),
            Cell("millions, by name", column, counted[name], printed),
            Cell("thousands trained, code order", column, trained[code] / 1e3),
            Cell(
                "thousands trained, own step", column, _trained(code, None, published=False) / 1e3
            ),
        ]
        if "translation" in code:
            cells += [
                Cell("different hidden units, step 4", column, _different_units(code, 4)),
                Cell("different hidden units, own step", column, _different_units(code, None)),
            ]
    rows = list(dict.fromkeys(cell.row for cell in cells))
    cells = sorted(cells, key=lambda cell: rows.index(cell.row))
    agree = {
        row: sum(int(100 * cell.ours) / 100 == cell.theirs for cell in cells if cell.row == row)
        for row in rows[:2]
    }
    exact = [round(1e3 * cell.ours) for cell in cells if cell.row == rows[2]]
    notes = (
        f"trained, Eq0 to Eq12 in code order: {'; '.join(f'{count:,}' for count in exact)}",
        f"cut to two decimals, {agree[rows[0]]} of 13 counts agree with the printed ones where "
        "scrambles stand in the order of the paper's code, which is vertical, left vertical, right "
        "vertical, top horizontal, bottom horizontal, rotation, horizontal; by their names "
        f"{agree[rows[1]]} of 13 agree",
        "millions: counted as in the paper, with 400 biases for each hidden layer; thousands: what "
        "is learned, with one bias for each, or in our networks one for each orbit of hidden units",
        "translations by 4 have order 7 on 28 pixels and 5 on 20 hidden units, which are coprime: "
        "every weight is constant under shifts of the image alone, and of 400 hidden units only 80 "
        "differ; our own steps, 7 and 5, have order 4 on both",
    )
    return Result("basu2021/table3", cells, time.perf_counter() - start, notes)


def _trained(name: str, step: int | None, *, published: bool) -> int:
    groups = grid_transformations([name] if name else [], step=step)
    network = GridNetwork(_IMAGE, groups, published=published)
    return sum(p.numel() for p in network.parameters())


def _different_units(name: str, step: int | None) -> int:
    """How many hidden units of the first layer have weights of their own."""
    labels = GridNetwork.sharing(grid_transformations([name], step=step), _GRIDS)[0]
    return len(torch.unique(labels, dim=0))


EXPERIMENT = Experiment(
    "basu2021/table3", "Parameters of networks that share weights by one group", run
)
