"""Figure 5.2 of the thesis: projectors, what they reach and what they cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache
from math import isqrt
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from isotropy.certificates import PROJECTORS, architecture, projector
from isotropy.run import ProgressCallback
from isotropy_papers._certificate_plots import (
    QUICK_NOTE,
    Panel,
    Point,
    base_set,
    certified_points,
    draw_panels,
    point_cells,
    search_options,
)
from isotropy_papers._certificate_trials import certified_set, trial
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet, like

# a dense matrix is made anew in every step, minutes for each point; the identity is no projector
_UNLESS_ASKED = ("dense", "identity")
_REPEATS = 5


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify one network with every projector, and time the product P w.

    Args:
        settings: ``models`` chooses projectors (all but dense and identity
            unless given), ``sizes`` the
            dimensions d, ``channels`` the width k of the ConvNet in full. Full: CIFAR-10 and
            ConvNet; on a GPU, Fashion-MNIST from a start trained on CIFAR-10, too. Quick: small
            digits and LeNet-5.
        progress: Called before each certificate.

    Returns:
        Bound, errors and bits for every projector and d, and milliseconds of P w; nothing was
        published as numbers.
    """
    full = settings.full
    kinds = settings.chosen(list(PROJECTORS))
    if settings.models is None:
        kinds = [kind for kind in kinds if kind not in _UNLESS_ASKED]
    model = f"convnet-{settings.channels or 16}" if full else "lenet5"
    dimensions = settings.sizes or ((250, 1000) if full else (50, 200))
    tasks = ["scratch", "transfer"] if full and settings.device != "cpu" else ["scratch"]
    base = base_set(settings, "cifar10")
    shapes = _shapes(model, base)
    options = search_options(settings, full_epochs=20, quick_epochs=12)
    points = {
        f"{task}: {kind}, d={d}": Point(model, task, {**options, "d": d, "projector": kind})
        for task in tasks
        for kind in kinds
        for d in dimensions
        if d <= _most(kind, shapes)
    }

    @cache
    def start() -> dict[str, Tensor]:
        return trained_elsewhere(model, base, settings, prior_epochs=settings.epochs or 20)

    def samples(name: str) -> ImageSet:
        return base if name == "scratch" else _fashion(base, settings)

    def measure(point: Point, data: ImageSet) -> dict[str, float]:
        more: dict[str, Any] = {"start": start()} if point.sample == "transfer" else {}
        return trial(point.model, data, settings, **point.options, **more)

    found, seconds = certified_points(
        "finzi2023/figure5.2", points, samples, settings, progress, measure
    )
    cells = [cell for row, values in found.items() for cell in point_cells(row, values)]
    for kind in kinds:
        for d in dimensions:
            if d <= _most(kind, shapes):
                milliseconds = 1e3 * product_seconds(kind, shapes, d, settings.device)
                cells.append(Cell(f"time: {kind}, d={d}", "P w, ms", milliseconds))
    notes = [
        f"P w: the shortest of {_REPEATS} products on the machine of this run, D = "
        f"{architecture(model).parameter_count(tuple(base.train[0].shape[1:]), 10)}",
        "a projector is left out at dimensions that it does not have",
        "published: film alone does not fit the data from scratch, film+kronecker is best, and "
        "Kronecker products do as well as sparse and dense matrices; without numbers",
        "every error is that of a certificate verified from its bytes",
    ]
    if full:
        notes.append("transfer: Fashion-MNIST from CIFAR-10, published: CIFAR-10 from ImageNet")
    else:
        notes += [QUICK_NOTE, "LeNet-5 has no normalisation: film moves its head alone"]
    return Result("finzi2023/figure5.2", cells, seconds, tuple(notes))


def product_seconds(kind: str, shapes: dict[str, torch.Size], d: int, device: str) -> float:
    """The shortest time of a few products P w.

    Args:
        kind: The projector.
        shapes: Names and shapes of the parameters.
        d: The dimension.
        device: Where.

    Example:
        >>> product_seconds("kronecker", {"weight": torch.Size((30, 20))}, 9, "cpu") > 0
        True
    """
    made = projector(kind, shapes, d, seed=0, device=device)
    weights = torch.ones(d, device=device)
    wait: Callable[[], None] = torch.cuda.synchronize if "cuda" in device else (lambda: None)
    shortest = float("inf")
    with torch.no_grad():
        made(weights)
        for _ in range(_REPEATS):
            wait()
            began = time.perf_counter()
            made(weights)
            wait()
            shortest = min(shortest, time.perf_counter() - began)
    return shortest


def trained_elsewhere(
    model: str, data: ImageSet, settings: Settings, prior_epochs: int
) -> dict[str, Tensor]:
    """All parameters of a network trained on one set, with a new head for another.

    Args:
        model: An architecture of the catalogue.
        data: What it is trained on.
        settings: The seed and the device.
        prior_epochs: Passes over the images.
    """
    from isotropy.certificates import Goal, initial_parameters, trained_start

    images, labels = data.train
    classes = int(labels.max()) + 1
    module = architecture(model).build(tuple(images.shape[1:]), classes)
    found = trained_start(
        module,
        Goal("classification", classes),
        images.to(settings.device),
        labels.to(settings.device),
        epochs=prior_epochs,
        seed=settings.seed,
    )
    drawn = initial_parameters(module, settings.seed)
    return {name: drawn[name] if name.startswith("head.") else found[name] for name in found}


def _fashion(images: ImageSet, settings: Settings) -> ImageSet:
    fashion = certified_set("fashion-mnist", settings)
    train, test = (
        (like(rows, images.train[0]).contiguous(), labels)
        for rows, labels in (fashion.train, fashion.test)
    )
    return ImageSet("fashion-mnist", train, test)


def _shapes(model: str, data: ImageSet) -> dict[str, torch.Size]:
    module = architecture(model).build(tuple(data.train[0].shape[1:]), 10, device="meta")
    return {name: parameter.shape for name, parameter in module.named_parameters()}


def _most(kind: str, shapes: dict[str, torch.Size]) -> int:
    """The most dimensions that a projector has."""
    total = sum(shape.numel() for shape in shapes.values())
    if kind == "film":  # scales and shifts of normalisation layers, and the head
        return sum(shape.numel() for name, shape in shapes.items() if _has_film(name, shapes))
    return 2 * isqrt(total) - 1 if kind == "kronecker-sum" else total


def _has_film(name: str, shapes: dict[str, torch.Size]) -> bool:
    weight = shapes.get(f"{name.rpartition('.')[0]}.weight", ())
    return name.startswith("head.") or len(weight) == 1


def plot(result: Result, path: Path) -> Path:
    """Draw errors along d, and the time of a product.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    tasks = dict.fromkeys(cell.row.split(":")[0] for cell in result.cells)
    titles = {"scratch": "from scratch", "transfer": "transfer", "time": "cost"}
    panels = [
        Panel(titles[task], ("P w, ms",), "d", kind=task, upwards="log")
        if task == "time"
        else Panel(titles[task], ("train error %",), "d", kind=task)
        for task in tasks
    ]
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figure5.2", "Projectors: errors after training, and the time of P w", run, plot
)
