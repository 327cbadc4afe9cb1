"""Forward and backward of an EMLP, ours and emlp's, each beside its plain MLP, in one run.

Each library runs in a process of its own, ours then emlp's, on the same cores. See ``README.md``
in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bases import HERE, PEER_PYTHON, make_peer, process_environment

_PATIENCE = 3600  # wall seconds for a library


@dataclass
class Side:
    """What one library did.

    Attributes:
        about: Versions, the hidden representation.
        rows: For each row what its stages cost: "build", "first", "peak", "times", "failed".
        error: Why there is no (full) result, if there is none.
    """

    about: dict[str, str] = field(default_factory=dict)
    rows: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    error: str | None = None

    def number(self, row: str, column: str) -> float | None:
        """What stands in a column of a row, if it was measured."""
        stages = self.rows.get(row, {})
        stage, key, of = _COLUMNS[column]
        # a flavour is built as its network is; the row of the plain flavour has that
        holder = self.rows.get(row.split()[0], {}) if stage == "build" else stages
        if stage not in holder:
            return None
        value = holder[stage][key]
        if stage == "times":
            return 1e3 * float(min(value) if of == "min" else median(value))
        return float(value)

    def over_mlp(self, row: str, column: str) -> float | None:
        """A column of an EMLP over the same of the MLP of its flavour."""
        kind, *flavour = row.split()
        if kind == "MLP":
            return None
        return _ratio(self.number(row, column), self.number(" ".join(["MLP", *flavour]), column))


# name: (stage, key in it, which of several)
_COLUMNS = {
    "parameters": ("build", "parameters", ""),
    "build CPU": ("build", "cpu", ""),
    "build wall": ("build", "wall", ""),
    "first": ("first", "wall", ""),
    "CPU min": ("times", "cpu", "min"),
    "CPU median": ("times", "cpu", "median"),
    "wall min": ("times", "wall", "min"),
    "wall median": ("times", "wall", "median"),
    "peak": ("peak", "peak_mb", ""),
}
_OVER_MLP = ("CPU min", "wall min", "peak")


def main() -> int:
    args = _arguments()
    peer = args.device == "cpu" and not args.no_peer and make_peer()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # children inherit
    _print_header(args)
    sides = {"isotropy": _run([sys.executable, str(HERE / "isotropy_step.py")], args, args.repeats)}
    _print_side("isotropy", sides["isotropy"])
    if peer:
        fewer = max(3, args.repeats // 10)  # a step of emlp takes seconds
        sides["emlp"] = _run([str(PEER_PYTHON), str(HERE / "peers/emlp_step.py")], args, fewer)
        _print_side("emlp", sides["emlp"])
        _print_comparison(sides["isotropy"], sides["emlp"])
    print(f"\nload {os.getloadavg()[0]:.1f} at the end")
    if args.json:
        _write(args, sides)
    return 1 if any(_troubles(side) for side in sides.values()) else 0


def _arguments() -> argparse.Namespace:
    cores = len(os.sched_getaffinity(0))
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", choices=("inertia", "o5", "lorentz"), default="inertia")
    parser.add_argument("--batch", type=_positive, default=500, help="rows in a step")
    parser.add_argument("--channels", type=_positive, default=384, help="width of hidden layers")
    parser.add_argument("--layers", type=_positive, default=3, help="hidden layers")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="cuda: ours only")
    parser.add_argument("--threads", type=_positive, default=cores, help="cores for a process")
    parser.add_argument("--repeats", type=_positive, default=30, help="turns that a step has")
    parser.add_argument("--compile", action="store_true", help="ours with torch.compile, too")
    parser.add_argument("--no-peer", action="store_true", help="our rows only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    args = parser.parse_args()
    if args.threads > cores:
        parser.error(f"expected 1 to {cores} threads, got {args.threads}")
    if args.json and not args.json.resolve().parent.is_dir():
        parser.error(f"expected a file in an existing folder, got {args.json}")
    return args


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text!r}")
    return int(text)


def _run(command: list[str], args: argparse.Namespace, repeats: int) -> Side:
    """Measure a library in a fresh process and gather what it printed before it ended."""
    asked = {key: getattr(args, key) for key in ("task", "batch", "channels", "layers", "device")}
    asked |= {"repeats": repeats, "compile": args.compile}
    environment = {
        **process_environment(args.threads),
        "PYTHONPATH": os.pathsep.join(filter(None, [str(HERE), os.environ.get("PYTHONPATH")])),
        "ISOTROPY_CACHE": "off",  # networks are built, and below compiled, from scratch
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }
    try:
        done = subprocess.run(
            [*command, json.dumps(asked)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=_PATIENCE,
        )
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or ""
        side = _read(printed.decode() if isinstance(printed, bytes) else printed)
        side.error = f"no answer in {_PATIENCE} s of wall time"
        return side
    side = _read(done.stdout)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        side.error = f"exit status {done.returncode}: {said[0]}"
    return side


def _read(stdout: str) -> Side:
    side = Side()
    for line in stdout.splitlines():
        if not line.startswith('{"stage"'):
            continue
        facts = json.loads(line)
        stage = facts.pop("stage")
        if stage == "about":
            side.about = facts
        else:
            side.rows.setdefault(facts.pop("name"), {})[stage] = facts
    return side


def _troubles(side: Side) -> list[str]:
    found = [f"{row}: {s['failed']['error']}" for row, s in side.rows.items() if "failed" in s]
    return found + ([side.error] if side.error else [])


def _ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


# The table

_GROUPS = ((24,), (10, 8, 8, 8), (9, 9, 9, 9, 9), (7, 7, 7))
_TITLES = (
    [
        "",
        "parameters",
        "build",
        "build",
        "first",
        *["CPU"] * 2,
        *["wall"] * 2,
        "peak",
        *["/MLP"] * 3,
    ],
    ["", "", "CPU", "wall", "call", *["min", "median"] * 2, "", "CPU", "wall", "peak"],
)


def _print_header(args: argparse.Namespace) -> None:
    print(f"{args.task}: batch {args.batch}, {args.channels} channels, {args.layers} hidden layers")
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{cores} cores, {args.threads} for each process; load {load:.1f} at the start")
    print("build and first call in s, forward + backward in ms, peak in MB above the level before")
    if args.device == "cuda":
        print("CPU is the host's; emlp is not run, as its environment has no GPU")
    print()
    for titles in _TITLES:
        print(_aligned(titles), flush=True)


def _print_side(name: str, side: Side) -> None:
    for row, stages in side.rows.items():
        if "first" not in stages:
            continue
        cells = [_short(side.number(row, column), column) for column in _COLUMNS]
        cells += [_short(side.over_mlp(row, column)) for column in _OVER_MLP]
        print(_aligned([f"{name} {row}", *cells]))
    if side.about:
        print("  " + ", ".join(f"{key} {value}" for key, value in side.about.items()))
    for trouble in _troubles(side):
        print(f"  {trouble}")
    if any(stages.get("build", {}).get("modules") for stages in side.rows.values()):
        print("  imported modules while building")
    sys.stdout.flush()


def _print_comparison(ours: Side, theirs: Side) -> None:
    for row in ("EMLP", "MLP"):
        cells = [
            _short(_ratio(theirs.number(row, column), ours.number(row, column)))
            for column in _COLUMNS
        ]
        cells += [
            _short(_ratio(theirs.over_mlp(row, column), ours.over_mlp(row, column)))
            for column in _OVER_MLP
        ]
        print(_aligned([f"emlp/isotropy {row}", *cells]))


def _aligned(cells: list[str]) -> str:
    left = iter(cells)
    groups = [[(next(left), width) for width in group] for group in _GROUPS]
    first = [f"{text:<{width}}" for text, width in groups[0]]
    rest = [" ".join(f"{text:>{width}}" for text, width in group) for group in groups[1:]]
    return " | ".join([*first, *rest]).rstrip()


def _short(number: float | None, column: str = "") -> str:
    if number is None:
        return "-"
    if column == "parameters":
        return f"{number:.0f}"
    return f"{number:.0f}" if abs(number) >= 1000 else f"{number:.3g}"


def _write(args: argparse.Namespace, sides: dict[str, Side]) -> None:
    from isotropy.run import write_json

    asked = {key: value for key, value in vars(args).items() if key != "json"}
    write_json(args.json, {**asked, **{name: asdict(side) for name, side in sides.items()}})


if __name__ == "__main__":
    sys.exit(main())
