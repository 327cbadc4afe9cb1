"""Run a command and keep what it answers in results/, for the tables of the documentation.

.venv/bin/python docs/store_result.py yeh2022-table1 isotropy reproduce yeh2022/table1

The file results/yeh2022-table1.json has the command's JSON, and beside it the command, the commit,
the seed, the machine and the CPU seconds. docs/result_tables.py makes tables from such files.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CODE = ("src", "papers", "benchmarks")


def main(name: str, command: list[str]) -> None:
    """Run the command with ``--json`` and store its answer under this name."""
    changed = _git("status", "--porcelain", "--", *CODE)
    if changed:
        raise SystemExit(f"expected the code of a commit, got changes:\n{changed}")
    commit = _git("rev-parse", "HEAD")
    program = [sys.executable, "-m", "isotropy"] if command[0] == "isotropy" else [sys.executable]
    done = subprocess.run(
        [*program, *command[1:], "--json"], check=True, stdout=subprocess.PIPE, text=True
    )
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seed = command[command.index("--seed") + 1] if "--seed" in command else 0
    found = {
        "command": " ".join(command),
        "commit": commit,
        "seed": int(seed),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        **json.loads(done.stdout),
    }
    (ROOT / "results" / f"{name}.json").write_text(_written(found))


def _git(*words: str) -> str:
    asked = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
    return asked.stdout.strip()


def _written(found: dict[str, Any]) -> str:
    """JSON with one line for each key, and for each cell of a table."""
    lines = []
    for key, value in found.items():
        text = json.dumps(value, ensure_ascii=False)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            rows = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in value)
            text = f"[\n{rows}\n ]"
        lines.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
