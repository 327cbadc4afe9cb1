"""Table A.22 of the thesis: data-dependent priors by the share of rows that trains them."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._certificate_rows import (
    CertificateRow,
    cells_of,
    certified,
    notes_of,
    prior_rows,
)
from isotropy_papers._experiment import Experiment, Result, Settings

_ID = "finzi2023/tableA.22"
_PUBLISHED = {
    "MNIST prior from 50 %": 1.4,
    "Fashion-MNIST prior from 80 %": 10.1,
    "CIFAR-10 prior from 80 %": 16.6,
}
_SHARES = (20, 50, 80)


def rows_of(full: bool) -> list[CertificateRow]:
    """The rows: every set with every share, without a subspace and with a small one."""
    small = 100 if full else 10
    return [row for share in _SHARES for d in (0, small) for row in prior_rows(full, share, d)]


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train networks on shares of the rows, and let the others change them, or not (d = 0).

    Args:
        settings: Full: MNIST, Fashion-MNIST and CIFAR-10 on a GPU, d = 0 and 100. Quick: small
            digits, a perceptron, d = 0 and 10. ``models`` are names of rows; ``epochs`` replaces
            the passes of every phase of training; certificates are saved in ``out``.
        progress: Called for each row and of each epoch.

    Returns:
        Bound, size and errors of each certificate.

    Example:
        >>> settings = Settings(models=("digits prior from 80 %",), epochs=5)
        >>> [c.row for c in run(settings, lambda step: None).cells][0]
        'digits prior from 80 %'
    """
    rows = rows_of(settings.full)
    found, seconds = certified(rows, settings, progress)
    notes = [
        *notes_of(rows, found),
        "errors are counted on the rows that did not train θ₀; where no d is named it is 0, and "
        "θ₀ is the network",
    ]
    both = [(a, b) for a in found for b in found if b.startswith(f"{a} d = ")]
    if both:
        better = sum(found[name]["bound"] <= found[other]["bound"] for name, other in both)
        notes.append(f"d = 0 gives the smaller bound in {better} of {len(both)} cases")
    return Result(_ID, cells_of(found, _PUBLISHED), seconds, tuple(notes))


EXPERIMENT = Experiment(
    _ID, "Certified bounds with data-dependent priors, by the share of rows that trains them", run
)
