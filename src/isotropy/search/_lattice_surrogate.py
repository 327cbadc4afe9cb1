"""What scores so far say of networks not trained yet: Bayesian regression on closed sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.nn._grid_network import grid_sharing
from isotropy.search._space import SearchSpace, State

_SPREAD = 10.0  # percentage points below the best from which on all networks are equally useless
_NOISE = 0.5  # percentage points: a seed's effect and a thousand validation rows' together
# Deviations of main effects of groups, of joint effects, and of the number of weights, in points.
_MAIN, _JOINT, _SIZE = (1.0, 3.0), (0.5, 1.5), (1.0, 4.0)


def predict(
    space: SearchSpace, scores: Mapping[State, float], asked: Sequence[State]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Means and deviations of the validation accuracy of networks, in points below the best.

    A Gaussian process with three parts: an effect of every group, added up; effects of groups
    together, similar where sets differ in few groups; and a smooth effect of the logarithm of the
    number of weights, for too few cannot learn. Their sizes are those of the largest marginal
    likelihood on a grid. Losses are squashed at ten points: how bad a bad network is says nothing
    of good ones. The noise stays fixed, for no network is trained twice.

    Args:
        space: Where networks come from.
        scores: Accuracy, a share, of networks trained in full; at least one.
        asked: Networks to predict.

    Returns:
        Means and deviations, each of shape (asked,); the best score so far is near 0.
    """
    known = list(scores)
    values = np.array([scores[one] for one in known]) * 100
    target = -_SPREAD * np.tanh((values.max() - values) / _SPREAD)
    centre = target.mean()
    seen, new = _features(space, known), _features(space, asked)
    among, across = _parts(seen, seen), _parts(seen, new)
    alone = np.stack([(new[:, :-1] ** 2).sum(-1), np.ones(len(new)), np.ones(len(new))])
    best: tuple[float, NDArray[Any], NDArray[Any]] | None = None
    for sizes in product(_MAIN, _JOINT, _SIZE):
        variances = np.square(sizes)
        kernel = np.tensordot(variances, among, 1)
        factor = np.linalg.cholesky(kernel + _NOISE**2 * np.eye(len(known)))
        white = np.linalg.solve(factor, target - centre)
        evidence = -0.5 * float(white @ white) - float(np.log(np.diag(factor)).sum())
        if best is None or evidence > best[0] + 1e-9:
            shared = np.linalg.solve(factor, np.tensordot(variances, across, 1))
            left = np.maximum(variances @ alone - (shared**2).sum(0), 1e-12)
            best = evidence, centre + shared.T @ white, np.sqrt(left)
    assert best is not None
    return best[1], best[2]


@lru_cache(maxsize=1 << 14)
def weights(space: SearchSpace, network: State) -> int:
    """How many different weights the hidden layers of a network have."""
    layers = grid_sharing(space.transformations(network), space.grids(network))
    return sum(int(layer.max()) + 1 for layer in layers)


def _features(space: SearchSpace, networks: Sequence[State]) -> NDArray[Any]:
    """A row for each network: its groups as bits, its hidden grids as bits, its size."""
    rows = [
        [
            *(float(name in one.groups) for name in space.groups),
            *(float(one.hidden == k) for k in range(len(space.hidden))),
            np.log(weights(space, one)),
        ]
        for one in networks
    ]
    return np.array(rows).reshape(len(rows), len(space.groups) + len(space.hidden) + 1)


def _parts(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    """The three parts of the kernel with variance one: of groups, of sets, of sizes."""
    shared = a[:, :-1] @ b[:, :-1].T
    differing = (a[:, :-1] ** 2).sum(-1)[:, None] + (b[:, :-1] ** 2).sum(-1) - 2 * shared
    apart = a[:, None, -1] - b[None, :, -1]
    return np.stack([shared, np.exp(-differing / 2), np.exp(-(apart**2) / 2)])
