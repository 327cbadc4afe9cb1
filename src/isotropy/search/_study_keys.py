"""The keys that tell children apart, as a grammar."""

from __future__ import annotations

import re
from typing import NamedTuple

from isotropy._run._json import shown

_LONGEST = 2000
_STATE = r"((?:[a-z][a-z ]*(?:\+[a-z][a-z ]*)*)?)/(0|[1-9][0-9]{0,5})"
_KEY = re.compile(rf"{_STATE}(?:@([1-9][0-9]{{0,8}}))?(?:<{_STATE})?")


class KeyParts(NamedTuple):
    """What a key says.

    Args:
        groups: Names of the state's groups.
        hidden: Which choice of hidden grids.
        epochs: Passes through the training rows, where it says so.
        start: Groups and hidden grids of the state it starts from, where it does.
    """

    groups: tuple[str, ...]
    hidden: int
    epochs: int | None
    start: tuple[tuple[str, ...], int] | None


def key_parts(key: object) -> KeyParts:
    """Take a key apart, as `ChildProposal.key` puts it together.

    Raises:
        ValueError: If it is not of that form.

    Example:
        >>> key_parts("rotation+vertical flip/0@1</0")
        KeyParts(groups=('rotation', 'vertical flip'), hidden=0, epochs=1, start=((), 0))
    """
    found = _KEY.fullmatch(key) if isinstance(key, str) and len(key) <= _LONGEST else None
    if found is None:
        raise ValueError(f"expected a child's key such as 'rotation/0@1</0', got {shown(key)}")
    groups, hidden, epochs, start, start_hidden = found.groups()
    return KeyParts(
        _names(groups),
        int(hidden),
        None if epochs is None else int(epochs),
        None if start_hidden is None else (_names(start), int(start_hidden)),
    )


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split("+")) if text else ()
