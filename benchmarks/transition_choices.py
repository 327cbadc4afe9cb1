"""How learning rate, weight decay, batch and prior were chosen for ``finzi2023/section3.6.2``.

Every model of that experiment over a grid, on transitions of Ant-v5 that it does not report on.
See ``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from statistics import mean, stdev
from typing import NamedTuple

import torch
from measure import cpu_seconds

from isotropy.data import Transitions
from isotropy.rl import (
    EnvironmentSymmetry,
    TransitionModel,
    collect_transitions,
    environment_symmetry,
    make_environment,
)
from isotropy.run import generator, spawn, write_json
from isotropy_papers import finzi2023_section3_6_2 as experiment
from isotropy_papers.transition_errors import group_images, one_step_error
from isotropy_papers.transition_training import TransitionRecipe, fit_transition_model

_ID = "Ant-v5"
_SEED = 12345  # the experiment has transitions of seeds 0 and 1
_TRANSITIONS = 20_000
_FREE_PRIOR = 3.0  # of flexible paths, in the thesis


class _Choice(NamedTuple):
    """What is chosen for a model; the last is the prior variance of flexible paths."""

    learning_rate: float
    weight_decay: float
    batch: int = 256
    steps: int = 1500
    variance: float | None = None


_GRIDS = {
    "MLP": (
        _Choice(1e-3, 0.0),
        _Choice(1e-3, 3.0, steps=500),
        _Choice(1e-3, 3.0),
        _Choice(1e-3, 10.0, steps=500),
        _Choice(1e-2, 0.3),
        _Choice(1e-2, 1.0),
        _Choice(1e-2, 3.0),
    ),
    "MLP on all images": (
        _Choice(1e-3, 1.0),
        _Choice(3e-3, 0.0),
        _Choice(1e-2, 0.0),
        _Choice(1e-2, 0.3),
        _Choice(1e-2, 1.0),
        _Choice(1e-2, 3.0),
        _Choice(3e-2, 0.3),
        _Choice(1e-2, 0.5, batch=64),
    ),
    "equivariant": (
        _Choice(1e-3, 3.0),
        _Choice(1e-2, 0.3),
        _Choice(1e-2, 1.0),
        _Choice(3e-2, 0.3),
        _Choice(3e-2, 1.0),
        _Choice(2e-2, 0.5, batch=64),
        _Choice(2e-2, 1.5, batch=64),
    ),
    "RPP": (
        _Choice(1e-3, 3.0, variance=1e-4),
        _Choice(1e-2, 1.0, variance=1e-5),
        _Choice(2e-2, 0.5, batch=64, variance=_FREE_PRIOR),
        _Choice(2e-2, 0.5, batch=64, variance=1e-4),
        _Choice(2e-2, 0.5, batch=64, variance=1e-5),
        _Choice(2e-2, 1.5, batch=64, variance=_FREE_PRIOR),
        _Choice(2e-2, 1.5, batch=64, variance=1e-5),
    ),
}


class _Data(NamedTuple):
    symmetry: EnvironmentSymmetry
    train: Transitions
    validation: Transitions


def main() -> int:
    args = _arguments()
    torch.set_num_threads(1)
    data = _data(args.transitions)
    print(f"{_ID}, seed {_SEED}: {len(data.train)} transitions to train on a part of, ", end="")
    print(f"{len(data.validation)} to validate with; width {args.width}, {args.seeds} seeds")
    print(f"* is what the experiment has, < the least; load {os.getloadavg()[0]:.1f}\n")
    print(
        f"{'model':20}{'n':>6}{'rate':>8}{'decay':>7}{'batch':>7}{'steps':>7}{'prior':>8}"
        f"{'error':>8}{'±':>7}{'CPU s':>7}"
    )
    found = []
    for model in args.models:
        for rows in args.rows:
            found += _table(model, rows, data, args)
    if args.json:
        write_json(
            args.json,
            {"id": _ID, "seed": _SEED, "width": args.width, "seeds": args.seeds, "rows": found},
        )
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", choices=list(_GRIDS), nargs="+", default=list(_GRIDS))
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[300, 1000], help="transitions to train on"
    )
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--width", type=int, default=256, help="of both hidden layers")
    parser.add_argument("--steps", type=int, help="instead of those of the grid, for a quick look")
    parser.add_argument("--transitions", type=int, default=_TRANSITIONS, help="to simulate")
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    return parser.parse_args()


def _data(transitions: int) -> _Data:
    """The last quarter is to validate with, from where an episode begins."""
    all_of_them = collect_transitions(make_environment(_ID), transitions, seed=_SEED)
    episodes = all_of_them.episodes
    assert episodes is not None
    first = int((episodes < episodes[3 * len(episodes) // 4]).sum())
    return _Data(
        environment_symmetry(_ID),
        all_of_them.rows(slice(0, first)),
        all_of_them.rows(slice(first, None)),
    )


def _table(model: str, rows: int, data: _Data, args: argparse.Namespace) -> list[dict[str, object]]:
    """The validation errors of a grid, each printed when it is there, then the least."""
    used = _used(model, rows)
    errors: dict[_Choice, list[float]] = {}
    found = []
    for choice in _GRIDS[model]:
        start = cpu_seconds()
        errors[choice] = _errors(model, rows, choice, data, args)
        seconds = cpu_seconds() - start
        spread = stdev(errors[choice]) if args.seeds > 1 else 0.0
        mark = " *" if choice == used else ""
        shown = _shown(model, rows, choice, args)
        print(f"{shown}{mean(errors[choice]):>8.3f}{spread:>7.3f}{seconds:>7.1f}{mark}", flush=True)
        row = {"model": model, "n": rows, **choice._asdict(), "steps": args.steps or choice.steps}
        found.append({**row, "errors": errors[choice], "cpu_s": seconds, "used": choice == used})
    best = min(errors, key=lambda choice: mean(errors[choice]))
    among = "the same" if best == used else "another" if used in errors else "not in the grid"
    print(f"{_shown(model, rows, best, args)}{mean(errors[best]):>8.3f} < what is used: {among}\n")
    return found


def _shown(model: str, rows: int, choice: _Choice, args: argparse.Namespace) -> str:
    prior = "" if choice.variance is None else f"{choice.variance:g}"
    return (
        f"{model:20}{rows:>6}{choice.learning_rate:>8g}{choice.weight_decay:>7g}{choice.batch:>7}"
        f"{args.steps or choice.steps:>7}{prior:>8}"
    )


def _used(model: str, rows: int) -> _Choice:
    """What the experiment has for so many rows."""
    trial = experiment._TRIALS[model][rows > experiment._BETWEEN]
    recipe = trial.recipe
    return _Choice(
        recipe.learning_rate,
        recipe.weight_decay,
        recipe.batch,
        recipe.steps,
        experiment._PRIOR[1] if trial.kind == "rpp" else None,
    )


def _errors(
    model: str, rows: int, choice: _Choice, data: _Data, args: argparse.Namespace
) -> list[float]:
    """The validation error of each seed, which has rows and starting weights of its own."""
    trial = experiment._TRIALS[model][0]
    variance = experiment._PRIOR[1] if choice.variance is None else choice.variance
    models = [
        TransitionModel(
            data.symmetry,
            trial.kind,
            widths=(args.width, args.width),
            variances=(experiment._PRIOR[0], variance),
            seed=seed,
        )
        for seed in range(args.seeds)
    ]
    orders = [
        torch.randperm(len(data.train), generator=source)[:rows]
        for source in spawn(generator(_SEED), args.seeds)
    ]
    parts = [data.train.rows(order) for order in orders]
    if trial.images:
        parts = [group_images(part, data.symmetry) for part in parts]
    recipe = TransitionRecipe(
        steps=args.steps or choice.steps,
        batch=choice.batch,
        learning_rate=choice.learning_rate,
        loss=trial.recipe.loss,
        weight_decay=choice.weight_decay,
        noise=trial.recipe.noise,
    )
    fit_transition_model(models, parts, recipe, seed=_SEED)
    return [one_step_error(one, data.validation) for one in models]


if __name__ == "__main__":
    sys.exit(main())
