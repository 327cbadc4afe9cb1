"""Table 3.1 of the thesis: convolutions, free layers and soft ones, on images and on tables."""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any, get_args

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import image_set
from isotropy_papers._image_trials import ImageRecipe, percent_wrong
from isotropy_papers._residual_conv import Kind
from isotropy_papers._statistics import mean_interval
from isotropy_papers._table_trials import NOISES, RATES, TRIALS, TableTrials
from isotropy_papers._training import NetworkRecipe
from isotropy_papers.uci_tables import uci_names

_ID = "finzi2023/table3.1"
_KINDS: tuple[Kind, ...] = get_args(Kind)
_LEARNED = "RPP learned"
_IMAGES = "CIFAR-10"
_ON_IMAGES = {f"{_IMAGES} {kind}": kind for kind in _KINDS}
_EXCESS = "RPP - better, in sd"

# means and standard deviations of ten trials, in the order of the columns
_COLUMNS = (_IMAGES, *uci_names())
_PUBLISHED: dict[str, tuple[tuple[float, float], ...]] = {
    "MLP": ((37.61, 0.56), (0.39, 0.48), (0.049, 0.0044), (4.65, 0.50), (0.66, 0.058)),
    "RPP": ((12.62, 0.34), (0.73, 0.44), (0.060, 0.0097), (4.25, 0.50), (0.69, 0.031)),
    "Conv": ((12.03, 0.46), (1.34, 0.38), (0.076, 0.0157), (4.63, 0.36), (0.79, 0.092)),
}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train networks of each kind on four tables of the UCI repository, and on CIFAR-10.

    Args:
        settings: Full: ten splits of each table (``seeds``), 1000 ``epochs``, and on a GPU
            CIFAR-10, 200 epochs of all images (``sizes``), one seed. Quick: three splits, 60
            epochs, no CIFAR-10. ``models`` are "MLP", "RPP", "Conv" and "RPP learned" for the
            tables, "CIFAR-10 MLP" and so on for images; ``channels``: 32 (quick: 16)
            for tables, 16 in the first layers for images.
        progress: Called before each cell, and of each epoch of CIFAR-10.

    Returns:
        Mean squared errors in the units of the tables and percentages of wrong classes, means over
        trials; and by how many standard deviations of the better of MLP and Conv the RPP is worse.

    Raises:
        ValueError: If there are more seeds than splits, or several sizes.

    Example:
        >>> settings = Settings(seeds=1, epochs=1, channels=2, models=("MLP",))
        >>> [(c.column, c.theirs) for c in run(settings, lambda step: None).cells if c.row == "MLP"]
        [('energy', 0.39), ('fertility', 0.049), ('pendulum', 4.65), ('wine', 0.66)]
    """
    if settings.sizes is not None and len(settings.sizes) > 1:
        raise ValueError(f"expected one number of training images, got {list(settings.sizes)}")
    on_tables = [*_KINDS, _LEARNED]
    wanted = settings.chosen([*on_tables, *_ON_IMAGES])
    if settings.models is None and not (settings.full and settings.device != "cpu"):
        wanted = on_tables
    models = [name for name in wanted if name in on_tables]
    cells, notes, seconds = _of_tables(models, settings, progress) if models else ([], [], 0.0)
    kinds = [_ON_IMAGES[name] for name in wanted if name in _ON_IMAGES]
    if kinds:
        of_images = _of_images(kinds, settings, progress)
        cells, notes = of_images[0] + cells, notes + of_images[1]
        seconds += of_images[2]
    elif settings.models is None:
        notes.append(
            "CIFAR-10 left out: its free maps have 770 million weights, ask for it on GPUs"
        )
    notes.append("means over trials; interval: one standard deviation to either side")
    return Result(_ID, cells, seconds, tuple(notes))


def _of_tables(
    models: list[str], settings: Settings, progress: ProgressCallback
) -> tuple[list[Cell], list[str], float]:
    full = settings.full
    chosen = settings.or_else(
        seeds=TRIALS if full else 3,
        epochs=1000 if full else 60,
        channels=32 if full else 16,
    )
    if chosen["seeds"] > TRIALS:
        raise ValueError(
            f"expected at most {TRIALS} seeds, one for each split, got {settings.seeds}"
        )
    seeds = tuple(settings.seed + k for k in range(chosen["seeds"]))
    recipe = NetworkRecipe(chosen["epochs"], batch=500 if full else 100, checks=200 if full else 30)
    updates = 40 if full else 8
    tables = {
        name: TableTrials(name, seeds, recipe, chosen["channels"], settings.device)
        for name in uci_names()
    }
    jobs = {f"{table} {model}": (table, model) for table in tables for model in models}

    def measured(labels: list[str]) -> list[dict[str, list[float]]]:
        found = []
        for table, model in (jobs[label] for label in labels):
            kind = next((kind for kind in _KINDS if kind == model), None)
            trials = tables[table]
            found.append(trials.learned_errors(updates) if kind is None else trials.errors(kind))
        return found

    depends = {**chosen, "full": full, "seed": settings.seed}
    parts = Finished(f"{_ID}/tables", depends, settings, progress)
    by_label = parts.get(list(jobs), measured)
    cells = []
    for model in models:
        for table in tables:
            mean, interval = mean_interval(by_label[f"{table} {model}"]["error"])
            cells.append(Cell(model, table, mean, _published(model, table), interval))
    for table, trials in tables.items():
        mean, interval = mean_interval(trials.constant_errors())
        cells.append(Cell("constant", table, mean, None, interval))
    cells += _excesses(cells)
    notes = [
        f"tables: mean squared error in their units, over {len(seeds)} of ten splits; a fifth of "
        "the training rows is held back, by which each trial chooses epoch, learning rate "
        f"{list(RATES)} and noise variance over σ_b² {list(NOISES)}, alike for all kinds",
        f"{chosen['epochs']} epochs of Adam, batches of {recipe.batch}, cosine; σ_a² = 100 σ_b², "
        "penalties c θ²/(N σ²); inputs and targets standardised (published: not)",
        "'RPP learned': priors and noise by the evidence, all training rows, nothing held back",
        "'constant': the mean of the training targets; published errors of fertility are larger "
        "than its variance",
        f"'{_EXCESS}': over the smaller mean of MLP and Conv, in standard deviations of that one",
    ]
    if _LEARNED in models:
        notes.append(f"σ_a²/σ_b² learned, geometric means: {_ratios(by_label, list(tables))}")
    if not full:
        notes.append(
            "quick: fewer splits, epochs and channels, smaller batches than published; priors "
            "that are learned in so few epochs have not settled"
        )
    return cells, notes, parts.close()


def _of_images(
    kinds: list[Kind], settings: Settings, progress: ProgressCallback
) -> tuple[list[Cell], list[str], float]:
    chosen = settings.or_else(seeds=1, epochs=200 if settings.full else 10, channels=16)
    size = None if settings.sizes is None else settings.sizes[0]
    images = image_set("cifar10", settings, size, settings.test_rows)
    recipe = ImageRecipe(chosen["epochs"], channels=chosen["channels"])
    jobs = {
        f"{_IMAGES} {kind}, seed {seed}": (kind, seed)
        for kind in kinds
        for seed in range(settings.seed, settings.seed + chosen["seeds"])
    }

    def measured(labels: list[str]) -> list[float]:
        return [
            percent_wrong(
                kind, images, recipe, seed=seed, device=settings.device, progress=progress
            )
            for kind, seed in (jobs[label] for label in labels)
        ]

    depends: dict[str, Any] = {
        "epochs": recipe.epochs,
        "channels": recipe.channels,
        "data": images.digest(),
    }
    parts = Finished(f"{_ID}/images", depends, settings, progress)
    found = parts.get(list(jobs), measured)
    cells = []
    for kind in kinds:
        errors = [found[label] for label, (of, _) in jobs.items() if of == kind]
        mean, interval = mean_interval(errors)
        cells.append(Cell(kind, _IMAGES, mean, _published(kind, _IMAGES), interval))
    cells += _excesses(cells)
    notes = [
        f"{_IMAGES}: percentage of wrong classes; {len(images.train[0])} training and "
        f"{len(images.test[0])} test images, {recipe.epochs} epochs, {chosen['seeds']} seeds "
        "(published: 50000, 10000, 200, 10)",
        f"{_IMAGES}: SGD, rate {recipe.rate}, momentum 0.9, as the reference code (text: "
        "Adam at that rate); batch normalisation, shifts and flips",
    ]
    return cells, notes, parts.close()


def _excesses(cells: list[Cell]) -> list[Cell]:
    """By how much the RPP is worse than the better of the others, where all three are there."""
    found = []
    for column in dict.fromkeys(cell.column for cell in cells):
        ours: dict[str, tuple[float, float]] = {
            cell.row: (cell.ours, cell.interval[1] - cell.ours)
            for cell in cells
            if cell.column == column and cell.row in _KINDS and cell.interval is not None
        }
        if len(ours) == len(_KINDS):
            place = _COLUMNS.index(column)
            theirs = {kind: numbers[place] for kind, numbers in _PUBLISHED.items()}
            if min(ours["MLP"], ours["Conv"])[1] > 0:
                found.append(Cell(_EXCESS, column, _excess(ours), _excess(theirs)))
    return found


def _excess(by_kind: dict[str, tuple[float, float]]) -> float:
    mean, spread = min(by_kind["MLP"], by_kind["Conv"])
    return (by_kind["RPP"][0] - mean) / spread


def _published(row: str, column: str) -> float | None:
    """The published mean; ``None`` for rows of our own."""
    numbers = _PUBLISHED.get(row)
    return None if numbers is None else numbers[_COLUMNS.index(column)][0]


def _ratios(by_label: dict[str, dict[str, list[float]]], tables: list[str]) -> str:
    means = {table: geometric_mean(by_label[f"{table} {_LEARNED}"]["ratio"]) for table in tables}
    return ", ".join(f"{table} {mean:.2g}" for table, mean in means.items())


EXPERIMENT = Experiment(
    _ID, "Convolutions, free layers and soft ones, on images and on tables", run
)
