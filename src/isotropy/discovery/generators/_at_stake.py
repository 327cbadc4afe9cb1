"""What a claim may cost: a share of what the columns that it moves do for a target."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy._run import generator as make_generator
from isotropy.discovery._task_data import TaskData
from isotropy.discovery.confirming._free_predictor import FreePredictor, sample_losses
from isotropy.discovery.generators._claims import GeneratorClaim

# of the margin: for blocks of columns that nothing suggests, of which there are many
_ARBITRARY = 0.4


def margin_of(
    claim: GeneratorClaim, free: FreePredictor, rows: TaskData, margin: float, seed: int
) -> float:
    """The largest cost of a claim that still counts as a symmetry.

    A motion of columns that hardly matter costs next to nothing, whatever it is. So the margin is
    a share of what these columns do: half of what is lost where they are exchanged between rows,
    for values of two rows differ by twice their variance. If all columns move, it is all that can
    be learned. Where neither names nor the shape of the data
    suggest the blocks that move, it is less than half of that: there are many ways to cut columns
    into blocks, and some direction in one of them matters little.

    Args:
        claim: The claim.
        free: A predictor.
        rows: Rows that it was not fitted to.
        margin: The share.
        seed: Of the exchange.
    """
    moved = np.abs(claim.rows).max((0, 2)) > 1e-9
    share = _share_lost(free, rows, moved, seed)
    chart = None if claim.result is None else claim.result.chart
    arbitrary = chart is not None and len(chart.blocks) > 1 and not chart.suggested
    return margin * share * (_ARBITRARY if arbitrary else 1.0)


@torch.no_grad()
def _share_lost(
    free: FreePredictor, rows: TaskData, columns: NDArray[np.bool_], seed: int
) -> float:
    """What a predictor loses where columns come from other rows, of what it has learned."""
    if columns.all():
        return 1.0
    order = torch.randperm(len(rows.x), generator=make_generator(seed))
    mixed = torch.where(torch.as_tensor(columns), rows.x[order], rows.x)
    constant = free.constant.expand(len(rows.x), -1)
    with_them, without, flat = (
        float(sample_losses(said, rows.y, rows.task).mean())
        for said in (free.predict(rows.x), free.predict(mixed), constant)
    )
    if flat <= with_them:
        return 1.0  # nothing is learned, and nothing will be claimed
    return min(max((without - with_them) / (flat - with_them) / 2, 0.0), 1.0)
