"""The database that a study lives in: where it is, how it is opened, what happens if it is away."""

from __future__ import annotations

import logging
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import optuna
import sqlalchemy
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.pool import PoolProxiedConnection

from isotropy.search._checked_file import copy_to_read, prepare_file
from isotropy.search._server_rows import check_server_versions
from isotropy.search._study_tables import TABLES

if TYPE_CHECKING:
    from optuna.storages import RDBStorage

_LOG = logging.getLogger(__name__)
Work = TypeVar("Work")
Storage = str | os.PathLike[str] | None
# Between attempts to reach a database that was there before: a restart of a server takes seconds.
OUTAGE_PAUSES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
# A child that is trained is worth minutes of waiting.
REPORT_PAUSES = (*OUTAGE_PAUSES, *[10.0] * 29)
_BUSY_SECONDS = 60
# A link that died without a word is noticed after about a minute; the last one is in milliseconds.
_LINK = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,
}
_OPENINGS = 20


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Optuna reports on standard error every study that it makes or finds; not meanwhile."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(before, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)


@dataclass(frozen=True)
class Database:
    """An open database.

    Args:
        storage: Optuna's way into it.
        address: Where it is, without a password.
    """

    storage: RDBStorage
    address: str

    @property
    def engine(self) -> sqlalchemy.Engine:
        """SQLAlchemy's way into it."""
        return self.storage.engine

    def patiently(self, work: Callable[[], Work], pauses: Iterable[float] | None = None) -> Work:
        """Do some work in the database, again after a pause while it cannot be reached.

        Args:
            work: What may be done twice without harm.
            pauses: Seconds between attempts; ``None`` for a quarter of a minute in all.

        Raises:
            ConnectionError: If it stays away.
        """
        for attempt, pause in enumerate(OUTAGE_PAUSES if pauses is None else pauses):
            try:
                return work()
            except Exception as error:
                if not _is_outage(error):
                    raise
                if attempt == 0:
                    _LOG.warning("%s; trying again", _unreachable(self.address, error))
            time.sleep(pause)
        try:
            return work()
        except Exception as error:
            if not _is_outage(error):
                raise
            raise ConnectionError(_unreachable(self.address, error)) from None


@contextmanager
def opened(storage: Storage, *, create: bool = True) -> Iterator[Database]:
    """Open a database, and close it at the end.

    The file of an SQLite database is looked through before Optuna or SQLAlchemy open it, see
    `copy_to_read`. One that is only read stays as it was: what is opened is a copy.

    Args:
        storage: The path of an SQLite file, a URL as SQLAlchemy has it, or ``None`` for a temporary
            file that is removed at the end.
        create: Whether to write: make the file and tables where they are missing.

    Yields:
        The database.

    Raises:
        ValueError: If there can be no such database, or the file is not as Optuna and a search
            would have written it.
        ConnectionError: If it cannot be reached.

    Example:
        >>> with opened(None) as database:
        ...     database.engine.dialect.name
        'sqlite'
    """
    if storage is None:
        with (
            tempfile.TemporaryDirectory(prefix="isotropy-") as folder,
            opened(Path(folder) / "study.db") as database,
        ):
            yield database
        return
    url = _url(storage)
    with ExitStack() as stack:
        if url.get_backend_name() != "sqlite":
            _prepare_server(url, _shown(url), create)
            place = url
        elif create:
            prepare_file(Path(str(url.database)), _BUSY_SECONDS)
            place = url
        else:
            copy = stack.enter_context(copy_to_read(Path(str(url.database))))
            place = url.set(database=str(copy))
        database = Database(_optuna_storage(place, _shown(url)), _shown(url))
        stack.callback(database.engine.dispose)
        stack.callback(database.storage.remove_session)
        yield database


def _url(storage: str | os.PathLike[str]) -> sqlalchemy.URL:
    text = os.fspath(storage)
    if "://" not in text:
        return sqlalchemy.URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = sqlalchemy.make_url(text)
    except (ArgumentError, ValueError):
        # The text may hold a password, so it is not repeated.
        raise ValueError(
            "expected a database URL like postgresql://user@host/name, got none"
        ) from None
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"expected an SQLite or PostgreSQL database, got {_shown(url)}")
    if url.get_backend_name() == "sqlite" and url.database in (None, "", ":memory:"):
        raise ValueError(f"expected a database that other processes can open, got {_shown(url)}")
    if url.get_backend_name() == "sqlite" and (
        url.drivername not in ("sqlite", "sqlite+pysqlite") or str(url.database).startswith("file:")
    ):
        raise ValueError(f"expected sqlite:/// and the path of a file, got {_shown(url)}")
    return url


def _shown(url: sqlalchemy.URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    if "password" in url.query:
        url = url.update_query_dict({"password": "***"})
    return url.set(
        drivername="postgresql" if "postgres" in url.drivername else url.drivername
    ).render_as_string(hide_password=True)


def _prepare_server(url: sqlalchemy.URL, address: str, create: bool) -> None:
    try:
        engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, **_options(url))
    except ImportError:
        raise ValueError(
            "expected the package psycopg for PostgreSQL, got none: pip install psycopg[binary]"
        ) from None
    try:
        with engine.connect() as connection:
            known = sqlalchemy.inspect(connection).has_table("studies")
            check_server_versions(connection)
    except DBAPIError as error:
        raise ConnectionError(_unreachable(address, error)) from None
    if not create and not known:
        raise ValueError(f"expected a database with studies at {address}, got one without")


def _options(url: sqlalchemy.URL) -> dict[str, Any]:
    if url.get_backend_name() == "sqlite":
        return {"connect_args": {"timeout": _BUSY_SECONDS}}
    # A connection that broke while a child was trained is replaced before it is used.
    link = {name: value for name, value in _LINK.items() if name not in url.query}
    return {"pool_pre_ping": True, "connect_args": link}


def _optuna_storage(url: sqlalchemy.URL, address: str) -> RDBStorage:
    """Open Optuna's tables; workers that start together may make them at the same moment."""
    for last in (*[False] * (_OPENINGS - 1), True):
        try:
            return _optuna_storage_at_once(url)
        except RuntimeError as error:
            if type(error) is RuntimeError:
                raise ValueError(f"expected tables of this Optuna, got: {error}") from None
            raise
        except Exception as error:
            if not _is_database_error(error):
                raise
            if last:
                raise ConnectionError(_unreachable(address, error)) from None
        time.sleep(random.uniform(0.05, 0.3))
    raise AssertionError("the last attempt returns or raises")


def _optuna_storage_at_once(url: sqlalchemy.URL) -> RDBStorage:
    from optuna.storages import RDBStorage

    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    storage = RDBStorage(text, engine_kwargs=_options(url))
    try:
        if storage.engine.dialect.name == "sqlite":
            _serialise(storage.engine)
        TABLES.create_all(storage.engine)
    except BaseException:
        storage.engine.dispose()
        raise
    return storage


def _serialise(engine: sqlalchemy.Engine) -> None:
    """Make every transaction of SQLite take its lock at the start.

    Else a worker may read that a trial runs, another one end it, and the first one write.
    """

    @sqlalchemy.event.listens_for(engine, "connect")
    def _leave_transactions_to_us(connection: Any, _: PoolProxiedConnection) -> None:
        connection.isolation_level = None

    @sqlalchemy.event.listens_for(engine, "begin")
    def _begin(connection: sqlalchemy.Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    engine.dispose()


def _is_database_error(error: BaseException) -> bool:
    return isinstance(_root(error), DBAPIError)


def _is_outage(error: BaseException) -> bool:
    root = _root(error)
    return isinstance(root, OperationalError | InterfaceError) or (
        isinstance(root, DBAPIError) and root.connection_invalidated
    )


def _root(error: BaseException) -> BaseException:
    from optuna.exceptions import StorageInternalError

    if isinstance(error, StorageInternalError) and error.__cause__ is not None:
        return error.__cause__
    return error


def _unreachable(address: str, error: BaseException) -> str:
    root = _root(error)
    reason = str(root.orig if isinstance(root, DBAPIError) else root).strip()
    first = reason.splitlines()[0] if reason else type(root).__name__
    return f"expected a database that can be reached at {address}, got: {first}"
