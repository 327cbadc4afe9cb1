"""Arrays in npz files: some rows read block by block, and what numpy raises at damaged ones."""

from __future__ import annotations

import lzma
import tokenize
import zipfile
import zlib
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from isotropy.data._intake import Rows

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


_BYTES_AT_ONCE = 1 << 24


def stored_length(archive: zipfile.ZipFile, name: str) -> int | None:
    """How many rows an array has; ``None`` where it does not lie there row by row."""
    if f"{name}.npy" not in archive.namelist():
        return None
    with archive.open(f"{name}.npy") as file:
        header = _header(file)
    return None if header is None else int(header[0][0])


def stored_rows(archive: zipfile.ZipFile, name: str, rows: Rows) -> NDArray[Any]:
    """Read the chosen rows.

    The archive is read to its end, so that its checksum is compared.

    Args:
        archive: An npz file.
        name: The name of an array, without ``.npy``.
        rows: Which rows, in order.

    Raises:
        ValueError: If it holds no array of rows.
    """
    with archive.open(f"{name}.npy") as file:
        header = _header(file)
        if header is None:
            raise ValueError(f"expected an array of rows as {name!r}, got another kind")
        shape, kind = header
        chosen = np.empty((len(rows), *shape[1:]), kind)
        row_bytes = kind.itemsize * int(np.prod(shape[1:], dtype=object))
        at_once = max(1, _BYTES_AT_ONCE // max(1, row_bytes))
        for start in range(0, shape[0], at_once):
            count = min(at_once, shape[0] - start)
            content = _exactly(file, count * row_bytes)
            block = np.frombuffer(content, kind).reshape(count, *shape[1:])
            first, last = np.searchsorted(rows, (start, start + count))
            chosen[first:last] = block[rows[first:last] - start]
        file.read()
    return chosen


def _exactly(file: IO[bytes], count: int) -> bytes:
    content = file.read(count)
    if len(content) != count:
        raise EOFError(f"{count - len(content)} bytes are missing")
    return content


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and kind of numbers, where they lie in order of rows and are plain."""
    version = npy_format.read_magic(file)
    if version == (1, 0):
        shape, by_columns, kind = npy_format.read_array_header_1_0(file)
    elif version == (2, 0):
        shape, by_columns, kind = npy_format.read_array_header_2_0(file)
    else:
        return None
    if not shape or (by_columns and len(shape) > 1) or kind.kind not in "biufU":
        return None
    if 0 in shape or kind.itemsize == 0:
        return None
    return shape, kind
