"""Figure A.7 of the thesis: double descent, in the test error and in the bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from isotropy.certificates import architecture
from isotropy.run import ProgressCallback, generator
from isotropy_papers._certificate_plots import (
    QUICK_NOTE,
    Panel,
    Point,
    base_set,
    certified_points,
    draw_panels,
    search_options,
)
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet

LABEL_NOISE = 0.2
# from as many parameters as d on; wider ones take long to verify in float64
_FULL_WIDTHS = (6, 8, 10, 12, 16, 24)
_QUICK_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
# the share of rows on which all weights are trained, for the left panel
_TRAINED_PERCENT = 95
# percent; the thesis' bounds scatter by half as much
_MARGIN = 1.0


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train and certify networks of many widths on labels a fifth of which are wrong.

    Args:
        settings: ``models`` chooses widths ("k=16"); ``sizes`` has the one dimension d. Full:
            CIFAR-10, ResNet-20 and d = 35,000. Quick: small digits, an MLP of two layers of k
            units and d = 100.
        progress: Called before each network.

    Returns:
        For each width the test error of a network all of whose weights were trained, and bound
        and errors of the certificate.

    Raises:
        ValueError: If more than one dimension is asked for.
    """
    full = settings.full
    if settings.sizes is not None and len(settings.sizes) > 1:
        raise ValueError(f"expected one dimension d in sizes, got {list(settings.sizes)}")
    d = settings.sizes[0] if settings.sizes else (35_000 if full else 100)
    widths = {f"k={k}": k for k in (_FULL_WIDTHS if full else _QUICK_WIDTHS)}
    chosen = settings.chosen(list(widths))
    search = search_options(settings, full_epochs=30)
    search["projector"] = "film+kronecker" if full else "kronecker-orthonormal"
    epochs = settings.epochs or (60 if full else 30)
    trained = {"d": 0, "prior_percent": _TRAINED_PERCENT, "prior_epochs": epochs}
    points = {}
    for name in chosen:
        model = _model(widths[name], full)
        points[f"all weights, {name}"] = Point(model, "noisy", trained)
        points[f"d weights, {name}"] = Point(model, "noisy", {**search, "d": d})
    data = noisy_labels(base_set(settings, "cifar10"))
    found, seconds = certified_points(
        "finzi2023/figureA.7", points, lambda _: data, settings, progress
    )
    shape = tuple(data.train[0].shape[1:])
    cells = []
    for row, values in found.items():
        cells.append(Cell(row, "test error %", values["test_error"]))
        if row.startswith("d weights"):
            cells.append(Cell(row, "bound %", values["bound"]))
            cells.append(Cell(row, "train error %", values["train_error"]))
            cells.append(Cell(row, "bits", values["bits"]))
    for name in chosen:
        size = architecture(_model(widths[name], full)).parameter_count(shape, 10)
        cells.append(Cell(f"d weights, {name}", "parameters", size))
    curves = {
        "test error": [found[f"all weights, {name}"]["test_error"] for name in chosen],
        "bound": [found[f"d weights, {name}"]["bound"] for name in chosen],
    }
    seen = [f"{name}: {'yes' if descends_twice(v) else 'no'}" for name, v in curves.items()]
    notes = [
        f"a second descent after a rise of {_MARGIN:g} % or more, {', '.join(seen)}",
        f"{LABEL_NOISE:.0%} of the training labels are those of another class; test labels are "
        "right, so a test error may lie far below the bound, which is on labels with noise",
        f"all weights: trained on {_TRAINED_PERCENT} % of the rows, images moved by a pixel or "
        "two; test error after the last epoch",
        f"d = {d} at every width, certificates verified from their bytes; δ .05",
        "published: ResNet-18, d = 35,000, without numbers",
    ]
    if not full:
        notes += [QUICK_NOTE, "quick: two layers of k units in place of ResNet-20 of width k"]
    return Result("finzi2023/figureA.7", cells, seconds, tuple(notes))


def noisy_labels(data: ImageSet, seed: int = 0) -> ImageSet:
    """A fifth of the training labels moved to another class, uniformly among the others.

    Args:
        data: The images; test labels stay.
        seed: Of the choice.

    Example:
        >>> data = base_set(Settings(), "cifar10")
        >>> moved = (noisy_labels(data).train[1] != data.train[1]).double().mean()
        >>> abs(float(moved) - 0.2) < 0.03
        True
    """
    images, labels = data.train
    classes = int(labels.max()) + 1
    numbers = generator(seed)
    moved = torch.rand(len(labels), generator=numbers) < LABEL_NOISE
    steps = torch.randint(1, classes, (len(labels),), generator=numbers)
    noisy = torch.where(moved, (labels + steps) % classes, labels)
    return ImageSet(f"{data.name}, noisy labels", (images, noisy), data.test)


def descends_twice(values: Sequence[float]) -> bool:
    """Whether values fall, rise and fall again, by more than they scatter.

    Args:
        values: Percentages along the width.

    Example:
        >>> descends_twice([90, 50, 60, 40]), descends_twice([90, 50, 50.5, 40])
        (True, False)
    """
    turns, direction, last = [], -1, values[0]
    for value in values[1:]:
        if direction * (value - last) > 0:
            last = value
        elif abs(value - last) >= _MARGIN:
            turns.append(last)
            direction, last = -direction, value
    # a rise from the first value on is no descent before it
    return len(turns) >= 2 and turns[0] < values[0]


def _model(width: int, full: bool) -> str:
    return f"resnet20-{width}" if full else f"mlp-{width}-{width}"


def plot(result: Result, path: Path) -> Path:
    """Draw test errors and bounds along the width.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    panels = [Panel(name, (name,), "width k") for name in ("test error %", "bound %")]
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figureA.7",
    "Double descent: test errors and bounds against the width, with label noise",
    run,
    plot,
)
