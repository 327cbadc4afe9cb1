"""Representations found from matrices give the matrices back."""

from __future__ import annotations

import pytest
import torch

from isotropy.groups import O2eR3, S
from isotropy.reps import Block, joint_action, parse_rep


def _orthogonal(size: int, seed: int) -> torch.Tensor:
    rng = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(size, size, dtype=torch.float64, generator=rng))[0]


def test_generators_come_back_on_every_space() -> None:
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    eye = torch.eye(2, dtype=torch.float64)
    first = [torch.block_diag(turn, eye, -turn), torch.block_diag(eye, -eye, eye)]
    mixed = torch.tensor([3, 0, 5, 1, 4, 2])
    first = [m[mixed[:, None], mixed] for m in first]  # columns of blocks apart
    second = [torch.diag(torch.tensor([1.0, -1.0])).double(), -eye]
    group, reps = joint_action(list(zip(first, second, strict=True)))
    for k, h in enumerate(group.discrete):
        assert torch.allclose(reps[0].rho(h).dense(), first[k])
        assert torch.allclose(reps[1].rho(h).dense(), second[k])


def test_continuous_generators_come_back() -> None:
    known = O2eR3()
    change = torch.block_diag(torch.eye(1), _orthogonal(3, 0)).double()
    a = [torch.block_diag(torch.zeros(1, 1), x.dense()) for x in known.algebra]
    h = [torch.block_diag(torch.eye(1), x.dense()) for x in known.discrete]
    a, h = ([change @ m @ change.mT for m in given] for given in (a, h))
    group, (rep,) = joint_action([(m,) for m in h], [(m,) for m in a])
    for got, wanted in ((group.algebra, a), (group.discrete, h)):
        for g, m in zip(got, wanted, strict=True):
            found = rep.drho(g) if wanted is a else rep.rho(g)
            assert torch.allclose(found.dense(), m, atol=1e-12)


def test_equal_blocks_are_one_representation() -> None:
    cycle = [1, 2, 0]
    both = [1, 2, 0, 4, 5, 3]
    turned = [2, 0, 1]  # the same cycle with its columns in another order
    _, (once, twice, other) = joint_action([(cycle, both, turned)])
    assert str(once).startswith("Block(0,1,2)")
    assert str(twice).startswith("(2*Block(0,1,2))")
    assert "Block(0,1,2)" in str(other)
    assert parse_rep(str(twice)) == twice


def test_products_of_generators_follow() -> None:
    swaps = [[1, 0, 2], [0, 2, 1]]
    signs = [[[-1.0]], [[-1.0]]]
    group, (points, sign) = joint_action(list(zip(swaps, signs, strict=True)))
    assert group.order() == S(3).order()
    for g in group.elements():  # type: ignore[attr-defined]
        matrix = points.rho(g).dense()
        assert torch.allclose(torch.linalg.det(matrix), sign.rho(g).dense()[0, 0])


def test_errors() -> None:
    with pytest.raises(ValueError, match="expected at least one generator, got none"):
        joint_action([])
    with pytest.raises(ValueError, match="expected generators of one size on each space, got"):
        joint_action([([1, 0],), ([0, 1, 2],)])
    with pytest.raises(ValueError, match="expected distinct coordinates of V"):
        Block(1, 1)
