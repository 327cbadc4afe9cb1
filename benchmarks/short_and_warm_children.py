"""Do short trainings and inherited weights save anything in a group search?

Successive halving is replayed against stored tables. Children of joins are started from their
parents and trained for one epoch, and their order is held against that of full trainings.
See ``README.md`` in this folder.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial

import numpy as np
import torch
from scipy.stats import spearmanr

from isotropy.search import GridChild, LatticeSearch, State, Training
from isotropy_papers import Settings
from isotropy_papers._search_tables import grid_images, own_plan, stored_table
from isotropy_papers.replay import replay
from isotropy_papers.score_table import ScoreTable


def main() -> int:
    args = _arguments()
    torch.set_num_threads(1)
    for base in args.bases:
        for augmentation in args.augmentations:
            table = stored_table(own_plan(base, augmentation, 4000), Settings())
            print(f"{base} {augmentation}")
            _halving(table, args.seeds)
            if args.warm:
                _inherited(table, base, augmentation)
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bases", nargs="+", default=["fashion-mnist"])
    parser.add_argument("--augmentations", nargs="+", default=["Aug1", "Aug3", "Aug5"])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--no-warm", dest="warm", action="store_false")
    return parser.parse_args()


def _halving(table: ScoreTable, seeds: int) -> None:
    """Full trainings' worth until the best network of all is trained in full."""
    table.space._networks.update({one: table.network(one) for one in table.space.states()})
    goal = [table.best(seed) for seed in range(seeds)]
    for rungs in ((), (1,)):
        searches = replay(
            table,
            partial(LatticeSearch, rungs=rungs),
            seeds=seeds,
            children=2 * len(table.networks),
        )
        needed = searches.needed(goal, cost=True)
        print(f"  rungs {rungs!s:5} full trainings until the best of all: {needed}", flush=True)


def _inherited(table: ScoreTable, base: str, augmentation: str) -> None:
    """The order of joins of two groups after one epoch, against their mean over all seeds."""
    space = table.space
    images = grid_images(own_plan(base, augmentation, 4000), Settings())
    train = images.train[0][:4000], images.train[1][:4000]
    child = GridChild(space, train, images.validation, Training(4))
    singles = {table.network(space.state(name)) for name in space.groups}
    parents = {one: child(one, seed=0).weights for one in sorted(singles)}
    truth, cold, cold_in_full, warm = [], [], [], []
    for joined in sorted(
        {table.network(space.state(*a.groups, *b.groups)) for a in singles for b in singles}
    ):
        if joined in singles or joined == State():
            continue
        parent = next(one for one in sorted(singles) if set(one.groups) < set(joined.groups))
        number = table.network_of(joined)
        truth.append(table.validation[number, 1:, -1].mean())
        cold.append(table.validation[number, 0, 0])
        cold_in_full.append(table.validation[number, 0, -1])
        warm.append(child(joined, seed=1, epochs=1, start=parents[parent]).accuracy)
    print(f"  {len(truth)} joins of two; rank correlation with other seeds' mean full training:")
    for name, values in (
        ("1 epoch from scratch", cold),
        ("1 epoch from a parent", warm),
        ("4 epochs from scratch", cold_in_full),
    ):
        mean = np.mean(values) / (1 if name.endswith("parent") else table.validation_rows)
        print(
            f"    {name:22} {spearmanr(values, truth)[0]:.2f}, mean accuracy {mean:.1%}", flush=True
        )


if __name__ == "__main__":
    sys.exit(main())
