"""Where actions are looked for: blocks of columns, all of them, combinations; ways outputs move."""

from __future__ import annotations

from isotropy.discovery.proposing.generators._action_class import Output
from isotropy.discovery.proposing.generators._charts import (
    Array,
    Chart,
    chart_of_columns,
    chart_of_combinations,
    combination_text,
)
from isotropy.discovery.proposing.generators._column_blocks import (
    ColumnBlocks,
    blocks_by_size,
    blocks_from_names,
)
from isotropy.discovery.reading._task_data import TaskData

# a class of actions on more columns has too many unknowns to be worth a look
WIDEST = 32
_MOST_FREE_OUTPUTS = 12


def charts_to_look_in(
    data: TaskData,
    x: Array,
    names: tuple[str, ...],
    given: ColumnBlocks | None,
    ignored: tuple[int, ...],
    combinations: Array,
) -> list[Chart]:
    """Where actions are looked for: blocks of columns, all columns, combinations of them."""
    n, channels = data.arrangement.inputs, data.arrangement.channels
    suggested = True
    if given is not None:
        candidates = [given]
    elif channels > 1:
        places = tuple(tuple(c * n + p for c in range(channels)) for p in range(n))
        labels = tuple(f"channel {c}" for c in range(channels))
        candidates = [ColumnBlocks(places, labels, (), "positions")]
    elif data.input_names is not None and (named := blocks_from_names(data.input_names)):
        candidates = list(named)
    else:
        candidates, suggested = blocks_by_size(n), False
    charts = []
    for blocks in candidates:
        kept = [j for j in range(blocks.d) if not all(b[j] in ignored for b in blocks.columns)]
        if len(kept) < 1 or blocks.k * blocks.d < 2:
            continue
        columns = tuple(tuple(block[j] for j in kept) for block in blocks.columns)
        labels = tuple(blocks.coordinates[j] for j in kept)
        words = f"the same action on {len(columns)} blocks of {len(kept)} columns"
        if len(columns) == 1:
            words = f"one action on {', '.join(names[c] for c in columns[0])}"
        charts.append(
            chart_of_columns(x, columns, labels, words, suggested=suggested and len(columns) > 1)
        )
    if given is not None:
        return charts
    live = tuple(i for i in range(x.shape[1]) if i not in ignored)
    if len(combinations) and 1 < len(combinations) <= WIDEST:
        texts = tuple(combination_text(row, names) for row in combinations)
        charts.append(chart_of_combinations(x, combinations, texts))
    elif not len(combinations) and 1 < len(live) <= WIDEST:
        words = (
            "one action on all columns"
            if not ignored
            else (f"one action on {', '.join(names[i] for i in live)}")
        )
        charts.append(chart_of_columns(x, (live,), tuple(names[i] for i in live), words))
    return charts


def ways_outputs_move(given: Output | None, data: TaskData, width: int) -> list[Output]:
    m = 1 if data.y.ndim == 1 else data.y.shape[1]
    if given is not None:
        fits = {"vector": m % width == 0, "matrix": m == width**2}.get(given, True)
        return [given] if fits else []
    kinds: list[Output] = ["invariant"]
    if data.task == "classification":
        return kinds
    if m > 1 and m % width == 0 and width > 1:
        kinds.append("vector")
    if m == width**2 and width > 1:
        kinds.append("matrix")
    if m <= _MOST_FREE_OUTPUTS:
        kinds.append("free")
    return kinds
