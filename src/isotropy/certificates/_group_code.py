"""The group of a symmetric network in a certificate's message: the catalogue's code, or matrices.

A group in a basis of its own, or given by generators, is written out in numbers behind sixteen
zeros, with which no code of the catalogue begins:

    0    the catalogue's code of a group on R^d, then a change of basis, d² 16-bit numbers
    1    d, the numbers of generators of both kinds, then these, 32-bit numbers

A short code can name a group whose generators fill any memory (S(10⁹), SO(1000)), or one whose
constructor does unbounded work. What is read is held to limits before it is built, and what is
written likewise, so that every certificate written can be read.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._header import Rejected
from isotropy.groups import (
    A,
    C2d,
    D,
    D2d,
    DirectProduct,
    DkeR3,
    GridFlips,
    GridShifts,
    GridTurns,
    Group,
    Inversion,
    Monomial,
    RubiksCube,
    S,
    Trivial,
    Z,
    encode,
    p4,
    p4m,
)
from isotropy.groups._catalogue import decode_prefix
from isotropy.groups._placements import Conjugate, Embedding
from isotropy.groups._products import Semidirect, SideBySide, Wreath

MOST_CODE_BITS = 2**16
MOST_DIMENSIONS = 2**16
MOST_PARTS = 64
DEEPEST = 8
MOST_ENTRIES, MOST_GENERATORS = 2**24, 2**13
# of groups written out in numbers
MOST_MATRIX_DIMENSIONS = 8
MOST_MATRICES = 28
LARGEST_NUMBER = 1024.0
# beyond it, spaces of equivariant maps cannot be distinguished from rounding errors
LARGEST_CONDITION = 100.0

# beside the tolerances of 1e-10 and 1e-12 by which matrices count as orthogonal and skew
_UNCLEAR_ORTHOGONAL, _UNCLEAR_SKEW = (1e-11, 1e-9), (1e-14, 1e-10)
_CLOSE_TO_PERMUTING = 1e-9

_IN_NUMBERS = "0" * 16
_NUMBERS = {16: (np.float16, np.uint16), 32: (np.float32, np.uint32)}

_PERMUTATIONS = (
    *(Z, S, A, D, Trivial, Inversion),
    *(GridShifts, GridTurns, GridFlips, p4, p4m, RubiksCube),
)
# few matrices whatever their integer; the other families have at most d² and two reflections
_FEW_MATRICES = (C2d, D2d, DkeR3)


def write_group(writer: BitWriter, group: Group) -> None:
    """Write a group by its code in the catalogue, or in numbers where it has none.

    Raises:
        ValueError: If it has neither (see :func:`writable_group`), or is beyond the limits of
            :func:`read_group`.

    Example:
        >>> writer = BitWriter()
        >>> write_group(writer, p4(28))
        >>> len(writer)
        18
    """
    try:
        code = encode(group)
    except ValueError:
        _write_in_numbers(writer, group)
        return
    try:
        _decode_within_limits(code[:MOST_CODE_BITS])
    except Rejected as error:
        raise ValueError(f"{group!s:.80} cannot be named in a certificate: {error}") from error
    writer.bits(code)


def read_group(reader: BitReader) -> Group:
    """Read a group that :func:`write_group` wrote.

    Accepted are codes of at most ``MOST_CODE_BITS`` bits, integers and dimensions of at most
    ``MOST_DIMENSIONS``, ``MOST_PARTS`` parts nested ``DEEPEST`` deep, and generators with at
    most ``MOST_ENTRIES`` entries in all, at most ``MOST_GENERATORS``. Semidirect products are not:
    whether one group normalises another can take any time to check. In numbers, groups on at most
    ``MOST_MATRIX_DIMENSIONS`` dimensions, with ``MOST_MATRICES`` generators, entries of at most
    ``LARGEST_NUMBER`` and condition numbers of at most ``LARGEST_CONDITION``.

    Raises:
        Rejected: If the bits are not the code of a group within these limits.

    Example:
        >>> writer = BitWriter()
        >>> write_group(writer, p4(28))
        >>> read_group(BitReader(writer.to_bytes()))
        p4(28)
    """
    code = reader.peek(MOST_CODE_BITS)
    decode = _decode_numbers if code.startswith(_IN_NUMBERS) else _decode_within_limits
    group, length = decode(code)
    reader.bits(length)
    return group


def writable_group(group: Group) -> Group:
    """The group itself where it can be written, else the nearest whose numbers are short.

    A change of basis is scaled, which changes nothing, and rounded to 16 bits; generators are
    rounded to 32.

    Raises:
        ValueError: If it cannot be written for another reason.

    Example:
        >>> from isotropy.groups import SO
        >>> exact = SO(2).conjugate([[1.0, 0.0], [0.0, 3.0]])
        >>> writable_group(exact).change.dense().tolist()  # 1/3 in 16 bits
        [[0.333251953125, 0.0], [0.0, 1.0]]
    """
    try:
        encode(group)
    except ValueError:
        pass
    else:
        return group
    if group.is_complex or group.d > MOST_MATRIX_DIMENSIONS:
        raise ValueError(
            f"expected a group of the catalogue, or of real matrices on at most "
            f"{MOST_MATRIX_DIMENSIONS} dimensions, got {group.name:.80} on {group.d}"
        )
    placed = _at_the_basis(group)
    if placed is not None:
        inner, change = placed
        return Conjugate(inner, _rounded(change / change.abs().max(), 16))
    return Group(
        [_rounded(h.dense(), 32) for h in group.discrete],
        algebra=[_rounded(a.dense(), 32) for a in group.algebra],
        d=group.d,
    )


def _at_the_basis(group: Group) -> tuple[Group, Tensor] | None:
    """A group of the catalogue and the change of basis from it, where it is one."""
    if isinstance(group, Conjugate):
        within = _at_the_basis(group.inner)
        return None if within is None else (within[0], group.change.dense() @ within[1])
    if isinstance(group, Embedding) and (within := _at_the_basis(group.inner)) is not None:
        change = torch.eye(group.d, dtype=within[1].dtype)
        inside = slice(group.at, group.at + group.inner.d)
        change[inside, inside] = within[1]
        return Embedding(within[0], group.d, group.at), change
    try:
        encode(group)
    except ValueError:
        return None
    return group, torch.eye(group.d, dtype=torch.float64)


def _rounded(matrix: Tensor, width: int) -> Tensor:
    # adding zero makes negative zeros positive
    return torch.from_numpy(_numbers(matrix, width).astype(np.float64)) + 0.0


def _numbers(matrix: Tensor, width: int) -> np.ndarray:
    within = matrix.double().clamp(-2 * LARGEST_NUMBER, 2 * LARGEST_NUMBER)
    return within.numpy().astype(_NUMBERS[width][0])


def _write_in_numbers(writer: BitWriter, group: Group) -> None:
    if group.is_complex or group.d > MOST_MATRIX_DIMENSIONS:
        raise ValueError(
            "expected a group of the catalogue, or of real matrices on at most "
            f"{MOST_MATRIX_DIMENSIONS} dimensions, got {group.name:.80} on {group.d}"
        )
    if not isinstance(group, Conjugate) and type(group) is not Group:
        raise ValueError(f"expected a group of the catalogue to encode, got {group!r:.80}")
    code = _code_in_numbers(group)
    try:
        read, _ = _decode_numbers(code)
    except Rejected as error:
        raise ValueError(f"{group.name:.80} cannot be named in a certificate: {error}") from error
    if read != group:
        raise ValueError(
            f"expected numbers of 16 bits in a change of basis and of 32 in generators, got "
            f"longer ones in {group.name:.80}"
        )
    writer.bits(code)


def _code_in_numbers(group: Group) -> str:
    writer = BitWriter()
    writer.bits(_IN_NUMBERS)
    if isinstance(group, Conjugate):
        writer.below(0, 2)
        writer.bits(encode(group.inner))
        matrices, width = [group.change.dense()], 16
    else:
        writer.below(1, 2)
        writer.natural(group.d - 1)
        writer.natural(len(group.discrete))
        writer.natural(len(group.algebra))
        matrices, width = [g.dense() for g in (*group.discrete, *group.algebra)], 32
    for matrix in matrices:
        for word in _numbers(matrix, width).view(_NUMBERS[width][1]).flatten().tolist():
            writer.below(word, 1 << width)
    return BitReader(writer.to_bytes()).bits(len(writer))


def _decode_numbers(bits: str) -> tuple[Group, int]:
    holder = BitWriter()
    holder.bits(bits)
    reader = BitReader(holder.to_bytes())
    reader.bits(len(_IN_NUMBERS))
    try:
        group = _generated(reader) if reader.below(2) else _conjugated(reader)
        _require_clear(group)
        again = _code_in_numbers(group)
    except Rejected:
        raise
    except ValueError as error:
        raise Rejected(f"{error!s:.300}") from error
    # zero in an algebra is dropped, a conjugate of a conjugate made one: written, they are shorter
    if bits[: reader.position] != again:
        raise Rejected(f"expected the code of {group.name:.80}, got another of the same group")
    return group, reader.position


def _conjugated(reader: BitReader) -> Group:
    inner, length = _decode_within_limits(reader.peek(MOST_CODE_BITS))
    reader.bits(length)
    if inner.d > MOST_MATRIX_DIMENSIONS:
        raise Rejected(
            f"expected a change of basis of at most {MOST_MATRIX_DIMENSIONS} dimensions, got one "
            f"of {inner.d}"
        )
    (change,) = _read_matrices(reader, inner.d, 1, 16)
    _require_condition(change)
    group = Conjugate(inner, change)
    if isinstance(group.change, Monomial) and group.change.sign is None:
        raise Rejected("expected the catalogue's code of a permuted group, got a matrix")
    return group


def _generated(reader: BitReader) -> Group:
    d = reader.natural(limit=MOST_MATRIX_DIMENSIONS - 1) + 1
    discrete, algebra = (reader.natural(limit=MOST_MATRICES) for _ in range(2))
    if not 1 <= discrete + algebra <= MOST_MATRICES:
        raise Rejected(
            f"expected 1 to {MOST_MATRICES} generators in numbers, got {discrete + algebra}"
        )
    matrices = _read_matrices(reader, d, discrete + algebra, 32)
    for matrix in matrices[:discrete]:
        _require_condition(matrix)
    group = Group(matrices[:discrete], algebra=matrices[discrete:], d=d)
    if group.is_permutation:
        raise Rejected("expected the catalogue's code of a group of permutations, got matrices")
    return group


def _read_matrices(reader: BitReader, d: int, count: int, width: int) -> list[Tensor]:
    words = [reader.below(1 << width) for _ in range(count * d * d)]
    floats, integers = _NUMBERS[width]
    with np.errstate(invalid="ignore"):
        numbers = np.array(words, integers).view(floats).astype(np.float64).reshape(count, d, d)
    if not np.abs(numbers).max() <= LARGEST_NUMBER:  # nor what is no number
        raise Rejected(f"expected generators of numbers of at most {LARGEST_NUMBER:g}, got others")
    return list(torch.from_numpy(numbers))


def _require_condition(matrix: Tensor) -> None:
    values = torch.linalg.svdvals(matrix)
    if not bool(values[0] <= LARGEST_CONDITION * values[-1]):
        raise Rejected(
            f"expected a matrix of condition at most {LARGEST_CONDITION:g} in a group, got a "
            "worse one"
        )


def _require_clear(group: Group) -> None:
    """Refuse generators so near to permutations, or to rotations, that rounding decides."""
    for generator in group.discrete:
        if isinstance(generator, Monomial):
            continue
        matrix = generator.dense().double()
        nearest = matrix.round()
        ones = nearest.abs()
        permutes = bool((ones.sum(0) == 1).all() and (ones.sum(1) == 1).all())
        if permutes and bool((matrix - nearest).abs().max() < _CLOSE_TO_PERMUTING):
            raise Rejected(
                "expected generators that permute exactly or not at all, got one between"
            )
        gram = matrix.mT @ matrix
        _require_far(gram - torch.eye(group.d, dtype=torch.float64), _UNCLEAR_ORTHOGONAL)
    for generator in group.algebra:
        matrix = generator.dense().double()
        _require_far((matrix + matrix.mT) / matrix.abs().max(), _UNCLEAR_SKEW)


def _require_far(defect: Tensor, unclear: tuple[float, float]) -> None:
    if unclear[0] < float(defect.abs().max()) < unclear[1]:
        raise Rejected("expected generators that are orthogonal or clearly not, got one between")


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
    if weight.permutations + weight.matrices > MOST_GENERATORS:
        raise Rejected(f"expected a group of at most {MOST_GENERATORS} generators, got more")
    return weight


def most_generators(group: Group) -> int:
    """At most how many generators a group that can be read has, without making them."""
    weight = _weigh(group)
    return weight.permutations + weight.matrices


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
