"""Learned parameter-sharing, ours and the paper's method, on the same data in one run.

The paper's method (Yeh et al. 2022) is written anew as its code runs it: one data set after the
other, one random start after the other, the validation loss summed over rows at each step. Ours
are the same relaxation with all data sets and starts as one tensor, and the evidence of
partitions. See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import cpu_seconds
from numpy.typing import NDArray
from torch import Tensor

from isotropy.equivariance import partition_distance
from isotropy.run import generator, write_json
from isotropy.sharing import LeastSquares, PartitionEvidence
from isotropy.sharing._assignment import canonical_labels, rounded
from isotropy.sharing._relaxation import RelaxationOptions, relax_sharing
from isotropy_papers.sharing_tasks import SharingTask, cross_correlation, shared_means

Labels = NDArray[np.int64]
Draw = Callable[[int], SharingTask]

_STARTS = 3
_STEPS = 1000
# where both take the same path; later, RMSprop blows up the rounding of slopes that are nearly 0
_SAME_STEPS = 200
_PENALTY = 0.01


@dataclass(frozen=True)
class Row:
    """A task, and how the paper solves it.

    Attributes:
        name: What is printed.
        draw: The data of a seed.
        train: Rows for the lower level; the others are for validation.
        optimiser: Of the upper level, with its learning rate and weight decay.
        many: Data sets that ours solve.
    """

    name: str
    draw: Draw
    train: int
    optimiser: tuple[str, float, float]
    many: int


_MEANS = ("rmsprop", 2e-2, 1e-4)
_FILTER = ("adam", 0.1, 0.0)
ROWS = (
    Row("6 equal means", lambda seed: shared_means(6, seed=seed), 30, _MEANS, 200),
    Row("50 equal means", lambda seed: shared_means(50, seed=seed), 30, _MEANS, 20),
    Row("filter, 35 weights", lambda seed: cross_correlation(7, seed=seed), 50, _FILTER, 20),
    Row("filter, 80 weights", lambda seed: cross_correlation(10, seed=seed), 50, _FILTER, 10),
)


def main() -> int:
    args = _arguments()
    torch.set_num_threads(1)
    _solve_all(ROWS[0], [ROWS[0].draw(0)], steps=20)  # not timed: the first calls are cold
    print(f"CPU s per data set, on one core; the paper's method on {args.runs} data sets")
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    print(f"{'':<19} {'-- the paper, one by one --':^30}   ", end="")
    print(f"{'-- the same as one batch --':^27}   {'--- evidence ---':^24}")
    columns = f"{'CPU s':>8} {'ratio':>7} {'PD':>6} {'exact':>5}"
    print(f"{'':<19} {'CPU s':>8} {'PD':>6} {'exact':>5} {'apart':>8}   {columns}   {columns}")
    rows, agree = [], True
    for row in ROWS:
        found = _measured(row, args.runs)
        rows.append(found)
        print(_line(found), flush=True)
        agree &= found["apart"] < 1e-6
    if args.json:
        write_json(args.json, {"runs": args.runs, "rows": rows})
    if not agree:
        print("\nPATHS DISAGREE")
    return 0 if agree else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=_positive, default=3, help="data sets of the paper's method")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _measured(row: Row, runs: int) -> dict[str, Any]:
    tasks = [row.draw(seed) for seed in range(max(row.many, runs))]
    starts = _starts(tasks)
    began = cpu_seconds()
    alone = [
        one_by_one(row, task, start) for task, start in zip(tasks[:runs], starts, strict=False)
    ]
    peer = (cpu_seconds() - began) / runs
    began = cpu_seconds()
    batch = _solve_all(row, tasks)
    together = (cpu_seconds() - began) / len(tasks)
    began = cpu_seconds()
    evident = [PartitionEvidence(LeastSquares.of(task.x, task.y)).best() for task in tasks]
    evidence = (cpu_seconds() - began) / len(tasks)
    first = one_by_one(row, tasks[0], starts[0], steps=_SAME_STEPS)
    apart = (first - _solve_all(row, tasks, steps=_SAME_STEPS)[0]).abs().max()
    return {
        "name": row.name,
        "data_sets": len(tasks),
        "apart": float(apart),
        "paper": _result(peer, peer, rounded(torch.stack(alone)), tasks[:runs]),
        "batch": _result(together, peer, rounded(batch), tasks),
        "evidence": _result(evidence, peer, np.stack(evident), tasks),
    }


def _starts(tasks: list[SharingTask]) -> Tensor:
    """What ``relax_sharing`` draws with the seed 0."""
    size = tasks[0].map.numel()
    shape = (len(tasks), _STARTS, size, size)
    return 0.1 * torch.randn(shape, generator=generator(0), dtype=torch.float64)


def _result(cpu: float, peer: float, found: Labels, tasks: list[SharingTask]) -> dict[str, float]:
    distances = [
        partition_distance(labels, canonical_labels(task.labels.ravel()))
        for labels, task in zip(found, tasks, strict=True)
    ]
    return {
        "cpu": cpu,
        "ratio": peer / cpu,
        "distance": float(np.mean(distances)),
        "exact": float(np.mean(np.array(distances) == 0)),
    }


def _line(found: dict[str, Any]) -> str:
    paper = found["paper"]
    text = f"{found['name']:<19} {paper['cpu']:>8.3f} {paper['distance']:>6.2f} "
    text += f"{paper['exact']:>5.0%} {found['apart']:>8.0e}"
    for ours in (found["batch"], found["evidence"]):
        text += f"   {ours['cpu']:>8.4f} {ours['ratio']:>7.0f} "
        text += f"{ours['distance']:>6.2f} {ours['exact']:>5.0%}"
    return text


def _solve_all(row: Row, tasks: list[SharingTask], steps: int = _STEPS) -> Tensor:
    """The relaxation of the library, on all data sets at once."""
    y = torch.stack([task.y for task in tasks])
    x = None
    if tasks[0].x is not None:
        x = torch.stack([task.x for task in tasks if task.x is not None])
    train, held = (
        LeastSquares.of(None if x is None else x[:, rows], y[:, rows])
        for rows in (slice(row.train), slice(row.train, None))
    )
    name, rate, decay = row.optimiser
    found = relax_sharing(
        train,
        held,
        entropy=_PENALTY,
        rank=_PENALTY,
        restarts=_STARTS,
        steps=steps,
        options=RelaxationOptions(
            optimiser="rmsprop" if name == "rmsprop" else "adam",
            learning_rate=rate,
            weight_decay=decay,
        ),
        generator=generator(0),
    )
    return found.best()


def one_by_one(row: Row, task: SharingTask, starts: Tensor, steps: int = _STEPS) -> Tensor:
    """The relaxed assignment of the best start, by the paper's method on rows of data."""
    x = torch.ones_like(task.y[:, :1]) if task.x is None else task.x
    theta = torch.linalg.lstsq(x[: row.train], task.y[: row.train]).solution.mT.flatten()
    shape = (task.y.shape[1], x.shape[1])
    held_x, held_y = x[row.train :], task.y[row.train :]
    name, rate, decay = row.optimiser
    best, least = torch.eye(len(theta)), torch.inf
    for start in starts:
        logits = start.clone().requires_grad_()
        kind = torch.optim.RMSprop if name == "rmsprop" else torch.optim.Adam
        optimiser = kind([logits], lr=rate, weight_decay=decay)

        def penalised(logits: Tensor = logits) -> tuple[Tensor, Tensor]:
            a = torch.softmax(logits, 1)
            shared = a @ torch.diag(1 / a.sum(0)) @ a.T @ theta
            loss = ((held_y - held_x @ shared.reshape(shape).T) ** 2).mean()
            kept = a + 1e-6
            entropy = -(kept * torch.log(kept)).sum(1).mean()
            columns = torch.sqrt((a**2).sum(0)).sum()
            return loss + _PENALTY * (entropy + columns), a

        for _ in range(steps):
            optimiser.zero_grad()
            penalised()[0].backward()
            optimiser.step()
        with torch.no_grad():
            loss, a = penalised()
        if float(loss) < least:
            best, least = a, float(loss)
    return best


if __name__ == "__main__":
    sys.exit(main())
