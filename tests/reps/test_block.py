import pytest
import torch

from isotropy.bases import equivariant_basis
from isotropy.groups import SO, Group, S, Z
from isotropy.reps import Block, Scalar, Symmetry, V, parse_rep

SUM = Z(2) + S(3)


def test_it_is_a_block_of_the_groups_matrices() -> None:
    elements = SUM.elements()
    whole = elements.dense()
    for columns in ([0, 1], [2, 3, 4], [4, 2, 3]):
        found = Block(*columns)(SUM).rho(elements).dense()
        assert torch.equal(found, whole[:, columns][:, :, columns])


def test_it_is_a_homomorphism() -> None:
    rep = Block(3, 2, 4)(SUM)
    g, h = SUM.sample(10, generator=0), SUM.sample(10, generator=1)
    product = rep.rho(g @ h).dense()
    assert torch.allclose(product, rep.rho(g).dense() @ rep.rho(h).dense())


def test_signs_and_dense_groups() -> None:
    flips = Group([[[-1.0, 0, 0], [0, 0, 1], [0, -1, 0]]])
    (h,) = flips.discrete
    assert torch.equal(Block(0)(flips).rho(h).dense(), h.dense()[:1, :1])
    assert torch.equal(Block(1, 2)(flips).rho(h).dense(), h.dense()[1:, 1:])
    turns = SO(2) + Z(2)
    (a,) = turns.algebra
    assert torch.equal(Block(0, 1)(turns).drho(a).dense(), a.dense()[:2, :2])


def test_duals() -> None:
    shear = Group([[[1.0, 1, 0], [0, 1, 0], [0, 0, -1]]])
    (h,) = shear.discrete
    block = h.dense()[:2, :2]
    found = Block(0, 1).T(shear).rho(h).dense()
    assert torch.allclose(found, torch.linalg.inv(block).mT)


def test_all_coordinates_are_v() -> None:
    ours = equivariant_basis(Symmetry(SUM, Block(*range(5)), Scalar))
    theirs = equivariant_basis(Symmetry(SUM, V, Scalar))
    assert ours.rank == theirs.rank


def test_text() -> None:
    rep = Scalar + 2 * Block(2, 3, 4)
    assert parse_rep(str(rep))(SUM) == rep(SUM)


@pytest.mark.parametrize("columns", [(), (0, 0), (-1,), (True,), (0.5,)])
def test_bad_columns(columns: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected distinct coordinates of V, got"):
        Block(*columns)


def test_columns_that_the_group_mixes() -> None:
    with pytest.raises(ValueError, match="maps among themselves, got"):
        Block(0, 2)(SUM)
    with pytest.raises(ValueError, match="expected coordinates between 0 and 4 of V, got"):
        Block(5)(SUM)
