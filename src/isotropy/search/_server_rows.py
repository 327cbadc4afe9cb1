"""The rows of a study on a server, held against the same rules as those of a file.

Whoever names a PostgreSQL server trusts it: it runs its own code, not here, and what it answers is
not a file of somebody's. Nothing here evaluates its answers, but a wrong one is still refused by a
sentence before Optuna reads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import sqlalchemy
from sqlalchemy import bindparam, column, func, select, table

from isotropy._run._json import bounded_json
from isotropy.search._study_notes import SETTINGS, settings_from
from isotropy.search._study_rows import check_rows, check_versions
from isotropy.search._study_tables import clock

_LONGEST = 2**20
_OF_STUDY = ("study_directions", "study_user_attributes", "study_system_attributes", "trials")
_TEXTS = ("study_name", "key", "value_json", "param_name", "distribution_json")


def check_server_rows(engine: sqlalchemy.Engine, name: str) -> None:
    """Refuse a study on a server whose rows neither Optuna nor a search would write.

    Files are looked at as a whole before they are opened; for them there is nothing to do.

    Args:
        engine: Of the database.
        name: Of the study; where there is none, nothing is refused.

    Raises:
        ValueError: If a row is not as it must be.
    """
    if engine.dialect.name != "postgresql":
        return
    # One moment for all tables: workers go on writing.
    with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
        number = connection.scalar(
            select(column("study_id"))
            .select_from(table("studies"))
            .where(column("study_name") == bindparam("name", name, sqlalchemy.Text))
        )
        if number is None:
            return
        now = float(connection.scalar(select(clock(engine))) or 0.0)

        def read(name: str, columns: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
            query = select(*map(_bounded, columns)).select_from(table(name))
            if name == "isotropy_claims":
                query = query.where(column("study") == _mark(connection, number))
            if name == "studies" or name in _OF_STUDY:
                query = query.where(column("study_id") == number)
            elif name.startswith("trial_"):
                query = query.where(column("trial_id").in_(_trials_of(number)))
            return (tuple(row) for row in connection.execute(query))

        check_rows(read, now=now)


def check_server_versions(connection: sqlalchemy.Connection) -> None:
    """Refuse a server whose tables are not of one version of Optuna."""
    there = set(sqlalchemy.inspect(connection).get_table_names())

    def read(name: str, columns: tuple[str, ...]) -> Iterable[tuple[Any, ...]]:
        if name not in there:
            return ()
        query = select(*map(_bounded, columns)).select_from(table(name))
        return (tuple(row) for row in connection.execute(query))

    check_versions(read)


def _trials_of(number: int) -> sqlalchemy.Select[Any]:
    return (
        select(column("trial_id")).select_from(table("trials")).where(column("study_id") == number)
    )


def _mark(connection: sqlalchemy.Connection, number: int) -> str:
    """The mark of a study whose settings were looked at; no other has an empty one."""
    text = connection.scalar(
        select(column("value_json"))
        .select_from(table("study_user_attributes"))
        .where((column("study_id") == number) & (column("key") == SETTINGS))
    )
    return "" if text is None else settings_from(bounded_json(text, "the settings of a study")).mark


def _bounded(name: str) -> sqlalchemy.ColumnElement[Any]:
    """A column, without texts that are too long to be fetched."""
    found: sqlalchemy.ColumnElement[Any] = column(name)
    if name in _TEXTS:
        text = sqlalchemy.cast(found, sqlalchemy.Text)
        return sqlalchemy.case((func.octet_length(text) <= _LONGEST, text), else_=None)
    return found
