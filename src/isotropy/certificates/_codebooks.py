"""The levels that quantised weights take: a set of 16-bit numbers, coded as a set.

There are 63487 finite numbers in half precision (0 and -0 are one). A set of L of them takes
⌈log₂ C(63487, L)⌉ bits, fewer than 16·L; a set that holds -c with every c takes
⌈log₂ C(31743, ⌊L/2⌋)⌉. One bit says which.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from isotropy.certificates._bits import BitReader, BitWriter
from isotropy.certificates._header import Rejected
from isotropy.certificates._sequences import MOST_LEVELS

# the bit patterns of the positive finite numbers are 1, 2, … in ascending order
_POSITIVE = 0x7BFF
_FINITE = 2 * _POSITIVE + 1


def write_codebook(writer: BitWriter, levels: NDArray[np.float16]) -> None:
    """Write a codebook; the reader knows how many levels it has.

    Raises:
        ValueError: If they are not.

    Example:
        >>> writer = BitWriter()
        >>> write_codebook(writer, np.array([-1, 0, 0.5], np.float16))
        >>> len(writer)
        47
        >>> write_codebook(writer, np.array([-1, 0, 1], np.float16))
        >>> len(writer) - 47
        16
    """
    numbers = _numbers(levels)
    symmetric = _is_symmetric(numbers)
    writer.below(symmetric, 2)
    if symmetric:
        positive = [n - 1 for n in numbers if n > 0]
        writer.subset(positive, _POSITIVE)
    else:
        writer.subset([n + _POSITIVE for n in numbers], _FINITE)


def read_codebook(reader: BitReader, count: int) -> NDArray[np.float16]:
    """Read a codebook of ``count`` levels, at most ``MOST_LEVELS``.

    Raises:
        Rejected: If there are too many, or the bits are not the code of a codebook.

    Example:
        >>> writer = BitWriter()
        >>> write_codebook(writer, np.array([-1, 0, 0.5], np.float16))
        >>> read_codebook(BitReader(writer.to_bytes()), 3)
        array([-1. ,  0. ,  0.5], dtype=float16)
    """
    if not 1 <= count <= MOST_LEVELS:
        raise Rejected(f"expected from 1 to {MOST_LEVELS} levels, got a number outside")
    if reader.below(2):
        positive = [n + 1 for n in reader.subset(count // 2, _POSITIVE)]
        numbers = [-n for n in reversed(positive)] + [0] * (count % 2) + positive
    else:
        numbers = [n - _POSITIVE for n in reader.subset(count, _FINITE)]
        if _is_symmetric(numbers):
            raise Rejected("expected the shorter code of a symmetric codebook, got the longer one")
    patterns = [n if n >= 0 else 0x8000 - n for n in numbers]
    return np.array(patterns, np.uint16).view(np.float16)


def _numbers(levels: NDArray[Any]) -> list[int]:
    """Each level's place among the finite numbers, counted from zero in both directions."""
    if not isinstance(levels, np.ndarray) or levels.dtype != np.float16 or levels.ndim != 1:
        raise ValueError(f"expected a vector of float16 levels, got {levels!r:.80}")
    if not 1 <= len(levels) <= MOST_LEVELS:
        raise ValueError(f"expected from 1 to {MOST_LEVELS} levels, got {len(levels)}")
    if not np.isfinite(levels).all() or (np.diff(levels.astype(np.float64)) <= 0).any():
        raise ValueError(f"expected finite ascending levels, got {levels.tolist()!r:.80}")
    patterns = levels.view(np.uint16).astype(np.int64)
    magnitudes = patterns & 0x7FFF
    numbers: list[int] = np.where(patterns >> 15, -magnitudes, magnitudes).tolist()
    return numbers


def _is_symmetric(numbers: list[int]) -> bool:
    return all(a == -b for a, b in zip(numbers, reversed(numbers), strict=True))
