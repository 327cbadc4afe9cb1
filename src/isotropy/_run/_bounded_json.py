"""JSON from strangers: its length, depth and numbers are bounded before it becomes values."""

import json
import math
import re
from collections import Counter
from typing import Any, NoReturn

MOST_BYTES = 32 * 2**20
_DEPTH = 32
_BRACKETS, _COMMAS = 400_000, 4_000_000  # a list takes 60 bytes of memory for two in the file
_DIGITS = 4_000  # Python itself reads and writes no more than 4300
# the closing quote may be missing: else a long string without one is searched again and again
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SHOWN = 60


def bounded_json(content: bytes, what: str) -> Any:
    """Read JSON that anyone may have written.

    Nothing is read before it is known to be short enough, nested no deeper than 32 brackets and of
    few enough values. Every name stands once in its object; every number is finite.

    Args:
        content: The bytes of a file.
        what: What it should be, for the error: "a finding in 'folder/finding.json'".

    Raises:
        ValueError: If it is none of that.

    Example:
        >>> bounded_json(b'{"order": 6}', "a finding")
        {'order': 6}
        >>> bounded_json(b"[" * 100_000, "a finding")
        Traceback (most recent call last):
        ...
        ValueError: expected a finding nested at most 32 deep, got deeper JSON
    """
    if len(content) > MOST_BYTES:
        raise ValueError(f"expected {what} of at most {MOST_BYTES} bytes, got more")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"expected {what} in UTF-8, got byte {error.start} that is not") from None
    _require_bounds(text, what)

    def whole(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise _refused(f"numbers of at most {_DIGITS} digits", f"one of {len(digits)}")
        return int(digits)

    def real(digits: str) -> float:
        number = float(digits)
        if not math.isfinite(number):
            raise _refused("finite numbers", digits)
        return number

    def constant(name: str) -> NoReturn:
        raise _refused("finite numbers", name)

    def named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            twice = next(
                name for name, many in Counter(name for name, _ in pairs).items() if many > 1
            )
            raise _refused("every name once", f"{shown(twice)} twice")
        return found

    def _refused(expected: str, got: str) -> _Refused:
        return _Refused(f"expected {expected} in {what}, got {got:.60}")

    try:
        return json.loads(
            text,
            parse_int=whole,
            parse_float=real,
            parse_constant=constant,
            object_pairs_hook=named,
        )
    except _Refused as error:
        raise ValueError(str(error)) from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"expected {what} as JSON, got {error!s:.200}") from None


class _Refused(Exception):
    """What a rule of ours says, apart from what the parser says."""


def shown(value: object) -> str:
    """A value from a file as an error repeats it: short, and of printable ASCII.

    Example:
        >>> shown("red" * 100), shown([1] * 9)
        ("'redredredredredredredredredredredredredredredredredredredre...", 'a list of 9')
    """
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list | tuple):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str):
        value = value[: _SHOWN + 1]
    text = ascii(value)
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}..."


def _require_bounds(text: str, what: str) -> None:
    """Refuse text that would take much memory, or much of the stack, to become values."""
    bare = _STRING.sub("", text)
    brackets, commas = bare.count("[") + bare.count("{"), bare.count(",")
    if brackets > _BRACKETS or commas > _COMMAS:
        raise ValueError(
            f"expected {what} of at most {_BRACKETS} lists and {_COMMAS} values, got more"
        )
    depth = deepest = 0
    for one in re.finditer(r"[\[\]{}]", bare):
        depth += 1 if one[0] in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > _DEPTH:
        raise ValueError(f"expected {what} nested at most {_DEPTH} deep, got deeper JSON")
