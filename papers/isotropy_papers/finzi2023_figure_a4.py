"""Figure A.4 of the thesis: with a data-dependent prior the bound asks for few dimensions."""

from __future__ import annotations

from pathlib import Path

from isotropy.run import ProgressCallback
from isotropy_papers._certificate_plots import (
    QUICK_NOTE,
    Panel,
    Point,
    base_set,
    certified_points,
    draw_panels,
    point_cells,
    search_options,
)
from isotropy_papers._experiment import Cell, Experiment, Result, Settings

SHARES = (20, 50, 80)
_BEST = {(80, 0): 16.6}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Certify subspaces around networks that were trained on a share of the rows.

    Args:
        settings: ``models`` chooses shares ("20 % of rows"), ``sizes`` the dimensions d beside 0,
            ``channels`` the width k of the ConvNet in full. Full: CIFAR-10 and ConvNet. Quick:
            small digits and LeNet-5.
        progress: Called before each certificate.

    Returns:
        Bound, errors and bits for every share and d, and the best d of each share.
    """
    curves = {f"{share} % of rows": share for share in SHARES}
    full = settings.full
    model = f"convnet-{settings.channels or 16}" if full else "lenet5"
    dimensions = (0, *(settings.sizes or ((100, 500, 2000) if full else (20, 200))))
    options = search_options(settings, full_epochs=20, quick_epochs=10)
    options["projector"] = "film+kronecker" if full else "kronecker-orthonormal"
    options["prior_epochs"] = settings.epochs or (40 if full else 10)
    # a trained start is near its goal: large steps would only leave it
    options |= {"rate": 0.002, "quantised_rate": 0.0005}
    chosen = settings.chosen(list(curves))
    points = {
        f"{name}, d={d}": Point(model, "images", {**options, "d": d, "prior_percent": curves[name]})
        for name in chosen
        for d in dimensions
    }
    data = base_set(settings, "cifar10")
    found, seconds = certified_points(
        "finzi2023/figureA.4", points, lambda _: data, settings, progress
    )
    cells = []
    for name in chosen:
        for d in dimensions:
            theirs = _BEST.get((curves[name], d)) if full else None
            cells += point_cells(f"{name}, d={d}", found[f"{name}, d={d}"], theirs)
        best = min(dimensions, key=lambda d: found[f"{name}, d={d}"]["bound"])
        cells.append(Cell(name, "best d", best, 0.0 if full and curves[name] == 80 else None))
    notes = [
        "errors in training are those on the rows that did not train the prior, on which the bound "
        "rests",
        "published: the best d is 0 for every set (Table A.22); the curves without numbers",
        "every bound is that of a certificate verified from its bytes; δ .05",
    ]
    if not full:
        notes.append(QUICK_NOTE)
    return Result("finzi2023/figureA.4", cells, seconds, tuple(notes))


def plot(result: Result, path: Path) -> Path:
    """Draw bounds and bits along d, one curve for each share.

    Args:
        result: What ``run`` gave.
        path: The PNG file.
    """
    panels = [Panel(name, (name,), "d", scale="symlog") for name in ("bound %", "bits")]
    return draw_panels(result, panels, path)


EXPERIMENT = Experiment(
    "finzi2023/figureA.4",
    "Bounds with data-dependent priors: share of rows and dimension of the subspace",
    run,
    plot,
)
