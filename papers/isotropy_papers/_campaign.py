"""A campaign: the missing runs of published size, in portions of a few minutes.

Runs go on where they stopped, in another process or on another machine with the same files.
"""

from __future__ import annotations

import dataclasses
import gc
import logging
import os
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from isotropy.run import OutOfTime, ProgressCallback, Step
from isotropy_papers._campaign_clock import Asked, Deadline
from isotropy_papers._campaign_plan import (
    LONGER,
    READY,
    Planned,
    State,
    absent_data,
    attempts_of,
    cell_seconds,
    planned,
)
from isotropy_papers._campaign_runs import CampaignRun
from isotropy_papers._campaign_store import Store
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._registry import experiment

_COMMIT = "ISOTROPY_COMMIT"
_PACKED_EVERY = 60.0  # seconds: what a killed process loses of a training that has a checkpoint
_PACKING_SHARE = 0.05  # of the time, at most, where archives are large
_RESERVE = 15.0  # seconds at the end, to save what is at work
_RESERVE_SHARE = 0.1  # of the minutes, where these are few
_logger = logging.getLogger("isotropy.campaign")  # one that the command shows


class _RunPace:
    """Lets cells be computed that fit the time, and saves each one that is finished."""

    def __init__(
        self,
        run: CampaignRun,
        store: Store,
        device: str,
        deadline: Deadline,
        work: Path,
        forced: bool,
    ) -> None:
        self._run, self._store, self._device = run, store, device
        self._kind = torch.device(device).type
        self._deadline, self._work, self._forced = deadline, work, forced
        self._at_work: list[str] = []
        self._since = self._packed = time.monotonic()
        self._pause = _PACKED_EVERY
        self.new = 0

    def admit(self, parts: Sequence[str]) -> int:
        self._deadline.check()
        attempts = attempts_of(self._run, self._store, self._device)
        each = cell_seconds(self._run, self._store, self._device)
        first = max(each, LONGER * attempts.get(parts[0], 0.0))
        left = self._deadline.left()
        if first > left and not (self._forced or self._run.resumable):
            raise OutOfTime(f"{parts[0]} takes about {first / 60:.1f} minutes")
        number = min(len(parts), max(1, int(left / each))) if each else len(parts)
        self._at_work, self._since = list(parts[:number]), time.monotonic()
        return number

    def kept(self, part: str, seconds: float) -> None:
        record = self._store.record(self._run)
        known = self._store.seconds.setdefault(self._run.store, {})
        if part not in record.cells:
            record.cells.append(part)
        if part not in self._at_work:
            return  # from an earlier run, which measured it
        known[part] = seconds, self._kind
        record.attempts.pop(part, None)
        self._at_work.remove(part)
        self.new += 1
        _logger.info("%s: %.1f s", part, seconds)
        if not self._at_work:
            self.pack()

    def pack(self) -> None:
        """Save what the run keeps."""
        began = time.monotonic()
        self._store.pack(self._run, self._work)
        self._packed = time.monotonic()
        self._pause = max(_PACKED_EVERY, (self._packed - began) / _PACKING_SHARE)

    def stopped(self) -> None:
        """Note how long the cells at work took in vain, and save what the run keeps."""
        if self._at_work:
            each = (time.monotonic() - self._since) / len(self._at_work)
            before = attempts_of(self._run, self._store, self._device)
            attempts = self._store.record(self._run).attempts
            for part in self._at_work:
                attempts[part] = max(each, before.get(part, 0.0)), self._kind
        if self.new or (self._at_work and self._run.resumable):
            self.pack()

    def watch(self, progress: ProgressCallback, step: Step) -> None:
        """Stop in time even where no signal comes, and save checkpoints of trainings."""
        self._deadline.check()
        if self._run.resumable and time.monotonic() - self._packed > self._pause:
            self.pack()
        progress(step)


@dataclass(frozen=True)
class RunOutcome:
    """What became of a run in this portion.

    Args:
        run: Its name.
        state: "done", "started" or "failed".
        reason: Why it is not done.
        cells: How many cells it finished.
        seconds: How long it took.
    """

    run: str
    state: State
    reason: str
    cells: int
    seconds: float


@dataclass(frozen=True)
class Campaign:
    """What a portion of minutes is spent on.

    Args:
        runs: The table.
        store: The files.
        settings: Device and data; the rest is as published.
        commit: What results name as the commit.
        find: From an id to its experiment.
    """

    runs: Sequence[CampaignRun]
    store: Store
    settings: Settings
    commit: str
    find: Callable[[str], Experiment] = experiment

    def spend(
        self, minutes: float, names: Sequence[str] = (), progress: ProgressCallback | None = None
    ) -> list[RunOutcome]:
        """Take the runs in their order, and compute the cells that fit.

        Args:
            minutes: How long, saving included.
            names: Only these runs, in this order, failed ones and long cells among them.
            progress: Called with each step of a run.

        Returns:
            What became of each run that was taken.

        Raises:
            KeyboardInterrupt: If the process was asked to end; what is finished has been saved.
            ValueError: If a name is unknown.
        """
        known = {run.name: run for run in self.runs}
        for name in names:
            if name not in known:
                raise ValueError(f"expected a run among {', '.join(known)}, got {name!r}")
        deadline = Deadline(60 * minutes - min(_RESERVE, _RESERVE_SHARE * 60 * minutes))
        outcomes: list[RunOutcome] = []
        absent = absent_data(self.runs, self.settings)
        while deadline.left():
            plans = planned(self.runs, self.store, self.settings.device, absent)
            taken = [one.run for one in outcomes]
            run = self._next([one for one in plans if one.run.name not in taken], deadline, names)
            if run is None:
                break
            _logger.info("%s: %s", run.name, run.settles)
            outcomes.append(self._run(run, deadline, bool(names), progress or _ignore))
            _logger.info("%s: %s %s", run.name, outcomes[-1].state, outcomes[-1].reason)
        return outcomes

    def _next(
        self, plans: Sequence[Planned], deadline: Deadline, names: Sequence[str]
    ) -> CampaignRun | None:
        if names:
            plans = sorted(
                (one for one in plans if one.run.name in names),
                key=lambda one: names.index(one.run.name),
            )
        for one in plans:
            ready = one.state in READY or (bool(names) and one.state == "failed")
            fits = bool(names) or one.run.resumable or 60 * one.cell_minutes <= deadline.left()
            if ready and fits and self.store.has_room(one.run):
                return one.run
        return None

    def _run(
        self, run: CampaignRun, deadline: Deadline, forced: bool, progress: ProgressCallback
    ) -> RunOutcome:
        began = time.monotonic()
        record = self.store.record(run)
        state: State = "started"
        reason = ""
        with tempfile.TemporaryDirectory(prefix="isotropy-campaign-") as folder:
            work = Path(folder)
            device = self.settings.device
            pace = _RunPace(run, self.store, device, deadline, work, forced)
            try:
                self.store.unpack(run, work)
                with deadline.enforced():
                    result = self._result(run, work, pace, progress)
                pace.pack()
                self.store.write_result(run, self._data(run, result))
                record.failed, state = "", "done"
            except OutOfTime as stop:
                reason = str(stop)
                pace.stopped()
            except Asked:
                pace.stopped()
                raise KeyboardInterrupt from None
            except Exception as error:  # the next run may use the minutes that are left
                _logger.exception("%s failed", run.name)
                record.failed = f"{type(error).__name__}: {error}"
                state, reason = "failed", record.failed
            self.store.save()
        gc.collect()
        if torch.cuda.is_available():
            with suppress(RuntimeError):  # of a step that was stopped while it was captured
                torch.cuda.empty_cache()
        return RunOutcome(run.name, state, reason, pace.new, time.monotonic() - began)

    def _result(
        self, run: CampaignRun, work: Path, pace: _RunPace, progress: ProgressCallback
    ) -> Result:
        settings = dataclasses.replace(
            run.settings,
            data=self.settings.data,
            images=self.settings.images,
            device=self.settings.device,
            out=work,
            pace=pace,
        )
        return self.find(run.id).run(settings, lambda step: pace.watch(progress, step))

    def _data(self, run: CampaignRun, result: Result) -> dict[str, Any]:
        """The result in the form of ``reproduce --json``, and where it comes from."""
        settings = self.settings
        return {
            **result.data(),
            "name": run.name,
            "command": run.command(settings.device),
            "settings": run.options(),
            "commit": self.commit,
            "seed": run.settings.seed,
            "machine": f"{platform.machine()}, {os.cpu_count()} cores",
            "device": device_name(settings.device),
        }


def device_name(device: str) -> str:
    """What a device is, for results.

    Example:
        >>> device_name("cpu")
        'cpu'
    """
    return torch.cuda.get_device_name(device) if device.startswith("cuda") else device


def commit_of(given: str | None = None) -> str:
    """The commit that results name: as given, of ``$ISOTROPY_COMMIT``, of git, or "unknown".

    Args:
        given: The commit, if known.

    Example:
        >>> commit_of("3c7a2b3")
        '3c7a2b3'
    """
    if found := given or os.environ.get(_COMMIT, ""):
        return found
    command = ["git", "rev-parse", "HEAD"]
    try:
        answer = subprocess.run(
            command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False
        )
    except OSError:  # no git
        return "unknown"
    return answer.stdout.strip() or "unknown"


def _ignore(step: Step) -> None:
    """Show nothing."""
