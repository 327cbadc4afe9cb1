"""Budgets and interruptions end work, and keep what was done."""

import importlib
import sys
import threading
import time

import pytest
import torch

from isotropy._run import Patience, one_thread, seconds_of, time_in_words
from isotropy.run import OutOfTime, Step


def busy(seconds: float = 30.0) -> str:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass
    return "done"


def test_a_timer_ends_an_attempt_that_tells_nothing():
    patience = Patience(0.2)
    assert patience.attempt("spinning", busy) is None
    assert patience.stopped == "the budget of 1 s was spent while spinning"
    assert patience.left < 0


def test_an_import_is_finished_before_time_is_over(tmp_path, monkeypatch):
    (tmp_path / "slow_module.py").write_text(
        "import time\nend = time.monotonic() + 0.6\nwhile time.monotonic() < end: pass\nwhole = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def imported_and_busy() -> None:
        importlib.import_module("slow_module")
        busy()

    patience = Patience(0.2)
    assert patience.attempt("importing", imported_and_busy) is None
    assert "spent while importing" in patience.stopped
    assert sys.modules["slow_module"].whole == 1
    assert patience.spent < 10


def test_what_is_not_needed_is_not_begun_afterwards():
    patience = Patience(0.2)
    patience.attempt("spinning", busy)
    begun = []
    assert patience.attempt("more", lambda: begun.append(1)) is None
    assert not begun
    assert patience.attempt("needed", lambda: "kept", share=1000.0, needed=True) == "kept"
    assert "spinning" in patience.stopped  # the first reason stays


def test_a_share_leaves_time_for_the_rest():
    patience = Patience(600.0)
    assert patience.attempt("a little", busy, share=0.0005) is None
    assert patience.attempt("the rest", lambda: 1, needed=True) == 1


def test_where_there_is_no_timer_progress_ends_it():
    patience, seen = Patience(0.1), []
    told = patience.watched(seen.append)

    def steps() -> str:
        for k in range(10_000_000):
            time.sleep(0.01)
            told(Step(k))
        return "done"

    results = []
    thread = threading.Thread(target=lambda: results.append(patience.attempt("steps", steps)))
    thread.start()
    thread.join(20)
    assert results == [None]
    assert seen


def test_interruptions_are_raised_unless_they_are_to_be_kept():
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Patience().attempt("work", interrupted)
    patience = Patience(keep_on_interrupt=True)
    assert patience.attempt("work", interrupted) is None
    assert patience.stopped == "interrupted while work"


def test_errors_of_the_work_are_its_own():
    with pytest.raises(ZeroDivisionError):
        Patience(10.0).attempt("dividing", lambda: 1 / 0)
    with pytest.raises(OutOfTime):
        raise OutOfTime


@pytest.mark.parametrize("text", ["", "five", "-3", "0", "5x", "1m2h", 0, -1.0, float("nan")])
def test_bad_lengths_of_time_are_refused(text):
    with pytest.raises(ValueError, match="expected a length of time such as 90s, 5m or 1h30m, got"):
        seconds_of(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("90s", 90), ("5m", 300), ("5 min", 300), ("1h", 3600), ("1.5m", 90), ("2M", 120)],
)
def test_lengths_of_time(text, seconds):
    assert seconds_of(text) == seconds


def test_times_are_said_in_one_unit():
    assert time_in_words(3.4) == "3 s"
    assert time_in_words(89) == "90 s"
    assert time_in_words(5399) == "90 min"


def test_threads_come_back():
    before = torch.get_num_threads()
    with one_thread():
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == before
