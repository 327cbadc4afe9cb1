"""How often is a symmetry claimed where there is none, and how often is one missed?

    python benchmarks/false_claims.py [--sets 100] [--seed 0] [--json]

Data without symmetry are of ten kinds: linear targets with normal and with positive weights, with
half of them zero, several outputs, quadratic forms, random networks, a single index, classes, and
noise alone; 3 to 12 inputs, 200 to 800 rows, three levels of noise. Every finding is a false claim;
a swap that the margin cannot tell from a symmetry counts as one too. Data with a symmetry are sums,
signed sums, circular and palindromic filters of the same sizes.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable

import numpy as np

from isotropy.discovery import discover

Array = np.ndarray


def without(rng: np.random.Generator, x: Array, kind: str) -> Array:
    n = x.shape[1]
    if kind == "linear":
        return x @ rng.normal(size=n)
    if kind == "positive":
        return x @ rng.uniform(0.5, 2, size=n)
    if kind == "sparse":
        weights = rng.normal(size=n) * (rng.random(n) < 0.5)
        weights[0] = 1.0
        return x @ weights
    if kind == "several outputs":
        return x @ rng.normal(size=(n, int(rng.integers(2, n + 1))))
    if kind == "quadratic":
        form = rng.normal(size=(n, n))
        return np.einsum("ri,ij,rj->r", x, form, x) + x @ rng.normal(size=n)
    if kind == "network":
        return np.tanh(1.5 * x @ rng.normal(size=(n, 8)) / n**0.5) @ rng.normal(size=8)
    if kind == "single index":
        return np.sin(x @ rng.normal(size=n) / n**0.5)
    if kind == "classes":
        return (x @ rng.normal(size=n) > 0).astype(int)
    return rng.normal(size=len(x))


NULL = ("linear", "positive", "sparse", "several outputs", "quadratic", "network")
NULL += ("single index", "classes", "noise", "linear")

WITH: dict[str, tuple[Callable[[Array], Array], Callable[[int], str]]] = {
    "sum": (lambda x: x.sum(1), lambda n: f"S({n})"),
    "signed sum": (
        lambda x: x @ np.where(np.arange(x.shape[1]) % 2, 1.0, -1.0),
        lambda n: f"S({n // 2})+S({n // 2})",
    ),
    "circular filter": (
        lambda x: x + 3 * np.roll(x, -1, 1) + 5 * np.roll(x, -2, 1),
        lambda n: f"Z({n})",
    ),
    "palindromic filter": (
        lambda x: 2 * np.roll(x, 1, 1) + 5 * x + 2 * np.roll(x, -1, 1),
        lambda n: f"D({n})",
    ),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON; lines go to stderr")
    options = parser.parse_args()
    out = sys.stderr if options.json else sys.stdout
    cells: list[dict[str, object]] = []
    started = time.process_time()
    tried: Counter[str] = Counter()
    false: Counter[str] = Counter()
    for i in range(options.sets):
        rng = np.random.default_rng([options.seed, i])
        kind = NULL[i % len(NULL)]
        x = rng.normal(size=(int(rng.choice([200, 400, 800])), int(rng.integers(3, 13))))
        y = without(rng, x, kind)
        if kind != "classes":
            y = y + float(rng.choice([0, 0.1, 0.5])) * y.std() * rng.normal(size=y.shape)
        found = discover(x, y, fit_models=False, seed=i)
        tried[kind] += 1
        if len(found):
            false[kind] += 1
            print(f"  set {i}, {kind}, {x.shape}: {found[0]} ({found[0].method})", file=out)
    print(f"no symmetry: {sum(false.values())} of {options.sets} sets with a claim", file=out)
    for kind in tried:
        print(f"  {kind:<16} {false[kind]} of {tried[kind]}", file=out)
        cells.append({"kind": kind, "sets": tried[kind], "false": false[kind]})
    for name, (target, group) in WITH.items():
        right = 0
        for i in range(10):
            rng = np.random.default_rng([options.seed, 1, i])
            n = 2 * int(rng.integers(2, 7))
            x = rng.normal(size=(int(rng.choice([200, 400, 800])), n))
            y = target(x)
            y = y + 0.1 * y.std() * rng.normal(size=y.shape)
            found = discover(x, y, fit_models=False, seed=i)
            right += [f.group for f in found] == [group(n)]
        print(f"{name}: named right in {right} of 10 sets of 4 to 12 positions", file=out)
        cells.append({"kind": name, "sets": 10, "right": right})
    print(f"{time.process_time() - started:.0f} CPU seconds", file=out)
    if options.json:
        print(json.dumps({"cells": cells}))


if __name__ == "__main__":
    main()
