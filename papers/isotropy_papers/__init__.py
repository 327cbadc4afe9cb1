"""One short module per table or figure of the papers, ours beside theirs."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from sys import path
from typing import TYPE_CHECKING, Any

if find_spec("isotropy") is None:  # a bare checkout, with nothing installed
    path.append(str(Path(__file__).parents[2] / "src"))

if TYPE_CHECKING:
    from isotropy_papers._efficientnet_lite import (
        efficientnet_lite0,
        efficientnet_lite1,
        efficientnet_lite2,
    )
    from isotropy_papers._experiment import Cell, Experiment, Result, Settings
    from isotropy_papers._registry import PAPERS, Listed, experiment, ids, listing
    from isotropy_papers._standings import Standing

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

# the command asks for one verb of this package, and must not wait for the rest
_HOMES = {
    **dict.fromkeys(
        ("efficientnet_lite0", "efficientnet_lite1", "efficientnet_lite2"), "_efficientnet_lite"
    ),
    **dict.fromkeys(("Cell", "Experiment", "Result", "Settings"), "_experiment"),
    **dict.fromkeys(("PAPERS", "Listed", "experiment", "ids", "listing"), "_registry"),
    "Standing": "_standings",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
