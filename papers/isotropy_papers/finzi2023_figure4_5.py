"""Figure 4.5 of the thesis: several measures of equivariance against accuracy."""

from __future__ import annotations

from math import isnan
from pathlib import Path

from torch import Tensor, nn

from isotropy.equivariance import consistency, image_action, lee, sampled_equivariance
from isotropy.run import ProgressCallback
from isotropy_papers._classifiers import NamedClassifier
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._image_sets import ImageSet, found_folder
from isotropy_papers._pretrained import study_pretrained
from isotropy_papers._trained_classifiers import (
    ACCURACY,
    Estimates,
    batch_size_on,
    cells_of,
    classifiers,
    correlations,
    of_lee,
    rank_correlation,
    study,
)

# of the thesis' images of 224 pixels, in widths
_CONSISTENCY_REACH, _SAMPLED_REACH = 10 / 224, 5 / 224
_MEASURES = (
    "inconsistency",
    "sampled translation",
    "LEE translation",
    "LEE rotation",
    "LEE shear",
)
_ABSOLUTE, _KINK = "mean |L| translation", "LEE translation, bilinear"
_QUICK = ("CNN w16", "ResNet w8", "ResNet w8 BlurPool", "ViT w48", "Mixer w48")
_MNIST_QUICK = (NamedClassifier("CNN", 8, data="mnist"), NamedClassifier("ViT", 24, data="mnist"))
_MNIST_FULL = (
    NamedClassifier("CNN", 16, data="mnist"),
    NamedClassifier("ViT", 48, data="mnist"),
    NamedClassifier("Mixer", 48, data="mnist"),
)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train classifiers on CIFAR-10 and MNIST, and measure them by all the measures.

    Args:
        settings: See `isotropy_papers._trained_classifiers.study`. Full takes more and wider
            networks, and EfficientNet-Lite 0 to 2.
        progress: Called before each network.

    Returns:
        For each network its accuracy and the measures. Nothing was published as numbers.

    Raises:
        ValueError: If CIFAR-10 has not been obtained.
    """
    id = "finzi2023/figure4.5"
    wanted = [each for each in classifiers(settings) if settings.full or each.name in _QUICK]
    notes = []
    digits: tuple[NamedClassifier, ...] = _MNIST_FULL if settings.full else _MNIST_QUICK
    if settings.models is None and found_folder("mnist", settings) is None:
        notes.append("left out, as not obtained by 'isotropy data get': mnist")
        digits = ()

    def measure(model: nn.Module, images: ImageSet, count: int) -> Estimates:
        return _measures(model, images.test[0][:count], batch_size_on(settings.device))

    found = study(id, (*wanted, *digits), measure, settings, progress)
    cells = cells_of(found.found)
    numbers, count = ((0, 1, 2), 24) if settings.full else ((0,), 4)
    if settings.models is None:
        batch = batch_size_on(settings.device) // 8
        more = study_pretrained(
            id, numbers, count, lambda model, x: _measures(model, x, batch), settings, progress
        )
        cells += cells_of(more.found)
        notes += [*more.notes, *_order(cells, list(more.found))]
        seconds = found.seconds + more.seconds
    else:
        seconds = found.seconds
    notes = [*found.notes, *_explanations(), *_rankings(cells, [c.name for c in wanted]), *notes]
    return Result(id, cells, seconds, tuple(notes))


def _measures(model: nn.Module, x: Tensor, batch_size: int) -> Estimates:
    width = x.shape[-1]
    changed = consistency(
        model,
        x,
        pixels=max(1, round(_CONSISTENCY_REACH * width)),
        boundary="reflect",
        samples=8,
        batch_size=batch_size,
    )
    sampled = sampled_equivariance(
        model, x, "translation", scale=_SAMPLED_REACH, samples=8, batch_size=batch_size
    )
    found = {
        "inconsistency": (changed.value, changed.standard_error),
        "sampled translation": (sampled.value, sampled.standard_error),
    }
    for action in ("translation", "rotation", "shear"):
        error = lee(model, x, action, batch_size=batch_size)
        found[f"LEE {action}"] = of_lee(error)
        if action == "translation":
            found[_ABSOLUTE] = error.lee_abs, error.stderr_abs
    kink = image_action("translation", interpolation="bilinear", side="plus")
    found[_KINK] = of_lee(lee(model, x, kink, batch_size=batch_size))
    return found


def _explanations() -> list[str]:
    return [
        "inconsistency: share of predictions changed by shifts of whole pixels, up to 10/224 of "
        "the width but at least one; sampled: mean norm of the change under shifts of up to 5/224 "
        "of the width; LEE: E ‖L‖² / classes; |L|: what the published code averages; bilinear: "
        "LEE with the derivative from above at the kinks of bilinear interpolation",
    ]


def _rankings(cells: list[Cell], rows: list[str]) -> list[str]:
    """How measures rank networks on CIFAR-10, beside what the thesis says."""
    trends = [rank_correlation(cells, rows, ACCURACY, name) for name in _MEASURES]
    verdict = "agree" if all(trend < 0 for trend in trends) else "do not all agree"
    if any(isnan(trend) for trend in trends):
        verdict = "are too few to tell"
    return [
        "the thesis says that more accurate networks have less equivariance error by every "
        f"measure; ours, of these few on CIFAR-10, {verdict}: Spearman's ρ with accuracy: "
        f"{correlations(cells, rows, ACCURACY, _MEASURES)}",
        "how alike variants rank networks: ρ of LEE translation with "
        f"{correlations(cells, rows, _MEASURES[2], (_ABSOLUTE, _KINK))}",
    ]


def _order(cells: list[Cell], rows: list[str]) -> list[str]:
    """How the variants of LEE put a few networks in order."""
    if len(rows) < 2:
        return []
    ours = {(cell.row, cell.column): cell.ours for cell in cells}
    orders = []
    for column in ("LEE translation", _ABSOLUTE, _KINK):
        values = {row: ours[row, column] for row in rows}
        orders.append(f"by {column} {' < '.join(sorted(rows, key=values.__getitem__))}")
    return [f"in order: {'; '.join(orders)}"]


def plot(result: Result, path: Path) -> Path:
    """Draw each measure against accuracy.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._equivariance_pictures import draw_scatter

    return draw_scatter(result.cells, ACCURACY, _MEASURES, path)


EXPERIMENT = Experiment(
    "finzi2023/figure4.5", "Measures of equivariance against accuracy", run, plot
)
