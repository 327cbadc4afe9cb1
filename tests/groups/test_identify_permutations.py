"""Names of permutation groups, against standard actions built here and orders from sympy."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.combinatorics import Permutation, PermutationGroup

from isotropy.groups import _identify_permutations, _stabilizer_chain
from isotropy.groups._abstract_name import NamedAction
from isotropy.groups._identify_permutations import PermutationIdentity, identify_permutations

Rows = list[list[int]]


@dataclass(frozen=True)
class Standard:
    """A catalogue group in its standard action, written down from the definitions."""

    generators: Rows
    n: int
    order: int

    def __add__(self, other: Standard) -> Standard:
        rows = [[*g, *range(self.n, self.n + other.n)] for g in self.generators]
        rows += [[*range(self.n), *(self.n + i for i in h)] for h in other.generators]
        return Standard(rows, self.n + other.n, self.order * other.order)

    def __mul__(self, other: Standard) -> Standard:
        pairs = [(i, j) for i in range(self.n) for j in range(other.n)]
        rows = [[g[i] * other.n + j for i, j in pairs] for g in self.generators]
        rows += [[i * other.n + h[j] for i, j in pairs] for h in other.generators]
        return Standard(rows, self.n * other.n, self.order * other.order)


def wreath(inner: Standard, outer: Standard) -> Standard:
    pairs = [(block, i) for block in range(outer.n) for i in range(inner.n)]
    rows = [[h[block] * inner.n + i for block, i in pairs] for h in outer.generators]
    for moved in range(outer.n):
        for g in inner.generators:
            rows.append([b * inner.n + (g[i] if b == moved else i) for b, i in pairs])
    return Standard(rows, inner.n * outer.n, inner.order**outer.n * outer.order)


def turn(n: int) -> list[int]:
    return [(i + 1) % n for i in range(n)]


def symmetric(n: int) -> Standard:
    return Standard([turn(n), [1, 0, *range(2, n)]], n, math.factorial(n))


def alternating(n: int) -> Standard:
    threes = [[1, k, *range(2, k), 0, *range(k + 1, n)] for k in range(2, n)]
    return Standard(threes, n, math.factorial(n) // 2)


NAMES = {
    "Trivial": lambda n: Standard([], n, 1),
    "Z": lambda n: Standard([turn(n)], n, n),
    "D": lambda n: Standard([turn(n), [-i % n for i in range(n)]], n, 2 * n),
    "S": symmetric,
    "A": alternating,
    "wreath": wreath,
}


def standard(expression: str) -> Standard:
    built = eval(expression, {"__builtins__": {}}, NAMES)
    assert isinstance(built, Standard)
    return built


def conjugated(rows: Rows, points: list[int] | tuple[int, ...]) -> Rows:
    """g[points[k]] = points[s[k]]."""
    out = []
    for s in rows:
        g = [0] * len(points)
        for k, image in enumerate(s):
            g[points[k]] = points[image]
        out.append(g)
    return out


def scrambled(group: Standard, seed: int) -> Rows:
    """The group under a random relabelling, with random products among its generators."""
    rng = np.random.default_rng(seed)
    rows = conjugated(group.generators, rng.permutation(group.n).tolist())
    for _ in range(4 if rows else 0):
        a, b = rng.integers(len(rows), size=2)
        rows.append([rows[a][i] for i in rows[b]])
    rng.shuffle(rows)
    return rows


def sympy_group(rows: Rows, n: int) -> PermutationGroup:
    return PermutationGroup([Permutation(row) for row in rows] or [Permutation(range(n))])


def assert_exact(found: PermutationIdentity, rows: Rows, n: int) -> None:
    """The named group, renumbered, is the given one; the orbits and the order are sympy's."""
    given_group = sympy_group(rows, n)
    assert found.order == given_group.order()
    orbits = sorted(tuple(sorted(orbit)) for orbit in given_group.orbits())
    orbits += [(i,) for i in range(n) if not any(i in orbit for orbit in orbits)]
    assert sorted(found.orbits) == sorted(orbits)
    assert sorted(found.points) == list(range(n))
    if found.expression is None:
        assert found.points == tuple(range(n))
        return
    built = standard(found.expression)
    assert built.n == n
    named = sympy_group(conjugated(built.generators, found.points), n)
    assert all(given_group.contains(g) for g in named.generators)
    assert all(named.contains(g) for g in given_group.generators)


# (as built, the canonical name): the second differs where a group has several.
RECOGNISED = [
    ("Trivial(1)", "Trivial(1)"),
    ("Trivial(4)", "Trivial(4)"),
    ("Z(2)", "Z(2)"),
    ("S(2)", "Z(2)"),
    ("Z(3)", "Z(3)"),
    ("A(3)", "Z(3)"),
    ("Z(12)", "Z(12)"),
    ("Z(2)*Z(3)", "Z(6)"),
    ("D(3)", "S(3)"),
    ("S(4)", "S(4)"),
    ("S(9)", "S(9)"),
    ("A(4)", "A(4)"),
    ("A(7)", "A(7)"),
    ("D(4)", "D(4)"),
    ("D(9)", "D(9)"),
    ("wreath(Z(2),Z(2))", "D(4)"),
    ("S(3)*Z(2)", "D(6)"),
    ("D(5)*Z(2)", "D(10)"),
    ("Z(2)*Z(2)", "Z(2)*Z(2)"),
    ("Z(4)*Z(6)", "Z(4)*Z(6)"),
    ("Z(12)*Z(2)", "Z(4)*Z(6)"),
    ("Z(2)*Z(2)*Z(2)*Z(2)", "Z(2)*Z(2)*Z(2)*Z(2)"),
    ("Z(4)*Z(4)", "Z(4)*Z(4)"),
    ("S(4)*Z(3)", "S(4)*Z(3)"),
    ("S(3)*S(3)", "S(3)*S(3)"),
    ("D(4)*A(4)", "A(4)*D(4)"),
    ("D(6)*Z(2)", "D(6)*Z(2)"),
    ("S(3)*Z(6)", "S(3)*Z(6)"),
    ("D(6)*Z(3)", "S(3)*Z(6)"),
    ("S(3)*Z(2)*D(5)", "D(5)*D(6)"),
    ("wreath(S(3),Z(2))", "wreath(S(3),Z(2))"),
    ("wreath(Z(2),S(3))", "wreath(Z(2),S(3))"),
    ("wreath(Z(3),D(4))", "wreath(Z(3),D(4))"),
    ("wreath(Z(2)*Z(2),A(4))", "wreath(Z(2)*Z(2),A(4))"),
    ("wreath(D(4),Z(2))", "wreath(Z(2),D(4))"),
    ("wreath(wreath(S(3),Z(2)),Z(3))", "wreath(S(3),wreath(Z(2),Z(3)))"),
    ("wreath(Z(2),Z(3))*Z(4)", "Z(4)*wreath(Z(2),Z(3))"),
    ("S(5)+S(5)", "S(5)+S(5)"),
    ("Z(4)+S(3)+A(4)", "A(4)+S(3)+Z(4)"),
    ("Trivial(2)+S(3)", "S(3)+Trivial(2)"),
    ("Z(2)+Z(2)+Z(2)+Trivial(1)", "Z(2)+Z(2)+Z(2)+Trivial(1)"),
    ("Trivial(2)*Z(5)", "Trivial(2)*Z(5)"),
    ("Z(5)*Trivial(3)", "Trivial(3)*Z(5)"),
    ("Trivial(3)*D(4)+Trivial(2)", "Trivial(3)*D(4)+Trivial(2)"),
    ("Trivial(2)*Z(2)*Z(2)", "Trivial(2)*Z(2)*Z(2)"),
    ("Trivial(2)*(S(3)+Z(2))", "Trivial(2)*S(3)+Trivial(2)*Z(2)"),
    ("Trivial(2)*Z(3)+Z(3)", "Z(3)+Trivial(2)*Z(3)"),
    ("wreath(S(3),Z(2))+Z(4)*Z(2)", "Z(2)*Z(4)+wreath(S(3),Z(2))"),
]


@pytest.mark.parametrize(("given_as", "expected"), RECOGNISED)
def test_names_and_numbers_scrambled_groups(given_as: str, expected: str) -> None:
    group = standard(given_as)
    for seed in range(2):
        rows = scrambled(group, seed)
        found = identify_permutations(rows, group.n)
        assert found.expression == expected
        assert found.order == group.order
        assert_exact(found, rows, group.n)


LARGE = [
    "S(48)",
    "A(60)",
    "Z(64)",
    "D(50)",
    "Z(8)*Z(8)",
    "Z(10)*Z(10)",
    "Z(2)*Z(2)*Z(2)*Z(2)*Z(2)*Z(2)",
    "S(10)*S(10)",
    "D(8)*D(8)",
    "wreath(S(3),Z(8))",
    "wreath(S(4),S(5))",
    "wreath(Z(2),S(50))",
    "wreath(S(50),Z(2))",
    "S(20)+S(20)",
    "S(50)+S(50)",
    "Trivial(10)*S(10)",
    "D(4)+S(10)+Trivial(3)*Z(12)+wreath(S(3),D(4))+Trivial(30)",
]


@pytest.mark.parametrize("expression", LARGE)
def test_names_large_groups(expression: str) -> None:
    group = standard(expression)
    found = identify_permutations(scrambled(group, seed=0), group.n)
    assert (found.expression, found.order) == (expression, group.order)
    # The named group in this numbering has the right order and adds nothing to the given one.
    rows = conjugated(group.generators, found.points)
    together = identify_permutations([*rows, *scrambled(group, seed=0)], group.n)
    assert together.order == group.order


def cycles(n: int, *parts: tuple[int, ...]) -> list[int]:
    row = list(range(n))
    for part in parts:
        for a, b in zip(part, [*part[1:], part[0]], strict=True):
            row[a] = b
    return row


def acting_on(things: list[frozenset[int]], rows: Rows) -> Rows:
    """The rows on their points, and after them on sets of points."""
    out = []
    for row in rows:
        n = len(row)
        images = [things.index(frozenset(row[i] for i in thing)) for thing in things]
        out.append([*row, *(n + i for i in images)])
    return out


FANO = [cycles(7, tuple(range(7))), cycles(7, (1, 2), (3, 6))]
LINES = [frozenset({(i + k) % 7 for i in (1, 2, 4)}) for k in range(7)]
GRID = [(i, j) for i in range(3) for j in range(3)]
SHIFTS = [[(i + 1) % 3 * 3 + j for i, j in GRID], [i * 3 + (j + 1) % 3 for i, j in GRID]]
QUARTER_TURN = [j * 3 + (-i) % 3 for i, j in GRID]
FLIP = [j * 3 + i for i, j in GRID]
SQUARE = [cycles(4, (0, 1, 2, 3)), cycles(4, (1, 3))]
SIDES = [frozenset({i, (i + 1) % 4}) for i in range(4)]
THREES = [cycles(6, (0, 1, 2)), cycles(6, (3, 4, 5))]

UNRECOGNISED = {
    "PSL(2,7) on the Fano plane": (FANO, 7, 168),
    "PSL(2,7) on points and lines": (acting_on(LINES, FANO), 14, 168),
    "AGL(1,5)": ([turn(5), [2 * i % 5 for i in range(5)]], 5, 20),
    "M11": ([turn(11), cycles(11, (2, 6, 10, 7), (3, 9, 4, 5))], 11, 7920),
    "quaternions, regular": (
        [cycles(8, (0, 1, 2, 3), (4, 5, 6, 7)), cycles(8, (0, 4, 2, 6), (1, 7, 3, 5))],
        8,
        8,
    ),
    "S(3), regular": ([cycles(6, (0, 1, 2), (3, 4, 5)), cycles(6, (0, 3), (1, 5), (2, 4))], 6, 6),
    "p4 on a 3x3 torus": ([*SHIFTS, QUARTER_TURN], 9, 36),
    "p4m on a 3x3 torus": ([*SHIFTS, QUARTER_TURN, FLIP], 9, 72),
    "pairs of S(3) of equal sign": ([*THREES, cycles(6, (0, 1), (3, 4))], 6, 18),
    "swapped pairs of S(3) of equal sign": (
        [*THREES, cycles(6, (0, 1), (3, 4)), cycles(6, (0, 3), (1, 4), (2, 5))],
        6,
        36,
    ),
    "S(3) and its sign": ([cycles(5, (0, 1, 2)), cycles(5, (0, 1), (3, 4))], 5, 6),
    "Z(4) and its quotient": ([cycles(6, (0, 1, 2, 3), (4, 5))], 6, 4),
    "square on corners and sides": (acting_on(SIDES, SQUARE), 8, 8),
    "three pairs, the third the sum": (
        [cycles(6, (0, 1), (4, 5)), cycles(6, (2, 3), (4, 5))],
        6,
        4,
    ),
    "blocks of S(3) with a tail": (
        wreath(standard("S(3)+Trivial(1)"), standard("Z(2)")).generators,
        8,
        72,
    ),
}


@pytest.mark.parametrize("case", UNRECOGNISED)
def test_does_not_name_what_is_not_in_the_catalogue(case: str) -> None:
    rows, n, order = UNRECOGNISED[case]
    for seed in range(2):
        given_rows = scrambled(Standard(rows, n, order), seed)
        found = identify_permutations(given_rows, n)
        assert found.expression is None
        assert found.order == order
        assert_exact(found, given_rows, n)
        count = len(found.orbits)
        orbits = f"{count} orbit" + "s" * (count > 1)
        assert found.name == f"permutation group of order {order} on {n} points with {orbits}"


def test_one_cycle_through_two_orbits_is_two_copies_whatever_its_direction() -> None:
    """A regular action is equivalent to its twists: relabel the second orbit by i -> -i."""
    rows = [cycles(6, (0, 1, 2), (5, 4, 3))]
    found = identify_permutations(rows, 6)
    assert found.expression == "Trivial(2)*Z(3)"
    assert_exact(found, rows, 6)


def test_recognised_parts_beside_an_unknown_one_are_named_in_prose() -> None:
    group = Standard(FANO, 7, 168) + standard("S(3)") + standard("Trivial(2)")
    found = identify_permutations(group.generators, group.n)
    assert found.expression is None
    assert found.order == 168 * 6
    assert found.name == (
        "permutation group of order 1008 on 12 points with 4 orbits: symmetric on {7,8,9} and "
        "an unrecognised group of order 168 on {0,1,2,3,4,5,6}, fixing {10,11}"
    )


@pytest.mark.parametrize(
    ("expression", "name"),
    [
        ("Trivial(3)", "trivial group Trivial(3)"),
        ("Z(12)", "cyclic group Z(12)"),
        ("S(5)", "symmetric group S(5)"),
        ("A(5)", "alternating group A(5)"),
        ("D(5)", "dihedral group D(5)"),
        ("Z(4)*Z(6)", "product action Z(4)*Z(6)"),
        ("wreath(S(3),Z(2))", "wreath product wreath(S(3),Z(2))"),
        ("S(3)+S(3)", "S(3)+S(3): symmetric on {0,1,2} and on {3,4,5}"),
        ("S(3)+Trivial(2)", "S(3)+Trivial(2): symmetric on {0,1,2}, fixing {3,4}"),
        ("Trivial(2)*Z(3)", "Trivial(2)*Z(3): cyclic on {0,1,2} and {3,4,5} together"),
        (
            "D(4)+Z(13)+Z(2)*Z(2)",
            "D(4)+Z(13)+Z(2)*Z(2): dihedral on {0,1,2,3}, cyclic on "
            "{4,5,6,7,8,9,10,11,12,13,14,15,...: 13 points} and Z(2)*Z(2) on {17,18,19,20}",
        ),
    ],
)
def test_prose(expression: str, name: str) -> None:
    group = standard(expression)
    found = identify_permutations(group.generators, group.n)
    assert found.expression == expression
    assert found.name == name


def test_no_generators_and_identities_give_the_trivial_group() -> None:
    for rows in ([], [[0, 1, 2]], [[0, 1, 2], [0, 1, 2]]):
        found = identify_permutations(rows, 3)
        assert found == PermutationIdentity(
            "Trivial(3)", (0, 1, 2), 1, ((0,), (1,), (2,)), "trivial group Trivial(3)"
        )


@pytest.mark.parametrize(
    ("rows", "n", "message"),
    [
        ([], 0, "expected at least one point, got n = 0"),
        ([[1, 0]], 3, r"expected a permutation of 0..2, got generator 0 = \[1, 0\]"),
        ([[0, 1, 2], [0, 0, 1]], 3, r"expected .* got generator 1 = \[0, 0, 1\]"),
        ([[1, 2, 3]], 3, r"expected .* got generator 0 = \[1, 2, 3\]"),
        ([[-1, 0, 1]], 3, r"expected .* got generator 0 = \[-1,  0,  1\]"),
        ([[0.0, 1.0, 2.0]], 3, "expected a permutation of 0..2"),
        ([[[0, 1, 2]]], 3, "expected a permutation of 0..2"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(rows: Rows, n: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        identify_permutations(rows, n)


ATOMS = st.sampled_from([*(f"Z({n})" for n in range(2, 7)), "S(3)", "S(4)", "A(4)", "D(4)", "D(5)"])


@st.composite
def transitive(draw: st.DrawFn, most: int) -> str:
    expression = draw(ATOMS)
    for _ in range(draw(st.integers(0, 2))):
        other = draw(ATOMS)
        combined = draw(
            st.sampled_from(
                [
                    f"{expression}*{other}",
                    f"wreath({expression},{other})",
                    f"wreath({other},{expression})",
                ]
            )
        )
        if standard(combined).n <= most:
            expression = combined
    return expression


@st.composite
def sums(draw: st.DrawFn) -> str:
    terms: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        copies = draw(st.sampled_from(["", "", "Trivial(2)*", "Trivial(3)*"]))
        terms.append(copies + draw(transitive(24 if not terms else 8)))
    return "+".join(terms) + draw(st.sampled_from(["", "+Trivial(2)"]))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(expression=sums(), seed=st.integers(0, 1000))
def test_every_catalogue_group_is_named_exactly_and_canonically(expression: str, seed: int) -> None:
    group = standard(expression)
    rows = scrambled(group, seed)
    found = identify_permutations(rows, group.n)
    assert found.expression is not None
    assert_exact(found, rows, group.n)
    canonical = standard(found.expression)
    again = identify_permutations(scrambled(canonical, seed + 1), group.n)
    assert again.expression == found.expression


@settings(max_examples=150, deadline=None, derandomize=True)
@given(data=st.data(), n=st.integers(2, 9))
def test_no_claim_about_arbitrary_generators_is_wrong(data: st.DataObject, n: int) -> None:
    points = st.integers(0, n - 1)
    few_swaps = st.lists(st.tuples(points, points), min_size=1, max_size=4)
    rows = []
    for swaps in data.draw(st.lists(few_swaps, min_size=1, max_size=3)):
        row = list(range(n))
        for a, b in swaps:
            row[a], row[b] = row[b], row[a]
        rows.append(row)
    assert_exact(identify_permutations(rows, n), rows, n)


@pytest.mark.parametrize("expression", ["S(6)+S(6)", "wreath(S(3),S(3))", "S(4)*S(4)", "A(9)"])
def test_a_poor_chain_may_cost_a_name_but_gives_no_wrong_one(
    expression: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_stabilizer_chain, "PATIENCE", 0)
    group = standard(expression)
    rows = scrambled(group, seed=3)
    assert _stabilizer_chain.StabilizerChain(np.array(rows)).order < group.order
    found = identify_permutations(rows, group.n)
    assert found.order == group.order
    assert_exact(found, rows, group.n)


def named(expression: str) -> NamedAction:
    """The library's tree for a name, built without identifying anything."""

    def leaf(kind: str) -> Callable[[int], Tree]:
        return lambda n: Tree(NamedAction(kind, n, standard(f"{kind}({n})").order))

    names = {kind: leaf(kind) for kind in ("Trivial", "Z", "D", "S", "A")}
    built = eval(expression, {"__builtins__": {}}, {**names, "wreath": Tree.wreath})
    assert isinstance(built, Tree)
    return built.group


@dataclass(frozen=True)
class Tree:
    group: NamedAction

    def __add__(self, other: Tree) -> Tree:
        a, b = self.group, other.group
        return Tree(NamedAction("+", a.degree + b.degree, a.order * b.order, (a, b)))

    def __mul__(self, other: Tree) -> Tree:
        a, b = self.group, other.group
        return Tree(NamedAction("*", a.degree * b.degree, a.order * b.order, (a, b)))

    def wreath(self, other: Tree) -> Tree:
        a, b = self.group, other.group
        return Tree(NamedAction("wreath", a.degree * b.degree, a.order**b.degree * b.order, (a, b)))


@pytest.mark.parametrize(
    "expression",
    [
        "Trivial(4)",
        "Z(5)",
        "D(5)",
        "S(4)",
        "A(5)",
        "Z(2)+S(3)",
        "Z(2)*Z(2)",
        "Z(3)*Z(2)",
        "Trivial(2)*S(3)",
        "wreath(Z(2),Z(3))",
        "wreath(Z(3),Z(2))",
    ],
)
def test_membership_by_enumeration(expression: str) -> None:
    group = standard(expression)
    elements = {tuple(g) for g in sympy_group(group.generators, group.n).generate(af=True)}
    members = {s for s in permutations(range(group.n)) if named(expression).contains(np.array(s))}
    assert members == elements
    assert len(elements) == group.order == named(expression).order


def test_a_wrong_proposal_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right name and order, wrong numbering: the proof must refuse it."""
    square = standard("D(4)")
    proposal = (named("D(4)"), np.array([0, 2, 1, 3]))
    monkeypatch.setattr(_identify_permutations, "_dihedral", lambda action: proposal)
    found = identify_permutations(square.generators, 4)
    assert (found.expression, found.order) == (None, 8)
