"""Groups that are tried whatever the data, against orders and actions worked out by hand."""

from math import exp, factorial, inf

import numpy as np
import pytest

from discovery.pieces import PairGroup, block_groups, log_natural, natural_groups, plain_groups


def swap_of_points(n, k, interleaved):
    """Swap the first two of k points, column by column."""
    columns = np.arange(n).reshape(n // k, k).T if interleaved else np.arange(n).reshape(k, -1)
    moved = np.arange(n)
    moved[columns[0]], moved[columns[1]] = columns[1], columns[0]
    return moved


@pytest.mark.parametrize(("n", "k"), [(6, 3), (6, 2), (12, 4), (15, 5)])
@pytest.mark.parametrize("interleaved", [False, True])
def test_all_permutations_of_blocks_are_there(n, k, interleaved):
    swap = swap_of_points(n, k, interleaved)
    one = PairGroup(((swap, np.arange(1)),), n, 1)
    orders = [g.order for g in block_groups(n, 1) if g.contains(one)]
    assert factorial(k) in orders


def test_outputs_of_blocks_move_along():
    n, k, m = 8, 4, 4  # four points of two columns, an output for each
    swap = swap_of_points(n, k, interleaved=False)
    along = np.array([1, 0, 2, 3])
    both = PairGroup(((swap, along),), n, m)
    assert any(g.order == factorial(k) and g.contains(both) for g in block_groups(n, m))


def test_no_group_comes_twice_and_a_prime_has_no_blocks():
    groups = natural_groups(12, 1)
    for i, one in enumerate(groups):
        assert not any(one.equals(other) for other in groups[:i])
    assert block_groups(7, 1) == ()


def test_plain_groups_are_more_probable_and_weights_sum_to_one():
    n = 12
    weights = [exp(-log_natural(group)) for group in natural_groups(n, 1)]
    assert sum(weights) == pytest.approx(1.0)
    assert weights[0] > weights[-1]
    odd = np.arange(n)
    odd[[0, 5]] = 5, 0
    assert log_natural(PairGroup(((odd, np.arange(1)),), n, 1)) == inf
    assert len(plain_groups(n, 1)) + len(block_groups(n, 1)) == len(weights)
