"""Figure 5.1 of the thesis: what a data-dependent prior does alone; fit against compression."""

from __future__ import annotations

from pathlib import Path

from isotropy.certificates import smallest_bound
from isotropy.run import ProgressCallback
from isotropy_papers._certificate_plots import (
    QUICK_NOTE,
    Panel,
    Point,
    base_set,
    certified_points,
    draw_panels,
    search_options,
)
from isotropy_papers._experiment import Cell, Experiment, Result, Settings

PANELS = ("a", "b")
KILOBYTE = 8192  # bits, as the thesis counts
_DELTA = 0.05
_BEST_DATA_DEPENDENT = {80: 16.6}
_BEST_DATA_INDEPENDENT = (58.2, 3500)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Bound what was trained on a share of the rows alone, and subspaces of many dimensions.

    Args:
        settings: ``models`` chooses panels a or b, ``sizes`` the dimensions d, ``channels`` the
            width k of the ConvNet in full. Full: CIFAR-10 and ConvNet. Quick: small digits and
            LeNet-5.
        progress: Called before each certificate.

    Returns:
        (a) For shares of the rows: the bound of the network trained on them, without any further
        message, on the other rows, and Hoeffding's. (b) For dimensions: training error, size and
        bound of the data-independent certificate; and the best of them.
    """
    wanted = settings.chosen(list(PANELS))
    full = settings.full
    model = f"convnet-{settings.channels or 16}" if full else "lenet5"
    quick_d = (25, 50, 100, 200, 400)
    dimensions = settings.sizes or ((500, 1000, 2000, 3500, 5000, 10_000) if full else quick_d)
    shares = (10, 20, 35, 50, 65, 80) if full else (20, 50, 80)
    search = search_options(settings, full_epochs=30)
    search["projector"] = "film+kronecker" if full else "kronecker-orthonormal"
    prior = {"d": 0, "prior_epochs": settings.epochs or (40 if full else 10)}
    points = {}
    if "a" in wanted:
        for share in shares:
            points[_row_a(share)] = Point(model, "images", {**prior, "prior_percent": share})
    if "b" in wanted:
        for d in dimensions:
            points[_row_b(d)] = Point(model, "images", {**search, "d": d})
    data = base_set(settings, "cifar10")
    found, seconds = certified_points(
        "finzi2023/figure5.1", points, lambda _: data, settings, progress
    )
    cells = []
    for share in shares if "a" in wanted else ():
        theirs = _BEST_DATA_DEPENDENT.get(share) if full else None
        cells += _prior_cells(_row_a(share), found[_row_a(share)], theirs)
    if "b" in wanted:
        for d in dimensions:
            cells += _subspace_cells(_row_b(d), found[_row_b(d)])
        bound, best = min((found[_row_b(d)]["bound"], d) for d in dimensions)
        theirs_bound, theirs_d = _BEST_DATA_INDEPENDENT if full else (None, None)
        cells.append(Cell("b: best", "bound %", bound, theirs_bound))
        cells.append(Cell("b: best", "d", best, theirs_d))
    notes = [
        "a: the network is trained on a share of the rows, and bounded on the others; its message "
        "has no weights (d = 0), and says the architecture and the share. Hoeffding: no bits at "
        "all, for one network fixed beforehand",
        "b: 1 KB is 8192 bits; the whole message is counted",
        "every bound is that of a certificate verified from its bytes; δ .05",
    ]
    if full:
        notes.append(
            f"{search['epochs']} + {search['quantised_epochs']} epochs (published 500 + 30), "
            "group normalisation; published: 16.6 % for CIFAR-10 at a share of 80 % and d = 0 "
            "(Table A.22), 58.2 % at d = 3500 (Table A.21); the curves themselves without numbers"
        )
    else:
        notes.append(QUICK_NOTE)
    return Result("finzi2023/figure5.1", cells, seconds, tuple(notes))


def _row_a(share: int) -> str:
    return f"a: prior alone, percent={share}"


def _row_b(d: int) -> str:
    return f"b: data-independent, d={d}"


def _prior_cells(row: str, found: dict[str, float], theirs: float | None) -> list[Cell]:
    n = round(found["n"])
    errors = round(found["train_error"] / 100 * n)
    hoeffding = 100 * smallest_bound(errors, n, 0, _DELTA, kinds="finite_hypothesis").value
    return [
        Cell(row, "bound %", found["bound"], theirs),
        Cell(row, "Hoeffding %", hoeffding),
        Cell(row, "error on the other rows %", found["train_error"]),
        Cell(row, "test error %", found["test_error"]),
        Cell(row, "bits", found["bits"]),
    ]


def _subspace_cells(row: str, found: dict[str, float]) -> list[Cell]:
    return [
        Cell(row, "bound %", found["bound"]),
        Cell(row, "train error %", found["train_error"]),
        Cell(row, "test error %", found["test_error"]),
        Cell(row, "KB", found["bits"] / KILOBYTE),
    ]


def plot(result: Result, path: Path) -> Path:
    """Draw the bounds along the share of rows, and bound, training error and size along d.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    best = [c.ours for c in result.cells if (c.row, c.column) == ("b: best", "bound %")]
    level = (best[0], "data-independent") if best else None
    has = {cell.row[0] for cell in result.cells}
    both = ("bound %", "Hoeffding %")
    share = "share of rows for the prior, %"
    panels = []
    if "a" in has:
        panels.append(Panel("(a)", both, share, kind="a", scale="linear", level=level))
    if "b" in has:
        panels.append(Panel("(b)", ("train error %", "bound %"), "d", kind="b"))
        panels.append(Panel("(b) size", ("KB",), "d", kind="b"))
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figure5.1",
    "Bounds of data-dependent priors alone, and bounds against the dimension of the subspace",
    run,
    plot,
)
