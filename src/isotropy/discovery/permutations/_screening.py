"""What symmetries cost a predictor, on rows that it was not fitted to."""

from __future__ import annotations

from math import inf

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import generator as make_generator
from isotropy.discovery._task_data import TaskData
from isotropy.discovery.confirming._claim_test import SMALLEST_SAMPLE, claim_test
from isotropy.discovery.confirming._free_predictor import (
    held_out_rows,
    sample_losses,
)
from isotropy.discovery.naming._pair_group import PairGroup
from isotropy.discovery.permutations._random_costs import chance_of_cost, orbits_of_pairs

_ELEMENTS = 24
_MOST_ROWS = 2000
_HELD_OUT = 0.3
# the least cost that a predictor can be trusted to tell from none
_RESOLUTION = 0.01


class Screening:
    """A free predictor fitted to most rows, and what symmetries cost on the others.

    Args:
        data: The rows.
        margin: What a symmetry may cost.
        seed: Of the split, the predictor and random elements.

    Attributes:
        free: The predictor.
    """

    def __init__(self, data: TaskData, margin: float, seed: int) -> None:
        self.margin = margin
        self.rng = make_generator(seed)
        rest, held = held_out_rows(
            len(data.x), _HELD_OUT, data.groups, self.rng, least=SMALLEST_SAMPLE
        )
        fitted = data.rows(rest)
        self.data = data.rows(held[:_MOST_ROWS])
        self.free = fitted.free_predictor(seed)
        with torch.no_grad():
            self._free = self._losses(self.free.predict(self.data.x))
            constant = self.free.constant.expand(len(self.data.x), -1)
            self._constant = self._losses(constant)
        self._learned = float((self._constant - self._free).mean())

    def cost(self, group: PairGroup) -> float:
        """What averaging over a group costs, as a share of what can be learned."""
        return self._share(self._averaged(group))

    def ignored(self) -> tuple[int, ...]:
        """Positions of the input whose values can be exchanged between rows at no cost."""
        a = self.data.arrangement
        found = []
        for position in range(a.inputs):
            x = self.data.x.clone().unflatten(1, (a.channels, a.inputs))
            order = torch.randperm(len(x), generator=self.rng)
            x[:, :, position] = x[order][:, :, position]
            with torch.no_grad():
                losses = self._losses(self.free.predict(x.flatten(1)))
            if self._share(losses) < _RESOLUTION:
                found.append(position)
        return tuple(found)

    def chance(self, group: PairGroup, ignored: tuple[int, ...], among: int) -> float:
        """How often some group of those tried costs a random linear function as little.

        Args:
            group: The group.
            ignored: Positions that do not matter, and do not count.
            among: How many groups are tried whatever the data.
        """
        a = self.data.arrangement
        test = claim_test(
            self._averaged(group),
            self._free,
            self._constant,
            margin=self.margin,
            groups=self.data.groups,
        )
        upper = test.interval[1]
        if not upper < inf:
            return 1.0
        labels = orbits_of_pairs(group)
        labels[:, list(ignored)] = -1
        x = self.data.x.unflatten(1, (a.channels, a.inputs))
        x = (x - x.mean((0, 2), keepdim=True)).numpy()
        gram = np.einsum("rci,rcj->ij", x, x)
        share = chance_of_cost(labels, gram, max(upper, _RESOLUTION))
        return min(1.0, among * share)

    @torch.no_grad()
    def _averaged(self, group: PairGroup) -> NDArray[np.float64]:
        a = self.data.arrangement
        return self._losses(
            group.averaged(
                self.free.predict,
                self.data.x,
                a.channels,
                a.output_channels,
                elements=_ELEMENTS,
                generator=self.rng,
            )
        )

    def _losses(self, prediction: Tensor) -> NDArray[np.float64]:
        losses: NDArray[np.float64] = sample_losses(prediction, self.data.y, self.data.task).numpy()
        return losses

    def _share(self, losses: NDArray[np.float64]) -> float:
        if self._learned <= 0:
            return inf
        return float((losses - self._free).mean()) / self._learned
