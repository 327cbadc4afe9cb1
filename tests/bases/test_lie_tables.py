"""Thesis Tables A.4 to A.8, every cell up to 10⁷ entries, from two solvers that share no code."""

from __future__ import annotations

import pytest

from isotropy import Rep, T, equivariant_basis, parse_group

LARGEST = 10**7

# as printed; None where the cell is blank; rows are T_2 … T_8
SPECIAL_ORTHOGONAL = {
    2: [2, 1, 1, 1, 1, 1],
    3: [0, 1, 0, 0, 0, 0],
    4: [6, 3, 4, 3, 3, 3],
    5: [0, 6, 0, 1, 0, 0],
    6: [20, 15, 25, 15, 16, 15],
    7: [0, 36, 0, 15, None, None],
    8: [70, 91, 196, None, None, None],
}
ORTHOGONAL = {
    2: [1, 1, 1, 1, 1, 1],
    3: [0, 0, 0, 0, 0, 0],
    4: [3, 3, 3, 3, 3, 3],
    5: [0, 0, 0, 0, 0, 0],
    6: [10, 15, 15, 15, 15, 15],
    7: [0, 0, 0, 0, None, None],
    8: [35, 91, 105, None, None, None],
}
LORENTZ = {
    "SO13p": [1, 0, 4, 0, 25, 0, 196],
    "SO13": [1, 0, 4, 0, 25, 0, 196],
    "O13": [1, 0, 3, 0, 15, 0, 105],
}
SYMPLECTIC = {
    2: [1, 1, 1, 1, 1, 1],
    3: [0, 0, 0, 0, 0, 0],
    4: [2, 3, 3, 3, 3, 3],
    5: [0, 0, 0, 0, 0, 0],
    6: [5, 14, 15, 15, None, None],
    7: [0, 0, 0, None, None, None],
    8: [14, 84, None, None, None, None],
}
# the header of Table A.8 says T_(q,p)
UNITARY_COLUMNS = [(3, 0), (3, 1), (3, 2), (3, 3), (4, 0), (4, 1), (4, 2)]
SPECIAL_UNITARY = {
    2: [0, 2, 0, 5, 2, 0, 5],
    3: [1, 0, 0, 6, 0, 3, 0],
    4: [0, 0, 0, 6, 1, 0, 0],
}


def cells() -> list[tuple[Rep, int | None]]:
    found: list[tuple[Rep, int | None]] = []
    for family, first, table in (
        ("SO", 2, SPECIAL_ORTHOGONAL),
        ("O", 2, ORTHOGONAL),
        ("Sp", 1, SYMPLECTIC),
    ):
        for k, row in table.items():
            for n, printed in enumerate(row, start=first):
                found.append((T(k)(parse_group(f"{family}({n})")), printed))
    for name, row in LORENTZ.items():
        found += [(T(k)(parse_group(name)), printed) for k, printed in enumerate(row, start=2)]
    for n, row in SPECIAL_UNITARY.items():
        for (p, q), printed in zip(UNITARY_COLUMNS, row, strict=True):
            found.append((T(p, q)(parse_group(f"SU({n})")), printed))
    return [(rep, printed) for rep, printed in found if rep.size() <= LARGEST]


@pytest.mark.parametrize(("rep", "printed"), cells(), ids=str)
def test_cell(rep: Rep, printed: int | None) -> None:
    basis = equivariant_basis(rep, method="zero-weight", cache=False)
    assert basis.rank == equivariant_basis(rep, method="invariant-theory", cache=False).rank
    assert printed in (None, basis.rank)
    if basis.size <= 10**5:
        assert basis.residual() <= 1e-10
