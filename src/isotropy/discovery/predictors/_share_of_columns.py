"""What some columns do for a target, as a share of what can be learned."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.reading._task_data import TaskData


@torch.no_grad()
def share_of_columns(
    free: FreePredictor, rows: TaskData, columns: NDArray[np.bool_], seed: int = 0
) -> float:
    """Half of what a predictor loses where columns come from other rows, of what it has learned.

    Values of two rows differ by twice their variance, hence the half. All columns together do all.

    Example:
        >>> from isotropy.data import load
        >>> x = np.random.default_rng(0).normal(size=(4000, 4))
        >>> rows = TaskData.of(load((x, x.sum(1))))
        >>> total = FreePredictor("sum", lambda x: x.sum(1, keepdim=True), torch.zeros(1), 0.0)
        >>> abs(share_of_columns(total, rows, np.arange(4) < 1) - 1 / 4) < 0.02
        True
    """
    if columns.all():
        return 1.0
    order = torch.randperm(len(rows.x), generator=make_generator(seed))
    mixed = torch.where(torch.as_tensor(columns), rows.x[order], rows.x)
    constant = free.constant.expand(len(rows.x), -1)
    with_them, without, flat = (
        float(sample_losses(predictions, rows.y, rows.task).mean())
        for predictions in (free.predict(rows.x), free.predict(mixed), constant)
    )
    if flat <= with_them:
        return 1.0  # nothing is learned, and nothing will be claimed
    return min(max((without - with_them) / (flat - with_them) / 2, 0.0), 1.0)
