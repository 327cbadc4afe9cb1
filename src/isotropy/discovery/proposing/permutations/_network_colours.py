"""Permutation symmetries read off a predictor of any kind: swaps of columns, and its gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from torch import Tensor

from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._task_data import Arrangement
from isotropy.naming._automorphisms import automorphisms
from isotropy.naming._pair_group import PairGroup, symmetric
from isotropy.sharing._partition_search import cluster_values


def swap_symmetries(
    costs: Callable[..., NDArray[np.float64]], arrangement: Arrangement
) -> Iterator[PairGroup]:
    """Groups of all permutations within classes of positions that may be swapped.

    Args:
        costs: What swapping two positions costs, as a share of what both do; called with
            ``outputs``, whether outputs are swapped along.
        arrangement: Positions of inputs and outputs.
    """
    limits = ProposingThresholds.now()
    n, m = arrangement.inputs, arrangement.outputs
    if not 2 < n <= limits.swapped_positions:
        return
    for both in [False, True] if m == n and not arrangement.fixed_outputs else [False]:
        apart = squareform(np.maximum(costs(outputs=both), 0.0), checks=False)
        tree = linkage(apart, "complete")
        seen: list[set[frozenset[int]]] = []
        for cost in limits.equal_swaps:
            labels = fcluster(tree, cost, "distance")
            blocks = [np.flatnonzero(labels == label).tolist() for label in np.unique(labels)]
            kinds = {frozenset(block) for block in blocks if len(block) > 1}
            if kinds and kinds not in seen:
                seen.append(kinds)
                moves = symmetric(blocks, n)
                yield PairGroup(tuple((p, p if both else np.arange(m)) for p in moves), n, m)


def gradient_symmetries(
    predict: Callable[[Tensor], Tensor], x: Tensor, arrangement: Arrangement
) -> Iterator[PairGroup]:
    """Automorphisms of the moments of the Jacobian, clustered more and more coarsely.

    Where inputs are distributed equally at all positions of an orbit, E[∂_i f · ∂_j f] is equal
    along orbits of pairs (i, j), and E[J_ij], E[J_ij²] along those of (output, input).
    """
    limits = ProposingThresholds.now()
    n, m = arrangement.inputs, arrangement.outputs
    if n > limits.gradient_positions:
        return
    rows = x[: limits.gradient_rows].double()

    def one(row: Tensor) -> Tensor:
        return predict(row[None])[0].double()

    jacobian = torch.func.vmap(torch.func.jacrev(one))(rows)
    blocks = jacobian.unflatten(2, (arrangement.channels, n)).unflatten(
        1, (arrangement.output_channels, m)
    )
    alone = arrangement.fixed_outputs or m == 1
    flat = blocks.flatten(1, 2)
    inner = torch.einsum("rkai,rkaj->rij", flat, flat)
    first = blocks.sum((1, 3))
    second = blocks.square().sum((1, 3))
    seen: list[PairGroup] = []
    for times in limits.coarser_gradients:
        if alone:
            found = automorphisms(
                _classes(inner, times),
                tied=True,
                input_colours=_classes(flat.square().sum((1, 2)), times),
            )
            pairs = [(moved, np.arange(m)) for moved, _ in found.generators]
        else:
            one_, two = _classes(first, times), _classes(second, times)
            found = automorphisms(one_ * (two.max() + 1) + two)
            pairs = list(found.generators)
        group = PairGroup(tuple((np.asarray(a), np.asarray(b)) for a, b in pairs), n, m)
        if group.order > 1 and not any(group.equals(g) for g in seen):
            seen.append(group)
            yield group


def _classes(samples: Tensor, times: float) -> NDArray[np.int64]:
    """Which means over the first axis are equal, their errors taken ``times`` larger, squared."""
    mean = samples.mean(0)
    variance = samples.var(0) / len(samples) * times
    floor = 1e-10 * float(mean.square().mean()) + 1e-300
    scale = float(mean.square().mean().sqrt()) + 1e-300
    labels = cluster_values(mean.numpy().ravel(), variance.numpy().ravel().clip(floor), scale)
    return labels.reshape(tuple(mean.shape))
