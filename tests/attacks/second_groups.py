"""The groups that a message can name: their code and their text."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from attacks.second_bits import Bits, require
from attacks.second_generators import GRIDS, Signed, generators, is_plain, signed_permutation

MOST_CODE = 1 << 16
MOST_INTEGER = 1 << 16
MOST_PARTS = 64
DEEPEST = 8
MOST_ENTRIES = 1 << 24
LARGEST_CONDITION = 100.0
_BORDER = 1e-9  # of a condition number, which is rounded

_COMPOUND = (
    "DirectProduct",
    "SideBySide",
    "Wreath",
    "Semidirect",
    "Embedding",
    "Conjugate",
    "Group",
)
# name, how many integers, the smallest of them
_FAMILIES = (
    *(("Z", 1, 1), ("S", 1, 1), ("SO", 1, 1), ("O", 1, 1), ("Trivial", 1, 1), ("D", 1, 3)),
    *(("A", 1, 3), ("SO13p", 0, 0), ("SO13", 0, 0), ("O13", 0, 0), ("SE", 1, 1), ("E", 1, 1)),
    *(("SU", 1, 2), ("U", 1, 1), ("Sp", 1, 1), ("SL", 1, 1), ("GL", 1, 1), ("C2d", 1, 1)),
    *(("D2d", 1, 1), ("GridShifts", 1, 1), ("GridTurns", 1, 2), ("GridFlips", 1, 2)),
    *(("p4", 1, 3), ("p4m", 1, 3), ("RubiksCube", 0, 0), ("SO2eR3", 0, 0), ("O2eR3", 0, 0)),
    *(("DkeR3", 1, 1), ("SO11p", 0, 0), ("O11", 0, 0), ("Scaling", 1, 1), ("Inversion", 1, 1)),
    *(("Parity", 0, 0), ("TimeReversal", 0, 0), ("SOpq", 2, 1)),
)
_PERMUTING = ("Z", "S", "A", "D", "Trivial", "Inversion", *GRIDS, "RubiksCube")
_SMALL = {"RubiksCube": 48, "SO2eR3": 3, "O2eR3": 3, "DkeR3": 3, "SO11p": 2, "O11": 2}
_SMALL |= {"C2d": 2, "D2d": 2, "SO13p": 4, "SO13": 4, "O13": 4, "Parity": 4, "TimeReversal": 4}


@dataclass(frozen=True)
class Group:
    """A group as its code has it.

    Args:
        kind: The name of its family, or of the way in which parts are put together.
        integers: Those behind the name; of an embedding, the dimension and the place.
        parts: The groups that it is made of.
        permutations: Generators written out; one, the change of basis, for a conjugate.
        matrices: In numbers: the change of basis, or generators, as (rows of numbers, …).
        of_algebra: How many of the matrices, the last ones, are of the Lie algebra.
    """

    kind: str
    integers: tuple[int, ...] = ()
    parts: tuple[Group, ...] = ()
    permutations: tuple[tuple[int, ...], ...] = ()
    matrices: tuple[tuple[tuple[float, ...], ...], ...] = ()
    of_algebra: int = 0

    @property
    def d(self) -> int:
        sizes = [part.d for part in self.parts]
        if self.kind in ("DirectProduct", "Wreath"):
            return math.prod(sizes)
        if self.kind in ("SideBySide", "Conjugate"):
            return sum(sizes)
        if self.kind in _SMALL:
            return _SMALL[self.kind]
        n = self.integers[0]
        grown = {"SE": n + 1, "E": n + 1, "Sp": 2 * n, "SOpq": sum(self.integers)}
        return n * n if self.kind in GRIDS else grown.get(self.kind, n)

    @property
    def is_complex(self) -> bool:
        return self.kind in ("U", "SU") or any(part.is_complex for part in self.parts)

    def __str__(self) -> str:
        texts = [str(part) for part in self.parts]
        if self.kind == "DirectProduct":
            sums = [part.kind == "SideBySide" for part in self.parts]
            return "*".join(f"({t})" if s else t for t, s in zip(texts, sums, strict=True))
        if self.kind == "SideBySide":
            return "+".join(texts)
        if self.kind == "Wreath":
            return f"wreath({','.join(texts)})"
        if self.kind == "Embedding":
            d, at = self.integers
            return f"embed({texts[0]},{d}{f',{at}' if at else ''})"
        count = len(self.matrices) - self.of_algebra
        listed = [_listed(p) for p in (*self.permutations, *map(_literal, self.matrices[:count]))]
        listed += [_listed(a) for a in self.matrices[count:]]
        if self.kind == "Conjugate":
            return f"conjugate({texts[0]},{listed[0]})"
        if self.kind == "Group":
            discrete = listed[: len(listed) - self.of_algebra]
            algebra = listed[len(listed) - self.of_algebra :]
            words = [f"discrete=[{','.join(discrete)}]"] if discrete else []
            words += [f"algebra=[{','.join(algebra)}]"] if algebra else []
            return f"Group({','.join(words) or f'd={self.d}'})"
        numbers = ",".join(map(str, self.integers))
        return f"{self.kind}({numbers})" if numbers else self.kind


def _literal(matrix: tuple[tuple[float, ...], ...]) -> Any:
    """A matrix, or where it takes each coordinate if it is a permutation."""
    found = signed_permutation(np.array(matrix))
    return matrix if found is None or not is_plain(found) else found.index


def _listed(rows: Any) -> str:
    text = str(np.array(rows).tolist()).replace(" ", "")
    return text.replace(".0,", ",").replace(".0]", "]")


# --- the code ---------------------------------------------------------------------------------


def read_group(bits: Bits) -> Group:
    """The group at the cursor, in the catalogue's code or in numbers."""
    start = bits.at
    if bits.text[start : start + 16] == "0" * 16:
        bits.number(16)
        group = _generated(bits) if bits.flag() else _rebased(bits)
        _require_clear(group)
    else:
        group = _named(bits)
    require(bits.at - start <= MOST_CODE, "the code of a group is too long")
    return group


def _named(bits: Bits) -> Group:
    group = _catalogue(bits)
    _weigh(group)
    return group


def _catalogue(bits: Bits, depth: int = 0) -> Group:
    require(depth <= DEEPEST, "a group is nested too deeply")
    row = bits.gamma() - 1
    require(row < len(_COMPOUND) + len(_FAMILIES), "there is no such group")
    if row >= len(_COMPOUND):
        name, count, smallest = _FAMILIES[row - len(_COMPOUND)]
        integers = tuple(bits.delta() for _ in range(count))
        require(all(smallest <= n <= MOST_INTEGER for n in integers), f"no such {name}")
        return Group(name, integers)
    kind = _COMPOUND[row]
    require(kind != "Semidirect", "semidirect products are not accepted")
    if kind in ("DirectProduct", "SideBySide"):
        count = bits.delta()
        require(2 <= count <= MOST_PARTS, "a product has too few parts or too many")
        parts = tuple(_catalogue(bits, depth + 1) for _ in range(count))
        require(all(part.kind != kind for part in parts), "a product within its like is one")
        group = Group(kind, parts=parts)
    elif kind == "Wreath":
        group = Group(kind, parts=(_catalogue(bits, depth + 1), _catalogue(bits, depth + 1)))
        outer = group.parts[1]
        require(_weigh(outer)[2] == 0, "blocks are not permuted")
        require(all(map(is_plain, generators(outer)[0])), "blocks are not permuted")
    elif kind == "Embedding":
        integers = (bits.delta(), bits.delta() - 1)
        inner = _catalogue(bits, depth + 1)
        require(max(integers) <= MOST_INTEGER, "a group is too large")
        require(integers[1] <= integers[0] - inner.d, "a group does not fit where it is put")
        group = Group(kind, integers, (inner,))
    elif kind == "Conjugate":
        inner = _catalogue(bits, depth + 1)
        _weigh(inner)
        require(inner.kind != "Conjugate", "a conjugate of a conjugate is one")
        group = Group(kind, parts=(inner,), permutations=(bits.permutation(inner.d),))
    else:
        d, count = bits.delta(), bits.delta() - 1
        require(max(d, count) <= MOST_INTEGER and d * count <= MOST_ENTRIES, "too many numbers")
        group = Group(kind, (d,), permutations=tuple(bits.permutation(d) for _ in range(count)))
    return group


def _weigh(group: Group, depth: int = 0) -> tuple[int, int, int]:
    """Leaves, permutations and matrices: at most how many generators there are."""
    require(depth <= DEEPEST and group.d <= MOST_INTEGER, "a group is too deep or too large")
    parts = [_weigh(part, depth + 1) for part in group.parts]
    if group.kind == "Wreath":
        (leaves, permutations, matrices), outer = parts
        blocks = group.parts[1].d
        require(outer[2] == 0, "blocks are not permuted")
        weight = leaves + outer[0], permutations * blocks + outer[1], matrices * blocks
    elif parts:
        weight = tuple(map(sum, zip(*parts, strict=True)))
    elif group.kind == "Group":
        weight = 1, len(group.permutations), 0
    elif group.kind in _PERMUTING:
        weight = 1, 6, 0
    else:
        few = group.kind in ("C2d", "D2d", "DkeR3")
        weight = 1, 0, 4 if few else group.d**2 + 2
    require(weight[0] <= MOST_PARTS, "a group has too many parts")
    entries = weight[1] * group.d + weight[2] * group.d**2
    require(entries <= MOST_ENTRIES, "a group has too many numbers")
    return weight


def _rebased(bits: Bits) -> Group:
    inner = _named(bits)
    require(inner.d <= 8 and inner.kind != "Conjugate", "no such change of basis")
    (change,) = _matrices(bits, inner.d, 1, 16)
    _require_condition(change)
    signed = signed_permutation(change)
    require(signed is None or not is_plain(signed), "a permuted group has a shorter code")
    _require_canonical(change)
    return Group("Conjugate", parts=(inner,), matrices=(_frozen(change),))


def _generated(bits: Bits) -> Group:
    d = bits.natural(7) + 1
    discrete, algebra = bits.natural(28), bits.natural(28)
    require(1 <= discrete + algebra <= 28, "too few generators or too many")
    matrices = _matrices(bits, d, discrete + algebra, 32)
    for place, matrix in enumerate(matrices):
        _require_canonical(matrix)
        if place < discrete:
            _require_condition(matrix)
        else:
            require(matrix.any(), "zero spans nothing")
    signed = [signed_permutation(matrix) for matrix in matrices[:discrete]]
    plain = all(m is not None and is_plain(m) for m in signed)
    require(algebra or not plain, "a group of permutations has a shorter code")
    frozen = tuple(map(_frozen, matrices))
    return Group("Group", (d,), matrices=frozen, of_algebra=algebra)


def _matrices(bits: Bits, d: int, count: int, width: int) -> np.ndarray:
    words = [bits.number(width) for _ in range(count * d * d)]
    whole, real = (np.uint16, np.float16) if width == 16 else (np.uint32, np.float32)
    with np.errstate(invalid="ignore"):
        numbers = np.array(words, whole).view(real).astype(np.float64)
    require(np.abs(numbers).max() <= 1024, "a number of a group is too large, or none")
    return numbers.reshape(count, d, d)


def _require_canonical(matrix: np.ndarray) -> None:
    """A signed permutation is kept without its matrix, and has no negative zeros."""
    negative_zeros = (matrix == 0) & np.signbit(matrix)
    require(
        signed_permutation(matrix) is None or not negative_zeros.any(),
        "zeros of a signed permutation are negative",
    )


def _require_condition(matrix: np.ndarray) -> None:
    values = np.linalg.svd(matrix, compute_uv=False)
    worst = LARGEST_CONDITION * (1 + _BORDER) * values[-1]
    require(values[0] <= worst and values[-1] > 0, "a matrix of a group is nearly singular")


def _require_clear(group: Group) -> None:
    """Whether generators permute, or turn, must not be a matter of rounding errors."""
    if group.is_complex:
        return
    discrete, algebra = generators(group)
    for h in discrete:
        if isinstance(h, Signed):
            continue
        near = signed_permutation(np.round(h))
        require(near is None or abs(h - near.dense()).max() >= 1e-9, "a matrix nearly permutes")
        defect = abs(h.T @ h - np.eye(len(h))).max()
        require(not 1e-11 < defect < 1e-9, "a matrix is nearly orthogonal")
    for a in algebra:
        defect = abs(a + a.T).max() / abs(a).max()
        require(not 1e-14 < defect < 1e-10, "a matrix is nearly skew")


def _frozen(matrix: np.ndarray) -> tuple[tuple[float, ...], ...]:
    return tuple(map(tuple, matrix.tolist()))
