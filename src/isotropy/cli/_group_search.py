"""What ``isotropy discover --method groups`` takes beside, and what it says when interrupted."""

import logging
from enum import StrEnum

_LOG = logging.getLogger(__name__)


class StrategyOption(StrEnum):
    """How to search among sets of groups."""

    lattice = "lattice"
    dqn = "dqn"
    random = "random"
    tpe = "tpe"


def require_search(
    searching: bool, study: str | None, strategy: StrategyOption | None, children: int | None
) -> None:
    """Refuse options of the search where there is none, and a number that is too small.

    Raises:
        ValueError: If one of them does not fit.

    Example:
        >>> require_search(False, "study.db", None, None)
        Traceback (most recent call last):
        ...
        ValueError: expected --method groups with --study, got another method
    """
    given = {"study": study, "strategy": strategy, "children": children}
    options = [f"--{name}" for name, value in given.items() if value is not None]
    if options and not searching:
        raise ValueError(f"expected --method groups with {options[0]}, got another method")
    if children is not None and children < 1:
        raise ValueError(f"expected at least one child, got {children}")


def say_what_is_kept(study: str | None) -> None:
    """Say what is left of a search that was interrupted."""
    _LOG.warning(
        "nothing is kept: with --study FILE, what is trained would be"
        if study is None
        else "the children that are trained are in the study; the same command goes on"
    )
