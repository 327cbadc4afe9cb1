"""Returns of soft actor-critic agents: Figures 3.4 and A.2 of the thesis.

Settings: ``models`` chooses environments, ``sizes`` is one number, the steps of every agent. Full:
six locomotion tasks, 10⁶ steps. Quick: Pendulum.
"""

from __future__ import annotations

from functools import partial

from isotropy_papers._experiment import Experiment
from isotropy_papers._sac_figure import draw_curves, sac_figure

METHODS = {
    "finzi2023/figure3.4": ("SAC", "RPP", "equivariant", "group images"),
    "finzi2023/figureA.2": ("SAC", "RPP", "RPP policy only", "RPP critic only"),
}
_TITLES = {
    "finzi2023/figure3.4": "Returns of soft actor-critic with free, soft and strict networks",
    "finzi2023/figureA.2": "Returns of soft actor-critic with a soft policy, soft critics, or both",
}
EXPERIMENTS = {
    id: Experiment(id, _TITLES[id], partial(sac_figure, id, methods), draw_curves)
    for id, methods in METHODS.items()
}
