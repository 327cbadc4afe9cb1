"""Figure 5.3 of the thesis: structure in the data and in the model, kept and broken."""

from __future__ import annotations

from pathlib import Path

from isotropy.certificates import architecture
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
    shuffled_labels,
    shuffled_pixels,
)
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet

SAMPLES = ("images", "shuffled pixels", "shuffled labels")
# as many parameters each: 517,832 and 507,760 for CIFAR-10, 56,080 and 55,975 for quick digits
_FULL = {"CNN": "convnet-46", "MLP": "mlp-150-150-150"}
_QUICK = {"CNN": "lenet5", "MLP": "mlp-123-123-123"}
_CHANCE = 90.0


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify a CNN and an MLP of one size where structure is kept, broken, or gone.

    Args:
        settings: ``models`` chooses CNN or MLP, ``sizes`` the dimensions d. Full: CIFAR-10,
            ConvNet with k = 46 and three layers of 150 units. Quick: small digits, LeNet-5 and
            three layers of 123 units.
        progress: Called before each certificate.

    Returns:
        Bound, errors and bits at every d; the thesis says that all bounds with shuffled labels
        are 100 %, and gives no other numbers.
    """
    networks = _FULL if settings.full else _QUICK
    chosen = settings.chosen(list(networks))
    dimensions = settings.sizes or ((1000, 3500, 10_000) if settings.full else (50, 150, 400))
    base = base_set(settings, "cifar10")
    search = search_options(settings, full_epochs=30)
    points = {
        f"{sample}: {name}, d={d}": Point(
            networks[name], sample, {**search, "d": d, "projector": _projector(networks[name])}
        )
        for sample in SAMPLES
        for name in chosen
        for d in dimensions
    }
    found, seconds = certified_points(
        "finzi2023/figure5.3", points, lambda name: sample_of(base, name), settings, progress
    )
    cells = []
    for row, values in found.items():
        theirs = 100.0 if settings.full and row.startswith("shuffled labels") else None
        cells += point_cells(row, values, theirs)
    shape = tuple(base.train[0].shape[1:])
    cells += [
        Cell(name, "parameters", architecture(networks[name]).parameter_count(shape, 10))
        for name in chosen
    ]
    lowest = min(v["bound"] for row, v in found.items() if row.startswith("shuffled labels"))
    notes = [
        f"shuffled labels: lowest bound {lowest:.1f} %, "
        + ("never below chance" if lowest >= _CHANCE else "BELOW CHANCE")
        + f" ({_CHANCE:g} %); it need not be 100 %, since a network that errs as often as chance "
        "in few bits has a bound a little above chance",
        "shuffled pixels: one order for all images; shuffled labels: dealt anew, to test images, "
        "too",
        "projectors: film+kronecker for ConvNets, kronecker-orthonormal for the others",
        "every bound is that of a certificate verified from its bytes; δ .05; one seed: an MLP has "
        "no use for the order of pixels, so its curves with and without it differ by chance alone",
    ]
    if settings.full:
        notes.append(
            f"{search['epochs']} + {search['quantised_epochs']} epochs, published 100 + 50"
        )
    else:
        notes += [
            QUICK_NOTE,
            "quick: other seeds move a bound by 3 to 20 points, which is more "
            "than the networks differ by: compare several before you conclude anything",
        ]
    return Result("finzi2023/figure5.3", cells, seconds, tuple(notes))


def sample_of(data: ImageSet, name: str) -> ImageSet:
    """The images as they are, or with pixels or labels shuffled.

    Args:
        data: The images.
        name: One of ``SAMPLES``.

    Example:
        >>> sample_of(base_set(Settings(), "cifar10"), "shuffled labels").name
        'digits, shuffled labels'
    """
    if name == "images":
        return data
    return shuffled_pixels(data) if name == "shuffled pixels" else shuffled_labels(data)


def _projector(model: str) -> str:
    return "film+kronecker" if model.startswith("convnet") else "kronecker-orthonormal"


def plot(result: Result, path: Path) -> Path:
    """Draw the bounds along d, one panel for each sample.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    chance = (_CHANCE, "chance")
    panels = [Panel(name, ("bound %",), "d", kind=name, level=chance) for name in SAMPLES]
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figure5.3",
    "Bounds of a CNN and an MLP on images, with shuffled pixels and with shuffled labels",
    run,
    plot,
)
