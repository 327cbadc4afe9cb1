"""Figure A.6 of the thesis: the size of the model, its bound, and how short it makes the labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from isotropy.certificates import Certificate, architecture, certify
from isotropy.run import ProgressCallback
from isotropy_papers._certificate_plots import (
    QUICK_NOTE,
    Panel,
    Point,
    base_set,
    certified_points,
    draw_panels,
    search_options,
)
from isotropy_papers._certificate_trials import trial
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet
from isotropy_papers.description_length import DescriptionLength, description_length

KILOBYTE = 8192  # bits, as the thesis counts
# published up to 192; wider ones take long to verify in float64
_FULL_WIDTHS = (4, 8, 16, 32, 46)
_QUICK_WIDTHS = (4, 8, 16, 32, 64)
_PUBLISHED_LEAST = 8.6
_PUBLISHED_RAW = 20.3
_PUBLISHED_BEST = {16: (58.2, 3500)}
_ROWS = 500


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify networks of many widths, and send the labels by them.

    Args:
        settings: ``models`` chooses widths ("k=16"), ``sizes`` the dimensions d among which each
            width takes its best. Full: CIFAR-10 and ConvNet. Quick: small digits, and an MLP of
            three layers of k units.
        progress: Called before each certificate.

    Returns:
        For each width the best bound, its d and bits, and the least K(h) + NLL in KB, beside the
        raw labels.
    """
    full = settings.full
    widths = {f"k={k}": k for k in (_FULL_WIDTHS if full else _QUICK_WIDTHS)}
    chosen = settings.chosen(list(widths))
    dimensions = settings.sizes or ((1000, 3500) if full else (100, 200, 400))
    options = search_options(settings, full_epochs=30)
    options["projector"] = "film+kronecker" if full else "kronecker-orthonormal"
    data = base_set(settings, "cifar10")
    shape = tuple(data.train[0].shape[1:])
    points = {
        f"{name}, d={d}": Point(_model(widths[name], full), "images", {**options, "d": d})
        for name in chosen
        for d in dimensions
    }
    found, seconds = certified_points(
        "finzi2023/figureA.6",
        points,
        lambda _: data,
        settings,
        progress,
        lambda point, sample: described(point, sample, settings),
    )
    cells = []
    for name in chosen:
        of = {d: found[f"{name}, d={d}"] for d in dimensions}
        best = min(of, key=lambda d: of[d]["bound"])
        theirs = _PUBLISHED_BEST.get(widths[name], (None, None)) if full else (None, None)
        row = f"best, {name}"
        size = architecture(_model(widths[name], full)).parameter_count(shape, 10)
        cells += [
            Cell(row, "parameters", size),
            Cell(row, "bound %", of[best]["bound"], theirs[0]),
            Cell(row, "best d", best, theirs[1]),
            Cell(row, "train error %", of[best]["train_error"]),
            Cell(row, "K(h), KB", of[best]["bits"] / KILOBYTE),
            Cell(row, "K(h) + NLL, KB", min(v["total"] for v in of.values()) / KILOBYTE),
        ]
    least = min(values["total"] for values in found.values()) / KILOBYTE
    raw = next(iter(found.values()))["raw"] / KILOBYTE
    cells.append(Cell("labels", "least K(h) + NLL, KB", least, _PUBLISHED_LEAST if full else None))
    cells.append(Cell("labels", "raw, KB", raw, _PUBLISHED_RAW if full else None))
    notes = [
        "the bound and K(h) + NLL take their best d each; d is part of the message",
        "K(h): the whole message of the certificate; NLL: of the labels under the softmax of the "
        "decoded network; 1 KB is 8192 bits",
        "every bound is that of a certificate verified from its bytes; δ .05",
    ]
    if not full:
        notes += [QUICK_NOTE, "quick: three layers of k units in place of ConvNet of width k"]
    return Result("finzi2023/figureA.6", cells, seconds, tuple(notes))


def described(point: Point, data: ImageSet, settings: Settings) -> dict[str, float]:
    """A verified certificate, and the labels sent by its network.

    Args:
        point: Which certificate.
        data: The sample.
        settings: The seed and the device.

    Returns:
        What `trial` says; and the bits ``total`` of the message and the labels, and ``raw`` of the
        labels alone.
    """
    made: list[Certificate] = []

    def kept(*arguments: Any, **options: Any) -> Certificate:
        made.append(certify(*arguments, **options))
        return made[-1]

    found = trial(point.model, data, settings, make=kept, **point.options)
    length = label_length(made[-1], data)
    return {**found, "total": length.total_bits, "raw": length.raw_bits}


@torch.no_grad()
def label_length(certificate: Certificate, data: ImageSet) -> DescriptionLength:
    """The training labels sent by the network that a message says.

    Args:
        certificate: Of a network of the catalogue, with a start that is drawn.
        data: The sample.
    """
    hypothesis = certificate.hypothesis()
    assert hypothesis.architecture is not None
    images, labels = data.train
    module = hypothesis.architecture.build(tuple(images.shape[1:]), hypothesis.goal.outputs)
    network = hypothesis.network(module)
    tensors = network.tensors_at(network.weights)
    logits = torch.cat([network.run(tensors, rows.double()) for rows in images.split(_ROWS)])
    return description_length(certificate.message_bits, logits, labels)


def _model(width: int, full: bool) -> str:
    return f"convnet-{width}" if full else f"mlp-{width}-{width}-{width}"


def plot(result: Result, path: Path) -> Path:
    """Draw the bound, the best d and the length of the labels along the width.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    raw = next((c.ours, "raw labels") for c in result.cells if c.column == "raw, KB")
    panels = [
        Panel("bound", ("bound %",), "width k"),
        Panel("dimension", ("best d",), "width k"),
        Panel("description length", ("K(h) + NLL, KB",), "width k", level=raw),
    ]
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figureA.6",
    "Model size: bounds, best dimensions, and how short a model makes the labels",
    run,
    plot,
)
