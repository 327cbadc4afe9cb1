"""Rotations and boosts that are claimed whatever the gradients of a fit say."""

from __future__ import annotations

from isotropy.discovery.predictors._invariant_predictor import invariant_features, seen_blocks
from isotropy.discovery.predictors._smooth_fit import SmoothFit
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.generators._action_class import Output
from isotropy.discovery.proposing.generators._algebras import ClassResult, Samples
from isotropy.discovery.proposing.generators._charts import (
    Array,
    chart_of_columns,
    ways_outputs_move,
)
from isotropy.discovery.proposing.generators._column_blocks import ColumnBlocks
from isotropy.discovery.proposing.generators._usual_actions import (
    seems_to_hold,
    usual_actions,
    usual_result,
)
from isotropy.discovery.reading._task_data import TaskData


def usual_results(
    data: TaskData,
    x: Array,
    names: tuple[str, ...],
    samples: Samples,
    fit: SmoothFit,
    given: ColumnBlocks | None,
    output: Output | None,
    *,
    affine: bool,
) -> list[ClassResult]:
    """Rotations and boosts that the fit does not speak against, or whose invariants fit better."""
    limits = ProposingThresholds.now()
    ways = [given] if given is not None else seen_blocks(data)
    suggested = given is not None or data.arrangement.channels > 1
    charts = [
        chart_of_columns(
            x,
            blocks.columns,
            blocks.coordinates,
            f"the same action on {blocks.k} blocks of {blocks.d} columns",
            suggested=suggested or data.input_names is not None,
        )
        for blocks in ways
    ]
    if 2 <= x.shape[1] <= limits.widest_rotated and given is None:
        every = (tuple(range(x.shape[1])),)
        charts.append(chart_of_columns(x, every, names, "one action on all columns"))
    found: list[ClassResult] = []
    for chart in charts:
        for kind in ways_outputs_move(output, data, len(chart.scale)):
            shifts = affine and kind == "invariant" and len(chart.blocks) > 2
            for action in usual_actions(len(chart.scale), shifts=shifts):
                if kind == "free" or fit.unexplained > limits.nothing_learned:
                    continue
                if seems_to_hold(samples, chart, kind, action):
                    found += filter(None, [usual_result(chart, kind, action)])
                    break
    best = invariant_features(data) if output in (None, "invariant") else None
    if best is not None and best[1] < limits.better_invariants * fit.unexplained:
        blocks, action = best[0].blocks, best[0].action
        there = [chart for chart in charts if chart.columns == blocks.columns]
        made = [usual_result(chart, "invariant", action) for chart in there]
        found = [*filter(None, made), *found]
    return found
