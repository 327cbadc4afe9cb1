"""Figure A.5 of the thesis: an equivariant network is worth more on data with its symmetry."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

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
)
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet
from isotropy_papers.digit_tasks import rotated

NETWORKS = ("lenet5", "convnet", "resnet20")
SAMPLES = ("rotated", "upright")
_ROTATED_ROWS = 12_000
_EQUIVARIANT = " equivariant p4"


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify plain and equivariant networks on turned digits and on upright ones.

    Args:
        settings: ``models`` chooses networks (lenet5 and "lenet5 equivariant p4" unless given),
            ``sizes`` the dimensions d. Full: 12,000 turned digits of MNIST, and all 60,000 upright.
            Quick: small digits.
        progress: Called before each certificate.

    Returns:
        Bound, errors and bits at every d; the bits that name the group; and by how much the best
        bound of the equivariant network is below that of the plain one.
    """
    models = settings.chosen([name + kind for name in NETWORKS for kind in ("", _EQUIVARIANT)])
    if settings.models is None:
        models = [model for model in models if model.startswith("lenet5")]
    dimensions = settings.sizes or ((500, 1000, 2000) if settings.full else (100, 200))
    base = base_set(settings, "mnist")
    search = search_options(settings, full_epochs=60)
    points = {
        f"{sample}: {model}, d={d}": Point(
            model, sample, {**search, "d": d, "projector": _projector(model)}
        )
        for sample in SAMPLES
        for model in models
        for d in dimensions
    }
    found, seconds = certified_points(
        "finzi2023/figureA.5",
        points,
        lambda name: turned_set(base) if name == "rotated" else base,
        settings,
        progress,
    )
    cells = [cell for row, values in found.items() for cell in point_cells(row, values)]
    shape = tuple(base.train[0].shape[1:])
    for model in models:
        cells.append(Cell(model, "parameters", architecture(model).parameter_count(shape, 10)))
        if model.endswith(_EQUIVARIANT):
            cells.append(Cell(model, "bits of the symmetry", symmetry_bits(model)))
    cells += [
        Cell(f"{sample}: {name}", "equivariant below plain, % points", gain)
        for sample in SAMPLES
        for name in NETWORKS
        if (gain := _gain(found, sample, name)) is not None
    ]
    notes = [
        "published: a C8-equivariant WideResNet of 1.451 M parameters beside a plain one of "
        "1.447 M, without numbers; here p4 (quarter turns), the number of channels such that the "
        "parameters are as many as those of the plain network",
        "every bound is that of a certificate verified from its bytes, which name the group; δ .05",
        "turned by angles uniform on the circle, training and test images alike; fewer rows are "
        "turned than upright, so bounds are to be compared within a sample",
    ]
    if not settings.full:
        notes.append(QUICK_NOTE)
    return Result("finzi2023/figureA.5", cells, seconds, tuple(notes))


def turned_set(data: ImageSet) -> ImageSet:
    """The first 12,000 training images and all test images, each turned by its own angle.

    Args:
        data: Upright images.

    Example:
        >>> turned_set(base_set(Settings(), "mnist")).train[0].shape
        torch.Size([1400, 1, 14, 14])
    """

    def turned(rows: tuple[Tensor, Tensor], seed: int) -> tuple[Tensor, Tensor]:
        return rotated(rows[0], generator=seed), rows[1]

    images, labels = data.train
    kept = images[:_ROTATED_ROWS], labels[:_ROTATED_ROWS]
    return ImageSet(f"{data.name}, rotated", turned(kept, 0), turned(data.test, 1))


def symmetry_bits(model: str) -> int:
    """How many bits more an equivariant network takes to name than the plain one.

    Args:
        model: An equivariant architecture.

    Example:
        >>> 1 < symmetry_bits("lenet5 equivariant p4") < 40
        True
    """
    return architecture(model).code_length - architecture(model.split()[0]).code_length


def _projector(model: str) -> str:
    return "kronecker-orthonormal" if model.startswith("lenet5") else "film+kronecker"


def _gain(found: dict[str, dict[str, float]], sample: str, name: str) -> float | None:
    best = {}
    for kind in ("", _EQUIVARIANT):
        start = f"{sample}: {name}{kind}, d="
        bounds = [values["bound"] for row, values in found.items() if row.startswith(start)]
        if not bounds:
            return None
        best[kind] = min(bounds)
    return best[""] - best[_EQUIVARIANT]


def plot(result: Result, path: Path) -> Path:
    """Draw the bounds along d, one panel for each sample.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    panels = [Panel(f"{sample} digits", ("bound %",), "d", kind=sample) for sample in SAMPLES]
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figureA.5",
    "Certificates of equivariant and plain networks, on turned digits and on upright ones",
    run,
    plot,
)
