"""One short module per table or figure of the papers, ours beside theirs."""

from isotropy.papers._experiment import Cell, Experiment, Result, Settings
from isotropy.papers._registry import experiment, ids

__all__ = ["Cell", "Experiment", "Result", "Settings", "experiment", "ids"]
