"""Text that a terminal would obey, in the names of columns, classes, files and folders.

``CODES`` clears screens, sets titles, hides and turns letters, writes over lines and begins new
ones; ``acting`` finds what of it has reached the terminal.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import numpy as np

CODES = (
    "\x1b[2Jcleared",
    "\x1b]0;title\x07",
    "\x1b]8;;http://example.org\x1b\\link",
    "\x9b31mred",
    "\x90one\x9c",
    "\u202eturned",
    "\u2066kept\u2069",
    "over\rwritten",
    "back\x08\x08",
    "bell\x07\x7f",
    "line\nvalid: forged",
    "next\x85line",
    "apart\u2028line",
    "[red]markup[/red][link=http://example.org]x[/link]",
)
PLAIN = "péndulo Ωμέγα 数 👩‍🚀 ﮎ\u200cﮎ"
_KEPT = "\n\t"
_JOINERS = "\u200c\u200d"


def acting(text: str) -> list[str]:
    """The characters of a text that act on a terminal, our line breaks and tabs aside."""
    return [
        letter
        for letter in text
        if letter not in _KEPT + _JOINERS
        and unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


def forged(text: str) -> bool:
    """Whether a name has begun a line of its own."""
    return re.search(r"^\s*valid: forged", text, re.MULTILINE) is not None


def table(folder: Path, names: tuple[str, str, str], name: str = "table.csv") -> Path:
    """A table whose last column is the sum of the others, with these names for them."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 3))
    head = ",".join(f'"{one}"' for one in (*names, "y"))
    rows = "\n".join(f"{a},{b},{c},{a + b + c}" for a, b, c in x)
    path = folder / name
    path.write_text(f"{head}\n{rows}\n", encoding="utf-8", newline="")
    return path
