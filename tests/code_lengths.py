"""The lengths of codebooks and sequences in a certificate's message, by closed forms."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**15
POSITIVE_HALVES = 31743


def codebook_bits(levels: NDArray[np.float16]) -> int:
    """One bit, and the number of a set of levels, or of the positive ones of a symmetric set."""
    values = levels.tolist()
    if values == [-value for value in reversed(values)]:
        return 1 + width(math.comb(POSITIVE_HALVES, len(values) // 2))
    return 1 + width(math.comb(2 * POSITIVE_HALVES + 1, len(values)))


def sequence_bits(symbols: Sequence[int] | NDArray[np.int64], levels: int) -> int:
    """Block by block one bit, the counts and the arrangement, plain or mirrored."""
    blocks = [symbols[start : start + BLOCK] for start in range(0, len(symbols), BLOCK)]
    return sum(counts_bits(np.bincount(block, minlength=levels).tolist()) for block in blocks)


def counts_bits(counts: Sequence[int]) -> int:
    """The same of one block, from how often each symbol occurs in it."""
    levels = len(counts)
    if levels == 1:
        return 0
    pairs = [counts[i] + counts[-1 - i] for i in range(levels // 2)]
    middle = [counts[levels // 2]] * (levels % 2)
    return 1 + min(_arranged(counts), _arranged([*middle, *pairs]) + sum(pairs))


def width(limit: int) -> int:
    """How many bits one of ``limit`` numbers takes."""
    return (limit - 1).bit_length()


def _arranged(counts: Sequence[int]) -> int:
    size, bars = sum(counts), len(counts) - 1
    arrangements = math.factorial(size)
    for count in counts:
        arrangements //= math.factorial(count)
    return width(math.comb(size + bars, bars)) + width(arrangements)
