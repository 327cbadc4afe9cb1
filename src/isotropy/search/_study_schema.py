"""The tables that the file of a study may hold: those of Optuna and of a search, as they make them.

A schema is a program: views and triggers compute, and so do defaults, checks, generated columns and
indices on expressions. So every statement is split into words and held against what the installed
Optuna writes; a statement with anything else in it is refused before any row is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from isotropy._run._json import shown

_WORD = re.compile(r'\s*([A-Za-z_][A-Za-z_0-9]*|"[A-Za-z_][A-Za-z_0-9]*"|[0-9]+|[(),=])')
_LONGEST = 5000
_KINDS = ("table", "index", "view", "trigger")
Entry = tuple[str, str, str, str | None]
Schema = dict[str, list[str]]


def schema_of(entries: Iterable[Entry]) -> Schema:
    """What a schema says, in a form in which two can be compared.

    Args:
        entries: Type, name, table and statement of every row of ``sqlite_master``.

    Returns:
        By name the type, the table, and sorted definitions.

    Raises:
        ValueError: If a statement has anything but words, whole numbers, brackets and commas.

    Example:
        >>> schema_of([("table", "a", "a", "CREATE TABLE a (b INTEGER NOT NULL, PRIMARY KEY (b))")])
        {'a': ['table', 'a', 'b integer not null', 'create table a', 'primary key ( b )']}
    """
    return {entry[1]: _entry(entry) for entry in entries}


def check_schema(entries: Iterable[Entry], known: Schema, maker: str) -> None:
    """Refuse a schema that holds anything but what is known.

    What is missing is not refused: it is made when the study is opened.

    Args:
        entries: Type, name, table and statement of every row of ``sqlite_master``.
        known: All that there may be, as `schema_of` has it.
        maker: Who makes the known ones.

    Raises:
        ValueError: If something is unknown, or not what is known under its name.

    Example:
        >>> check_schema([("trigger", "t", "a", "CREATE TRIGGER t …")], {}, "Optuna 5.0.0")
        Traceback (most recent call last):
        ...
        ValueError: expected only tables and indices of Optuna 5.0.0 and of a search,
        got the trigger 't'
    """
    seen = set[str]()
    for entry in entries:
        kind, name = entry[:2]
        if name not in known or kind != known[name][0] or name in seen:
            raise ValueError(
                f"expected only tables and indices of {maker} and of a search, got the "
                f"{kind if kind in _KINDS else 'entry'} {shown(name)}"
            )
        seen.add(name)
        if _entry(entry) != known[name]:
            raise ValueError(
                f"expected the table or index {name!r} as {maker} makes it, got one with other "
                "columns or rules"
            )


def _entry(entry: Entry) -> list[str]:
    kind, name, table, sql = entry
    return [kind, table, *([] if sql is None else _definitions(name, sql))]


def _definitions(name: str, sql: str) -> list[str]:
    """The parts of a statement between its outer commas, in any order, without lengths of text."""
    head, parts = list[str](), [list[str]()]
    depth = 0
    for word in _words(name, sql):
        before = depth
        depth += (word == "(") - (word == ")")
        outermost = min(before, depth) == 0
        if outermost and word not in ("(", ")"):
            head.append(word)
        elif depth == 1 and word == ",":
            parts.append([])
        elif not outermost:
            parts[-1].append(word)
    found = [re.sub(r"varchar \( [0-9]+ \)", "varchar", " ".join(part)) for part in parts]
    return sorted([*found, " ".join(head)])


def _words(name: str, sql: str) -> Iterator[str]:
    place = 0
    text = sql.rstrip()
    while place < len(text):
        found = _WORD.match(text, place)
        if found is None or len(text) > _LONGEST:
            raise ValueError(
                f"expected a plain statement for {shown(name)}, got {shown(text[place:])}"
            )
        place = found.end()
        yield found[1].lower()
