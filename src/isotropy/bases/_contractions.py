"""Contraction patterns: the tensors that classical invariant theory builds invariants from.

A pattern spreads the k slots of a tensor over pairs, each joined by a bilinear form J, and over
Levi-Civita tensors ε of d slots each:

    t[i₁ … i_k] = J[i_a, i_b] J[i_c, i_d] ⋯ ε[i_e … i_f] ⋯

It has d^pairs d!^epsilons entries other than zero, all ±1. Inner products of patterns follow
from the graph that joins their slots, whatever the size d^k of the tensors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, permutations
from math import factorial
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]

_PRIME = 2**31 - 1  # products of two residues fit 64 bits
_CHUNK = 2**21  # slots of pattern pairs looked at together


@dataclass(frozen=True, eq=False)
class Form:
    """A bilinear form with a single ±1 in each row: J[i, partner[i]] = sign[i].

    J is symmetric or antisymmetric, and orthogonal; it also lowers an index, w_i = J[i, j] v^j.
    """

    partner: Integers
    sign: Integers

    @staticmethod
    def diagonal(plus: int, minus: int = 0) -> Form:
        """diag(1, …, 1, -1, …, -1)."""
        return Form(np.arange(plus + minus), np.repeat([1, -1], [plus, minus]))

    @staticmethod
    def symplectic(n: int) -> Form:
        """[[0, 1], [-1, 0]] in blocks of n."""
        return Form(np.roll(np.arange(2 * n), n), np.repeat([1, -1], n))

    @property
    def d(self) -> int:
        """The dimension of the space."""
        return len(self.partner)

    @property
    def is_antisymmetric(self) -> bool:
        """Whether Jᵀ = -J."""
        return bool(self.sign[0] != self.sign[self.partner[0]])


@dataclass(frozen=True, eq=False)
class Patterns:
    """Patterns of one kind: the same number of pairs and of Levi-Civita tensors in each.

    Attributes:
        form: The form J on pairs.
        epsilons: How many Levi-Civita tensors each has.
        slots: Which slot each leg sits in, shape (patterns, k): the two legs of each pair,
            then the d legs of each Levi-Civita tensor.
    """

    form: Form
    epsilons: int
    slots: Integers

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def paired(self) -> int:
        """How many slots are in pairs."""
        return int(self.slots.shape[1]) - self.epsilons * self.form.d

    @property
    def entries(self) -> int:
        """How many entries of each are not zero: its squared norm."""
        return int(self.form.d ** (self.paired // 2) * factorial(self.form.d) ** self.epsilons)


def splits(slots: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """Every way to split slots into sets of one size, the sets written one after the other.

    Example:
        >>> list(splits(range(4), 2))
        [(0, 1, 2, 3), (0, 2, 1, 3), (0, 3, 1, 2)]
    """
    if not slots:
        yield ()
        return
    for others in combinations(slots[1:], size - 1):
        rest = [slot for slot in slots[1:] if slot not in others]
        for more in splits(rest, size):
            yield (slots[0], *others, *more)


def number_of_splits(slots: int, size: int) -> int:
    """The length of ``splits``, without making it."""
    sets = slots // size
    return factorial(slots) // int(factorial(size) ** sets * factorial(sets))


# --- inner products -----------------------------------------------------------------------


def gram(patterns: Patterns) -> tuple[Integers, Integers]:
    """The inner products of all patterns, as c and ℓ with ⟨s, t⟩ = d!^(epsilons > 0) c d^ℓ.

    Join slots that are paired in s or in t. A component that closes is a loop, the trace of a
    product of J and Jᵀ, and contributes ±d: the sign is + for symmetric J; for antisymmetric J
    all loops together give sgn(s) sgn(t) (-1)^(pairs + loops), sgn the sign of the order of the
    slots. What is left are paths between legs of ε. If one joins two legs on the same side,
    the product vanishes; else the paths identify the legs of s with those of t, and c is the
    value of that network of ε over d!.
    """
    slots, count, k = patterns.slots, *patterns.slots.shape
    legs = slots[:, patterns.paired :]
    partner = np.tile(np.arange(k), (count, 1))
    first, second = slots[:, 0 : patterns.paired : 2], slots[:, 1 : patterns.paired : 2]
    np.put_along_axis(partner, first, second, axis=1)
    np.put_along_axis(partner, second, first, axis=1)

    coefficients = np.ones((count, count), dtype=np.int64)
    loops = np.empty((count, count), dtype=np.int64)
    step = max(1, _CHUNK // (count * max(k, 1)))
    for start in range(0, count, step):
        rows = slice(start, start + step)
        component = _components(partner[rows, None], partner[None])
        closed = (component == np.arange(k)).sum(-1) - legs.shape[1]
        loops[rows] = closed
        if patterns.form.is_antisymmetric:
            order = parity(slots)
            sign = order[rows, None] * order * (-1) ** (patterns.paired // 2 + closed)
            coefficients[rows] = sign
        if patterns.epsilons:
            shape = (*component.shape[:2], legs.shape[1])
            ours = np.take_along_axis(component, np.broadcast_to(legs[rows, None], shape), -1)
            theirs = np.take_along_axis(component, np.broadcast_to(legs[None], shape), -1)
            coefficients[rows] = _networks(ours, theirs, patterns.form.d)
    return coefficients, loops


def _components(one: Integers, other: Integers) -> Integers:
    """The least slot that each slot is joined to, by two involutions on slots."""
    shape = np.broadcast_shapes(one.shape, other.shape)
    one, other = np.broadcast_to(one, shape), np.broadcast_to(other, shape)
    label = np.broadcast_to(np.arange(shape[-1]), shape)
    for _ in range((shape[-1] + 1) // 2):  # each round carries a label two edges on
        for partner in (one, other):
            label = np.minimum(label, np.take_along_axis(label, partner, -1))
    return label


def _networks(ours: Integers, theirs: Integers, d: int) -> Integers:
    """The values, over d!, of products of ε of d legs, joined where labels, (*, legs), agree."""
    joined = theirs[..., :, None] == ours[..., None, :]
    crossing = joined.any(-1).all(-1)
    position = joined.argmax(-1).reshape(*ours.shape[:-1], -1, d)
    sign: Integers = parity(position).prod(-1) * crossing
    if position.shape[-2] == 1:
        return sign  # ε ε = d!
    network = np.sort(position, axis=-1).reshape(*ours.shape)
    distinct, which = np.unique(network[crossing], axis=0, return_inverse=True)
    values = np.array([_network(tuple(row), d) for row in distinct.tolist()], dtype=np.int64)
    sign[crossing] *= values[which.reshape(-1)]
    return sign


@cache
def _network(theirs: tuple[int, ...], d: int) -> int:
    """Σ ε[0 … d-1] ε[d … 2d-1] ⋯ ε[theirs[0] … theirs[d-1]] ⋯ / d!, over all indices."""
    epsilon = np.zeros((d,) * d)
    orders = _orders(d)
    epsilon[tuple(orders.T)] = parity(orders)
    operands: list[object] = []
    for labels in (range(len(theirs)), theirs):
        for start in range(0, len(theirs), d):
            operands += [epsilon, list(labels[start : start + d])]
    return round(float(np.einsum(*operands, [], optimize="greedy"))) // factorial(d)  # type: ignore[call-overload]


def _orders(d: int) -> Integers:
    return np.array(list(permutations(range(d))), dtype=np.int64)


def parity(sequences: Integers) -> Integers:
    """The sign of the permutation that sorts each sequence of distinct numbers (last axis)."""
    i, j = np.triu_indices(sequences.shape[-1], 1)
    inversions = (sequences[..., i] > sequences[..., j]).sum(-1)
    return np.asarray(1 - 2 * (inversions % 2), dtype=np.int64)


# --- independent patterns -------------------------------------------------------------------


def independent(patterns: Patterns) -> tuple[Patterns, npt.NDArray[np.float64]]:
    """The first patterns that span all of them, and R with orthonormal patterns · R.

    Which patterns depend on earlier ones is decided without a tolerance, by elimination in the
    integer Gram matrix modulo the prime 2³¹ - 1. The rank is never overestimated, and would be
    underestimated only if the prime divided the product of the nonzero eigenvalues, for
    matchings and permutations products of integers below d + k. The Gram matrix G of the
    independent patterns has a condition number below 3000 in all of thesis Tables A.4–A.8, and
    R = G^(-1/2) does not depend on a choice of eigenvectors.
    """
    coefficients, loops = gram(patterns)
    d, most = patterns.form.d, patterns.paired // 2
    powers = np.array([pow(d, loop, _PRIME) for loop in range(most + 1)])
    kept = _independent_rows(coefficients % _PRIME * powers[loops] % _PRIME)
    few = np.ix_(kept, kept)
    scale = float(coefficients[0, 0])
    normalised = coefficients[few] / scale * float(d) ** (loops[few] - most)
    eigenvalues, vectors = np.linalg.eigh(normalised)
    root = (vectors / np.sqrt(eigenvalues)) @ vectors.T
    chosen = Patterns(patterns.form, patterns.epsilons, patterns.slots[kept])
    return chosen, root / np.sqrt(float(patterns.entries))


def _independent_rows(residues: Integers) -> list[int]:
    """The rows of a matrix that do not depend on those before, modulo the prime."""
    rows, kept = residues.copy(), []
    for i in range(len(rows)):
        pivots = np.flatnonzero(rows[i])
        if len(pivots):
            kept.append(i)
            pivot = pivots[0]
            row = rows[i] * pow(int(rows[i, pivot]), -1, _PRIME) % _PRIME
            below = rows[i + 1 :]
            below -= below[:, pivot, None] * row % _PRIME
            below %= _PRIME
    return kept


# --- the tensors themselves -----------------------------------------------------------------


def nonzero_entries(patterns: Patterns, duals: Sequence[bool]) -> tuple[Integers, Integers]:
    """Where the entries ±1 of each pattern are in the flat tensor, and their signs.

    Args:
        patterns: The patterns.
        duals: Whether the index in each slot is a lower one.

    Returns:
        Two arrays of shape (patterns, entries).
    """
    form, k = patterns.form, len(duals)
    index, sign = np.zeros((1, 0), dtype=np.int64), np.ones(1, dtype=np.int64)
    pair = np.stack([np.arange(form.d), form.partner], axis=1)
    for _ in range(patterns.paired // 2):
        index, sign = _outer(index, pair), np.outer(sign, form.sign).reshape(-1)
    if patterns.epsilons:
        orders = _orders(form.d)
        for _ in range(patterns.epsilons):
            index, sign = _outer(index, orders), np.outer(sign, parity(orders)).reshape(-1)

    # lowering moves the entry at j to i = partner[j], with the sign J[i, j]
    lowered = np.where(np.array(duals, dtype=bool)[:, None], form.partner, np.arange(form.d))
    signs = np.where(np.array(duals, dtype=bool)[:, None], form.sign[form.partner], 1)
    strides = form.d ** np.arange(k)[::-1]
    places = np.zeros((len(patterns), len(index)), dtype=np.int64)
    values = np.tile(sign, (len(patterns), 1))
    for slot, i in zip(patterns.slots.T, index.T, strict=True):
        places += (lowered * strides[:, None])[slot[:, None], i]
        values *= signs[slot[:, None], i]
    return places, values


def _outer(left: Integers, right: Integers) -> Integers:
    """Every row of the one followed by every row of the other."""
    return np.hstack([np.repeat(left, len(right), axis=0), np.tile(right, (len(left), 1))])
