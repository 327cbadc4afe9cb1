"""What an experiment is: settings in, a table of our numbers beside the published ones out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from isotropy.run import ProgressCallback

Schedule = Literal["constant", "cosine"]


class Pace(Protocol):
    """Decides how many parts of a long run are computed next, and records those that are kept."""

    def admit(self, parts: Sequence[str]) -> int:
        """How many of these parts to compute now, the first ones and at least one.

        Args:
            parts: The names of parts that could be computed together.

        Raises:
            OutOfTime: If none should be, so that the run ends here.
        """

    def kept(self, part: str, seconds: float) -> None:
        """Called for each part that is on disk: computed just now, or found there.

        Args:
            part: Its name.
            seconds: How long it took.
        """


@dataclass(frozen=True)
class Settings:
    """How an experiment is to be run; ``None`` leaves a choice to it.

    Args:
        full: Whether to run it as published; otherwise in a few minutes on a CPU.
        seed: The seed of everything random.
        seeds: How many models are trained for each cell, each on data of its own.
        sizes: Numbers of training rows, for experiments that vary them; for agents the number of
            steps they are trained for.
        epochs: Passes through the training rows.
        schedule: Whether the learning rate stays constant or falls to zero as a cosine.
        channels: The width of hidden layers.
        models: Only the models whose names are among these.
        test_rows: How many rows, trajectories or episodes results are reported on.
        step: The step of the integrator in training, for experiments with dynamics.
        images: A folder of photographs, for experiments that look at some.
        data: A folder with folders of data by name (mnist, cifar10, …), to be used in place of
            the public sets and weights of these names.
        device: Where tensors live.
        out: A folder for the result and for finished cells, from which a later run goes on.
        pace: Asked before cells are computed; ``None`` computes them all.

    Raises:
        ValueError: If a number is not positive, or the schedule is unknown.

    Example:
        >>> Settings(seeds=3).or_else(seeds=10, epochs=5)
        {'seeds': 3, 'epochs': 5}
    """

    full: bool = False
    seed: int = 0
    seeds: int | None = None
    sizes: tuple[int, ...] | None = None
    epochs: int | None = None
    schedule: Schedule | None = None
    channels: int | None = None
    models: tuple[str, ...] | None = None
    test_rows: int | None = None
    step: float | None = None
    images: Path | None = None
    data: Path | None = None
    device: str = "cpu"
    out: Path | None = None
    pace: Pace | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("seeds", "epochs", "channels", "test_rows"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"expected {name} of at least 1, got {value}")
        if self.sizes is not None and not (self.sizes and all(n > 0 for n in self.sizes)):
            raise ValueError(f"expected sizes of at least 1, got {list(self.sizes)}")
        if self.step is not None and not 0 < self.step < float("inf"):
            raise ValueError(f"expected a positive step, got {self.step}")
        if self.schedule not in (None, "constant", "cosine"):
            raise ValueError(f"expected the schedule 'constant' or 'cosine', got {self.schedule!r}")

    def or_else(self, **defaults: Any) -> dict[str, Any]:
        """The settings of these names, the defaults standing in where they are ``None``."""
        return {
            name: default if getattr(self, name) is None else getattr(self, name)
            for name, default in defaults.items()
        }

    def chosen(self, models: list[str]) -> list[str]:
        """Those of the given models that are asked for.

        Args:
            models: Their names.

        Raises:
            ValueError: If one is asked for that is not among them.
        """
        if self.models is None:
            return models
        for name in self.models:
            if name not in models:
                raise ValueError(f"expected models among {', '.join(models)}, got {name!r}")
        return [name for name in models if name in self.models]


@dataclass(frozen=True)
class Cell:
    """One number of a table or figure.

    Args:
        row: Its row.
        column: Its column.
        ours: What we find.
        theirs: What was published; ``None`` where nothing was.
        interval: How far ours scatters, low and high; ``None`` where that was not measured.

    Example:
        >>> Cell("EMLP-O(5)", "N=1000", 0.0101, 0.017).theirs
        0.017
    """

    row: str
    column: str
    ours: float
    theirs: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Result:
    """What an experiment found.

    Args:
        id: The experiment.
        cells: Its numbers.
        seconds: How long the work took, in all runs that contributed.
        notes: What the numbers are, and where the run differs from the published one.

    Example:
        >>> print(Result("paper/table1", [Cell("EMLP", "error", 0.0123, 0.017, (0.01, 0.02))], 3))
        row   column  ours    interval      theirs
        EMLP  error   0.0123  0.01 to 0.02  0.017
        <BLANKLINE>
        paper/table1: 3 s
    """

    id: str
    cells: list[Cell]
    seconds: float
    notes: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """The result as JSON knows it: id, cells, seconds and notes."""
        return {
            "id": self.id,
            "cells": [asdict(cell) for cell in self.cells],
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [("row", "column", "ours", "interval", "theirs")]
        for cell in self.cells:
            low_high = "" if cell.interval is None else "{:.3g} to {:.3g}".format(*cell.interval)
            theirs = "" if cell.theirs is None else f"{cell.theirs:.3g}"
            lines.append((cell.row, cell.column, f"{cell.ours:.3g}", low_high, theirs))
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = [
            "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*table, "", f"{self.id}: {self.seconds:.3g} s", *self.notes])


@dataclass(frozen=True)
class Experiment:
    """A table or figure that can be run again.

    Args:
        id: The paper and the place in it.
        title: What it shows, in a few words.
        run: From settings and a progress callback to the result.
        plot: Draws a result into a PNG file; ``None`` for tables.

    Example:
        >>> from isotropy_papers import experiment
        >>> experiment("finzi2023/table2.2").title
        'Rollout errors of neural ODEs and HNNs with and without symmetry'
    """

    id: str
    title: str
    run: Callable[[Settings, ProgressCallback], Result]
    plot: Callable[[Result, Path], Path] | None = None
