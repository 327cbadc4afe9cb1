"""How often real certificates fail on tasks whose risk is known; they may, in 5 of 100.

    python benchmarks/coverage.py [--certificates 1000]

Every certificate trains, quantises, codes and counts on a fresh sample of a finite domain with
known label noise, so that the risk of its network is exact. A control charges nothing for the
message: bounds that fail must be seen to fail.
"""

from __future__ import annotations

import argparse

import torch
from scipy.stats import binom

from isotropy.certificates import architecture, certify, smallest_bound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--certificates", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=60)
    count, rows = (parser.parse_args().certificates, parser.parse_args().rows)
    points = torch.cartesian_prod(torch.linspace(-1, 1, 8), torch.linspace(-1, 1, 8))
    chance = torch.where(points.sum(1) > 0, 0.8, 0.2)
    module = architecture("mlp-16").build((2,), 2)
    failed = {"certificate": 0, "message not charged": 0}
    for seed in range(count):
        draw = torch.Generator().manual_seed(seed)
        index = torch.randint(0, 64, (rows,), generator=draw)
        labels = (torch.rand(rows, generator=draw) < chance[index]).long()
        made = certify(
            "mlp-16",
            (points[index], labels),
            d=20,
            levels=3,
            epochs=30,
            quantised_epochs=10,
            batch=20,
            delta=0.05,
        )
        said = made.hypothesis().network(module)(points.double()).argmax(1)
        risk = float(torch.where(said == 1, 1 - chance, chance).mean())
        free = smallest_bound(made.errors, rows, 0, 0.05, kinds=("binomial_tail",))
        failed["certificate"] += risk > made.bound
        failed["message not charged"] += risk > free.value
    allowed = int(binom.ppf(0.99, count, 0.05))
    for name, number in failed.items():
        print(f"{name}: {number} of {count} fail; at delta = 0.05 at most {allowed} may")


if __name__ == "__main__":
    main()
