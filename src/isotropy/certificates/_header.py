"""The header of a certificate's file: JSON that claims much and is believed in nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from isotropy._run._json import bounded_json, utf8_text

MOST_HEADER = 1 << 16
MOST_MESSAGE = 1 << 18
MOST_ROWS = 1 << 48
_DIGEST = re.compile("[0-9a-f]{64}")
_FIELDS: dict[str, Any] = {
    "claims": dict,
    "data": str,
    "model": str,
    "model_digest": str | None,
    "notes": dict,
}
_CLAIMS: dict[str, Any] = {
    "bound": float,
    "kind": str,
    "errors": int,
    "n": int,
    "delta": float,
    "message_bits": int,
}


class Rejected(ValueError):
    """A certificate, or bytes that claim to be one, does not hold; the message says why."""


def checked_header(content: bytes) -> dict[str, Any]:
    """The header's fields, of the right kinds and in range.

    Raises:
        Rejected: If they are not.

    Example:
        >>> checked_header(b"[1, 2]")
        Traceback (most recent call last):
        ...
        isotropy.certificates._header.Rejected: the certificate's header does not hold ...
    """
    try:
        what = "the certificate's header"
        header = bounded_json(utf8_text(content, what), what)
    except ValueError as error:
        raise Rejected(str(error)) from None
    if not isinstance(header, dict) or set(header) != set(_FIELDS):
        raise Rejected(
            f"the certificate's header does not hold {', '.join(_FIELDS)} and nothing else"
        )
    _check_kinds(header, _FIELDS)
    if set(header["claims"]) != set(_CLAIMS):
        raise Rejected(f"the certificate does not claim {', '.join(_CLAIMS)}")
    _check_kinds(header["claims"], _CLAIMS)
    _check_claims(header["claims"])
    for name in ("data", "model_digest"):
        if header[name] is not None and not _DIGEST.fullmatch(header[name]):
            raise Rejected(f"the certificate's {name} is not a SHA-256")
    if not header["model"].isprintable():
        raise Rejected("the certificate's model holds what cannot be printed")
    test_error = header["notes"].get("test_error", 0.0)
    if not isinstance(test_error, int | float) or not 0 <= test_error <= 1:
        raise Rejected("the certificate's test error is not a share")
    return header


def _check_kinds(table: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for name, kind in expected.items():
        if isinstance(table[name], bool) or not isinstance(table[name], kind):
            raise Rejected(f"the certificate's {name} is of the wrong kind")


def _check_claims(claims: Mapping[str, Any]) -> None:
    if not 0 < claims["delta"] < 1:
        raise Rejected(f"the certificate's delta is {claims['delta']}, not between 0 and 1")
    if not 0 <= claims["bound"] <= 1:
        raise Rejected(f"the certificate's bound is {claims['bound']}, not from 0 to 1")
    if not 1 <= claims["n"] <= MOST_ROWS or not 0 <= claims["errors"] <= claims["n"]:
        raise Rejected("the certificate does not claim a number of errors among some rows")
    if not 0 <= claims["message_bits"] <= 8 * MOST_MESSAGE:
        raise Rejected("the certificate does not claim the length of a message")
