"""What Basu et al. 2021 show twice, of G-MNIST and G-Fashion-MNIST: Figures 5–10, Tables 4–10.

Settings, by what is shown:

- samples (Figures 5 to 8): ``seed`` of the moves; ``models``: "as published", the default, or "by
  the groups"; ``data`` may name a folder of the images. Cells are the share of pixels that change.
- deep Q-learning (Figures 9 and 10): quick makes one search for each of three data sets, full 20
  for each of six; ``seeds`` gives another number, ``models`` other data sets, Aug0 to Aug5; ``out``
  may hold tables, and keeps searches. Cells are mean validation accuracies in percent; nothing was
  published as numbers.
- networks with one group, and the best of all (Tables 4 to 7): quick reads the stored tables, full
  trains all networks anew (``seeds`` runs of ``epochs`` epochs on ``device``), and keeps them in
  ``out``. ``models`` are rows, or data sets. Cells are test accuracies in percent.
- the five best (Tables 9 and 10): from stored tables, or those that a full run of Table 6 or 7 left
  in ``out``. Cells are a 1 for each group that a network has, and its millions of parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._search_epsilons import draw_epsilons, epsilon_results
from isotropy_papers._search_found import found_results
from isotropy_papers._search_pictures import combined_pictures, draw_pictures, single_pictures
from isotropy_papers._search_published import TABLE_4, TABLE_5, TABLE_6, TABLE_7, TABLE_9, TABLE_10
from isotropy_papers._search_singles import single_results
from isotropy_papers._search_top import top_results

_SETS = {"mnist": "G-MNIST", "fashion-mnist": "G-Fashion-MNIST"}
EXPERIMENTS: dict[str, Experiment] = {}


def _run(
    results: Callable[..., Result],
    id: str,
    base: str,
    published: tuple[Any, ...],
    settings: Settings,
    progress: ProgressCallback,
) -> Result:
    return results(id, base, *published, settings, progress)


def _add(
    places: tuple[str, str],
    title: str,
    results: Callable[..., Result],
    published: tuple[Any, ...] = (),
    plot: Callable[[Result, Path], Path] | None = None,
) -> None:
    for at, (base, name) in enumerate(_SETS.items()):
        id = f"basu2021/{places[at]}"
        run = partial(_run, results, id, base, published[at : at + 1])
        EXPERIMENTS[id] = Experiment(id, title.format(name), run, plot)


_add(
    ("figure5", "figure6"),
    "Samples of {} under each transformation alone",
    single_pictures,
    plot=draw_pictures,
)
_add(
    ("figure7", "figure8"),
    "Samples of {} under combinations of transformations",
    combined_pictures,
    plot=draw_pictures,
)
_add(
    ("figure9", "figure10"),
    "Deep Q-learning as it explores less: {}",
    epsilon_results,
    plot=draw_epsilons,
)
_add(
    ("table4", "table5"),
    "Networks with one group on images moved by one: {}",
    single_results,
    (TABLE_4, TABLE_5),
)
_add(
    ("table6", "table7"),
    "The network found among all sets of groups: {}",
    found_results,
    (TABLE_6, TABLE_7),
)
_add(("table9", "table10"), "The five best sets of groups: {}", top_results, (TABLE_9, TABLE_10))
