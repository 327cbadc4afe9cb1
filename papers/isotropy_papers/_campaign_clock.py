"""When a campaign stops: at the end of its minutes, or when somebody asks it to.

Some trainings answer Ctrl-C with what they have so far, which must not pass for a finished cell.
What is raised here is therefore no `KeyboardInterrupt`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import NoReturn

from isotropy.run import OutOfTime

_Handler = Callable[[int, FrameType | None], None]
_AGAIN = 5.0  # seconds: long enough to save a checkpoint, were the first alarm caught on the way


class Asked(BaseException):
    """Somebody asks the process to end: Ctrl-C, or the system."""


class Deadline:
    """The end of the minutes that a campaign may take.

    Args:
        seconds: How long from now on.

    Example:
        >>> Deadline(0).left()
        0.0
    """

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        """The seconds that are left."""
        return max(0.0, self._end - time.monotonic())

    def check(self) -> None:
        """Raise `OutOfTime` once the time is over."""
        if not self.left():
            _out_of_time()

    @contextmanager
    def enforced(self) -> Iterator[None]:
        """Raise `OutOfTime` in the block when the time is over, `Asked` when asked to end.

        Only the main thread can be interrupted; elsewhere whoever calls `check` stops in time.
        """
        with ExitStack() as stack:
            if threading.current_thread() is threading.main_thread():
                for number in (signal.SIGINT, signal.SIGTERM):
                    stack.enter_context(_handled(number, _asked))
                if hasattr(signal, "setitimer"):  # not on Windows
                    stack.enter_context(_handled(signal.SIGALRM, _out_of_time))
                    stack.callback(signal.setitimer, signal.ITIMER_REAL, 0)
                    # 0 would mean never
                    signal.setitimer(signal.ITIMER_REAL, max(self.left(), 1e-3), _AGAIN)
            yield


@contextmanager
def _handled(number: int, handler: _Handler) -> Iterator[None]:
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


def _out_of_time(_number: int = 0, _frame: FrameType | None = None) -> NoReturn:
    raise OutOfTime("the minutes are over")


def _asked(number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # what is left to do takes seconds
    raise Asked
