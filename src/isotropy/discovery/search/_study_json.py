"""The JSON that a study may hold: bounded, without repeated names, read before anything else is."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Any

_DEPTH = 32
_DIGITS = 100
# One without an end is a string up to the end, so that no letter is looked at twice.
_STRING = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_SHOWN = 60


def shown(value: object) -> str:
    r"""A value from somebody else as a message may repeat it: short, in printable ASCII.

    Args:
        value: Anything.

    Example:
        >>> print(shown("clear\n" * 20), shown(["Größe"]))
        'clear\nclear\nclear\nclear\nclear\nclear\nclear\nclear\ncle... ['Gr\xf6\xdfe']
    """
    if isinstance(value, str | bytes):
        value = value[: _SHOWN + 1]
    elif isinstance(value, int) and value.bit_length() > 256:
        return f"a number of {value.bit_length()} bits"
    text = ascii(value)
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def parsed(text: object, what: str, *, finite: bool = True) -> Any:
    """Read a text in JSON that somebody else may have written.

    Args:
        text: What should be JSON.
        what: What it is, for the message.
        finite: Whether NaN and infinities are refused; Optuna writes them as Python does.

    Raises:
        ValueError: If it is no JSON, nested too deeply, or holds a name twice, text that is not
            Unicode, or a number that is not finite or of too many digits.

    Example:
        >>> parsed('{"seed": 3}', "a note")
        {'seed': 3}
        >>> parsed("[NaN]", "a note")
        Traceback (most recent call last):
        ...
        ValueError: expected finite numbers in a note, got 'NaN'
    """
    if not isinstance(text, str):
        raise ValueError(f"expected text as {what}, got {shown(text)}")
    if _depth(text) > _DEPTH:
        raise ValueError(f"expected JSON nested at most {_DEPTH} deep as {what}, got a deeper one")

    def integer(digits: str) -> int:
        if len(digits) > _DIGITS:
            raise ValueError(f"expected numbers of at most {_DIGITS} digits in {what}, got more")
        return int(digits)

    def real(digits: str) -> float:
        found = float(digits)
        if finite and not math.isfinite(found):
            raise ValueError(f"expected finite numbers in {what}, got {shown(digits)}")
        return found

    def named(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError(f"expected every name once in {what}, got one more often")
        return found

    try:
        value = json.loads(
            text,
            parse_int=integer,
            parse_float=real,
            parse_constant=real,
            object_pairs_hook=named,
        )
    except json.JSONDecodeError:
        raise ValueError(f"expected JSON as {what}, got {shown(text)}") from None
    if "\\u" in text:
        _require_unicode(value, what)
    return value


def _depth(text: str) -> int:
    """How deeply brackets are nested, those within strings not counted."""
    if text.count("[") + text.count("{") <= _DEPTH:
        return 0
    depth = deepest = 0
    for one in re.findall(r"[\[\]{}]", _STRING.sub("", text)):
        depth += 1 if one in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _require_unicode(value: Any, what: str) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError(f"expected Unicode text in {what}, got half of a surrogate pair") from None
