"""Which column of a table is the one to predict, where none was named."""

from __future__ import annotations

import re
from collections.abc import Sequence

# The commonest first. A bare y is treated apart: it may be a coordinate.
_NAMES = (
    "target", "targets", "label", "labels", "class", "classes", "category", "output", "outputs",
    "response", "outcome", "result", "ground_truth", "dependent", "species", "diagnosis", "price",
)  # fmt: skip
_NUMBERED = re.compile(r"(target|label|output|out|response)s?[ _.-]?(\d+|[wxyzt])", re.IGNORECASE)
_NUMBERED_Y = re.compile(r"y[ _.-]?\d+", re.IGNORECASE)
_COUNTER = re.compile(
    r"(unnamed: ?\d+|#|no\.?|n°|idx|index|row|(row|sample|record)?[ _-]?(id|index|number))",
    re.IGNORECASE,
)


def guess_target(columns: Sequence[str], groups: str | None = None) -> tuple[str, ...]:
    """Guess the columns to predict from the names of all.

    In this order: a column called target, label, class, output, response, price and so on; all
    columns called target_1, target_2, … or out_x, out_y, …; the last columns where they are
    called y1, y2, …; y, unless it stands beside x as a coordinate; the last column.

    Args:
        columns: The names, in order.
        groups: A column that has another role.

    Raises:
        ValueError: If there is no column to choose from.

    Example:
        >>> guess_target(("x", "y", "z", "energy")), guess_target(("label", "a", "b"))
        (('energy',), ('label',))
        >>> guess_target(("x1", "x2", "y1", "y2"))
        ('y1', 'y2')
    """
    there = [name for name in columns if name != groups and not may_count(name)]
    there = there or [name for name in columns if name != groups]
    if not there:
        raise ValueError(f"expected a column that may be a target, got {list(columns)}")
    by_name = {name.strip().lower().replace(" ", "_"): name for name in reversed(there)}
    for word in _NAMES:
        if word in by_name:
            return (by_name[word],)
    numbered = [name for name in there if _NUMBERED.fullmatch(name.strip())]
    if 0 < len(numbered) < len(there):
        return tuple(numbered)
    if "y" in by_name and ("x" not in by_name or by_name["y"] == there[-1]):
        return (by_name["y"],)
    return _last_numbered(there) or (there[-1],)


def _last_numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Take y1, y2, … where they are the last columns; among others they may be coordinates."""
    first = len(names)
    while first and _NUMBERED_Y.fullmatch(names[first - 1].strip()):
        first -= 1
    elsewhere = any(_NUMBERED_Y.fullmatch(name.strip()) for name in names[:first])
    return () if elsewhere or first == 0 else tuple(names[first:])


def may_count(name: str) -> bool:
    """Whether a column has a name under which rows are counted: id, index, Unnamed: 0."""
    return _COUNTER.fullmatch(name.strip()) is not None


def guess_note(targets: Sequence[str], columns: Sequence[str]) -> str:
    """Say what was guessed."""
    if len(targets) > 1:
        return f"no target was named: {', '.join(map(repr, targets))} were taken"
    last = ", the last column," if targets[0] == columns[-1] else ""
    return f"no target was named: {targets[0]!r}{last} was taken"
