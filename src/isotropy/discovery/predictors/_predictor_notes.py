"""How much a predictor has learned, in words: claims are about no more than that."""

from __future__ import annotations

from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._task_data import TaskData

# shares of variance or entropy, unexplained, that are worth a note
_MUCH_LEFT, _NOTHING = 0.05, 0.95


def predictor_notes(free: FreePredictor, fitted: TaskData, outside: TaskData) -> list[str]:
    """What kind of predictor there is, and how much it leaves."""
    what = "entropy" if fitted.task == "classification" else "variance"
    left = free.share_left(outside.x, outside.y, outside.task)
    return [
        f"{fitted.task}; free predictor: {free.kind}, leaves {left:.2g} of the {what}; "
        f"fitted to {len(fitted.x)} rows, claims tested on {len(outside.x)} others",
        *notes_of_share(left),
    ]


def notes_of_share(left: float) -> list[str]:
    """What a share of the loss that a predictor leaves means for claims.

    Example:
        >>> notes_of_share(0.99)
        ['next to nothing could be learned from these rows, so nothing can be claimed']
    """
    if left > _NOTHING:
        return ["next to nothing could be learned from these rows, so nothing can be claimed"]
    if left > _MUCH_LEFT:
        return [
            f"claims are about what the predictor has learned: the {left:.0%} that it leaves may "
            "be noise, or have less symmetry"
        ]
    return []
