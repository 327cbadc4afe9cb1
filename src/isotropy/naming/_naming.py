"""The name of a sharing pattern: from a partition of a weight matrix to its group.

Convolutions that are not circular are shared along diagonals, but by no group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from isotropy.groups import Group, S
from isotropy.naming._automorphisms import (
    Automorphisms,
    Pair,
    automorphisms,
    colour_classes,
    label_matrix,
)
from isotropy.naming._pair_group import PairGroup
from isotropy.naming._permutation_parts import orbits_of
from isotropy.naming._position_words import column_words, joined, motion, position_words
from isotropy.naming._row_rep import RowRep
from isotropy.naming._sharing_symmetry import Acting, MovedSets, acting
from isotropy.reps import Symmetry

_LARGEST_STRIDE = 3
IntArray = NDArray[np.int64]
Kind = Literal["group", "partial shift", "none"]


@dataclass(frozen=True)
class PartialShift:
    """A pattern with labels[i + 1, j + stride] = labels[i, j] wherever both exist.

    Attributes:
        taps: The offsets j − stride · i of weights outside the background block.
        stride: How far the window moves from one output to the next.
        is_valid: Whether every window lies within the inputs, so that nothing is padded.
        has_background: Whether the two far corners share a block, that of structural zeros.
    """

    taps: tuple[int, ...]
    stride: int
    is_valid: bool
    has_background: bool

    def __str__(self) -> str:
        if not self.has_background:
            return "weights that depend on j − i alone"
        count = f"{len(self.taps)} tap" + ("s" if len(self.taps) > 1 else "")
        offsets = ", ".join(map(str, self.taps))
        if not self.is_valid:
            kind = f"zero-padded convolution with taps at {offsets}"
        elif self.taps == tuple(range(len(self.taps))):
            kind = f"valid cross-correlation with {count}"
        else:
            kind = f"valid cross-correlation with {count} at {offsets}"
        return kind if self.stride == 1 else f"{kind}, stride {self.stride}"


def partial_shift(labels: NDArray[np.int64]) -> PartialShift | None:
    """Recognise the pattern of a convolution with zeros at the ends, or none at all.

    A larger stride than 1 is recognised only with a background and windows within the inputs.

    Args:
        labels: The block of each weight, shape (outputs, inputs).

    Returns:
        None where the labels are not constant along diagonals, are all the same, or are too few
        to tell.

    Example:
        >>> print(partial_shift(np.array([[1, 2, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2]])))
        valid cross-correlation with 2 taps
    """
    m, n = labels.shape
    for stride in range(1, _LARGEST_STRIDE + 1):
        # a single coincidence is no evidence
        if m < 2 or (m - 1) * (n - stride) < 2 or (labels == labels[0, 0]).all():
            return None
        if np.array_equal(labels[1:, stride:], labels[:-1, : n - stride]):
            found = _read(labels, stride)
            if stride == 1 or (found.is_valid and found.has_background and found.taps):
                return found
    return None


def _read(labels: NDArray[np.int64], stride: int) -> PartialShift:
    m, n = labels.shape
    offset = np.arange(n) - stride * np.arange(m)[:, None]
    background = labels[0, -1]
    has_background = bool(labels[-1, 0] == background)
    outside = labels != background if has_background else np.ones_like(labels, dtype=bool)
    taps = np.unique(offset[outside])
    window = n - stride * (m - 1)
    is_valid = bool((taps >= 0).all() and (taps < window).all()) and has_background
    return PartialShift(tuple(taps.tolist()), stride, is_valid, has_background)


@dataclass(frozen=True, eq=False)
class SharingName:
    """What a partition of a weight matrix says of the symmetry of its layer.

    Attributes:
        kind: "group", "partial shift" for a convolution with ends, or "none".
        name: In prose: "Z(12), cyclic shift".
        action: What moves, in the names of the columns.
        group: The group, of the catalogue where it is proven to be one of it; None for none.
        symmetry: The group with its action on inputs and outputs; None without a group.
        order: The number of elements, 1 for none.
        points: The inputs that move in the order of the group's places, copy by copy.
        orbits_in: The orbits of inputs.
        orbits_out: The orbits of outputs.
        generators: Pairs (π_in, π_out) that generate the group.
        taps: The offsets of the weights of a partial shift, its background block left out.
        stride: How far a partial shift moves from one output to the next.
        custom: What ``Symmetry.from_json`` needs, as its argument of the same name, to read
            ``symmetry`` back; empty unless inputs and outputs move in ways that V alone cannot
            say.
    """

    kind: Kind
    name: str
    action: str
    group: Group | None
    symmetry: Symmetry | None
    order: int
    points: tuple[int, ...]
    orbits_in: tuple[tuple[int, ...], ...]
    orbits_out: tuple[tuple[int, ...], ...]
    generators: tuple[Pair, ...]
    taps: tuple[int, ...] = ()
    stride: int = 1
    custom: dict[str, RowRep] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name


def name_sharing(
    labels: ArrayLike,
    *,
    tied: bool = False,
    input_colours: ArrayLike | None = None,
    output_colours: ArrayLike | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> SharingName:
    """Name the symmetry of a layer whose weights are shared as the labels say.

    The group is that of all pairs (π_in, π_out) that preserve the partition; its name is proven.
    Labels that are constant along diagonals but not circular are those of a convolution with
    ends, which no group explains: a partial shift.

    Args:
        labels: The block of each weight: integers, shape (outputs, inputs), or (inputs,) for one
            output.
        tied: Whether inputs and outputs are the same places: only pairs with π_out = π_in.
        input_colours: A class for each input, preserved as well.
        output_colours: A class for each output, such as the block of its bias, preserved as well.
        input_names: What to call the inputs; x0, x1, … without.
        output_names: What to call the outputs; y0, y1, … without.

    Raises:
        ValueError: If labels or colours are not integers of matching shapes, ``tied`` is asked of
            a matrix that is not square, or there are not as many names as columns.
        ImportError: If pynauty is not installed.

    Example:
        >>> found = name_sharing([[0, 1, 2, 3], [3, 0, 1, 2], [2, 3, 0, 1], [1, 2, 3, 0]])
        >>> found.name, found.action
        ('Z(4), cyclic shift', 'cyclic shift of x0…x3, outputs shift along')
        >>> print(found.symmetry)
        Z(4): V >> V
        >>> name_sharing([0, 1, 0, 1, 0, 1]).name
        'S(3)+S(3), even and odd positions'
        >>> name_sharing([[1, 2, 0, 0], [0, 1, 2, 0], [0, 0, 1, 2]]).name
        'partial shift (valid cross-correlation with 2 taps)'
        >>> name_sharing([[0, 1, 2], [3, 4, 5]]).name
        'no symmetry'
    """
    pattern = label_matrix(labels)
    m, n = pattern.shape
    inputs = _names(input_names, n, "x", "input")
    outputs = _names(output_names, m, "y", "output")
    found = automorphisms(
        pattern, tied=tied, input_colours=input_colours, output_colours=output_colours
    )
    shift = partial_shift(pattern)
    if shift is not None and _is_carried(shift, found):
        shift = None
    what = None
    if found.order > 1:
        what = acting(found, pattern, colour_classes(output_colours, m, "output"))
    name, action = _words(found, what, inputs, outputs)
    if shift is not None:
        name, action = _partial_words(shift, found, name, action, inputs)
    named = _named(found, what, name, action)
    if shift is None:
        return named
    return replace(named, kind="partial shift", taps=shift.taps, stride=shift.stride)


def name_permutations(
    group: PairGroup,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> SharingName:
    """Name a group of permutations of inputs and outputs, as ``name_sharing`` names its own.

    Args:
        group: The permutations.
        input_names: What to call the inputs; x0, x1, … without.
        output_names: What to call the outputs; y0, y1, … without.

    Example:
        >>> turn = np.roll(np.arange(6), -1)
        >>> name_permutations(PairGroup(((turn, np.arange(1)),), 6, 1)).name
        'Z(6), cyclic shift'
    """
    n, m = group.inputs, group.outputs
    inputs = _names(input_names, n, "x", "input")
    outputs = _names(output_names, m, "y", "output")
    found = Automorphisms(group.generators, group.order, n, m)
    what = None
    if found.order > 1:
        moves = [(b[:, None] * n + a).ravel() for a, b in group.generators]
        labels = np.zeros(m * n, dtype=np.int64)
        for block, orbit in enumerate(orbits_of(np.array(moves, dtype=np.int64))):
            labels[orbit] = block
        what = acting(found, labels.reshape(m, n), np.arange(m))
    name, action = _words(found, what, inputs, outputs)
    return _named(found, what, name, action)


def _named(found: Automorphisms, what: Acting | None, name: str, action: str) -> SharingName:
    return SharingName(
        kind="none" if what is None else "group",
        name=name,
        action=action,
        group=None if what is None else what.symmetry.group,
        symmetry=None if what is None else what.symmetry,
        order=found.order,
        points=() if what is None else what.points,
        orbits_in=found.orbits_in,
        orbits_out=found.orbits_out,
        generators=found.generators,
        custom={} if what is None else what.custom,
    )


def _names(given: Sequence[str] | None, count: int, letter: str, side: str) -> list[str]:
    if given is None:
        return [f"{letter}{k}" for k in range(count)]
    if isinstance(given, str) or len(given) != count:
        got = repr(given) if isinstance(given, str) else len(given)
        raise ValueError(f"expected {count} {side} names, got {got}")
    return [str(name) for name in given]


def _is_carried(shift: PartialShift, found: Automorphisms) -> bool:
    """Whether the group itself carries the window of one output to those of all others."""
    m, n = found.n_out, found.n_in
    stays = np.arange(m)
    if any((o != stays).any() and (o != stays[::-1]).any() for _, o in found.generators):
        return True
    pairs = [(outputs[:, None] * n + inputs).ravel() for inputs, outputs in found.generators]
    orbit_of = np.empty(m * n, dtype=np.int64)
    for k, orbit in enumerate(orbits_of(np.array(pairs, dtype=np.int64).reshape(-1, m * n))):
        orbit_of[orbit] = k
    for tap in shift.taps:
        inputs = shift.stride * stays + tap
        inside = (inputs >= 0) & (inputs < n)
        if np.ptp(orbit_of[(stays * n + inputs)[inside]]):
            return False
    return True


def _partial_words(
    shift: PartialShift, found: Automorphisms, name: str, action: str, inputs: list[str]
) -> tuple[str, str]:
    m, n = found.n_out, found.n_in
    step = "" if shift.stride == 1 else f" by {shift.stride}"
    moves = f"shift{step} of {column_words(range(n), inputs)} within its ends"
    around = (np.arange(n)[::-1], np.arange(m)[::-1])
    turns = [all(map(np.array_equal, pair, around)) for pair in found.generators]
    if found.order == 1:
        extra = ""
    elif found.order == 2 and all(turns):
        extra, action = ", with reflection", f"reflection of {column_words(range(n), inputs)}"
    else:
        extra = f", with {name}"
    words = f"partial shift ({shift}){extra}"
    return words, f"{moves}, outputs shift along" + (f"; {action}" if extra else "")


# --- the words of a group -----------------------------------------------------------------------


def _words(
    found: Automorphisms, what: Acting | None, inputs: list[str], outputs: list[str]
) -> tuple[str, str]:
    """The name in prose and the action in the names of the columns."""
    if what is None:
        return "no symmetry", "nothing moves"
    if what.terms is None:
        return _words_without_name(found, inputs, outputs)
    first = [term for term in what.terms if term.inputs]
    alone = [term for term in what.terms if not term.inputs]
    name = "+".join(str(term.core) for term in first)
    clauses = [motion(t.core, t.inputs, found.n_in).in_columns(inputs) for t in first]
    clauses += [motion(t.core, t.outputs, found.n_out).in_columns(outputs) for t in alone]
    if not alone:
        name += f", {_where(first, found.n_in)}"
        return name, f"{joined(clauses)}, {_following(found, first, outputs)}"
    on_outputs = f"{'+'.join(str(term.core) for term in alone)} on outputs"
    if not first:
        return on_outputs, f"{joined(clauses)}, inputs stay"
    if any(term.outputs for term in first):
        name += f", {_where(first, found.n_in)}, and {on_outputs}"
        return name, f"{joined(clauses)}, {_following(found, first, outputs)}"
    return f"{on_outputs} and {name} on inputs", joined(clauses)


def _where(terms: Sequence[MovedSets], count: int) -> str:
    if all(isinstance(term.core, S) and len(term.inputs) == 1 for term in terms):
        return position_words([term.inputs[0].tolist() for term in terms], count)
    return joined([motion(term.core, term.inputs, count).in_positions(count) for term in terms])


def _following(found: Automorphisms, terms: Sequence[MovedSets], names: list[str]) -> str:
    """What the outputs do when inputs move."""
    moved = sorted({o for orbit in found.orbits_out if len(orbit) > 1 for o in orbit})
    own = {int(o) for term in terms for copy in term.outputs for o in copy}
    if own:
        moved = sorted(own)
    if not moved:
        return "the output stays" if found.n_out == 1 else "outputs stay"
    verbs = [motion(term.core, term.inputs, found.n_in).verb for term in terms]
    shifts = bool(verbs) and all(verb.startswith("cyclic shift") for verb in verbs)
    verb = "shift along" if shifts else "move along"
    order = _order_of_outputs(found, terms)
    which = f" in the order {', '.join(names[o] for o in order)}" if order else ""
    if len(moved) == found.n_out:
        return f"outputs {verb}{which}"
    return f"{column_words(moved, names)} {verb}{which}"


def _order_of_outputs(found: Automorphisms, terms: Sequence[MovedSets]) -> list[int]:
    """The outputs that go with the inputs, in the order of these; empty where it is plain."""
    if all(np.array_equal(a, b) for a, b in found.generators):
        return []
    if len(terms) != 1 or len(terms[0].inputs) != 1 or len(terms[0].outputs) != 1:
        return []
    order: list[int] = terms[0].outputs[0].tolist()
    return [] if order == sorted(order) else order


def _words_without_name(
    found: Automorphisms, inputs: list[str], outputs: list[str]
) -> tuple[str, str]:
    orbits = [orbit for orbit in found.orbits_in if len(orbit) > 1]
    name = f"permutation group of order {_short(found.order)}"
    if not orbits:
        return f"{name} on outputs", f"{name} on outputs, inputs stay"
    moves = joined([column_words(orbit, inputs) for orbit in orbits])
    action = f"permutations of {moves}, {_following(found, [], outputs)}"
    return f"{name}, {position_words(orbits, found.n_in)}", action


def _short(order: int) -> str:
    exponent = len(str(order)) - 1
    return str(order) if exponent < 12 else f"{order / 10**exponent:.3f}e{exponent}"
