"""The object that flows."""

from __future__ import annotations

import dataclasses
import json
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy.groups import SO, D, Group, O, S, Z, wreath
from isotropy.reps import Pseudoscalar, Regular, Rep, Scalar, Symmetry, T, V

REPS = [V, Scalar, 2 * V + Scalar, T(2), V.T * Pseudoscalar, V.on([1, 0, 3], of=4)]


@settings(max_examples=60)
@given(
    st.sampled_from([O(3), SO(3), S(3), Z(3), D(3).conjugate([1, 0, 2]), wreath(Z(1), Z(3))]),
    st.sampled_from(REPS),
    st.sampled_from([*REPS, Regular]),
)
def test_texts_and_json_read_back(group: Group, rep_in: Rep, rep_out: Rep) -> None:
    if rep_out == Regular and group.algebra:
        rep_out = V
    symmetry = Symmetry(group, rep_in, rep_out)
    assert Symmetry.parse(str(symmetry)) == symmetry
    assert Symmetry.from_json(symmetry.to_json()) == symmetry
    assert pickle.loads(pickle.dumps(symmetry)) == symmetry
    assert hash(Symmetry.parse(str(symmetry))) == hash(symmetry)


def test_an_equivariant_function_is_seen_to_be_one() -> None:
    symmetry = Symmetry(O(3), 2 * V, T(2))

    def outer(x: torch.Tensor) -> torch.Tensor:
        a, b = x[..., :3], x[..., 3:]
        return (a.unsqueeze(-1) * b.unsqueeze(-2)).flatten(-2)

    x = torch.randn(10, 6, dtype=torch.float64)
    g = O(3).sample(10, generator=0)
    torch.testing.assert_close(outer(symmetry.apply(g, x)), symmetry.apply_out(g, outer(x)))
    assert symmetry.maps == (2 * V >> T(2))(O(3))


def test_factors_of_a_product_may_act_alone() -> None:
    group = SO(3) * S(4)
    symmetry = Symmetry(group, V, V(SO(3)))
    x = torch.randn(5, 12, dtype=torch.float64)
    g = group.sample(5, generator=0)
    centre = x.reshape(5, 3, 4).mean(-1)
    moved = symmetry.apply(g, x).reshape(5, 3, 4).mean(-1)
    torch.testing.assert_close(moved, symmetry.apply_out(g, centre))
    assert Symmetry.parse(str(symmetry)) == symmetry
    smaller = symmetry.restrict(SO(3) * Z(4))
    assert str(smaller) == "SO(3)*Z(4): V >> V(SO(3))"


def test_restriction() -> None:
    symmetry = Symmetry(O(3), 2 * V + Scalar, T(2))
    assert symmetry.restrict(SO(3)) == Symmetry(SO(3), 2 * V + Scalar, T(2))
    with pytest.raises(ValueError, match="expected a subgroup"):
        Symmetry(SO(3), V, V).restrict(O(3))


def test_it_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Symmetry(SO(3), V, V).group = O(3)  # type: ignore[misc]


def test_bad_input() -> None:
    symmetry = Symmetry(SO(3), V, Scalar)
    with pytest.raises(ValueError, match=r"inputs of width 3 .* got shape \(5, 4\)"):
        symmetry.apply(SO(3).sample(generator=0), torch.ones(5, 4))
    with pytest.raises(ValueError, match="outputs of width 1"):
        symmetry.apply_out(SO(3).sample(generator=0), torch.ones(3))
    with pytest.raises(ValueError, match="representation of SO"):
        Symmetry(SO(3), V(O(3)), V)
    for text, message in [
        ("SO(3) V >> V", "expected ':', got 'V' at position 6"),
        ("SO(3): V", "expected '>>', got the end"),
        ("SO(3): V >> V >> V", "expected the end, got '>>'"),
    ]:
        with pytest.raises(ValueError, match=message):
            Symmetry.parse(text)
    for text in ("{", "[]", "{}", json.dumps({"format": 99}), json.dumps({"format": 1})):
        with pytest.raises(ValueError, match="expected a symmetry"):
            Symmetry.from_json(text)
