"""Figure 9 of Basu et al. 2021: deep Q-learning on G-MNIST as it explores less."""

from __future__ import annotations

from isotropy._run import ProgressCallback
from isotropy.papers._experiment import Experiment, Result, Settings
from isotropy.papers._search_epsilons import draw_epsilons, epsilon_results


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Replay deep Q-learning against stored tables, and average its children at each ε.

    Args:
        settings: Quick makes one search for each of three data sets, full 20 for each of six;
            ``seeds`` gives another number, ``models`` other data sets, Aug0 to Aug5; ``out`` may
            hold tables, and keeps searches.
        progress: Told before each search.

    Returns:
        Mean validation accuracies in percent. Nothing was published as numbers.
    """
    return epsilon_results("basu2021/figure9", "mnist", settings, progress)


EXPERIMENT = Experiment(
    "basu2021/figure9", "Deep Q-learning as it explores less: G-MNIST", run, draw_epsilons
)
