"""Which symmetries are found in logs of simulated robots, and which are true.

See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import sys
import time

import gymnasium
import torch

from isotropy import discover
from isotropy.discovery import Findings
from isotropy.rl import collect_transitions, make_environment

# None: no symmetry holds
_TRUE = {
    "Walker2d-v5": "Z(2)",
    "Swimmer-v5": "Z(2)",
    "Ant-v5": "D(4)",
    "Pendulum-v1": "Z(2)",
    "CartPole-v1": "Z(2)",
    "Hopper-v5": None,
    "HalfCheetah-v5": None,
}

_ROWS = {"Ant-v5": 60_000}  # 27 entries to be told apart


def main() -> None:
    args = _arguments()
    out = sys.stderr if args.json else sys.stdout
    torch.set_num_threads(1)
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    title = f"{'environment':16}{'rows':>7}{'seed':>5}{'true':>6}{'p':>8}{'CPU s':>7}  found"
    print(title, file=out)
    rows = []
    for id in args.ids:
        for seed in args.seeds:
            many = args.rows or _ROWS.get(id, 20_000)
            log = collect_transitions(make_environment(id), many, seed=seed)
            start = time.process_time()
            found = discover(log, fit_models=False)
            seconds = time.process_time() - start
            row = {
                "id": id,
                "rows": many,
                "seed": seed,
                "true": _TRUE[id],
                "seconds": seconds,
                **_best(found),
            }
            rows.append(row)
            p_value = row["p_value"] if row["found"] else float("nan")
            print(
                f"{id:16}{many:>7}{seed:>5}{_TRUE[id] or '-':>6}{p_value:>8.1g}{seconds:>7.0f}  "
                f"{row['found'] or '-'}",
                file=out,
                flush=True,
            )
    if args.json:
        print(json.dumps({"cells": rows}))


def _best(found: Findings) -> dict[str, str | float | None]:
    if not found:
        return {"found": None, "p_value": None}
    return {"found": found[0].name, "p_value": found[0].p_value}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ids", nargs="+", default=list(_TRUE), choices=list(_TRUE))
    parser.add_argument("--seeds", nargs="+", type=int, default=[100, 101])
    parser.add_argument("--rows", type=int, help="by default 20,000, of Ant 60,000")
    parser.add_argument("--json", action="store_true", help="print JSON; lines go to stderr")
    return parser.parse_args()


if __name__ == "__main__":
    main()
