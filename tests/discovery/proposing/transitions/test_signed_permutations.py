"""Signed permutations: products, closure and names, against matrices."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from discovery.pieces import SignedPermutation, generated
from isotropy.discovery.proposing.transitions._propose import _in_small_steps
from isotropy.groups import Group


@st.composite
def elements(draw, size=4):
    index = draw(st.permutations(range(size)))
    sign = draw(st.lists(st.sampled_from((1, -1)), min_size=size, max_size=size))
    return SignedPermutation(tuple(index), tuple(sign))


def matrix(element):
    dense = np.zeros((len(element.index),) * 2)
    dense[list(element.index), np.arange(len(element.index))] = element.sign
    return dense


@given(elements(), elements())
@settings(max_examples=40, deadline=None)
def test_products_and_inverses_are_those_of_matrices(g, h):
    assert np.array_equal(matrix(g @ h), matrix(g) @ matrix(h))
    assert np.array_equal(matrix(g.inverse()), np.linalg.inv(matrix(g)))
    assert np.array_equal(g.as_map().dense().numpy(), matrix(g))
    assert np.array_equal(np.linalg.matrix_power(matrix(g), g.order), np.eye(4))


@given(st.lists(elements(3), min_size=1, max_size=2))
@settings(max_examples=25, deadline=None)
def test_closure_has_as_many_elements_as_the_group(generators):
    closure = generated(generators, 48)
    assert closure is not None
    assert closure[0].is_identity
    assert len(closure) == Group([g.as_map() for g in generators]).order()
    assert generated(generators, len(closure) - 1) is None


def test_words_say_where_entries_go():
    names = ["hip", "knee", "roll", "height"]
    assert SignedPermutation((1, 0, 2, 3), (-1, -1, -1, 1)).words(names) == "hip ↔ −knee, −roll"
    assert SignedPermutation((1, 2, 0, 3), (1, 1, 1, 1)).words(names) == "hip → knee → roll → hip"
    assert SignedPermutation((1, 0, 2, 3), (1, -1, 1, 1)).words(names) == "hip → knee → −hip"


def test_elements_move_rows_as_their_maps_do():
    x = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    g = SignedPermutation((2, 0, 1, 3), (1, -1, 1, -1))
    assert torch.allclose(g.as_map().apply(x), x @ torch.tensor(matrix(g), dtype=x.dtype).T)


def test_a_group_grows_by_small_steps() -> None:
    # the square's symmetries, given by a quarter turn and a mirror: tested from a mirror on
    quarter = SignedPermutation((1, 0), (1, -1))
    mirror = SignedPermutation((0, 1), (1, -1))
    cost = {element: float(k) for k, element in enumerate(generated([quarter, mirror], 8) or ())}
    chain = _in_small_steps([quarter, mirror], cost.__getitem__)
    sizes = [len(generated(chain[: k + 1], 8) or ()) for k in range(len(chain))]
    assert sizes == [2, 4, 8]
    involutions = [g for g in cost if not g.is_identity and (g @ g).is_identity]
    assert chain[0] == min(involutions, key=cost.__getitem__)
    assert _in_small_steps([], cost.__getitem__) == ()
