"""Numbers of things, checked before they are used."""

from __future__ import annotations


def require_count(n: int, what: str) -> None:
    """Refuse a number of things that is not a positive integer.

    Raises:
        ValueError: If it is not.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise ValueError(f"expected a number of {what} of at least 1, got {n!r}")
