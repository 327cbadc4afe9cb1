"""What a group costs functions that have nothing to do with it: the yardstick of coincidence."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from isotropy.naming._pair_group import PairGroup

Labels = NDArray[np.int64]

_DRAWS = 500
# of maps whose eigenvalues are worth finding
_MOST_ENTRIES = 400


def chance_of_cost(
    labels: Labels, gram: NDArray[np.float64], cost: float, *, draws: int = _DRAWS
) -> float:
    """How often a random linear map costs so little to share.

    Maps G with independent normal entries are replaced by their means over blocks; that costs
    ‖(G − mean)x‖² of ‖Gx‖², over inputs whose second moments are given. Where inputs are
    correlated this is little for most maps, and a small cost says nothing.

    Args:
        labels: The block of each entry, shape ``(m, n)``; −1 for entries that are zero.
        gram: Second moments of inputs, shape ``(n, n)``.
        cost: The share of ‖Gx‖².
        draws: How many maps to draw; the seed is fixed.

    Returns:
        A bound on the share of maps that cost no more: what the draws show, at least
        1/(draws + 1), or Chernoff's bound where that is less.

    Example:
        >>> chance_of_cost(np.zeros((1, 4), dtype=np.int64), np.eye(4), 1.0)
        1.0
        >>> chance_of_cost(np.zeros((1, 8), dtype=np.int64), np.eye(8), 0.05) < 0.01
        True
    """
    live = labels >= 0
    if not live.any():
        return 1.0
    _, block = np.unique(labels[live], return_inverse=True)
    rng = np.random.default_rng(0)
    values = rng.normal(size=(draws, int(live.sum())))
    sums = coo_matrix((np.ones(len(block)), (np.arange(len(block)), block))).tocsr()
    means = (values @ sums) / np.bincount(block)
    apart = _energy(values - means[:, block], live, gram)
    whole = _energy(values, live, gram)
    within = int((apart <= cost * whole * (1 + 1e-12)).sum())
    shown = min(1.0, (within + 1) / (draws + 1))
    if len(block) > _MOST_ENTRIES:
        return shown
    # one draw in hundreds says little of a chance in a hundred thousand, the bound holds always
    return min(shown, _chernoff(block, live, gram, cost))


def _chernoff(
    block: Labels, live: NDArray[np.bool_], gram: NDArray[np.float64], cost: float
) -> float:
    """Chernoff's bound of P(‖(G − mean)x‖² ≤ cost · ‖Gx‖²): the least E exp(−tQ).

    Q = ‖(G − mean)x‖² − cost ‖Gx‖² is a quadratic form of normal entries, with eigenvalues λ,
    and E exp(−tQ) = Π (1 + 2tλ)^(−1/2) as long as that is finite.
    """
    outputs, inputs = np.nonzero(live)
    form = gram[np.ix_(inputs, inputs)] * (outputs[:, None] == outputs)
    same = block[:, None] == block
    apart = np.eye(len(block)) - same / same.sum(1)
    values = np.linalg.eigvalsh(apart @ form @ apart - cost * form)
    smallest = 1e-12 * float(np.abs(values).max(initial=0.0))
    if values[0] >= -smallest:
        return 0.0 if values[0] > smallest else 1.0
    times: NDArray[np.float64] = np.linspace(0, 1, 400)[1:-1] / (-2 * values[0])
    bounds = -0.5 * np.log1p(2 * times[:, None] * values).sum(1)
    return float(np.exp(min(0.0, bounds.min())))


def orbits_of_pairs(group: PairGroup) -> Labels:
    """The orbit of each pair of an output and an input, shape ``(m, n)``.

    Example:
        >>> shift = np.roll(np.arange(3), -1)
        >>> orbits_of_pairs(PairGroup(((shift, shift),), 3, 3)).tolist()
        [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
    """
    n, m = group.inputs, group.outputs
    cells = np.arange(n * m).reshape(m, n)
    there = [cells[np.ix_(b, a)].ravel() for a, b in group.generators]
    here = np.tile(cells.ravel(), len(there))
    links = coo_matrix((np.ones(len(here)), (here, np.concatenate(there))), (n * m, n * m))
    labels: Labels = connected_components(links, directed=False)[1].astype(np.int64)
    return labels.reshape(m, n)


def _energy(
    values: NDArray[np.float64], live: NDArray[np.bool_], gram: NDArray[np.float64]
) -> NDArray[np.float64]:
    """‖Gx‖² for maps that are given by their live entries, shape ``(draws,)``."""
    maps = np.zeros((len(values), *live.shape))
    maps[:, live] = values
    energy: NDArray[np.float64] = ((maps @ gram) * maps).sum((1, 2))
    return energy
