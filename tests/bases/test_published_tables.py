"""Thesis Tables A.1, A.2 and the cube, against closed forms that share no code with the solver."""

from __future__ import annotations

from math import comb, prod

import pytest

from isotropy import equivariant_basis
from isotropy.groups import RubiksCube, S, Z
from isotropy.reps import T

LARGEST = 10**7

# as printed in the thesis; None where the cell is blank
TABLE_A1 = {
    1: [1, 1, 1, 1, 1, 1, 1],
    2: [2, 3, 4, 5, 6, 7, 8],
    3: [4, 9, 16, 25, 36, 49, 64],
    4: [8, 27, 64, 125, 216, 343, 512],
    5: [16, 81, 256, 625, 1296, 2401, None],
    6: [32, 243, 1024, 3125, None, None, None],
    7: [64, 729, 4096, None, None, None, None],
}
TABLE_A2 = {
    1: [1, 1, 1, 1, 1, 1, 1],
    2: [2, 2, 2, 2, 2, 2, 2],
    3: [4, 5, 5, 5, 5, 5, 5],
    4: [8, 14, 15, 15, 15, 15, 15],
    5: [16, 41, 51, 52, 52, 52, 52],
    6: [32, 122, 187, 202, 203, 203, None],
    7: [64, 365, 715, 855, None, None, None],
}


def cells(table: dict[int, list[int | None]]) -> list[tuple[int, int, int | None]]:
    return [
        (n, k, printed)
        for k, row in table.items()
        for n, printed in enumerate(row, start=2)
        if n**k <= LARGEST
    ]


def stirling(k: int, j: int) -> int:
    """Ways to split k things into j sets."""
    if k == 0 or j == 0:
        return int(k == j)
    return j * stirling(k - 1, j) + stirling(k - 1, j - 1)


@pytest.mark.parametrize(("n", "k", "printed"), cells(TABLE_A1))
def test_cyclic_groups(n: int, k: int, printed: int | None) -> None:
    rank = equivariant_basis(T(k)(Z(n))).rank
    assert rank == n ** (k - 1)
    assert printed in (None, rank)


@pytest.mark.parametrize(("n", "k", "printed"), cells(TABLE_A2))
def test_symmetric_groups(n: int, k: int, printed: int | None) -> None:
    rank = equivariant_basis(T(k)(S(n))).rank
    assert rank == sum(stirling(k, j) for j in range(1, min(n, k) + 1))
    assert printed in (None, rank)


def set_partitions(k: int) -> list[list[int]]:
    """The block sizes of every way to split k labelled things into sets."""
    if k == 0:
        return [[]]
    sizes = []
    for others in range(k):  # the first thing's block holds so many others
        sizes += [[others + 1, *rest] for rest in set_partitions(k - 1 - others)] * comb(
            k - 1, others
        )
    return sizes


def facelet_orbits(k: int, faces: int, cubies: int) -> int:
    """Orbits of Z(faces) wr S(cubies) on k-tuples of facelets.

    Which entries share a cubie is a set partition; within a cubie only their relative turn
    counts. With k below the number of cubies less one, the laws that tie all cubies of the
    real cube together (parity, sum of twists, sum of flips) forbid nothing.
    """
    assert k < cubies - 1
    return sum(prod(faces ** (size - 1) for size in sizes) for sizes in set_partitions(k))


@pytest.mark.parametrize(("k", "rank"), [(1, 2), (2, 9), (3, 51), (4, 350)])
def test_the_rubiks_cube(k: int, rank: int) -> None:
    """2 and 9, not the printed 2 and 6: Table A.3 counts the orbits of another group."""
    by_hand = sum(
        comb(k, j) * facelet_orbits(j, 3, 8) * facelet_orbits(k - j, 2, 12) for j in range(k + 1)
    )
    basis = equivariant_basis(T(k)(RubiksCube()))
    assert basis.rank == rank == by_hand
    assert basis.size == 48**k
    assert basis.residual() == 0.0
