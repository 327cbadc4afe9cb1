"""Groups that permute inputs and outputs at once, against lists of all their elements."""

import itertools

import numpy as np
import pytest
import torch

from discovery.pieces import PairGroup, symmetric


def closure(generators, n, m):
    """All elements by brute force, as tuples."""
    identity = (tuple(range(n)), tuple(range(m)))
    seen, frontier = {identity}, [identity]
    while frontier:
        a, b = frontier.pop()
        for c, d in generators:
            new = (tuple(c[i] for i in a), tuple(d[i] for i in b))
            if new not in seen:
                seen.add(new)
                frontier.append(new)
    return seen


def ring(n):
    return np.roll(np.arange(n), -1), np.arange(n)[::-1].copy()


def cases():
    turn, flip = ring(5)
    stay = np.arange(1)
    return {
        "shift": PairGroup(((turn, turn),), 5, 5),
        "dihedral": PairGroup(((turn, turn), (flip, flip)), 5, 5),
        "parity": PairGroup(tuple((p, stay) for p in symmetric([[0, 2, 4], [1, 3]], 6)), 6, 1),
        "outputs alone": PairGroup(((np.arange(3), np.array([1, 0])),), 3, 2),
    }


@pytest.mark.parametrize("name", sorted(cases()))
def test_order_elements_and_membership_are_those_of_the_closure(name):
    group = cases()[name]
    elements = closure(group.generators, group.inputs, group.outputs)
    assert group.order == len(elements)
    comes_in, comes_out = group.sample(1000, torch.Generator().manual_seed(0))
    listed = {
        (tuple(a.argsort().tolist()), tuple(b.argsort().tolist()))
        for a, b in zip(comes_in, comes_out, strict=True)
    }
    assert listed == elements
    random = group.sample(2, torch.Generator().manual_seed(1))
    if group.order > 2:
        for a, b in zip(*random, strict=True):
            assert (tuple(a.argsort().tolist()), tuple(b.argsort().tolist())) in elements


def test_a_group_contains_its_subgroups_and_no_others():
    turn, flip = ring(6)
    stay = np.arange(1)
    whole = PairGroup(((turn, stay), (flip, stay)), 6, 1)
    part = PairGroup(((turn, stay),), 6, 1)
    other = PairGroup(tuple((p, stay) for p in symmetric([[0, 1]], 6)), 6, 1)
    assert whole.contains(part)
    assert not part.contains(whole)
    assert not whole.contains(other)
    assert whole.equals(PairGroup(((flip, stay), (turn[turn[turn[turn[turn]]]], stay)), 6, 1))


def test_components_move_different_positions():
    group = PairGroup(tuple((p, np.arange(1)) for p in symmetric([[0, 2], [1, 3, 4]], 6)), 6, 1)
    parts = group.components()
    assert sorted(part.order for part in parts) == [2, 6]
    moved = [set(part.moved()[0].tolist()) for part in parts]
    assert not moved[0] & moved[1]
    assert set().union(*moved) == {0, 1, 2, 3, 4}


@pytest.mark.parametrize("channels", [1, 2])
def test_the_average_is_the_mean_over_all_elements_and_is_equivariant(channels):
    turn, _ = ring(4)
    group = PairGroup(((turn, turn),), 4, 4)
    rng = torch.Generator().manual_seed(0)
    weight = torch.randn(4, 4 * channels, generator=rng)
    x = torch.randn(7, 4 * channels, generator=rng)

    def predict(rows):
        return torch.tanh(rows @ weight.T)

    averaged = group.averages(predict, x, channels, 1, elements=10, generator=rng).mean(0)
    expected = torch.zeros(7, 4)
    for k in range(4):
        rolled = x.unflatten(1, (channels, 4)).roll(k, 2).flatten(1)
        expected += predict(rolled).roll(-k, 1) / 4
    torch.testing.assert_close(averaged, expected)
    shifted = x.unflatten(1, (channels, 4)).roll(1, 2).flatten(1)
    again = group.averages(predict, shifted, channels, 1, elements=10, generator=rng).mean(0)
    torch.testing.assert_close(again, averaged.roll(1, 1))


@pytest.mark.parametrize("sizes", [(2,), (3,), (2, 3), (1, 4)])
def test_symmetric_generates_all_permutations_within_blocks(sizes):
    total = sum(sizes)
    edges = np.cumsum([0, *sizes])
    blocks = [list(range(a, b)) for a, b in itertools.pairwise(edges)]
    moves = symmetric(blocks, total)
    elements = closure([(p, np.arange(1)) for p in moves], total, 1)
    assert len(elements) == np.prod([np.prod(np.arange(1, s + 1)) for s in sizes])
