"""Figure A.2 of the thesis: a prior towards symmetry for the policy, the critic, or both."""

from __future__ import annotations

from isotropy.run import ProgressCallback
from isotropy_papers._experiment import Experiment, Result, Settings
from isotropy_papers._sac_figure import draw_curves, sac_figure

METHODS = ("SAC", "RPP", "RPP policy only", "RPP critic only")


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Train agents whose policy, critics, or both prefer the symmetry (thesis A.2.2).

    Args:
        settings: As for Figure 3.4.
        progress: Called at each judgement.
    """
    return sac_figure("finzi2023/figureA.2", METHODS, settings, progress)


EXPERIMENT = Experiment(
    "finzi2023/figureA.2",
    "Returns of soft actor-critic with a soft policy, soft critics, or both",
    run,
    draw_curves,
)
