"""Predictors of what rotations and boosts leave as it is: products and distances of blocks.

Where a target depends on many columns through a few products of vectors alone, no predictor of
the columns finds that out from a few thousand rows, and one of the products does at once. What it
leaves is given to a predictor of the columns, which is as free to break the symmetry as any.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import (
    FreePredictor,
    fit_free_predictor,
    held_out_rows,
    sample_losses,
)
from isotropy.discovery.predictors._kernel_predictor import choose_kernel, fit_kernel
from isotropy.discovery.predictors._predictor_thresholds import PredictorThresholds
from isotropy.discovery.proposing.generators._column_blocks import (
    ColumnBlocks,
    blocks_by_size,
    blocks_from_names,
)
from isotropy.discovery.proposing.generators._usual_actions import UsualAction, usual_actions
from isotropy.discovery.reading._task_data import TaskData


@dataclass(frozen=True)
class InvariantFeatures:
    """What an action on blocks of columns leaves as it is."""

    blocks: ColumnBlocks
    action: UsualAction

    def __call__(self, x: Tensor) -> Tensor:
        """Products of all pairs of blocks, or distances with shifts, and the other columns.

        Example:
            >>> blocks = ColumnBlocks(((0, 1), (2, 3)), ("x", "y"), (), "given")
            >>> of = InvariantFeatures(blocks, UsualAction((1, 1)))
            >>> of(torch.tensor([[3.0, 4.0, 1.0, 0.0]]))
            tensor([[5., 3., 1.]])
        """
        vectors = x[:, torch.tensor(self.blocks.columns)]
        metric = torch.tensor(self.action.signs, dtype=x.dtype)
        i, j = torch.triu_indices(self.blocks.k, self.blocks.k, int(self.action.shifts))
        definite = bool((metric > 0).all())
        if self.action.shifts:
            products = ((vectors[:, i] - vectors[:, j]).square() * metric).sum(2)
            values = products.clamp_min(0).sqrt() if definite else products
        else:
            values = (vectors[:, i] * vectors[:, j] * metric).sum(2)
            if definite:  # lengths rather than their squares
                values = torch.where(i == j, values.clamp_min(0).sqrt(), values)
        return torch.cat([values, x[:, list(self.blocks.rest)]], 1)


def seen_blocks(data: TaskData) -> list[ColumnBlocks]:
    """Ways to see blocks in the columns: positions, names, else every equal cut, with scalars."""
    limits = PredictorThresholds.now()
    n, channels = data.arrangement.inputs, data.arrangement.channels
    if channels > 1:
        places = tuple(tuple(c * n + p for c in range(channels)) for p in range(n))
        ways = [ColumnBlocks(places, tuple(map(str, range(channels))), (), "positions")]
    elif data.input_names is not None and (named := blocks_from_names(data.input_names)):
        ways = list(named)
    else:
        ways = [*blocks_by_size(n), *scalars_beside(n)]
    return [b for b in ways if 2 <= b.d <= limits.widest_block and b.k <= limits.most_blocks]


def scalars_beside(n: int) -> list[ColumnBlocks]:
    """Vectors of two or three columns with a scalar for each, before them all or behind.

    Example:
        >>> [(blocks.k, blocks.d, blocks.rest) for blocks in scalars_beside(8)]
        [(2, 3, (0, 1)), (2, 3, (6, 7))]
    """
    found = []
    for d in (2, 3):
        k = n // (d + 1)
        if k < 2 or n % (d + 1):
            continue
        for start in (k, 0):
            columns = tuple(tuple(range(start + d * p, start + d * p + d)) for p in range(k))
            rest = tuple(c for c in range(n) if not start <= c < start + d * k)
            words = f"{k} scalars beside {k} vectors of {d} columns"
            found.append(ColumnBlocks(columns, tuple(f"v{c}" for c in range(d)), rest, words))
    return found


def invariant_features(data: TaskData) -> tuple[InvariantFeatures, float] | None:
    """The invariants that predict a target best, and the share of the variance that they leave.

    Returns:
        None where there are no blocks to look at.
    """
    if data.task != "regression":
        return None
    limits = PredictorThresholds.now()
    x, y = (part[: limits.invariants_chosen_on] for part in (data.x, data.y))
    best: tuple[InvariantFeatures, float] | None = None
    for features in list(_ways(data))[: limits.ways_to_see_blocks]:
        z = features(x)
        z = (z - z.mean(0)) / z.std(0).clamp_min(1e-12)
        left = choose_kernel(z, y - y.mean(0)).left
        if best is None or left < best[1]:
            best = features, left
    return best


def invariant_predictor(data: TaskData, seed: int) -> FreePredictor | None:
    """Kernel regression on invariants, and a free predictor of what it leaves."""
    found = invariant_features(data)
    if found is None:
        return None
    features = found[0]
    share, rng = PredictorThresholds.now().held_out, make_generator(seed)
    rest, hold = map(torch.as_tensor, held_out_rows(len(data.x), share, data.groups, rng))
    x, y = data.x[rest], data.y[rest]
    z = features(x)
    unit = (z - z.mean(0)) / z.std(0).clamp_min(1e-12)
    choice = choose_kernel(unit, y - y.mean(0))
    half = len(rest) // 2
    # what is left of rows that it was not fitted to
    cross = [
        fit_kernel(z[part], y[part], choice) for part in (slice(half, None), slice(None, half))
    ]
    left = y - torch.cat([cross[0](z[:half]), cross[1](z[half:])])
    beyond = fit_free_predictor(
        x,
        left,
        "regression",
        groups=None if data.groups is None else data.groups[rest.numpy()],
        channels=data.arrangement.channels,
        seed=seed,
    )
    whole = fit_kernel(z, y, choice)

    def predict(rows: Tensor) -> Tensor:
        rows = rows.double()
        return whole(features(rows)) + beyond.predict(rows)

    constant = data.y.mean(0)
    with torch.no_grad():
        losses = [
            float(sample_losses(p, data.y[hold], "regression").mean())
            for p in (predict(data.x[hold]), constant.expand(len(hold), -1))
        ]
    kind = f"kernel of {'distances' if features.action.shifts else 'products'} of blocks"
    return FreePredictor(
        f"{kind} and {beyond.kind}", predict, constant, losses[0] / max(losses[1], 1e-300)
    )


def _ways(data: TaskData) -> Iterator[InvariantFeatures]:
    columns = data.x.shape[1]
    for blocks in seen_blocks(data):
        for action in usual_actions(blocks.d, shifts=blocks.k > 2):
            yield InvariantFeatures(blocks, action)
    if 2 <= columns <= PredictorThresholds.now().widest_block:
        everything = ColumnBlocks(
            (tuple(range(columns)),), tuple(f"x{c}" for c in range(columns)), (), "all columns"
        )
        for action in usual_actions(columns, shifts=False):
            yield InvariantFeatures(everything, action)
