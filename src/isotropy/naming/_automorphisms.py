"""Which permutations of inputs and outputs leave a sharing pattern as it is."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isotropy.naming._permutation_parts import chain_order, orbits_of

IntArray = NDArray[np.int64]
Pair = tuple[IntArray, IntArray]


@dataclass(frozen=True, eq=False)
class Automorphisms:
    """The pairs (π_in, π_out) with labels[π_out[i], π_in[j]] = labels[i, j] for all i and j.

    Attributes:
        generators: Pairs of index arrays that generate the group.
        order: The number of pairs, exact.
        n_in: The number of inputs, columns of the labels.
        n_out: The number of outputs, rows of the labels.
    """

    generators: tuple[Pair, ...]
    order: int
    n_in: int
    n_out: int

    @property
    def joint(self) -> IntArray:
        """The generators on inputs 0 … n-1 and outputs n … n+m-1, shape (generators, n + m)."""
        rows = [
            np.concatenate([inputs, outputs + self.n_in]) for inputs, outputs in self.generators
        ]
        return np.array(rows, dtype=np.int64).reshape(-1, self.n_in + self.n_out)

    @property
    def orbits_in(self) -> tuple[tuple[int, ...], ...]:
        """The orbits of inputs, those of one input included."""
        return _as_tuples(orbits_of(self.joint[:, : self.n_in]))

    @property
    def orbits_out(self) -> tuple[tuple[int, ...], ...]:
        """The orbits of outputs, those of one output included."""
        return _as_tuples(orbits_of(self.joint[:, self.n_in :] - self.n_in))


def automorphisms(
    labels: ArrayLike,
    *,
    tied: bool = False,
    input_colours: ArrayLike | None = None,
    output_colours: ArrayLike | None = None,
) -> Automorphisms:
    """All permutations of inputs and of outputs that preserve a partition of a weight matrix.

    A graph has the inputs and outputs for vertices, once for each bit of a label, and in layer b
    the edges whose label has bit b. Its automorphisms, by nauty (McKay and Piperno, 2014), are
    the pairs sought.

    Args:
        labels: The block of each weight: integers, shape (outputs, inputs), or (inputs,) for one
            output.
        tied: Whether inputs and outputs are the same places: only pairs with π_out = π_in.
        input_colours: A class for each input, preserved as well.
        output_colours: A class for each output, such as the block of its bias, preserved as well.

    Raises:
        ValueError: If labels or colours are not integers of matching shapes, or ``tied`` is asked
            of a matrix that is not square.
        ImportError: If pynauty is not installed.

    Example:
        >>> circular = [[0, 1, 2], [2, 0, 1], [1, 2, 0]]
        >>> found = automorphisms(circular)
        >>> found.order, found.orbits_in
        (3, ((0, 1, 2),))
    """
    pattern = label_matrix(labels)
    m, n = pattern.shape
    if tied and m != n:
        raise ValueError(
            f"expected a square matrix of labels for tied inputs and outputs, got shape {(m, n)}"
        )
    colours = np.concatenate(
        [
            # inputs are never exchanged with outputs
            2 * colour_classes(input_colours, n, "input"),
            2 * colour_classes(output_colours, m, "output") + 1,
        ]
    )
    # a diagonal of its own colours ties output i to input i
    marked = 2 * pattern + np.eye(n, dtype=np.int64) if tied else pattern
    layers = _bit_layers(marked)
    generators, size = _nauty(layers, colours)
    pairs = tuple((joint[:n], joint[n:] - n) for joint in generators)
    for inputs, outputs in pairs:
        assert np.array_equal(pattern[np.ix_(outputs, inputs)], pattern)
        assert not tied or np.array_equal(inputs, outputs)
    assert np.array_equal(colours[generators], np.tile(colours, (len(generators), 1)))
    return Automorphisms(pairs, _exact_order(layers, colours, generators, size), n, m)


def label_matrix(labels: ArrayLike) -> IntArray:
    """Labels as a matrix of blocks 0, 1, …; one row for a vector.

    Raises:
        ValueError: If they are not integers in one or two dimensions.
    """
    array = _integers(labels, "labels")
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(
            "expected labels of shape (outputs, inputs) or (inputs,), at least one of each, "
            f"got shape {array.shape}"
        )
    _, blocks = np.unique(array, return_inverse=True)
    return blocks.reshape(np.atleast_2d(array).shape).astype(np.int64)


def colour_classes(colours: ArrayLike | None, count: int, side: str) -> IntArray:
    """Colours of inputs or outputs as classes 0, 1, …; one class for None.

    Raises:
        ValueError: If they are not one integer each.
    """
    if colours is None:
        return np.zeros(count, dtype=np.int64)
    array = _integers(colours, f"{side} colours")
    if array.shape != (count,):
        raise ValueError(f"expected {count} {side} colours, got shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def _integers(given: ArrayLike, what: str) -> NDArray[Any]:
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ValueError(f"expected {what} as an array, got rows of unequal lengths") from error
    if array.size and array.dtype.kind not in "iub":
        raise ValueError(f"expected {what} as integers, got {array.dtype}")
    return array


def _bit_layers(pattern: IntArray) -> NDArray[np.bool_]:
    """The bits of a code for each label, shape (bits, outputs, inputs), few of them set.

    Frequent labels get the codes with the fewest bits, the most frequent one none at all.
    """
    _, block, counts = np.unique(pattern, return_inverse=True, return_counts=True)
    bits = max(1, (len(counts) - 1).bit_length())
    cheap = sorted(range(2**bits), key=lambda code: (code.bit_count(), code))[: len(counts)]
    codes = np.empty(len(counts), dtype=np.int64)
    codes[np.argsort(-counts, kind="stable")] = cheap
    code = codes[block].reshape(pattern.shape)
    return (code >> np.arange(bits)[:, None, None] & 1).astype(bool)


def _nauty(layers: NDArray[np.bool_], colours: IntArray) -> tuple[IntArray, tuple[float, int]]:
    """Generators on inputs and then outputs, and the size as mantissa and power of ten."""
    try:
        pynauty = importlib.import_module("pynauty")
    except ImportError as error:
        raise ImportError(
            "expected pynauty, which finds the automorphisms of a sharing pattern, got none: "
            "pip install pynauty"
        ) from error
    points, n = len(colours), layers.shape[2]
    neighbours: dict[int, list[int]] = {}
    for bit, layer in enumerate(layers):
        start = bit * points
        for output, row in enumerate(layer):
            neighbours[start + n + output] = (start + np.flatnonzero(row)).tolist()
        if bit:
            for vertex in range(start, start + points):
                neighbours.setdefault(vertex, []).append(vertex - points)
    classes = [np.flatnonzero(colours == colour) for colour in np.unique(colours)]
    graph = pynauty.Graph(
        len(layers) * points,
        adjacency_dict=neighbours,
        vertex_coloring=[
            set((bit * points + members).tolist())
            for bit in range(len(layers))
            for members in classes
        ],
    )
    found, mantissa, exponent, *_ = pynauty.autgrp(graph)
    generators = np.array([g[:points] for g in found], dtype=np.int64).reshape(-1, points)
    return generators, (float(mantissa), int(exponent))


def _exact_order(
    layers: NDArray[np.bool_], colours: IntArray, generators: IntArray, size: tuple[float, int]
) -> int:
    """The order as an integer; nauty's own is rounded from ten digits on.

    The chain of the generators shows a divisor of it, which is the whole unless it is at most
    half. Where it is not the whole, a point is fixed: |G| = |orbit| · |stabiliser|.
    """
    order, whole = 1, _digits(*size)
    while True:
        mantissa, exponent = size
        part = chain_order(generators) if exponent else round(mantissa)
        if abs(math.log10(part) - _digits(*size)) < 0.1:
            break
        largest = max(orbits_of(generators), key=len)
        order *= len(largest)
        colours = colours.copy()
        colours[largest[0]] = colours.max() + 1
        generators, size = _nauty(layers, colours)
    assert abs(math.log10(order * part) - whole) < 0.1
    return order * part


def _digits(mantissa: float, exponent: int) -> float:
    return math.log10(mantissa) + exponent


def _as_tuples(orbits: Sequence[IntArray]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(orbit.tolist()) for orbit in orbits)
