"""Symmetries of coefficients, against groups that are known, and against chance."""

import numpy as np
import pytest
import torch

from discovery.pieces import Arrangement, PairGroup, log_conjugates, natural_groups, symmetric
from isotropy.discovery.proposing.permutations._colours import (
    CannotFit,
    PolynomialColours,
)


def coloured(make, n, m=1, degree=1, rows=300, channels=1, output_channels=1, seed=0, noise=0.1):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, n * channels))
    y = make(x)
    y = y + noise * rng.normal(size=y.shape)
    arrangement = Arrangement(n, channels, m, output_channels)
    return PolynomialColours(torch.as_tensor(x), torch.as_tensor(y), arrangement, degree)


def largest(colours):
    return max(colours.groups(), key=lambda g: g.order, default=None)


def test_equal_weights_give_all_permutations_of_each_class():
    weights = np.array([1.0, 2.0, 1.0, 2.0, 1.0])
    group = largest(coloured(lambda x: x @ weights[:, None], 5))
    assert group.order == 12
    assert group.orbits()[0].tolist() == [0, 1, 0, 1, 0]


def test_a_scrambled_circular_filter_gives_its_shifts():
    order = np.random.default_rng(3).permutation(8)

    def make(x):
        z = x[:, order]
        return (z + 3 * np.roll(z, -1, 1) + 5 * np.roll(z, -2, 1))[:, np.argsort(order)]

    colours = coloured(make, 8, 8)
    group = largest(colours)
    shift = np.empty(8, dtype=np.int64)
    shift[order] = np.roll(order, -1)
    assert group.equals(PairGroup(((shift, shift),), 8, 8))
    assert colours.chance(group) < 1e-6


def test_quadratic_terms_tell_a_ring_from_a_set():
    def ring(x):
        return (x * np.roll(x, -1, 1)).sum(1, keepdims=True)

    def pairs(x):
        return x.sum(1, keepdims=True) ** 2

    assert largest(coloured(ring, 6, degree=2)).order == 12
    assert largest(coloured(pairs, 6, degree=2)).order == 720


def test_products_of_pairs_give_a_wreath_product():
    def make(x):
        return (x[:, ::2] * x[:, 1::2]).sum(1, keepdims=True)

    assert largest(coloured(make, 6, degree=2)).order == 2**3 * 6


def test_channels_move_with_their_positions():
    def make(x):  # channel by channel over four positions
        return (x[:, :4] * x[:, 4:]).sum(1, keepdims=True) + x[:, :4].sum(1, keepdims=True)

    group = largest(coloured(make, 4, degree=2, channels=2, rows=400))
    assert group.order == 24


def test_different_offsets_of_outputs_break_a_symmetry():
    def make(x):
        return x + 3 * np.roll(x, -1, 1) + np.array([0.0, 0.0, 0.0, 5.0])

    def even(x):
        return x + 3 * np.roll(x, -1, 1) + 5.0

    assert largest(coloured(make, 4, 4)) is None
    assert largest(coloured(even, 4, 4)).order == 4


def test_inputs_that_do_not_matter_are_told_and_left_out():
    colours = coloured(lambda x: x[:, :1] + 2 * x[:, 1:2], 5)
    assert colours.ignored == (2, 3, 4)
    assert largest(colours) is None


def test_labels_are_the_classes_of_linear_coefficients():
    colours = coloured(lambda x: x + 2 * np.roll(x, -1, 1), 3, 3)
    assert colours.labels.tolist() == [[0, 1, 2], [2, 0, 1], [1, 2, 0]]


def test_the_chance_of_a_coincidence_is_bounded():
    """Generic coefficients: the bound may fall below p in at most a share p of data sets."""
    swap = [
        PairGroup(tuple((p, np.arange(1)) for p in symmetric([[i, j]], 5)), 5, 1)
        for i in range(5)
        for j in range(i)
    ]
    low = 0
    for seed in range(60):
        weights = np.random.default_rng(1000 + seed).normal(size=(5, 1))
        colours = coloured(lambda x, w=weights: x @ w, 5, rows=100, seed=seed, noise=0.3)
        low += min(colours.chance(g) for g in swap) <= 0.1
    assert low <= 12  # binomial(60, 0.1) exceeds 12 with probability 0.01


def test_few_rows_are_refused():
    with pytest.raises(CannotFit, match=r"12 rows for 5 terms of degree 1"):
        coloured(lambda x: x[:, :1], 5, rows=12)


def test_natural_groups_are_different_and_conjugates_are_counted():
    groups = natural_groups(6, 6)
    assert all(not a.equals(b) for i, a in enumerate(groups) for b in groups[:i])
    assert {g.order for g in natural_groups(4, 1)} == {24, 4, 8, 2}
    swap = PairGroup(tuple((p, np.arange(1)) for p in symmetric([[0, 1]], 6)), 6, 1)
    assert np.exp(log_conjugates(swap)) == pytest.approx(15)  # pairs of six
    some = PairGroup(tuple((p, np.arange(1)) for p in symmetric([[0, 2, 3]], 6)), 6, 1)
    assert np.exp(log_conjugates(some)) == pytest.approx(20)
