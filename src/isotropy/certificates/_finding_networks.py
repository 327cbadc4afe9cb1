"""Which network of the catalogue has a symmetry that was discovered, and which is its rival."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import inf, prod
from typing import TYPE_CHECKING

import torch

from isotropy.certificates._architectures import WIDEST, Architecture
from isotropy.certificates._bits import BitWriter
from isotropy.certificates._group_code import writable_group, write_group
from isotropy.certificates._tensor_sums import TensorSum
from isotropy.groups import GridFlips, GridShifts, GridTurns, Group, Trivial, p4, p4m
from isotropy.groups._placements import Conjugate
from isotropy.reps import Symmetry

if TYPE_CHECKING:
    from isotropy.discovery import Finding

_COPIES, _WIDEST_SHARED = 8, 512
_SMALLEST_WIDTH, _LARGEST_WIDTH = 30, 48
_CHANNELS, _SMALLEST_SIDE = 4, 8
_SCALARS = re.compile(r"(?:\d+\*)?Scalar")
_PLACED = re.compile(r"(.+)\.on\(\[([\d,]+)\],(\d+)\)")
_VECTORS = re.compile(r"(?:(\d+)\*)?V(?:\+(?:(\d+)\*)?Scalar)?")


class CannotCertify(ValueError):
    """No network of the catalogue has the symmetry; the text says why."""


def networks_for(
    finding: Finding, shape: tuple[int, ...], outputs: int
) -> tuple[Architecture, Architecture]:
    """The network of the catalogue that has a symmetry, and a plain one of about its size.

    Args:
        finding: The symmetry.
        shape: Of one input.
        outputs: How many classes, or how many numbers.

    Raises:
        CannotCertify: If there is none.

    Example:
        >>> from isotropy.groups import SO
        >>> from isotropy.reps import Scalar, Symmetry, V
        >>> from isotropy.discovery import Finding
        >>> symmetry = Symmetry(SO(3), 2 * V, Scalar)
        >>> finding = Finding.of("SO(3)", "SO(3)", symmetry=symmetry)
        >>> [str(network) for network in networks_for(finding, (6,), 1)]
        ['mlp-30-30 equivariant SO(3) 2*V', 'mlp-35-35']
    """
    try:
        network = _network(finding, shape)
        size = network.parameter_count(shape, outputs)
    except CannotCertify:
        raise
    except ValueError as error:
        raise CannotCertify(f"no certificate: {error!s:.300}") from error
    if network.name != "mlp":  # made as large as the plain one already
        return network, Architecture(network.name, network.sizes)
    return network, _plain_mlp(shape, outputs, size)


def _network(finding: Finding, shape: tuple[int, ...]) -> Architecture:
    symmetry = finding.symmetry
    if symmetry is None:
        raise CannotCertify(
            "no certificate: the symmetry is of some layers of a network, not of the whole"
        )
    text_in, text_out = str(symmetry).split(": ")[-1].split(" >> ")
    if _SCALARS.fullmatch(text_out) is None:
        raise CannotCertify(
            "no certificate: outputs move with the inputs, those of the catalogue's networks stay"
        )
    if getattr(finding.details, "centre", ()):
        raise CannotCertify(
            "no certificate: the symmetry is about a point that is not the origin, which the "
            "catalogue's networks do not know"
        )
    if symmetry.rep_in.size() != prod(shape):
        raise CannotCertify(
            "no certificate: the symmetry has translations, which the catalogue's networks do not"
        )
    if len(shape) == 2:
        raise CannotCertify(
            "no certificate: the catalogue's networks take rows of numbers or images, not "
            f"sequences and sets of shape {shape}"
        )
    if symmetry.group.is_permutation:
        return _turned_images(symmetry.group, shape) or _shared(symmetry, text_in)
    if len(shape) != 1:
        raise CannotCertify(
            "no certificate: groups of matrices act on rows of numbers in the catalogue, not on "
            f"inputs of shape {shape}"
        )
    return _equivariant(symmetry.group, text_in)


def _turned_images(group: Group, shape: tuple[int, ...]) -> Architecture | None:
    """A convolutional network, for turns of images; it and its rival both know of shifts."""
    if len(shape) != 3 or shape[1] != shape[2] or shape[1] < _SMALLEST_SIDE:
        return None
    side = shape[1]
    if group.d != side * side:
        return None
    moves = set(_indices(group))
    turns, flips = set(_indices(GridTurns(side))), set(_indices(GridFlips(side)))
    if not turns <= moves or not moves <= turns | flips | set(_indices(GridShifts(side))):
        return None
    kind = p4m(p4m.smallest) if moves & flips else p4(p4.smallest)
    return Architecture("convnet", (_CHANNELS,), "equivariant", kind)


def _shared(symmetry: Symmetry, text: str) -> Architecture:
    """Weights shared on orbits; of spellings known to be of the same group, the shortest."""
    group, moves = symmetry.group, _column_moves(symmetry)
    features = symmetry.rep_in.size()
    spellings = [group, Group([list(index) for index in moves], d=features)]
    if found := _PLACED.fullmatch(text):
        order = _columns_first(found)
        wider = group + Trivial(features - group.d) if features > group.d else group
        spellings.append(Conjugate(wider, order))
    same = [one for one in spellings if _moves_so(one, moves, features)]
    shortest = min(same, key=_written_bits)
    width = min(_COPIES * shortest.d, max(shortest.d, _WIDEST_SHARED))
    return Architecture("mlp", (width, width), "shared", shortest)


def _columns_first(placed: re.Match[str]) -> list[int]:
    """The columns that a representation is on, then the others."""
    columns = [int(column) for column in placed[2].split(",")]
    return [*columns, *(c for c in range(int(placed[3])) if c not in columns)]


def _written_bits(group: Group) -> float:
    try:
        write_group(writer := BitWriter(), group)
    except ValueError:
        return inf
    return len(writer)


def _column_moves(symmetry: Symmetry) -> list[tuple[int, ...]]:
    """Where each generator takes each column."""
    numbers = torch.arange(symmetry.rep_in.size(), dtype=torch.float64)
    moved = [symmetry.apply(h, numbers).long() for h in symmetry.group.discrete]
    return [tuple(torch.argsort(came_from).tolist()) for came_from in moved]


def _moves_so(group: Group, moves: Sequence[tuple[int, ...]], features: int) -> bool:
    """Whether copies of a group side by side move all columns so, generator by generator."""
    if features % group.d or len(group.discrete) != len(moves):
        return False
    starts = range(0, features, group.d)
    return all(
        tuple(start + place for start in starts for place in index) == wanted
        for index, wanted in zip(_indices(group), moves, strict=True)
    )


def _indices(group: Group) -> list[tuple[int, ...]]:
    monomials = [h.monomial() for h in group.discrete]
    return [tuple(m.index.tolist()) for m in monomials if m is not None]


def _equivariant(group: Group, text: str) -> Architecture:
    """Tensors of the group; where columns are out of order, of the group on all of them."""
    if found := _PLACED.fullmatch(text):
        kinds = _VECTORS.fullmatch(found[1].strip("()"))
        if kinds is None:
            raise CannotCertify(f"no certificate: the catalogue's networks do not take {text:.80}")
        copies = int(kinds[1] or 1)
        group = Trivial(copies) * group if copies > 1 else group
        still = int(found[3]) - group.d
        group = Conjugate(group + Trivial(still) if still else group, _columns_first(found))
        text = "V"
    d = group.d
    width = min(max(_SMALLEST_WIDTH, 3 * d * d), _LARGEST_WIDTH)
    space = TensorSum.parse(text)
    return Architecture("mlp", (width, width), "equivariant", writable_group(group), space)


def _plain_mlp(shape: tuple[int, ...], outputs: int, size: int) -> Architecture:
    """Of two equal layers, with the number of parameters nearest to a given one."""

    def count(width: int) -> int:
        return (prod(shape) + width + outputs + 2) * width + outputs

    width = min(range(1, WIDEST + 1), key=lambda w: abs(count(w) - size))
    return Architecture("mlp", (width, width))
