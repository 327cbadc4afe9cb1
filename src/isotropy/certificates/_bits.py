"""Whole numbers as bits, and back: what every part of a certificate's message is written with.

Each method of :class:`BitWriter` has a code that no other value's code begins with, and a
method of the same name in :class:`BitReader` that takes exactly those bits. The reader's input
is not trusted: all it does with bad bits is to raise :class:`Rejected`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise

from isotropy.certificates._header import Rejected

# no number of a message is longer than 2^32 bits; more zeros announce one that would be
_MOST_ZEROS = 32


class BitWriter:
    r"""Collects codes, most significant bit first.

    Example:
        >>> writer = BitWriter()
        >>> writer.below(5, 6)
        >>> writer.natural(0)
        >>> writer.choice("sparse", ("dense", "sparse"))
        >>> len(writer), writer.to_bytes()
        (5, b'\xb8')
    """

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def below(self, value: int, limit: int) -> None:
        """Write one of the ``limit`` numbers from 0, in ⌈log₂ limit⌉ bits."""
        value = operator.index(value)
        if not 0 <= value < limit:
            raise ValueError(
                f"expected a number from 0 and below {_short(limit)}, got {_short(value)}"
            )
        self._append(value, width_of(limit))

    def natural(self, value: int) -> None:
        """Write a natural number: Elias' delta code of value + 1."""
        number = operator.index(value) + 1
        if number < 1:
            raise ValueError(f"expected a natural number, got {value}")
        length = number.bit_length()
        zeros = length.bit_length() - 1
        self._append(length, 2 * zeros + 1)
        self._append(number - (1 << (length - 1)), length - 1)

    def choice(self, value: str, options: Sequence[str]) -> None:
        """Write one of a fixed list of names, all equally long."""
        if value not in options:
            raise ValueError(f"expected one of {', '.join(options)}, got {value!r:.80}")
        self.below(options.index(value), len(options))

    def subset(self, chosen: Sequence[int], limit: int) -> None:
        """Write k different numbers below ``limit``, in ⌈log₂ C(limit, k)⌉ bits.

        The reader knows k. Written is the set's place among all,
        Σᵢ C(cᵢ, i) for c₁ < c₂ < … (the combinatorial number system).

        Raises:
            ValueError: If they are not ascending numbers in that range.
        """
        bounded = [-1, *chosen, limit]
        if any(a >= b for a, b in pairwise(bounded)):
            raise ValueError(
                f"expected ascending numbers from 0 and below {limit}, got {list(chosen)!r:.80}"
            )
        place = sum(math.comb(operator.index(c), i) for i, c in enumerate(chosen, 1))
        self.below(place, math.comb(limit, len(chosen)))

    def bits(self, text: str) -> None:
        """Write bits given as the characters 0 and 1."""
        if set(text) - {"0", "1"}:
            raise ValueError(f"expected the characters 0 and 1, got {text!r:.80}")
        self._pieces.append(text)
        self._length += len(text)

    def to_bytes(self) -> bytes:
        """All bits so far, filled up with zeros to whole bytes."""
        text = "".join(self._pieces)
        size = -(-len(text) // 8)
        return int(text.ljust(8 * size, "0") or "0", 2).to_bytes(size)

    def _append(self, value: int, width: int) -> None:
        if width:
            self._pieces.append(f"{value:0{width}b}")
            self._length += width


class BitReader:
    r"""Takes codes back from bytes that may be anything.

    Every method raises :class:`Rejected` where the bits end too early or are not a code, and
    allocates no more than a few times the bytes it reads.

    Example:
        >>> reader = BitReader(b"\xb8")
        >>> reader.below(6), reader.natural(), reader.choice(("dense", "sparse"))
        (5, 0, 'sparse')
        >>> reader.finish()
    """

    def __init__(self, data: bytes) -> None:
        self._data = bytes(data)
        self._position = 0

    @property
    def position(self) -> int:
        """How many bits were read."""
        return self._position

    @property
    def remaining(self) -> int:
        """How many bits are left, the padding included."""
        return 8 * len(self._data) - self._position

    def below(self, limit: int) -> int:
        r"""Read one of the ``limit`` numbers from 0."""
        if limit < 1:
            raise ValueError(f"expected a limit of at least 1, got {limit}")
        value = self._take(width_of(limit))
        if value >= limit:
            raise Rejected(f"expected a number below {_short(limit)}, got one that is not")
        return value

    def natural(self, limit: int | None = None) -> int:
        r"""Read a natural number."""
        zeros = 0
        while not self._take(1):
            zeros += 1
            if zeros > _MOST_ZEROS:
                raise Rejected(f"expected a number of at most 2^{_MOST_ZEROS} bits, got a longer")
        length = 1 << zeros | self._take(zeros)
        if limit is None or length <= (limit + 1).bit_length():
            # the digits before the power of two: they may not be there
            digits = self._take(length - 1)
            value = (1 << (length - 1) | digits) - 1
            if limit is None or value <= limit:
                return value
        raise Rejected(f"expected a number of at most {_short(limit)}, got a larger one")

    def choice(self, options: Sequence[str]) -> str:
        """Read one of a fixed list of names."""
        return options[self.below(len(options))]

    def subset(self, count: int, limit: int) -> list[int]:
        """Read a set of ``count`` numbers below ``limit``, ascending.

        Both arguments are trusted: what they cost is at most that of C(limit, count).

        Raises:
            ValueError: If there are not so many.
        """
        if not 0 <= count <= limit:
            raise ValueError(f"expected from 0 to {limit} numbers below {limit}, got {count}")
        place = self.below(math.comb(limit, count))
        chosen = []
        for i in range(count, 0, -1):
            low, high = i - 1, limit  # C(low, i) <= place < C(high, i)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if math.comb(middle, i) <= place else (low, middle)
            place -= math.comb(low, i)
            chosen.append(low)
            limit = low
        return chosen[::-1]

    def bits(self, count: int) -> str:
        """Read bits as the characters 0 and 1."""
        return f"{self._take(count):0{count}b}" if count else ""

    def peek(self, count: int) -> str:
        """The next bits, at most ``count`` and fewer where the bytes end, without reading them."""
        start = self._position
        text = self.bits(min(count, self.remaining))
        self._position = start
        return text

    def finish(self) -> None:
        """Require that nothing is left but the zeros that fill up the last byte."""
        if self.remaining >= 8 or self._take(self.remaining):
            raise Rejected("expected the end of the message, got more bits")

    def _take(self, count: int) -> int:
        if count > self.remaining:
            raise Rejected(f"expected {_short(count)} more bits, got the end of the message")
        end = self._position + count
        covering = int.from_bytes(self._data[self._position // 8 : -(-end // 8)])
        self._position = end
        return covering >> (-end % 8) & ((1 << count) - 1)


def width_of(limit: int) -> int:
    """How many bits one of ``limit`` numbers takes: ⌈log₂ limit⌉.

    Example:
        >>> [width_of(limit) for limit in (1, 2, 3, 4, 5)]
        [0, 1, 2, 2, 3]
    """
    return (limit - 1).bit_length()


def _short(number: int) -> str:
    return str(number) if number < 10**18 else f"2^{number.bit_length() - 1}"
