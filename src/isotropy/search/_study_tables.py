"""The tables that a search keeps beside Optuna's."""

from __future__ import annotations

import sqlalchemy
from sqlalchemy import Column, Double, Integer, LargeBinary, MetaData, Table, Text

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
