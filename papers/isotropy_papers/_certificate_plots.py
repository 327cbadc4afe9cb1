"""Figures of certificates: their points, from settings to cells, and their curves."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import interpolate

from isotropy.run import ProgressCallback, generator
from isotropy_papers._certificate_trials import certified_set, plain_name, trial
from isotropy_papers._experiment import Cell, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import ImageSet

# the digits are enlarged from 8 × 8: less than 28 is enough, and four times as fast
QUICK_SIDE = 14
QUICK_NOTE = "quick: 1400 small digits of 14×14 pixels: the shape of the figure, not its numbers"
COLUMNS = {
    "bound %": "bound",
    "train error %": "train_error",
    "test error %": "test_error",
    "bits": "bits",
}
_POINT = re.compile(r"(?:(?P<kind>[^:]*): )?(?P<curve>.*), \w+=(?P<place>\d+)")


@dataclass(frozen=True)
class Point:
    """One certificate of a figure.

    Args:
        model: An architecture of the catalogue.
        sample: The name of the sample it is trained on.
        options: What `certify` takes.

    Example:
        >>> Point("lenet5", "images", {"d": 100}).model
        'lenet5'
    """

    model: str
    sample: str
    options: Mapping[str, Any] = field(default_factory=dict)


def base_set(settings: Settings, public: str) -> ImageSet:
    """The public set in full; otherwise the small digits, made smaller.

    Args:
        settings: Full or quick, and where data are.
        public: The name of the public set.

    Example:
        >>> base_set(Settings(), "mnist").train[0].shape
        torch.Size([1400, 1, 14, 14])
    """
    if settings.full:
        return certified_set(public, settings)
    digits = certified_set("digits", settings)

    def smaller(rows: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return interpolate(rows[0], size=(QUICK_SIDE, QUICK_SIDE), mode="area"), rows[1]

    return ImageSet("digits", smaller(digits.train), smaller(digits.test))


def search_options(settings: Settings, full_epochs: int, quick_epochs: int = 18) -> dict[str, Any]:
    """How networks of a figure are looked for: two thirds as many epochs again with few levels.

    Args:
        settings: ``epochs`` stands in for the others.
        full_epochs: Passes with free weights in full.
        quick_epochs: The same otherwise.

    Example:
        >>> search_options(Settings(epochs=3), 60)["quantised_epochs"]
        2
    """
    epochs = settings.epochs or (full_epochs if settings.full else quick_epochs)
    return {
        "levels": 7 if settings.full else 5,
        "epochs": epochs,
        "quantised_epochs": -(-2 * epochs // 3),
        "rate": 0.008,
        "quantised_rate": 0.002,
    }


def certified_points(
    id: str,
    points: Mapping[str, Point],
    samples: Callable[[str], ImageSet],
    settings: Settings,
    progress: ProgressCallback,
    measure: Callable[[Point, ImageSet], dict[str, float]] | None = None,
) -> tuple[dict[str, dict[str, float]], float]:
    """Make every certificate of a figure, or take those that are finished.

    Args:
        id: The experiment.
        points: The certificates by name.
        samples: From names to samples.
        settings: The seed, the device and where finished parts are kept.
        progress: Called before each certificate.
        measure: What is found for a point; by default what `trial` says.

    Returns:
        What was found by name, and the seconds.
    """
    sample = cache(samples)
    digests = {name: sample(name).digest() for name in {point.sample for point in points.values()}}

    def found(point: Point, _: list[str]) -> list[dict[str, float]]:
        if measure is not None:
            return [measure(point, sample(point.sample))]
        return [trial(point.model, sample(point.sample), settings, **point.options)]

    # a file for each, so that several processes may work on one figure
    values, finished = {}, []
    for label, point in points.items():
        depends = {
            "point": asdict(point),
            "seed": settings.seed,
            "data": digests[point.sample],
        }
        parts = Finished(f"{id}/{plain_name(label)}", depends, settings, progress)
        values.update(parts.get([label], partial(found, point)))
        finished.append(parts)
    # only now: an interrupted run goes on from all points that it has
    return values, sum(parts.close() for parts in finished)


def point_cells(row: str, found: Mapping[str, float], theirs: float | None = None) -> list[Cell]:
    """The cells of a certificate: bound, errors and bits.

    Args:
        row: Their row.
        found: What `trial` says.
        theirs: The published bound in percent.

    Example:
        >>> found = {"bound": 12.0, "train_error": 4.0, "test_error": 4.5, "bits": 3000.0}
        >>> [cell.column for cell in point_cells("lenet5, d=1000", found)]
        ['bound %', 'train error %', 'test error %', 'bits']
    """
    return [
        Cell(row, column, found[key], theirs if key == "bound" else None)
        for column, key in COLUMNS.items()
    ]


def shuffled_pixels(data: ImageSet, seed: int = 0) -> ImageSet:
    """Every image with its pixels in another order, the same for all of them.

    Args:
        data: The images.
        seed: Of the order.

    Example:
        >>> data = base_set(Settings(), "mnist")
        >>> mixed = shuffled_pixels(data).train[0]
        >>> torch.equal(mixed[0].sum(), data.train[0][0].sum()), torch.equal(mixed, data.train[0])
        (True, False)
    """
    height, width = data.train[0].shape[-2:]
    order = torch.randperm(height * width, generator=generator(seed))

    def mixed(rows: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return rows[0].flatten(-2)[..., order].reshape(rows[0].shape), rows[1]

    return ImageSet(f"{data.name}, shuffled pixels", mixed(data.train), mixed(data.test))


def shuffled_labels(data: ImageSet, seed: int = 0) -> ImageSet:
    """Images with labels dealt to them anew, so that nothing is left to learn.

    Args:
        data: The images.
        seed: Of the deal.

    Example:
        >>> data = base_set(Settings(), "mnist")
        >>> labels = shuffled_labels(data).train[1]
        >>> torch.equal(labels.bincount(), data.train[1].bincount())
        True
    """
    numbers = generator(seed)

    def dealt(rows: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return rows[0], rows[1][torch.randperm(len(rows[1]), generator=numbers)]

    return ImageSet(f"{data.name}, shuffled labels", dealt(data.train), dealt(data.test))


@dataclass(frozen=True)
class Panel:
    """One panel: columns of cells along the numbers that their rows end in.

    Args:
        title: Above it.
        columns: Whose cells.
        across: What the numbers are.
        kind: Only rows that begin with this and a colon.
        scale: Of the numbers: "log", "linear", or "symlog" where there is a zero.
        upwards: The scale of the cells.
        level: A line across, with its name.

    Example:
        >>> Panel("rotated", ("bound %",), "d", kind="rotated").scale
        'log'
    """

    title: str
    columns: tuple[str, ...]
    across: str
    kind: str | None = None
    scale: str = "log"
    upwards: str = "linear"
    level: tuple[float, str] | None = None


def draw_panels(result: Result, panels: Sequence[Panel], path: Path) -> Path:
    """Draw curves of cells whose rows read "kind: curve, name=number"; crosses where published.

    Args:
        result: Whose cells.
        panels: What to draw.
        path: The PNG file.

    Example:
        >>> import tempfile
        >>> result = Result("a", [Cell("lenet5, d=10", "bound %", 50.0)], 0.0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "a.png"
        ...     draw_panels(result, [Panel("a", ("bound %",), "d")], path).is_file()
        True
    """
    from matplotlib.figure import Figure

    from isotropy.report import save_figure

    figure = Figure(figsize=(4.2 * len(panels), 3.6), layout="constrained")
    for axis, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        curves = _curves(result, panel)
        for i, (curve, cells) in enumerate(curves.items()):
            places = sorted(cells)
            axis.plot(places, [cells[x].ours for x in places], "o-", color=f"C{i}", label=curve)
            theirs = [(x, cells[x].theirs) for x in places if cells[x].theirs is not None]
            if theirs:
                axis.plot(*zip(*theirs, strict=True), "x", color=f"C{i}")
        if panel.level is not None:
            axis.axhline(panel.level[0], color="black", linestyle="--", label=panel.level[1])
        axis.set_xscale(panel.scale)
        # a decade has few places: powers of ten alone would name none of them
        ticks = sorted({place for cells in curves.values() for place in cells})
        axis.set_xticks(ticks, labels=[f"{tick:,}" for tick in ticks])
        axis.set_xticks([], minor=True)
        axis.set_yscale(panel.upwards)
        axis.set_title(panel.title)
        axis.set_xlabel(panel.across)
        axis.set_ylabel(panel.columns[0] if len(panel.columns) == 1 else "%")
        if axis.get_legend_handles_labels()[0]:
            axis.legend(fontsize=7)
    return save_figure(figure, path)


def _curves(result: Result, panel: Panel) -> dict[str, dict[int, Cell]]:
    curves: dict[str, dict[int, Cell]] = {}
    for cell in result.cells:
        match = _POINT.fullmatch(cell.row)
        if match is None or cell.column not in panel.columns or match["kind"] != panel.kind:
            continue
        name = match["curve"]
        if len(panel.columns) > 1:
            name += f": {cell.column.removesuffix(' %')}"
        curves.setdefault(name, {})[int(match["place"])] = cell
    return curves
