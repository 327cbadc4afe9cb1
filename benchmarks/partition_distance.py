"""Partition distance, ours and the published code's method, on the same partitions in one run.

The published method makes a set of each block, empty blocks included, fills a K×K table with the
sizes of all intersections in a double loop, and solves the assignment on it. The partitions: √K
blocks, and the same with 30 % of the elements at random labels out of K.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from measure import cpu_seconds
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from isotropy.equivariance import partition_distance
from isotropy.run import write_json

Labels = NDArray[np.int64]


def main() -> int:
    args = _arguments()
    print(f"CPU ms, least and median of {args.repeats} turns; the published method once")
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    print(f"{'K':>6} {'distance':>9} {'ours':>7} {'median':>7} {'theirs':>9} {'ratio':>7}")
    rows = []
    for k in args.sizes:
        row = _row(k, args.repeats)
        rows.append(row)
        ratio = row["theirs"] / row["ours"]
        print(
            f"{k:>6} {row['distance']:>9} {row['ours']:>7.3f} {row['median']:>7.3f} "
            f"{row['theirs']:>9.1f} {ratio:>7.0f}"
            + ("" if row["distance"] == row["theirs_distance"] else "  DISTANCES DISAGREE"),
            flush=True,
        )
    if args.json:
        write_json(args.json, {"repeats": args.repeats, "rows": rows})
    return 0 if all(row["distance"] == row["theirs_distance"] for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sizes", type=_positive, nargs="+", default=[100, 1000, 6400])
    parser.add_argument("--repeats", type=_positive, default=21, help="turns of ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _row(k: int, repeats: int) -> dict[str, Any]:
    a, b = _partitions(k)
    distance = partition_distance(a, b)  # not timed: the first call is cold
    calls = max(1, 20000 // k)  # the clock of CPU time is coarse
    turns = []
    for _ in range(repeats):
        began = cpu_seconds()
        for _ in range(calls):
            partition_distance(a, b)
        turns.append(1000 * (cpu_seconds() - began) / calls)
    began = cpu_seconds()
    theirs_distance = published(a, b)
    theirs = 1000 * (cpu_seconds() - began)
    return {
        "K": k,
        "distance": distance,
        "theirs_distance": theirs_distance,
        "ours": min(turns),
        "median": median(turns),
        "theirs": theirs,
    }


def _partitions(k: int) -> tuple[Labels, Labels]:
    rng = np.random.default_rng(0)
    a = rng.integers(int(k**0.5), size=k)
    return a, np.where(rng.random(k) < 0.3, rng.integers(k, size=k), a)


def published(a: Labels, b: Labels) -> int:
    """The distance by sets and a table of all intersections; labels are below K."""
    blocks: list[list[set[int]]] = []
    for labels in (a.tolist(), b.tolist()):
        blocks.append([set() for _ in labels])
        for element, label in enumerate(labels):
            blocks[-1][label].add(element)
    table = np.zeros((len(a), len(a)))
    for i, first in enumerate(blocks[0]):
        for j, second in enumerate(blocks[1]):
            table[i, j] = -len(first & second)
    return int(len(a) + table[linear_sum_assignment(table)].sum())


if __name__ == "__main__":
    sys.exit(main())
