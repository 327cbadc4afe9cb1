"""The free predictor: each family where it belongs."""

import numpy as np
import pytest
import torch

from discovery.pieces import fit_free_predictor, held_out_rows, quadratic_terms, sample_losses


def data(rows=400, n=4, seed=0):
    return torch.randn(rows, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_the_simplest_family_that_does_is_taken():
    x = data()
    noise = 0.05 * data(seed=1)[:, :1]
    linear = fit_free_predictor(x, x @ torch.arange(4.0).double()[:, None] + noise, "regression")
    assert linear.kind == "linear"
    quadratic = fit_free_predictor(x, x[:, :1] * x[:, 1:2] + noise, "regression")
    assert quadratic.kind == "quadratic"
    wave = fit_free_predictor(x, torch.sin(2 * x[:, :1]) + noise, "regression")
    assert wave.kind == "kernel"
    assert wave.unexplained < 0.05


def test_predictions_are_in_the_units_of_the_data():
    x = 1000 + 50 * data()
    y = 3 * x[:, :1] - 2 * x[:, 1:2] + 7
    free = fit_free_predictor(x, y, "regression")
    torch.testing.assert_close(free.predict(x), y, rtol=1e-4, atol=1e-2)
    torch.testing.assert_close(free.constant, y.mean(0))


def test_classes_are_predicted_by_logits():
    x = data(600)
    y = (x[:, 0] + x[:, 1] > 0).long()
    free = fit_free_predictor(x, y, "classification")
    fresh = data(500, seed=5)
    right = (free.predict(fresh).argmax(1) == (fresh[:, 0] + fresh[:, 1] > 0)).double().mean()
    assert right > 0.95
    assert free.constant.exp().sum() == pytest.approx(1.0)


def test_noise_is_not_explained_and_seeds_repeat():
    x, y = data(200), data(200, 1, seed=9)
    free = fit_free_predictor(x, y, "regression", seed=3)
    assert free.unexplained > 0.9
    again = fit_free_predictor(x, y, "regression", seed=3)
    torch.testing.assert_close(free.predict(x), again.predict(x), rtol=0, atol=0)


def test_losses_of_rows():
    prediction = torch.tensor([[1.0, 2.0], [0.0, 0.0]])
    y = torch.tensor([[1.0, 0.0], [3.0, 4.0]])
    assert sample_losses(prediction, y, "regression").tolist() == [4.0, 25.0]
    nats = sample_losses(torch.zeros(1, 4), torch.tensor([2]), "classification")
    assert float(nats) == pytest.approx(np.log(4))


def test_quadratic_terms_are_the_upper_triangle():
    x = data(5, 3)
    outer = x[:, :, None] * x[:, None, :]
    i, j = np.triu_indices(3)
    torch.testing.assert_close(quadratic_terms(x), outer[:, i, j])


def test_trees_find_what_the_others_leave():
    def steps(x):
        return x.sum(1, keepdim=True) + 2.0 * torch.sign(x[:, :1] * (x[:, 1:2] - 0.5))

    x = data(1200, 5)
    free = fit_free_predictor(x, steps(x), "regression")
    assert free.kind.endswith("and trees")
    fresh = data(1000, 5, seed=7)
    truth = steps(fresh)
    left = float((free.predict(fresh) - truth).square().mean() / truth.var())
    assert left < 0.1
    assert free.unexplained == pytest.approx(left, rel=0.5)


def test_a_class_that_the_rows_lack_has_a_logit():
    x = data(200)
    y = (x[:, 0] > 0).long()
    free = fit_free_predictor(x, y, "classification", classes=4)
    assert free.predict(x).shape == (200, 4)
    assert free.constant.shape == (4,)


def test_groups_are_held_out_whole():
    groups = np.repeat(np.arange(30), 4)
    rest, held = held_out_rows(120, 0.3, groups, torch.Generator().manual_seed(0))
    assert len(held) == 36
    assert not set(groups[rest]) & set(groups[held])
    assert sorted([*rest, *held]) == list(range(120))
    few = held_out_rows(10, 0.1, None, torch.Generator().manual_seed(0), least=4)
    assert len(few[1]) == 4


def test_repeated_rows_do_not_look_learned():
    rows = data(60, 4)
    x = rows.repeat_interleave(6, 0)
    y = data(60, 1, seed=3).repeat_interleave(6, 0)
    groups = np.repeat(np.arange(60), 6)
    honest = fit_free_predictor(x, y, "regression", groups=groups)
    fooled = fit_free_predictor(x, y, "regression")
    assert fooled.unexplained < 0.3
    assert honest.unexplained > 0.6
