"""What does each threshold of discovery do? Each is halved and doubled on a fixed draw of files.

    python benchmarks/thresholds.py [--stage testing] [--only FIELD,…] [--full] [--out FILE]

The draw is of at most fifteen tasks of ``known_symmetries.py``, some of each kind and a third of
them without symmetry; ``--full`` takes all of them. A line for each setting says how many are
right, how many have a false claim, how many are missed, and how long they took. The first line is
that of the thresholds as they are. With ``--out`` each setting is kept as it finishes, and the same
command goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
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
    """One threshold at half or double its value; the thresholds as they are without a name."""

    stage: str = ""
    name: str = ""
    times: float = 1.0

    @property
    def thresholds(self) -> Thresholds | None:
        """Those of the stage with this one changed."""
        if not self.name:
            return None
        usual = STAGES[self.stage]()
        return replace(usual, **{self.name: scaled(getattr(usual, self.name), self.times)})

    def __str__(self) -> str:
        return f"{self.stage}.{self.name} × {self.times:g}" if self.name else "as they are"


def scaled(value: Any, times: float) -> Any:
    """A number, or each of several, times a factor; whole numbers stay whole and positive."""
    if isinstance(value, tuple):
        return tuple(scaled(one, times) for one in value)
    return max(1, round(value * times)) if isinstance(value, int) else value * times


def settings(stages: list[str], only: set[str]) -> Iterator[Setting]:
    """The thresholds as they are, then each at half and at double its value."""
    yield Setting()
    for stage in stages:
        for field in fields(STAGES[stage]):
            if not only or field.name in only:
                yield from (Setting(stage, field.name, times) for times in (0.5, 2.0))


def measured(setting: Setting, tasks: list[str], folder: Path, seed: int) -> dict[str, Any]:
    """How many of the tasks are right with a setting, and in what time."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    begun = time.process_time()
    changed = setting.thresholds
    for name in tasks:
        path = write(name, TASKS[name], seed, folder)
        with replaced(changed) if changed is not None else nullcontext():
            try:
                found = discover(
                    load(path, intake=AS_THE_COMMAND),
                    fit_models=setting.stage == "modelling",
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--stage", choices=STAGES, help="of these alone")
    parser.add_argument("--only", default="", help="names of thresholds, with commas")
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
    out, rows = (sys.stderr if given.json else sys.stdout), []
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings(stages, only):
            row = known.get(str(setting)) or measured(setting, tasks, Path(folder), given.seed)
            rows.append(row)
            if given.out is not None:
                known[row["setting"]] = row
                write_json(given.out, {"draw": draw, "cells": list(known.values())})
            counts = ", ".join(f"{row[kind]} {kind}" for kind in ("right", "FALSE", "missed"))
            line = f"{row['setting']:48} {counts:34} {row['cpu_seconds']:7.1f} s  "
            print(line + "; ".join(row["wrong"]), file=out, flush=True)
    if given.json:
        print(json.dumps({"cells": rows}))


if __name__ == "__main__":
    main()
