"""How often is a symmetry of images claimed that is none, and how often is one missed?

    python benchmarks/false_image_claims.py [--sets 20] [--seed 0] [--json]

Images of 8×8 pixels with noise, 700 to 1400 rows, of five kinds: labels without any relation to the
image; bars that lie or stand anywhere on a torus, whose class shifts keep and turns change; a mark
whose quadrant is the class, which every motion changes, though early layers may be convolutions;
a hook or its mirror image in the middle, turned by quarters, whose class mirrors change; and 4000
images of 8×10 with a T anywhere, whose class is the other one where it lies in the first row.
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
SIDE = 8


def noise(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    return np.zeros((rows, SIDE, SIDE)), rng.integers(2, size=rows)


def bars(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    x, y = np.zeros((rows, SIDE, SIDE)), rng.integers(2, size=rows)
    for image, label in zip(x, y, strict=True):
        image[(0, slice(3)) if label else (slice(3), 0)] = 1
        image[:] = np.roll(image, rng.integers(SIDE, size=2), (0, 1))
    return x, y


def quadrants(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    x, y = np.zeros((rows, SIDE, SIDE)), rng.integers(4, size=rows)
    for image, label in zip(x, y, strict=True):
        row, column = rng.integers(SIDE // 2 - 1, size=2)
        row, column = row + SIDE // 2 * (label // 2), column + SIDE // 2 * (label % 2)
        image[row : row + 2, column : column + 2] = 1
    return x, y


def hooks(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    x, y = np.zeros((rows, SIDE, SIDE)), rng.integers(2, size=rows)
    for image, label in zip(x, y, strict=True):
        image[2:6, 3] = 1
        image[5 if label else 2, 4] = 1
        image[:] = np.rot90(image, rng.integers(4))
    return x, y


def exceptions(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    del rows  # it takes many to learn
    x, y = np.zeros((4000, SIDE, SIDE + 2)), rng.integers(2, size=4000)
    for k, image in enumerate(x):
        image[0, :3] = 1
        image[1 if y[k] else -1, 1] = 1
        row, column = rng.integers(SIDE), rng.integers(SIDE + 2)
        image[:] = np.roll(image, (row, column), (0, 1))
        y[k] = 1 - y[k] if row == 0 else y[k]
    return x, y


def of_early_layers(name: str) -> bool:
    """Early layers may have any symmetry, if later ones can undo it."""
    return "layers 0" in name or "layer 0" in name


# what makes them, which claims but those are false of them, and which one should be made
KINDS: dict[
    str,
    tuple[
        Callable[[np.random.Generator, int], tuple[Array, Array]],
        Callable[[str], bool],
        str | None,
    ],
] = {
    "noise": (noise, lambda _: True, None),
    "bars": (bars, lambda name: "quarter" in name or "p4" in name, "Z(8) × Z(8)"),
    "quadrants": (quadrants, lambda _: True, None),
    "exceptions": (
        exceptions,
        lambda name: name.startswith("Z(8)") or "all layers" in name,
        None,
    ),
    "hooks": (hooks, lambda name: "mirror" in name or "upside" in name or "p4m" in name, "C(4)"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="print JSON; lines go to stderr")
    options = parser.parse_args()
    out = sys.stderr if options.json else sys.stdout
    cells: list[dict[str, object]] = []
    started = time.process_time()
    tried: Counter[str] = Counter()
    false: Counter[str] = Counter()
    hit: Counter[str] = Counter()
    for i in range(options.sets):
        rng = np.random.default_rng([options.seed, i])
        kind = list(KINDS)[i % len(KINDS)]
        make, is_false, wanted = KINDS[kind]
        x, y = make(rng, int(rng.integers(700, 1401)))
        x = x + rng.choice([0.1, 0.3]) * rng.normal(size=x.shape)
        found = discover(x[:, None], y, fit_models=False, seed=i)
        names = [finding.name for finding in found]
        wrong = [name for name in names if is_false(name) and not of_early_layers(name)]
        tried[kind] += 1
        false[kind] += bool(wrong)
        hit[kind] += wanted is not None and any(name.startswith(wanted) for name in names)
        line = f"{i:3} {kind:10} {'; '.join(names) or 'nothing'}{'  FALSE' * bool(wrong)}"
        print(line, file=out, flush=True)
    print(f"\n{'kind':10} sets  false claims  found", file=out)
    for kind, (_, _, wanted) in KINDS.items():
        shown = "" if wanted is None else str(hit[kind])
        print(f"{kind:10} {tried[kind]:4}  {false[kind]:12}  {shown:>5}", file=out)
        right = None if wanted is None else hit[kind]
        cells.append({"kind": kind, "sets": tried[kind], "false": false[kind], "right": right})
    print(f"\n{time.process_time() - started:.0f} CPU s", file=out)
    if options.json:
        print(json.dumps({"cells": cells}))


if __name__ == "__main__":
    main()
