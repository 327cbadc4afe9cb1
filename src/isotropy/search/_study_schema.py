"""The tables that the file of a study may hold: of Optuna and of a search, as they make them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import sqlalchemy
from sqlalchemy import Column, Double, Integer, LargeBinary, MetaData, Table, Text

from isotropy._run._json import shown

# Studies are distinguished by a mark of their own: SQLite gives the number of a deleted one again.
TABLES = MetaData()

CLAIMS = Table(
    "isotropy_claims",
    TABLES,
    Column("study", Text, primary_key=True),
    Column("child", Text, primary_key=True),
    Column("key", Text, nullable=False),
    Column("worker", Text, nullable=False),
    Column("turn", Integer, nullable=False),
    Column("expires", Double, nullable=False),
)

WEIGHTS = Table(
    "isotropy_weights",
    TABLES,
    Column("study", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("weights", LargeBinary, nullable=False),
)


def clock(engine: sqlalchemy.Engine) -> sqlalchemy.ColumnElement[float]:
    """The database's own clock in seconds, for the clocks of workers need not agree.

    Example:
        >>> engine = sqlalchemy.create_engine("sqlite://")
        >>> with engine.connect() as connection:
        ...     connection.scalar(sqlalchemy.select(clock(engine))) > 1.7e9
        True
        >>> engine.dispose()
    """
    if engine.dialect.name == "postgresql":
        now = "CAST(extract(epoch FROM clock_timestamp()) AS double precision)"
    else:
        now = "((julianday('now') - 2440587.5) * 86400.0)"
    return sqlalchemy.literal_column(now, Double())


def insert(
    engine: sqlalchemy.Engine, table: sqlalchemy.TableClause
) -> sqlalchemy.dialects.postgresql.Insert:
    """An INSERT that may say what to do where the row is there already."""
    from sqlalchemy.dialects import postgresql, sqlite

    if engine.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)  # type: ignore[return-value]  # the same words in both


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
