"""Table 10 of Basu et al. 2021: the best sets of groups for G-Fashion-MNIST."""

from __future__ import annotations

from isotropy._run import ProgressCallback
from isotropy.papers._experiment import Experiment, Result, Settings
from isotropy.papers._search_published import TABLE_10
from isotropy.papers._search_top import top_results


def run(settings: Settings, progress: ProgressCallback) -> Result:
    """The five best networks of each data set.

    Args:
        settings: Reads stored tables, or those that a full run of basu2021/table7 left in
            ``out``. ``models`` are data sets, Aug0 to Aug5.
        progress: Not told of anything.

    Returns:
        A 1 for each group that a network has, and its millions of parameters.
    """
    return top_results("basu2021/table10", "fashion-mnist", TABLE_10, settings, progress)


EXPERIMENT = Experiment("basu2021/table10", "The five best sets of groups: G-Fashion-MNIST", run)
