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
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from isotropy._run import OutOfTime, ProgressCallback, Step
from isotropy_papers._campaign_clock import Asked, Deadline
from isotropy_papers._campaign_runs import CampaignRun
from isotropy_papers._campaign_store import Store
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._image_sets import found_folder
from isotropy_papers._registry import experiment

State = Literal["to do", "started", "done", "failed", "missing data", "missing package"]
READY: tuple[State, ...] = ("to do", "started")
_COMMIT = "ISOTROPY_COMMIT"
_PACKED_EVERY = 60.0  # seconds: what a killed process loses of a training that has a checkpoint
_PACKING_SHARE = 0.05  # of the time, at most, where archives are large
_RESERVE = 15.0  # seconds at the end, to save what is at work
_RESERVE_SHARE = 0.1  # of the minutes, where these are few
_ATTEMPT = 1.5  # a cell that was stopped is expected to take so many times as long as it had
_logger = logging.getLogger("isotropy.campaign")  # one that the command shows


@dataclass(frozen=True)
class Planned:
    """A run, what it waits for and what it still takes.

    Args:
        run: Which.
        state: Whether it can go on.
        reason: What is missing or went wrong.
        minutes: What is left of it, by the estimate as corrected by finished cells.
        cell_minutes: What the next cell takes.
        finished: How many of its cells are finished.
    """

    run: CampaignRun
    state: State
    reason: str
    minutes: float
    cell_minutes: float
    finished: int

    @property
    def priority(self) -> float:
        """What the run settles for each minute that it still takes."""
        return self.run.worth / max(self.minutes, 1e-3)

    def data(self) -> dict[str, Any]:
        """The run as JSON knows it."""
        run = self.run
        return {
            "name": run.name,
            "id": run.id,
            "state": self.state,
            "reason": self.reason,
            "minutes": self.minutes,
            "cell_minutes": self.cell_minutes,
            "cells": run.cells,
            "finished": self.finished,
            "priority": self.priority,
            "settles": run.settles,
            "basis": run.basis,
            "settings": run.options(),
            "data": list(run.data),
            "packages": list(run.packages),
        }


def planned(
    runs: Sequence[CampaignRun], store: Store, device: str, absent: Collection[str]
) -> list[Planned]:
    """Runs in the order in which they are worth their minutes, finished ones last.

    Args:
        runs: The table.
        store: What has been done.
        device: Where it goes on.
        absent: Data that are not here, see `absent_data`.
    """
    found = [_planned(run, store, device, absent) for run in runs]
    return sorted(found, key=lambda one: (one.state == "done", -one.priority))


def absent_data(runs: Sequence[CampaignRun], settings: Settings) -> set[str]:
    """The names of data that runs need and that have not been obtained.

    Args:
        runs: The table.
        settings: ``data`` may name a folder of them.
    """
    names = {name for run in runs for name in run.data}
    return {name for name in names if found_folder(name, settings) is None}


def _planned(run: CampaignRun, store: Store, device: str, absent: Collection[str]) -> Planned:
    state, reason = _state(run, store, absent)
    finished = min(len(store.record(run).cells), run.cells)
    left = 0 if state == "done" else max(run.cells - finished, 1)
    cell = cell_seconds(run, store, device) / 60
    expected = max([cell, *(_ATTEMPT * s / 60 for s in _attempts(run, store, device).values())])
    return Planned(run, state, reason, left * cell, expected, finished)


def _state(run: CampaignRun, store: Store, absent: Collection[str]) -> tuple[State, str]:
    record = store.record(run)
    if store.result(run) is not None:
        return "done", ""
    if packages := [name for name in run.packages if find_spec(name) is None]:
        return "missing package", ", ".join(packages)
    if data := [name for name in run.data if name in absent]:
        return "missing data", ", ".join(data)
    if record.failed:
        return "failed", record.failed
    return ("started" if record.cells or record.attempts else "to do"), ""


def cell_seconds(run: CampaignRun, store: Store, device: str) -> float:
    """What one cell is expected to take: the mean of the estimate and of all that were measured.

    Args:
        run: Which.
        store: Has the seconds of finished cells; those of another kind of device do not count.
        device: Where.
    """
    kind = torch.device(device).type
    known = store.seconds.get(run.store, {})
    cells = [known[name] for name in store.record(run).cells if name in known]
    measured = [seconds for seconds, on in cells if on == kind]
    return (60 * run.minutes / run.cells + sum(measured)) / (1 + len(measured))


def _attempts(run: CampaignRun, store: Store, device: str) -> dict[str, float]:
    """Seconds of cells that did not end in their time; where they go on, nothing was lost."""
    kind = torch.device(device).type
    found = {} if run.resumable else store.record(run).attempts
    return {cell: seconds for cell, (seconds, on) in found.items() if on == kind}


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
        attempts = _attempts(self._run, self._store, self._device)
        each = cell_seconds(self._run, self._store, self._device)
        first = max(each, _ATTEMPT * attempts.get(parts[0], 0.0))
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
            before = _attempts(self._run, self._store, self._device)
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
class Outcome:
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
    ) -> list[Outcome]:
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
        outcomes: list[Outcome] = []
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
    ) -> Outcome:
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
            torch.cuda.empty_cache()
        return Outcome(run.name, state, reason, pace.new, time.monotonic() - began)

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
