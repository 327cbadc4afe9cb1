"""Names of sharing patterns, and whether the symmetry that a name claims is there."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from isotropy.equivariance import equivariance_error
from isotropy.groups import SO, A, D, Dense, S, Z, parse_group
from isotropy.naming import SharingName, automorphisms, name_sharing
from isotropy.naming._naming import partial_shift
from isotropy.naming._position_words import column_words, joined, listed, motion, position_words
from isotropy.naming._row_rep import RowRep
from isotropy.naming._sharing_symmetry import acting
from isotropy.nn import EMLP
from isotropy.reps import Symmetry

RNG = np.random.default_rng(0)
Labels = NDArray[np.int64]


def circulant(first_row: list[int]) -> Labels:
    places = np.arange(len(first_row))
    return np.asarray(first_row)[(places - places[:, None]) % len(first_row)]


def palindrome(n: int) -> Labels:
    return circulant([min(k, n - k) for k in range(n)])


def sliding(outputs: int, taps: list[int], stride: int = 1) -> Labels:
    labels = np.zeros((outputs, stride * (outputs - 1) + len(taps)), dtype=np.int64)
    for i in range(outputs):
        labels[i, stride * i : stride * i + len(taps)] = taps
    return labels


def offsets(n: int) -> Labels:
    return np.arange(n) - np.arange(n)[:, None]


def checked(labels: ArrayLike, **options: object) -> SharingName:
    """Name a pattern, and see that weights with that pattern have the symmetry claimed."""
    found = name_sharing(labels, **options)  # type: ignore[arg-type]
    if found.symmetry is None:
        assert found.group is None
        assert found.order == 1
        return found
    assert found.group == found.symmetry.group
    assert found.group.order() == found.order
    pattern = np.atleast_2d(np.asarray(labels))
    blocks = np.unique(pattern, return_inverse=True)[1].reshape(pattern.shape)
    values = torch.randn(blocks.max() + 1, dtype=torch.float64, generator=torch.manual_seed(0))
    weight = values[torch.as_tensor(blocks)]
    x = torch.randn(6, pattern.shape[1], dtype=torch.float64, generator=torch.manual_seed(1))
    for g in (*found.group.discrete, found.group.sample(6, generator=0)):
        turned = found.symmetry.apply(g, x) @ weight.T
        torch.testing.assert_close(turned, found.symmetry.apply_out(g, x @ weight.T))
    back = Symmetry.from_json(found.symmetry.to_json(), found.custom)
    assert back == found.symmetry
    moved = {j for orbit in found.orbits_in if len(orbit) > 1 for j in orbit}
    assert moved <= set(found.points)
    return found


@pytest.mark.parametrize("n", range(3, 13))
def test_the_names_of_the_issue(n: int) -> None:
    assert checked(circulant(list(range(n)))).name == f"Z({n}), cyclic shift"
    assert checked(np.zeros(n, dtype=int)).name == f"S({n}), all positions"
    assert checked(np.eye(n, dtype=int)).name == f"S({n}), all positions"
    turned = checked(palindrome(n))
    if n == 3:  # D(3) and S(3) are one group
        assert turned.name == "S(3), all positions"
    else:
        assert turned.name == f"D({n}), shifts and reflections"
    if n % 2 == 0:
        k = n // 2
        signed = checked(np.arange(n) % 2)
        assert signed.name == f"S({k})+S({k}), even and odd positions"
        halves = checked(np.arange(n) // k)
        first, second = (f"{a}–{a + k - 1}" if k > 2 else f"{{{a}, {a + 1}}}" for a in (0, k))
        assert halves.name == f"S({k})+S({k}), positions {first} and {second}"
    nothing = checked(np.arange(2 * n).reshape(2, n))
    assert (nothing.name, nothing.kind) == ("no symmetry", "none")


@pytest.mark.parametrize("n", range(3, 13))
def test_scrambled_positions(n: int) -> None:
    rows, columns = RNG.permutation(n), RNG.permutation(n)
    scrambled = np.ix_(rows, columns)
    found = checked(circulant(list(range(n)))[scrambled])
    assert str(found.group) == f"Z({n})"
    assert found.name.startswith(f"Z({n}), cyclic shift")
    if "in the order" in found.name:
        assert found.name.endswith(", ".join(map(str, found.points)))
    # the listed order is that of a step through the true positions
    steps = {(columns[b] - columns[a]) % n for a, b in pairwise((*found.points, found.points[0]))}
    assert len(steps) == 1
    assert math.gcd(steps.pop(), n) == 1
    assert str(checked(palindrome(n)[scrambled]).group) == (f"D({n})" if n > 3 else "S(3)")
    assert checked(np.eye(n, dtype=int)[scrambled]).name == f"S({n}), all positions"
    assert checked((np.arange(n) % 2)[columns]).order == math.factorial(n // 2) * math.factorial(
        n - n // 2
    )


@pytest.mark.parametrize(
    ("labels", "name", "symmetry"),
    [
        (np.zeros((4, 6), dtype=int), "S(4) on outputs and S(6) on inputs", None),
        (np.zeros((4, 4), dtype=int), "S(4) on outputs and S(4) on inputs", None),
        ([[0, 1], [0, 1], [0, 1]], "S(3) on outputs", "S(3): 2*Scalar >> V"),
        ([0, 0], "S(2), all positions", "S(2): V >> Scalar"),
        ([0, 0, 1, 2, 0, 3], "S(3), positions 0, 1, 4", "S(3): V.on([0,1,4],6) >> Scalar"),
        # outputs on the edges of a polygon whose corners are inputs; even ones differ
        (circulant([1, 1] + 7 * [0]), "D(9), shifts and reflections", None),
        (circulant([1, 1] + 8 * [0]), "D(10), shifts and reflections", "D(10): V >> Outputs"),
        ([[0, 1, 2, 3], [3, 2, 1, 0]], "Z(2), reflection", None),
        # the windows do not overlap: they may be exchanged
        (sliding(4, [1, 2], 2), "S(4), even and odd positions together", None),
        (
            (np.arange(8) - 2 * np.arange(4)[:, None]) % 8,
            "Z(4), cyclic shift by 2",
            "Z(4): (2*V).on([0,2,4,6,1,3,5,7],8) >> V",
        ),
        ([[0, 1, 2, 3], [1, 0, 3, 2]], "Z(2), swaps 0 ↔ 1 and 2 ↔ 3 together", None),
        # the seven points and lines of the Fano plane: no name, but an order
        (circulant([1, 1, 0, 1, 0, 0, 0]), "permutation group of order 168, all positions", None),
    ],
)
def test_other_names(labels: ArrayLike, name: str, symmetry: str | None) -> None:
    found = checked(labels)
    assert (found.name, found.kind) == (name, "group")
    if symmetry is not None:
        assert str(found.symmetry) == symmetry


def test_grids_blocks_and_parts() -> None:
    cells = np.arange(24)
    row, column = cells // 6, cells % 6
    torus = ((row - row[:, None]) % 4) * 6 + (column - column[:, None]) % 6
    assert checked(torus).name == "Z(4)*Z(6), shifts of a 4×6 grid"
    row, column = np.divmod(np.arange(12), 4)
    rooks = (row == row[:, None]) * 2 + (column == column[:, None])
    assert checked(rooks).name == "S(3)*S(4), permuted rows and columns of a 3×4 grid"
    blocks = (np.arange(6) // 3 == np.arange(6)[:, None] // 3) + np.eye(6, dtype=int)
    assert checked(blocks).name == (
        "wreath(S(3),Z(2)), permutations within and among blocks of positions 0–2 and 3–5"
    )
    parts = np.block([[circulant([0, 1, 2, 3]), np.full((4, 3), 9)], [np.full((1, 7), 10)]])
    parts[-1, 4:] = 11
    found = checked(parts)
    assert found.name == "Z(4)+S(3), cyclic shift of positions 0–3 and positions 4–6"
    assert found.action == (
        "cyclic shift of x0…x3 and any permutation of x4, x5, x6, y0…y3 move along"
    )
    doubled = np.block([[circulant([0, 1, 2, 3, 4]), circulant([5, 6, 7, 8, 9])]])
    assert checked(doubled).name == "Z(5), cyclic shift of positions 0–4 and 5–9 together"
    # the two rows alike move by themselves, so that outputs do not follow inputs
    unruly = np.repeat(circulant([1, 1, 0, 1, 0, 0, 0]), 2, axis=0)
    assert checked(unruly).order == 168 * 2**7
    mixed = checked(np.array([[0, 1, 2], [2, 0, 1], [1, 2, 0], [3, 3, 3], [3, 3, 3]]))
    assert mixed.name == "Z(3), cyclic shift, and S(2) on outputs"


@st.composite
def patterns(draw: st.DrawFn) -> tuple[Labels, bool]:
    m, n = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    entries = draw(st.lists(st.integers(0, 2), min_size=m * n, max_size=m * n))
    return np.array(entries).reshape(m, n), m == n and draw(st.booleans())


@settings(deadline=None, max_examples=60, derandomize=True)
@given(patterns())
def test_any_pattern_has_the_symmetry_claimed(pattern: tuple[Labels, bool]) -> None:
    labels, tied = pattern
    found = checked(labels, tied=tied)
    assert found.order == automorphisms(labels, tied=tied).order
    if found.group is not None:
        assert parse_group(str(found.group)) == found.group


def test_tied_places_and_colours() -> None:
    found = checked(np.zeros((5, 5), dtype=int), tied=True)
    assert str(found.symmetry) == "S(5): V >> V"
    paley = np.isin(offsets(7) % 7, [1, 2, 4]) + 2 * np.eye(7, dtype=int)
    unnamed = checked(paley, tied=True)
    assert unnamed.order == 21
    assert str(unnamed.symmetry).endswith(": V >> V")
    found = checked(circulant(list(range(6))), output_colours=[0, 1, 0, 1, 0, 1])
    assert (found.name, found.order) == ("Z(3), cyclic shift by 2", 3)
    assert found.orbits_out == ((0, 2, 4), (1, 3, 5))
    one = checked(np.zeros((2, 4), dtype=int), output_colours=[0, 1], input_colours=[0, 1, 1, 1])
    assert str(one.symmetry) == "S(3): V.on([1,2,3],4) >> 2*Scalar"
    assert one.action == "any permutation of x1, x2, x3, outputs stay"


def test_the_users_own_column_names() -> None:
    names = ["age", "left", "mid", "right"]
    found = name_sharing([0, 1, 1, 1], input_names=names)
    assert found.action == "any permutation of left, mid, right, the output stays"
    assert str(found) == found.name == "S(3), positions 1–3"
    found = name_sharing([0, 1, 2, 1], input_names=names)
    assert found.action == "swaps left ↔ right, the output stays"
    labels = circulant([0, 1, 2, 3])
    found = name_sharing(labels, input_names=list("abcd"), output_names=list("pqrs"))
    assert found.action == "cyclic shift of a…d, outputs shift along"
    scrambled = name_sharing(labels[:, [0, 2, 1, 3]], input_names=list("abcd"))
    assert scrambled.action == "cyclic shift in the order a, c, b, d, outputs shift along"
    outputs = name_sharing([[0, 0], [0, 0], [1, 2]], output_names=list("pqr"))
    assert outputs.action == "swaps p ↔ q, inputs stay"


def test_a_network_with_the_symmetry_found() -> None:
    patterns = [
        circulant(list(range(5)))[:, RNG.permutation(5)],
        np.arange(6) % 2,
        circulant([1, 1, 0, 0]),
        np.zeros((2, 3), dtype=int),
    ]
    for labels in patterns:
        symmetry = name_sharing(labels).symmetry
        assert symmetry is not None
        torch.manual_seed(0)
        net = EMLP(
            symmetry.rep_in, symmetry.rep_out, symmetry.group, channels=24, layers=1,
            dtype=torch.float64,
        )  # fmt: skip
        x = torch.randn(8, symmetry.rep_in.size(), dtype=torch.float64)
        assert equivariance_error(net, x, symmetry) < 1e-12

        # the outputs are there to be broken: a shift of one coordinate is seen
        def broken(x: torch.Tensor, net: EMLP = net) -> torch.Tensor:
            return net(x) + x[..., :1]  # type: ignore[no-any-return]

        assert equivariance_error(broken, x, symmetry) > 1e-3


# --- partial shifts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "words", "taps", "stride"),
    [
        (sliding(6, [1, 2, 3]), "valid cross-correlation with 3 taps", (0, 1, 2), 1),
        (sliding(2, [1, 2]), "valid cross-correlation with 2 taps", (0, 1), 1),
        (sliding(5, [1, 0, 2]), "valid cross-correlation with 2 taps at 0, 2", (0, 2), 1),
        (sliding(5, [1, 2, 3], 2), "valid cross-correlation with 3 taps, stride 2", (0, 1, 2), 2),
        (sliding(4, [1, 2, 3, 4], 3), "valid cross-correlation with 4 taps, stride 3",
         (0, 1, 2, 3), 3),
        (np.where(abs(offsets(7)) < 2, offsets(7) + 2, 0),
         "zero-padded convolution with taps at -1, 0, 1", (-1, 0, 1), 1),
        (offsets(4), "weights that depend on j − i alone", (-3, -2, -1, 0, 1, 2, 3), 1),
    ],
)  # fmt: skip
def test_partial_shifts(labels: Labels, words: str, taps: tuple[int, ...], stride: int) -> None:
    found = checked(labels)
    assert (found.kind, found.name) == ("partial shift", f"partial shift ({words})")
    assert (found.taps, found.stride, found.group) == (taps, stride, None)
    assert "within its ends, outputs shift along" in found.action


def test_partial_shifts_with_a_group_besides() -> None:
    found = checked(sliding(6, [1, 2, 1]))
    assert found.kind == "partial shift"
    assert found.name == ("partial shift (valid cross-correlation with 3 taps), with reflection")
    assert (str(found.group), found.order) == ("Z(2)", 2)
    assert found.action.endswith("; reflection of x0…x7")
    x = torch.arange(8.0)
    assert torch.equal(found.symmetry.apply(found.group.discrete[0], x), x.flip(0))  # type: ignore[union-attr]
    assert checked(sliding(2, [1, 2, 1])).name.endswith(", with reflection")
    padded = checked(np.minimum(abs(offsets(5)), 2))
    assert padded.name.endswith("with taps at -1, 0, 1), with reflection")
    wide = checked(sliding(3, [1] * 6))
    assert wide.kind == "partial shift"
    assert wide.name.endswith("with Z(2)+S(4), swaps 0 ↔ 7 and 1 ↔ 6 together and positions 2–5")


def test_what_is_no_partial_shift() -> None:
    for labels in (circulant(list(range(5))), np.eye(4, dtype=int), np.zeros((3, 4), dtype=int)):
        assert checked(labels).kind == "group"
    # both windows of two, one carried to the other by swaps of inputs
    assert checked(sliding(2, [1, 2], 2)).name == "Z(2), cyclic shift by 2"
    assert checked(sliding(2, [1, 0, 2])).name == "Z(2), swaps 0 ↔ 1 and 2 ↔ 3 together"
    spoiled = sliding(6, [1, 2, 3])
    spoiled[2, 3] = 4
    assert checked(spoiled).name == "no symmetry"
    assert partial_shift(np.array([[0, 1], [2, 0]])) is None
    assert partial_shift(np.array([[0, 1, 2]])) is None
    assert partial_shift(RNG.permutation(30).reshape(5, 6)) is None
    corner = np.zeros((4, 5), dtype=int)
    corner[0, 4] = 1
    assert checked(corner).kind == "group"


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(2, 6), st.integers(2, 5), st.integers(1, 3))
def test_sliding_windows_are_read_back(outputs: int, width: int, stride: int) -> None:
    labels = sliding(outputs, list(range(1, width + 1)), stride)
    found = partial_shift(labels)
    if found is None:  # windows of one coincidence, or apart from each other
        assert (outputs - 1) * (labels.shape[1] - stride) < 2
        return
    assert (found.stride, found.taps) == (stride, tuple(range(width)))
    assert found.is_valid


# --- words, rows and bad input ------------------------------------------------------------------


def test_words() -> None:
    assert position_words([[0, 2, 4]], 6) == "even positions"
    assert position_words([[0, 1, 4]], 6, "inputs") == "inputs 0, 1, 4"
    assert position_words([[0], [1, 2, 3]], 4) == "positions 0 and 1–3"
    assert column_words([2, 0], ["a", "b", "c"]) == "a, c"
    assert listed(["a"] * 30).endswith("a, … (30 in all)")
    assert joined(["a"] * 30).endswith("a, … (30 in all)")
    assert motion(A(4), [np.arange(4)], 4).in_positions(4) == "even permutations"
    turned = motion(Z(3), [np.array([0, 2, 1]), np.array([3, 4, 5])], 6)
    assert turned.in_positions(6) == ("cyclic shift in the orders (0, 2, 1) and (3, 4, 5) together")
    assert motion(D(5), [np.array([0, 2, 4, 1, 3])], 5).in_positions(5) == "shifts and reflections"
    other = motion(parse_group("Group(discrete=[[1,2,0]])"), [np.arange(3)], 3)
    assert other.in_columns(list("abc")) == "permutations in the order a, b, c"


def test_outputs_that_follow_a_subgroup() -> None:
    """The rotations alone of a pattern that reflections preserve as well."""
    labels = circulant([1, 1, 0, 0, 0, 0])
    turn = (np.arange(6) + 2) % 6
    flip = (1 - np.arange(6)) % 6
    generators = ((turn, turn), (flip, -np.arange(6) % 6))
    found = replace(automorphisms(labels), generators=generators, order=6)
    for inputs, outputs in found.generators:
        assert np.array_equal(labels[np.ix_(outputs, inputs)], labels)
    symmetry = acting(found, labels, np.arange(6)).symmetry
    assert symmetry.group.order() == 6
    weight = torch.as_tensor(labels).double()
    x = torch.randn(6, 6, dtype=torch.float64, generator=torch.manual_seed(0))
    g = symmetry.group.elements()
    assert torch.equal(symmetry.apply(g, x) @ weight.T, symmetry.apply_out(g, x @ weight.T))


def test_rows_that_follow_columns() -> None:
    pairs = [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0], [0, 1, 0, 1], [0, 0, 1, 1]]
    rep = RowRep("Pairs", pairs)(S(4))
    g, h = S(4).sample(5, generator=0), S(4).sample(5, generator=1)
    torch.testing.assert_close((rep.rho(g) @ rep.rho(h)).dense(), rep.rho(g @ h).dense())
    # a pair is fixed by the permutation that exchanges its two places
    assert rep.rho([1, 0, 2, 3]).trace() == 2
    assert rep.rho(S(4).discrete[0].dense()).trace() == 2
    assert rep.T == rep == RowRep("Pairs", pairs)(S(4))
    assert rep != RowRep("Pairs", pairs[::-1])(S(4))
    assert (rep.size(), rep.restrict(D(4)).group) == (6, D(4))
    with pytest.raises(ValueError, match=r"expected a table of distinct rows, got two"):
        RowRep("Twins", [[1, 0], [1, 0]])
    with pytest.raises(ValueError, match=r"with the 3 columns of Z\(3\), got 2"):
        RowRep("Short", [[1, 0]])(Z(3))
    with pytest.raises(ValueError, match=r"an element that permutes the rows of Half, got one"):
        RowRep("Half", [[1, 0, 0]])(Z(3)).rho([1, 2, 0])
    with pytest.raises(ValueError, match=r"expected a permutation of SO\(2\), got Dense"):
        RowRep("Turned", [[1, 0], [0, 1]])(SO(2)).rho(Dense(torch.ones(2, 2, 2).double()))


@pytest.mark.parametrize(
    ("labels", "options", "sentence"),
    [
        ([[0, 1], [2]], {}, r"expected labels as an array, got rows of unequal lengths"),
        ([0.5, 1.5], {}, r"expected labels as integers, got float64"),
        ([], {}, r"at least one of each, got shape \(0,\)"),
        ([[0, 1]], {"tied": True}, r"expected a square matrix of labels .* got shape \(1, 2\)"),
        ([0, 1], {"input_colours": [1]}, r"expected 2 input colours, got shape \(1,\)"),
        ([0, 1], {"output_colours": [1, 1]}, r"expected 1 output colours, got shape \(2,\)"),
        ([0, 1], {"input_names": ["a"]}, r"expected 2 input names, got 1"),
        ([0, 1], {"output_names": "y"}, r"expected 1 output names, got 'y'"),
    ],
)
def test_bad_input(labels: object, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        name_sharing(labels, **options)  # type: ignore[arg-type]
