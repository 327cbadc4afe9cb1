"""Groups against their definitions: orders, elements, sampling, products, bad input."""

from __future__ import annotations

import copy
import itertools
import math
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sympy.combinatorics import Permutation, PermutationGroup

from isotropy.groups import (
    FAMILIES,
    GL,
    SE,
    SL,
    SO,
    A,
    D,
    D2d,
    Dense,
    DkeR3,
    E,
    GridFlips,
    GridShifts,
    GridTurns,
    Group,
    Inversion,
    Monomial,
    O,
    Operator,
    RubiksCube,
    S,
    SO2eR3,
    Sp,
    Trivial,
    U,
    Z,
    code_length,
    decode,
    embed,
    encode,
    p4,
    p4m,
    parse_group,
    semidirect,
    wreath,
)
from isotropy.groups._catalogue import decode_prefix
from isotropy.reps import Symmetry, V

NAMED = [
    *("Trivial(3)", "Z(1)", "Z(8)", "S(1)", "S(2)", "S(5)", "A(3)", "A(4)", "A(5)", "D(3)"),
    *("D(6)", "C2d(1)", "C2d(5)", "C2d(8)", "D2d(1)", "D2d(3)", "D2d(4)", "SO(1)", "SO(2)"),
    *("SO(4)", "O(1)", "O(3)", "SL(1)", "SL(3)", "GL(1)", "GL(2)", "U(1)", "U(2)", "SU(2)"),
    *("SU(3)", "Sp(1)", "Sp(2)", "SO13p", "SO13", "O13", "SO11p", "O11", "SE(2)", "SE(3)"),
    *("E(2)", "RubiksCube", "SO2eR3", "O2eR3", "DkeR3(6)", "GridShifts(1)", "GridShifts(4)"),
    *("GridTurns(3)", "GridFlips(4)", "p4(3)", "p4m(3)", "Scaling(3)", "Inversion(3)"),
    *("Parity", "TimeReversal", "SOpq(2,1)", "SOpq(1,3)", "SOpq(2,2)"),
]
COMPOUND = [
    *("Z(3)*Z(4)", "S(3)+Z(2)", "Z(2)*(Z(2)+Z(3))", "wreath(Z(3),Z(3))", "wreath(O(2),S(3))"),
    *("semidirect(GridShifts(3),GridTurns(3))", "embed(SO(2),4,1)", "SO(3)*S(4)", "SE(3)*S(4)"),
    *("SO(2)+Z(3)", "wreath(Inversion(1),S(3))", "embed(D2d(3),4)", "wreath(S(2),Z(2)+Z(3))"),
    *("conjugate(Z(4),[1,0,3,2])", "Group(discrete=[[1,2,0],[[0,-1,0],[1,0,0],[0,0,1]]])"),
    *("Group(algebra=[[[0,1],[1,0]]])", "Group(d=3)", "conjugate(SO(2),[[1,0.5],[0,2]])"),
    *("Group(algebra=[[[1j,0j],[0j,-1j]]])", "Group(discrete=[[[(1+1j),0j],[0j,1j]]])"),
]


@pytest.mark.parametrize("text", NAMED + COMPOUND)
def test_texts_parse_back(text: str) -> None:
    group = parse_group(text)
    assert str(group) == text
    assert parse_group(str(group)) == group
    assert hash(parse_group(text)) == hash(group)
    assert pickle.loads(pickle.dumps(group)) == group
    assert str(pickle.loads(pickle.dumps(group))) == text
    assert copy.deepcopy(group) is group


def test_every_family_of_the_catalogue_is_tested() -> None:
    assert {f.name for f in FAMILIES} == {text.split("(")[0] for text in NAMED}


@pytest.mark.parametrize("text", NAMED + COMPOUND)
def test_samples_belong_to_the_group(text: str) -> None:
    group = parse_group(text)
    drawn = group.sample(5, generator=0)
    assert tuple(drawn.batch) == (5,)
    assert drawn.dense().shape == (5, group.d, group.d)
    assert all(group.contains(drawn[i]) in (True, None) for i in range(5))
    torch.testing.assert_close(drawn.dense(), group.sample(5, generator=0).dense())
    assert tuple(group.sample(generator=1).batch) == ()
    assert group.sample(0).dense().shape == (0, group.d, group.d)


@pytest.mark.parametrize("text", NAMED)
def test_generators_belong_to_the_group(text: str) -> None:
    """Each generator, and the exponential of each algebra element, satisfies the definition."""
    group = parse_group(text)
    for h in group.discrete:
        assert group.contains(h) is True or group.algebra
        assert group.contains(h) is not False
    for a in group.algebra:
        element = torch.linalg.matrix_exp(0.7 * a.dense())
        assert group.contains(element) is not False


DIMENSIONS = {
    "SO(4)": 6,
    "O(3)": 3,
    "SL(3)": 8,
    "GL(2)": 4,
    "U(2)": 4,
    "SU(3)": 8,
    "Sp(2)": 10,
    "SO13p": 6,
    "O13": 6,
    "O11": 1,
    "SOpq(2,1)": 3,
    "SOpq(2,2)": 6,
    "SE(3)": 6,
    "E(2)": 3,
    "O2eR3": 1,
    "Scaling(3)": 1,
    "wreath(O(2),S(3))": 3,
    "SE(3)*S(4)": 6,
}


@pytest.mark.parametrize(("text", "dimension"), DIMENSIONS.items())
def test_lie_algebras_are_bases_of_closed_algebras(text: str, dimension: int) -> None:
    basis = torch.stack([a.dense().to(torch.complex128) for a in parse_group(text).algebra])
    flat = torch.view_as_real(basis).reshape(len(basis), -1)
    assert len(basis) == dimension == int(torch.linalg.matrix_rank(flat))
    brackets = torch.einsum("iab,jbc->ijac", basis, basis)
    brackets = torch.view_as_real(brackets - brackets.transpose(0, 1)).reshape(dimension**2, -1)
    assert int(torch.linalg.matrix_rank(torch.cat([flat, brackets]))) == dimension


def sympy_order(group: Group) -> int:
    generators = [h.dense().argmax(0).tolist() for h in group.discrete]
    return int(PermutationGroup([Permutation(g) for g in generators]).order())


@pytest.mark.parametrize(
    "group",
    [
        *(Z(8), S(6), A(5), A(6), D(7), GridShifts(4), GridTurns(3), GridFlips(4), p4(3), p4(4)),
        *(p4m(3), p4m(4), RubiksCube(), Z(3) * S(3), S(3) + S(4), wreath(S(3), Z(2))),
        *(wreath(Z(2), Z(2) + Z(3)), semidirect(GridShifts(5), GridTurns(5))),
    ],
    ids=str,
)
def test_orders_of_permutation_groups_are_sympys(group: Group) -> None:
    assert group.order() == sympy_order(group)
    plain = Group([h.monomial() for h in group.discrete])  # without the closed form
    assert plain == group
    assert plain.order() == group.order()


def test_the_rubiks_cube() -> None:
    assert RubiksCube().order() == 43252003274489856000
    for turn in RubiksCube().discrete:
        moved = (turn.monomial().index != torch.arange(48)).sum()  # type: ignore[union-attr]
        fourth = turn @ turn @ turn @ turn
        assert int(moved) == 20
        assert fourth.monomial().is_identity  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("group", "order"),
    [
        (D2d(5), 10),
        (DkeR3(6), 12),
        (Inversion(4), 2),
        (O(1), 2),
        (SO(1), 1),
        (Trivial(3), 1),
        (Inversion(2) * Inversion(2), 2),  # (-1) ⊗ (-1) = 1
        (wreath(Inversion(1), S(3)), 48),
        (wreath(D2d(3), Z(2)), 72),
        (SO(3), math.inf),
        (Group([[[2.0, 0.0], [0.0, 1.0]]]), math.inf),
        (Group([[[1.0, 1.0], [0.0, 1.0]]]), math.inf),
        (Z(2) * SO(2), math.inf),
        (Group([[[0.0, -1.0], [1.0, 0.0]]]), 4),
        (Group([torch.tensor([[0, 1j], [1j, 0]])]), 4),
        (Group([[[math.cos(0.4 * math.pi), -math.sin(0.4 * math.pi)],
                 [math.sin(0.4 * math.pi), math.cos(0.4 * math.pi)]]]), 5),
    ],
    ids=str,
)  # fmt: skip
def test_orders_of_other_groups(group: Group, order: float) -> None:
    assert group.order() == order


@pytest.mark.parametrize(
    "group",
    [Z(5), S(4), A(4), D(5), D2d(3), p4(3), p4m(3), Z(2) * Z(3), wreath(Inversion(1), Z(2))],
    ids=str,
)
def test_elements_are_all_there_once_and_closed(group: Group) -> None:
    matrices = group.elements().dense()
    assert len(matrices) == group.order()
    torch.testing.assert_close(matrices[0], torch.eye(group.d, dtype=torch.float64))
    distinct = torch.unique((matrices * 1e6).round().reshape(len(matrices), -1), dim=0)
    assert len(distinct) == len(matrices)
    places = [group.element_table.find(Dense(matrix)) for matrix in matrices]
    assert places == list(range(len(matrices)))


def test_an_order_that_is_unknown_is_not_made_up() -> None:
    turn = Group([[[math.cos(1.0), -math.sin(1.0)], [math.sin(1.0), math.cos(1.0)]]])
    with pytest.raises(ValueError, match="generator of infinite or larger order"):
        turn.order()
    assert turn.contains([[1.0, 0.0], [0.0, 1.0]]) is None
    assert tuple(turn.sample(3, generator=0).batch) == (3,)


def test_infinite_groups_are_not_listed() -> None:
    with pytest.raises(ValueError, match="finite group to list"):
        SO(3).elements()
    with pytest.raises(ValueError, match="at most 200000 elements"):
        S(10).elements()


# --- sampling -----------------------------------------------------------------------------

FINITE = [Z(4), S(4), A(4), D(4), D2d(3), p4(3), wreath(Z(2), Z(2)), RubiksCube(), S(3) + Z(2),
          Group([[1, 2, 0, 3], [0, 2, 3, 1]]), wreath(Inversion(1), S(3)),
          Group([[[0.0, -1.0], [1.0, 0.0]], [[-1.0, 0.0], [0.0, 1.0]]])]  # fmt: skip


@pytest.mark.parametrize("group", FINITE, ids=str)
def test_finite_groups_are_sampled_uniformly(group: Group) -> None:
    """Burnside: the mean of χ over a uniform draw is the number of orbits; of χ², of pairs."""
    from isotropy.bases import equivariant_basis
    from isotropy.reps import T, V

    trace = group.sample(20_000, generator=0).trace()
    for power, rep in ((1, V), (2, T(2))):
        expected = equivariant_basis(rep(group), method="dense").rank
        error = float((trace**power).std()) / 20_000**0.5
        assert abs(float((trace**power).mean()) - expected) < 5 * error + 1e-9


COMPACT = [
    (SO(2), [2, 0, 6]),
    (SO(3), [1, 1, 3]),
    (O(3), [1, 0, 3]),
    (SO2eR3(), [3, 7, 19]),
    (Group(algebra=[a.dense() for a in SO(3).algebra]), [1, 1, 3]),
    (Group([[[-1.0, 0.0], [0.0, 1.0]]], [[[0.0, -1.0], [1.0, 0.0]]]), [1, 0, 3]),
    (wreath(O(2), S(2)), [1, 0, 6]),
]


@pytest.mark.parametrize(("group", "ranks"), COMPACT, ids=str)
def test_compact_groups_are_sampled_from_haar_measure(group: Group, ranks: list[int]) -> None:
    """The mean of χ^k over Haar measure is the number of invariant tensors of order k."""
    trace = group.sample(40_000, generator=0).trace()
    for k, rank in zip((2, 3, 4), ranks, strict=True):
        moment = trace**k
        assert abs(float(moment.mean()) - rank) < 5 * float(moment.std()) / 200


@pytest.mark.parametrize(("text", "expected"), [("U(2)", 2.0), ("SU(3)", 2.0), ("SU(2)", 2.0)])
def test_unitary_groups_are_sampled_from_haar_measure(text: str, expected: float) -> None:
    trace = parse_group(text).sample(40_000, generator=0).trace()
    moment = trace.abs() ** 4  # invariants of T(2,2)
    assert abs(float(moment.mean()) - expected) < 5 * float(moment.std()) / 200
    assert abs(trace.mean()) < 0.03


def test_generic_haar_draws_match_the_closed_form() -> None:
    """A user's copy of U(2) is drawn by random powers; U(2) itself by QR."""
    mine = Group(algebra=[a.dense() for a in U(2).algebra])
    moment = mine.sample(40_000, generator=0).trace().abs() ** 4
    assert abs(float(moment.mean()) - 2.0) < 5 * float(moment.std()) / 200


def test_euclidean_motions_keep_their_shape() -> None:
    motions = E(3).sample(50, generator=0).dense()
    rotation = motions[:, :3, :3]
    torch.testing.assert_close(
        rotation.mT @ rotation, torch.eye(3, dtype=torch.float64).expand(50, 3, 3)
    )
    signs = torch.linalg.det(rotation).sign()
    assert 5 < int((signs > 0).sum()) < 45
    assert int((torch.linalg.det(SE(3).sample(50, generator=0).dense()[:, :3, :3]) < 0).sum()) == 0


@pytest.mark.parametrize("bad", [-1, 1.5, True, "3"])
def test_bad_numbers_of_samples(bad: object) -> None:
    with pytest.raises(ValueError, match="expected a number of samples"):
        Z(3).sample(bad)  # type: ignore[arg-type]


# --- combinations -------------------------------------------------------------------------


def test_products_act_on_tensor_products_and_keep_their_factors() -> None:
    group = Z(3) * SO(2) * Z(2)
    g = group.sample(generator=0)
    assert repr(g) == "Kron(size=12)"
    assert [p.size for p in g.parts] == [3, 2, 2]  # type: ignore[attr-defined]
    assert group == (Z(3) * SO(2)) * Z(2) == Z(3) * (SO(2) * Z(2))
    assert str(group) == "Z(3)*SO(2)*Z(2)"
    first = group.discrete[0].dense()
    torch.testing.assert_close(first, torch.kron(Z(3).discrete[0].dense(), torch.eye(4).double()))


def test_sums_act_side_by_side() -> None:
    group = Z(3) + SO(2)
    assert group.d == 5
    torch.testing.assert_close(
        group.discrete[0].dense(),
        torch.block_diag(Z(3).discrete[0].dense(), torch.eye(2).double()),
    )
    torch.testing.assert_close(
        group.algebra[0].dense(),
        torch.block_diag(torch.zeros(3, 3).double(), SO(2).algebra[0].dense()),
    )


def test_grid_groups_do_to_images_what_torch_does() -> None:
    n = 5
    image = torch.arange(n * n).reshape(n, n)

    def act(g: object) -> torch.Tensor:
        return g.apply(image.flatten()).reshape(n, n)  # type: ignore[attr-defined]

    down, right = GridShifts(n).discrete
    assert torch.equal(act(down), image.roll(1, 0))
    assert torch.equal(act(right), image.roll(1, 1))
    assert torch.equal(act(GridTurns(n).discrete[0]), image.rot90())
    assert torch.equal(act(GridFlips(n).discrete[0]), image.flip(0))
    assert torch.equal(act(GridFlips(n).discrete[1]), image.flip(1))
    assert GridShifts(n) == Z(n) * Z(n)
    assert p4(n) == semidirect(GridShifts(n), GridTurns(n))


def test_semidirect_products_are_checked() -> None:
    with pytest.raises(ValueError, match="act on one space"):
        semidirect(Z(3), Z(4))
    with pytest.raises(ValueError, match="normalise"):
        semidirect(Z(5), Group([[1, 0, 2, 3, 4]]))
    with pytest.raises(ValueError, match="normalise the Lie algebra"):
        semidirect(SO2eR3(), Group(algebra=[SO(3).algebra[1]]))
    translations = Group(algebra=list(SE(2).algebra[1:]))
    assert semidirect(translations, embed(SO(2), 3)).d == 3


def test_wreath_products_have_generators_for_every_orbit_of_blocks() -> None:
    group = wreath(Z(2), Z(2) + Trivial(1))
    assert group.order() == sympy_order(group) == 2**3 * 2
    with pytest.raises(ValueError, match="permutation group as the outer group"):
        wreath(Z(2), SO(2))


def test_conjugates_keep_name_order_and_shape() -> None:
    change = torch.tensor([[1.0, 0.5], [0.0, 2.0]])
    tilted = D2d(5).conjugate(change)
    assert (tilted.name, tilted.order(), tilted.is_compact) == ("D2d(5)", 10, True)
    p = change.double()
    torch.testing.assert_close(
        tilted.discrete[0].dense(), p @ D2d(5).discrete[0].dense() @ torch.linalg.inv(p)
    )
    twice = tilted.conjugate([[2.0, 0.0], [0.0, 1.0]])
    assert twice == D2d(5).conjugate(torch.tensor([[2.0, 1.0], [0.0, 2.0]]))
    relabelled = S(4).conjugate([2, 0, 3, 1])
    assert relabelled.is_permutation
    assert relabelled.order() == 24
    with pytest.raises(ValueError, match=r"size 2 .* got size 3"):
        D2d(5).conjugate([0, 1, 2])
    with pytest.raises(ValueError, match="singular"):
        D2d(5).conjugate([[1.0, 1.0], [1.0, 1.0]])


def test_embeddings() -> None:
    assert embed(SO(2), 3) == SO2eR3()
    torch.testing.assert_close(
        embed(Z(2), 4, 1).discrete[0].apply(torch.arange(4.0)), torch.tensor([0.0, 2.0, 1.0, 3.0])
    )
    with pytest.raises(ValueError, match="room for 3 coordinates"):
        embed(SO(3), 4, 2)


# --- your own group -----------------------------------------------------------------------


def test_own_groups_are_compared_by_value() -> None:
    about_z = Group(algebra=[SO(3).algebra[0]])
    about_x = Group(algebra=[SO(3).algebra[2]])
    assert about_z != about_x
    assert about_z == Group(algebra=[SO(3).algebra[0].dense()], name="mine")
    assert Group([[1, 2, 0]]) == Z(3)
    assert Group([[1, 2, 0]], name="turn").name == "turn"
    assert Z(2) == S(2)
    assert Z(3) != Z(4)
    assert Z(3) != "Z(3)"


def test_own_groups_from_operators() -> None:
    roll = Operator(6, lambda x: x.roll(2, -1))
    group = Group([roll])
    assert group == Group([roll])
    assert group != Group([Operator(6, lambda x: x.roll(2, -1))])
    assert not group.by_value
    assert group.is_orthogonal
    with pytest.raises(ValueError, match="opaque operators"):
        group.sample(2)
    with pytest.raises(ValueError, match="cannot read the group"):
        parse_group(str(group))


def test_a_name_of_the_catalogue_is_a_claim() -> None:
    symmetric = [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    with pytest.raises(ValueError, match=r"generators of SO\(3\), got Lie algebra element 0 outs"):
        Group(algebra=[symmetric], name="SO(3)")
    with pytest.raises(ValueError, match=r"generators of A\(4\), got discrete generator 0 outside"):
        Group([[1, 0, 2, 3]], name="A(4)")
    assert Group(algebra=SO(3).algebra, name="SO(3)").name == "SO(3)"
    assert Group(algebra=[symmetric], name="boosts").name == "boosts"


def test_groups_are_immutable() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        Z(3).d = 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[[1.0, 1.0], [1.0, 1.0]]],), "singular"),
        (([[[1.0, 2.0]]],), "square"),
        (([[[float("nan"), 0.0], [0.0, 1.0]]],), "finite"),
        (([[1, 0], [1, 2, 0]],), r"sizes \[2, 3\]"),
        (([[1, 0]], [[[0.0]]]), r"sizes \[1, 2\]"),
        (((), [[1, 0]]), "square matrix, got a permutation"),
        ((), "at least one generator"),
    ],
)
def test_bad_generators_are_refused(arguments: tuple, message: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=message):
        Group(*arguments)


@pytest.mark.parametrize(
    ("family", "bad"), [(Z, 0), (S, -1), (D, 2), (A, 2), (SO, 2.5), (O, True), (p4, 2), (GL, "3")]
)
def test_bad_sizes_are_refused(family: type[Group], bad: object) -> None:
    with pytest.raises(ValueError, match="with an integer n >= "):
        family(bad)  # type: ignore[arg-type]


def test_subgroups() -> None:
    for sub, group in [(SO(3), O(3)), (Z(4), S(4)), (Z(4), D(4)), (A(5), S(5)),
                       (GridShifts(3), p4m(3)), (SO2eR3(), SO(3)), (SO(2), Sp(1)),
                       (SO(3), SL(3)), (D2d(5), O(2))]:  # fmt: skip
        Symmetry(group, V, V).restrict(sub)
    for sub, group in [(O(3), SO(3)), (S(4), A(4)), (D(4), Z(4)), (SO(3), Z(3)), (GL(2), SL(2)),
                       (D2d(5), SO(2)), (D2d(5), D2d(4))]:  # fmt: skip
        with pytest.raises(ValueError, match="expected a subgroup"):
            Symmetry(group, V, V).restrict(sub)
    with pytest.raises(ValueError, match="on 3 dimensions"):
        Symmetry(SO(3), V, V).restrict(SO(2))


# --- texts and codes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected a group, got the end of the text at position 0"),
        ("Z(8", r"expected '\)', got the end of the text at position 3"),
        ("Z(8))", r"expected the end, got '\)' at position 4"),
        ("Q(8)", r"unknown group 'Q' .* at position 0"),
        ("Z(x)", r"expected an integer, got 'x' at position 2"),
        ("Z(0)", r"n >= 1, got 0 at position 0"),
        ("Z(3) & Z(4)", r"unexpected character '&' at position 5"),
        ("S(5)+", r"expected a group, got the end of the text at position 5"),
        ("S(3)*D(2)", r"n >= 3, got 2 at position 5"),
        ("wreath(Z(3),SO(2))", r"permutation group .* at position 0"),
        ("Group(discrete=[[1,1]])", r"each of 0..1 once.* at position 0"),
        ("Group(discreet=[[1,0]])", r"got 'discreet' at position 6"),
        ("__import__('os').system('true')", r"at position 11"),
        ("print(3)", r"unknown group 'print' .* at position 0"),
        ("Z(3)\x00", r"unexpected character"),
    ],
)
def test_texts_that_do_not_parse_say_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_group(text)
    with pytest.raises(TypeError, match="expected the text of a group"):
        parse_group(3)  # type: ignore[arg-type]


def test_other_spellings() -> None:
    assert parse_group(" Z( 3 ) wr  Z(3)") == wreath(Z(3), Z(3))
    assert parse_group("SO13p()") == parse_group("SO13p")
    assert str(parse_group("Lorentz")) == "O13"
    assert parse_group("(Z(2)+Z(3))*Z(2)") == (Z(2) + Z(3)) * Z(2)


UNCODED = ("algebra", "0.5", "-1,0", "1j")  # given by matrices
CODED = [text for text in NAMED + COMPOUND if not any(mark in text for mark in UNCODED)]


@pytest.mark.parametrize("text", CODED)
def test_codes_decode(text: str) -> None:
    group = parse_group(text)
    assert decode(encode(group)) == group
    assert str(decode(encode(group))) == text
    assert code_length(group) == len(encode(group))


def test_codes_are_prefix_free() -> None:
    codes = sorted(encode(parse_group(text)) for text in CODED)
    codes += [encode(f.kind(n)) for f in FAMILIES if f.integers == 1 for n in range(10, 40)]  # type: ignore[call-arg]
    codes = sorted(set(codes))
    assert not any(b.startswith(a) for a, b in itertools.pairwise(codes))
    assert sum(2.0 ** -len(code) for code in codes) <= 1.0


def test_groups_without_a_code_say_so() -> None:
    for group in (
        Group(algebra=[[[0.0, 1.0], [1.0, 0.0]]]),
        SO(2).conjugate([[1.0, 1.0], [0.0, 1.0]]),
    ):
        with pytest.raises(ValueError, match="group of the catalogue"):
            encode(group)


@pytest.mark.parametrize("bits", ["", "0", "00001", "2", encode(Z(5)) + "1", "0" * 60 + "1" * 70])
def test_bad_codes_are_refused(bits: str) -> None:
    with pytest.raises(ValueError, match=r"expected (the|a) code"):
        decode(bits)


def test_a_code_ends_where_the_next_begins() -> None:
    codes = [encode(parse_group(text)) for text in CODED]
    text, seen = "".join(codes), []
    for name, code in zip(CODED, codes, strict=True):
        group, end = decode_prefix(text)
        assert (str(group), end) == (name, len(code))
        text = text[end:]
    assert text == ""

    def watch(kind: type[Group], integers: tuple[int, ...], parts: tuple[Group, ...]) -> None:
        seen.append((kind.__name__, integers, tuple(map(str, parts))))
        if kind is S and integers == (5,):
            raise ValueError("no five")

    decode_prefix(encode(embed(Z(3), 7, 2) + Group([[1, 0]])), check=watch)
    assert seen == [
        ("Z", (3,), ()),
        ("Embedding", (7, 2), ("Z(3)",)),
        ("Group", (2, 1), ()),
        ("SideBySide", (), ("embed(Z(3),7,2)", "Group(discrete=[[1,0]])")),
    ]
    with pytest.raises(ValueError, match="no five"):
        decode_prefix(encode(Z(2) * S(5)), check=watch)


def test_permutations_are_numbered_in_lexicographic_order() -> None:
    head = len(encode(Group([range(4)]))) - 5  # ⌈log₂ 4!⌉ bits
    codes = [encode(Group([list(p)]))[head:] for p in itertools.permutations(range(4))]
    assert [int(code, 2) for code in codes] == list(range(24))


def leaves() -> st.SearchStrategy[Group]:
    small = st.integers(1, 4)
    return st.one_of(
        small.map(Z),
        small.map(S),
        small.map(Trivial),
        st.integers(3, 5).map(D),
        small.map(SO),
        small.map(O),
        st.integers(1, 2).map(U),
        st.permutations(range(4)).map(lambda p: Group([p])),
    )


def groups() -> st.SearchStrategy[Group]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda gh: gh[0] * gh[1]),
            st.tuples(inner, inner).map(lambda gh: gh[0] + gh[1]),
            st.tuples(inner, st.integers(2, 3).map(Z)).map(lambda gh: wreath(*gh)),
            st.tuples(inner, st.integers(0, 2)).map(
                lambda ga: embed(ga[0], ga[0].d + ga[1], ga[1])
            ),
            inner.flatmap(
                lambda g: st.permutations(range(g.d)).map(lambda p: g.conjugate(torch.tensor(p)))
            ),
        ),
        max_leaves=3,
    ).filter(lambda g: g.d <= 60)


@settings(max_examples=100)
@given(groups())
def test_any_group_parses_back_and_decodes(group: Group) -> None:
    assert parse_group(str(group)) == group
    assert str(parse_group(str(group))) == str(group)
    assert decode(encode(group)) == group


@settings(max_examples=50)
@given(
    st.lists(
        st.lists(st.floats(-1e3, 1e3, allow_nan=False), min_size=4, max_size=4),
        min_size=1,
        max_size=2,
    )
)
def test_any_algebra_parses_back_exactly(entries: list[list[float]]) -> None:
    group = Group(algebra=[np.array(e).reshape(2, 2) for e in entries])
    assert parse_group(str(group)) == group


def test_monomials_pickle() -> None:
    m = Monomial(torch.tensor([1, 0]), torch.tensor([1, -1]))
    assert pickle.loads(pickle.dumps(m)).value() == m.value()


def test_sl_elements_have_determinant_one() -> None:
    torch.testing.assert_close(
        SL(3).sample(20, generator=0).det(), torch.ones(20, dtype=torch.float64)
    )
