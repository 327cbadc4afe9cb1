"""Table 5.2 of the thesis: bounds with data-independent and data-dependent priors, and transfer."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._certificate_rows import (
    CertificateRow,
    cells_of,
    certified,
    notes_of,
    prior_rows,
    subspace_rows,
    transfer_rows,
)
from isotropy_papers._experiment import Experiment, Result, Settings

_ID = "finzi2023/table5.2"
_BOUNDS = {
    "MNIST": 11.6,
    "Fashion-MNIST": 32.8,
    "CIFAR-10": 58.2,
    "Fashion-MNIST from CIFAR-10": 28.2,
    "MNIST prior from 50 %": 1.4,
    "Fashion-MNIST prior from 80 %": 10.1,
    "CIFAR-10 prior from 80 %": 16.6,
}
# Table A.18
_SIZES = {
    "MNIST": 0.4,
    "Fashion-MNIST": 0.8,
    "CIFAR-10": 1.2,
    "Fashion-MNIST from CIFAR-10": 0.9,
}


def rows_of(full: bool) -> list[CertificateRow]:
    """The rows: from scratch, by transfer, and with data-dependent priors."""
    independent = [row for row in subspace_rows(full) if row.name != "CIFAR-10 ResNet-20"]
    dependent = [row for percent in (50, 80) for row in prior_rows(full, percent)]
    if full:
        dependent = [row for row in dependent if row.name in _BOUNDS]
    return [*independent, *transfer_rows(full), *dependent]


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify networks on each set of images, have the certificates verified, and list them.

    Args:
        settings: Full: MNIST, Fashion-MNIST and CIFAR-10, an hour on a GPU. Quick: small digits, a
            perceptron. ``models`` are names of rows; ``epochs`` replaces the passes of every
            phase of training; certificates are saved in ``out``.
        progress: Called for each row and of each epoch.

    Returns:
        Bound, size and errors of each certificate.

    Example:
        >>> settings = Settings(models=("digits prior from 80 %",), epochs=5)
        >>> [(c.row, c.column) for c in run(settings, lambda step: None).cells][0]
        ('digits prior from 80 %', 'bound %')
    """
    rows = rows_of(settings.full)
    found, seconds = certified(rows, settings, progress)
    notes = [
        *notes_of(rows, found),
        "prior from p %: θ₀ trained on that share of the rows, nothing else learned (d = 0), "
        "errors counted on the others",
        "transfer: θ₀ trained on the other images, its head drawn anew; images given the same "
        "size and channels",
        "published: batch normalisation, 500 epochs; theirs for transfer from SVHN and ImageNet "
        "left out",
    ]
    return Result(_ID, cells_of(found, _BOUNDS, _SIZES), seconds, tuple(notes))


EXPERIMENT = Experiment(
    _ID, "Certified bounds with data-independent and data-dependent priors, and by transfer", run
)
