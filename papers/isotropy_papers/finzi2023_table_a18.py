"""Table A.18 of the thesis: random subspaces against pruning."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._certificate_rows import (
    CertificateRow,
    cells_of,
    certified,
    notes_of,
    pruned_rows,
    subspace_rows,
)
from isotropy_papers._experiment import Experiment, Result, Settings

_ID = "finzi2023/tableA.18"
_BOUNDS = {
    "MNIST": 11.6,
    "Fashion-MNIST": 32.8,
    "CIFAR-10": 58.2,
    "MNIST pruned": 47.9,
    "Fashion-MNIST pruned": 54.9,
    "CIFAR-10 pruned": 100.0,
}
_SIZES = {
    "MNIST": 0.4,
    "Fashion-MNIST": 0.8,
    "CIFAR-10": 1.2,
    "MNIST pruned": 6.5,
    "Fashion-MNIST pruned": 3.5,
    "CIFAR-10 pruned": 57.8,
}


def rows_of(full: bool) -> list[CertificateRow]:
    """The rows: each network in a subspace, and pruned."""
    pruned = pruned_rows(full)
    names = [row.name.removesuffix(" pruned") for row in pruned]
    return [row for row in subspace_rows(full) if row.name in names] + pruned


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify networks in random subspaces, and the same networks pruned.

    Args:
        settings: Full: MNIST, Fashion-MNIST and CIFAR-10 on a GPU. Quick: small digits, a
            perceptron. ``models`` are names of rows; ``epochs`` replaces the passes of every
            phase of training; certificates are saved in ``out``.
        progress: Called for each row and of each epoch.

    Returns:
        Bound, size and errors of each certificate.

    Example:
        >>> settings = Settings(models=("digits pruned",), epochs=6)
        >>> [c.column for c in run(settings, lambda step: None).cells][:2]
        ['bound %', 'KB']
    """
    rows = rows_of(settings.full)
    found, seconds = certified(rows, settings, progress)
    shares = {row.name: f"{100 * row.options['keep']:g} %" for row in rows if "keep" in row.options}
    kept = ", ".join(f"{name}: {share}" for name, share in shares.items() if name in found)
    notes = notes_of(rows, found)
    if kept:
        notes.append(
            f"weights that are left: {kept} (published: MNIST 1.2 %, Fashion-MNIST 3 %, CIFAR-10 "
            "47.9 %); trained, pruned by magnitude in five rounds, "
            "quantised, and all coded with 0 as one of the levels"
        )
    return Result(_ID, cells_of(found, _BOUNDS, _SIZES), seconds, tuple(notes))


EXPERIMENT = Experiment(_ID, "Certified bounds of random subspaces and of pruned networks", run)
