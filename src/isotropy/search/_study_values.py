"""Single values of a study's rows, each held against what its column may hold."""

from __future__ import annotations

import re
from datetime import datetime

from isotropy._run._json import shown
from isotropy.search._study_notes import is_real

LARGEST = 2**31 - 1
_YEARS = 1970, 2200
_DATE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?", re.ASCII)


def whole(value: object, what: str, least: int = 0) -> int:
    """A whole number that any database can hold.

    Raises:
        ValueError: If it is something else.

    Example:
        >>> whole(-1, "a trial's number")
        Traceback (most recent call last):
        ...
        ValueError: expected a trial's number from 0 to 2147483647, got -1
    """
    if type(value) is not int or not least <= value <= LARGEST:
        raise ValueError(f"expected {what} from {least} to {LARGEST}, got {shown(value)}")
    return value


def check_text(value: object, what: str, longest: int) -> None:
    """Refuse what is no text, or none of a length."""
    if not isinstance(value, str) or not 0 < len(value) <= longest or "\0" in value:
        raise ValueError(f"expected {what} of 1 to {longest} letters, got {shown(value)}")


def check_one_of(value: object, known: tuple[str, ...], what: str) -> None:
    """Refuse a word that is not among those known."""
    if value not in known:
        raise ValueError(f"expected {what} among {', '.join(known)}, got {shown(value)}")


def check_number_of_kind(value: object, kind: str) -> None:
    """Refuse a number that is not of the kind that Optuna keeps beside it.

    Args:
        value: What a column holds: nothing, unless the kind is ``"FINITE"``.
        kind: As Optuna names it.

    Raises:
        ValueError: If it is something else.
    """
    if (kind == "FINITE") != is_real(value) or (kind != "FINITE" and value is not None):
        raise ValueError(f"expected a value of the kind {kind}, got {shown(value)}")


def check_date(value: object) -> None:
    """Refuse a date that SQLAlchemy cannot read, or that no clock could have shown.

    Args:
        value: What a column holds; ``None`` is no date, and not refused.

    Raises:
        ValueError: If it is something else.
    """
    if value is None:
        return
    found = value if isinstance(value, datetime) else None
    if isinstance(value, str) and _DATE.fullmatch(value):
        try:
            found = datetime.fromisoformat(value)
        except ValueError:
            found = None
    if found is None or not _YEARS[0] <= found.year < _YEARS[1]:
        raise ValueError(f"expected a date from {_YEARS[0]} to {_YEARS[1]}, got {shown(value)}")
