"""The catalogue: one table of group names, spellings and codes.

Parsing, naming and certificates all read it. The code of a group is prefix-free: a symbol
from the table, then its integers or its parts. The table only ever grows at its end, so the
code of a group never changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from isotropy.groups._grids import GridFlips, GridShifts, GridTurns, p4, p4m
from isotropy.groups._group import Group
from isotropy.groups._lie_groups import (
    GL,
    O11,
    O13,
    SL,
    SO,
    SO13,
    SU,
    O,
    SO11p,
    SO13p,
    SOpq,
    Sp,
    U,
)
from isotropy.groups._maps import Monomial
from isotropy.groups._motions import (
    SE,
    DkeR3,
    E,
    O2eR3,
    Parity,
    Scaling,
    SO2eR3,
    TimeReversal,
)
from isotropy.groups._permutation_groups import A, C2d, D, D2d, Inversion, RubiksCube, S, Trivial, Z
from isotropy.groups._placements import (
    Conjugate,
    Embedding,
)
from isotropy.groups._products import (
    DirectProduct,
    Semidirect,
    SideBySide,
    Wreath,
)


@dataclass(frozen=True)
class Family:
    """One row of the catalogue.

    Attributes:
        kind: The class of its groups.
        integers: How many integers follow the name.
        meaning: What it is, in a few words.
        spellings: Other names that are read as this one.
    """

    kind: type[Group]
    integers: int
    meaning: str
    spellings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that is printed."""
        return self.kind.__name__


# ways of combining groups, by the number of parts; they share the numbering of the table
_COMBINATIONS: tuple[type[Group], ...] = (
    DirectProduct,
    SideBySide,
    Wreath,
    Semidirect,
    Embedding,
    Conjugate,
    Group,
)

FAMILIES: tuple[Family, ...] = (
    Family(Z, 1, "cyclic shifts of n places", ("Cyclic",)),
    Family(S, 1, "all permutations of n places", ("Sym",)),
    Family(SO, 1, "rotations of R^n"),
    Family(O, 1, "rotations and reflections of R^n"),
    Family(Trivial, 1, "the identity alone, on R^n"),
    Family(D, 1, "dihedral group of the n-gon, on its n corners", ("Dihedral",)),
    Family(A, 1, "even permutations of n places", ("Alt",)),
    Family(SO13p, 0, "proper orthochronous Lorentz group"),
    Family(SO13, 0, "proper Lorentz group"),
    Family(O13, 0, "full Lorentz group", ("Lorentz",)),
    Family(SE, 1, "rigid motions of R^n, homogeneous coordinates"),
    Family(E, 1, "rigid motions and reflections of R^n, homogeneous coordinates"),
    Family(SU, 1, "unitary n x n matrices of determinant one"),
    Family(U, 1, "unitary n x n matrices"),
    Family(Sp, 1, "real symplectic matrices of R^2n"),
    Family(SL, 1, "real n x n matrices of determinant one"),
    Family(GL, 1, "invertible real n x n matrices"),
    Family(C2d, 1, "rotations of the n-gon, on the plane"),
    Family(D2d, 1, "dihedral group of the n-gon, on the plane"),
    Family(GridShifts, 1, "cyclic shifts of an n x n grid"),
    Family(GridTurns, 1, "quarter turns of an n x n grid"),
    Family(GridFlips, 1, "flips of an n x n grid"),
    Family(p4, 1, "shifts and quarter turns of an n x n grid"),
    Family(p4m, 1, "shifts, quarter turns and flips of an n x n grid"),
    Family(RubiksCube, 0, "Rubik's cube group on 48 facelets"),
    Family(SO2eR3, 0, "rotations of R^3 about z"),
    Family(O2eR3, 0, "rotations about z and reflections in planes through z"),
    Family(DkeR3, 1, "dihedral group of the k-gon in the xy plane of R^3"),
    Family(SO11p, 0, "boosts of the plane"),
    Family(O11, 0, "boosts and reversals of the plane"),
    Family(Scaling, 1, "multiplication of R^n by positive numbers"),
    Family(Inversion, 1, "the identity and x -> -x on R^n"),
    Family(Parity, 0, "reversal of space in space-time"),
    Family(TimeReversal, 0, "reversal of time in space-time"),
    Family(SOpq, 2, "identity component of SO(p,q)"),
)

_BY_NAME = {name: f for f in FAMILIES for name in (f.name, *f.spellings)}


def family(name: str) -> Family | None:
    """The row of the catalogue with this name or spelling, or None."""
    return _BY_NAME.get(name)


def code_length(group: Group) -> int:
    """The length in bits of the group's prefix-free code.

    Raises:
        ValueError: If the group has no code: it was given by matrices or operators.

    Example:
        >>> code_length(Z(8)), code_length(S(5) + S(5))
        (15, 31)
    """
    return len(encode(group))


def encode(group: Group) -> str:
    """The group's prefix-free code, a string of the characters 0 and 1."""
    for row, fam in enumerate(FAMILIES):
        if type(group) is fam.kind:
            numbers = getattr(group, "parameters", ())
            return _symbol(len(_COMBINATIONS) + row) + "".join(map(_elias_delta, numbers))
    if type(group) not in _COMBINATIONS:
        raise ValueError(f"expected a group of the catalogue to encode, got {group!r:.80}")
    return _symbol(_COMBINATIONS.index(type(group))) + _encode_combination(group)


def _encode_combination(group: Group) -> str:
    match group:
        case DirectProduct(factors=parts) | SideBySide(terms=parts):
            return _elias_delta(len(parts)) + "".join(map(encode, parts))
        case Wreath(inner=first, outer=second) | Semidirect(normal=first, acting=second):
            return encode(first) + encode(second)
        case Embedding():
            return _elias_delta(group.d) + _elias_delta(group.at + 1) + encode(group.inner)
        case Conjugate(change=Monomial(sign=None, index=index)):
            return encode(group.inner) + _encode_permutation(index.tolist())
        case Conjugate():
            raise ValueError(f"expected a group of the catalogue to encode, got {group!r:.80}")
    if group.algebra or not group.is_permutation:
        raise ValueError(
            f"expected a group of the catalogue or of permutations to encode, got {group!r:.80}"
        )
    indices = [m.index.tolist() for m in (h.monomial() for h in group.discrete) if m is not None]
    head = _elias_delta(group.d) + _elias_delta(len(indices) + 1)
    return head + "".join(map(_encode_permutation, indices))


def decode(bits: str) -> Group:
    """The group with this code.

    Raises:
        ValueError: If the text is not the code of a group.

    Example:
        >>> decode(encode(S(5) + Z(3)))
        S(5)+Z(3)
    """
    group, end = decode_prefix(bits)
    if end != len(bits):
        raise ValueError(f"expected the code of one group, got {len(bits) - end} bits more")
    return group


# what is about to be built: its class, its integers (of a group of permutations: dimension and
# how many), its parts
Check: TypeAlias = Callable[[type[Group], tuple[int, ...], tuple[Group, ...]], None]


def decode_prefix(bits: str, *, check: Check | None = None) -> tuple[Group, int]:
    """The group whose code a longer text begins with, and where that code ends.

    Args:
        bits: Characters 0 and 1.
        check: Called before a group or a part of it is built, with its class, its integers and
            its parts; refuses it by raising, where the text is not to be trusted.

    Raises:
        ValueError: If the text does not begin with the code of a group.

    Example:
        >>> decode_prefix(encode(S(5)) + "0110")
        (S(5), 12)
    """
    if not isinstance(bits, str) or set(bits) - {"0", "1"}:
        raise ValueError(f"expected a code of the characters 0 and 1, got {bits!r:.80}")
    stream = _Bits(bits)
    try:
        group = _decode(stream, check or (lambda *_: None))
    except RecursionError:
        raise ValueError("expected the code of a group, got one nested too deeply") from None
    return group, stream.at


def _decode(stream: _Bits, check: Check) -> Group:
    row = stream.symbol()
    if row >= len(_COMBINATIONS) + len(FAMILIES):
        raise ValueError("expected the code of a group, got an unknown symbol")
    if row >= len(_COMBINATIONS):
        fam = FAMILIES[row - len(_COMBINATIONS)]
        make: Callable[..., Group] = fam.kind
        integers = tuple(stream.integer() for _ in range(fam.integers))
        check(fam.kind, integers, ())
        return make(*integers)
    kind = _COMBINATIONS[row]
    if kind in (DirectProduct, SideBySide):
        count = stream.integer()
        if count > (left := len(stream.bits) - stream.at):
            raise ValueError(f"expected the code of a group, got more parts than {left} bits hold")
        parts = tuple(_decode(stream, check) for _ in range(count))
        check(kind, (), parts)
        return DirectProduct(*parts) if kind is DirectProduct else SideBySide(*parts)
    if kind in (Wreath, Semidirect):
        first, second = _decode(stream, check), _decode(stream, check)
        check(kind, (), (first, second))
        return Wreath(first, second) if kind is Wreath else Semidirect(first, second)
    if kind is Embedding:
        d, at = stream.integer(), stream.integer() - 1
        inner = _decode(stream, check)
        check(kind, (d, at), (inner,))
        return Embedding(inner, d, at)
    if kind is Conjugate:
        inner = _decode(stream, check)
        check(kind, (), (inner,))
        return Conjugate(inner, stream.permutation(inner.d))
    d, count = stream.integer(), stream.integer() - 1
    check(kind, (d, count), ())
    return Group([stream.permutation(d) for _ in range(count)], d=d)


def _symbol(row: int) -> str:
    return _elias_gamma(row + 1)


def _elias_gamma(n: int) -> str:
    """Elias' gamma code of n >= 1: its binary digits after as many zeros, less one."""
    return "0" * (n.bit_length() - 1) + f"{n:b}"


def _elias_delta(n: int) -> str:
    """Elias' delta code of n >= 1: the gamma code of its length, then its digits but the first."""
    return _elias_gamma(n.bit_length()) + f"{n:b}"[1:]


def _permutation_bits(n: int) -> int:
    return (math.factorial(n) - 1).bit_length()


def _encode_permutation(index: Sequence[int]) -> str:
    """A permutation as its number in lexicographic order, in ⌈log₂ n!⌉ bits."""
    n, remaining, rank = len(index), sorted(index), 0
    for place, image in enumerate(index):
        at = remaining.index(image)
        rank = rank * (n - place) + at
        remaining.pop(at)
    width = _permutation_bits(n)
    return f"{rank:0{width}b}" if width else ""


class _Bits:
    """A cursor over a string of bits."""

    def __init__(self, bits: str) -> None:
        self.bits = bits
        self.at = 0

    def read(self, count: int) -> str:
        if self.at + count > len(self.bits):
            raise ValueError("expected the code of a group, got a code that ends too early")
        self.at += count
        return self.bits[self.at - count : self.at]

    def _gamma(self) -> int:
        zeros = 0
        while self.read(1) == "0":
            zeros += 1
        return int("1" + self.read(zeros), 2)

    def symbol(self) -> int:
        return self._gamma() - 1

    def integer(self) -> int:
        return int("1" + self.read(self._gamma() - 1), 2)

    def permutation(self, n: int) -> list[int]:
        if math.lgamma(n + 1) / math.log(2) > len(self.bits) - self.at + 1:
            raise ValueError("expected the code of a group, got a code that ends too early")
        rank = int("0" + self.read(_permutation_bits(n)), 2)
        places = []
        for left in range(1, n + 1):
            rank, at = divmod(rank, left)
            places.append(at)
        if rank:
            raise ValueError("expected the code of a group, got an impossible permutation")
        remaining = list(range(n))
        return [remaining.pop(at) for at in reversed(places)]
