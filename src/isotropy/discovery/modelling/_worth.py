"""How far a model is from its symmetry, and what elements make of a few rows, to be shown."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from isotropy.discovery.claims._claim import predictions
from isotropy.discovery.modelling._modelling_thresholds import ModellingThresholds
from isotropy.discovery.reading._row_layout import RowLayout
from isotropy.discovery.reading._task_data import TaskData
from isotropy.equivariance import equivariance_error
from isotropy.reps import Symmetry

_EXAMPLES, _ELEMENTS, _FEWEST_POSITIONS = 3, 3, 6  # of what is shown, which decides nothing


def error_of_model(
    model: nn.Module, x: Tensor, symmetry: Symmetry, seed: int, centre: ArrayLike = 0.0
) -> float | None:
    """The largest relative error over elements of the group; None where it cannot be measured.

    Args:
        model: The model.
        x: Rows.
        symmetry: The group, and how it acts on rows less the centre.
        seed: Of elements.
        centre: Subtracted from rows before the group acts, one number for each column.
    """
    rows, middle = x[: ModellingThresholds.now().rows_of_error], torch.as_tensor(centre)

    def about_centre(moved: Tensor) -> Tensor:
        return predictions(model, moved + middle)

    try:
        error = equivariance_error(about_centre, rows - middle, symmetry, generator=seed)
    except ValueError:  # the model takes coordinates that the symmetry does not act on
        return None
    return error if np.isfinite(error) else None


def moved_rows(
    symmetry: Symmetry, layout: RowLayout, rows: TaskData, seed: int
) -> NDArray[np.float64] | None:
    """Rows of sequences, and what a few elements make of them; None for others.

    Returns:
        Shape (rows, 1 + elements, …).
    """
    a = rows.arrangement
    if a.inputs < _FEWEST_POSITIONS or symmetry.rep_in.size() != rows.x.shape[1]:
        return None
    some = rows.x[:_EXAMPLES]
    drawn = symmetry.group.sample(_ELEMENTS, generator=seed)
    moved = [symmetry.apply(drawn.select(k), some) for k in range(_ELEMENTS)]
    whole = torch.stack([some, *moved], 1)
    if layout.channels > 1 or layout.sequences:
        whole = whole.unflatten(2, (a.channels, a.inputs))
        whole = whole if layout.channels_first else whole.transpose(2, 3)
    shown: NDArray[np.float64] = whole.numpy()
    return shown
