"""The group of a symmetric network in a certificate's message: the catalogue's code, within limits.

A short code can name a group whose generators fill any memory (S(10⁹), SO(1000)), or one whose
constructor does unbounded work. What is read is held to limits before it is built, and what is
written likewise, so that every certificate written can be read.
"""

from __future__ import annotations

from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._rejected import Rejected
from isotropy.groups import (
    A,
    C2d,
    Conjugate,
    D,
    D2d,
    DirectProduct,
    DkeR3,
    Embedding,
    GridFlips,
    GridShifts,
    GridTurns,
    Group,
    Inversion,
    RubiksCube,
    S,
    Semidirect,
    SideBySide,
    Trivial,
    Wreath,
    Z,
    decode_prefix,
    encode,
    p4,
    p4m,
)

MOST_CODE_BITS = 2**16
MOST_DIMENSIONS = 2**16
MOST_PARTS = 64
DEEPEST = 8
MOST_ENTRIES = 2**24

_PERMUTATIONS = (
    *(Z, S, A, D, Trivial, Inversion),
    *(GridShifts, GridTurns, GridFlips, p4, p4m, RubiksCube),
)
# few matrices whatever their integer; the other families have at most d² and two reflections
_FEW_MATRICES = (C2d, D2d, DkeR3)


def write_group(writer: BitWriter, group: Group) -> None:
    """Write a group by its code in the catalogue.

    Raises:
        ValueError: If it has no code, or is beyond the limits of :func:`read_group`.

    Example:
        >>> writer = BitWriter()
        >>> write_group(writer, p4(28))
        >>> len(writer)
        18
    """
    code = encode(group)
    try:
        _decode_within_limits(code[:MOST_CODE_BITS])
    except Rejected as error:
        raise ValueError(f"{group!s:.80} cannot be named in a certificate: {error}") from error
    writer.bits(code)


def read_group(reader: BitReader) -> Group:
    """Read a group that :func:`write_group` wrote.

    Accepted are codes of at most ``MOST_CODE_BITS`` bits, integers and dimensions of at most
    ``MOST_DIMENSIONS``, ``MOST_PARTS`` parts nested ``DEEPEST`` deep, and generators with at
    most ``MOST_ENTRIES`` entries in all. Semidirect products are not: whether one group
    normalises another can take any time to check.

    Raises:
        Rejected: If the bits are not the code of a group within these limits.

    Example:
        >>> writer = BitWriter()
        >>> write_group(writer, p4(28))
        >>> read_group(BitReader(writer.to_bytes()))
        p4(28)
    """
    group, length = _decode_within_limits(reader.peek(MOST_CODE_BITS))
    reader.bits(length)
    return group


def _decode_within_limits(bits: str) -> tuple[Group, int]:
    try:
        group, end = decode_prefix(bits, check=_check)
    except Rejected:
        raise
    except ValueError as error:
        raise Rejected(f"{error!s:.300}") from error
    _weigh(group)
    # nested products are flattened when they are built: they have two codes, one of them read
    if encode(group) != bits[:end]:
        raise Rejected(f"expected the code of {group!s:.80}, got another of the same group")
    return group, end


def _check(kind: type[Group], integers: tuple[int, ...], parts: tuple[Group, ...]) -> None:
    if kind is Semidirect:
        raise Rejected("expected a group without semidirect products, got one")
    if any(n > MOST_DIMENSIONS for n in integers):
        raise Rejected(f"expected integers of at most {MOST_DIMENSIONS} in a group, got a larger")
    if kind is Group:
        _require_entries(integers[0] * integers[1])
    if len(parts) > MOST_PARTS:
        raise Rejected(f"expected a group of at most {MOST_PARTS} parts, got more")
    weights = [_weigh(part) for part in parts]
    # its constructor asks whether the outer group permutes, which makes all its generators
    if kind is Wreath and weights[1].matrices:
        raise Rejected("expected a wreath product over permutations, got one over matrices")


class _Weight:
    """How many leaves a group has, and at most how many generators of either kind."""

    def __init__(self, leaves: int, permutations: int, matrices: int) -> None:
        self.leaves = leaves
        self.permutations = permutations
        self.matrices = matrices


def _weigh(group: Group, depth: int = 0) -> _Weight:
    if depth > DEEPEST:
        raise Rejected(f"expected a group nested at most {DEEPEST} deep, got a deeper one")
    if group.d > MOST_DIMENSIONS:
        raise Rejected(f"expected a group on at most {MOST_DIMENSIONS} dimensions, got more")
    weight = _sum_of_parts(group, depth)
    if weight.leaves > MOST_PARTS:
        raise Rejected(f"expected a group of at most {MOST_PARTS} parts, got more")
    _require_entries(weight.permutations * group.d + weight.matrices * group.d**2)
    return weight


def _sum_of_parts(group: Group, depth: int) -> _Weight:
    kind = type(group)
    if isinstance(group, DirectProduct | SideBySide):
        parts = group.factors if isinstance(group, DirectProduct) else group.terms
        weights = [_weigh(part, depth + 1) for part in parts]
        return _Weight(
            sum(w.leaves for w in weights),
            sum(w.permutations for w in weights),
            sum(w.matrices for w in weights),
        )
    if isinstance(group, Wreath):
        inner, outer = _weigh(group.inner, depth + 1), _weigh(group.outer, depth + 1)
        return _Weight(
            inner.leaves + outer.leaves,
            inner.permutations * group.outer.d + outer.permutations,
            inner.matrices * group.outer.d,
        )
    if isinstance(group, Conjugate) or kind is Embedding:
        assert isinstance(group, Conjugate | Embedding)
        return _weigh(group.inner, depth + 1)
    if kind is Group:
        return _Weight(1, len(group.discrete), 0)
    if kind in _PERMUTATIONS:
        return _Weight(1, 6, 0)
    return _Weight(1, 0, 4 if kind in _FEW_MATRICES else group.d**2 + 2)


def _require_entries(entries: int) -> None:
    if entries > MOST_ENTRIES:
        raise Rejected(
            f"expected a group whose generators have at most {MOST_ENTRIES} entries, got more"
        )
