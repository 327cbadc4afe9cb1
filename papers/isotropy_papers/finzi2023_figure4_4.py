"""Figure 4.4 of the thesis: what each layer contributes to the equivariance error."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor, nn

from isotropy.equivariance import ShiftOptions, kind_of_module, layerwise, layerwise_eq_t
from isotropy.run import ProgressCallback
from isotropy_papers._classifiers import NamedClassifier
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import ImageSet, digest_of, image_set
from isotropy_papers._photographs import photographs
from isotropy_papers._pretrained import images_for, name_of, pretrained
from isotropy_papers._trained_classifiers import trained, training_of, training_rows

# of each layer its name, its kind, E‖C‖ / √K and its standard error
Layers: TypeAlias = list[tuple[str, str, float, float]]

_ACTIONS = ("translation", "rotation", "scale", "hyperbolic_rotation", "shear")
_TRANSLATION = "translation: "
_SHARE = ", share"
_POWERS = {"1": 0.0, "1/√N": 0.5, "1/N": 1.0}
_SMALL = (NamedClassifier("ResNet", 16), NamedClassifier("ViT", 96), NamedClassifier("Mixer", 96))
_ROUNDING = 1e-9
_FRACTION = 0.125


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Split the Lie derivative of networks into the contributions of layers, exactly.

    Args:
        settings: Full: EfficientNet-Lite 0 to 2 as trained on ImageNet, 20 photographs, and a
            small ResNet, ViT and Mixer trained on CIFAR-10. Quick: Lite0, 2 photographs, and small
            networks at random. ``test_rows``: how many images.
        progress: Called before each network and transformation.

    Returns:
        The shares of kinds of layers for five transformations, and by LEE, EQ-T and EQ-T_frac with
        three normalisations; then the contribution of each layer under translation. Nothing was
        published as numbers.

    Raises:
        ValueError: If weights, or in full CIFAR-10, have not been obtained.
    """
    id = "finzi2023/figure4.4"
    numbers = (0, 1, 2) if settings.full else (0,)
    names = settings.chosen([name_of(n) for n in numbers] + [each.name for each in _SMALL])
    count = settings.or_else(test_rows=20 if settings.full else 2)["test_rows"]
    jobs: dict[str, Callable[[], Any]] = {}
    depends: dict[str, Any] = {}
    sources = []
    for number in numbers:
        name = name_of(number)
        if name not in names:
            continue
        x, source = images_for(number, count, settings)
        depends[name] = digest_of(x)
        sources.append(source)
        _add_pretrained(jobs, name, number, x, settings, thorough=number == 0)
    small = [each for each in _SMALL if each.name in names]
    if small:
        images, origin = _small_images(count, settings)
        depends["small"] = _digest(images)
        sources.append(origin)
    for classifier in small:
        jobs[f"{classifier.name}, translation"] = _small_job(classifier, images, count, settings)
    depends = {**depends, "full": settings.full, "seed": settings.seed, "epochs": settings.epochs}
    parts = Finished(id, depends, settings, progress)
    found = parts.get(list(jobs), lambda labels: [jobs[label]() for label in labels])
    cells, notes = _shares(found)
    cells += _layer_cells(found)
    notes = [
        "contribution: E‖C‖ / √classes of each layer to the Lie derivative of the probabilities, "
        "exact; interval: one standard error over images; share: of the sum over layers",
        f"images: {'; '.join(dict.fromkeys(sources))}",
        *notes,
    ]
    return Result(id, cells, parts.close(), tuple(notes))


# --- what is measured -------------------------------------------------------------------------


def _add_pretrained(
    jobs: dict[str, Callable[[], Any]],
    name: str,
    number: int,
    x: Tensor,
    settings: Settings,
    thorough: bool,
) -> None:
    def contributions(action: str) -> Callable[[], Layers]:
        return lambda: layers_of(pretrained(number, settings), x, action)

    def shifts(fractional: bool) -> Callable[[], list[tuple[str, str, float, int]]]:
        few = x[: 4 if settings.full else 1]
        return lambda: _eq_t_of(pretrained(number, settings), few, fractional, settings.full)

    for action in _ACTIONS if thorough else _ACTIONS[:1]:
        jobs[f"{name}, {action}"] = contributions(action)
    if thorough:
        jobs[f"{name}, EQ-T"] = shifts(False)
        jobs[f"{name}, EQ-T_frac"] = shifts(True)


def _small_images(count: int, settings: Settings) -> tuple[Tensor | ImageSet, str]:
    if settings.full:
        images = image_set("cifar10", settings, training_rows(settings, None))
        return images, f"{count} test images of CIFAR-10 for networks trained on it"
    found = photographs(32, count, settings)
    return found.x, "the same at 32 pixels for small networks, which have random weights"


def _digest(images: Tensor | ImageSet) -> str:
    return digest_of(images) if isinstance(images, Tensor) else images.digest()


def _small_job(
    classifier: NamedClassifier, images: Tensor | ImageSet, count: int, settings: Settings
) -> Callable[[], Layers]:
    def contributions() -> Layers:
        if isinstance(images, Tensor):
            model = classifier.network(images, 10, settings.seed).to(settings.device).eval()
            return layers_of(model, images[:count], "translation")
        training, digest = training_of(settings), _digest(images)
        model = trained(classifier, images, digest, training, settings.seed, settings)
        return layers_of(model, images.test[0][:count], "translation")

    return contributions


def layers_of(model: nn.Module, x: Tensor, action: str) -> Layers:
    """What each layer of a classifier contributes to the Lie derivative of its probabilities.

    Args:
        model: From images to logits.
        x: Images.
        action: The transformation.

    Example:
        >>> import torch
        >>> net = nn.Sequential(
        ...     nn.Conv2d(1, 2, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        ... )
        >>> x = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> [(name, kind) for name, kind, *_ in layers_of(net, x, "rotation")]
        [('0', 'convolution'), ('1', 'activation'), ('2', 'pooling')]
    """
    whole = nn.Sequential(OrderedDict(model=model, softmax=nn.Softmax(-1)))
    found = layerwise(whole, x, action)
    return [
        (_short(layer.name.removeprefix("model.")), layer.kind, layer.contribution, layer.stderr)
        for layer in found.layers
    ]


def _eq_t_of(
    model: nn.Module, x: Tensor, fractional: bool, full: bool
) -> list[tuple[str, str, float, int]]:
    found = layerwise_eq_t(
        model,
        x,
        fractional=fractional,
        normalisation="1",
        shifts=ShiftOptions(fraction=_FRACTION, boundary="reflect", margin=_FRACTION),
        samples=8 if full else 3,
        batch_size=1,
    )
    kinds = {name: kind_of_module(module) for name, module in model.named_modules()}
    return [
        (_short(layer.name), kinds[layer.name.split(" ")[0]], layer.error.value, layer.size)
        for layer in found
    ]


def _short(name: str) -> str:
    """Leave out the place of the network beside what standardises pixels."""
    return re.sub(r"^1\.(?=\D)", "", name)


# --- what is reported -------------------------------------------------------------------------


def shares(parts: Sequence[tuple[str, float]]) -> dict[str, float]:
    """The share of each kind in the sum of amounts.

    Args:
        parts: Kinds with amounts.

    Example:
        >>> shares([("activation", 3.0), ("pooling", 1.0)])
        {'activation': 0.75, 'pooling': 0.25}
    """
    total = sum(amount for _, amount in parts)
    found: dict[str, float] = {}
    for kind, amount in parts:
        found[kind] = found.get(kind, 0.0) + (amount / total if total else 0.0)
    return {kind: share if share > _ROUNDING else 0.0 for kind, share in found.items()}


def _shares(found: dict[str, Any]) -> tuple[list[Cell], list[str]]:
    """The shares of kinds by each measure, beside what the thesis says of them."""
    tables: dict[tuple[str, str], dict[str, float]] = {}
    for label, layers in found.items():
        name, what = label.split(", ")
        if what.startswith("EQ-T"):
            for factor, power in _POWERS.items():
                amounts = [(kind, error / size**power) for _, kind, error, size in layers]
                tables[name, f"{what} × {factor}"] = shares(amounts)
        else:
            tables[name, what] = shares([(kind, amount) for _, kind, amount, _ in layers])
    cells = [
        Cell(f"{name} {kind}", f"{what}{_SHARE}", share)
        for (name, what), by_kind in tables.items()
        for kind, share in sorted(by_kind.items())
    ]
    return cells, _verdicts(tables)


def _verdicts(tables: dict[tuple[str, str], dict[str, float]]) -> list[str]:
    notes = []
    for name in dict.fromkeys(name for name, _ in tables):
        by_kind = tables[name, _ACTIONS[0]]
        largest = max(by_kind, key=lambda kind: by_kind[kind])
        if "embedding" in by_kind:
            claim = "embedding patches contributes most"
            ours = f"{by_kind['embedding']:.0%}, most is of {largest}"
        else:
            claim = "much is of downsampling and non-linearities"
            much = ("strided convolution", "pooling", "activation")
            ours = f"{sum(by_kind.get(kind, 0.0) for kind in much):.0%}"
        notes.append(f"{name}: the thesis says that {claim}; ours: {ours}")
    name = name_of(0)
    if (name, _ACTIONS[0]) in tables:
        first = tables[name, _ACTIONS[0]]
        apart = {
            action: _apart(first, tables[name, action]) for action in _ACTIONS[1:]
        }  # fmt: skip
        stated = ", ".join(f"{action.replace('_', ' ')} {far:.0%}" for action, far in apart.items())
        activation = {
            what: by_kind.get("activation", 0.0)
            for (of, what), by_kind in tables.items()
            if of == name and what.startswith("EQ-T")
        }
        listed = ", ".join(f"{what} {share:.0%}" for what, share in activation.items())
        notes += [
            "the thesis says that shares are almost the same for other transformations; ours: "
            f"moved between kinds from translation to {stated}",
            "the thesis says that whole shifts miss activations, and that fractional ones depend "
            f"on the normalisation; ours, the share of activations: LEE "
            f"{first.get('activation', 0.0):.0%}, {listed}",
        ]
    return notes


def _apart(one: dict[str, float], other: dict[str, float]) -> float:
    """How much of the shares would have to move: the total variation distance."""
    return sum(abs(one.get(k, 0.0) - other.get(k, 0.0)) for k in {*one, *other}) / 2


def _layer_cells(found: dict[str, Any]) -> list[Cell]:
    cells = []
    for label, layers in found.items():
        name, what = label.split(", ")
        if what == _ACTIONS[0]:
            for layer, kind, amount, error in layers:
                column = f"{_TRANSLATION}{layer} ({kind})"
                cells.append(Cell(name, column, amount, None, (amount - error, amount + error)))
    return cells


def plot(result: Result, path: Path) -> Path:
    """Draw contributions stacked by layer, and shares by transformation and by measure.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    from isotropy_papers._equivariance_pictures import draw_stacks

    by_layer: dict[str, list[tuple[str, float]]] = {}
    transformations: dict[str, list[tuple[str, float]]] = {}
    measures: dict[str, list[tuple[str, float]]] = {}
    for cell in result.cells:
        if cell.column.startswith(_TRANSLATION):
            kind = cell.column.rpartition(" (")[2].removesuffix(")")
            by_layer.setdefault(cell.row, []).append((kind, cell.ours))
        elif cell.row.startswith(f"{name_of(0)} "):
            what = cell.column.removesuffix(_SHARE)
            part = cell.row.removeprefix(f"{name_of(0)} "), cell.ours
            if what in _ACTIONS:
                transformations.setdefault(what, []).append(part)
            if what == _ACTIONS[0] or what.startswith("EQ-T"):
                measures.setdefault("LEE" if what in _ACTIONS else what, []).append(part)
    panels = {"contributions": by_layer}
    if transformations:
        panels |= {"by transformation": transformations, "by measure": measures}
    return draw_stacks(panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figure4.4", "Contributions of layers to the equivariance error", run, plot
)
