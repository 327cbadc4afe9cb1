"""Classifiers trained once for several figures, and what is measured of each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import nn

from isotropy.equivariance import LEE
from isotropy.run import Checkpoint, ProgressCallback
from isotropy_papers._classifiers import ClassifierTraining, NamedClassifier, accuracy, train
from isotropy_papers._experiment import Cell, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import ImageSet, image_set
from isotropy_papers._statistics import mean_interval

# a number and its standard error over images
Estimate: TypeAlias = tuple[float, float]
Estimates: TypeAlias = dict[str, Estimate]
# from a network that gives probabilities, its images and how many to measure
Measure: TypeAlias = Callable[[nn.Module, ImageSet, int], Estimates]

ACCURACY = "accuracy"

# the networks of Figures 4.5, 4.6, 4.7 and A.3, which share them
QUICK = (
    NamedClassifier("CNN", 16),
    NamedClassifier("ResNet", 8),
    NamedClassifier("ResNet", 8, blur=True),
    NamedClassifier("ResNet", 8, "augmented"),
    NamedClassifier("ViT", 24),
    NamedClassifier("ViT", 48),
    NamedClassifier("Mixer", 48),
    NamedClassifier("Mixer", 48, rows=500),
)
FULL = (
    NamedClassifier("CNN", 32),
    NamedClassifier("ResNet", 8),
    NamedClassifier("ResNet", 16),
    NamedClassifier("ResNet", 32),
    NamedClassifier("ResNet", 16, blur=True),
    NamedClassifier("ResNet", 16, "augmented"),
    NamedClassifier("ResNet", 16, "mixup"),
    NamedClassifier("ViT", 48),
    NamedClassifier("ViT", 96),
    NamedClassifier("ViT", 192),
    NamedClassifier("Mixer", 96),
    NamedClassifier("Mixer", 96, rows=3000),
    NamedClassifier("Mixer", 96, rows=1000),
)


@dataclass(frozen=True)
class ClassifierStudy:
    """What was measured of some classifiers.

    Args:
        found: By the classifier's name, the estimates of each seed.
        notes: How they were trained and measured.
        seconds: How long it took.
    """

    found: dict[str, list[Estimates]]
    notes: tuple[str, ...]
    seconds: float


def classifiers(settings: Settings) -> tuple[NamedClassifier, ...]:
    """The networks for CIFAR-10 at these settings."""
    return FULL if settings.full else QUICK


def study(
    id: str,
    wanted: Sequence[NamedClassifier],
    measure: Measure,
    settings: Settings,
    progress: ProgressCallback,
    depends: Mapping[str, Any] | None = None,
) -> ClassifierStudy:
    """Train classifiers and measure them; with ``settings.out``, each is trained only once.

    Args:
        id: The experiment.
        wanted: The classifiers.
        measure: What is measured of each, beside its accuracy on the test images.
        settings: Full: 20 epochs of all training images, two seeds, 512 images measured. Quick: 4
            epochs of 1500 images in smaller batches, one seed, 48 images.
            ``sizes``: one number of training images; ``test_rows``: how many are measured.
        progress: Called before each classifier.
        depends: What else the measured numbers depend on.

    Raises:
        ValueError: If data are missing, or several sizes are given.
    """
    full = settings.full
    rows = training_rows(settings, None if full else 1500)
    chosen = settings.or_else(seeds=2 if full else 1, test_rows=512 if full else 48)
    training = training_of(settings)
    names = settings.chosen([each.name for each in wanted])
    sets = {
        name: image_set(name, settings, rows, None if full else 1000)
        for name in dict.fromkeys(each.data for each in wanted if each.name in names)
    }
    digests = {name: images.digest() for name, images in sets.items()}
    seeds = [settings.seed + i for i in range(chosen["seeds"])]
    jobs = {
        f"{each.name}, seed {seed}": (each, seed)
        for each in wanted
        if each.name in names
        for seed in seeds
    }

    def measured(labels: list[str]) -> list[Estimates]:
        found = []
        for label in labels:
            classifier, seed = jobs[label]
            images = sets[classifier.data]
            digest = digests[images.name]
            model = trained(classifier, images, digest, training, seed, settings)
            share = accuracy(model, *images.test)
            error = sqrt(share * (1 - share) / len(images.test[0]))
            probabilities = nn.Sequential(model, nn.Softmax(-1))
            estimates = measure(probabilities, images, chosen["test_rows"])
            found.append({ACCURACY: (share, error), **estimates})
        return found

    depends = {**chosen, **asdict(training), "data": digests, **(depends or {})}
    parts = Finished(id, depends, settings, progress)
    kept = parts.get(list(jobs), measured)
    found: dict[str, list[Estimates]] = {}
    for label, (classifier, _) in jobs.items():
        found.setdefault(classifier.name, []).append(kept[label])
    counts = ", ".join(f"{len(each.train[0])} of {name}" for name, each in sets.items())
    notes = [
        f"trained on {counts} images (n: on so many, in as many steps), {training.epochs} epochs "
        f"of batches of {training.batch}, AdamW, learning rate up to {training.rate:g}, weights of "
        f"the last step; {len(seeds)} "
        f"{'seed' if len(seeds) == 1 else 'seeds'}",
        f"measured on probabilities, {chosen['test_rows']} images; interval: one standard "
        + ("error over images" if len(seeds) == 1 else "deviation over seeds"),
    ]
    if not full:
        notes.append("quick: networks trained this little show how it is done, not the trends")
    return ClassifierStudy(found, tuple(notes), parts.close())


def training_of(settings: Settings) -> ClassifierTraining:
    """How classifiers are trained at these settings.

    Example:
        >>> training_of(Settings(epochs=7)).epochs
        7
    """
    if settings.full:
        return ClassifierTraining(settings.epochs or 20, 128, 1e-3)
    return ClassifierTraining(settings.epochs or 4, 32, 3e-3)


def training_rows(settings: Settings, otherwise: int | None) -> int | None:
    """How many training images are asked for.

    Args:
        settings: ``sizes`` may hold one number.
        otherwise: What is meant where it holds none; ``None`` for all there are.

    Raises:
        ValueError: If it holds several.
    """
    if settings.sizes is None:
        return otherwise
    if len(settings.sizes) != 1:
        raise ValueError(f"expected one size, got {list(settings.sizes)}")
    return settings.sizes[0]


def trained(
    classifier: NamedClassifier,
    images: ImageSet,
    digest: str,
    training: ClassifierTraining,
    seed: int,
    settings: Settings,
) -> nn.Module:
    """A trained classifier, as it was kept in ``settings.out`` or as it is trained now.

    Args:
        classifier: The network and its recipe.
        images: What it is trained on.
        digest: That of the images.
        training: For how long; classifiers of fewer images take as many steps as those of all.
        seed: The seed of weights and batches.
        settings: Where to train, and where to keep the weights.
    """
    x, y = images.train
    model = classifier.network(x, int(y.max()) + 1, seed)
    checkpoint = None
    if settings.out is not None:
        settings.out.mkdir(parents=True, exist_ok=True)
        what = {**classifier.fields(), **asdict(training), "seed": seed}
        what["images"] = digest
        text = f"classifier {json.dumps(what, sort_keys=True)}"
        number = hashlib.sha256(text.encode()).hexdigest()[:12]
        checkpoint = Checkpoint(settings.out / f"classifier-{number}.safetensors", text)
        kept = checkpoint.load()
        if kept is not None:
            model.load_state_dict(kept[0])
            return model.to(settings.device).eval()
    own = x[: classifier.rows], y[: classifier.rows]
    train(
        model,
        own,
        classifier.recipe,
        training.steps(len(x)),
        batch=training.batch,
        rate=training.rate,
        seed=seed,
        device=settings.device,
    )
    if checkpoint is not None:
        checkpoint.save(model.state_dict(), {})
    return model


def of_lee(found: LEE) -> Estimate:
    """A LEE as an estimate."""
    return found.lee, found.stderr


def cells_of(found: Mapping[str, Sequence[Estimates]]) -> list[Cell]:
    """A cell for each network and number: the mean over seeds, or the one there is.

    Args:
        found: By network, the estimates of each seed.

    Example:
        >>> cells_of({"CNN": [{"LEE": (0.5, 0.25)}]})
        [Cell(row='CNN', column='LEE', ours=0.5, theirs=None, interval=(0.25, 0.75))]
    """
    cells = []
    for name, seeds in found.items():
        for column in seeds[0]:
            values = [each[column][0] for each in seeds]
            mean, interval = mean_interval(values)
            if interval is None:
                error = seeds[0][column][1]
                interval = (mean - error, mean + error) if np.isfinite(error) else None
            cells.append(Cell(name, column, mean, None, interval))
    return cells


def rank_correlation(cells: Sequence[Cell], rows: Sequence[str], one: str, other: str) -> float:
    """Spearman's ρ between two columns, over the rows that have both; nan for fewer than three.

    Args:
        cells: The table.
        rows: Which rows to take.
        one: A column.
        other: Another.

    Example:
        >>> table = [Cell(row, "a", i) for i, row in enumerate("uvw")]
        >>> table += [Cell(row, "b", -i) for i, row in enumerate("uvw")]
        >>> round(rank_correlation(table, "uvw", "a", "b"), 6)
        -1.0
    """
    from scipy.stats import spearmanr

    ours = {(cell.row, cell.column): cell.ours for cell in cells}
    both = [row for row in rows if (row, one) in ours and (row, other) in ours]
    pairs = [(ours[row, one], ours[row, other]) for row in both]
    if len(pairs) < 3 or any(len(set(column)) < 2 for column in zip(*pairs, strict=True)):
        return float("nan")
    return float(spearmanr(pairs).statistic)


def correlations(
    cells: Sequence[Cell], rows: Sequence[str], one: str, others: Sequence[str]
) -> str:
    """Spearman's ρ of a column with others, in words.

    Args:
        cells: The table.
        rows: Which rows to take.
        one: A column.
        others: The others.

    Example:
        >>> correlations([Cell("u", "a", 1.0)], ["u"], "a", ["b"])
        'b (too few)'
    """
    found = {other: rank_correlation(cells, rows, one, other) for other in others}
    return ", ".join(
        f"{name} (too few)" if np.isnan(value) else f"{name} {value:+.2f}"
        for name, value in found.items()
    )


def batch_size_on(device: str) -> int:
    """How many images to measure at a time."""
    return 16 if torch.device(device).type == "cpu" else 128
