"""What a claim may cost: a share of what the columns that it moves do for a target."""

from __future__ import annotations

import numpy as np

from isotropy.discovery.claims._generator_claim import GeneratorClaim
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.predictors._share_of_columns import share_of_columns
from isotropy.discovery.reading._task_data import TaskData

# of the margin: for blocks that nothing suggests, and bases, of which there are many
_ARBITRARY = 0.4


def margin_of(
    claim: GeneratorClaim, free: FreePredictor, rows: TaskData, margin: float, seed: int
) -> float:
    """The largest cost of a claim that still counts as a symmetry.

    A motion of columns that hardly matter costs next to nothing, whatever it is. So the margin is
    a share of what these columns do (``share_of_columns``). Where neither names nor the shape of
    the data suggest the blocks that move, it is less than half of that: there are many ways to cut
    columns into blocks, and some direction in one of them matters little. So there are to choose a
    basis: in some, whatever is almost quadratic is almost a squared length.
    """
    moved = np.abs(claim.rows).max((0, 2)) > 1e-9
    share = share_of_columns(free, rows, moved, seed)
    chart = None if claim.result is None else claim.result.chart
    arbitrary = chart is not None and len(chart.blocks) > 1 and not chart.suggested
    arbitrary = arbitrary or claim.is_hidden
    return margin * share * (_ARBITRARY if arbitrary else 1.0)
