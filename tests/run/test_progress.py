import io
import sys
import threading
import time
from dataclasses import FrozenInstanceError

import pytest

from isotropy.run import Step, terminal_progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def attach(
    stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, delay: float | None = None
) -> io.StringIO:
    """Make a stream standard error; in the test itself, since pytest resets it after fixtures."""
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    if delay is not None:
        monkeypatch.setattr("isotropy._run._progress._SECONDS_BEFORE_BAR", delay)
    return stream


def wait_for(text: str, stream: io.StringIO) -> None:
    give_up = time.monotonic() + 30
    while text not in stream.getvalue():
        assert time.monotonic() < give_up, f"{text!r} was never drawn: {stream.getvalue()!r}"
        time.sleep(0.01)


def timers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_a_step_is_a_value() -> None:
    assert Step(1, 2, "x") == Step(done=1, total=2, message="x")
    assert Step(3) == Step(3, None, "")
    with pytest.raises(FrozenInstanceError):
        Step(1).done = 2  # type: ignore[misc]


def test_long_work_draws_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(Terminal(), monkeypatch, delay=0)
    with terminal_progress("solving [bold]S(5)[/bold]") as progress:
        wait_for("solving [bold]S(5)[/bold]", terminal)
        progress(Step(1, 4, "orbits [1, 2]"))
        wait_for("orbits [1, 2]", terminal)
        progress(Step(2, 4))
    assert timers() == []


def test_output_of_the_work_stays_on_standard_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = attach(Terminal(), monkeypatch, delay=0)
    with terminal_progress("solving"):
        wait_for("solving", terminal)
        sys.stdout.write("rank 9\n")
    assert capsys.readouterr().out == "rank 9\n"


def test_steps_before_the_bar_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(Terminal(), monkeypatch, delay=0.2)
    with terminal_progress("solving") as progress:
        progress(Step(1, 2, "half way"))
        assert terminal.getvalue() == ""
        wait_for("half way", terminal)


def test_the_bar_is_wiped_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(Terminal(), monkeypatch, delay=0)

    def work() -> None:
        with terminal_progress("solving"):
            wait_for("solving", terminal)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        work()
    drawn, show_cursor, erase_line = terminal.getvalue(), "\x1b[?25h", "\x1b[2K"
    assert drawn.rindex(erase_line) > drawn.rindex("solving")
    assert drawn.rindex(show_cursor) > drawn.rindex("solving")


def test_short_work_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = attach(Terminal(), monkeypatch, delay=3600)
    with terminal_progress("solving") as progress:
        progress(Step(1, 1))
        waiting = timers()
        assert len(waiting) == 1
    waiting[0].join(30)
    assert timers() == []
    assert terminal.getvalue() == ""


@pytest.mark.parametrize(("stream", "quiet"), [(Terminal(), True), (io.StringIO(), False)])
def test_silence_where_it_is_asked_for_or_nobody_looks(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, quiet: bool
) -> None:
    attach(stream, monkeypatch, delay=0)
    with terminal_progress("solving", quiet=quiet) as progress:
        progress(Step(1, 1))
        assert timers() == []
    assert stream.getvalue() == ""
