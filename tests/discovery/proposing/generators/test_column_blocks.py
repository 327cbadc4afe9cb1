import pytest

from discovery.pieces import (
    ColumnBlocks,
    as_blocks,
    blocks_by_size,
    blocks_from_names,
    blocks_of_width,
)


def spelled(blocks: ColumnBlocks, names: list[str]) -> list[str]:
    """Each block as its names, and the rest."""
    return [" ".join(names[c] for c in part) for part in (*blocks.columns, blocks.rest)]


FIVE_MASSES = [
    *(f"m{i}" for i in range(1, 6)),
    *(f"{axis}{i}" for i in range(1, 6) for axis in "xyz"),
]


@pytest.mark.parametrize(
    ("names", "parts", "coordinates"),
    [
        ("E1 px1 py1 pz1 E2 px2 py2 pz2", "E1 px1 py1 pz1|E2 px2 py2 pz2|", "E px py pz"),
        ("E1 E2 px1 px2 py1 py2 pz1 pz2", "E1 px1 py1 pz1|E2 px2 py2 pz2|", "E px py pz"),
        ("e_a px_a py_a pz_a e_b px_b py_b pz_b", "e_a px_a py_a pz_a|e_b px_b py_b pz_b|", None),
        ("p1_x p1_y p1_z p2_x p2_y p2_z", "p1_x p1_y p1_z|p2_x p2_y p2_z|", "x y z"),
        ("q1x q1y q1z q2x q2y q2z", "q1x q1y q1z|q2x q2y q2z|", None),
        ("jet0.pt jet0.eta jet1.pt jet1.eta w", "jet0.pt jet0.eta|jet1.pt jet1.eta|w", "pt eta"),
        ("xa ya za xb yb zb charge", "xa ya za|xb yb zb|charge", "x y z"),
        ("x[0] y[0] x[1] y[1]", "x[0] y[0]|x[1] y[1]|", "x y"),
        ("a_x a_y b_x b_y mass", "a_x a_y|b_x b_y|mass", "x y"),
        (
            "mu_plus_px mu_plus_py mu_minus_px mu_minus_py",
            "mu_plus_px mu_plus_py|mu_minus_px mu_minus_py|",
            "x y",
        ),
        ("x1 x2 x3 y1 y2 y3", "x1 x2 x3|y1 y2 y3|", "1 2 3"),
        (
            "x1 y1 z1 vx1 vy1 vz1 x2 y2 z2 vx2 vy2 vz2",
            "x1 y1 z1|vx1 vy1 vz1|x2 y2 z2|vx2 vy2 vz2|",
            "x y z",
        ),
        ("E1 px1 py1 pz1 E2 px2 py2 pz2 E3", "E1 px1 py1 pz1|E2 px2 py2 pz2|E3", "E px py pz"),
        (
            "Run Type1 E1 px1 py1 pz1 pt1 Q1 Type2 E2 px2 py2 pz2 pt2 Q2 M",
            "E1 px1 py1 pz1|E2 px2 py2 pz2|Run Type1 pt1 Q1 Type2 pt2 Q2 M",
            "E px py pz",
        ),
        (
            " ".join(FIVE_MASSES),
            "x1 y1 z1|x2 y2 z2|x3 y3 z3|x4 y4 z4|x5 y5 z5|m1 m2 m3 m4 m5",
            "x y z",
        ),
    ],
)
def test_the_most_plausible_blocks(names: str, parts: str, coordinates: str | None) -> None:
    columns = names.split()
    first = blocks_from_names(columns)[0]
    assert spelled(first, columns) == parts.split("|")
    assert first.n == len(columns)
    if coordinates is not None:
        assert first.coordinates == tuple(coordinates.split())


@pytest.mark.parametrize(
    "names",
    [
        [f"x{i}" for i in range(16)],
        [str(i) for i in range(8)],
        [f"x[{i}]" for i in range(4)],
        ["m1", "m2"],
        ["age", "sex", "bmi", "s1", "s2", "s3"],
        [],
        ["x", "y", "z"],
    ],
)
def test_names_that_only_count_give_nothing(names: list[str]) -> None:
    assert blocks_from_names(names) == []


def test_masses_may_be_in_the_blocks_too() -> None:
    found = [spelled(blocks, FIVE_MASSES) for blocks in blocks_from_names(FIVE_MASSES)]
    assert ["m1 x1 y1 z1", "m2 x2 y2 z2"] == found[1][:2]
    assert found[1][-1] == ""
    assert len(found) <= 4


def test_momenta_alone_are_a_second_choice_to_four_momenta() -> None:
    names = ["E1", "px1", "py1", "pz1", "E2", "px2", "py2", "pz2"]
    first, second = blocks_from_names(names)
    assert first.reason == (
        "columns E1, px1, py1, pz1 and E2, px2, py2, pz2 have the same names but for a number"
    )
    assert spelled(second, names) == ["px1 py1 pz1", "px2 py2 pz2", "E1 E2"]


@pytest.mark.parametrize("count", [2, 3, 7])
def test_any_number_of_blocks_in_any_order_of_columns(count: int) -> None:
    # one block after another and one coordinate after another must read alike
    by_block = [f"{c}{i}" for i in range(count) for c in ("t", "x", "y", "z")]
    by_coordinate = [f"{c}{i}" for c in ("t", "x", "y", "z") for i in range(count)]
    one, other = blocks_from_names(by_block)[0], blocks_from_names(by_coordinate)[0]
    assert spelled(one, by_block) == spelled(other, by_coordinate)
    assert one.k == count
    assert one.d == 4


def test_blocks_by_size_are_the_divisors() -> None:
    for n in range(1, 40):
        sizes = [(blocks.k, blocks.d) for blocks in blocks_by_size(n)]
        assert sizes == [(k, n // k) for k in range(2, n) if n % k == 0]
        for blocks in blocks_by_size(n):
            assert [c for block in blocks.columns for c in block] == list(range(n))


def test_what_the_user_gives() -> None:
    names = ["w", "E1", "E2", "p1", "p2"]
    by_name = as_blocks([["E1", "p1"], ["E2", "p2"]], names, 5)
    by_number = as_blocks([[1, 3], [2, 4]], names, 5)
    assert by_name == by_number
    assert by_name == ColumnBlocks(((1, 3), (2, 4)), ("E", "p"), (0,), "given")
    assert as_blocks([[1, 3], [2, 4]], None, 5).coordinates == ("x0", "x1")
    assert as_blocks(2, [f"x{i}" for i in range(6)], 6).coordinates == ("x0", "x1", "x2")
    assert as_blocks(2, ["E1", "px1", "E2", "px2"], 4).coordinates == ("E", "px")
    assert as_blocks(3, None, 6).columns == blocks_of_width(6, 3).columns


@pytest.mark.parametrize(
    ("blocks", "names", "message"),
    [
        (4, None, r"expected a number of blocks that divides 6 columns, got 4"),
        (0, None, r"divides 6 columns, got 0"),
        (-2, None, r"divides 6 columns, got -2"),
        ([[0, 1], [2]], None, r"expected blocks of one length, .* got 1 and 2"),
        ([], None, r"expected blocks of one length, .* got no blocks"),
        ([[], []], None, r"at least one column, got 0"),
        ([[0, 1], [1, 2]], None, r"expected each column in one block at most, got 1 twice"),
        ([[0, 1], [1, 2]], list("abcdef"), r"in one block at most, got b twice"),
        ([[0, 6]], None, r"expected a column from 0 to 5 in a block, got 6"),
        ([[0, -1]], None, r"expected a column from 0 to 5 in a block, got -1"),
        ([["a", "q"]], list("abcdef"), r"expected one of a, b, .*, got 'q' in a block"),
        ([["a", "b"]], None, r"expected names for the columns, got 'a' in a block"),
        (2, list("abc"), r"expected 6 names of columns, got 3"),
    ],
)
def test_bad_blocks(blocks: object, names: list[str] | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_blocks(blocks, names, 6)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ("E,p", r"expected a number of blocks or lists of columns, got 'E,p'"),
        (True, r"expected a number of blocks or lists of columns, got True"),
        (2.0, r"expected a number of blocks or lists of columns, got 2.0"),
        (["ab", "cd"], r"expected each block as a list of columns, got 'ab'"),
        ([0, 1], r"expected each block as a list of columns, got 0"),
        ([[0.5, 1]], r"expected a column's number or name in a block, got 0.5"),
    ],
)
def test_blocks_of_another_type(blocks: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        as_blocks(blocks, None, 6)  # type: ignore[arg-type]
