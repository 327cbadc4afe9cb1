"""Actions that are tried whatever the data: metrics that they keep, invariants, their screening."""

import numpy as np
import pytest
import torch
from scipy.linalg import expm

from discovery.pieces import SmoothFit, TaskData, blocks_of_width, chart_of_columns
from isotropy.data import load
from isotropy.discovery.predictors._invariant_predictor import (
    InvariantFeatures,
    invariant_features,
    invariant_predictor,
)
from isotropy.discovery.proposing.generators._algebras import Samples
from isotropy.discovery.proposing.generators._usual_actions import (
    UsualAction,
    seems_to_hold,
    usual_actions,
    usual_result,
)


@pytest.mark.parametrize("d", [2, 3, 4])
def test_generators_keep_the_metric(d):
    for action in usual_actions(d, shifts=True):
        metric, basis = np.diag(action.signs), action.generators()
        for a in basis[:, :, :d]:
            np.testing.assert_allclose(a.T @ metric + metric @ a, 0.0)
        assert len(basis) == d * (d - 1) // 2 + d * action.shifts


@pytest.mark.parametrize(("d", "shifts"), [(2, False), (3, True), (4, False)])
def test_features_are_invariant_and_nothing_else(d, shifts):
    rng = np.random.default_rng(0)
    x = torch.as_tensor(rng.normal(size=(5, 3 * d)))
    for action in usual_actions(d, shifts=shifts):
        features = InvariantFeatures(blocks_of_width(3 * d, 3), action)
        basis = action.generators()
        affine = np.zeros((d + 1, d + 1))
        affine[:d] = np.tensordot(rng.normal(size=len(basis)), basis, 1)
        moved = expm(affine)
        image = x.reshape(5, 3, d) @ torch.as_tensor(moved[:d, :d].T) + torch.as_tensor(
            moved[:d, d]
        )
        torch.testing.assert_close(features(image.reshape(5, -1)), features(x))
        assert float((features(1.1 * x) - features(x)).abs().min(0).values.max()) > 1e-3


def test_the_fit_of_an_invariant_speaks_for_its_group_alone():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 8))

    def interval(z):
        v = z.reshape(-1, 2, 4)
        metric = torch.tensor([1.0, -1.0, -1.0, -1.0]).double()
        return ((v * metric) * v).sum(2).prod(1, keepdim=True)

    samples = Samples.of(SmoothFit("exact", (interval, interval), 0.1), x)
    chart = chart_of_columns(x, ((0, 1, 2, 3), (4, 5, 6, 7)), tuple("txyz"), "blocks")
    lorentz, euclid = UsualAction((1, -1, -1, -1)), UsualAction((1, 1, 1, 1))
    assert seems_to_hold(samples, chart, "invariant", lorentz)
    assert not seems_to_hold(samples, chart, "invariant", euclid)
    assert usual_result(chart, "invariant", lorentz).title == "SO⁺(1,3)"
    assert usual_result(chart, "invariant", UsualAction((1,) * 4, shifts=True)).dimension == 10


def test_products_of_momenta_are_found_where_columns_tell_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(700, 4, 4))
    dots = np.einsum("nai,i,nbi->nab", x, [1.0, -1, -1, -1], x)
    y = dots[:, 0, 1] * dots[:, 2, 3] + dots[:, 0, 2] * dots[:, 1, 3]
    data = TaskData.of(load((x.reshape(700, 16), y)))
    features, left = invariant_features(data)
    assert (features.blocks.k, features.action.signs) == (4, (1, -1, -1, -1))
    assert left < 0.05
    predictor = invariant_predictor(data.rows(np.arange(500)), 0)
    outside = data.rows(np.arange(500, 700))
    assert predictor.share_left(outside.x, outside.y, "regression") < 0.1
