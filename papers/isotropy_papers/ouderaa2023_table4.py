"""Table 4 of van der Ouderaa et al. 2023: what every layer has become."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._layerwise_runs import Job, Net, held_back_plan, mean_cell, quick_plan, studied

_NETS = {"FC+CONV": Net(("fc", "conv")), "F-FC+CONV": Net(("factored", "conv"))}
_FACTORS = (
    "FC stands for both factors of F-FC: the larger precision, the smaller mean square, effective "
    "numbers of both together"
)
# columns, and where a LayerType has them
_NUMBERS = {
    "precision": "precisions",
    "mean square": "mean_squares",
    "normalised": "normalised",
    "relative": "paths",
}
# by layer: FC and CONV of each of these numbers
_PUBLISHED = (
    ((3588348.5, 0.07513507), (0.0, 10.74257360), (2e-8, 0.80731778), (3e-8, 0.99999997)),
    ((2750749.5, 1.26366782), (0.0, 0.55490241), (7e-8, 0.70107951), (1e-7, 0.99999990)),
    ((5898884.5, 14.50690365), (0.0, 0.04562404), (1.4e-7, 0.66181451), (2.1e-7, 0.99999979)),
    ((22690960.0, 230.7509613), (0.0, 0.00216724), (8.9e-7, 0.50004517), (1.78e-6, 0.99999822)),
    ((29633508.0, 5438.10449219), (0.0, 7.521e-5), (7.72e-6, 0.40905216), (1.888e-5, 0.99998112)),
    ((35631228.0, 3797.48779297), (0.0, 3.772e-5), (3.79e-6, 0.14326709), (2.643e-5, 0.99997357)),
    ((635.57513428, 31321916.0), (1.135e-5, 0.0), (0.00721232, 5.22e-6), (0.99927627, 0.00072373)),
    ((35582056.0, 1.75766361), (0.0, 0.00259477), (9e-8, 0.00456014), (1.874e-5, 0.99998126)),
)


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train a network of free and convolutional paths on CIFAR-10, and look at its layers.

    Args:
        settings: ``models``: "FC+CONV", as published, or "F-FC+CONV", which a quick run takes, at
            α = 2 (``channels``). Full: 60 epochs (published: 4000), or ``epochs``, with shifts and
            flips.
        progress: Called for each epoch.

    Returns:
        For each layer and path the prior precision, the mean square of its weights, and the
        normalised and relative effective number of parameters.

    Raises:
        ValueError: If both models are asked for.
    """
    names = settings.chosen(list(_NETS))
    if settings.models is None:
        names = ["FC+CONV" if settings.full else "F-FC+CONV"]
    if len(names) != 1:
        raise ValueError(f"expected one model of {', '.join(_NETS)}, got {', '.join(names)}")
    (name,) = names
    alpha = settings.or_else(channels=10 if settings.full else 2)["channels"]
    paths = _NETS[name].paths
    study = studied(
        "ouderaa2023/table4",
        {name: Job("CIFAR-10", Net(paths, alpha), True)},
        settings,
        progress,
        quick=quick_plan(12),
        full=held_back_plan(60, augmented=True),
    )
    rows = study.rows[name]
    cells: list[Cell] = []
    types = []
    for layer, published in enumerate(_PUBLISHED):
        for (column, key), theirs in zip(_NUMBERS.items(), published, strict=True):
            for path, label, value in zip(paths, ("FC", "CONV"), theirs, strict=True):
                ours = [row.layers[layer][key][path] for row in rows]
                cells += mean_cell(f"layer {layer}", f"{label} {column}", ours, value)
        shares = {cell.column: cell.ours for cell in cells[-2:]}
        types.append(max(shares, key=lambda column: shares[column]).split()[0])
    notes = (
        f"{name}, α = {alpha}; numbers of weights, biases left out",
        f"types by layer, ours: {' '.join(types)}; theirs: {' '.join(_published_types())}",
        *([_FACTORS] if name == "F-FC+CONV" else []),
        "mean square is what the published table calls weight norm",
        *study.notes,
    )
    return Result("ouderaa2023/table4", cells, study.seconds, notes)


def _published_types() -> list[str]:
    return ["FC" if relative[0] > relative[1] else "CONV" for *_, relative in _PUBLISHED]


EXPERIMENT = Experiment(
    "ouderaa2023/table4", "Learned layer types: precisions and effective parameters", run
)
