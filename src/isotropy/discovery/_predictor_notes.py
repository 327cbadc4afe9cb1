"""How much a predictor has learned, in words: claims are about no more than that."""

from __future__ import annotations

import torch

from isotropy.discovery._task_data import TaskData
from isotropy.discovery.confirming._free_predictor import FreePredictor, sample_losses

# shares of variance or entropy, unexplained, that are worth a note
_MUCH_LEFT, _NOTHING = 0.05, 0.95


def predictor_notes(free: FreePredictor, fitted: TaskData, outside: TaskData) -> list[str]:
    """What kind of predictor there is, and how much it leaves."""
    what = "entropy" if fitted.task == "classification" else "variance"
    with torch.no_grad():
        losses = [
            float(sample_losses(prediction, outside.y, outside.task).mean())
            for prediction in (free.predict(outside.x), free.constant.expand(len(outside.x), -1))
        ]
    left = losses[0] / max(losses[1], 1e-300)
    notes = [
        f"{fitted.task}; free predictor: {free.kind}, leaves {left:.2g} of the {what}; "
        f"fitted to {len(fitted.x)} rows, claims tested on {len(outside.x)} others"
    ]
    if left > _NOTHING:
        notes.append("next to nothing could be learned from these rows, so nothing can be claimed")
    elif left > _MUCH_LEFT:
        notes.append(
            f"claims are about what the predictor has learned: the {left:.0%} that it leaves may "
            "be noise, or have less symmetry"
        )
    return notes
