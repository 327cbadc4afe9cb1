"""Convolutions with ends: equal coefficients along the diagonals of a linear fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray

from isotropy.discovery.claims._convolution_claim import ConvolutionClaim
from isotropy.discovery.proposing._proposer import Proposal, Proposer, Tell, Tried
from isotropy.discovery.proposing._proposing_thresholds import ProposingThresholds
from isotropy.discovery.proposing.permutations._colours import PolynomialColours
from isotropy.discovery.proposing.permutations._permutation_proposer import FirstFits
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.testing._bench import Bench
from isotropy.naming._naming import name_sharing
from isotropy.sharing._assignment import canonical_labels
from isotropy.sharing._partition_search import cluster_values


@dataclass(frozen=True, eq=False)
class ConvolutionProposer(Proposer):
    """Looks for a linear map that shares its weights along diagonals, which no group explains."""

    words = "looking for convolutions"
    by = 0.35  # with permutations, whose fits it looks at

    def propose(self, bench: Bench, tell: Tell) -> Iterator[Proposal]:
        """One sharing at most, where a linear map explains the data."""
        del tell
        data = bench.problem.find
        assert isinstance(data, TaskData)
        a = data.arrangement
        one_channel = a.channels == a.output_channels == 1
        if a.fixed_outputs or not one_channel or min(a.inputs, a.outputs) < 3:
            return
        fits = FirstFits.of(bench)
        if fits.judge is None or fits.screening.free.kind != "linear":
            return
        yield Tried("sharing along diagonals")
        found = [
            one
            for stride in ProposingThresholds.now().strides
            if (one := _of_stride(stride, fits.judge, data))
        ]
        if found:
            yield min(found, key=lambda one: one.chance or 0.0)


def _of_stride(stride: int, coloured: PolynomialColours, data: TaskData) -> ConvolutionClaim | None:
    """A convolution that goes on by so many positions, if coefficients speak for one."""
    limits = ProposingThresholds.now()
    a = data.arrangement
    diagonals = np.arange(a.inputs)[None] - stride * np.arange(a.outputs)[:, None]
    blocks = canonical_labels(diagonals.ravel())
    labels = _classes(coloured, blocks)
    if labels.max() == 0:
        return None
    factor = coloured.factor(coloured.alive(blocks))
    chance = min(1.0, len(limits.strides) * exp(min(0.0, -factor)))
    labels = labels.reshape(a.outputs, a.inputs)
    name = name_sharing(labels, input_names=data.input_names, output_names=data.output_names)
    if chance > limits.coincidence or name.kind != "partial shift":
        return None
    return ConvolutionClaim(labels, name, data, chance)


def _classes(coloured: PolynomialColours, diagonals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Diagonals with equal values put together, those near zero among them."""
    evidence = coloured.evidence
    inner, _ = evidence.moments(diagonals)
    firsts = np.unique(diagonals, return_index=True)[1]
    values = evidence.estimate(diagonals)[firsts]
    variances = np.diagonal(torch.linalg.pinv(torch.as_tensor(inner)).numpy()).clip(1e-300)
    near = np.abs(values) < ProposingThresholds.now().clear_coefficient * np.sqrt(variances)
    classes = cluster_values(values, variances, float(evidence.scale or 1.0))
    # no block of values may be zero and another be zero as well
    classes = np.where(near, -1, classes)
    return canonical_labels(classes[diagonals])
