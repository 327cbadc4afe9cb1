"""Table 4 of Basu et al. 2021: one group in the network, one in the images of G-MNIST."""

from __future__ import annotations

from isotropy._run import ProgressCallback
from isotropy.papers._experiment import Experiment, Result, Settings
from isotropy.papers._search_published import TABLE_4
from isotropy.papers._search_singles import single_results


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """Accuracies of networks with one group each.

    Args:
        settings: Quick reads the stored tables, full trains all networks anew (``seeds`` runs of
            ``epochs`` epochs on ``device``), and keeps them in ``out``. ``models`` are rows.
        progress: Told of each seed.

    Returns:
        Test accuracies in percent.
    """
    return single_results("basu2021/table4", "mnist", TABLE_4, settings, progress)


EXPERIMENT = Experiment(
    "basu2021/table4", "Networks with one group on images moved by one: G-MNIST", run
)
