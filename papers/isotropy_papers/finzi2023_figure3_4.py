"""Figure 3.4 of the thesis: soft actor-critic with and without a prior towards symmetry."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._sac_figure import draw_curves, sac_figure

METHODS = ("SAC", "RPP", "equivariant", "group images")


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train agents with free, soft and strict networks, and on images under the group.

    Args:
        settings: ``models`` chooses environments, ``sizes`` is one number, the steps of every
            agent. Full: six locomotion tasks, 10⁶ steps. Quick: Pendulum.
        progress: Called at each judgement.
    """
    return sac_figure("finzi2023/figure3.4", METHODS, settings, progress)


EXPERIMENT = Experiment(
    "finzi2023/figure3.4",
    "Returns of soft actor-critic with free, soft and strict networks",
    run,
    draw_curves,
)
