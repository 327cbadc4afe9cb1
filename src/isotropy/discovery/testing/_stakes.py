"""What averaging over a group costs, column by column, against what is at stake there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery.claims._signed_permutation import SignedPermutation

Floats = NDArray[np.float64]
Predict = Callable[[Tensor], Tensor]

# an increment takes part if what moves explains at least this share of its variance
LEAST_RELEVANT = 0.02
_STANDARD_ERRORS = 3.0
# errors are counted up to three deviations: collisions are rare, large, and hardly learned
_LARGEST = 9.0


@dataclass(frozen=True)
class ColumnLosses:
    """Capped squared errors of three predictors of increments, shape (rows, n) each.

    A symmetry that moves few entries costs little of all that can be learned, whether it holds or
    not. So its cost is held against what it could cost: the loss of a predictor that knows nothing
    of the entries that move. It has the mean of increments that move; and for those that stay, the
    free prediction with all inputs that move taken from another row, or the mean where that is
    better.

    Args:
        symmetrised: Of the free predictor averaged over the group.
        free: Of the free predictor.
        blind: Of the one that knows nothing of what moves.
    """

    symmetrised: Floats
    free: Floats
    blind: Floats

    @staticmethod
    @torch.no_grad()
    def of(
        predict: Predict,
        elements: Sequence[SignedPermutation],
        x: Tensor,
        increments: Tensor,
        *,
        constant: Tensor,
        spread: Tensor,
        seed: int = 0,
    ) -> ColumnLosses:
        """The losses on some rows.

        Example:
            >>> x = torch.randn(200, 2, generator=torch.Generator().manual_seed(0)).double()
            >>> flip = SignedPermutation((0, 1), (-1, -1))
            >>> group = [SignedPermutation.identity(2), flip]
            >>> losses = ColumnLosses.of(
            ...     lambda x: x[:, :1] * x[:, 1:] ** 2,
            ...     group,
            ...     x,
            ...     x[:, :1] * x[:, 1:] ** 2,
            ...     constant=torch.zeros(1),
            ...     spread=torch.ones(1),
            ... )
            >>> losses.effects()
            array([0.])
        """
        n = increments.shape[1]
        free = predict(x)
        total = torch.zeros_like(free)
        moves = np.zeros(x.shape[1], dtype=bool)
        for element in elements:
            index, sign = torch.tensor(element.index), torch.tensor(element.sign).to(x)
            moves |= (index.numpy() != np.arange(len(index))) | (sign.numpy() < 0)
            if element.is_identity:
                total += free
                continue
            image = torch.empty_like(x)
            image[:, index] = x * sign
            # entry i of the image's increment is at its place, with its sign
            total += predict(image)[:, index[:n]] * sign[:n]
        blind = losses_without(
            predict,
            np.flatnonzero(moves),
            x,
            increments,
            constant=constant,
            spread=spread,
            seed=seed,
        )
        ignorant = capped_errors(constant, increments, spread)
        return ColumnLosses(
            capped_errors(total / len(elements), increments, spread),
            capped_errors(free, increments, spread),
            np.where(moves[:n], ignorant, blind),
        )

    @property
    def stakes(self) -> Floats:
        """The mean of what is lost without the entries that move, shape (n,)."""
        stakes: Floats = (self.blind - self.free).mean(0)
        return stakes

    def effects(self, columns: Sequence[NDArray[np.int64]] | None = None) -> Floats:
        """The cost as a share of what is at stake, for each set of columns; all by default."""
        cost, stakes = (self.symmetrised - self.free).mean(0), self.stakes
        sets = columns if columns is not None else [np.arange(len(stakes))]
        return np.array([float(cost[c].sum()) / max(float(stakes[c].sum()), 1e-12) for c in sets])

    def noise(self, columns: Sequence[NDArray[np.int64]]) -> Floats:
        """The standard errors of the effects, for rows that are independent."""
        cost, stakes = self.symmetrised - self.free, self.stakes
        errors = [float(cost[:, c].sum(1).std()) / len(cost) ** 0.5 for c in columns]
        sizes = [max(float(stakes[c].sum()), 1e-12) for c in columns]
        shares: Floats = np.array(errors) / np.array(sizes)
        return shares


@torch.no_grad()
def losses_without(
    predict: Predict,
    columns: NDArray[np.int64],
    x: Tensor,
    increments: Tensor,
    *,
    constant: Tensor,
    spread: Tensor,
    seed: int = 0,
) -> Floats:
    """Losses of the free predictor with some inputs taken from other rows, shape (rows, n).

    In columns where a constant does better it is that: what was not learned cannot be lost.
    """
    order = torch.randperm(len(x), generator=make_generator(seed))
    without = x.clone()
    without[:, columns] = x[order][:, columns]
    lost = capped_errors(predict(without), increments, spread)
    ignorant = capped_errors(constant, increments, spread)
    return np.where(lost.mean(0) > ignorant.mean(0), ignorant, lost)


def output_orbits(elements: Sequence[SignedPermutation], n: int) -> list[NDArray[np.int64]]:
    """The first ``n`` entries, those together that the group exchanges.

    Example:
        >>> swap = SignedPermutation((1, 0, 2), (1, 1, -1))
        >>> [orbit.tolist() for orbit in output_orbits([swap], 3)]
        [[0, 1], [2]]
    """
    found: dict[tuple[int, ...], None] = {}
    for i in range(n):
        found[tuple(sorted({i, *(element.index[i] for element in elements)}))] = None
    return [np.array(orbit) for orbit in found]


def relevant_orbits(
    losses: ColumnLosses, orbits: Sequence[NDArray[np.int64]]
) -> list[NDArray[np.int64]]:
    """The orbits of increments that depend on what moves."""
    lost = losses.blind - losses.free
    found = []
    for orbit in orbits:
        each = lost[:, orbit].mean(1)
        noise = _STANDARD_ERRORS * float(each.std()) / len(each) ** 0.5
        if float(each.mean()) > max(LEAST_RELEVANT, noise):
            found.append(orbit)
    return found


def capped_errors(prediction: Tensor, increments: Tensor, spread: Tensor) -> Floats:
    """Squared errors in deviations, none above nine, shape (rows, n)."""
    error = ((prediction.double() - increments) / spread).square()
    errors: Floats = error.clamp_max(_LARGEST).numpy()
    return errors
