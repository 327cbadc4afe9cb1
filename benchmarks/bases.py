"""Equivariant bases, ours and emlp's, on the same rows in one run.

Each row is solved by each library in a fresh process, ours then emlp's, on the same cores. See
``README.md`` in this folder for what the columns mean.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
PEER_VENV = HERE / ".venv-emlp"
PEER_PYTHON = PEER_VENV / "bin" / "python"
PEER_PINS = (
    "emlp==1.0.3",
    "jax==0.9.2",
    "jaxlib==0.9.2",
    "numpy==2.4.6",
    "objax==1.8.0",
    "optax==0.2.8",
    "plum-dispatch==2.10.1",
    "scikit-learn==1.9.1",
    "scipy==1.17.1",
    "six==1.17.0",
    "tqdm==4.70.1",
)
_CHANNELS = "100*T(0)+30*T(1)+10*T(2)+3*T(3)"


@dataclass(frozen=True)
class Row:
    """A group and a representation, in a notation that both libraries read.

    Attributes:
        group: The group.
        rep: The representation.
        label: What to print for the representation, where its text is too long.
        quick: Whether ``--quick`` includes it.
        peer: Whether emlp has the same group.
    """

    group: str
    rep: str
    label: str = ""
    quick: bool = False
    peer: bool = True

    @property
    def name(self) -> str:
        """How the row is printed and chosen."""
        return f"{self.group} {self.label or self.rep}"


ROWS = (
    Row("SO(3)", "T(4)", quick=True),
    Row("SO(3)", "T(6)", quick=True),
    Row("SO(3)", "T(8)"),
    Row("SO(4)", "T(6)"),
    Row("SO(7)", "T(4)"),
    Row("SO13p()", "T(6,0)"),
    Row("O13()", "T(6,0)"),
    Row("Sp(2)", "T(6,0)"),
    Row("U(2)", "T(2,2)", quick=True),
    Row("SU(3)", "T(3,3)"),
    Row("S(4)", "T(4)", quick=True),
    Row("S(5)", "T(5)"),
    Row("S(8)", "T(4)"),
    Row("S(8)", "T(5)"),
    Row("S(6)", "T(6)"),
    Row("S(5)", "T(7)"),
    Row("Z(8)", "T(4)"),
    Row("Z(5)", "T(6)"),
    Row("Z(8)*Z(8)", "V>>V", quick=True),
    Row("SO(3)", f"{_CHANNELS} >> {_CHANNELS}", label="channels>>same", quick=True),
    Row("RubiksCube()", "T(2)", quick=True, peer=False),
    Row("RubiksCube()", "T(3)", peer=False),
)


@dataclass
class Outcome:
    """What one library did with one row.

    Attributes:
        calls: What the "cold" and the "warm" call cost, as far as they finished.
        answer: Size, rank, residual.
        over: The call that went over the limit, if one did.
        error: Why there is no (full) result, if there is none.
    """

    calls: dict[str, dict[str, float]] = field(default_factory=dict)
    answer: dict[str, Any] = field(default_factory=dict)
    over: str | None = None
    error: str | None = None

    def cpu(self, call: str) -> float | None:
        """The CPU seconds of a call, if it finished."""
        return self.calls[call]["cpu"] if call in self.calls else None


Result = tuple[Row, Outcome, Outcome | None]
Versions = dict[str, dict[str, str]]


def main() -> int:
    args = _arguments()
    peer = any(row.peer for row in args.rows) and make_peer()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.threads])  # children inherit
    versions = _versions(peer)
    _print_header(args, versions)
    results: list[Result] = []
    for row in args.rows:
        ours = _solve(row, [sys.executable, str(HERE / "isotropy_bases.py")], args)
        theirs = None
        if peer and row.peer:
            theirs = _solve(row, [str(PEER_PYTHON), str(HERE / "peers/emlp_bases.py")], args)
        results.append((row, ours, theirs))
        print(_line(row, ours, theirs, args.limit), flush=True)
    if args.json:
        _write(args, versions, results)
    wrong = [row.name for row, ours, theirs in results if _disagree(ours, theirs)]
    if wrong:
        print(f"\nRANKS DISAGREE: {', '.join(wrong)}")
    return 1 if wrong else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", metavar="PATTERN", help="rows whose name contains this (* and ?)")
    parser.add_argument("--quick", action="store_true", help="a few rows, under two minutes")
    parser.add_argument("--limit", type=float, default=60.0, help="CPU seconds a call may take")
    parser.add_argument("--threads", type=int, default=1, help="cores that a process may use")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write everything here")
    args = parser.parse_args()
    rows = [row for row in ROWS if row.quick or not args.quick]
    if args.rows is not None:
        rows = [row for row in rows if fnmatch(row.name.lower(), f"*{args.rows.lower()}*")]
    if not rows:
        names = "; ".join(row.name for row in ROWS)
        parser.error(f"expected a pattern of some row, got {args.rows!r} (rows: {names})")
    if not 1 <= args.threads <= len(os.sched_getaffinity(0)):
        parser.error(f"expected 1 to {len(os.sched_getaffinity(0))} threads, got {args.threads}")
    args.rows = rows
    return args


def make_peer() -> bool:
    """Make emlp's environment unless it is there; whether there is one."""
    stamp = PEER_VENV / ".installed"  # written last, so an interrupted install starts again
    pins = "\n".join(PEER_PINS)
    if stamp.is_file() and stamp.read_text() == pins:
        return True
    print(f"making {PEER_VENV} (about a minute)", file=sys.stderr)
    try:
        _quietly([sys.executable, "-m", "venv", "--clear", str(PEER_VENV)])
        (PEER_VENV / ".gitignore").write_text("*\n")
        _quietly([str(PEER_PYTHON), "-m", "pip", "install", "--quiet", *PEER_PINS])
    except (OSError, subprocess.CalledProcessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        print(f"emlp's environment could not be made ({said}), so these are our rows only.")
        return False
    stamp.write_text(pins)
    return True


def _quietly(command: list[str]) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _versions(peer: bool) -> Versions:
    """The versions that matter, asked of each environment without importing the libraries."""
    wanted = {"isotropy": (sys.executable, ["isotropy", "torch", "numpy", "scipy"])}
    if peer:
        wanted["emlp"] = (str(PEER_PYTHON), ["emlp", "jax", "jaxlib", "numpy", "scipy"])
    ask = (
        "import sys, platform, importlib.metadata as m;"
        "print(platform.python_version(), *map(m.version, sys.argv[1:]))"
    )
    found: Versions = {}
    for side, (python, names) in wanted.items():
        versions = _quietly([python, "-c", ask, *names]).split()
        found[side] = dict(zip(["python", *names], versions, strict=True))
    return found


def _solve(row: Row, command: list[str], args: argparse.Namespace) -> Outcome:
    """Solve a row in a fresh process and gather what it printed before it ended."""
    patience = 10 * (2 * args.limit + 60)  # wall seconds; the limit itself is in CPU seconds
    try:
        done = subprocess.run(
            [*command, row.group, row.rep, str(args.limit)],
            env=process_environment(args.threads),
            capture_output=True,
            text=True,
            timeout=patience,
        )
    except subprocess.TimeoutExpired as late:
        printed = late.stdout or ""
        outcome = _read(printed.decode() if isinstance(printed, bytes) else printed)
        outcome.error = f"no answer in {patience:.0f} s of wall time"
        return outcome
    outcome = _read(done.stdout)
    if done.returncode == -signal.SIGXCPU:
        outcome.over = "warm" if "cold" in outcome.calls else "cold"
    elif done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no message"]
        outcome.error = f"exit status {done.returncode}: {said[0]}"
    return outcome


def process_environment(threads: int) -> dict[str, str]:
    """The same number of threads for every library underneath; the CPU for jax."""
    pools = ("OMP", "OPENBLAS", "MKL", "NUMEXPR")
    return {
        **os.environ,
        **{f"{pool}_NUM_THREADS": str(threads) for pool in pools},
        "PYTHONPATH": str(HERE),
        "JAX_PLATFORMS": "cpu",
        "TQDM_DISABLE": "1",  # emlp's progress bar fails on a loss that is a jax array
    }


def _read(stdout: str) -> Outcome:
    outcome = Outcome()
    for line in stdout.splitlines():
        if not line.startswith('{"stage"'):
            continue
        facts = json.loads(line)
        stage = facts.pop("stage")
        if stage == "error":
            outcome.error = facts["error"]
        elif stage == "answer":
            outcome.answer = facts
        else:
            outcome.calls[stage] = facts
    return outcome


def _disagree(ours: Outcome, theirs: Outcome | None) -> bool:
    if theirs is None or not (ours.answer and theirs.answer):
        return False
    return any(ours.answer[key] != theirs.answer[key] for key in ("size", "rank"))


# The table

_WIDTHS = (22, 8, 7, 9, 9, 8, 8, 9, 9, 8, 8, 9)
_SIDE = ["cold", "warm", "peak", "resid"]
_TITLES = ["case", "size", "rank", *_SIDE, *_SIDE, "ratio"]


def _print_header(args: argparse.Namespace, versions: Versions) -> None:
    for side, found in versions.items():
        print(f"{side}: " + ", ".join(f"{name} {version}" for name, version in found.items()))
    cores, load = os.cpu_count(), os.getloadavg()[0]
    print(f"{cores} cores, {args.threads} for each process; load {load:.1f} at the start")
    print(f"cold, warm: CPU s of the first and second call, at most {args.limit:g} each")
    print("peak: MB in the first call above the level before it; ratio: warm emlp/isotropy")
    print("(c: emlp's cold call went over the limit, so the bound is of cold calls)\n")
    print(f"{'':{sum(_WIDTHS[:3]) + 2}} | {'isotropy':^37} | {'emlp':^37} |")
    print(_aligned(_TITLES), flush=True)


def _line(row: Row, ours: Outcome, theirs: Outcome | None, limit: float) -> str:
    answer = ours.answer or (theirs.answer if theirs else {})
    cells = [row.name, str(answer.get("size", "-")), str(answer.get("rank", "-"))]
    cells += [*_cells(ours, limit), *_cells(theirs, limit), _ratio(ours, theirs, limit)]
    return "  ".join([_aligned(cells), *_remarks(row, ours, theirs)]).rstrip()


def _aligned(cells: list[str]) -> str:
    name, *rest = cells
    padded = [f"{name:<{_WIDTHS[0]}}"]
    padded += [f"{cell:>{width}}" for cell, width in zip(rest, _WIDTHS[1:], strict=True)]
    groups = (padded[:3], padded[3:7], padded[7:11], padded[11:])
    return " | ".join(" ".join(group) for group in groups)


def _cells(side: Outcome | None, limit: float) -> list[str]:
    """Cold and warm CPU seconds, peak memory of the cold call, residual."""
    if side is None:
        return ["-"] * 4
    peak = f"{side.calls['cold']['peak_mb']:.1f}" if "cold" in side.calls else "-"
    residual = f"{side.answer['residual']:.0e}" if side.answer else "-"
    return [_seconds(side, "cold", limit), _seconds(side, "warm", limit), peak, residual]


def _seconds(side: Outcome, call: str, limit: float) -> str:
    cpu = side.cpu(call)
    if cpu is not None:
        return f"{cpu:.4f}" if cpu < 1 else f"{cpu:.2f}"
    return f">{limit:g}" if side.over == call else "-"


def _ratio(ours: Outcome, theirs: Outcome | None, limit: float) -> str:
    """The warm CPU time of emlp over ours, or a bound on it where emlp went over the limit."""
    cold, warm = ours.cpu("cold"), ours.cpu("warm")
    if theirs is None or cold is None or warm is None:
        return "-"
    if theirs.over == "cold":
        return f">{_short(limit / cold)}c"
    if theirs.over == "warm":
        return f">{_short(limit / warm)}"
    peer = theirs.cpu("warm")
    return "-" if peer is None else _short(peer / warm)


def _short(ratio: float) -> str:
    return f"{ratio:.1f}" if ratio < 10 else f"{ratio:.0f}"


def _remarks(row: Row, ours: Outcome, theirs: Outcome | None) -> list[str]:
    remarks = [ours.answer["solver"]] if ours.answer else []
    if theirs is not None and _disagree(ours, theirs):
        ranks = [f"{side.answer['rank']} of {side.answer['size']}" for side in (ours, theirs)]
        remarks.append("RANKS DISAGREE: isotropy {}, emlp {}".format(*ranks))
    if not row.peer:
        remarks.append("(emlp's group of this name is another group)")
    for name, side in (("isotropy", ours), ("emlp", theirs)):
        if side is not None and side.error:
            remarks.append(f"{name}: {side.error}")
        if side is not None and any(call["modules"] for call in side.calls.values()):
            remarks.append(f"{name}: imported modules while timed")
    return remarks


def _write(args: argparse.Namespace, versions: Versions, results: list[Result]) -> None:
    rows = [
        {"name": row.name, "isotropy": asdict(ours), "emlp": asdict(theirs) if theirs else None}
        for row, ours, theirs in results
    ]
    run = {"versions": versions, "threads": args.threads, "limit": args.limit, "rows": rows}
    args.json.write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
