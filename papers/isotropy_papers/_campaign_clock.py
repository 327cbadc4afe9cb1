"""When a campaign stops: at the end of its minutes, or where the system asks it to."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_Handler = Callable[[int, FrameType | None], None]


class OutOfTime(KeyboardInterrupt):
    """The minutes are over; an interruption, so that trainings save where they are."""


class Terminated(KeyboardInterrupt):
    """The system asks the process to end."""


class Deadline:
    """The end of the minutes that a campaign may take.

    Args:
        seconds: How long from now on.

    Example:
        >>> Deadline(0).check()
        Traceback (most recent call last):
        ...
        isotropy_papers._campaign_clock.OutOfTime: the minutes are over
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise `OutOfTime` once the time is over."""
        if not self.left():
            raise OutOfTime("the minutes are over")

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Interrupt the block when the time is over, or when the system asks the process to end.

        Only the main thread can be interrupted; elsewhere whoever calls `check` stops in time.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        with _handled(signal.SIGTERM, _terminate):
            alarm = getattr(signal, "SIGALRM", None)  # not on Windows
            if alarm is None:
                yield
                return
            with _handled(alarm, _out_of_time):
                # 0 would mean never
                signal.setitimer(signal.ITIMER_REAL, max(self.left(), 1e-3))
                try:
                    yield
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)


@contextmanager
def _handled(number: int, handler: _Handler) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _out_of_time(number: int, frame: FrameType | None) -> None:
    raise OutOfTime("the minutes are over")


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(number, signal.SIG_IGN)  # what is left to do takes seconds: asking again is late
    raise Terminated("the system asks to end")
