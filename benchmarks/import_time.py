"""What it costs to import the library: `isotropy.EMLP` beside torch alone, in one run.

Every turn starts one fresh interpreter of each, one after the other, so that both meet the same
load. A first turn, which fills the disk's cache and writes bytecode, is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

from isotropy._run import write_json

SIDES = {"torch": "import torch", "isotropy": "import isotropy; isotropy.EMLP"}
LIMIT = 1.4


def main() -> int:
    args = _arguments()
    print(f"seconds, medians of {args.repeats} turns; load {os.getloadavg()[0]:.1f} at the start\n")
    turns: dict[str, list[tuple[float, float]]] = {side: [] for side in SIDES}
    for turn in range(args.repeats + 1):
        for side, code in SIDES.items():
            cost = _cost(code)
            if turn:
                turns[side].append(cost)
    print(f"{'':<6} {'torch':>7} {'isotropy':>9} {'ratio':>6}")
    rows = []
    for column, clock in enumerate(("wall", "user")):
        torch, ours = (median(cost[column] for cost in turns[side]) for side in SIDES)
        rows.append({"clock": clock, "torch": torch, "isotropy": ours, "ratio": ours / torch})
        print(f"{clock:<6} {torch:>7.2f} {ours:>9.2f} {ours / torch:>6.2f}")
    if args.json:
        write_json(args.json, {"repeats": args.repeats, "rows": rows})
    return 0 if all(row["ratio"] <= LIMIT for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="turns that count")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    return parser.parse_args()


def _cost(code: str) -> tuple[float, float]:
    """Wall and user seconds of a fresh interpreter."""
    user, wall = _user_seconds(), time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - wall, _user_seconds() - user


def _user_seconds() -> float:
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime


if __name__ == "__main__":
    sys.exit(main())
