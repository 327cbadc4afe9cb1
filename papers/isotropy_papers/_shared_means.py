"""Learned sharing of the means of Gaussian data: Table 1 and Figures 2 to 6 of Yeh et al. 2022."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.equivariance import partition_distance
from isotropy.run import ProgressCallback
from isotropy.run import generator as make_generator
from isotropy.sharing import (
    LeastSquares,
    PartitionEvidence,
    RelaxationOptions,
    best_partition,
    relax_sharing,
    rounded,
)
from isotropy_papers._experiment import Cell, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._sharing_cells import mean_cell
from isotropy_papers.sharing_tasks import SharingTask, shared_means

Labels = NDArray[np.int64]

RELAXATION, EVIDENCE, BRUTE_FORCE = "Ours (relaxation)", "Ours (evidence)", "Ours* (brute force)"
METHODS = ("No sharing", "Oracle", BRUTE_FORCE, RELAXATION, EVIDENCE)
RUNS, SAMPLES, TRAIN = 200, 100, 30
_RMSPROP = RelaxationOptions(optimiser="rmsprop")
PENALTIES: dict[str, dict[str, Any]] = {
    "no penalty": {"entropy": 0.0, "rank": 0.0},
    "entropy": {"rank": 0.0},
    "entropy and rank": {},
    "entropy and true nuclear norm": {"options": replace(_RMSPROP, rank_norm="nuclear")},
}
NOTES = (
    "mean over runs with 1.96 standard errors to either side; MSE: squared error summed over "
    "dimensions, the means fitted again to all 100 rows; PD: partition distance to the truth",
    "relaxation: the published search, rounded by rows; three starts, RMSprop for 1000 steps, "
    "penalties 0.01 times the mean row entropy and the sum of column norms",
)
EVIDENCE_NOTE = (
    "evidence: the partition of the highest Bayesian evidence, found on all rows without a split; "
    "its prior charges for which elements are told apart, which validation loss does not"
)

# relaxed assignments that are worked on at once: larger ones leave the cache
_ENTRIES = 2_000_000

# by dimensions and penalties: MSE and PD with the half-widths of their 95 % intervals
TABLE1 = {
    (2, "no penalty"): (0.019, 0.003, 0.915, 0.03),
    (2, "entropy"): (0.016, 0.003, 0.385, 0.07),
    (2, "entropy and rank"): (0.014, 0.003, 0.145, 0.05),
    (4, "no penalty"): (0.035, 0.003, 2.05, 0.069),
    (4, "entropy"): (0.033, 0.003, 1.68, 0.070),
    (4, "entropy and rank"): (0.025, 0.003, 0.49, 0.095),
    (6, "no penalty"): (0.050, 0.004, 3.35, 0.075),
    (6, "entropy"): (0.048, 0.004, 3.36, 0.094),
    (6, "entropy and rank"): (0.028, 0.004, 0.59, 0.132),
}


@dataclass(frozen=True)
class Case:
    """Gaussian data of one kind, split one way.

    Args:
        dimensions: How many means.
        rank: How many of them differ.
        train: Rows to train on; the other rows validate.

    Example:
        >>> Case(4).name("Oracle"), Case(4, train=50).name("Oracle")
        ('Oracle, K=4, rank 1', 'Oracle, K=4, rank 1')
    """

    dimensions: int
    rank: int = 1
    train: int = TRAIN

    def name(self, method: str) -> str:
        """What distinguishes the results of a method, among them the split where it has one."""
        split = method in (BRUTE_FORCE, RELAXATION, *PENALTIES)
        rows = f", {self.train} training rows" if split else ""
        return f"{method}, K={self.dimensions}, rank {self.rank}{rows}"


def case_cells(
    settings: Settings,
    progress: ProgressCallback,
    cases: dict[str, Case],
    methods: Sequence[str],
    runs: int = RUNS,
) -> tuple[list[Cell], float]:
    """Measure methods on cases, and give their cells.

    Args:
        settings: The seed, ``seeds`` for another number of runs, ``epochs`` for other steps.
        progress: Called before each part.
        cases: From the ends of columns, such as "K=4", to cases.
        methods: Names of ``METHODS`` or of ``PENALTIES``.
        runs: How many data sets each case has.

    Returns:
        Cells with columns "MSE, …" and "PD, …", and the seconds they took. The published ones
        are those of ``TABLE1``, also for the relaxation.

    Raises:
        ValueError: If a case has no rows to train or to validate on.

    Example:
        >>> settings = Settings(seeds=3)
        >>> cells, _ = case_cells(settings, lambda step: None, {"K=3": Case(3)}, ["Oracle"])
        >>> [(cell.row, cell.column) for cell in cells]
        [('Oracle', 'MSE, K=3'), ('Oracle', 'PD, K=3')]
    """
    chosen = settings.or_else(seeds=runs, epochs=1000)
    for case in cases.values():
        if not 0 < case.train < SAMPLES:
            raise ValueError(
                f"expected training rows between 1 and {SAMPLES - 1}, got {case.train}"
            )
    depends = {"seed": settings.seed, "device": settings.device, **chosen}
    parts = Finished("yeh2022/shared-means", depends, settings, progress)
    methods = settings.chosen(list(methods))
    wanted = {case.name(m): (m, case) for m in methods for case in cases.values()}

    def compute(names: list[str]) -> list[Any]:
        return [_measured(*wanted[name], settings, **chosen) for name in names]

    found = parts.get(list(wanted), compute)
    cells = []
    for method in methods:
        penalties = "entropy and rank" if method == RELAXATION else method
        for column, case in cases.items():
            published = TABLE1.get((case.dimensions, penalties))
            theirs = published if case == Case(case.dimensions) else None
            for i, name in enumerate(("MSE", "PD")):
                values = found[case.name(method)][name]
                number = None if theirs is None else theirs[2 * i]
                cells.append(mean_cell(method, f"{name}, {column}", values, number))
    return cells, parts.close()


def _measured(
    method: str, case: Case, settings: Settings, seeds: int, epochs: int
) -> dict[str, list[float]]:
    first = settings.seed * seeds
    tasks = [
        shared_means(case.dimensions, case.rank, samples=SAMPLES, seed=first + run)
        for run in range(seeds)
    ]
    if method == RELAXATION or method in PENALTIES:
        found = _relaxed(tasks, case, settings, epochs, PENALTIES.get(method, {}))
    else:
        found = [_CHOICES[method](task, case) for task in tasks]
    pairs = list(zip(tasks, found, strict=True))
    return {
        "MSE": [_squared_error(task, labels) for task, labels in pairs],
        "PD": [float(partition_distance(labels, task.labels)) for task, labels in pairs],
    }


def _squared_error(task: SharingTask, labels: Labels) -> float:
    means = task.y.mean(0).numpy()
    blocks = np.bincount(labels, means) / np.maximum(np.bincount(labels), 1)
    return float(((blocks[labels] - task.map.numpy()) ** 2).sum())


def _relaxed(
    tasks: list[SharingTask], case: Case, settings: Settings, steps: int, penalties: dict[str, Any]
) -> list[Labels]:
    rng = make_generator(settings.seed)
    restarts = 3
    together = max(1, _ENTRIES // (restarts * case.dimensions**2))
    found: list[Labels] = []
    for start in range(0, len(tasks), together):
        y = torch.stack([task.y for task in tasks[start : start + together]]).to(settings.device)
        relaxed = relax_sharing(
            LeastSquares.of(None, y[:, : case.train]),
            LeastSquares.of(None, y[:, case.train :]),
            restarts=restarts,
            steps=steps,
            generator=rng,
            **{"options": _RMSPROP, **penalties},
        )
        if relaxed.interrupted:
            raise KeyboardInterrupt
        found.extend(rounded(relaxed.best()))
    return found


def _by_brute_force(task: SharingTask, case: Case) -> Labels:
    return best_partition(
        LeastSquares.of(None, task.y[: case.train]), LeastSquares.of(None, task.y[case.train :])
    )


_CHOICES: dict[str, Callable[[SharingTask, Case], Labels]] = {
    "No sharing": lambda _, case: np.arange(case.dimensions),
    "Oracle": lambda task, _: task.labels,
    BRUTE_FORCE: _by_brute_force,
    EVIDENCE: lambda task, _: PartitionEvidence(LeastSquares.of(None, task.y)).best(),
}
