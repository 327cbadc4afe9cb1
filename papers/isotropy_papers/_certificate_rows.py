"""The certificates of chapter 5's tables: what each is made from, and the making of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

from torch import Tensor
from torch.nn.functional import avg_pool2d

from isotropy.certificates import (
    Certificate,
    CertificationOptions,
    Goal,
    architecture,
    certify,
    initial_parameters,
    trained_start,
)
from isotropy.run import ProgressCallback, Step
from isotropy_papers._certificate_trials import certified_set, plain_name, trial
from isotropy_papers._experiment import Cell, Settings
from isotropy_papers._finished import Finished
from isotropy_papers._image_sets import ImageSet, digest_of, like
from isotropy_papers.pruned import certify_pruned

BOUND, SIZE, TRAIN, TEST = "bound %", "KB", "train error %", "test error %"
_BITS_OF_KB = 8192


@dataclass(frozen=True)
class CertificateRow:
    """What a certificate is made from.

    Args:
        name: The row of a table; names the file too.
        data: The sample, as `certified_set` knows it; digits are taken at 14 × 14.
        model: An architecture of the catalogue.
        options: What `certify` takes, or, with ``keep``, what `certify_pruned` takes.
        source: For transfer, the set on which θ₀ is trained. Digits from digits: one half of the
            rows, upside down, for the other.
        source_epochs: Passes over it.

    Example:
        >>> CertificateRow("digits", "digits", "mlp-32", {"d": 100}).file
        'digits.iso'
    """

    name: str
    data: str
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    source: str | None = None
    source_epochs: int | None = None

    @property
    def file(self) -> str:
        """The name of the certificate's file."""
        return plain_name(self.name) + ".iso"

    def in_epochs(self, epochs: int | None) -> CertificateRow:
        """The row with so many passes in every phase of training."""
        if epochs is None:
            return self
        phases = dict.fromkeys(("epochs", "quantised_epochs", "prior_epochs"), epochs)
        return replace(self, options={**self.options, **phases}, source_epochs=epochs)


# Found by a few trials each on a GPU; a bound holds however its network was found.
_KRONECKER = {"projector": "kronecker-orthonormal", "rate": 0.008, "quantised_rate": 0.002}
_FILM = {**_KRONECKER, "projector": "film+kronecker"}
_LONG = {"levels": 7, "epochs": 40, "quantised_epochs": 25, "batch": 500}
_LENET = {
    **_KRONECKER,
    "d": 1200,
    "levels": 5,
    "epochs": 100,
    "quantised_epochs": 60,
    "batch": 500,
    "rate": 0.016,
}
_RESNET = {"d": 1000, **_LONG, **_FILM}
_CONVNET = {
    **_LONG,
    **_FILM,
    "d": 2000,
    "epochs": 60,
    "quantised_epochs": 30,
    "rate": 0.016,
    "quantised_rate": 0.004,
}
_FULL = (
    CertificateRow("MNIST", "mnist", "lenet5", _LENET),
    CertificateRow("Fashion-MNIST", "fashion-mnist", "resnet20", _RESNET),
    CertificateRow("Fashion-MNIST LeNet-5", "fashion-mnist", "lenet5", _LENET),
    CertificateRow("CIFAR-10", "cifar10", "convnet", _CONVNET),
    CertificateRow("CIFAR-10 ResNet-20", "cifar10", "resnet20", _CONVNET),
)
_TRANSFER = (
    CertificateRow(
        "Fashion-MNIST from CIFAR-10", "fashion-mnist", "resnet20", _RESNET, "cifar10", 30
    ),
    CertificateRow(
        "Fashion-MNIST LeNet-5 from CIFAR-10", "fashion-mnist", "lenet5", _LENET, "cifar10", 30
    ),
)
# Fixed beforehand: a choice of θ₀ that looks at the rows it is certified on is not paid for.
_PRIORS = (
    CertificateRow("MNIST", "mnist", "lenet5", {"prior_epochs": 40}),
    CertificateRow("Fashion-MNIST", "fashion-mnist", "resnet20", {"prior_epochs": 30}),
    CertificateRow("CIFAR-10", "cifar10", "convnet-32", {"prior_epochs": 60}),
)
_AFTER_PRIOR = {**_LONG, **_FILM, "epochs": 20, "rate": 0.001, "quantised_rate": 0.0005}
# networks with normalisation layers need levels for their scales, about 1, besides
_PRUNED = (
    CertificateRow("MNIST", "mnist", "lenet5", {"keep": 0.012, "levels": 7}),
    CertificateRow("Fashion-MNIST", "fashion-mnist", "resnet20", {"keep": 0.02, "levels": 12}),
    CertificateRow(
        "Fashion-MNIST LeNet-5", "fashion-mnist", "lenet5", {"keep": 0.006, "levels": 7}
    ),
    CertificateRow("CIFAR-10", "cifar10", "convnet", {"keep": 0.05, "levels": 12}),
)
_PRUNED_EPOCHS = {"epochs": 180, "quantised_epochs": 40}
_QUICK = CertificateRow(
    "digits", "digits", "mlp-32", {"d": 100, "levels": 5, **_KRONECKER, "epochs": 50}
)
_QUICK_PRIOR = CertificateRow("digits", "digits", "mlp-32", {"prior_epochs": 30})
_QUICK_PRUNED = CertificateRow("digits", "digits", "mlp-32", {"keep": 0.03, "levels": 5})


def subspace_rows(full: bool) -> list[CertificateRow]:
    """Certificates of networks in random subspaces, from scratch."""
    quick = replace(_QUICK, options={**_QUICK.options, "quantised_epochs": 25})
    return list(_FULL) if full else [quick]


def transfer_rows(full: bool) -> list[CertificateRow]:
    """Certificates of networks whose θ₀ was trained on other images."""
    quick = subspace_rows(False)[0]
    other = replace(quick, name="digits from digits", source="digits", source_epochs=30)
    return list(_TRANSFER) if full else [other]


def prior_rows(full: bool, percent: int, d: int = 0) -> list[CertificateRow]:
    """Certificates of networks whose θ₀ was trained on a share of the rows.

    Args:
        full: Whether as published.
        percent: The share.
        d: The dimension of the subspace in which the other rows may change them.
    """
    rows = []
    for row in _PRIORS if full else (_QUICK_PRIOR,):
        options = {**row.options, "prior_percent": percent, "d": d, **(_AFTER_PRIOR if d else {})}
        ending = f" d = {d}" if d else ""
        name = f"{row.name} prior from {percent} %{ending}"
        rows.append(replace(row, name=name, options=options))
    return rows


def pruned_rows(full: bool) -> list[CertificateRow]:
    """Certificates of pruned networks."""
    epochs = _PRUNED_EPOCHS if full else {"epochs": 60, "quantised_epochs": 20}
    return [
        replace(row, name=f"{row.name} pruned", options={**row.options, **epochs})
        for row in (_PRUNED if full else (_QUICK_PRUNED,))
    ]


def certified(
    rows: Sequence[CertificateRow], settings: Settings, progress: ProgressCallback
) -> tuple[dict[str, dict[str, float]], float]:
    """Make the certificates of some rows, or find them finished.

    Every row is kept in a file of its own, which its content names, so that rows may be made by
    several processes at once and tables share them.

    Args:
        rows: What to make; ``settings.models`` chooses among their names.
        settings: ``epochs`` replaces the passes of every phase; certificates are saved in ``out``.
        progress: Called for each row and of each epoch.

    Returns:
        What `trial` says of each row, by name, and the seconds that the work took.

    Raises:
        ValueError: If a row is asked for that is not there, or its data have not been obtained.
    """
    chosen = settings.chosen([row.name for row in rows])
    wanted = [row.in_epochs(settings.epochs) for row in rows if row.name in chosen]
    samples: dict[tuple[str, str | None], _Sample] = {}
    finished: list[Finished] = []
    found = {}
    for place, row in enumerate(wanted):
        key = (row.data, row.source)
        if key not in samples:
            samples[key] = _sample(row, settings)
        depends = {"row": asdict(row), "seed": settings.seed, "data": samples[key].digest}
        report = partial(_report, progress, place, len(wanted))
        parts = Finished(f"certificates/{plain_name(row.name)}", depends, settings, report)
        found.update(parts.get([row.name], _maker(row, samples[key], settings, progress)))
        finished.append(parts)
    # only now: an interrupted run goes on from all rows that it has
    return found, sum(parts.close() for parts in finished)


def cells_of(
    found: Mapping[str, Mapping[str, float]],
    bounds: Mapping[str, float] | None = None,
    sizes: Mapping[str, float] | None = None,
) -> list[Cell]:
    """Bound, size and errors of each row, beside the published bounds and sizes.

    Example:
        >>> numbers = {"bound": 10.0, "bits": 4096.0, "train_error": 3.0, "test_error": 4.0}
        >>> [(c.column, c.ours, c.theirs) for c in cells_of({"MNIST": numbers}, {"MNIST": 11.6})][
        ...     :2
        ... ]
        [('bound %', 10.0, 11.6), ('KB', 0.5, None)]
    """
    cells = []
    for name, numbers in found.items():
        cells += [
            Cell(name, BOUND, numbers["bound"], (bounds or {}).get(name)),
            Cell(name, SIZE, numbers["bits"] / _BITS_OF_KB, (sizes or {}).get(name)),
            Cell(name, TRAIN, numbers["train_error"]),
            Cell(name, TEST, numbers["test_error"]),
        ]
    return cells


def notes_of(rows: Sequence[CertificateRow], found: Mapping[str, Mapping[str, float]]) -> list[str]:
    """What every table of certificates says of its numbers."""
    made = [row for row in rows if row.name in found]
    models = "; ".join(f"{row.name}: {row.model}, {int(found[row.name]['n'])}" for row in made)
    notes = [
        "risk with probability 0.95, from certificates that were verified from their bytes; "
        "1 KB = 8192 bits",
        f"network, and rows on which errors are counted: {models}",
    ]
    if any(row.data == "digits" for row in made):
        notes.append("quick: scikit-learn's digits at 14 × 14; the sets of the table with --full")
    if any(row.source == row.data for row in made):
        notes.append("digits from digits: θ₀ trained on one half, upside down, for the other")
    return notes


@dataclass(frozen=True)
class _Sample:
    target: ImageSet
    source: tuple[Tensor, Tensor] | None
    digest: str


def _sample(row: CertificateRow, settings: Settings) -> _Sample:
    target = certified_set(row.data, settings)
    if row.data == "digits":
        # small enough for a minute; the scans themselves are 8 × 8
        train, test = ((avg_pool2d(x, 2), y) for x, y in (target.train, target.test))
        target = ImageSet(target.name, train, test)
    source = None
    if row.source is not None and row.source == row.data:
        (x, y), half = target.train, len(target.train[0]) // 2
        source = (x[:half].flip(-2), y[:half])
        target = ImageSet(target.name, (x[half:], y[half:]), target.test)
    elif row.source is not None:
        source = certified_set(row.source, settings).train
        train, test = ((like(x, source[0]), y) for x, y in (target.train, target.test))
        target = ImageSet(target.name, train, test)
    digest = target.digest()
    return _Sample(target, source, digest if source is None else digest + digest_of(*source))


def _maker(
    row: CertificateRow, sample: _Sample, settings: Settings, progress: ProgressCallback
) -> Callable[[list[str]], list[dict[str, float]]]:
    def made(_: list[str]) -> list[dict[str, float]]:
        options = dict(row.options)
        make: Callable[..., Certificate] = certify_pruned if "keep" in options else certify
        if sample.source is not None:
            start = _transferred(row, sample, settings, progress)
            options["options"] = CertificationOptions(start=start)
        file = None if settings.out is None else settings.out / row.file
        return [
            trial(row.model, sample.target, settings, progress, make=make, file=file, **options)
        ]

    return made


def _transferred(
    row: CertificateRow, sample: _Sample, settings: Settings, progress: ProgressCallback
) -> dict[str, Tensor]:
    """θ₀: trained on the source, the head drawn anew."""
    assert sample.source is not None
    x, y = (tensor.to(settings.device) for tensor in sample.source)
    classes = int(sample.target.train[1].max()) + 1
    module = architecture(row.model).build(tuple(x.shape[1:]), int(y.max()) + 1)
    goal = Goal("classification", int(y.max()) + 1)
    trained = trained_start(
        module, goal, x, y, epochs=row.source_epochs, seed=settings.seed, progress=progress
    )
    new = architecture(row.model).build(tuple(x.shape[1:]), classes)
    drawn = initial_parameters(new, settings.seed)
    return {name: drawn[name] if name.startswith("head.") else trained[name] for name in drawn}


def _report(progress: ProgressCallback, place: int, total: int, step: Step) -> None:
    progress(Step(place, total, step.message))
