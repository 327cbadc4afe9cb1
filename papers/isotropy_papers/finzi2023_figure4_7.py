"""Figure 4.7 of the thesis: the equivariance gap between training, test and other data."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet, digest_of, found_folder, like, unlabelled
from isotropy_papers._photographs import pink_noise
from isotropy_papers._trained_classifiers import (
    Estimates,
    batch_size_on,
    cells_of,
    classifiers,
    of_lee,
    study,
)
from isotropy_papers.equivariance_gap import equivariance_gap

_TRAIN, _TEST, _NOISE = "train", "test", "1/f noise"
_OTHERS = {"mnist": "MNIST", "fashion-mnist": "Fashion-MNIST"}
_COLUMN = "LEE translation, "
_QUICK = ("CNN w16", "ResNet w8", "ViT w48", "Mixer w48")
_FULL = ("CNN w32", "ResNet w16", "ResNet w16 BlurPool", "ResNet w16 augmented",
         "ViT w96", "Mixer w96")  # fmt: skip


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Measure classifiers of CIFAR-10 on what they were trained on, on test images and on others.

    Args:
        settings: See `isotropy_papers._trained_classifiers.study`.
        progress: Called before each network.

    Returns:
        For each network the LEE under translation on each set. Nothing was published as numbers.

    Raises:
        ValueError: If CIFAR-10 has not been obtained.
    """
    id = "finzi2023/figure4.7"
    names = _FULL if settings.full else _QUICK
    wanted = [each for each in classifiers(settings) if each.name in names]
    count = settings.or_else(test_rows=512 if settings.full else 48)["test_rows"]
    others = _others(count, settings)

    def measure(model: nn.Module, images: ImageSet, count: int) -> Estimates:
        seen, test = images.train[0][:count], images.test[0][:count]
        noise = pink_noise(count, test.shape[1], test.shape[-1], settings.seed)
        sets = {_TRAIN: seen, _TEST: test, _NOISE: noise}
        sets |= {name: like(x, test) for name, x in others.items()}
        gap = equivariance_gap(
            model, sets, "translation", batch_size=batch_size_on(settings.device)
        )
        return {f"{_COLUMN}{name}": of_lee(error) for name, error in gap.sets.items()}

    depends = {name: digest_of(x) for name, x in others.items()}
    found = study(id, wanted, measure, settings, progress, depends)
    cells = cells_of(found.found)
    notes = [
        *found.notes,
        "MNIST and Fashion-MNIST, where they have been obtained: test images, black around them, "
        "in grey; 1/f noise: random images with a spectrum of 1/frequency",
        *_verdict(cells, list(found.found)),
    ]
    return Result(id, cells, found.seconds, tuple(notes))


def _others(count: int, settings: Settings) -> dict[str, Tensor]:
    return {
        title: unlabelled(name, settings, count)
        for name, title in _OTHERS.items()
        if found_folder(name, settings) is not None
    }


def _verdict(cells: list[Cell], rows: list[str]) -> list[str]:
    ours = {(cell.row, cell.column.removeprefix(_COLUMN)): cell.ours for cell in cells}
    larger = sum(ours[row, _TEST] > ours[row, _TRAIN] for row in rows)
    sets = [name for row, name in ours if row == rows[0]]
    grown = [
        f"{name} in {sum(ours[row, name] > ours[row, _TEST] for row in rows)}"
        for name in sets
        if name not in (_TRAIN, _TEST, "accuracy")
    ]
    return [
        "the thesis says that networks are less equivariant on test than on training images, and "
        f"less again out of distribution; ours, of {len(rows)} networks: the LEE on test images is "
        f"above that on training images in {larger}, and above that on test images it is on "
        f"{', '.join(grown)}",
    ]


def plot(result: Result, path: Path) -> Path:
    """Draw the LEE on each set, a panel for each network.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._equivariance_pictures import draw_bars

    panels: dict[str, list[Cell]] = {}
    for cell in result.cells:
        if cell.column.startswith(_COLUMN):
            title = cell.column.removeprefix(_COLUMN)
            bar = Cell(title, cell.column, cell.ours, None, cell.interval)
            panels.setdefault(cell.row, []).append(bar)
    return draw_bars(panels, path, "LEE translation")


EXPERIMENT = Experiment(
    "finzi2023/figure4.7", "The equivariance gap: training, test and other images", run, plot
)
