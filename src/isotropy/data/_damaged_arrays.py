"""What numpy raises at a file of arrays that is damaged, and arrays that are refused on reading."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from typing import Any

from numpy.typing import NDArray

# a header is text that Python parses; members are archives of several kinds, and may be encrypted,
# for which zipfile has a RuntimeError, as for compression that it does not know
DAMAGED = (
    ValueError, TypeError, OverflowError, EOFError, MemoryError, RuntimeError, SyntaxError,
    tokenize.TokenError, zipfile.BadZipFile, zlib.error, lzma.LZMAError,
)  # fmt: skip


def require_content(array: NDArray[Any], place: str, what: str) -> None:
    """Refuse entries of no bytes: a header alone would be an array of any length.

    Args:
        array: As read; it occupies nothing yet.
        place: The file.
        what: Which array, in words.

    Raises:
        ValueError: If they have none.

    Example:
        >>> import numpy as np
        >>> require_content(np.ndarray(10**9, "S0"), "a.npz", "an array 'y'")
        Traceback (most recent call last):
        ...
        ValueError: a.npz: expected an array 'y' of numbers or text, got entries of no bytes
    """
    if array.dtype.itemsize == 0:
        raise ValueError(f"{place}: expected {what} of numbers or text, got entries of no bytes")
