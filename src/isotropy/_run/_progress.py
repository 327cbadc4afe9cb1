"""Progress: long work reports its steps to a callback, and a terminal may draw them as a bar."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from isotropy._run._terminal_text import terminal_line

if TYPE_CHECKING:
    from rich.progress import Progress

_SECONDS_BEFORE_BAR = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """How far a long computation has come.

    Args:
        done: units of work finished.
        total: units of work in all, ``None`` while that is unknown.
        message: what is being done, in a few words.

    Example:
        >>> Step(3, 10, "orbits")
        Step(done=3, total=10, message='orbits')
    """

    done: int
    total: int | None = None
    message: str = ""


ProgressCallback: TypeAlias = Callable[[Step], None]
"""What a long function takes as ``progress=``; ``None`` there means silence."""


@contextmanager
def terminal_progress(description: str, quiet: bool = False) -> Iterator[ProgressCallback]:
    """Yield a callback that draws a bar on a terminal.

    The bar appears on standard error once the block has lasted two seconds, and is wiped when the
    block ends. Where standard error is no terminal, or ``quiet`` is set, nothing is ever written.

    Args:
        description: what to call the work while no step has a message.
        quiet: whether to stay silent on a terminal too.

    Yields:
        A callback to hand to a function as ``progress=``.

    Example:
        >>> with terminal_progress("solving", quiet=True) as progress:
        ...     progress(Step(1, 2, "first half"))
    """
    if quiet or not sys.stderr.isatty():
        yield _ignore
        return
    bar = _DelayedBar(description)
    try:
        yield bar.update
    finally:
        bar.close()


def _ignore(step: Step) -> None:
    """Take a step and say nothing."""


class _DelayedBar:
    """A rich progress bar that a timer starts, so that short work never flickers."""

    def __init__(self, description: str) -> None:
        self._step = Step(0, None, description)
        self._description = description
        self._bar: Progress | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(_SECONDS_BEFORE_BAR, self._open)
        self._timer.daemon = True
        self._timer.start()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._closed:
                return
            self._bar = Progress(
                # Markup would swallow square brackets in a message.
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr),
                transient=True,
                redirect_stdout=False,  # it would send the work's own output to standard error
            )
            self._bar.add_task("")
            self._draw(self._bar)
            self._bar.start()

    def update(self, step: Step) -> None:
        with self._lock:
            self._step = step
            if self._bar is not None:
                self._draw(self._bar)

    def _draw(self, bar: "Progress") -> None:
        bar.update(
            bar.task_ids[0],
            completed=self._step.done,
            total=self._step.total,
            # rich would pass the codes of a terminal on, which a name of a column may hold
            description=terminal_line(self._step.message or self._description),
        )

    def close(self) -> None:
        self._timer.cancel()
        with self._lock:
            self._closed = True
            if self._bar is not None:
                self._bar.stop()
