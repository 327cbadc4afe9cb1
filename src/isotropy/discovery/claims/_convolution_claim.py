"""Convolutions with ends: a sharing of weights along diagonals that no group explains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy._run import Patience
from isotropy.discovery.claims._claim import Claim, FittedModel
from isotropy.discovery.claims._statement import Statement, WeightDetails
from isotropy.discovery.modelling._finding_models import error_of_model
from isotropy.discovery.modelling._standardised import build_model
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.discovery.testing._tested import Tested
from isotropy.naming._naming import SharingName
from isotropy.naming._pair_group import PairGroup
from isotropy.nn import SharedLinear
from isotropy.sharing._brute_force import shared_solutions
from isotropy.sharing._partition_evidence import LeastSquares


@dataclass(frozen=True, eq=False)
class ConvolutionClaim(Claim):
    """A linear map whose weights are equal along diagonals.

    Args:
        labels: The block of each weight, shape (m, n).
        name: What the partition is called.
        data: How rows are laid out, and what columns are called.
        chance: A bound on the probability of such a sharing by coincidence.
    """

    labels: NDArray[np.int64]
    name: SharingName
    data: TaskData
    chance: float | None = None

    @cached_property
    def statement(self) -> Statement:
        """What is claimed."""
        return Statement(
            name=self.name.name,
            group="Trivial(1)" if self.name.group is None else str(self.name.group),
            action=self.name.action,
            method="diagonals of a linear map",
            order=self.name.order,
            symmetry=self.name.symmetry,
            layout=self.data.layout,
            input_names=self.data.input_names or (),
            output_names=self.data.output_names or (),
            details=WeightDetails(self.labels),
        )

    def contains_permutations(self, group: PairGroup) -> bool:
        """What turns a filter around is part of its finding."""
        m, n = self.labels.shape
        return PairGroup(self.name.generators, n, m).contains(group)

    @classmethod
    def chosen(
        cls, own: Sequence[Tested], beside: Sequence[Tested], bench: Bench, patience: Patience
    ) -> list[Tested]:
        """None where the filter goes all around, as circular shifts say."""
        del bench, patience
        why = "shifts around all positions hold, and say more"
        return [
            one.withdrawn(why) if any(_is_circular(other, one.claim) for other in beside) else one
            for one in own
        ]

    def test(self, bench: Bench, generator: torch.Generator) -> Tested:
        """Hold the least-squares map that shares against the free predictor."""
        del generator
        fitted, outside = bench.problem.fitted, bench.problem.outside
        assert isinstance(fitted, TaskData)
        assert isinstance(outside, TaskData)
        weight, offset = self._solved(fitted)
        predicted = outside.x @ weight.T + offset
        given = {"margin": bench.margin, "level": bench.level}
        return Tested(self, outside.cost_test(predicted, bench.free, **given))

    def fit(self, rows: TaskData, free: FreePredictor, seed: int, *, softened: bool) -> FittedModel:
        """A linear layer that shares its weights."""
        del free, seed, softened
        weight, offset = self._solved(rows)
        spec = {"kind": "shared linear"}
        layer = build_model(spec, labels=self.labels)
        assert isinstance(layer, SharedLinear)
        assert layer.bias_coefficients is not None
        firsts = np.unique(self.labels, return_index=True)[1]
        with torch.no_grad():
            layer.coefficients.copy_(weight.flatten()[firsts])
            layer.bias_coefficients.copy_(offset)
        return layer.eval(), spec

    def equivariance_error(self, model: torch.nn.Module, rows: TaskData, seed: int) -> float | None:
        """That under what turns the filter around, where there is anything."""
        if self.name.symmetry is None:
            return None
        return error_of_model(model, rows.x, self.name.symmetry, seed)

    def _solved(self, rows: TaskData) -> tuple[Tensor, Tensor]:
        """The least-squares map that shares, and its offset, equal at all outputs."""
        x_mean, y_mean = rows.x.mean(0), rows.y.mean(0)
        problem = LeastSquares.of(rows.x - x_mean, rows.y - y_mean)
        weight = shared_solutions(problem, self.labels.reshape(1, -1))[0]
        return weight, (y_mean - weight @ x_mean).mean().expand(len(y_mean))


def _is_circular(other: Tested, claim: Claim) -> bool:
    """Whether another claim that stands has the cyclic shifts of inputs and outputs."""
    assert isinstance(claim, ConvolutionClaim)
    m, n = claim.labels.shape
    shift = np.roll(np.arange(n), -1)
    shifts = PairGroup(((shift, shift),), n, n)
    return m == n and other.reported and other.claim.contains_permutations(shifts)
