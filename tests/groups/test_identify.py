"""The public call: permutation groups and Lie groups, with their components."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from isotropy import Group, identify
from isotropy.groups import (
    O11,
    O13,
    SE,
    SL,
    SO,
    SO13,
    SU,
    D,
    E,
    O,
    Parity,
    S,
    SO2eR3,
    SO11p,
    SO13p,
    SOpq,
    Sp,
    U,
    Z,
    wreath,
)

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    "group", [Z(7), S(5), D(6), S(3) + Z(4), Z(4) * Z(6), wreath(S(3), Z(2))], ids=str
)
def test_permutation_groups(group: Group) -> None:
    moved = group.conjugate(RNG.permutation(group.d))
    found = identify(moved)
    assert found.group == group
    assert found.order == group.order()
    assert found.dimension == 0
    back = group.conjugate(found.change)
    assert all(moved.contains(h) for h in back.discrete)


@pytest.mark.parametrize(
    "group",
    [
        *(SO(3), O(3), SO(4), O(4), SO13p(), SO13(), O13(), SO11p(), O11(), SE(2), E(2), SE(3)),
        *(Sp(2), SL(3), SU(3), U(2), SOpq(1, 2), SOpq(2, 2), SO(3) + SO(2)),
    ],
    ids=str,
)
def test_lie_groups(group: Group) -> None:
    change = np.eye(group.d) + 0.3 * RNG.normal(size=(group.d, group.d))
    moved = group.conjugate(change)
    found = identify(Group(moved.discrete, moved.algebra))
    assert str(found.group) == str(group)
    assert found.order == math.inf
    assert found.dimension == len(group.algebra)
    assert found.group is not None
    back = found.group.conjugate(found.change)
    assert len(back.algebra) == len(moved.algebra) == len(group.algebra)
    both = torch.stack([a.dense().flatten() for a in (*moved.algebra, *back.algebra)])
    both = both / both.abs().amax(1, keepdim=True)
    assert int(torch.linalg.matrix_rank(both, rtol=1e-8)) == len(group.algebra)


def test_embedded_rotations() -> None:
    assert str(identify(SO2eR3()).group) == "SO(2)+Trivial(1)"


def test_components_that_are_not_all_there() -> None:
    """SO⁺(1,3) with parity alone is neither SO(1,3) nor O(1,3)."""
    found = identify(Group(Parity().discrete, SO13p().algebra))
    assert found.group is None
    assert "discrete generators" in found.name


def test_what_is_neither() -> None:
    with pytest.raises(ValueError, match="permutations or a Lie group"):
        identify(Group([[[2.0, 0.0], [0.0, 1.0]]]))
    with pytest.raises(ValueError, match="expected matrices that span a Lie algebra"):
        identify(Group(algebra=[SO(3).algebra[0], SO(3).algebra[1]]))
