"""From automorphisms to a symmetry: which groups act, on which inputs and outputs together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from isotropy.groups import DirectProduct, Group, S, Trivial, Z, identify
from isotropy.groups._products import SideBySide
from isotropy.naming._automorphisms import Automorphisms
from isotropy.naming._permutation_parts import (
    chain_order,
    independent_parts,
    symmetric_copies,
)
from isotropy.naming._row_rep import RowRep
from isotropy.reps import Rep, Scalar, Symmetry, V

IntArray = NDArray[np.int64]

# Beyond both, the proof of a name, or that there is none, can take minutes.
_MANY_POINTS, _MANY_ELEMENTS = 64, 10**6


@dataclass(frozen=True)
class MovedSets:
    """A group and the sets of inputs and of outputs that it moves in the same way.

    Args:
        core: The group, acting on k places.
        inputs: Arrays of k inputs, each in the order of the places; none where inputs stay.
        outputs: The same of outputs.
    """

    core: Group
    inputs: tuple[IntArray, ...]
    outputs: tuple[IntArray, ...]

    @staticmethod
    def of(core: Group, copies: Sequence[IntArray], n: int) -> MovedSets:
        """A term from points 0 … n-1 for inputs and n, n+1, … for outputs."""
        inputs = tuple(copy for copy in copies if copy[0] < n)
        outputs = tuple(copy - n for copy in copies if copy[0] >= n)
        if core.d == 2:
            # one group by two names: a swap of two places, or of many pairs at once
            core = S(2) if max(len(inputs), len(outputs)) == 1 else Z(2)
        return MovedSets(core, inputs, outputs)


@dataclass(frozen=True, eq=False)
class Acting:
    """What acts: the terms, side by side, and the symmetry they make.

    Args:
        symmetry: The symmetry.
        terms: The terms; None where the group has no name.
        points: The inputs that move, in the order of the group's places, copy by copy.
        custom: Representations by name, for ``Symmetry.from_json`` to read ``symmetry`` back.
    """

    symmetry: Symmetry
    terms: tuple[MovedSets, ...] | None
    points: tuple[int, ...]
    custom: dict[str, RowRep] = field(default_factory=dict)


def acting(found: Automorphisms, labels: IntArray, output_colours: IntArray) -> Acting:
    """The symmetry of a pattern that has automorphisms other than the identity.

    Args:
        found: The automorphisms, or some of them.
        labels: The pattern, shape (outputs, inputs).
        output_colours: The class of each output, such as the block of its bias.
    """
    n, m = found.n_in, found.n_out
    terms = named_terms(found.joint, n)
    if terms is not None:
        return _from_terms(terms, n, m)
    colours = output_colours.copy()
    for orbit in found.orbits_out:
        # what the group exchanges has one colour, whatever was given
        colours[list(orbit)] = output_colours[orbit[0]]
    tied = all(np.array_equal(a, b) for a, b in found.generators)
    # two equal rows can be exchanged alone: then the inputs do not say how the outputs move
    if not tied and len(np.unique(np.column_stack([labels, colours]), axis=0)) < m:
        return _on_all_points(found)
    terms = named_terms(found.joint[:, :n], n)
    if terms is not None:
        return _by_inputs(terms, labels, colours)
    return _unnamed(found, labels, colours, tied)


def named_terms(generators: IntArray, n: int) -> list[MovedSets] | None:
    """The independent parts of a permutation group by their catalogue names; None without.

    Args:
        generators: Permutations of the inputs 0 … n-1 and then of outputs, shape (count, points).
        n: The number of inputs.
    """
    terms: list[MovedSets] = []
    for part in independent_parts(generators):
        copies = symmetric_copies(part)
        if copies is not None:
            terms.append(MovedSets.of(S(len(copies[0])), copies, n))
            continue
        identified = _identified(part, n)
        if identified is None:
            return None
        terms += identified
    # what moves inputs first, in the order of the inputs
    return sorted(
        terms,
        key=lambda t: (not t.inputs, min(copy.min() for copy in (t.inputs or t.outputs))),
    )


def _identified(part: IntArray, n: int) -> list[MovedSets] | None:
    moved = np.flatnonzero((part != np.arange(part.shape[1])).any(0))
    if len(moved) > _MANY_POINTS and chain_order(part) > _MANY_ELEMENTS:
        return None
    place = np.full(part.shape[1], -1)
    place[moved] = np.arange(len(moved))
    found = identify(place[part[:, moved]].tolist())
    if found.group is None:
        return None
    points, terms, at = moved[np.array(found.points)], [], 0
    for group in found.group.terms if isinstance(found.group, SideBySide) else [found.group]:
        core, copies = _without_copies(group)
        terms.append(MovedSets.of(core, list(points[at : at + group.d].reshape(copies, -1)), n))
        at += group.d
    return terms


def _without_copies(group: Group) -> tuple[Group, int]:
    """G and k of Trivial(k)*G, which is G on k sets of points at once."""
    if not isinstance(group, DirectProduct) or not isinstance(group.factors[0], Trivial):
        return group, 1
    factors = group.factors[1:]
    return factors[0] if len(factors) == 1 else DirectProduct(*factors), group.factors[0].d


def _side_by_side(terms: Sequence[MovedSets]) -> Group:
    cores = [term.core for term in terms]
    return cores[0] if len(cores) == 1 else SideBySide(*cores)


class _Side:
    """Inputs or outputs: the copies of each term's places there, and the columns left alone."""

    def __init__(self, copies: list[tuple[IntArray, ...]], count: int) -> None:
        self.copies = copies
        self.count = count
        self.is_even = len({len(c) for c in copies}) == 1
        arrays = (
            [copy for row in zip(*copies, strict=True) for copy in row]
            if self.is_even
            else [copy for several in copies for copy in several]
        )
        self.columns = tuple(np.concatenate(arrays).tolist()) if arrays else ()

    def rep(self, blocks: dict[str, RowRep]) -> Rep:
        """The representation: copies of V, where each term has as many, else of its blocks."""
        if not self.columns:
            return self.count * Scalar
        if self.is_even:
            inner = len(self.copies[0]) * V
        else:
            used = zip(self.copies, blocks.values(), strict=True)
            several = [len(copies) * block for copies, block in used if copies]
            inner = sum(several[1:], several[0])
        in_place = self.columns == tuple(range(self.count))
        return inner if in_place else inner.on(self.columns, self.count)

    def custom(self, blocks: dict[str, RowRep]) -> dict[str, RowRep]:
        return {} if self.is_even else blocks


def _blocks(terms: Sequence[MovedSets]) -> dict[str, RowRep]:
    """For each term, how it acts on its own places within the group side by side."""
    ends = np.cumsum([term.core.d for term in terms])
    every = np.eye(ends[-1], dtype=np.int64)
    return {
        f"Block{k}": RowRep(f"Block{k}", every[end - term.core.d : end])
        for k, (term, end) in enumerate(zip(terms, ends, strict=True))
    }


def _from_terms(terms: list[MovedSets], n: int, m: int) -> Acting:
    blocks = _blocks(terms)
    inputs = _Side([term.inputs for term in terms], n)
    outputs = _Side([term.outputs for term in terms], m)
    symmetry = Symmetry(_side_by_side(terms), inputs.rep(blocks), outputs.rep(blocks))
    custom = inputs.custom(blocks) | outputs.custom(blocks)
    return Acting(symmetry, tuple(terms), inputs.columns, custom)


def _by_inputs(terms: list[MovedSets], labels: IntArray, colours: IntArray) -> Acting:
    """A group with a name on the inputs; outputs follow as their rows do."""
    blocks = _blocks(terms)
    inputs = _Side([term.inputs for term in terms], labels.shape[1])
    outputs = RowRep("Outputs", _rows_by_place(labels, colours, terms))
    symmetry = Symmetry(_side_by_side(terms), inputs.rep(blocks), outputs)
    custom = {"Outputs": outputs, **inputs.custom(blocks)}
    return Acting(symmetry, tuple(terms), inputs.columns, custom)


def _unnamed(found: Automorphisms, labels: IntArray, colours: IntArray, tied: bool) -> Acting:
    """A group without a name on the inputs; outputs stay, move as these, or follow as rows."""
    group, every = Group([inputs for inputs, _ in found.generators]), tuple(range(found.n_in))
    if tied:
        return Acting(Symmetry(group, V, V), None, every)
    if all(len(orbit) == 1 for orbit in found.orbits_out):
        return Acting(Symmetry(group, V, found.n_out * Scalar), None, every)
    outputs = RowRep("Outputs", labels * (colours.max() + 1) + colours[:, None])
    return Acting(Symmetry(group, V, outputs), None, every, {"Outputs": outputs})


def _on_all_points(found: Automorphisms) -> Acting:
    """A group on inputs and outputs side by side, for want of anything simpler."""
    every = np.eye(found.n_in + found.n_out, dtype=np.int64)
    inputs = RowRep("Inputs", every[: found.n_in])
    outputs = RowRep("Outputs", every[found.n_in :])
    symmetry = Symmetry(Group(found.joint), inputs, outputs)
    custom: dict[str, RowRep] = {"Inputs": inputs, "Outputs": outputs}
    return Acting(symmetry, None, tuple(range(found.n_in)), custom)


def _rows_by_place(labels: IntArray, colours: IntArray, terms: Sequence[MovedSets]) -> IntArray:
    """For each output and place of the group, all that the output's row has there."""
    moved = np.concatenate([copy for term in terms for copy in term.inputs])
    fixed = np.setdiff1d(np.arange(labels.shape[1]), moved)
    aside = np.column_stack([labels[:, fixed], colours])
    row_class = np.unique(aside, axis=0, return_inverse=True)[1].reshape(-1, 1)
    columns = []
    for term in terms:
        entries = np.stack([labels[:, copy] for copy in term.inputs], -1)
        for place in range(term.core.d):
            columns.append(np.hstack([entries[:, place], row_class]))
    width = max(column.shape[1] for column in columns)
    padded = [np.pad(column, ((0, 0), (width - column.shape[1], 0))) for column in columns]
    stacked = np.stack(padded, 1).reshape(-1, width)
    ids = np.unique(stacked, axis=0, return_inverse=True)[1]
    return ids.reshape(len(labels), len(columns)).astype(np.int64)
