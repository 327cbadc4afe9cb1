"""Figure 4.6 of the thesis: what lowers the translation error, case by case."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor, nn

from isotropy.equivariance import lee
from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet
from isotropy_papers._pretrained import study_pretrained
from isotropy_papers._trained_classifiers import (
    Estimates,
    batch_size_on,
    cells_of,
    classifiers,
    of_lee,
    study,
)

_LEE, _ABSOLUTE = "LEE translation", "mean |L| translation"
# what each case compares, from the first, by the names of networks
_QUICK = {
    "BlurPool": ("ResNet w8", "ResNet w8 BlurPool"),
    "scale of ViT": ("ViT w24", "ViT w48"),
    "training images": ("Mixer w48 n=500", "Mixer w48"),
    "recipe": ("ResNet w8", "ResNet w8 augmented"),
}
_FULL = {
    "BlurPool": ("ResNet w16", "ResNet w16 BlurPool"),
    "scale of ViT": ("ViT w48", "ViT w96", "ViT w192"),
    "scale of ResNet": ("ResNet w8", "ResNet w16", "ResNet w32"),
    "training images": ("Mixer w96 n=1000", "Mixer w96 n=3000", "Mixer w96"),
    "recipe": ("ResNet w16", "ResNet w16 augmented", "ResNet w16 mixup"),
}
_PRETRAINED = "scale of EfficientNet-Lite"


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train pairs and triples of networks that differ in one respect, and measure them.

    Args:
        settings: See `isotropy_papers._trained_classifiers.study`.
        progress: Called before each network.

    Returns:
        For each case and network the LEE under translation and the accuracy. Nothing was
        published as numbers.

    Raises:
        ValueError: If CIFAR-10 has not been obtained.
    """
    id = "finzi2023/figure4.6"
    cases = dict(_FULL if settings.full else _QUICK)
    named = {name for names in cases.values() for name in names}
    wanted = [each for each in classifiers(settings) if each.name in named]
    batch = batch_size_on(settings.device)

    def measure(model: nn.Module, images: ImageSet, count: int) -> Estimates:
        return _translation(model, images.test[0][:count], batch)

    found = study(id, wanted, measure, settings, progress)
    measured, notes, seconds = dict(found.found), list(found.notes), found.seconds
    if settings.models is None:
        numbers, count = ((0, 1, 2), 24) if settings.full else ((0, 1), 4)
        more = study_pretrained(
            id, numbers, count, lambda model, x: _translation(model, x, batch // 8),
            settings, progress,
        )  # fmt: skip
        measured |= more.found
        notes += more.notes
        seconds += more.seconds
        cases[_PRETRAINED] = tuple(more.found)
    cells = []
    for case, names in cases.items():
        for cell in cells_of({name: measured[name] for name in names if name in measured}):
            cells.append(Cell(f"{case}: {cell.row}", cell.column, cell.ours, None, cell.interval))
    notes += _verdict(cells, cases)
    return Result(id, cells, seconds, tuple(notes))


def _translation(model: nn.Module, x: Tensor, batch_size: int) -> Estimates:
    found = lee(model, x, "translation", batch_size=batch_size)
    return {_LEE: of_lee(found), _ABSOLUTE: (found.lee_abs, found.stderr_abs)}


def _verdict(cells: list[Cell], cases: dict[str, tuple[str, ...]]) -> list[str]:
    """The factor from the first network of a case to the others, beside what the thesis says."""
    ours = {(cell.row, cell.column): cell.ours for cell in cells}
    factors = {}
    for case, names in cases.items():
        found = [ours[place] for name in names if (place := (f"{case}: {name}", _LEE)) in ours]
        if len(found) > 1:
            # recipes have no order: the better one counts
            last = min(found[1:]) if case == "recipe" else found[-1]
            factors[case] = last / found[0]
    if not factors:
        return []
    stated = ", ".join(f"{case} ×{factor:.2f}" for case, factor in factors.items())
    claim = (
        "the thesis says that BlurPool lowers the error, and size, data and recipe by more; ours, "
        f"from the first network of a case to the last, or the better recipe: {stated}"
    )
    if "BlurPool" not in factors or len(factors) < 2:
        return [claim]
    blur = factors.pop("BlurPool")
    more = [case for case, factor in factors.items() if factor < min(1.0, blur)]
    return [
        f"{claim}; BlurPool {'lowers' if blur < 1 else 'does not lower'} it here, and more is done "
        f"by {', '.join(more) if more else 'none of the others'}"
    ]


def plot(result: Result, path: Path) -> Path:
    """Draw the LEE of each network, a panel for each case.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._equivariance_pictures import draw_bars

    panels: dict[str, list[Cell]] = {}
    for cell in result.cells:
        case, _, name = cell.row.partition(": ")
        if cell.column == _LEE:
            panels.setdefault(case, []).append(Cell(name, _LEE, cell.ours, None, cell.interval))
    return draw_bars(panels, path, _LEE)


EXPERIMENT = Experiment(
    "finzi2023/figure4.6", "Translation error by architecture, scale, data and recipe", run, plot
)
