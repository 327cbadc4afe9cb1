"""What commutes with generators commutes with all they generate, and products need not be known.

Theorem 1 of Basu et al. 2021 in its full generality, against groups enumerated by brute force.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from isotropy.bases import pair_orbits

Places = tuple[int, ...]
Move = tuple[Places, Places]  # of one element: on X and on Y
Pair = tuple[int, int]


def after(second: Places, first: Places) -> Places:
    return tuple(second[place] for place in first)


def generated(generators: Iterable[Move]) -> set[Move]:
    """All products of generators; in a finite group these hold the inverses too."""
    generators = list(generators)
    n, m = (len(places) for places in generators[0])
    found = {(tuple(range(n)), tuple(range(m)))}
    fresh = set(found)
    while fresh:
        fresh = {(after(p, a), after(q, b)) for a, b in fresh for p, q in generators} - found
        found |= fresh
    return found


def is_equivariant(phi: Places, moves: Iterable[Move]) -> bool:
    return all(phi[p[x]] == q[phi[x]] for p, q in moves for x in range(len(phi)))


def moves_of(on_x: int, on_y: int) -> st.SearchStrategy[list[Move]]:
    one = st.tuples(
        st.permutations(range(on_x)).map(tuple), st.permutations(range(on_y)).map(tuple)
    )
    return st.lists(one, min_size=1, max_size=3)


def some_moves(most_on_x: int, most_on_y: int) -> st.SearchStrategy[list[Move]]:
    sizes = st.tuples(st.integers(1, most_on_x), st.integers(1, most_on_y))
    return sizes.flatmap(lambda size: moves_of(*size))


def count_by_stabilisers(group: set[Move]) -> int:
    """How many equivariant functions there are: a free choice for one point of each orbit.

    Its image may be any point of Y that stays where it is under all that leave the point alone.
    """
    sizes = [len(places) for places in next(iter(group))]
    count, seen = 1, set[int]()
    for x in range(sizes[0]):
        if x not in seen:
            seen |= {p[x] for p, _ in group}
            stabiliser = [q for p, q in group if p[x] == x]
            count *= sum(all(q[y] == y for q in stabiliser) for y in range(sizes[1]))
    return count


@given(generators=some_moves(4, 3))
@settings(max_examples=40, deadline=None)
def test_every_function_is_equivariant_to_both_or_to_neither(generators: list[Move]) -> None:
    group = generated(generators)
    sizes = [len(places) for places in generators[0]]
    count = 0
    for phi in product(range(sizes[1]), repeat=sizes[0]):
        to_generators = is_equivariant(phi, generators)
        assert to_generators == is_equivariant(phi, group)
        count += to_generators
    assert count == count_by_stabilisers(group)


@given(generators=some_moves(5, 5), data=st.data())
@settings(max_examples=40, deadline=None)
def test_functions_made_equivariant_and_then_spoiled(
    generators: list[Move], data: st.DataObject
) -> None:
    group = sorted(generated(generators))
    sizes = [len(places) for places in generators[0]]
    phi = [-1] * sizes[0]
    for x in range(sizes[0]):
        if phi[x] < 0:
            stabiliser = [q for p, q in group if p[x] == x]
            free = [y for y in range(sizes[1]) if all(q[y] == y for q in stabiliser)]
            if not free:  # then no function is equivariant
                return
            y = data.draw(st.sampled_from(free))
            for p, q in group:
                phi[p[x]] = q[y]
    assert is_equivariant(tuple(phi), generators)
    assert is_equivariant(tuple(phi), group)
    x = data.draw(st.integers(0, sizes[0] - 1))
    phi[x] = (phi[x] + 1) % sizes[1]
    assert is_equivariant(tuple(phi), generators) == is_equivariant(tuple(phi), group)


@given(generators=some_moves(5, 4))
@settings(max_examples=60, deadline=None)
def test_matrices_share_the_same_weights(generators: list[Move]) -> None:
    assert torch.equal(labels_of(generators), labels_of(generated(generators)))


def labels_of(moves: Iterable[Move]) -> Tensor:
    moves = list(moves)
    return pair_orbits([torch.tensor(q) for _, q in moves], [torch.tensor(p) for p, _ in moves])


def count_of(*on_both: Places) -> int:
    return int(labels_of([(places, places) for places in on_both]).max()) + 1


def test_s3_from_z3_and_z2() -> None:
    """Figures 2 to 4: two, three and five weights."""
    turn, flip = (1, 2, 0), (0, 2, 1)
    assert len(generated([(turn, turn), (flip, flip)])) == 6
    assert (count_of(turn, flip), count_of(turn), count_of(flip)) == (2, 3, 5)
    assert labels_of([(turn, turn), (flip, flip)]).tolist() == [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    # neither alone, nor which flip, nor what comes first
    assert count_of(flip, turn) == count_of(turn, (1, 0, 2)) == count_of((1, 0, 2), flip) == 2


def multiplication(
    cocycle: Callable[[int, int], int], plus: Callable[[int, int], int]
) -> Callable[[Pair, Pair], Pair]:
    """(g₁, g₂)(h₁, h₂) = (g₁ h₁ ψ(g₂, h₂), g₂ h₂), with g₁ in Z(2)."""
    return lambda g, h: ((g[0] + h[0] + cocycle(g[1], h[1])) % 2, plus(g[1], h[1]))


def quaternion_sign(a: int, b: int) -> int:
    """Whether the product of two of 1, i, j, k has a minus; 1, i, j, k are 0, 1, 2, 3."""
    return int((a, b) in {(1, 1), (2, 2), (3, 3), (2, 1), (3, 2), (1, 3)})


# order of G₂, ψ, the product of G₂, and how many elements have order 1, 2 and 4
EXTENSIONS = {
    "Z(2) x Z(2)": (2, lambda a, b: 0, lambda a, b: a ^ b, {1: 1, 2: 3}),
    "Z(4)": (2, lambda a, b: a * b, lambda a, b: a ^ b, {1: 1, 2: 1, 4: 2}),
    "Q(8)": (4, quaternion_sign, lambda a, b: a ^ b, {1: 1, 2: 1, 4: 6}),
    "D(4)": (4, lambda a, b: (a >> 1) * (b & 1), lambda a, b: a ^ b, {1: 1, 2: 5, 4: 2}),
}


@pytest.mark.parametrize("name", EXTENSIONS)
def test_central_extensions_are_generated_by_both_parts(name: str) -> None:
    size, cocycle, plus, orders = EXTENSIONS[name]
    times = multiplication(cocycle, plus)
    elements = list(product(range(2), range(size)))
    number = {g: k for k, g in enumerate(elements)}

    def order(g: Pair) -> int:
        power, count = g, 1
        while power != (0, 0):
            power, count = times(power, g), count + 1
        return count

    found = [order(g) for g in elements]
    assert {k: found.count(k) for k in set(found)} == orders
    for g, h, k in product(elements, repeat=3):
        assert times(times(g, h), k) == times(g, times(h, k))
    # the equation that is doubted in the paper
    assert all(times((g, 0), (0, h)) == (g, h) for g, h in elements)

    def on_itself(g: Pair) -> Move:
        places = tuple(number[times(g, h)] for h in elements)
        return places, places

    parts = [on_itself((g, 0)) for g in range(2)] + [on_itself((0, h)) for h in range(size)]
    whole = [on_itself(g) for g in elements]
    assert generated(parts) == set(whole)
    labels = labels_of(parts)
    assert torch.equal(labels, labels_of(whole))
    assert int(labels.max()) + 1 == len(elements)  # maps of the regular representation


@pytest.mark.parametrize(("name", "is_subgroup"), [("Z(2) x Z(2)", True), ("Z(4)", False)])
def test_what_fails_is_that_lifts_are_no_subgroup(name: str, is_subgroup: bool) -> None:
    _, cocycle, plus, _ = EXTENSIONS[name]
    times = multiplication(cocycle, plus)
    assert (times((0, 1), (0, 1)) == (0, plus(1, 1))) == is_subgroup


@pytest.mark.parametrize("n", [2, 3])
def test_all_cocycles_of_a_cyclic_group_are_trivial_where_one_argument_is(n: int) -> None:
    pairs = list(product(range(n), repeat=2))
    found = 0
    for values in product(range(2), repeat=len(pairs)):
        psi = dict(zip(pairs, values, strict=True))
        if psi[0, 0] == 0 and all(
            (psi[a, (b + c) % n] + psi[b, c] - psi[a, b] - psi[(a + b) % n, c]) % 2 == 0
            for a, b, c in product(range(n), repeat=3)
        ):
            found += 1
            assert not any(psi[0, g] or psi[g, 0] for g in range(n))
    assert found == 2 ** (n - 1)  # Z(2): direct and Z(4); Z(3): coboundaries of 2² functions
