"""Learned sharing of Gaussian means: Figures 2 to 6 and Table 1 of Yeh et al. 2022.

Settings: ``seeds`` is the number of runs, 200 as published in quick and full, but for Figure 5,
where quick makes 10. ``sizes`` gives other numbers along the axis: of means (Figures 2 and 5,
Table 1), of training rows out of 100 (Figures 3 and 6), of means that differ (Figure 4).

Cells are the MSE and the partition distance of each method. Published numbers are those of Table 1;
the figures have none. Table 1 has rows beside the published ones: the nuclear norm as the paper
writes it, brute force, and evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._shared_means import (
    BRUTE_FORCE,
    EVIDENCE,
    EVIDENCE_NOTE,
    METHODS,
    NOTES,
    PENALTIES,
    RUNS,
    TABLE1,
    Case,
    case_cells,
)
from isotropy_papers._sharing_cells import draw_error_and_distance

DIMENSIONS = 5
_TENTHS = tuple(range(10, 100, 10))
_SPLIT_NOTE = (
    f"K = {DIMENSIONS}, which the paper does not state; No sharing, Oracle and evidence use "
    "all rows and have no split"
)
_SHAPE_NOTE = (
    "the bound of Eq. 15 falls with the share of training rows in its term of sharing, "
    "(1 − r)/r times the rank less one, and rises in its term of confidence, 1/(1 − r): "
    "at this rank it has its least value inside, at rank 1 at no training rows; with means "
    "three standard deviations apart the left branch of the errors shows below 5 %"
)
_TABLE_NOTES = (
    "the paper writes the nuclear norm and its numbers come from the sum of column norms; "
    "the row of the true one does not reproduce them",
    "half-widths of the published intervals, MSE and PD: "
    + "; ".join(
        f"{penalties} K={k}: {mse_half:.3f} and {pd_half:.3f}"
        for (k, penalties), (_, mse_half, _, pd_half) in TABLE1.items()
    ),
)


@dataclass(frozen=True)
class MeansAxis:
    """What is varied.

    Args:
        case: From a number to the data.
        column: What columns are called, with a place for the number.
        label: What the axis of a figure is called.
        prefix: What stands before the number in columns.
    """

    case: Callable[[int], Case]
    column: str
    label: str
    prefix: str = ""


_NUMBER = MeansAxis(Case, "K={}", "dimensions", "K=")
_DIFFERENT = MeansAxis(lambda rank: Case(DIMENSIONS, rank), "rank {}", "rank", "rank ")


def _split(rank: int) -> MeansAxis:
    return MeansAxis(
        lambda train: Case(DIMENSIONS, rank, train), "{} % training", "% of training rows"
    )


@dataclass(frozen=True)
class MeansStudy:
    """One figure or table.

    Args:
        axis: What is varied.
        sizes: Along it.
        notes: Of its own.
        quick: Along it in a quick run, of ten runs, where a full one is long.
        methods: Which methods.
    """

    axis: MeansAxis
    sizes: tuple[int, ...]
    notes: tuple[str, ...] = ()
    quick: tuple[int, ...] | None = None
    methods: Sequence[str] = METHODS


def _run(id: str, study: MeansStudy, settings: Settings, progress: ProgressCallback) -> Result:
    short = study.quick is not None and not settings.full
    sizes = settings.or_else(sizes=study.quick if short else study.sizes)["sizes"]
    cases = {study.axis.column.format(size): study.axis.case(size) for size in sizes}
    runs = 10 if short else RUNS
    cells, seconds = case_cells(settings, progress, cases, study.methods, runs)
    made = settings.or_else(seeds=runs)["seeds"]
    long = () if study.quick is None else (f"{made} runs; the paper makes {RUNS}",)
    return Result(id, cells, seconds, (*NOTES, EVIDENCE_NOTE, *study.notes, *long))


def _plot(axis: MeansAxis, result: Result, path: Path) -> Path:
    return draw_error_and_distance(result, path, "MSE", axis.label, axis.prefix)


EXPERIMENTS: dict[str, Experiment] = {}


def _add(id: str, title: str, study: MeansStudy, *, figure: bool = True) -> None:
    draw = partial(_plot, study.axis) if figure else None
    EXPERIMENTS[id] = Experiment(id, title, partial(_run, id, study), draw)


_add(
    "yeh2022/figure2",
    "Learned sharing of Gaussian means: number of dimensions",
    MeansStudy(_NUMBER, (2, 3, 4, 5, 6), ("theirs: Table 1, the figure has no numbers",)),
)
_add(
    "yeh2022/figure3",
    "Learned sharing of Gaussian means: the split, rank 1",
    MeansStudy(_split(1), _TENTHS, (_SPLIT_NOTE,)),
)
_add(
    "yeh2022/figure4",
    "Learned sharing of Gaussian means: how many differ",
    MeansStudy(_DIFFERENT, tuple(range(1, DIMENSIONS + 1))),
)
_add(
    "yeh2022/figure5",
    "Learned sharing of Gaussian means: many dimensions",
    MeansStudy(
        _NUMBER,
        tuple(range(10, 110, 10)),
        quick=(10, 30, 50, 100),
        methods=[method for method in METHODS if method != BRUTE_FORCE],
    ),
)
_add(
    "yeh2022/figure6",
    "Learned sharing of Gaussian means: the split, rank 4",
    MeansStudy(_split(4), (1, 2, 5, *_TENTHS), (_SPLIT_NOTE, _SHAPE_NOTE)),
)
_add(
    "yeh2022/table1",
    "Learned sharing of Gaussian means, with and without its penalties",
    MeansStudy(_NUMBER, (2, 4, 6), _TABLE_NOTES, methods=[*PENALTIES, BRUTE_FORCE, EVIDENCE]),
    figure=False,
)
