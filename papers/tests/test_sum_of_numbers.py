"""Sums of numbers: the rows, their seeds and noise, and the network with its table of tokens."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from isotropy_papers.sum_of_numbers import PositionwiseSum, sum_of_numbers

SIZES = (300, 200, 250, 400)


@pytest.mark.parametrize("signed", [False, True])
def test_sums_have_noise_everywhere_but_in_the_test(signed: bool) -> None:
    task = sum_of_numbers(5, signed=signed, seed=1, sizes=SIZES)
    parts = (task.train, task.validation, task.early, task.test)
    assert [len(x) for x, _ in parts] == list(SIZES)
    signs = [-1, 1, -1, 1, -1] if signed else [1] * 5
    for i, (x, y) in enumerate(parts):
        assert x.shape == (SIZES[i], 5)
        assert y.shape == (SIZES[i], 1)
        assert set(x.unique().tolist()) == set(range(1, 10))
        exact = sum(sign * x[:, p] for p, sign in enumerate(signs))
        noise = y[:, 0] - exact
        if i == 3:
            assert not noise.any()
        else:
            assert float(noise.abs().max()) <= 0.5
            assert float(noise.var()) == pytest.approx(1 / 12, rel=0.25)
    assert task.labels.tolist() == ([0, 1, 0, 1, 0] if signed else [0] * 5)
    assert task.labels.dtype == np.int64


def test_seeds_of_the_sets_are_five_apart() -> None:
    at_0, at_5 = (sum_of_numbers(3, seed=seed, sizes=(50, 50, 50, 50)) for seed in (0, 5))
    for a, b in (
        (at_0.validation, at_5.train),
        (at_0.early, at_5.validation),
    ):
        assert bool((a[0] == b[0]).all())
        assert bool((a[1] == b[1]).all())
    assert bool((at_0.test[0] == at_5.early[0]).all())
    assert not bool((at_0.train[0] == at_0.validation[0]).all())


def test_standardisation_is_that_of_training_and_validation() -> None:
    task = sum_of_numbers(4, sizes=SIZES)
    seen = torch.cat([task.train[1], task.validation[1]]).numpy()
    assert task.offset == pytest.approx(seen.mean(), rel=1e-5)
    assert task.scale == pytest.approx(seen.std(), rel=1e-5)
    y = task.test[1]
    torch.testing.assert_close(task.original(task.standardised(y)), y)
    assert sum_of_numbers(1, sizes=(1, 1, 1, 1), seed=3).scale > 0


@pytest.mark.parametrize(("length", "parameters"), [(4, 105_751), (10, 256_051)])
def test_the_model_has_the_published_number_of_parameters(length: int, parameters: int) -> None:
    assert sum(weight.numel() for weight in PositionwiseSum(length).parameters()) == parameters


def small_model(length: int) -> PositionwiseSum:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return PositionwiseSum(length, embedding=20, hidden=7)


def test_the_table_gives_what_rows_one_by_one_give() -> None:
    model = small_model(4)
    x = sum_of_numbers(4, sizes=(50, 1, 1, 1)).train[0]
    torch.testing.assert_close(model(x), model.by_rows(x))
    slopes = [
        torch.autograd.grad(predict(x).square().sum(), list(model.parameters()))
        for predict in (model, model.by_rows)
    ]
    for fast, slow in zip(*slopes, strict=True):
        torch.testing.assert_close(fast, slow, rtol=1e-4, atol=1e-5)


def test_mixtures_of_tokens_are_those_of_their_embeddings() -> None:
    model = small_model(4)
    x = sum_of_numbers(4, sizes=(50, 1, 1, 1)).train[0]
    torch.testing.assert_close(model.of_mixtures(model.one_hot(x).float()), model(x))
    mixtures = torch.rand(5, 4, 11, generator=torch.Generator().manual_seed(0))
    embedded = mixtures @ model.embedding.weight
    hidden = torch.einsum("phd,npd->nph", model.weight, embedded) + model.bias
    torch.testing.assert_close(model.of_mixtures(mixtures), model.output(hidden.relu().sum(1)))


def test_a_mixed_table_is_that_of_mixed_weights() -> None:
    model, mixed = small_model(4), small_model(4)
    assignment = torch.rand(4, 4, generator=torch.Generator().manual_seed(0)).softmax(-1)
    with torch.no_grad():
        mixed.weight.copy_(torch.einsum("pk,khd->phd", assignment, model.weight))
        mixed.bias.copy_(assignment @ model.bias)
    x = sum_of_numbers(4, sizes=(50, 1, 1, 1)).train[0]
    torch.testing.assert_close(model(x, assignment), mixed.by_rows(x))


def test_shared_positions_may_be_permuted() -> None:
    model = small_model(3)
    x = sum_of_numbers(3, sizes=(50, 1, 1, 1)).train[0]
    together = torch.eye(3)[[0, 0, 0]]
    swapped = x[:, [2, 0, 1]]
    torch.testing.assert_close(model(x, together), model(swapped, together))
    assert not torch.allclose(model(x), model(swapped))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"expected a number of positions of at least 1, got 0"):
        sum_of_numbers(0)
    with pytest.raises(ValueError, match=r"expected a number of rows of at least 1, got 0"):
        sum_of_numbers(2, sizes=(5, 5, 0, 5))
    with pytest.raises(ValueError, match=r"expected four sizes, got 3"):
        sum_of_numbers(2, sizes=(5, 5, 5))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"expected a seed of at least 0, got -1"):
        sum_of_numbers(2, seed=-1)
    with pytest.raises(ValueError, match=r"expected a number of units of at least 1, got 0"):
        PositionwiseSum(2, hidden=0)
