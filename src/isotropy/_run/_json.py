"""JSON that any reader accepts; JSON from strangers is bounded before it becomes values."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from typing import Any

MOST_BYTES = 32 * 2**20
_BRACKETS, _COMMAS = 400_000, 4_000_000  # a list takes 60 bytes of memory for two in the file
_DIGITS = 4_000  # Python itself reads and writes no more than 4300
# the closing quote may be missing: else a long string without one is searched again and again
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_SHOWN = 60


def json_text(value: object, indent: int | None = None) -> str:
    """Write a value as standard JSON.

    JSON has no spelling for NaN and ±∞; they become ``null``, as they do in JavaScript. Everything
    else must be what JSON knows: dictionaries with string keys, lists, strings, numbers, booleans
    and ``None``.

    Args:
        value: what to write.
        indent: spaces for each level of nesting; ``None`` writes one line.

    Returns:
        The text, without a final newline.

    Raises:
        TypeError: if something in ``value`` has no JSON form.

    Example:
        >>> json_text({"group": "SO⁺(1,3)", "residual": float("nan")})
        '{"group": "SO⁺(1,3)", "residual": null}'
    """
    return json.dumps(_without_nan(value), indent=indent, ensure_ascii=False, allow_nan=False)


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"expected string keys in a JSON object, got {key!r}")
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return value


def utf8_text(content: bytes, what: str) -> str:
    r"""Decode a file that should hold JSON.

    Raises:
        ValueError: If it is too long, or not in UTF-8.

    Example:
        >>> utf8_text(b'"\xff"', "a finding")
        Traceback (most recent call last):
        ...
        ValueError: expected a finding in UTF-8, got byte 1 that is not
    """
    _require_short(content, what)
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"expected {what} in UTF-8, got byte {error.start} that is not") from None


def bounded_json(text: object, what: str, *, finite: bool = True, depth: int = 32) -> Any:
    """Read JSON that anyone may have written.

    Nothing is read before it is known to be text, short enough, and of few enough values that are
    not nested too deeply. Every name stands once in its object; strings are whole Unicode letters.

    Raises:
        ValueError: If it is none of that.

    Example:
        >>> bounded_json('{"order": 6}', "a finding")
        {'order': 6}
        >>> bounded_json("[" * 100_000, "a finding")
        Traceback (most recent call last):
        ...
        ValueError: expected a finding nested at most 32 deep, got deeper JSON
    """
    if not isinstance(text, str):
        raise ValueError(f"expected text as {what}, got {shown(text)}")
    _require_short(text, what)
    _require_bounds(text, what, depth)

    def whole(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise ValueError(
                f"expected numbers of at most {_DIGITS} digits in {what}, got one of {len(digits)}"
            )
        return int(digits)

    def real(digits: str) -> float:
        number = float(digits)
        if finite and not math.isfinite(number):
            raise ValueError(f"expected finite numbers in {what}, got {shown(digits)}")
        return number

    def named(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            ((twice, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise ValueError(f"expected every name once in {what}, got {shown(twice)} twice")
        return found

    try:
        found = json.loads(
            text, parse_int=whole, parse_float=real, parse_constant=real, object_pairs_hook=named
        )
    except json.JSONDecodeError as error:
        raise ValueError(f"expected {what} as JSON, got {error}") from None
    _require_unicode(text, what)
    return found


def shown(value: object) -> str:
    r"""A value from a file as an error repeats it: short, and of printable ASCII.

    Example:
        >>> print(shown("clear\n" * 20))
        'clear\nclear\nclear\nclear\nclear\nclear\nclear\nclear\ncle...
        >>> print(shown([1, "Größe"]), "and", shown([1] * 90))
        [1, 'Gr\xf6\xdfe'] and a list of 90
    """
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list | tuple):
        flat = len(value) < 20 and not any(isinstance(one, dict | list | tuple) for one in value)
        text = f"[{', '.join(map(shown, value))}]" if flat else ""
        return text if 0 < len(text) <= _SHOWN else f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    if isinstance(value, str | bytes):
        value = value[: _SHOWN + 1]
    text = ascii(value)
    return text if len(text) <= _SHOWN + 2 else f"{text[:_SHOWN]}..."


def _require_short(content: str | bytes, what: str) -> None:
    if len(content) > MOST_BYTES:
        raise ValueError(f"expected {what} of at most {MOST_BYTES} bytes, got more")


def _require_bounds(text: str, what: str, most: int) -> None:
    """Refuse text that would take much memory, or much of the stack, to become values."""
    if text.count("[") + text.count("{") <= most and text.count(",") <= _COMMAS:
        return
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
    if deepest > most:
        raise ValueError(f"expected {what} nested at most {most} deep, got deeper JSON")


def _require_unicode(text: str, what: str) -> None:
    """Refuse strings with half of a surrogate pair, which cannot be written again."""
    try:
        text.encode()
        if _HALF.search(text):
            strings = " ".join(one[1:-1] for one in _STRING.findall(text))
            json.loads(f'"{strings}"').encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected Unicode text in {what}, got half of a surrogate pair") from None
