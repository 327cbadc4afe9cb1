"""Convolutions with ends: a sharing of weights along diagonals that no group explains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from isotropy.discovery.modelling._standardised import build_model
from isotropy.discovery.predictors._free_predictor import FreePredictor
from isotropy.discovery.proposing.permutations._polynomial_colours import PolynomialColours
from isotropy.discovery.reading._task_data import TaskData
from isotropy.discovery.telling._finding import Finding, tested_fields
from isotropy.discovery.testing._claim_test import ClaimTest
from isotropy.naming._naming import SharingName, name_sharing
from isotropy.nn import SharedLinear
from isotropy.sharing._assignment import canonical_labels
from isotropy.sharing._brute_force import shared_solutions
from isotropy.sharing._least_squares import LeastSquares
from isotropy.sharing._partition_search import cluster_values

_STRIDES = (1, 2, 3)
_CHANCE = 0.05
_ZERO = 3.0


@dataclass(frozen=True, eq=False)
class ConvolutionClaim:
    """A linear map whose weights are equal along diagonals.

    Args:
        labels: The block of each weight, shape (m, n).
        name: What the partition is called.
        chance: A bound on the probability of such a sharing by coincidence.
    """

    labels: NDArray[np.int64]
    name: SharingName
    chance: float

    def test(
        self,
        free: FreePredictor,
        fitted: TaskData,
        outside: TaskData,
        *,
        margin: float,
        level: float,
    ) -> ClaimTest:
        """Hold the least-squares map that shares against the free predictor."""
        weight, offset = self.fit(fitted)
        predicted = outside.x @ weight.T + offset
        return outside.cost_test(predicted, free, margin=margin, level=level)

    def finding(
        self,
        test: ClaimTest,
        seen: TaskData,
        outside: TaskData,
        free: FreePredictor,
        fit_models: bool,
    ) -> Finding:
        """What is reported where the test stands."""
        group = "Trivial(1)" if self.name.group is None else str(self.name.group)
        finding = Finding(
            name=self.name.name,
            group=group,
            action=self.name.action,
            method="diagonals of a linear map",
            order=self.name.order,
            **tested_fields(test),
            symmetry=self.name.symmetry,
            labels=self.labels,
            input_names=outside.input_names or (),
            output_names=outside.output_names or (),
        )
        if not fit_models:
            return finding
        weight, offset = self.fit(seen)
        spec = {"kind": "shared linear"}
        layer = build_model(spec, labels=self.labels)
        assert isinstance(layer, SharedLinear)
        assert layer.bias_coefficients is not None
        firsts = np.unique(self.labels, return_index=True)[1]
        with torch.no_grad():
            layer.coefficients.copy_(weight.flatten()[firsts])
            layer.bias_coefficients.copy_(offset)
            predicted = layer(outside.x.to(layer.coefficients)).double()
        note = compared(predicted, free, outside)
        return replace(finding, model=layer.eval(), model_spec=spec, notes=(note,))

    def fit(self, data: TaskData) -> tuple[Tensor, Tensor]:
        """The least-squares map that shares, and its offset, equal at all outputs."""
        x_mean, y_mean = data.x.mean(0), data.y.mean(0)
        problem = LeastSquares.of(data.x - x_mean, data.y - y_mean)
        weight = shared_solutions(problem, self.labels.reshape(1, -1))[0]
        return weight, (y_mean - weight @ x_mean).mean().expand(len(y_mean))


def convolution_claim(coloured: PolynomialColours, data: TaskData) -> ConvolutionClaim | None:
    """A convolution with ends, if the coefficients of a linear fit speak for one.

    Returns:
        ``None`` where there is one output, several channels, or no such pattern.
    """
    a = data.arrangement
    if a.fixed_outputs or a.channels > 1 or a.output_channels > 1 or min(a.inputs, a.outputs) < 3:
        return None
    best: ConvolutionClaim | None = None
    for stride in _STRIDES:
        diagonals = np.arange(a.inputs)[None] - stride * np.arange(a.outputs)[:, None]
        blocks = canonical_labels(diagonals.ravel())
        labels = _classes(coloured, blocks)
        if labels.max() == 0:
            continue
        factor = coloured.factor(coloured.alive(blocks))
        chance = min(1.0, len(_STRIDES) * exp(min(0.0, -factor)))
        name = name_sharing(
            labels.reshape(a.outputs, a.inputs),
            input_names=data.input_names,
            output_names=data.output_names,
        )
        if chance <= _CHANCE and name.kind == "partial shift":
            found = ConvolutionClaim(labels.reshape(a.outputs, a.inputs), name, chance)
            if best is None or found.chance < best.chance:
                best = found
    return best


def compared(predicted: Tensor, free: FreePredictor, outside: TaskData) -> str:
    """Mean losses on rows held out, in words: a model's, the free predictor's, a constant's."""
    losses = {
        "model with the symmetry": predicted,
        "free predictor": free.predict(outside.x),
        "constant": free.constant.expand(len(outside.x), -1),
    }
    texts = [f"{name} {float(outside.losses(p).mean()):.4g}" for name, p in losses.items()]
    return f"mean loss on the {len(outside.x)} rows held out: {', '.join(texts)}"


def _classes(coloured: PolynomialColours, diagonals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Diagonals with equal values put together, those near zero among them."""
    evidence = coloured.evidence
    inner, _ = evidence.moments(diagonals)
    firsts = np.unique(diagonals, return_index=True)[1]
    values = evidence.estimate(diagonals)[firsts]
    variances = np.diagonal(torch.linalg.pinv(torch.as_tensor(inner)).numpy()).clip(1e-300)
    near = np.abs(values) < _ZERO * np.sqrt(variances)
    classes = cluster_values(values, variances, float(evidence.scale or 1.0))
    # no block of values may be zero and another be zero as well
    classes = np.where(near, -1, classes)
    return canonical_labels(classes[diagonals])
