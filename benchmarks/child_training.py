"""A training step of a child network: weights gathered by array, and by Python lists as published.

See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from measure import cpu_seconds
from peers.basu2021 import HIDDEN, IMAGE, STEP, Child, optimiser, training_step
from torch.nn import functional

from isotropy.groups import grid_transformations
from isotropy.nn import GridNetwork
from isotropy.run import write_json
from isotropy_papers.grid_images import AUGMENTATIONS

_ROWS = {
    "Eq0": (),
    "Eq1": ("rotation",),
    "Eq2": ("horizontal flip",),
    "Eq4": ("horizontal translation",),
    **{name: AUGMENTATIONS[name] for name in ("Aug1", "Aug2", "Aug3", "Aug4", "Aug5")},
}
_BATCH, _COMPARED = 64, 5


def main() -> int:
    args = _arguments()
    torch.set_num_threads(1)
    print(f"CPU ms of one step with {_BATCH} images: forward, backward, Adam; one thread")
    print(f"the mean of {args.steps} steps; load {os.getloadavg()[0]:.1f} at the start\n")
    print(f"{'set':6}{'parameters':>11}{'peer':>9}{'ours':>9}{'ratio':>7}")
    rows = []
    for name in args.rows:
        row = _row(name, args.steps)
        rows.append(row)
        print(
            f"{name:6}{row['parameters']:>11,}{row['peer']:>9.1f}{row['ours']:>9.2f}"
            f"{row['peer'] / row['ours']:>7.0f}" + ("" if row["equal"] else "  LOSSES DISAGREE"),
            flush=True,
        )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        write_json(args.json, {"steps": args.steps, "torch": torch.__version__, "rows": rows})
    return 0 if all(row["equal"] for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", choices=list(_ROWS), nargs="+", default=list(_ROWS))
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args()


def _row(name: str, steps: int) -> dict[str, Any]:
    """Both on the same images from the same start, for some steps that must agree, then timed."""
    torch.manual_seed(1)
    transformations = grid_transformations(_ROWS[name], step=STEP)
    ours = GridNetwork((1, IMAGE, IMAGE), transformations, hidden=(HIDDEN, HIDDEN), published=True)
    labels = GridNetwork.sharing(transformations, [IMAGE, HIDDEN, HIDDEN])
    # the peer's matrices go from inputs to outputs
    theirs = Child(*(layer.T.flatten().tolist() for layer in labels))
    _same_start(theirs, ours)
    adam = optimiser(theirs)
    own = torch.optim.Adam(ours.parameters(), 1e-3, fused=True)
    x, y = torch.rand(_BATCH, IMAGE * IMAGE), torch.randint(10, (_BATCH,))

    def step() -> float:
        own.zero_grad()
        loss = functional.cross_entropy(ours(x), y)
        loss.backward()
        own.step()
        return float(loss.detach())

    losses = [(training_step(theirs, adam, x, y), step()) for _ in range(_COMPARED)]
    peer = _milliseconds(lambda: training_step(theirs, adam, x, y), steps)
    mine = _milliseconds(step, 5 * steps)
    return {
        "set": name,
        "parameters": sum(p.numel() for p in ours.parameters()),
        "peer": peer,
        "ours": mine,
        "equal": all(abs(a - b) < 1e-3 * max(1.0, abs(a)) for a, b in losses),
    }


def _milliseconds(step: Callable[[], float], times: int) -> float:
    start = cpu_seconds()
    for _ in range(times):
        step()
    return 1e3 * (cpu_seconds() - start) / times


@torch.no_grad()
def _same_start(theirs: Child, ours: GridNetwork) -> None:
    """Give the peer our weights; an orbit's number differs, what it holds does not."""
    for values, labels, layer, bias, shift in zip(
        theirs.values, theirs.labels, ours.layers, theirs.biases, ours.shifts, strict=True
    ):
        values.weight[0].index_copy_(0, torch.tensor(labels), layer.weight.T.flatten())
        bias.copy_(shift)
    theirs.head.load_state_dict(ours.head.state_dict())


if __name__ == "__main__":
    sys.exit(main())
