"""The order of a campaign: what each run waits for, what it still takes, and which is next."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Literal

import torch

from isotropy_papers._campaign_runs import CampaignRun
from isotropy_papers._campaign_store import Store
from isotropy_papers._experiment import Settings
from isotropy_papers._image_sets import found_folder

State = Literal["to do", "started", "done", "failed", "missing data", "missing package"]
READY: tuple[State, ...] = ("to do", "started")
LONGER = 1.5  # a cell that was stopped is expected to take so many times as long as it had


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
    expected = max([cell, *(LONGER * s / 60 for s in attempts_of(run, store, device).values())])
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


def attempts_of(run: CampaignRun, store: Store, device: str) -> dict[str, float]:
    """Seconds of cells that did not end in their time; where they go on, nothing was lost."""
    kind = torch.device(device).type
    found = {} if run.resumable else store.record(run).attempts
    return {cell: seconds for cell, (seconds, on) in found.items() if on == kind}
