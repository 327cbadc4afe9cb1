"""Who trains what now: claims that expire, so that no child is trained twice or lost."""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import sqlalchemy
from sqlalchemy.exc import SQLAlchemyError

from isotropy.discovery.search._tables import CLAIMS, clock, insert

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

    A claim holds while its worker renews it. All times are of the database's clock.

    Args:
        engine: Of the database.
        study: Optuna's number of the study.
        grace: Seconds after which a claim that was not renewed is anybody's.

    Example:
        >>> from isotropy.discovery.search._database import opened
        >>> with opened(None) as database:
        ...     mine, other = (Claims(database.engine, 1, grace=60.0) for _ in range(2))
        ...     mine.claim("rotation/0"), other.claim("rotation/0"), mine.running()
        (True, False, ['rotation/0'])
    """

    engine: sqlalchemy.Engine
    study: int
    grace: float
    worker: str = field(init=False)

    def __post_init__(self) -> None:
        # A process may be a worker twice, and containers share host names and process numbers.
        object.__setattr__(self, "worker", f"{worker_name()}:{secrets.token_hex(8)}")

    def claim(self, key: str) -> bool:
        """Claim a child, where nobody holds a claim on it that is alive.

        Args:
            key: Of the child's proposal.

        Returns:
            Whether it is this worker's now.
        """
        now = clock(self.engine)
        claimed = insert(self.engine, CLAIMS).values(
            study=self.study, key=key, worker=self.worker, since=now, heartbeat=now
        )
        free = (CLAIMS.c.heartbeat < now - self.grace) | (CLAIMS.c.worker == self.worker)
        claimed = claimed.on_conflict_do_update(
            index_elements=[CLAIMS.c.study, CLAIMS.c.key],
            set_={"worker": self.worker, "since": now, "heartbeat": now},
            where=free,
        )
        # Drivers do not agree on the row count of such a statement.
        with self.engine.begin() as connection:
            return connection.scalar(claimed.returning(CLAIMS.c.worker)) is not None

    def renew(self, key: str) -> bool:
        """Say that the child is still being trained.

        Args:
            key: Of a child that this worker claimed.

        Returns:
            Whether the claim is still this worker's.
        """
        mine = sqlalchemy.update(CLAIMS).where(self._mine(key))
        return self._changed(mine.values(heartbeat=clock(self.engine)))

    def release(self, key: str) -> None:
        """Give up a claim; one that is another worker's by now stays.

        Args:
            key: Of a child that this worker claimed.
        """
        self._changed(sqlalchemy.delete(CLAIMS).where(self._mine(key)))

    def running(self) -> list[str]:
        """Keys of all claims that are alive, of all workers, oldest first."""
        alive = CLAIMS.c.heartbeat >= clock(self.engine) - self.grace
        found = (
            sqlalchemy.select(CLAIMS.c.key)
            .where((CLAIMS.c.study == self.study) & alive)
            .order_by(CLAIMS.c.since, CLAIMS.c.worker)
        )
        with self.engine.begin() as connection:
            return list(connection.scalars(found))

    def now(self) -> float:
        """The time by the database's clock."""
        with self.engine.begin() as connection:
            return float(connection.scalar(sqlalchemy.select(clock(self.engine))) or 0.0)

    @contextmanager
    def renewing(self, key: str) -> Iterator[None]:
        """Renew a claim again and again, from a thread, while the block lasts.

        Args:
            key: Of a child that this worker claimed.

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
                    return
            except SQLAlchemyError:
                # The database may be back at the next beat; if not, the claim expires.
                continue

    def _mine(self, key: str) -> sqlalchemy.ColumnElement[bool]:
        return (
            (CLAIMS.c.study == self.study)
            & (CLAIMS.c.key == key)
            & (CLAIMS.c.worker == self.worker)
        )

    def _changed(self, statement: sqlalchemy.Executable) -> bool:
        with self.engine.begin() as connection:
            result = connection.execute(statement)
            return isinstance(result, sqlalchemy.CursorResult) and result.rowcount == 1
