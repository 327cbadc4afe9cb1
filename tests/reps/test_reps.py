"""Representations against their matrices, and texts that read back."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy.groups import SE, SO, D, Group, O, Operator, S, SO13p, Sp, Trivial, U, Z, p4, wreath
from isotropy.reps import (
    CustomRep,
    Pseudoscalar,
    Regular,
    Rep,
    Scalar,
    T,
    V,
    parse_rep,
)


def symmetric_square(g: torch.Tensor) -> torch.Tensor:
    """g acting on symmetric 2 × 2 matrices, in the basis xx, xy, yy."""
    a, b, c, d = g[0, 0], g[0, 1], g[1, 0], g[1, 1]
    rows = [[a * a, 2 * a * b, b * b], [a * c, a * d + b * c, b * d], [c * c, 2 * c * d, d * d]]
    return torch.stack([torch.stack(row) for row in rows])


Square = CustomRep("Square", symmetric_square)
CUSTOM = {"Square": Square}

REPS = [
    V,
    V.T,
    Scalar,
    Pseudoscalar,
    Pseudoscalar.T,
    T(2, 1),
    2 * V + Scalar,
    (V + Scalar) * V,
    V * (2 * V.T + Pseudoscalar),
    3 * (V + Scalar) + V,
    2 * (V * Pseudoscalar),
    (2 * V) * V,
    V >> (V + T(2)),
    Square,
    Square * V.T + Square.T,
    V.on([2, 0], of=4),
    (V + V).on([3, 1, 0, 2], of=4) * V,
    V.change_basis([[1.0, 0.5], [0.0, 2.0]]),
    V.change_basis([1, 0]).T,
]
GROUPS = [O(2), Sp(1), SE(1), U(2), Z(2), Group([[[0.0, -1.0], [1.0, 0.0]]])]
PAIRS = [(rep, group) for group in GROUPS for rep in REPS]


@pytest.mark.parametrize(("rep", "group"), PAIRS, ids=str)
def test_homomorphism_and_its_derivative(rep: Rep, group: Group) -> None:
    bound = rep(group)
    g, h = group.sample(generator=0), group.sample(generator=1)
    torch.testing.assert_close(
        bound.rho(g @ h).dense(), bound.rho(g).dense() @ bound.rho(h).dense()
    )
    assert bound.rho(g).size == bound.size()
    for a in group.algebra:
        step = 1e-5
        forward = bound.rho(torch.linalg.matrix_exp(step * a.dense())).dense()
        backward = bound.rho(torch.linalg.matrix_exp(-step * a.dense())).dense()
        derivative = (forward - backward) / (2 * step)
        got = bound.drho(a).dense().to(derivative.dtype)
        torch.testing.assert_close(got, derivative, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(("rep", "group"), PAIRS, ids=str)
def test_duals_and_batches(rep: Rep, group: Group) -> None:
    bound = rep(group)
    g = group.sample(4, generator=0)
    images = bound.rho(g).dense()
    torch.testing.assert_close(bound.T.rho(g).dense(), torch.linalg.inv(images).mT)
    if bound.groups:  # a scalar has no group to carry the batch
        singles = torch.stack([bound.rho(g[i]).dense() for i in range(4)])
        torch.testing.assert_close(images, singles)
    x = torch.randn(4, bound.size(), dtype=torch.float64)
    expected = (images @ x.to(images.dtype).unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(bound.rho(g).apply(x).to(expected.dtype), expected)


@pytest.mark.parametrize("rep", REPS, ids=str)
def test_texts_parse_back(rep: Rep) -> None:
    assert parse_rep(str(rep), CUSTOM) == rep
    assert hash(parse_rep(str(rep), CUSTOM)) == hash(rep)
    bound = rep(O(2))
    assert parse_rep(str(bound), CUSTOM) == bound
    assert (bound == rep) == (rep == Scalar)


def test_texts() -> None:
    assert str(V >> V) == "T(1,1)"
    assert str(2 * V + Scalar) == "2*V+Scalar"
    assert str(V * V.T * V.T * Regular) == "T(1,2)*Regular"
    assert str(V.T * V) == "V.T*V"
    assert str((2 * V + Scalar)(SO(3))) == "(2*V+Scalar)(SO(3))"
    assert str(T(2)(SO(3))) == "T(2)(SO(3))"
    assert str(V(SO(3)) * V(S(5)) ** 2) == "V(SO(3))*T(2)(S(5))"
    assert parse_rep("V**3 >> 2*V*V") == (V**3 >> (2 * V) * V)
    assert parse_rep("2*3*V") == 6 * V
    assert parse_rep("V*2") == 2 * V


def test_algebra_rules() -> None:
    assert V + V == 2 * V
    assert 2 * V + V == 3 * V
    assert 2 * (3 * V) == 6 * V
    assert (V + Scalar) + V == V + (Scalar + V)
    assert Scalar * V == V == V * Scalar
    assert V * V == V**2 == T(2)
    assert V**0 == Scalar == T(0)
    assert T(1, 1) == V * V.T == V >> V == V << V
    assert (V >> T(2)) == T(2, 1)
    assert (2 * V + Scalar).T == 2 * V.T + Scalar
    assert V.T.T == V
    assert sum([V, Scalar, V]) == V + Scalar + V
    assert Regular.T == Regular
    assert V != V.T
    assert V(Z(3)) != V(Z(4))
    assert V(Z(3)) != V


def leaves() -> st.SearchStrategy[Rep]:
    return st.sampled_from([V, V.T, Scalar, Pseudoscalar, Regular, T(2, 1)])


def reps() -> st.SearchStrategy[Rep]:
    return st.recursive(
        leaves(),
        lambda inner: st.one_of(
            st.tuples(inner, inner).map(lambda ab: ab[0] + ab[1]),
            st.tuples(inner, inner).map(lambda ab: ab[0] * ab[1]),
            st.tuples(inner, inner).map(lambda ab: ab[0] >> ab[1]),
            st.tuples(st.integers(1, 3), inner).map(lambda na: na[0] * na[1]),
            inner.map(lambda a: a.T),
        ),
        max_leaves=5,
    )


@settings(max_examples=200)
@given(reps(), st.sampled_from([Z(2), S(3), O(3), Z(2) * SO(2), wreath(Z(2), Z(2))]))
def test_any_rep_parses_back(rep: Rep, group: Group) -> None:
    assert parse_rep(str(rep)) == rep
    assert parse_rep(str(rep(group))) == rep(group)


@settings(max_examples=60)
@given(reps(), st.sampled_from([Z(2), D(3), Z(2) * Z(3)]))
def test_any_rep_is_a_homomorphism(rep: Rep, group: Group) -> None:
    bound = rep(group)
    if bound.size() > 200:
        return
    g, h = group.sample(generator=0), group.sample(generator=1)
    torch.testing.assert_close(
        bound.rho(g @ h).dense(), bound.rho(g).dense() @ bound.rho(h).dense()
    )


# --- several groups -----------------------------------------------------------------------


def test_mixed_products() -> None:
    rep = V(SO(3)) * V(S(4)) + 2 * V(S(4))
    assert rep.group == SO(3) * S(4)
    assert rep.size() == 12 + 8
    g = (SO(3) * S(4)).sample(generator=0)
    assert repr(g) == "Kron(size=12)"
    r, p = (part.dense() for part in g.parts)  # type: ignore[attr-defined]
    expected = torch.block_diag(torch.kron(r, p), p, p)
    torch.testing.assert_close(rep.rho(g).dense(), expected)
    first = g.parts[0]  # type: ignore[attr-defined]
    torch.testing.assert_close(V(SO(3)).T(SO(3) * S(4))._rho({SO(3): first}).dense(), r)
    with pytest.raises(ValueError, match="kept as a Kronecker product"):
        rep.rho(g.dense())


def test_mixed_texts_parse_back() -> None:
    rep = V(SO(3)) * V(S(4)) + 2 * T(2)(S(4)) + Scalar
    assert parse_rep(str(rep)) == rep
    partly = V * V(S(4))
    assert parse_rep(str(partly)) == partly
    both = partly(SO(3) * S(4))
    assert both.group == SO(3) * S(4)
    assert parse_rep(str(both)) == both


def test_the_same_group_twice_is_one_group() -> None:
    assert V(Z(3)) * V(Z(3)) == T(2)(Z(3))
    assert (V(Z(3)) * V(Z(3))).group == Z(3)


# --- other ways to make one ----------------------------------------------------------------


def test_regular_representation() -> None:
    rep = Regular(S(3))
    assert rep.size() == 6
    matrices = [rep.rho(g).dense() for g in (S(3).sample(generator=i) for i in range(3))]
    for m, n in zip(matrices, [S(3).sample(generator=i) for i in range(3)], strict=True):
        # its character is |G| at the identity and 0 elsewhere
        assert float(m.trace()) == (6.0 if bool(n.monomial().is_identity) else 0.0)  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="finite group"):
        Regular(SO(3)).size()


def test_regular_representation_of_p4_turns_feature_maps_as_images() -> None:
    n = 4
    maps = torch.arange(4 * n * n).reshape(4, n, n)
    down, right, turn = p4(n).discrete
    rep = Regular(p4(n))

    def act(g: object) -> torch.Tensor:
        return rep.rho(g).apply(maps.flatten()).reshape(4, n, n)  # type: ignore[arg-type]

    assert torch.equal(act(down), maps.roll(1, 1))
    assert torch.equal(act(right), maps.roll(1, 2))
    assert torch.equal(act(turn), maps.rot90(1, (1, 2)).roll(1, 0))


def test_own_representations() -> None:
    assert Square(SO(2)).size() == 3
    assert Square(U(2)).is_complex
    with pytest.raises(ValueError, match=r"ρ\(gh\) = ρ\(g\)ρ\(h\), got an error"):
        CustomRep("Wrong", lambda g: g.T)(SO(3))
    with pytest.raises(ValueError, match="square matrices"):
        CustomRep("Flat", lambda g: g.flatten())(SO(3))
    with pytest.raises(ValueError, match="letters and digits"):
        CustomRep("no good", symmetric_square)


def test_columns() -> None:
    rep = (V + Scalar)(SO(2)).on([3, 1, 0], of=5)
    g = SO(2).sample(generator=0)
    x = torch.randn(7, 5, dtype=torch.float64)
    y = rep.rho(g).apply(x)
    torch.testing.assert_close(y[:, [3, 1]], x[:, [3, 1]] @ g.dense().T)
    torch.testing.assert_close(y[:, [0, 2, 4]], x[:, [0, 2, 4]])
    for columns, of, message in [
        ([0, 0, 1], 5, "distinct columns"),
        ([0, 1, 5], 5, "between 0 and 4"),
        ([0, 1], 5, "expected 3 columns"),
    ]:
        with pytest.raises(ValueError, match=message):
            (V + Scalar)(SO(2)).on(columns, of=of)
    with pytest.raises(ValueError, match="expected 2 columns"):
        V.on([0, 1, 2], of=5)(SO(2))


def test_change_of_basis_is_checked() -> None:
    with pytest.raises(ValueError, match="singular"):
        V.change_basis([[1.0, 1.0], [1.0, 1.0]])
    with pytest.raises(ValueError, match=r"size 3 .* got size 2"):
        V(SO(3)).change_basis([1, 0])


def test_restriction() -> None:
    rep = (2 * V + Pseudoscalar)(O(3))
    assert rep.restrict(SO(3)) == (2 * V + Pseudoscalar)(SO(3))
    regular = Regular(S(3)).restrict(Z(3))
    assert regular.size() == 6
    assert regular.group == Z(3)
    assert parse_rep(str(regular)) == regular
    h = Z(3).discrete[0]
    torch.testing.assert_close(regular.rho(h).dense(), Regular(S(3)).rho(h).dense())
    with pytest.raises(ValueError, match="expected a subgroup of SO"):
        V(SO(3)).restrict(O(3))
    mixed = V(O(3)) * V(S(4))
    assert mixed.restrict(SO(3), of=O(3)) == V(SO(3)) * V(S(4))
    with pytest.raises(ValueError, match="which group"):
        mixed.restrict(SO(3))


def test_representations_of_opaque_groups() -> None:
    roll = Operator(6, lambda x: x.roll(2, -1))
    rep = (V * V + V.T)(Group([roll]))
    x = torch.randn(42, dtype=torch.float64)
    square = x[:36].reshape(6, 6).roll((2, 2), (0, 1)).flatten()
    torch.testing.assert_close(rep.rho(roll).apply(x), torch.cat([square, x[36:].roll(2)]))


def test_copies_and_pickles() -> None:
    rep = (2 * V + Regular * V.T)(D(3))
    assert pickle.loads(pickle.dumps(rep)) == rep
    assert copy.deepcopy(rep) == rep


# --- bad input ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"got the end of the text at position 0"),
        ("V + W", r"got 'W' at position 4"),
        ("T(2", r"expected '\)', got the end of the text at position 3"),
        ("T(-1)", r"expected an integer, got '-' at position 2"),
        ("0*V", r"at least one copy, got 0 at position 0"),
        ("V >> ", r"got the end of the text at position 4"),
        ("V(SO(3)", r"expected '\)'"),
        ("V(Q(3))", r"unknown group 'Q'"),
        ("V.X", r"expected T, on, change_basis or restrict, got 'X' at position 2"),
        ("V(SO(2)).on([0,0],3)", r"distinct columns .* at position 8"),
        ("V(SO(2)).on(3,3)", r"list of columns"),
        ("2V", r"expected '\*', got 'V' at position 1"),
        ("V; V", r"unexpected character ';' at position 1"),
    ],
)
def test_texts_that_do_not_parse_say_where(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"cannot read the representation.*" + message):
        parse_rep(text)


def test_what_has_no_group_yet_says_so() -> None:
    for use in (V.size, (V + Scalar).size, V.generators, lambda: V.rho([1, 0])):
        with pytest.raises(ValueError, match="expected a representation with its group"):
            use()
    assert Scalar.size() == 1


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match=r"representation of SO\(3\), got V\(O\(3\)\) of O\(3\)"):
        V(O(3))(SO(3))
    with pytest.raises(TypeError, match="expected a group"):
        V("SO(3)")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="element of SO\\(3\\), of size 3, got one of size 2"):
        V(SO(3)).rho([1, 0])
    with pytest.raises(ValueError, match="at least one copy"):
        0 * V
    with pytest.raises(ValueError, match="tensor power"):
        V**-1
    with pytest.raises(TypeError):
        V * 1.5
    with pytest.raises(TypeError):
        V + 1


def test_a_lorentz_vector_and_its_dual_differ() -> None:
    boost = SO13p().sample(generator=0)
    assert not torch.allclose(V(SO13p()).rho(boost).dense(), V.T(SO13p()).rho(boost).dense())


def test_trivial_group() -> None:
    assert T(2)(Trivial(3)).size() == 9
    assert T(2)(Trivial(3)).generators() == ([], [])
