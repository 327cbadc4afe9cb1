"""Names of groups, against products of cyclic groups, and against what is known of small ones."""

import pytest
import torch

from isotropy.groups import Group, O, abstract_name


def cycle(n):
    return torch.eye(n, dtype=torch.float64).roll(1, 0)


def side_by_side(orders):
    """A cycle of each length, every one on points of its own."""
    size = sum(orders)
    matrices, at = [], 0
    for n in orders:
        whole = torch.eye(size, dtype=torch.float64)
        whole[at : at + n, at : at + n] = cycle(n)
        matrices.append(whole)
        at += n
    return Group(matrices)


@pytest.mark.parametrize(
    ("orders", "name"),
    [
        ((5,), "Z(5)"),
        ((2, 2), "Z(2) x Z(2)"),
        ((2, 3), "Z(6)"),
        ((4, 2), "Z(4) x Z(2)"),
        ((4, 4), "Z(4) x Z(4)"),
        ((2, 2, 2), "Z(2) x Z(2) x Z(2)"),
        ((4, 2, 2), "Z(4) x Z(2) x Z(2)"),
        ((4, 6), "Z(12) x Z(2)"),
        ((6, 6, 2), "Z(6) x Z(6) x Z(2)"),
    ],
)
def test_products_of_cycles_have_their_invariant_factors(orders, name):
    assert abstract_name(side_by_side(orders)) == name


def signed(index, sign):
    dense = torch.zeros(len(index), len(index), dtype=torch.float64)
    dense[list(index), range(len(index))] = torch.tensor(sign, dtype=torch.float64)
    return dense


QUARTER = signed((1, 0, 2), (1, -1, 1))
MIRROR = signed((0, 1, 2), (1, -1, 1))
FLIP = signed((0, 1, 2), (1, 1, -1))
THIRD = signed((1, 2, 0), (1, 1, 1))


@pytest.mark.parametrize(
    ("generators", "name"),
    [
        ([QUARTER], "Z(4)"),
        ([QUARTER, MIRROR], "D(4)"),
        ([MIRROR, FLIP], "Z(2) x Z(2)"),
        ([QUARTER, FLIP], "Z(4) x Z(2)"),
        ([THIRD, signed((1, 0, 2), (1, 1, 1))], "D(3)"),
        ([THIRD, -torch.eye(3, dtype=torch.float64)], "Z(6)"),
        ([QUARTER, MIRROR, FLIP], "a group of order 16"),
        ([THIRD, signed((0, 1, 2), (-1, -1, 1))], "a group of order 12"),
    ],
)
def test_groups_of_signed_permutations(generators, name):
    assert abstract_name(Group(generators)) == name


def test_quaternions_are_not_taken_for_a_dihedral_group():
    i = torch.block_diag(*[torch.tensor([[0.0, -1.0], [1.0, 0.0]])] * 2).double()
    j = torch.tensor(
        [[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]], dtype=torch.float64
    )
    assert torch.equal(i @ j, -j @ i)
    assert abstract_name(Group([i, j])) == "a group of order 8"


def test_continuous_groups():
    turn = torch.tensor([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    assert abstract_name(Group(algebra=[turn])) == "SO(2)"
    assert abstract_name(Group([MIRROR], [turn])) == "O(2)"
    assert abstract_name(Group([FLIP], [turn])) == "Z(2) x SO(2)"
    assert abstract_name(O(3)) == "O(3)"


def test_only_what_turns_is_a_rotation():
    boost = torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    shear = torch.tensor([[0.0, 1.0], [0.0, 0.0]])
    stretched = torch.tensor([[0.0, -4.0], [1.0, 0.0]])
    spiral = torch.tensor([[0.5, -1.0], [1.0, 0.5]])
    names = [abstract_name(Group(algebra=[a])) for a in (boost, shear, stretched, spiral)]
    assert names == ["R", "R", "SO(2)", "R"]
    flip = torch.diag(torch.tensor([1.0, -1.0]))
    assert abstract_name(Group([flip], [boost])) == "Z(2) with R"
    assert abstract_name(Group([flip], [stretched])) == "O(2)"
