"""One short module per table or figure of the papers, ours beside theirs."""

from isotropy.papers._efficientnet_lite import (
    efficientnet_lite0,
    efficientnet_lite1,
    efficientnet_lite2,
)
from isotropy.papers._experiment import Cell, Experiment, Result, Settings
from isotropy.papers._registry import PAPERS, Listed, experiment, ids, listing
from isotropy.papers._standings import Standing

__all__ = [
    "PAPERS",
    "Cell",
    "Experiment",
    "Listed",
    "Result",
    "Settings",
    "Standing",
    "efficientnet_lite0",
    "efficientnet_lite1",
    "efficientnet_lite2",
    "experiment",
    "ids",
    "listing",
]
