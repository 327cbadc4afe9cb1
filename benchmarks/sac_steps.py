"""Steps of SAC per CPU second: stable-baselines3's own policy, symmetric ones, augmentation.

See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import median
from typing import Any

import stable_baselines3
import torch
from measure import cpu_seconds
from stable_baselines3 import SAC

from isotropy.rl import (
    EquivariantPolicy,
    RPPPolicy,
    SymmetricReplayBuffer,
    environment_symmetry,
    make_environment,
)
from isotropy.run import write_json

_IDS = ("Walker2d-v5", "Ant-v5")
_OWN = "MlpPolicy"
_STARTS = 100  # random steps before the first update


def main() -> int:
    args = _arguments()
    torch.set_num_threads(1)
    print(f"one step: environment, replay, one update with 256 transitions; {args.turns} turns of")
    print(f"{args.steps} steps each, medians; one thread; load {os.getloadavg()[0]:.1f}\n")
    print(f"{'environment':14}{'group':8}{'policy':24}{'ms':>8}{'steps/s':>9}{'of SB3':>8}")
    rows = []
    for id in args.rows:
        symmetry = environment_symmetry(id)
        times = _times(id, args.steps, args.turns)
        for name, milliseconds in times.items():
            row = {"id": id, "group": symmetry.name, "policy": name, "ms": milliseconds}
            row["ratio"] = times[_OWN] / milliseconds
            rows.append(row)
            print(
                f"{id:14}{symmetry.name:8}{name:24}{milliseconds:>8.2f}"
                f"{1e3 / milliseconds:>9.1f}{row['ratio']:>8.2f}",
                flush=True,
            )
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        versions = {"torch": torch.__version__, "sb3": stable_baselines3.__version__}
        write_json(args.json, {"steps": args.steps, "turns": args.turns, **versions, "rows": rows})
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", choices=_IDS, nargs="+", default=list(_IDS))
    parser.add_argument("--steps", type=int, default=60, help="steps in each turn")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args()


def _times(id: str, steps: int, turns: int) -> dict[str, float]:
    """CPU milliseconds of a step by each model, in turns so that noise hits all of them."""
    models = _models(id)
    for model in models.values():
        model.learn(_STARTS + 50)
    found: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(turns):
        for name, model in models.items():
            start = cpu_seconds()
            model.learn(steps, reset_num_timesteps=False)
            found[name].append(1e3 * (cpu_seconds() - start) / steps)
    return {name: median(values) for name, values in found.items()}


def _models(id: str) -> dict[str, SAC]:
    options: dict[str, dict[str, Any]] = {
        _OWN: {"policy": "MlpPolicy"},
        "RPPPolicy": {"policy": RPPPolicy, "policy_kwargs": {"symmetry": id}},
        "EquivariantPolicy": {"policy": EquivariantPolicy, "policy_kwargs": {"symmetry": id}},
        "SymmetricReplayBuffer": {
            "policy": "MlpPolicy",
            "replay_buffer_class": SymmetricReplayBuffer,
            "replay_buffer_kwargs": {"symmetry": id},
        },
    }
    common = {"learning_starts": _STARTS, "buffer_size": 10_000, "seed": 0, "device": "cpu"}
    return {
        name: SAC(env=make_environment(id), **common, **given) for name, given in options.items()
    }


if __name__ == "__main__":
    sys.exit(main())
