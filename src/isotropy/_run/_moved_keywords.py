"""Keywords that became fields of an options dataclass, and still work, with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


def moved_keywords(**options: type[Any]) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Accept the fields of a function's options as keywords of the function itself.

    Args:
        options: The dataclass of each argument that holds options; all its fields have defaults,
            and the argument may be ``None``.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass(frozen=True)
        ... class Training:
        ...     epochs: int = 100
        >>> @moved_keywords(training=Training)
        ... def fit(rows, *, training=None):
        ...     return (training or Training()).epochs
        >>> fit([], training=Training(epochs=5))
        5
        >>> with warnings.catch_warnings(record=True) as caught:
        ...     warnings.simplefilter("always")
        ...     found = fit([], epochs=7)
        >>> found, str(caught[0].message).split(":")[0]
        (7, 'fit(epochs=…) is now fit(training=Training(epochs=…))')
    """
    places = {
        field.name: (argument, kind) for argument, kind in options.items() for field in fields(kind)
    }

    def decorate(function: Callable[_P, _T]) -> Callable[_P, _T]:
        called = function.__qualname__.removesuffix(".__init__").rpartition(".")[2]

        @wraps(function)
        def call(*args: Any, **keywords: Any) -> _T:
            for name in [name for name in keywords if name in places]:
                argument, kind = places[name]
                now = f"{argument}={kind.__name__}({name}=…)"
                warnings.warn(
                    f"{called}({name}=…) is now {called}({now}): the old way goes in version 0.2",
                    DeprecationWarning,
                    stacklevel=2,
                )
                given = keywords.get(argument)
                value = {name: keywords.pop(name)}
                keywords[argument] = kind(**value) if given is None else replace(given, **value)
            return function(*args, **keywords)

        return call

    return decorate
