"""Table 2.2 of the thesis: rollout errors of learned dynamics, by symmetry."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Cell, Experiment, Result, Settings
from isotropy_papers._pendulum import measured_models
from isotropy_papers._statistics import mean_interval

_PUBLISHED = {
    "N-ODE": {"O(2)": 0.019, "SO(2)": 0.051, "D6": 0.036, "MLP": 0.048},
    "HNN": {"O(2)": 0.012, "SO(2)": 0.015, "D6": 0.013, "MLP": 0.028},
}


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train neural ODEs and HNNs with each symmetry, and roll them out.

    Args:
        settings: Quick takes only O(2) and no symmetry.
        progress: Called before each model.

    Returns:
        The geometric mean of relative errors, averaged over seeds, beside the published one.
    """
    groups = list(_PUBLISHED["HNN"]) if settings.full else ["O(2)", "MLP"]
    found, notes, seconds = measured_models(settings, progress, groups)
    cells = []
    for (kind, group), measured in found.items():
        mean, interval = mean_interval(measured["state"])
        cells.append(Cell(kind, group, mean, _PUBLISHED[kind][group], interval))
    notes.insert(
        0,
        "geometric mean of relative errors of the state over time and trajectories; mean over "
        "seeds; interval: one standard deviation over seeds to either side",
    )
    return Result("finzi2023/table2.2", cells, seconds, tuple(notes))


EXPERIMENT = Experiment(
    "finzi2023/table2.2",
    "Rollout errors of neural ODEs and HNNs with and without symmetry",
    run,
)
