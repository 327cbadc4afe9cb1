"""JSON that any reader accepts: one spelling for the command line and for files."""

import json
import math
from typing import Any


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
