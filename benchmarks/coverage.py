"""How often real certificates fail on tasks whose risk is known; they may, in 5 of 100.

    python benchmarks/coverage.py [--certificates 1000]

Labels are tosses of a coin, so that the risk of any network is exactly a half, and networks learn
their rows by heart. Every certificate trains, quantises, codes and counts on a fresh sample. A
control charges nothing for the message: bounds that fail must be seen to fail.
"""

from __future__ import annotations

import argparse

import torch
from scipy.stats import binom

from isotropy.certificates import certify, smallest_bound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--certificates", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=60)
    chosen = parser.parse_args()
    failed = {"certificate": 0, "message not charged": 0}
    for seed in range(chosen.certificates):
        draw = torch.Generator().manual_seed(seed)
        x = torch.randn(chosen.rows, 20, generator=draw)
        y = torch.randint(0, 2, (chosen.rows,), generator=draw)
        made = certify("mlp-16", (x, y), d=60, levels=5, epochs=40, quantised_epochs=20, batch=20)
        free = smallest_bound(made.errors, chosen.rows, 0, 0.05, kinds=("binomial_tail",))
        failed["certificate"] += made.bound < 0.5
        failed["message not charged"] += free.value < 0.5
    allowed = int(binom.ppf(0.99, chosen.certificates, 0.05))
    for name, number in failed.items():
        print(f"{name}: {number} of {chosen.certificates} fail; at most {allowed} may")


if __name__ == "__main__":
    main()
