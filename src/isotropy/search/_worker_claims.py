"""Who trains what now: claims that expire, so that no child is trained twice or lost."""

from __future__ import annotations

import logging
import os
import secrets
import socket
import threading
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy

from isotropy.search._study_tables import CLAIMS, clock, insert
from isotropy.search._trials import child_key

_LOG = logging.getLogger(__name__)
_BEATS_PER_GRACE = 4


def worker_name() -> str:
    """This process, as host and process number.

    Example:
        >>> worker_name().endswith(f":{os.getpid()}")
        True
    """
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True)
class Claims:
    """The claims of one worker on the children of a study.

    A claim is on a state and its epochs, whatever the child starts from. It holds while its worker
    renews it. All times are of the database's clock.

    Args:
        engine: Of the database.
        study: The mark of the study.
        grace: Seconds after which a claim of this worker that was not renewed is anybody's.

    Example:
        >>> from isotropy.search._database import opened
        >>> with opened(None) as database:
        ...     mine, other = (Claims(database.engine, "a study", grace=60.0) for _ in range(2))
        ...     mine.claim("rotation/0"), other.claim("rotation/0</0"), mine.running()
        (True, False, ['rotation/0'])
    """

    engine: sqlalchemy.Engine
    study: str
    grace: float
    worker: str = field(init=False)

    def __post_init__(self) -> None:
        # A process may be a worker twice, and containers share host names and process numbers.
        object.__setattr__(self, "worker", f"{worker_name()}:{secrets.token_hex(8)}")

    def claim(self, key: str) -> bool:
        """Claim a child, where nobody holds a claim on it that is alive.

        Claims are made one after another and numbered by turns, so that each worker that looks
        after its own claim sees all that were made before.

        Returns:
            Whether it is this worker's now.
        """
        now = clock(self.engine)
        last = sqlalchemy.select(sqlalchemy.func.max(CLAIMS.c.turn)).where(
            CLAIMS.c.study == self.study
        )
        with self.engine.begin() as connection:
            self._wait_for_others(connection)
            row = {
                "key": key,
                "worker": self.worker,
                "turn": (connection.scalar(last) or 0) + 1,
                "expires": now + self.grace,
            }
            claimed = insert(self.engine, CLAIMS).values(
                study=self.study, child=child_key(key), **row
            )
            claimed = claimed.on_conflict_do_update(
                index_elements=[CLAIMS.c.study, CLAIMS.c.child],
                set_=row,
                where=(CLAIMS.c.expires < now) | (CLAIMS.c.worker == self.worker),
            )
            # Drivers do not agree on the row count of such a statement.
            return connection.scalar(claimed.returning(CLAIMS.c.worker)) is not None

    def _wait_for_others(self, connection: sqlalchemy.Connection) -> None:
        """Let one transaction of the study claim at a time; those of SQLite are alone anyway."""
        if self.engine.dialect.name == "postgresql":
            lock = zlib.crc32(self.study.encode())
            connection.execute(sqlalchemy.select(sqlalchemy.func.pg_advisory_xact_lock(lock)))

    def renew(self, key: str) -> bool:
        """Say that the child is still being trained.

        Returns:
            Whether the claim is still this worker's.
        """
        mine = sqlalchemy.update(CLAIMS).where(self._mine(key))
        return self._changed(mine.values(expires=clock(self.engine) + self.grace))

    def release(self, key: str) -> None:
        """Give up a claim; one that is another worker's by now stays."""
        self._changed(sqlalchemy.delete(CLAIMS).where(self._mine(key)))

    def running(self) -> list[str]:
        """Keys of all claims that are alive, of all workers, oldest first."""
        return list(self.holders())

    def holders(self) -> dict[str, str]:
        """The worker of every claim that is alive, by key, oldest first."""
        found = (
            sqlalchemy.select(CLAIMS.c.key, CLAIMS.c.worker)
            .where((CLAIMS.c.study == self.study) & (CLAIMS.c.expires >= clock(self.engine)))
            .order_by(CLAIMS.c.turn)
        )
        with self.engine.begin() as connection:
            return {row.key: row.worker for row in connection.execute(found)}

    def now(self) -> float:
        """The time by the database's clock."""
        with self.engine.begin() as connection:
            return float(connection.scalar(sqlalchemy.select(clock(self.engine))) or 0.0)

    @contextmanager
    def renewing(self, key: str) -> Iterator[None]:
        """Renew a claim again and again, from a thread, while the block lasts.

        Yields:
            Nothing.
        """
        ended = threading.Event()
        thread = threading.Thread(target=self._keep, args=(key, ended), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()

    def _keep(self, key: str, ended: threading.Event) -> None:
        while not ended.wait(self.grace / _BEATS_PER_GRACE):
            try:
                if not self.renew(key):
                    _LOG.info("the claim on %s is no longer this worker's", key)
                    return
            except Exception as error:
                # The database may be back at the next beat; if not, the claim expires.
                _LOG.info("the claim on %s was not renewed: %s", key, error)

    def _mine(self, key: str) -> sqlalchemy.ColumnElement[bool]:
        return (
            (CLAIMS.c.study == self.study)
            & (CLAIMS.c.child == child_key(key))
            & (CLAIMS.c.worker == self.worker)
        )

    def _changed(self, statement: sqlalchemy.Executable) -> bool:
        with self.engine.begin() as connection:
            result = connection.execute(statement)
            return isinstance(result, sqlalchemy.CursorResult) and result.rowcount == 1
