"""What does each threshold of discovery do? Each is halved and doubled on a fixed draw of files.

    python benchmarks/thresholds.py [--stage testing] [--only FIELD,…] [--together] [--jobs N]
        [--full] [--out FILE]

The draw is of at most fifteen tasks of ``known_symmetries.py``, some of each kind and a third of
them without symmetry; ``--full`` takes all of them. A line for each setting says how many are
right, how many have a false claim, how many are missed, and how long they took. The first line is
that of the thresholds as they are. With ``--together`` those that are named, or all of a stage,
are changed at once: where that changes nothing, none of them matters to these files. With ``--out``
each setting is kept as it finishes, and the same command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from known_symmetries import TASKS, verdict, write

from isotropy._run import write_json
from isotropy.data import Intake, load
from isotropy.discovery import discover
from isotropy.discovery._thresholds import Thresholds, replaced
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._reading_thresholds import ReadingThresholds
from isotropy.discovery.testing._testing_thresholds import TestingThresholds

AS_THE_COMMAND = Intake(missing="drop", text="drop", guess=True)
STAGES: dict[str, type[Thresholds]] = {
    "reading": ReadingThresholds,
    "predictors": PredictorThresholds,
    "proposing": ProposingThresholds,
    "testing": TestingThresholds,
    "modelling": ModellingThresholds,
}
DRAW = (
    "two kinds of columns",
    "length of a vector",
    "turns about an axis",
    "pure noise",
    "different weights",
    "moment of inertia",
    "blocks without symmetry",
    "circular filter",
    "filter with ends",
    "weights that fade",
    "sum over points",
    "every element its own weight",
    "almost a length",
    "faces in the mirror",
    "quadrant of a bar",
)


@dataclass(frozen=True)
class Setting:
    """Thresholds of stages at half or double their values; none where they are as they are."""

    names: tuple[tuple[str, str], ...] = ()  # of the stage, and of the threshold
    times: float = 1.0

    @property
    def thresholds(self) -> list[Thresholds]:
        """Those of the stages with these changed."""
        changed = []
        for stage in dict.fromkeys(stage for stage, _ in self.names):
            usual = STAGES[stage]()
            names = [name for of, name in self.names if of == stage]
            values = {name: scaled(getattr(usual, name), self.times) for name in names}
            changed.append(replace(usual, **values))
        return changed

    def __str__(self) -> str:
        named = ", ".join(f"{stage}.{name}" for stage, name in self.names)
        return f"{named} × {self.times:g}" if named else "as they are"


def scaled(value: Any, times: float) -> Any:
    """A number, or each of several, times a factor; whole numbers stay whole and positive."""
    if isinstance(value, tuple):
        return tuple(scaled(one, times) for one in value)
    return max(1, round(value * times)) if isinstance(value, int) else value * times


def settings(stages: list[str], only: set[str], together: bool) -> Iterator[Setting]:
    """The thresholds as they are, then each, or all at once, at half and at double its value."""
    yield Setting()
    names = [
        (stage, field.name)
        for stage in stages
        for field in fields(STAGES[stage])
        if not only or field.name in only
    ]
    for group in [tuple(names)] if together else [(name,) for name in names]:
        yield from (Setting(group, times) for times in (0.5, 2.0))


def measured(setting: Setting, tasks: list[str], seed: int) -> dict[str, Any]:
    """How many of the tasks are right with a setting, and in what time."""
    with tempfile.TemporaryDirectory() as folder:
        return _measured(setting, tasks, Path(folder), seed)


def _measured(setting: Setting, tasks: list[str], folder: Path, seed: int) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    begun = time.process_time()
    modelling = any(stage == "modelling" for stage, _ in setting.names)
    for name in tasks:
        path = write(name, TASKS[name], seed, folder)
        with ExitStack() as stack:
            for changed in setting.thresholds:
                stack.enter_context(replaced(changed))
            try:
                found = discover(
                    load(path, intake=AS_THE_COMMAND),
                    fit_models=modelling,
                    seed=0,
                )
                result = verdict(TASKS[name], [one.to_json() for one in found])
            except ValueError as error:
                result = f"refused: {error}"
        counts[result.partition(":")[0]] += 1
        wrong += [] if result == "right" else [f"{name}: {result}"]
    seconds = round(time.process_time() - begun, 1)
    kinds = {kind: counts[kind] for kind in ("right", "FALSE", "missed", "refused")}
    return {"setting": str(setting), **kinds, "cpu_seconds": seconds, "wrong": wrong}


def _rows(missing: list[Setting], tasks: list[str], seed: int, jobs: int) -> Iterable[Any]:
    """The rows of settings, in their order, as each is done."""
    if jobs == 1:
        yield from (measured(setting, tasks, seed) for setting in missing)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = [pool.submit(measured, setting, tasks, seed) for setting in missing]
        yield from (one.result() for one in waiting)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stage", choices=STAGES, help="of these alone")
    parser.add_argument("--only", default="", help="names of thresholds, with commas")
    parser.add_argument("--together", action="store_true", help="all of them at once")
    parser.add_argument("--jobs", type=int, default=1, help="settings at a time, a core each")
    parser.add_argument("--full", action="store_true", help="all tasks, which takes hours")
    parser.add_argument("--seed", type=int, default=0, help="of the files")
    parser.add_argument("--out", type=Path, help="a JSON file to go on from")
    parser.add_argument("--json", action="store_true", help="print JSON; lines go to stderr")
    given = parser.parse_args()
    only = {word.strip() for word in given.only.split(",") if word.strip()}
    unknown = only - {field.name for stage in STAGES.values() for field in fields(stage)}
    if unknown:
        parser.error(f"expected names of thresholds, got {', '.join(sorted(unknown))}")
    stages = [given.stage] if given.stage else list(STAGES)
    tasks = list(TASKS) if given.full else list(DRAW)
    draw = f"{len(tasks)} files of seed {given.seed}"
    known: dict[str, Any] = {}
    if given.out is not None and given.out.exists():
        before = json.loads(given.out.read_text())
        if before["draw"] != draw:
            parser.error(
                f"expected settings on {draw} in {given.out}, got those on {before['draw']}"
            )
        known = {row["setting"]: row for row in before["cells"]}
    wanted = list(settings(stages, only, given.together))
    rows = [known[str(setting)] for setting in wanted if str(setting) in known]
    missing = [setting for setting in wanted if str(setting) not in known]
    for row in chain(tuple(rows), _rows(missing, tasks, given.seed, given.jobs)):
        if row["setting"] not in known:
            rows.append(row)
            known[row["setting"]] = row
            if given.out is not None:
                write_json(given.out, {"draw": draw, "cells": list(known.values())})
        counts = ", ".join(f"{row[kind]} {kind}" for kind in ("right", "FALSE", "missed"))
        line = f"{row['setting']:48} {counts:34} {row['cpu_seconds']:7.1f} s  "
        print(
            line + "; ".join(row["wrong"]),
            file=sys.stderr if given.json else sys.stdout,
            flush=True,
        )
    if given.json:
        print(json.dumps({"cells": rows}))


if __name__ == "__main__":
    main()
