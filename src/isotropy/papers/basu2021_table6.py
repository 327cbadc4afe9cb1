"""Table 6 of Basu et al. 2021: the network that a search finds for G-MNIST."""

from __future__ import annotations

from isotropy._run import ProgressCallback
from isotropy.papers._experiment import Experiment, Result, Settings
from isotropy.papers._search_found import found_results
from isotropy.papers._search_published import TABLE_6


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Accuracies of networks with one group each, and of the network found.

    Args:
        settings: Quick reads the stored tables, full trains all networks anew (``seeds`` runs of
            ``epochs`` epochs on ``device``), and keeps them in ``out``. ``models`` are data sets,
            Aug0 to Aug5.
        progress: Told of each seed.

    Returns:
        Test accuracies in percent.
    """
    return found_results("basu2021/table6", "mnist", TABLE_6, settings, progress)


EXPERIMENT = Experiment(
    "basu2021/table6", "The network found among all sets of groups: G-MNIST", run
)
