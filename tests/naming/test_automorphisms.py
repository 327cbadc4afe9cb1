"""Automorphisms of sharing patterns, against all pairs of permutations and closed forms."""

from __future__ import annotations

import math
import sys
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sympy.combinatorics import Permutation, PermutationGroup

from isotropy.naming import _automorphisms, automorphisms
from isotropy.naming._permutation_parts import (
    chain_order,
    copies_of_first_orbit,
    independent_parts,
    orbits_of,
    symmetric_copies,
)

RNG = np.random.default_rng(0)


def circulant(first_row: list[int]) -> NDArray[np.int64]:
    places = np.arange(len(first_row))
    return np.asarray(first_row)[(places - places[:, None]) % len(first_row)]


def by_brute_force(
    labels: NDArray[np.int64], tied: bool, inputs: list[int], outputs: list[int]
) -> set[tuple[int, ...]]:
    m, n = labels.shape
    colours_in, colours_out = np.array(inputs), np.array(outputs)
    return {
        (*pi_in, *(n + i for i in pi_out))
        for pi_in in permutations(range(n))
        for pi_out in ([pi_in] if tied else permutations(range(m)))
        if (labels[np.ix_(pi_out, pi_in)] == labels).all()
        and (colours_in[list(pi_in)] == colours_in).all()
        and (colours_out[list(pi_out)] == colours_out).all()
    }


def closure(found: Any) -> set[tuple[int, ...]]:
    elements = {tuple(range(found.n_in + found.n_out))}
    queue = list(elements)
    for element in queue:
        for g in found.joint:
            image = tuple(g[list(element)].tolist())
            if image not in elements:
                elements.add(image)
                queue.append(image)
    return elements


@st.composite
def patterns(draw: st.DrawFn) -> tuple[NDArray[np.int64], bool, list[int], list[int]]:
    m, n = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    tied = m == n and draw(st.booleans())
    entries = st.lists(st.integers(-2, 2), min_size=m * n, max_size=m * n)
    few = st.integers(0, draw(st.sampled_from([0, 0, 1])))
    inputs = draw(st.lists(few, min_size=n, max_size=n))
    outputs = draw(st.lists(few, min_size=m, max_size=m))
    spread = draw(st.sampled_from([1, 2, 5]))
    return np.array(draw(entries)).reshape(m, n) // spread, tied, inputs, outputs


@settings(deadline=None, max_examples=120, derandomize=True)
@given(patterns())
def test_all_pairs_and_no_others(
    pattern: tuple[NDArray[np.int64], bool, list[int], list[int]],
) -> None:
    labels, tied, inputs, outputs = pattern
    found = automorphisms(labels, tied=tied, input_colours=inputs, output_colours=outputs)
    expected = by_brute_force(labels, tied, inputs, outputs)
    assert closure(found) == expected
    assert found.order == len(expected)


@pytest.mark.parametrize("n", [3, 5, 8, 12])
def test_closed_forms(n: int) -> None:
    eye = np.eye(n, dtype=int)
    assert automorphisms(circulant(list(range(n)))).order == n
    palindrome = [min(k, n - k) for k in range(n)]
    assert automorphisms(circulant(palindrome)).order == 2 * n
    assert automorphisms(eye).order == math.factorial(n)
    assert automorphisms(np.zeros((4, n), dtype=int)).order == 24 * math.factorial(n)
    assert automorphisms(np.arange(3 * n).reshape(3, n)).order == 1
    assert automorphisms(np.zeros(n, dtype=int)).order == math.factorial(n)
    assert automorphisms(eye[: n - 1]).order == math.factorial(n - 1)


def test_tied_turns_inputs_and_outputs_alike() -> None:
    everything = np.zeros((5, 5), dtype=int)
    assert automorphisms(everything, tied=True).order == 120
    # a directed path has no symmetry, its two ends are told apart by direction alone
    path = np.eye(4, k=1, dtype=int)
    assert automorphisms(path, tied=True).order == 1
    assert automorphisms(path + path.T, tied=True).order == 2


def test_orders_beyond_the_digits_of_a_float() -> None:
    n = 30
    places = np.arange(n)
    in_pairs = np.where(np.eye(n, dtype=bool), 2, places // 2 == places[:, None] // 2)
    assert automorphisms(in_pairs).order == 2**15 * math.factorial(15)
    in_tens = (places // 10 == places[:, None] // 10).astype(int)
    assert automorphisms(in_tens).order == math.factorial(10) ** 6 * 6
    grid = (places // 6 == places[:, None] // 6) * 2 + (places % 6 == places[:, None] % 6)
    assert automorphisms(grid).order == math.factorial(5) * math.factorial(6)
    ones = automorphisms(np.zeros((40, 50), dtype=int))
    assert ones.order == math.factorial(40) * math.factorial(50)
    forest = (RNG.random((40, 40)) < 0.02).astype(int)
    found = automorphisms(forest)
    group = PermutationGroup([Permutation(g.tolist()) for g in found.joint])
    assert found.order == group.order()
    assert found.order > 10**12


def test_the_order_without_help_from_the_order_of_the_generators(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_automorphisms, "chain_order", lambda generators: 1)
    assert automorphisms(np.eye(15, dtype=int)).order == math.factorial(15)


def test_scrambled_rows_and_columns_change_nothing() -> None:
    labels = circulant([0, 1, 2, 3, 4, 3, 2, 1])
    rows, columns = RNG.permutation(8), RNG.permutation(8)
    scrambled = labels[np.ix_(rows, columns)]
    found = automorphisms(scrambled)
    assert found.order == 16
    for inputs, outputs in found.generators:
        assert np.array_equal(scrambled[np.ix_(outputs, inputs)], scrambled)


def test_colours_and_orbits() -> None:
    labels = circulant(list(range(6)))
    found = automorphisms(labels, output_colours=[0, 1, 0, 1, 0, 1])
    assert found.order == 3
    assert found.orbits_in == ((0, 2, 4), (1, 3, 5)) == found.orbits_out
    assert automorphisms([0, 0, 0, 0], input_colours=[7, 7, 1, 1]).order == 4
    assert automorphisms([0, 1, 0]).orbits_in == ((0, 2), (1,))
    assert automorphisms([0, 1, 0]).orbits_out == ((0,),)


def test_labels_may_be_a_tensor_or_any_integers() -> None:
    assert automorphisms(torch.tensor([[5, -1], [-1, 5]])).order == 2
    assert automorphisms(np.array([[True, False], [False, True]])).order == 2


@pytest.mark.parametrize(
    ("labels", "options", "sentence"),
    [
        ([[0, 1], [2]], {}, r"expected labels as an array, got rows of unequal lengths"),
        ([[0.0, 1.0]], {}, r"expected labels as integers, got float64"),
        ([], {}, r"expected labels of shape \(outputs, inputs\) or \(inputs,\), .* shape \(0,\)"),
        (np.zeros((2, 0), dtype=int), {}, r"at least one of each, got shape \(2, 0\)"),
        (np.zeros((2, 2, 2), dtype=int), {}, r"got shape \(2, 2, 2\)"),
        (3, {}, r"got shape \(\)"),
        ([[0, 1, 2]], {"tied": True}, r"expected a square matrix .* tied .* got shape \(1, 3\)"),
        ([0, 1], {"input_colours": [0]}, r"expected 2 input colours, got shape \(1,\)"),
        ([0, 1], {"output_colours": [0, 1]}, r"expected 1 output colours, got shape \(2,\)"),
        ([0, 1], {"input_colours": ["a", "b"]}, r"expected input colours as integers, got <U1"),
    ],
)
def test_bad_input(labels: object, options: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        automorphisms(labels, **options)  # type: ignore[arg-type]


def test_without_pynauty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynauty", None)
    with pytest.raises(ImportError, match=r"expected pynauty, .* got none: pip install pynauty"):
        automorphisms([0, 1])


# --- taking groups apart ------------------------------------------------------------------------


def random_generators(draw: st.DrawFn) -> NDArray[np.int64]:
    points, count = draw(st.integers(2, 7)), draw(st.integers(1, 3))
    rows = np.array([draw(st.permutations(range(points))) for _ in range(count)], dtype=np.int64)
    if draw(st.booleans()):
        # a second copy in a numbering of its own
        place = np.array(draw(st.permutations(range(points))))
        return np.hstack([rows, points + np.argsort(place)[rows[:, place]]])
    return rows


@settings(deadline=None, max_examples=80, derandomize=True)
@given(st.composite(random_generators)())
def test_parts_against_sympy(generators: NDArray[np.int64]) -> None:
    group = PermutationGroup([Permutation(g.tolist()) for g in generators])
    order = int(group.order())
    points = generators.shape[1]
    expected = {frozenset(orbit) for orbit in group.orbits() if len(orbit) > 1}
    found = {frozenset(orbit.tolist()) for orbit in orbits_of(generators) if len(orbit) > 1}
    assert found == expected
    assert order % chain_order(generators) == 0
    parts = [
        PermutationGroup([Permutation(g.tolist()) for g in part])
        for part in independent_parts(generators)
    ]
    assert math.prod(int(part.order()) for part in parts) == order
    if not expected:
        return
    copies = copies_of_first_orbit(generators)
    shortest = {orbit for orbit in expected if len(orbit) == len(copies[0])}
    assert {frozenset(copy.tolist()) for copy in copies} <= shortest
    for g in generators:
        # aligned: a generator does the same to the places of every copy
        places = [[list(copy).index(g[point]) for point in copy] for copy in copies]
        assert all(row == places[0] for row in places)
    symmetric = symmetric_copies(generators)
    if symmetric is not None:
        assert sum(map(len, symmetric)) == sum(map(len, expected)) <= points
        assert order == math.factorial(len(symmetric[0]))
