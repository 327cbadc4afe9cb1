"""Proposals, against every signed permutation of a small system, and against planted ones."""

from itertools import permutations, product

import numpy as np
import pytest
import torch

from discovery.pieces import SignedPermutation, TransitionData, generated
from isotropy.data import Transitions
from isotropy.discovery.proposing.transitions._coefficients import Coefficients
from isotropy.discovery.proposing.transitions._matching import Matching, matches
from isotropy.discovery.testing._stakes import ColumnLosses


def planted(generators, n, d, seed):
    """Coefficients that a group keeps: random ones averaged over it."""
    rng = np.random.default_rng(seed)
    linear, quadratic = rng.normal(size=(n, d)), 0.3 * rng.normal(size=(n, d, d))
    quadratic = quadratic + quadratic.swapaxes(1, 2)
    mean, constant = np.zeros(d), np.zeros(n)
    elements = generated(generators, 1000)
    kept_linear, kept_quadratic = np.zeros_like(linear), np.zeros_like(quadratic)
    for g in elements:
        index, sign = np.array(g.index), np.array(g.sign)
        out, s = index[:n], sign[:n]
        kept_linear += linear[np.ix_(out, index)] * s[:, None] * sign
        kept_quadratic += (
            quadratic[np.ix_(out, index, index)] * s[:, None, None] * np.outer(sign, sign)
        )
    anywhere = np.zeros((d, d), dtype=bool)
    anywhere[:n, :n] = anywhere[n:, n:] = True
    size = len(elements)
    return Coefficients(mean, constant, kept_linear / size, kept_quadratic / size, anywhere)


MIRROR = SignedPermutation((1, 0, 2, 3, 5, 4), (1, 1, -1, 1, 1, 1))
SIGNS = SignedPermutation((0, 1, 2, 3, 4, 5), (-1, -1, 1, 1, -1, -1))


@pytest.mark.parametrize("generators", [[MIRROR], [SIGNS], [MIRROR, SIGNS]])
@pytest.mark.parametrize("seed", [0, 1])
def test_all_planted_elements_are_proposed_and_are_all_there_are(generators, seed):
    coefficients = planted(generators, 4, 6, seed)
    found = {match.element for match in matches(coefficients) if match.change < 1e-9}
    matching = Matching(coefficients)
    every = set()
    for first, last in product(permutations(range(4)), permutations((4, 5))):
        for sign in product((1, -1), repeat=6):
            element = SignedPermutation((*first, *last), sign)
            if not element.is_identity and matching.agreement(element)[1] < 1e-9:
                every.add(element)
    assert every == {g for g in generated(generators, 100) if not g.is_identity}
    assert set(generated(list(found), 100)) == every | {SignedPermutation.identity(6)}


def test_a_quadratic_system_is_fitted_exactly_enough():
    x = torch.randn(3000, 3, generator=torch.Generator().manual_seed(1)).double()
    y = torch.stack([x[:, 0] * x[:, 2], 0.5 * x[:, 1] - x[:, 2]], 1)
    fitted = Coefficients.of(x, y)
    product_ = fitted.quadratic[0, 0, 2] * 2 * float(y[:, 0].std())
    assert product_ == pytest.approx(float(x[:, 0].std() * x[:, 2].std()), rel=0.05)
    assert np.count_nonzero(fitted.linear[0]) <= 1  # all but chance coefficients are zero


def test_constants_stay_and_sizes_must_be_alike():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(500, 4, generator=rng).double() * torch.tensor([1.0, 1.0, 50.0, 0.0])
    fitted = Coefficients.of(x, x[:, :3] * 0.1)
    allowed = np.eye(4, dtype=bool)
    allowed[0, 1] = allowed[1, 0] = True
    assert np.array_equal(fitted.compatible, allowed)


def test_costs_are_those_of_single_rows():
    rng = torch.Generator().manual_seed(0)
    x = torch.randn(30, 3, generator=rng).double()
    weights = torch.randn(2, 3, generator=rng).double()
    g = SignedPermutation((1, 0, 2), (1, -1, -1))
    one = SignedPermutation.identity(3)
    increments = torch.randn(30, 2, generator=rng).double()
    losses = ColumnLosses.of(
        lambda rows: rows @ weights.T,
        [one, g],
        x,
        increments,
        constant=torch.zeros(2).double(),
        spread=torch.ones(2).double(),
    )
    dense = g.as_map().dense()
    out = dense[:2, :2]
    for row in range(30):
        image = weights @ (dense @ x[row])
        averaged = (weights @ x[row] + torch.linalg.solve(out, image)) / 2
        expected = (averaged - increments[row]).square().clamp_max(9)
        assert losses.symmetrised[row] == pytest.approx(expected.numpy())
    # both increments move, so that a predictor that knows nothing of them is the constant
    assert losses.blind == pytest.approx(increments.square().clamp_max(9).numpy())


def test_episodes_are_told_from_rows_that_follow_each_other():
    walks = torch.randn(100, 11, 2, generator=torch.Generator().manual_seed(0)).cumsum(1)
    s, ahead = walks[:, :-1].reshape(-1, 2), walks[:, 1:].reshape(-1, 2)
    data = TransitionData.of(Transitions(s, torch.randn(1000, 1), ahead))
    assert np.array_equal(data.groups, np.arange(1000) // 10)
    assert not data.cut
    few = TransitionData.of(Transitions(s[:500], torch.randn(500, 1), ahead[:500]))
    assert few.cut
    assert np.all(np.bincount(few.groups) <= 10)
    apart = torch.randn(500, 2, generator=torch.Generator().manual_seed(1))
    single = TransitionData.of(Transitions(apart, torch.randn(500, 1), apart.sin()))
    assert single.groups is None
