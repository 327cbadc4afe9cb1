"""The bits of a certificate's message, read a second time with Python's integers alone."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

MOST_SYMBOLS = 1 << 21
MOST_LEVELS = 256
_BLOCK = 1 << 15
_HALVES = 31743  # positive finite numbers of 16 bits


class Wrong(ValueError):
    """The bytes are not a certificate of these data, by the second reading."""


class Outside(Exception):
    """A certificate that the second verifier cannot judge; the text says why."""


def require(holds: object, otherwise: str) -> None:
    """Raise `Wrong` unless something holds."""
    if not holds:
        raise Wrong(otherwise)


class Bits:
    """A cursor over bits, most significant first."""

    def __init__(self, content: bytes) -> None:
        size = 8 * len(content)
        self.text = f"{int.from_bytes(content):0{size}b}" if size else ""
        self.at = 0

    def number(self, width: int) -> int:
        end = self.at + width
        require(end <= len(self.text), "the bits end too early")
        taken, self.at = self.text[self.at : end], end
        return int(taken, 2) if width else 0

    def one_of(self, count: int) -> int:
        value = self.number((count - 1).bit_length())
        require(value < count, "a number is out of its range")
        return value

    def flag(self) -> bool:
        return self.number(1) == 1

    def gamma(self, most_zeros: int = 1 << 20) -> int:
        """Elias' gamma code of a positive number."""
        first = self.text.find("1", self.at)
        require(first >= 0, "the bits end too early")
        zeros, self.at = first - self.at, first
        require(zeros <= most_zeros, "a number is too long")
        return self.number(zeros + 1)

    def delta(self) -> int:
        """Elias' delta code of a positive number."""
        length = self.gamma(32)
        return 1 << (length - 1) | self.number(length - 1)

    def natural(self, most: int) -> int:
        length = self.gamma(32)
        require(length <= (most + 1).bit_length(), "a number is too large")
        value = (1 << (length - 1) | self.number(length - 1)) - 1
        require(value <= most, "a number is too large")
        return value

    def half(self) -> float:
        """A 16-bit number."""
        return float(np.uint16(self.number(16)).view(np.float16))

    def positive_half(self) -> float:
        value = self.half()
        require(0 < value < math.inf, "a 16-bit number is not positive")
        return value

    def subset(self, count: int, limit: int) -> list[int]:
        """The set c₁ < c₂ < … that stands at place Σ C(cᵢ, i) among all of ``count`` numbers."""
        place, chosen = self.one_of(math.comb(limit, count)), []
        top = limit
        for size in range(count, 0, -1):
            low, high = size - 1, top
            while high - low > 1:
                middle = (low + high) // 2
                if math.comb(middle, size) <= place:
                    low = middle
                else:
                    high = middle
            place -= math.comb(low, size)
            chosen.append(low)
            top = low
        return chosen[::-1]

    def permutation(self, size: int) -> tuple[int, ...]:
        """The permutation at a place in lexicographic order."""
        bits = math.lgamma(size + 1) / math.log(2)
        require(bits <= len(self.text) - self.at + 1, "the bits end too early")
        place, digits = self.one_of(math.factorial(size)), []
        for base in range(1, size + 1):
            place, digit = divmod(place, base)
            digits.append(digit)
        left = list(range(size))
        return tuple(left.pop(digit) for digit in reversed(digits))

    def finish(self) -> None:
        rest = self.text[self.at :]
        require(len(rest) < 8 and "1" not in rest, "there are bits after the message")


def codebook(bits: Bits, levels: int) -> np.ndarray:
    """Levels in ascending order, float64."""
    if bits.flag():
        above = [place + 1 for place in bits.subset(levels // 2, _HALVES)]
        places = [-place for place in reversed(above)] + [0] * (levels % 2) + above
    else:
        places = [place - _HALVES for place in bits.subset(levels, 2 * _HALVES + 1)]
        mirrored = [-place for place in reversed(places)]
        require(places != mirrored, "a symmetric codebook has the longer code")
    sizes = np.array([abs(place) for place in places], np.uint16).view(np.float16)
    return np.sign(places) * sizes.astype(np.float64)


def sequence(bits: Bits, size: int, levels: int) -> np.ndarray:
    """Symbols from 0 and below ``levels``, in blocks of their own counts."""
    parts = [_block(bits, min(_BLOCK, size - start), levels) for start in range(0, size, _BLOCK)]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _block(bits: Bits, size: int, levels: int) -> np.ndarray:
    if levels == 1:
        return np.zeros(size, np.int64)
    folded = bits.flag()
    if folded:
        steps = np.array(_arrangement(bits, size, (levels + 1) // 2))
        has_side = np.ones(size, bool) if levels % 2 == 0 else steps > 0
        count = int(has_side.sum())
        sides = np.zeros(size, bool)
        sides[has_side] = [c == "1" for c in f"{bits.number(count):0{count}b}"] if count else []
        symbols = np.where(sides, levels // 2 + steps, (levels - 1) // 2 - steps)
    else:
        symbols = np.array(_arrangement(bits, size, levels))
    counts = np.bincount(symbols, minlength=levels).tolist()
    pairs = [counts[i] + counts[levels - 1 - i] for i in range(levels // 2)]
    middle = [counts[levels // 2]] if levels % 2 else []
    shorter = _width([*middle, *pairs]) + sum(pairs) < _width(counts)
    require(folded == shorter, "a sequence has the longer code")
    return symbols


def _width(counts: list[int]) -> int:
    """Bits of the counts and of one arrangement."""
    compositions = math.comb(sum(counts) + len(counts) - 1, len(counts) - 1)
    return (compositions - 1).bit_length() + (_multinomial(counts) - 1).bit_length()


def _multinomial(counts: list[int]) -> int:
    ways, total = 1, 0
    for count in counts:
        total += count
        ways *= math.comb(total, count)
    return ways


def _arrangement(bits: Bits, size: int, levels: int) -> list[int]:
    bars = [-1, *bits.subset(levels - 1, size + levels - 1), size + levels - 1]
    left = [b - a - 1 for a, b in pairwise(bars)]
    ways = _multinomial(left)
    place, found = bits.one_of(ways), []
    for remaining in range(size, 0, -1):
        symbol = 0
        # of the arrangements of what is left, this share begins with the symbol
        while place >= (begins := ways * left[symbol] // remaining):
            place -= begins
            symbol += 1
        ways = begins
        left[symbol] -= 1
        found.append(symbol)
    return found
