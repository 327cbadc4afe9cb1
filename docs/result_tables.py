"""Write the tables of the documentation anew, from the files in results/.

.venv/bin/python docs/result_tables.py

A file in results/ is what its command printed: the command, the commit, the seed, the machine and
what came out. A table stands between two comments that name it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def soak() -> str:
    """Of every kind of hostile files: how many were drawn, and what became of them."""
    rows = [
        "| files | drawn | refused | accepted | failed | command |",
        "|---|--:|--:|--:|--:|---|",
    ]
    for kind in ("certificates", "programs", "findings", "studies"):
        found = _result(f"soak-{kind}")
        seen = found["seen"]
        accepted = sum(seen.get(what, 0) for what in _ACCEPTED)
        refused = found["cases"] - accepted - found["failed"]
        counts = (found["cases"], refused, accepted, found["failed"])
        cells = [kind, *(f"{count:,}" for count in counts), f"`{found['command']}`"]
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


_ACCEPTED = ("verified", "verified given", "accepted, rows decided by rounding", "loaded")
TABLES: dict[str, tuple[str, Callable[[], str]]] = {"soak": ("docs/security.md", soak)}


def _result(name: str) -> dict[str, Any]:
    return dict(json.loads((RESULTS / f"{name}.json").read_text()))


def with_table(page: str, name: str, table: str) -> str:
    """The text of a page with this table between its comments."""
    pattern = rf"(<!-- table {name} -->\n).*?(<!-- end of table {name} -->)"
    text, count = re.subn(pattern, lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL)
    if count != 1:
        raise ValueError(f"expected one place for the table {name!r}, got {count}")
    return text


def main() -> None:
    """Write all tables."""
    for name, (page, made) in TABLES.items():
        path = ROOT / page
        path.write_text(with_table(path.read_text(), name, made()))


if __name__ == "__main__":
    main()
