"""Attack the library for hours, count what happens, and go on where it stopped.

    python tests/attacks/soak.py --cases 1000000 --workers 2 --out soak

Each case is drawn from its number alone, so that any can be run again (``--only 12345``). Every
worker keeps its counts in a file of its own and replaces it whole, so that an interrupted soak goes
on from there. What must not happen is kept with the bytes that do it. The total is printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parents[1]))

# above what the library takes by itself: one allocation beyond it fails, and counts as a crash
_ADDRESS_SPACE = 12 * 2**30
_EVERY = 20.0  # seconds between two savings
_MOST_KEPT = 50  # failures whose bytes are kept


def _certificate(chance: random.Random, folder: Path) -> str:
    from attacks.certificates import judge, mutated

    name, base, content = mutated(chance)
    _LAST[:] = [name, content]
    return judge(content, base, timed=True)


def _program(chance: random.Random, folder: Path) -> str:
    from attacks.exported_programs import honest, judge, mutated

    content = mutated(honest(chance), chance)
    _LAST[:] = ["program", content]
    return judge(content, folder)


def _finding(chance: random.Random, folder: Path) -> str:
    from attacks.findings import FOLDERS, copied, judge, mutated

    place = copied(chance.choice(FOLDERS), folder)
    _LAST[:] = [mutated(place, chance), b""]
    return judge(place)


def _study(chance: random.Random, folder: Path) -> str:
    from attacks.studies import judge, mutated, written

    path = mutated(written(folder), chance)
    _LAST[:] = ["study", path.read_bytes()]
    return "loaded" if judge(path) is None else "refused"


KINDS: dict[str, Callable[[random.Random, Path], str]] = {
    "certificates": _certificate,
    "programs": _program,
    "findings": _finding,
    "studies": _study,
}
_LAST: list[Any] = []


def _state(path: Path, first: int) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError):
        return {"next": first, "seen": {}, "failures": [], "slowest": 0.0, "cpu_seconds": 0.0}


def _save(path: Path, state: dict[str, Any]) -> None:
    with tempfile.NamedTemporaryFile("w", dir=path.parent, delete=False) as file:
        json.dump(state, file)
    os.replace(file.name, path)


def work(kind: str, worker: int, workers: int, cases: int, seed: int, out: Path) -> None:
    """Do every case whose number leaves this remainder."""
    import torch

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    path = out / f"{kind}-{seed}-{worker}-of-{workers}.json"
    state = _state(path, worker)
    seen = Counter(state["seen"])
    saved = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        while state["next"] < cases:
            number, began = state["next"], time.process_time()
            folder = Path(place) / "case"
            folder.mkdir()
            try:
                what = KINDS[kind](random.Random(f"{seed} {kind} {number}"), folder)
            except Exception as error:
                what = f"FAILED {type(error).__name__}"
                if len(state["failures"]) < _MOST_KEPT:
                    name, content = _LAST or ("", b"")
                    state["failures"].append(
                        {
                            "case": number,
                            "made": name,
                            "error": f"{type(error).__name__}: {error}"[:2000],
                            "trace": traceback.format_exc(limit=-4)[-2000:],
                            "bytes": content.hex() if len(content) < 20_000 else "",
                        }
                    )
            shutil.rmtree(folder)
            seen[what] += 1
            spent = time.process_time() - began
            state["slowest"] = max(state["slowest"], spent)
            state["cpu_seconds"] += spent
            state["next"] += workers
            if time.monotonic() - saved > _EVERY:
                _save(path, {**state, "seen": dict(seen), "peak": _peak()})
                saved = time.monotonic()
    _save(path, {**state, "seen": dict(seen), "peak": _peak()})


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def total(kind: str, workers: int, seed: int, out: Path) -> dict[str, Any]:
    """What all workers have counted."""
    states = [
        _state(out / f"{kind}-{seed}-{worker}-of-{workers}.json", worker)
        for worker in range(workers)
    ]
    seen = sum((Counter(state["seen"]) for state in states), Counter[str]())
    commit = subprocess.run(
        ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    ).stdout.strip()
    cases = sum(seen.values())
    return {
        "kind": kind,
        "command": f"python tests/attacks/soak.py --kind {kind} --cases {cases} --seed {seed}",
        "commit": commit,
        "seed": seed,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "cases": cases,
        "seen": dict(seen.most_common()),
        "failed": sum(count for what, count in seen.items() if what.startswith("FAILED")),
        "slowest_cpu_seconds": round(max(state["slowest"] for state in states), 2),
        "peak_bytes": max(state.get("peak", 0) for state in states),
        "cpu_seconds": round(sum(state["cpu_seconds"] for state in states)),
        "failures": [failure for state in states for failure in state["failures"]],
    }


def main() -> None:
    """Read the command line, run the workers, print the total."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--kind", choices=KINDS, default="certificates")
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--out", type=Path, default=Path("soak"))
    options.add_argument("--only", type=int, help="run this case alone, and show what it does")
    chosen = options.parse_args()
    if chosen.only is not None:
        with tempfile.TemporaryDirectory() as folder:
            chance = random.Random(f"{chosen.seed} {chosen.kind} {chosen.only}")
            sys.stdout.write(f"{KINDS[chosen.kind](chance, Path(folder))}\n")
        return
    chosen.out.mkdir(parents=True, exist_ok=True)
    arguments = (chosen.workers, chosen.cases, chosen.seed, chosen.out)
    several = [
        multiprocessing.Process(target=work, args=(chosen.kind, worker, *arguments))
        for worker in range(chosen.workers)
    ]
    for process in several:
        process.start()
    for process in several:
        process.join()
    found = total(chosen.kind, chosen.workers, chosen.seed, chosen.out)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    died = any(process.exitcode for process in several)
    sys.exit(1 if died or found["failed"] else 0)


if __name__ == "__main__":
    main()
