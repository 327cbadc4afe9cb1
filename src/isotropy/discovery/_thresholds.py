"""What a search was tuned by: a frozen dataclass for each stage, replaced whole to measure it.

A field's comment says what it trades, and which benchmark set it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

_NONE: Mapping[type, Any] = MappingProxyType({})
_REPLACED: ContextVar[Mapping[type, Any]] = ContextVar("replaced thresholds", default=_NONE)


@dataclass(frozen=True)
class Thresholds:
    """The thresholds of a stage: subclasses are frozen dataclasses whose fields have defaults.

    Example:
        >>> @dataclass(frozen=True)
        ... class Sieve(Thresholds):
        ...     mesh: float = 0.1  # a finer one lets less through; a doctest set it
        >>> with replaced(Sieve(mesh=0.2)):
        ...     Sieve.now().mesh
        0.2
        >>> Sieve.now().mesh
        0.1
    """

    @classmethod
    def now(cls) -> Self:
        """Those in force: the defaults, unless ``replaced``."""
        found: Self | None = _REPLACED.get().get(cls)
        return cls() if found is None else found


@contextmanager
def replaced(*thresholds: Thresholds) -> Iterator[None]:
    """Other thresholds within the block, for benchmarks that ask what each of them does."""
    token = _REPLACED.set({**_REPLACED.get(), **{type(one): one for one in thresholds}})
    try:
        yield
    finally:
        _REPLACED.reset(token)
