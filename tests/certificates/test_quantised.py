"""Codebooks: 16 bits, learned, straight through."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.cluster import KMeans

from isotropy.certificates import Quantised
from isotropy.certificates._search import used_levels


def test_every_weight_takes_the_nearest_level() -> None:
    torch.manual_seed(0)
    layer = Quantised(torch.randn(500), 7)
    with torch.no_grad():
        layer.codebook.copy_(torch.randn(7))  # in no order
    levels = layer.levels()
    distances = (layer.weights[:, None] - levels[None]).abs()
    torch.testing.assert_close(layer(), levels[distances.argmin(1)])
    assert torch.equal(layer.symbols(), distances.argmin(1))


def test_levels_are_really_16_bit() -> None:
    layer = Quantised(torch.randn(50), 5)
    with torch.no_grad():
        layer.codebook.add_(1e-5)
    values = layer().detach()
    assert torch.equal(values, values.half().float())
    with torch.no_grad():
        layer.codebook[0] = -1e9
    assert bool(torch.isfinite(layer.levels()).all())


def test_gradients_go_straight_through() -> None:
    layer = Quantised(torch.tensor([-1.0, -0.9, 0.1, 1.0]), 3)
    slope = torch.tensor([1.0, 2.0, 4.0, 8.0])
    (layer() * slope).sum().backward()
    assert layer.weights.grad is not None
    assert layer.codebook.grad is not None
    assert layer.weights.grad.tolist() == slope.tolist()
    assert layer.codebook.grad.tolist() == [3.0, 4.0, 8.0]


def test_uniform_start_is_the_mean_of_equal_bins() -> None:
    weights = torch.tensor([-3.0, -2.9, 0.2, 0.4, 2.8, 1.5])
    # three bins over ±3: [-3, -1), [-1, 1), [1, 3]
    torch.testing.assert_close(
        Quantised(weights, 3).codebook.detach(),
        torch.tensor([-2.95, 0.3, 2.15]),
        rtol=1e-6,
        atol=1e-6,
    )
    # an empty bin gives its centre
    assert Quantised(torch.tensor([-1.0, 1.0]), 3).codebook.tolist() == [-1.0, 0.0, 1.0]


def test_kmeans_is_as_good_as_scikit_learn() -> None:
    weights = torch.randn(2000, generator=torch.Generator().manual_seed(0)).double()
    ours = Quantised(weights, 5, start="kmeans").codebook.detach()
    theirs = KMeans(5, n_init=10, random_state=0).fit(weights.numpy()[:, None])
    cost = (weights[:, None] - ours[None]).square().amin(1).sum()
    assert float(cost) < 1.001 * theirs.inertia_


def test_used_levels_are_ascending_and_all_used() -> None:
    symbols, codebook = used_levels(
        torch.tensor([2, 0, 3, 2]), torch.tensor([1.0, 9.0, -1.0, 1.00001, 5.0])
    )
    assert codebook.tolist() == [-1.0, 1.0]
    assert codebook.dtype == np.float16
    assert symbols.tolist() == [0, 1, 1, 0]


def test_zero_has_one_sign() -> None:
    _, codebook = used_levels(torch.tensor([0, 1]), torch.tensor([-0.0, 0.0]))
    assert codebook.tolist() == [0.0]
    assert not np.signbit(codebook[0])


def test_bad_input() -> None:
    with pytest.raises(ValueError, match=r"expected at least 1 level, got 0"):
        Quantised(torch.ones(3), 0)
    with pytest.raises(ValueError, match=r"expected the start uniform or kmeans, got 'random'"):
        Quantised(torch.ones(3), 2, start="random")
