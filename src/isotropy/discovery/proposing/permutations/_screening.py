"""What symmetries cost a predictor, on rows that it was not fitted to.

What a group costs functions that have nothing to do with it: the yardstick of coincidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor
from torch.nn import functional

from isotropy._run import generator as make_generator
from isotropy.discovery.predictors._free_predictor import held_out_rows, sample_losses
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._average_test import average_test
from isotropy.discovery.testing._claim_test import SMALLEST_SAMPLE, ClaimTest
from isotropy.naming._pair_group import PairGroup

Labels = NDArray[np.int64]


def chance_of_cost(
    labels: Labels, gram: NDArray[np.float64], cost: float, *, draws: int | None = None
) -> float:
    """How often a random linear map costs so little to share.

    Maps G with independent normal entries are replaced by their means over blocks; that costs
    ‖(G − mean)x‖² of ‖Gx‖², over inputs whose second moments are given. Where inputs are
    correlated this is little for most maps, and a small cost says nothing.

    Args:
        labels: The block of each entry, shape ``(m, n)``; −1 for entries that are zero.
        gram: Second moments of inputs, shape ``(n, n)``.
        cost: The share of ‖Gx‖².
        draws: How many maps to draw, by default as many as the thresholds say; the seed is fixed.

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
    draws = draws or ProposingThresholds.now().coincidence_draws
    values = rng.normal(size=(draws, int(live.sum())))
    sums = coo_matrix((np.ones(len(block)), (np.arange(len(block)), block))).tocsr()
    means = (values @ sums) / np.bincount(block)
    apart = _energy(values - means[:, block], live, gram)
    whole = _energy(values, live, gram)
    within = int((apart <= cost * whole * (1 + 1e-12)).sum())
    shown = min(1.0, (within + 1) / (draws + 1))
    if len(block) > ProposingThresholds.now().block_entries:
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


class Screening:
    """A free predictor fitted to most rows, and what symmetries cost on the others.

    Attributes:
        free: The predictor.
    """

    def __init__(self, data: TaskData, margin: float, seed: int) -> None:
        limits = ProposingThresholds.now()
        self.margin = margin
        self.rng = make_generator(seed)
        rest, held = held_out_rows(
            len(data.x),
            limits.screening_held_out,
            data.groups,
            self.rng,
            least=SMALLEST_SAMPLE,
        )
        fitted = data.rows(rest)
        self.data = data.rows(held[: limits.screening_rows])
        self.free = fitted.free_predictor(seed)
        self._last: tuple[PairGroup, ClaimTest] | None = None
        with torch.no_grad():
            self._predicted = self.free.predict(self.data.x)
            self._free = self._losses(self._predicted)
            constant = self.free.constant.expand(len(self.data.x), -1)
            self._constant = self._losses(constant)
        self._learned = float((self._constant - self._free).mean())

    def cost(self, group: PairGroup) -> float:
        """What averaging over a group costs, as a share of what can be learned.

        The gain of evening out errors is not counted (``average_test``).
        """
        effect = self._test(group).effect
        return inf if np.isnan(effect) else effect

    @torch.no_grad()
    def swap_costs(self, *, outputs: bool) -> NDArray[np.float64]:
        """What swapping two positions costs, as a share of what each of the two does.

        With d = (f − f∘swap)/2 it is E[(y − f + d) d], which errors of f do not change, over
        the mean square of how f changes where the two are exchanged between rows.

        Returns:
            Shape ``(n, n)``, zero on the diagonal. Two unrelated positions cost about 1/4.
        """
        a = self.data.arrangement
        n = a.inputs
        rows = self.data.rows(np.arange(len(self.data.x))[: _swap_rows(n)])
        x = rows.x.unflatten(1, (a.channels, n))
        before = self.free.predict(rows.x)
        left = _numbers(rows) - _values(before, rows)
        order = torch.randperm(len(x), generator=self.rng)
        weights = np.empty(n)
        for i in range(n):
            changed = x.clone()
            changed[:, :, i] = x[order][:, :, i]
            moved = _values(self.free.predict(changed.flatten(1)), rows)
            weights[i] = float((moved - _values(before, rows)).square().sum())
        costs = np.zeros((n, n))
        for i in range(n):
            for j in range(i):
                swap = torch.arange(n)
                swap[[i, j]] = swap[[j, i]]
                moved = self.free.predict(x[:, :, swap].flatten(1))
                if outputs:
                    moved = moved.unflatten(1, (a.output_channels, n))[:, :, swap].flatten(1)
                apart = (_values(before, rows) - _values(moved, rows)) / 2
                whole = max(weights[i] + weights[j], 1e-300)
                costs[i, j] = costs[j, i] = float(((left + apart) * apart).sum()) / whole
        return costs

    def ignored(self) -> tuple[int, ...]:
        """Positions of the input whose values can be exchanged between rows at no cost.

        Where many positions say the same, none of them is missed by itself: those that matter least
        are ignored, as long as all of them together are not missed either.
        """
        limits = ProposingThresholds.now()
        n = self.data.arrangement.inputs
        least = min(limits.coarsest_cost, limits.little_used / n)
        costs = [self._cost_of_exchange([position]) for position in range(n)]
        found = sorted((p for p in range(n) if costs[p] < least), key=costs.__getitem__)
        while len(found) > 1 and self._cost_of_exchange(found) >= limits.coarsest_cost:
            found = found[: len(found) // 2]
        return tuple(sorted(found))

    @torch.no_grad()
    def _cost_of_exchange(self, positions: Sequence[int]) -> float:
        """What it costs that values at some positions come from another row."""
        a = self.data.arrangement
        x = self.data.x.clone().unflatten(1, (a.channels, a.inputs))
        order = torch.randperm(len(x), generator=self.rng)
        at = torch.tensor(positions)
        x[:, :, at] = x[order][:, :, at]
        return self._share(self._losses(self.free.predict(x.flatten(1))))

    def chance(
        self, group: PairGroup, ignored: tuple[int, ...], among: float, cost: float | None = None
    ) -> float:
        """How often some group of those tried costs a random linear function as little.

        Args:
            group: The group.
            ignored: Positions that do not matter.
            among: How many groups were tried, or might have been.
            cost: As little as what; by default as the upper limit of what the group costs here.
        """
        limits = ProposingThresholds.now()
        a = self.data.arrangement
        upper = self._test(group).interval[1] if cost is None else cost
        if not upper < inf:
            return 1.0
        labels = orbits_of_pairs(group)
        labels[:, list(ignored)] = -1
        x = self.data.x.unflatten(1, (a.channels, a.inputs)).numpy()
        x = _in_units_of_orbits(x, group.orbits()[0])
        gram = np.einsum("rci,rcj->ij", x, x)
        finest = min(
            max(self.free.unexplained / 2, limits.finest_cost),
            limits.coarsest_cost,
        )
        share = chance_of_cost(labels, gram, max(upper, finest))
        return min(1.0, among * share)

    @torch.no_grad()
    def _test(self, group: PairGroup) -> ClaimTest:
        """The cost of a group; of the last one it is known."""
        if self._last is None or self._last[0] is not group:
            a = self.data.arrangement
            averages = group.averages(
                self.free.predict,
                self.data.x,
                a.channels,
                a.output_channels,
                elements=ProposingThresholds.now().screening_elements,
                generator=self.rng,
            )
            test = average_test(
                self._predicted,
                averages,
                self.data.y,
                self.data.task,
                constant=self.free.constant,
                margin=self.margin,
                groups=self.data.groups,
            )
            self._last = group, test
        return self._last[1]

    def _losses(self, prediction: Tensor) -> NDArray[np.float64]:
        losses: NDArray[np.float64] = sample_losses(prediction, self.data.y, self.data.task).numpy()
        return losses

    def _share(self, losses: NDArray[np.float64]) -> float:
        if self._learned <= 0:
            return inf
        return float((losses - self._free).mean()) / self._learned


def _in_units_of_orbits(x: NDArray[np.float64], orbit: NDArray[np.int64]) -> NDArray[np.float64]:
    """Columns about their means, with one scale for all that a group exchanges.

    What other columns are measured in, years or millimetres, then does not matter.
    """
    centred = x - x.mean(0)
    _, orbit = np.unique(orbit, return_inverse=True)
    count = np.bincount(orbit)
    variances = np.stack([np.bincount(orbit, v) / count for v in (centred**2).mean(0)])
    scales = np.sqrt(variances)[:, orbit]
    constant = scales <= 1e-12 * np.abs(x).max(0)  # but for rounding
    scaled: NDArray[np.float64] = np.where(constant, 0.0, centred / np.where(constant, 1, scales))
    return scaled


def _swap_rows(n: int) -> int:
    """All rows for few positions, fewer for many pairs of them."""
    return int(max(60, ProposingThresholds.now().screening_rows * min(1.0, (12 / n) ** 2)))


def _values(prediction: Tensor, data: TaskData) -> Tensor:
    """Predicted numbers, or probabilities of classes."""
    return prediction.softmax(1) if data.task == "classification" else prediction


def _numbers(data: TaskData) -> Tensor:
    """Targets as numbers, or indicators of classes."""
    if data.task == "classification":
        return functional.one_hot(data.y, data.arrangement.outputs).double()
    return data.y
