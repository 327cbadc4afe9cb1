"""Which weights are equal: orbits of generators by array, and Algorithm 1 as published.

See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
from measure import cpu_seconds
from peers.basu2021 import HIDDEN, IMAGE, STEP, share
from torch import Tensor

from isotropy.bases import pair_orbits
from isotropy.groups import grid_transformations
from isotropy.run import write_json
from isotropy_papers.grid_images import AUGMENTATIONS

_ROWS = {
    "Eq1": ("rotation",),
    "Eq2": ("horizontal flip",),
    "Eq4": ("horizontal translation",),
    **{name: AUGMENTATIONS[name] for name in ("Aug1", "Aug2", "Aug3", "Aug4", "Aug5")},
}


def main() -> int:
    args = _arguments()
    torch.set_num_threads(1)
    print(f"CPU s of both layers, {IMAGE}x{IMAGE} to {HIDDEN}x{HIDDEN} to {HIDDEN}x{HIDDEN}")
    print(f"ours the least of {args.repeats} turns, the published way once; one thread")
    print(f"load {os.getloadavg()[0]:.1f} at the start\n")
    print(
        f"{'set':6}{'groups':>7}{'weights, layers 1 and 2':>25}{'peer':>9}{'ours':>9}{'ratio':>7}"
    )
    rows = []
    for name in args.rows:
        row = _row(name, args.repeats)
        rows.append(row)
        print(
            f"{name:6}{row['groups']:>7}{row['weights'][0]:>14,}{row['weights'][1]:>11,}"
            f"{row['peer']:>9.2f}{row['ours']:>9.4f}{row['peer'] / row['ours']:>7.0f}"
            + ("" if row["equal"] else "  PARTITIONS DISAGREE"),
            flush=True,
        )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        write_json(args.json, {"repeats": args.repeats, "torch": torch.__version__, "rows": rows})
    return 0 if all(row["equal"] for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", choices=list(_ROWS), nargs="+", default=list(_ROWS))
    parser.add_argument("--repeats", type=_positive, default=5, help="turns of ours")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    return parser.parse_args()


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _row(name: str, repeats: int) -> dict[str, Any]:
    began = cpu_seconds()
    theirs = [share(_ROWS[name], side, HIDDEN) for side in (IMAGE, HIDDEN)]
    peer = cpu_seconds() - began
    taken = []
    for _ in range(repeats):
        began = cpu_seconds()
        ours = _ours(_ROWS[name])
        taken.append(cpu_seconds() - began)
    return {
        "set": name,
        "groups": len(_ROWS[name]),
        "weights": [int(labels.max()) + 1 for labels in ours],
        "peer": peer,
        "ours": min(taken),
        "equal": all(map(_same_partition, ours, theirs)),
    }


def _ours(names: tuple[str, ...]) -> list[Tensor]:
    """Labels of both layers, from the names of transformations on."""
    moves = [
        one.permutations(IMAGE, HIDDEN, HIDDEN) for one in grid_transformations(names, step=STEP)
    ]
    return [
        pair_orbits([move[k + 1] for move in moves], [move[k] for move in moves]) for k in range(2)
    ]


def _same_partition(ours: Tensor, theirs: list[int]) -> bool:
    """Whether two labellings have one block for each pair of labels that occurs, and no more."""
    flat = ours.mT.flatten()  # theirs has inputs first
    pairs = torch.stack([flat, torch.tensor(theirs)])
    blocks = torch.unique(pairs, dim=1).shape[1]
    return blocks == len(torch.unique(pairs[0])) == len(torch.unique(pairs[1]))


if __name__ == "__main__":
    sys.exit(main())
