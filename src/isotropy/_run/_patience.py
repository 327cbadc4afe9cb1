"""Long work with a budget: it stops in time, or when interrupted, and keeps what is done."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from isotropy._run._progress import ProgressCallback, Step

T = TypeVar("T")

_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m)?(?:(\d+(?:\.\d+)?)s?)?")


class OutOfTime(BaseException):
    """The time for a piece of work is over; raised within it, past whatever catches its errors."""


def seconds_of(text: str | float) -> float:
    """A length of time in seconds, from a number or from text such as "90", "90s", "5m", "1h30m".

    Raises:
        ValueError: If it is none, or not positive.

    Example:
        >>> seconds_of("5m"), seconds_of("1h30m"), seconds_of("45"), seconds_of(2.5)
        (300.0, 5400.0, 45.0, 2.5)
    """
    if isinstance(text, int | float):
        seconds = float(text)
    else:
        match = _DURATION.fullmatch(text.strip().lower().replace("min", "m").replace(" ", ""))
        parts = match.groups() if match else ()
        seconds = sum(
            float(part) * unit
            for part, unit in zip(parts, (3600.0, 60.0, 1.0), strict=False)
            if part is not None
        )
    if not 0 < seconds < float("inf"):
        raise ValueError(f"expected a length of time such as 90s, 5m or 1h30m, got {text!r}")
    return seconds


def time_in_words(seconds: float) -> str:
    """A length of time as one says it.

    Example:
        >>> time_in_words(0.4), time_in_words(48), time_in_words(100), time_in_words(7000)
        ('1 s', '50 s', '2 min', '1.9 h')
    """
    if seconds < 10:
        return f"{max(round(seconds), 1)} s"
    if seconds < 90:
        return f"{round(seconds, -1):.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


class Patience:
    """How long to go on, and what to do when it ends.

    Work is done in attempts. One that runs out of time, or that the user interrupts, gives None;
    what earlier ones gave is kept, and attempts that are not needed to make use of it are left out.

    Args:
        seconds: The budget for all of it; None for no limit.
        keep_on_interrupt: Whether an interruption (Ctrl-C) ends an attempt, and is not raised.

    Example:
        >>> patience = Patience()
        >>> patience.attempt("adding", lambda: 1 + 1), patience.stopped
        (2, '')
        >>> def interrupted():
        ...     raise KeyboardInterrupt
        >>> impatient = Patience(keep_on_interrupt=True)
        >>> impatient.attempt("looking for more", interrupted)
        >>> impatient.stopped
        'interrupted while looking for more'
        >>> impatient.attempt("looking elsewhere", lambda: 1)  # not begun
        >>> impatient.attempt("testing what there is", lambda: 1, needed=True)
        1
    """

    def __init__(self, seconds: float | None = None, *, keep_on_interrupt: bool = False) -> None:
        self._started = time.monotonic()
        self._seconds = seconds
        self._keeping = keep_on_interrupt
        self._deadline: float | None = None
        self._cut: list[str] = []
        self.stopped = ""

    @property
    def why(self) -> str:
        """Why not all was done; empty where it was."""
        return "; ".join([*self._cut, *([self.stopped] if self.stopped else [])])

    @property
    def spent(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._started

    @property
    def left(self) -> float:
        """Seconds that are left of the budget."""
        return float("inf") if self._seconds is None else self._seconds - self.spent

    def attempt(
        self, what: str, work: Callable[[], T], *, share: float = 1.0, needed: bool = False
    ) -> T | None:
        """Do a piece of the work.

        Args:
            what: What it is, as in "interrupted while …".
            work: Does it.
            share: The share of the whole budget that may be spent by its end.
            needed: Whether to do it even though an earlier piece was stopped.

        Returns:
            What the work gives; None where it was stopped, or not begun.

        Raises:
            KeyboardInterrupt: If interruptions are not kept.
        """
        if self.stopped and not needed:
            return None
        try:
            with self._until(share):
                return work()
        except OutOfTime:
            assert self._seconds is not None
            budget = time_in_words(self._seconds)
            if self.left > 0:  # others have their share yet
                self._cut.append(f"{what} took more than its share of the budget of {budget}")
            else:
                self._stop(f"the budget of {budget} was spent while {what}")
        except KeyboardInterrupt:
            if not self._keeping:
                raise
            self._stop(f"interrupted while {what}")
        return None

    def watched(self, progress: ProgressCallback | None) -> ProgressCallback:
        """The same callback, which ends an attempt that is out of time where no timer can."""

        def tell(step: Step) -> None:
            if self._deadline is not None and time.monotonic() > self._deadline:
                raise OutOfTime
            if progress is not None:
                progress(step)

        return tell

    def _stop(self, why: str) -> None:
        self.stopped = self.stopped or why

    @contextmanager
    def _until(self, share: float) -> Iterator[None]:
        """Raise ``OutOfTime`` within the block when its time is over."""
        if self._seconds is None:
            yield
            return
        self._deadline = self._started + share * self._seconds
        left = self._deadline - time.monotonic()
        if left <= 0:
            self._deadline = None
            raise OutOfTime
        try:
            with _alarm(left):
                yield
        finally:
            self._deadline = None


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """A timer that interrupts the main thread, where there is one and it is free."""
    main = threading.current_thread() is threading.main_thread()
    free = main and hasattr(signal, "setitimer") and signal.getitimer(signal.ITIMER_REAL)[0] == 0
    if not free:
        yield
        return

    def ring(_number: int, frame: FrameType | None) -> None:
        if not _imports(frame):  # a module would be left half imported, for all who come later
            raise OutOfTime

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 0.5)  # again, were it caught or put off
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _imports(frame: FrameType | None) -> bool:
    """Whether what is interrupted is the import of a module."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
